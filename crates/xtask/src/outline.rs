//! The outline of the documents. README.md lists the pages by kind; a page that has a directory of
//! its name is followed by the pages in it.

use std::collections::BTreeMap;

/// The page that lists the others.
const INDEX: &str = "README.md";
const HEADING: &str = "## Documentation";

/// Pages of one kind.
pub(crate) struct Part<'a> {
    pub(crate) title: String,
    pub(crate) pages: Vec<Page<'a>>,
}

/// A page, by its path from the root.
pub(crate) struct Page<'a> {
    pub(crate) path: &'a str,
    pub(crate) children: Vec<&'a str>,
}

/// Returns the parts of the outline, in the order of README.md. `files` are the texts of the tree.
pub(crate) fn outline(files: &BTreeMap<String, String>) -> Vec<Part<'_>> {
    let readme = files.get(INDEX).map_or("", String::as_str);
    let list = readme.split_once(HEADING).map_or("", |(_, list)| list);
    let list = list.split("\n## ").next().unwrap_or_default();
    let listed: Vec<&str> = list.lines().flat_map(pages).collect();
    let mut parts: Vec<Part> = Vec::new();
    for line in list.lines() {
        let title = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" | |"));
        if let Some(title) = title.filter(|title| !title.contains('[')) {
            parts.push(Part { title: capital(title), pages: Vec::new() });
        } else if !line.starts_with('|') && pages(line).next().is_some() {
            // The paragraph after the tables.
            if parts.last().is_none_or(|part| part.title != "Project") {
                parts.push(Part { title: "Project".into(), pages: Vec::new() });
            }
        }
        let Some(part) = parts.last_mut() else { continue };
        for path in pages(line) {
            let inside = path.strip_suffix("README.md").map(str::to_owned);
            let inside = inside.unwrap_or_else(|| path.replace(".md", "/"));
            let children = files.keys().map(String::as_str).filter(|page| {
                page.starts_with(&inside) && page.ends_with(".md") && !listed.contains(page)
            });
            part.pages.push(Page { path, children: children.collect() });
        }
    }
    parts
}

/// Returns the targets of the links in `text` that lead into this tree.
pub(crate) fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|link| link.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// Returns the path from the root of `link`, which is relative to the folder of the file `from`.
pub(crate) fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        if part == ".." {
            parts.pop();
        } else if part != "." {
            parts.push(part);
        }
    }
    parts.join("/")
}

fn pages(line: &str) -> impl Iterator<Item = &str> {
    links(line).filter(|target| target.ends_with(".md"))
}

fn capital(word: &str) -> String {
    let (first, tail) = word.split_at(word.len().min(1));
    first.to_uppercase() + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_the_order_of_the_list_with_those_of_their_directory() {
        let readme = "# A\n\n[x](docs/x.md)\n\n## Documentation\n\n| how-to | |\n|---|---|\n\
                      | [b](docs/b.md), [a](docs/a.md) | texts |\n\n| results | |\n|---|---|\n\
                      | [r](results/README.md), [two](docs/b/two.md) | |\n\n[S](S.md) is\n\
                      [T](T.md).\n\n## Licence\n\n[L](L.md)\n";
        let names = ["docs/b/one.md", "docs/b/two.md", "docs/bb.md", "results/data.csv"];
        let names = names.into_iter().chain(["results/README.md", "results/table.md"]);
        let mut files: BTreeMap<String, String> =
            names.map(|name| (name.to_owned(), String::new())).collect();
        files.insert(INDEX.to_owned(), readme.to_owned());
        let parts: Vec<String> = outline(&files)
            .iter()
            .map(|part| {
                let pages = part.pages.iter().map(|it| format!("{}{:?}", it.path, it.children));
                format!("{}: {}", part.title, pages.collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(
            parts,
            [
                r#"How-to: docs/b.md["docs/b/one.md"] docs/a.md[]"#,
                r#"Results: results/README.md["results/table.md"] docs/b/two.md[]"#,
                "Project: S.md[] T.md[]",
            ]
        );
    }
}
