//! `cargo xtask mutants`: faults of the locks and the allocator, put in one at a time, that the
//! tests must see.
//!
//! The faults are data, `tests/mutants.toml`. Each is put into a copy of the tree, and the tests
//! run there one crate after the other until one fails. A test that sleeps or spins forever is
//! aborted by the watchdog in its program (`crates/watchdog`), which prints its position; a test
//! that still hangs is in a separate process group, which is killed as a whole, also if this
//! program dies.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::outcome::Outcome;
use crate::stage::{self, Ending};
use crate::tidy::files;

/// The list.
const LIST: &str = "tests/mutants.toml";

const SYNC: &str = "convoy-sync --tests";
const CHECKER: &str = "convoy-checker --tests";
const MM: &str = "convoy-mm --tests";

/// The tests that must detect a fault in a file with this path prefix, the tests of the same crate
/// first.
const CRATES: &[(&str, &[&str])] = &[
    ("crates/machine/", &["convoy-machine"]),
    ("crates/mm/", &[MM, CHECKER]),
    ("crates/sync/", &[SYNC, CHECKER, MM]),
];

/// CPU time of one test program, in seconds, as read by the watchdog: four times the maximum of any
/// test.
const BUDGET: (&str, &str) = ("CONVOY_TEST_CPU_SECONDS", "30");

/// How a report of the watchdog begins.
const WATCHDOG: &str = "watchdog:";

/// For the tests of one crate, without their build, where even the watchdog does nothing. Time of
/// the wall, so far more than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(900);

/// File with the last output of the tests, in the copy.
const OUTPUT: &str = "tests.txt";

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
    /// Description of the fault.
    about: String,
    /// Where, from the root of the tree.
    file: String,
    /// The replaced text, which occurs once.
    from: String,
    /// By what.
    to: String,
    /// The tests that have seen it, as `cargo test -p` takes them: these run first.
    by: Option<String>,
}

impl Mutant {
    /// Returns the text of its file with the fault in it.
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        let places = text.matches(&self.from).count();
        ensure!(
            places == 1,
            "{LIST}: `{}`: its `from` occurs {places} times in {} instead of once: copy it again",
            self.about,
            self.file
        );
        ensure!(self.from != self.to, "{LIST}: `{}` changes nothing", self.about);
        Ok(text.replacen(&self.from, &self.to, 1))
    }

    /// Returns whether the tests detect it.
    fn seen(&self, tree: &Path) -> anyhow::Result<Seen> {
        let path = tree.join(&self.file);
        let sound = std::fs::read_to_string(&path)?;
        std::fs::write(&path, self.apply(&sound)?)?;
        let crates = CRATES.iter().find(|(prefix, _)| self.file.starts_with(prefix));
        let seen = crates.map(|(_, crates)| {
            run_tests(tree, self.by.as_deref().into_iter().chain(crates.iter().copied()))
        });
        std::fs::write(&path, sound)?;
        seen.with_context(|| format!("{LIST}: no tests are known for {}", self.file))?
    }
}

/// How the tests took a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// No test minded.
    Survives,
    /// The first test that failed.
    Fails(String),
    /// The watchdog ended the tests of a crate.
    Watchdog(String),
    /// The tests of a crate hung past the watchdog.
    Hangs(String),
    /// Nothing was tested.
    DoesNotCompile,
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Survives => out.write_str("SURVIVES"),
            Self::Fails(test) => out.write_str(test),
            Self::Watchdog(name) => write!(out, "{name}, by the watchdog"),
            Self::Hangs(name) => write!(out, "{name} HANGS"),
            Self::DoesNotCompile => out.write_str("DOES NOT COMPILE"),
        }
    }
}

