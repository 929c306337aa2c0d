//! Rules for the documentation as a whole: links to headings, and the kind of each page.

use std::collections::BTreeMap;

use super::finding::Findings;
use crate::outline::{links, outline, resolve};

/// Beginnings of the first paragraph of a page in `docs`.
const KINDS: &[&str] = &["**Tutorial.**", "**How-to.**", "**Reference.**", "**Explanation.**"];

/// Folders whose paths documents name.
const TREES: &[&str] =
    &[".ci/", "crates/", "docs/", "experiments/", "kernels/", "machines/", "results/", "tests/"];

/// Checks all pages; `exists` answers for a path from the root.
pub(crate) fn check(
    findings: &mut Findings,
    files: &BTreeMap<String, String>,
    exists: impl Fn(&str) -> bool,
) {
    // The changelog names files and headings that existed when its entry was written.
    let pages = files.iter().filter(|(path, _)| path.ends_with(".md") && *path != "CHANGELOG.md");
    for (path, text) in pages {
        findings.begin(path);
        check_links(findings, path, text, files, &exists);
        check_paths(findings, text, &exists);
        check_functions(findings, text, files);
        if path == "CONTRIBUTING.md" {
            check_changes(findings, text);
        }
        if path.starts_with("docs/") {
            kind(findings, text);
        }
    }
    unlisted(findings, files);
}

/// Reports pages that are in no part of the outline: no reader and no book would find them.
fn unlisted(findings: &mut Findings, files: &BTreeMap<String, String>) {
    let parts = outline(files);
    let pages = parts.iter().flat_map(|part| &part.pages);
    let listed: Vec<&str> =
        pages.flat_map(|page| [&[page.path][..], &page.children].concat()).collect();
    for path in files.keys().filter(|path| path.ends_with(".md")) {
        let is_public = path.starts_with("docs/") || path.starts_with("results/");
        if is_public && !listed.contains(&path.as_str()) {
            findings.begin(path);
            findings.add(0, "unlisted-page", "list it under Documentation in README.md");
        }
    }
}

/// Reports links to files that do not exist, and to headings that a page does not have.
fn check_links(
    findings: &mut Findings,
    path: &str,
    text: &str,
    files: &BTreeMap<String, String>,
    exists: impl Fn(&str) -> bool,
) {
    for (index, line) in text.lines().enumerate() {
        for link in links(line) {
            let (page, anchor) = link.split_once('#').unwrap_or((link, ""));
            let page = if page.is_empty() { path.to_owned() } else { resolve(path, page) };
            let target = files.get(&page).filter(|_| page.ends_with(".md") && !anchor.is_empty());
            if !files.contains_key(&page) && !exists(&page) {
                findings.add(index, "dead-path", format!("{link} does not exist: correct it"));
            } else if target.is_some_and(|text| headings(text).all(|heading| heading != anchor)) {
                findings.add(index, "dead-anchor", format!("{page} has no heading {anchor}"));
            }
        }
    }
}

/// Reports functions that a page names as `FILE::FUNCTION` and that the file does not have.
fn check_functions(findings: &mut Findings, text: &str, files: &BTreeMap<String, String>) {
    for (index, line) in text.lines().enumerate() {
        for quoted in line.split('`').skip(1).step_by(2) {
            let Some((path, function)) = quoted.split_once(".rs::") else { continue };
            let path = format!("{path}.rs");
            let head = format!("fn {function}(");
            if files.get(&path).is_some_and(|source| !source.contains(&head)) {
                findings.add(index, "dead-test", format!("{path} has no function {function}"));
            }
        }
    }
}

/// Reports rows of the tables of changes that name nothing to change or nothing that tests it.
fn check_changes(findings: &mut Findings, text: &str) {
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with("| add "));
    for (index, row) in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        if cells.len() != 3 || cells.iter().any(|cell| cell.trim().is_empty()) {
            findings.add(index, "change", "name the files to change and the tests of the change");
        }
    }
}

/// Returns whether a part of a path stands for any name, as in `tests/NAME.rs`.
fn is_placeholder(part: &str) -> bool {
    part.len() > 1 && part.chars().all(|letter| letter.is_ascii_uppercase())
}

/// The documents are maps: each path of this tree that they name must exist. `exists` answers for a
/// path from the root.
fn check_paths(findings: &mut Findings, text: &str, exists: impl Fn(&str) -> bool) {
    for (index, line) in text.lines().enumerate() {
        for quoted in line.split('`').skip(1).step_by(2) {
            // The function of `FILE::FUNCTION` is not part of the path.
            let quoted = quoted.split_once("::").map_or(quoted, |(file, _)| file);
            let is_pattern = quoted.contains(|letter: char| " *<>{}$…".contains(letter))
                || quoted.split(['/', '.']).any(is_placeholder);
            let in_tree = TREES.iter().any(|tree| quoted.starts_with(tree));
            if in_tree && !is_pattern && !exists(quoted) {
                findings.add(index, "dead-path", format!("{quoted} does not exist: correct it"));
            }
        }
    }
}

