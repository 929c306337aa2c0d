//! `cargo xtask mutants`: faults of the locks and the allocator, put in one at a time, that the
//! tests must see.
//!
//! The faults are data, `tests/mutants.toml`. Each is put into a copy of the tree, and the tests
//! run there one crate after the other until one fails. Tests that hang have seen it, too: they
//! are a process group of their own, which is ended as a whole; so it is when this program dies.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::Outcome;
use crate::stage::{self, Ending};
use crate::tidy::files;

/// The list.
const LIST: &str = "tests/mutants.toml";

/// The tests that must see each fault, the fastest first.
const CRATES: &[&str] = &["convoy-sync", "convoy-mm", "convoy-checker"];

/// For the tests of one crate, without their build; ten times what the slowest take.
const LIMIT: Duration = Duration::from_secs(60);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed,
    /// It was ended at its limit.
    Hung,
}

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
        let built = ended(&mut cargo_test(tree, &["-p", name, "--tests", "--no-run"]), None)?;
        ensure!(built == Ended::Passed, "does not compile: mend its `to`");
        // The example from elsewhere is built by its test, which takes time and sees nothing new.
        let tests = ["-p", name, "--tests", "--", "--skip", "from_elsewhere"];
        match ended(&mut cargo_test(tree, &tests), Some(LIMIT))? {
            Ended::Passed => {}
            Ended::Failed => return Ok(Some((*name).to_owned())),
            Ended::Hung => return Ok(Some(format!("{name} (it hangs)"))),
        }
    }
    Ok(None)
}

/// `cargo test` in `tree`.
fn cargo_test(tree: &Path, arguments: &[&str]) -> Command {
    let mut command = stage::cargo(tree, &["test", "--quiet"]);
    command.args(arguments);
    // The build of the tree this program was started in is no concern of the copy's.
    command.env("CARGO_TARGET_DIR", tree.join("target"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Ends a process group unless it is told not to, however the process that holds it goes away: an
/// interrupt from the terminal does not reach a group of its own, and nothing outlives a kill but
/// another process.
struct Guard(Child);

impl Guard {
    fn of(group: u32) -> std::io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r keep || kill -s KILL -- -$0", &group.to_string()]);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.process_group(0).spawn().map(Self)
    }

    /// Lets the group be.
    fn leave(mut self) -> std::io::Result<()> {
        self.0.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(b"keep\n"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        drop(self.0.stdin.take());
        let _gone = self.0.wait();
    }
}

/// Runs `command`; at `limit` ends it with all that it has started: a test program that hangs
/// outlives the cargo that waits for it.
pub(crate) fn ended(command: &mut Command, limit: Option<Duration>) -> anyhow::Result<Ended> {
    command.stdin(Stdio::null()).process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| stage::shown(command))?;
    let guard = Guard::of(child.id())?;
    loop {
        if let Some(status) = child.try_wait()? {
            guard.leave()?;
            return Ok(if status.success() { Ended::Passed } else { Ended::Failed });
        }
        if limit.is_some_and(|limit| start.elapsed() > limit) {
            drop(guard);
            child.wait()?;
            return Ok(Ended::Hung);
        }
        sleep(Duration::from_millis(50));
    }
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
        return Ok(Ending::Skipped("cargo install --locked cargo-mutants"));
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
    fn what_hangs_is_ended_with_all_that_it_started() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let note = std::env::temp_dir().join(format!("convoy-hangs-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > '{}'; wait", note.display());
        // Long enough for a busy machine to start two programs in it.
        let limit = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(ended(&mut shell(&script), limit(3)).unwrap(), Ended::Hung);
        let grandchild = std::fs::read_to_string(&note).unwrap();
        std::fs::remove_file(&note).unwrap();
        // Gone, or dead and not yet waited for by whoever inherits it.
        let stat = format!("/proc/{}/stat", grandchild.trim());
        let dead = |stat: String| stat.contains(") Z ");
        let gone = || std::fs::read_to_string(&stat).map_or(true, dead);
        // Killed it is; a busy machine lets it die a little later.
        let soon = (0..600).any(|_| {
            let gone = gone();
            sleep(Duration::from_millis(if gone { 0 } else { 100 }));
            gone
        });
        assert!(soon, "{stat} is alive");
        assert_eq!(ended(&mut shell("exit 0"), None).unwrap(), Ended::Passed);
        assert_eq!(ended(&mut shell("exit 3"), limit(60)).unwrap(), Ended::Failed);
    }

    #[test]
    fn a_group_ends_with_the_process_that_holds_its_guard() {
        let mut sleeper = Command::new("sleep");
        let mut sleeper = sleeper.arg("600").process_group(0).spawn().unwrap();
        let guard = Guard::of(sleeper.id()).unwrap();
        // What is left of a guard when its holder is killed: nobody runs `drop`, but its pipe ends.
        let mut guard = std::mem::ManuallyDrop::new(guard);
        drop(guard.0.stdin.take());
        assert!(!sleeper.wait().unwrap().success());
        guard.0.wait().unwrap();
        let mut sleeper = Command::new("sh");
        sleeper.args(["-c", "read -r line"]).stdin(Stdio::piped()).process_group(0);
        let mut sleeper = sleeper.spawn().unwrap();
        Guard::of(sleeper.id()).unwrap().leave().unwrap();
        sleeper.stdin.take().unwrap().write_all(b"line\n").unwrap();
        assert!(sleeper.wait().unwrap().success());
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