/// Runs `tests` in turn, as `cargo test -p` takes them, until one fails.
fn run_tests<'a>(tree: &Path, tests: impl Iterator<Item = &'a str>) -> anyhow::Result<Seen> {
    for tests in tests {
        let mut arguments = vec!["-p"];
        arguments.extend(tests.split_whitespace());
        // Built without the limit: a fault that does not compile has not been seen by any test.
        let built = ended(cargo_test(tree, &arguments)?.arg("--no-run"), None)?;
        if built != Ended::Passed {
            return Ok(Seen::DoesNotCompile);
        }
        // The example from elsewhere is built by its test, which takes time and sees nothing new.
        arguments.extend(["--", "--skip", "from_elsewhere"]);
        let end = ended(&mut cargo_test(tree, &arguments)?, Some(LIMIT))?;
        if end != Ended::Passed {
            let output = std::fs::read(tree.join(OUTPUT))?;
            let name = tests.split_whitespace().next().unwrap_or(tests);
            return Ok(judge(name, end, &String::from_utf8_lossy(&output)));
        }
    }
    Ok(Seen::Survives)
}

/// Classifies the failed tests of the crate `name`, from their `output`.
fn judge(name: &str, end: Ended, output: &str) -> Seen {
    match end {
        Ended::Hung => Seen::Hangs(name.to_owned()),
        _ if output.lines().any(|line| line.starts_with(WATCHDOG)) => {
            Seen::Watchdog(name.to_owned())
        }
        _ => {
            let test = output.lines().find_map(|line| {
                line.strip_prefix("---- ")?.strip_suffix(" stdout ----").map(String::from)
            });
            Seen::Fails(test.map_or(name.to_owned(), |test| format!("{name}: {test}")))
        }
    }
}

/// Runs `cargo test` in `tree`, with its output in [`OUTPUT`] there.
fn cargo_test(tree: &Path, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = stage::cargo(tree, &["test", "--quiet"]);
    command.args(arguments).env(BUDGET.0, BUDGET.1);
    // The copy must not use the build of the tree in which this program was started.
    command.env("CARGO_TARGET_DIR", tree.join("target"));
    let output = File::create(tree.join(OUTPUT))?;
    command.stdout(output.try_clone()?).stderr(output);
    Ok(command)
}

/// Kills a process group unless disarmed, however its owner exits: an interrupt from the terminal
/// does not reach a separate group, and only another process survives a kill.
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
        // It waits for the end of its input.
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
    for shelf in ["experiments", "kernels", "machines", "mixes", "workloads"] {
        for entry in std::fs::read_dir(root.join(shelf))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            texts.insert(format!("{shelf}/{name}"), std::fs::read_to_string(&path)?);
        }
    }
    for (path, text) in texts {
        let to = tree.join(path);
        std::fs::create_dir_all(to.parent().unwrap_or(tree))?;
        // Files that are written are compiled again.
        if std::fs::read_to_string(&to).ok().as_ref() != Some(&text) {
            std::fs::write(&to, text)?;
        }
    }
    Ok(())
}

/// Applies each fault with one of `wanted` in its description or file, by default all, and prints
/// the result; the last sentence is the verdict.
pub(crate) fn run(root: &Path, wanted: &[&str]) -> anyhow::Result<Outcome> {
    let tree = root.join("target/mutants");
    copy(root, &tree)?;
    let sound = run_tests(&tree, [SYNC, CHECKER, MM].into_iter())?;
    let output = tree.join(OUTPUT);
    ensure!(
        sound == Seen::Survives,
        "the tests fail without any fault ({sound}): repair them first; {}",
        output.display()
    );
    let mutants = list(root)?;
    let has = |it: &Mutant, name: &str| it.about.contains(name) || it.file.contains(name);
    let is_wanted = |it: &&Mutant| wanted.is_empty() || wanted.iter().any(|&name| has(it, name));
    let mut all = Vec::new();
    for mutant in mutants.iter().filter(is_wanted) {
        let seen = mutant.seen(&tree)?;
        println!("{:<60} {} ({})", seen.to_string(), mutant.about, mutant.file);
        all.push((mutant.about.as_str(), seen));
    }
    println!("{}", verdict(&all));
    let fine = |(_, seen): &(&str, Seen)| matches!(seen, Seen::Fails(_) | Seen::Watchdog(_));
    Ok(if all.iter().all(fine) { Outcome::Done } else { Outcome::Finding })
}

