//! Rules for `Cargo.toml` files and data files.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use toml::Table;

use super::finding::Findings;
use super::source::words;

/// Crates that promise few dependencies, and their allowed external crates.
const LEAN: &[(&str, &[&str])] =
    &[("sync", &["libc", "lock_api"]), ("stats", &["libm", "thiserror"])];

pub(crate) fn check(
    findings: &mut Findings,
    files: &BTreeMap<String, String>,
) -> anyhow::Result<()> {
    let layers = Layers::new(files.get("ARCHITECTURE.md").map_or("", String::as_str));
    for (path, text) in files {
        findings.begin(path);
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            ["crates", name, "Cargo.toml"] => {
                let manifest = parse(path, text)?;
                layers.check(findings, name, &manifest);
                unrun(findings, name, &manifest, files);
            }
            ["Cargo.toml"] => {
                let documented = files.get("docs/dependencies.md").map_or("", String::as_str);
                reasons(findings, &parse(path, text)?, documented);
            }
            ["docs", "dependencies.md"] => needless(findings, text, files)?,
            ["experiments" | "machines" | "kernels", name] if name.ends_with(".toml") => {
                first_line(findings, text);
            }
            ["tests", "golden", name] if name.ends_with(".toml") => first_line(findings, text),
            _ => {}
        }
    }
    Ok(())
}

fn parse(path: &str, text: &str) -> anyhow::Result<Table> {
    text.parse().with_context(|| path.to_owned())
}

/// Names of the packages in one dependency table.
fn names<'a>(manifest: &'a Table, table: &str) -> impl Iterator<Item = &'a str> {
    let table = manifest.get(table).and_then(toml::Value::as_table);
    table.into_iter().flat_map(|table| table.keys().map(String::as_str))
}

/// The crates of this workspace that a crate may depend on, by crate: the table of ARCHITECTURE.md.
struct Layers<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Layers<'a> {
    /// Reads the last column of the table, in which `all of the above` stands for the rows before.
    fn new(page: &'a str) -> Self {
        let mut layers = BTreeMap::new();
        for row in page.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<&str> = row.trim_matches(['|', ' ']).split('|').collect();
            let name = cells[0].trim_matches([' ', '`']).strip_prefix("crates/");
            let cell = cells[cells.len() - 1];
            let mut allowed: BTreeSet<&str> = words(cell).map(|(_, word)| word).collect();
            if allowed.contains("above") {
                allowed.extend(layers.keys());
            }
            layers.extend(name.map(|name| (name, allowed)));
        }
        Self(layers)
    }

    fn check(&self, findings: &mut Findings, name: &str, manifest: &Table) {
        let Some(allowed) = self.0.get(name) else {
            return findings.add(
                0,
                "layers",
                format!("{name} is not in the table of ARCHITECTURE.md"),
            );
        };
        let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
        for dependency in tables.iter().flat_map(|table| names(manifest, table)) {
            if let Some(member) = dependency.strip_prefix("convoy-")
                && !allowed.contains(member)
            {
                let cure = format!("{name} must not depend on {member}: see ARCHITECTURE.md");
                findings.add(0, "layers", cure);
            }
        }
        let lean = LEAN.iter().find(|(lean, _)| *lean == name);
        for dependency in names(manifest, "dependencies") {
            let foreign = !dependency.starts_with("convoy-");
            if lean.is_some_and(|(_, few)| foreign && !few.contains(&dependency)) {
                let cure = format!("{name} brings nothing along: do without {dependency}");
                findings.add(0, "layers", cure);
            }
        }
    }
}

/// Returns whether a manifest sets `key` of `table` to false.
fn is_off(manifest: &Table, table: &str, key: &str) -> bool {
    let value = manifest.get(table).and_then(|table| table.get(key));
    value.and_then(toml::Value::as_bool) == Some(false)
}

/// Reports tests that a manifest hides from cargo: files of `tests` that its one test program does
/// not declare, and examples in the documentation of a library without documentation tests.
fn unrun(findings: &mut Findings, name: &str, manifest: &Table, files: &BTreeMap<String, String>) {
    if is_off(manifest, "package", "autotests") {
        let tests = format!("crates/{name}/tests/");
        let program = files.get(&format!("{tests}main.rs")).map_or("", String::as_str);
        let programs = manifest.get("test").map(ToString::to_string).unwrap_or_default();
        for file in files.keys().filter_map(|path| path.strip_prefix(&tests)) {
            let Some(module) = file.strip_suffix(".rs").filter(|module| !module.contains('/'))
            else {
                continue;
            };
            let declared = program.lines().any(|line| line == format!("mod {module};"));
            if !declared && !programs.contains(&format!("\"tests/{file}\"")) {
                findings.add(0, "unrun-test", format!("declare {module} in {tests}main.rs"));
            }
        }
    }
    if is_off(manifest, "lib", "doctest") {
        let sources = format!("crates/{name}/src/");
        for (path, text) in files.iter().filter(|(path, _)| path.starts_with(&sources)) {
            let comments = text.lines().map(str::trim_start).filter(|line| line.starts_with("//"));
            let mut fences = comments.filter(|line| line.contains(" ```")).step_by(2);
            if fences.any(|fence| fence.ends_with("```")) {
                let cure = format!("remove `doctest = false`, or mark the block in {path} as text");
                findings.add(0, "unrun-test", cure);
            }
        }
    }
}

fn reasons(findings: &mut Findings, manifest: &Table, documented: &str) {
    let empty = Table::new();
    let workspace = manifest.get("workspace").and_then(toml::Value::as_table).unwrap_or(&empty);
    for dependency in names(workspace, "dependencies").filter(|name| !name.starts_with("convoy-")) {
        let quoted = format!("`{dependency}`");
        if !documented.lines().any(|line| line.contains(&quoted)) {
            let cure = format!("say in docs/dependencies.md why {dependency} is here");
            findings.add(0, "dependency-reason", cure);
        }
    }
}

