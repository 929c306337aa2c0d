//! Rules for every text file.

use super::finding::Findings;

const COLUMNS: usize = 100;

/// Folders in which a developer's tree may lie; built up here so that this file obeys its own rule.
const MACHINE_FOLDERS: &[&str] = &["work", "farm", "home", "root", "Users"];

pub(crate) fn check(findings: &mut Findings, path: &str, text: &str) {
    // Expected output and licences are not reformatted.
    let golden = path.starts_with("tests/golden/") && !path.ends_with(".toml");
    // Thread dumps are as Java writes them.
    let verbatim = golden || path.ends_with(".snap") || path.contains("/tests/dumps/");
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        fenced ^= path.ends_with(".md") && line.starts_with("```");
        if let Some(folder) = machine_path(line) {
            findings.add(
                index,
                "machine-path",
                format!("say it without the absolute path {folder}"),
            );
        }
        if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
            findings.add(index, "conflict-marker", "finish the merge");
        }
        if verbatim {
            continue;
        }
        if line.contains('\t') {
            findings.add(index, "tab", "indent and align with spaces");
        }
        if line.ends_with(' ') {
            findings.add(index, "trailing-space", "delete it");
        }
        let columns = line.chars().count();
        // A fenced block of a document shows output as it is.
        if columns > COLUMNS && !fenced && counts_columns(path, line) {
            findings.add(
                index,
                "columns",
                format!("break the line: {columns} columns of {COLUMNS}"),
            );
        }
    }
    if !verbatim && !text.is_empty() && !text.ends_with('\n') {
        findings.add(text.lines().count() - 1, "final-newline", "end the file with a newline");
    }
}

/// Source and prose are read side by side with something else; tables of data and links are not.
fn counts_columns(path: &str, line: &str) -> bool {
    let table = line.trim_start_matches(['/', '!', ' ']).starts_with("| ");
    let prose = path.ends_with(".md") && !line.contains("://");
    let source = path.ends_with(".rs") || path.ends_with(".sh") || path.starts_with(".ci/");
    (prose || source) && !table
}

/// Returns the first absolute path of a developer's machine in `line`.
fn machine_path(line: &str) -> Option<String> {
    let folders = MACHINE_FOLDERS.iter().map(|folder| format!("/{folder}/"));
    folders.chain([format!("/tmp/{}", "bash")]).find(|path| {
        line.match_indices(path.as_str()).any(|(at, _)| {
            // A folder of that name inside a relative path is not a home directory.
            !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-*}".contains(c))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let rules = Findings::rules(|findings| check(findings, path, text));
        rules.into_iter().map(|(_, rule)| rule).collect()
    }

    #[test]
    fn white_space() {
        assert_eq!(rules("a.rs", "fn a() {}\n"), [""; 0]);
        assert_eq!(rules("a.rs", "\tfn a() {} \n"), ["tab", "trailing-space"]);
        assert_eq!(rules("a.rs", "fn a() {}"), ["final-newline"]);
        assert_eq!(rules("tests/golden/a.txt", "a\t \n"), [""; 0]);
        assert_eq!(rules("crates/report/src/snapshots/a.snap", "a \n"), [""; 0]);
    }

    #[test]
    fn merges_are_finished() {
        assert_eq!(rules("a.rs", "a << b;\n"), [""; 0]);
        assert_eq!(rules("a.rs", "<<<<<<< HEAD\na\n=======\n"), ["conflict-marker"]);
    }

    #[test]
    fn columns_count_characters_of_source_and_prose() {
        let wide = format!("// {}\n", "é".repeat(97));
        assert_eq!(rules("a.rs", &wide), [""; 0]);
        let wider = format!("// {}\n", "é".repeat(98));
        assert_eq!(rules("a.rs", &wider), ["columns"]);
        assert_eq!(rules("a.md", &wider), ["columns"]);
        assert_eq!(rules("a.toml", &wider), [""; 0]);
        assert_eq!(rules("a.rs", &format!("//! | {} |\n", "x".repeat(100))), [""; 0]);
        assert_eq!(rules("a.md", &format!("| {} |\n", "x".repeat(100))), [""; 0]);
        assert_eq!(rules("a.md", &format!("```text\n{wider}```\n{wider}")), ["columns"]);
    }

    #[test]
    fn paths_of_a_machine() {
        let absolute = format!("see /{}/me/a.txt\n", MACHINE_FOLDERS[0]);
        assert_eq!(rules("a.txt", &absolute), ["machine-path"]);
        let relative = format!("see ./net/{}/a.txt\n", MACHINE_FOLDERS[0]);
        assert_eq!(rules("a.txt", &relative), [""; 0]);
    }
}