/// Returns a sentence on all inserted faults.
fn verdict(all: &[(&str, Seen)]) -> String {
    let count = |is: fn(&Seen) -> bool| all.iter().filter(|(_, seen)| is(seen)).count();
    let fails = count(|seen| matches!(seen, Seen::Fails(_)));
    let ended = count(|seen| matches!(seen, Seen::Watchdog(_)));
    let hangs = count(|seen| matches!(seen, Seen::Hangs(_)));
    let mut text = format!(
        "{} faults put in, {} seen: {fails} by a test that fails, {ended} by one that the watchdog \
         ends, {hangs} by one that hangs; ",
        all.len(),
        fails + ended + hangs
    );
    let named = |which: &Seen| {
        let names = all.iter().filter(|(_, seen)| seen == which).map(|(about, _)| *about);
        names.collect::<Vec<_>>().join("; ")
    };
    let survivors = named(&Seen::Survives);
    text += if survivors.is_empty() { "none survives" } else { "these survive: " };
    text += &survivors;
    let broken = named(&Seen::DoesNotCompile);
    if !broken.is_empty() {
        text += ". These do not compile, correct their `to`: ";
        text += &broken;
    }
    text + "."
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
        fn shell(script: &str) -> Command {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        }
        let note = std::env::temp_dir().join(format!("convoy-hangs-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > '{}'; wait", note.display());
        // Long enough for a busy machine to start two programs in it.
        let limit = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(ended(&mut shell(&script), limit(3)).unwrap(), Ended::Hung);
        let grandchild = std::fs::read_to_string(&note).unwrap();
        std::fs::remove_file(&note).unwrap();
        // Gone, or a zombie that its new parent has not waited for.
        let stat = format!("/proc/{}/stat", grandchild.trim());
        let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
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
        // The state after the holder of a guard is killed: `drop` does not run, but its pipe ends.
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
    fn how_tests_ended_is_told_apart() {
        let fails = "running 1 test\n---- ordered::Mutex stdout ----\nCausality violation\n";
        let seen = |end, output| judge("a", end, output).to_string();
        assert_eq!(seen(Ended::Failed, fails), "a: ordered::Mutex");
        assert_eq!(seen(Ended::Failed, "killed"), "a");
        assert_eq!(seen(Ended::Failed, "\nwatchdog: all sleep\n"), "a, by the watchdog");
        assert_eq!(seen(Ended::Hung, ""), "a HANGS");
    }

    #[test]
    fn the_verdict_counts_and_names() {
        let fails = ("x", Seen::Fails("a: t".to_owned()));
        let ended = ("y", Seen::Watchdog("a".to_owned()));
        assert_eq!(
            verdict(&[fails.clone(), ended.clone()]),
            "2 faults put in, 2 seen: 1 by a test that fails, 1 by one that the watchdog ends, 0 \
             by one that hangs; none survives."
        );
        let text = verdict(&[fails, ("p", Seen::Survives), ("q", Seen::Survives)]);
        assert!(text.contains("3 faults put in, 1 seen"), "{text}");
        assert!(text.ends_with("these survive: p; q."), "{text}");
        let text = verdict(&[ended, ("r", Seen::DoesNotCompile)]);
        assert!(text.ends_with("These do not compile, correct their `to`: r."), "{text}");
    }

    #[test]
    fn a_fault_that_does_not_fit_says_so() {
        let mutant = |from: &str| Mutant {
            about: "it is wrong".to_owned(),
            file: "a.rs".to_owned(),
            from: from.to_owned(),
            to: "2".to_owned(),
            by: None,
        };
        assert_eq!(mutant("1").apply("1 3").unwrap(), "2 3");
        for from in ["1", "2", "4"] {
            assert!(mutant(from).apply("1 1 2").unwrap_err().to_string().contains("it is wrong"));
        }
    }
}
