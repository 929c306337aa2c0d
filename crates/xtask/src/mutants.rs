//! `cargo xtask mutants`: faults of the locks and the allocator, put in one at a time, that the
//! tests must see.
//!
//! The faults are data, `tests/mutants.toml`. Each is put into a copy of the tree, and the tests
//! run there one crate after the other until one fails. Tests that hang have seen it, too.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::Outcome;
use crate::stage::{self, Ending};
use crate::tidy::files;

/// The list.
const LIST: &str = "tests/mutants.toml";

/// The tests that must see each fault, the fastest first.
const CRATES: &[&str] = &["convoy-sync", "convoy-mm", "convoy-checker"];

/// Seconds for the tests of one crate; a hundred times what they take.
const LIMIT_S: &str = "900";

/// The status of `timeout` when it had to end the command.
const HUNG: i32 = 124;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// One fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    /// What is wrong then, in words.
    about: String,
    /// Where, from the root of the tree.
    file: String,
    /// What is replaced; stands there once.
    from: String,
    /// By what.
    to: String,
}

impl Mutant {
    /// The text of its file with the fault in it.
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        let places = text.matches(&self.from).count();
        ensure!(
            places == 1,
            "{LIST}: `{}`: its `from` stands {places} times in {}, not once: copy it anew",
            self.about,
            self.file
        );
        ensure!(self.from != self.to, "{LIST}: `{}` changes nothing", self.about);
        Ok(text.replacen(&self.from, &self.to, 1))
    }

    /// Which crate's tests saw it, and how.
    fn caught(&self, tree: &Path) -> anyhow::Result<Option<String>> {
        let path = tree.join(&self.file);
        let sound = std::fs::read_to_string(&path)?;
        std::fs::write(&path, self.apply(&sound)?)?;
        let seen = seen(tree);
        std::fs::write(&path, sound)?;
        seen.with_context(|| format!("{LIST}: `{}`", self.about))
    }
}

/// The first crate of [`CRATES`] whose tests do not pass.
fn seen(tree: &Path) -> anyhow::Result<Option<String>> {
    for name in CRATES {
        // Built without the limit: a fault that does not compile has not been seen by any test.
        let built = cargo_test(tree, &[], &["-p", name, "--no-run"])?;
        ensure!(built == Some(0), "does not compile: mend its `to`");
        let ended = cargo_test(tree, &["timeout", LIMIT_S], &["-p", name])?;
        match ended {
            Some(0) => {}
            Some(HUNG) => return Ok(Some(format!("{name} (it hangs)"))),
            _ => return Ok(Some((*name).to_owned())),
        }
    }
    Ok(None)
}

/// The status of `cargo test` in `tree`, behind the words of `before`.
fn cargo_test(tree: &Path, before: &[&str], arguments: &[&str]) -> anyhow::Result<Option<i32>> {
    let cargo = stage::cargo(tree, &["test", "--quiet"]);
    let mut command = match before {
        [] => Command::new(cargo.get_program()),
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest).arg(cargo.get_program());
            command
        }
    };
    command.current_dir(tree).args(cargo.get_args()).args(arguments);
    // The build of the tree this program was started in is no concern of the copy's.
    command.env("CARGO_TARGET_DIR", tree.join("target"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().with_context(|| stage::shown(&command))?;
    Ok(status.code())
}

fn list(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let path = root.join(LIST);
    let text = std::fs::read_to_string(&path).with_context(|| LIST.to_owned())?;
    Ok(toml::from_str::<List>(&text).with_context(|| LIST.to_owned())?.mutant)
}

/// Copies the text that is ours below `root` to `tree`, which keeps its build.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let mut texts = files::read(root)?.texts;
    texts.insert("Cargo.lock".to_owned(), std::fs::read_to_string(root.join("Cargo.lock"))?);
    for (path, text) in texts {
        let to = tree.join(path);
        std::fs::create_dir_all(to.parent().unwrap_or(tree))?;
        // What is written anew is compiled anew.
        if std::fs::read_to_string(&to).ok().as_ref() != Some(&text) {
            std::fs::write(&to, text)?;
        }
    }
    Ok(())
}

/// Puts in each fault whose description contains `wanted`, and prints those that no test sees.
pub(crate) fn run(root: &Path, wanted: &str) -> anyhow::Result<Outcome> {
    let tree = root.join("target/mutants");
    copy(root, &tree)?;
    ensure!(seen(&tree)?.is_none(), "the tests fail without any fault: mend that first");
    let mut survivors = 0;
    let mutants = list(root)?;
    for mutant in mutants.iter().filter(|mutant| mutant.about.contains(wanted)) {
        let caught = mutant.caught(&tree)?;
        survivors += u32::from(caught.is_none());
        let by = caught.unwrap_or_else(|| "NOBODY".to_owned());
        println!("{:<28} {} ({})", by, mutant.about, mutant.file);
    }
    println!("{survivors} survive");
    Ok(if survivors == 0 { Outcome::Done } else { Outcome::Finding })
}

/// Faults that a program thinks of, in the locks and the allocator: `cargo mutants` prints those
/// that no test sees.
pub(crate) fn generated(root: &Path) -> anyhow::Result<Ending> {
    let have = stage::cargo(root, &["mutants", "--version"]).output();
    if !have.is_ok_and(|have| have.status.success()) {
        return Ok(Ending::Missing("cargo install --locked cargo-mutants"));
    }
    let test = ["--test-package", "convoy-sync,convoy-mm,convoy-checker"];
    let files = ["-p", "convoy-sync", "-p", "convoy-mm", "--output", "target"];
    stage::run(stage::cargo(root, &["mutants"]).args(files).args(test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_the_list_fits_its_file() {
        let root = crate::root();
        let mutants = list(&root).unwrap();
        for mutant in &mutants {
            let text = std::fs::read_to_string(root.join(&mutant.file)).unwrap();
            mutant.apply(&text).unwrap();
        }
        assert!(mutants.len() > 20);
    }

    #[test]
    fn a_fault_that_does_not_fit_says_so() {
        let mutant = |from: &str| Mutant {
            about: "it is wrong".to_owned(),
            file: "a.rs".to_owned(),
            from: from.to_owned(),
            to: "2".to_owned(),
        };
        assert_eq!(mutant("1").apply("1 3").unwrap(), "2 3");
        for from in ["1", "2", "4"] {
            assert!(mutant(from).apply("1 1 2").unwrap_err().to_string().contains("it is wrong"));
        }
    }
}