/// Reports rows of the tables of packages that no manifest depends on.
fn needless(
    findings: &mut Findings,
    documented: &str,
    files: &BTreeMap<String, String>,
) -> anyhow::Result<()> {
    let mut used = BTreeSet::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let manifest = parse(path, text)?;
        let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
        used.extend(tables.iter().flat_map(|table| names(&manifest, table)).map(str::to_owned));
    }
    for (index, line) in documented.lines().enumerate() {
        let first = line.strip_prefix("| ").and_then(|row| row.split(" | ").next());
        let packages = first.unwrap_or_default().split('`').skip(1).step_by(2);
        for package in packages.filter(|name| !name.contains('/') && !used.contains(*name)) {
            findings.add(index, "dependency-reason", format!("no crate depends on {package}"));
        }
    }
    Ok(())
}

fn first_line(findings: &mut Findings, text: &str) {
    if !text.starts_with("# ") {
        findings.add(0, "data-comment", "begin with a comment that says what this file is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| crate | contents | may depend on |\n|---|---|---|\n\
                         | `crates/stats` | | – |\n| `crates/sync` | | – |\n\
                         | `crates/checker` | | – |\n\
                         | `crates/machine` | | sync; checker for its tests |\n\
                         | `crates/cli` | | all of the above |\n";

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        let files = [("ARCHITECTURE.md", TABLE)].iter().chain(files);
        files.map(|&(path, text)| (path.to_owned(), text.to_owned())).collect()
    }

    fn cures(files: &[(&str, &str)]) -> String {
        Findings::cures(|findings| check(findings, &tree(files)).unwrap()).join("; ")
    }

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let files = tree(&[("docs/dependencies.md", "- `serde`: records\n"), (path, text)]);
        let rules = Findings::rules(|findings| check(findings, &files).unwrap());
        rules.into_iter().map(|(_, rule)| rule).collect()
    }

    #[test]
    fn crates_depend_downwards_only() {
        let up = "[dependencies]\nconvoy-sync.workspace = true\nserde.workspace = true\n";
        assert_eq!(rules("crates/machine/Cargo.toml", up), [""; 0]);
        assert_eq!(rules("crates/stats/Cargo.toml", up), ["layers", "layers"]);
        assert_eq!(rules("crates/unknown/Cargo.toml", up), ["layers"]);
        let down = "[dev-dependencies]\nconvoy-kernel.workspace = true\n";
        assert_eq!(rules("crates/machine/Cargo.toml", down), ["layers"]);
        let tested = "[dev-dependencies]\nconvoy-checker.workspace = true\n";
        assert_eq!(rules("crates/machine/Cargo.toml", tested), [""; 0]);
        let binary = "[dependencies]\nconvoy-machine.workspace = true\n";
        assert_eq!(rules("crates/cli/Cargo.toml", binary), [""; 0]);
    }

    #[test]
    fn no_test_is_hidden_from_cargo() {
        fn tests(manifest: &str, program: &str) -> String {
            let files = [
                ("crates/stats/Cargo.toml", manifest),
                ("crates/stats/src/lib.rs", "/// ```text\n/// 1 2\n/// ```\n"),
                ("crates/stats/src/rank.rs", "    /// ```\n    /// rank(1);\n    /// ```\n"),
                ("crates/stats/tests/known.rs", ""),
                ("crates/stats/tests/main.rs", program),
            ];
            cures(&files)
        }
        let main = "[package]\nautotests = false\n[[test]]\npath = \"tests/main.rs\"\n";
        assert_eq!(tests("", ""), "");
        assert_eq!(tests(main, "mod known;\n"), "");
        assert_eq!(tests(main, ""), "declare known in crates/stats/tests/main.rs");
        let two = main.replace("main", "known") + "[[test]]\npath = \"tests/main.rs\"\n";
        assert_eq!(tests(&two, ""), "");
        let undocumented = "[lib]\ndoctest = false\n";
        assert!(tests(undocumented, "").contains("src/rank.rs"), "only the second block is Rust");
    }

    #[test]
    fn every_dependency_has_its_reason() {
        let manifest = "[workspace.dependencies]\nserde = '1'\nconvoy-sync = { path = 'a' }\n";
        assert_eq!(rules("Cargo.toml", manifest), [""; 0]);
        assert_eq!(rules("Cargo.toml", &format!("{manifest}clap = '4'\n")), ["dependency-reason"]);
    }

    #[test]
    fn every_reason_has_its_dependency() {
        let manifest = "[dependencies]\nconvoy-sync.workspace = true\nclap = '4'\n";
        let row = "| package | reason |\n|---|---|\n| `clap` | flags | `lexopt` |\n";
        let crate_manifest = ("crates/machine/Cargo.toml", manifest);
        assert_eq!(cures(&[("docs/dependencies.md", row), crate_manifest]), "");
        let gone = row.replace("`clap`", "`clap`, `gone`");
        let gone = ("docs/dependencies.md", gone.as_str());
        assert_eq!(cures(&[gone, crate_manifest]), "no crate depends on gone");
    }

    #[test]
    fn data_begins_with_a_comment() {
        assert_eq!(rules("machines/quad.toml", "# One socket.\ncpus = 4\n"), [""; 0]);
        assert_eq!(rules("machines/quad.toml", "cpus = 4\n"), ["data-comment"]);
        assert_eq!(rules("kernels/2.6.25.toml", ""), ["data-comment"]);
    }
}