/// Returns the anchors of a page: its headings in lower case, with hyphens and without punctuation.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut fenced = false;
    text.lines().filter_map(move |line| {
        fenced ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        let heading = !fenced && title.len() < line.len() && title.starts_with(' ');
        heading.then(|| {
            let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
    })
}

/// Reports a page if its first paragraph does not name its kind.
fn kind(findings: &mut Findings, text: &str) {
    let first = text.lines().enumerate().skip(1).find(|(_, line)| !line.is_empty());
    let (index, line) = first.unwrap_or_default();
    if !KINDS.iter().any(|kind| line.starts_with(kind)) {
        let cure = format!("begin the first paragraph with one of {}", KINDS.join(", "));
        findings.add(index, "page-kind", cure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(pages: &[(&str, &str)]) -> Vec<String> {
        let index = ("README.md", "## Documentation\n\n[a](docs/a.md) [r](results/README.md)\n");
        let exist = ["crates/a/tests/b.rs", "docs/a.md", "docs/here.svg", "results/README.md"];
        let files = pages.iter().chain([&index]);
        let files = files.map(|&(path, text)| (path.to_owned(), text.to_owned()));
        let mut findings = Findings::default();
        check(&mut findings, &files.collect(), |path| exist.contains(&path));
        findings.list.iter().map(|it| format!("{}:{} {}", it.file, it.line, it.rule)).collect()
    }

    #[test]
    fn links_lead_to_headings() {
        let target = ("docs/a.md", "# A\n\n**Reference.** Text.\n\n## `It's` a 2nd, heading\n");
        let good = "[x](docs/a.md#its-a-2nd-heading) [y](#own) [z](https://a.b/c.md#d)\n\n# Own\n";
        assert_eq!(rules(&[target, ("B.md", good)]), [""; 0]);
        let up = ("results/c.md", "[x](../docs/a.md#gone)\n");
        assert_eq!(rules(&[target, up]), ["results/c.md:1 dead-anchor"]);
        assert_eq!(rules(&[("B.md", "[y](#own)\n```\n# Own\n```\n")]), ["B.md:1 dead-anchor"]);
        assert_eq!(rules(&[target, ("CHANGELOG.md", "[x](docs/a.md#gone)\n")]), [""; 0]);
    }

    #[test]
    fn documents_name_what_exists() {
        let good = "`docs/here.svg` `crates/*/src` `tests/NAME.rs` `x/y` [b](docs/here.svg)\n";
        assert_eq!(rules(&[("A.md", good)]), [""; 0]);
        assert_eq!(rules(&[("A.md", "`docs/gone.md`\n")]), ["A.md:1 dead-path"]);
        assert_eq!(rules(&[("A.md", "[a](gone.md)\n")]), ["A.md:1 dead-path"]);
        let inside = ("results/a.md", "[a](../docs/here.svg)\n");
        assert_eq!(rules(&[inside]), [""; 0]);
    }

    #[test]
    fn changes_name_files_and_tests_that_exist() {
        let source = ("crates/a/tests/b.rs", "#[test]\nfn it_holds() {}\n");
        let good = "`crates/a/tests/b.rs::it_holds` `a::b`\n";
        assert_eq!(rules(&[source, ("A.md", good)]), [""; 0]);
        let gone = ("A.md", "`crates/a/tests/b.rs::it_held`\n");
        assert_eq!(rules(&[source, gone]), ["A.md:1 dead-test"]);
        let row = |tests: &str| rules(&[("CONTRIBUTING.md", tests)]);
        assert_eq!(row("| add a lock | a file | a test |\n"), [""; 0]);
        assert_eq!(row("| add a lock | a file | |\n"), ["CONTRIBUTING.md:1 change"]);
    }

    #[test]
    fn pages_name_their_kind() {
        assert_eq!(rules(&[("docs/a.md", "# A\n\n**How-to.** Text.\n")]), [""; 0]);
        assert_eq!(rules(&[("docs/a.md", "# A\n\nText.\n")]), ["docs/a.md:3 page-kind"]);
        assert_eq!(rules(&[("results/a.md", "# A\n\nText.\n")]), [""; 0]);
    }

    #[test]
    fn pages_are_listed() {
        let text = "# A\n\n**How-to.** Text.\n";
        assert_eq!(rules(&[("docs/a/sub.md", text), ("crates/b.md", text)]), [""; 0]);
        assert_eq!(rules(&[("docs/b.md", text)]), ["docs/b.md:1 unlisted-page"]);
    }
}
