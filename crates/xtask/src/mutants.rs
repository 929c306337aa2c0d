//! `cargo xtask mutants`: faults of the locks and the allocator, put in one at a time, that the
//! tests must see.
//!
//! The faults are data, `tests/mutants.toml`. Each is put into a copy of the tree, and the tests
//! run there one crate after the other until one fails. A test that sleeps or spins forever is
//! aborted by the watchdog in its program (`crates/watchdog`), which prints its position; a test
//! that still hangs is ended at a limit.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::outcome::Outcome;
use crate::stage::{self, Ending};
use crate::tidy::files;

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

    /// Returns whether its description or file has one of these words, or there are none.
    fn is_named(&self, words: &[&str]) -> bool {
        let has = words.iter().any(|word| self.about.contains(word) || self.file.contains(word));
        words.is_empty() || has
    }

    fn test(&self, tree: &Path) -> anyhow::Result<Seen> {
        let path = tree.join(&self.file);
        let sound = std::fs::read_to_string(&path)?;
        std::fs::write(&path, self.apply(&sound)?)?;
        let crates = CRATES.iter().find(|(prefix, _)| self.file.starts_with(prefix));
        let result = crates.map(|(_, crates)| {
            run_tests(tree, self.by.as_deref().into_iter().chain(crates.iter().copied()))
        });
        std::fs::write(&path, sound)?;
        result.with_context(|| format!("{LIST}: no tests are known for {}", self.file))?
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

impl Seen {
    /// Returns how to name faults that no test detects by itself or by the watchdog.
    fn defect(&self) -> Option<&'static str> {
        match self {
            Self::Fails(_) | Self::Watchdog(_) => None,
            Self::Survives => Some("these survive"),
            Self::Hangs(_) => Some("these hang"),
            Self::DoesNotCompile => Some("these do not compile, correct their `to`"),
        }
    }
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
        let mut build = cargo_test(tree, &arguments);
        if !write_output(tree, build.arg("--no-run"))?.status()?.success() {
            return Ok(Seen::DoesNotCompile);
        }
        // The example from elsewhere is built by its test, which takes time and sees nothing new.
        arguments.extend(["--", "--skip", "from_elsewhere"]);
        let mut run = limited(&cargo_test(tree, &arguments), LIMIT);
        let end = Ended::of(write_output(tree, &mut run)?.status()?);
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

fn cargo_test(tree: &Path, arguments: &[&str]) -> Command {
    let mut command = stage::cargo(tree, &["test", "--quiet"]);
    // The copy must not use the build of the tree in which this program was started.
    command.args(arguments).env(BUDGET.0, BUDGET.1).env("CARGO_TARGET_DIR", tree.join("target"));
    command
}

fn write_output<'a>(tree: &Path, command: &'a mut Command) -> anyhow::Result<&'a mut Command> {
    let output = File::create(tree.join(OUTPUT))?;
    Ok(command.stdout(output.try_clone()?).stderr(output))
}

/// Returns `command` with a limit. At the limit, or when this program ends, timeout(1) ends it with
/// all that it has started: a test program that hangs outlives the cargo that waits for it.
pub(crate) fn limited(command: &Command, limit: Duration) -> Command {
    let mut limited = Command::new("setpriv");
    limited.args(["--pdeathsig", "TERM", "timeout", "--kill-after", "10"]);
    limited.arg(limit.as_secs().to_string()).arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(command.get_current_dir().unwrap_or(Path::new("."))).stdin(Stdio::null());
    limited
}

impl Ended {
    /// Judges the status of a command with a limit.
    pub(crate) fn of(status: ExitStatus) -> Self {
        /// The exit code of timeout(1) after its limit; if it must kill, it ends itself, too.
        const HUNG: i32 = 124;
        match status.code() {
            Some(0) => Self::Passed,
            Some(HUNG) | None => Self::Hung,
            Some(_) => Self::Failed,
        }
    }
}

fn list(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let path = root.join(LIST);
    let text = std::fs::read_to_string(&path).with_context(|| LIST.to_owned())?;
    Ok(toml::from_str::<List>(&text).with_context(|| LIST.to_owned())?.mutant)
}

/// Copies the files below `root` to `tree`, which keeps its build.
fn copy(root: &Path, tree: &Path) -> anyhow::Result<()> {
    for path in files::list(root)? {
        let copy = tree.join(&path);
        std::fs::create_dir_all(copy.parent().unwrap_or(tree))?;
        let bytes = std::fs::read(root.join(&path))?;
        // Files that are written are compiled again.
        if std::fs::read(&copy).ok().as_ref() != Some(&bytes) {
            std::fs::write(&copy, bytes)?;
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
    let mut results = Vec::new();
    for mutant in mutants.iter().filter(|mutant| mutant.is_named(wanted)) {
        let result = mutant.test(&tree)?;
        println!("{:<60} {} ({})", result.to_string(), mutant.about, mutant.file);
        results.push((mutant.about.as_str(), result));
    }
    println!("{}", verdict(&results));
    let is_detected = results.iter().all(|(_, result)| result.defect().is_none());
    Ok(if is_detected { Outcome::Done } else { Outcome::Finding })
}

/// Returns a sentence on all inserted faults.
fn verdict(results: &[(&str, Seen)]) -> String {
    let mut defects: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (about, result) in results {
        if let Some(defect) = result.defect() {
            defects.entry(defect).or_default().push(about);
        }
    }
    let detected = results.len() - defects.values().map(Vec::len).sum::<usize>();
    let mut parts = vec![format!("{} faults put in, {detected} detected", results.len())];
    parts.extend(defects.iter().map(|(defect, faults)| format!("{defect}: {}", faults.join(", "))));
    parts.join("; ")
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
    use std::thread::sleep;

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

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Waits until the process whose number is in the file `note` is gone, or a zombie of its new
    /// parent. A busy machine may not have started it.
    fn is_soon_gone(note: &Path) -> bool {
        (0..600).any(|_| {
            let process = std::fs::read_to_string(note).unwrap_or_default();
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
            let is_gone = stat.map_or(true, |stat| stat.contains(") Z "));
            sleep(Duration::from_millis(if is_gone { 0 } else { 100 }));
            is_gone
        })
    }

    #[test]
    fn a_test_that_hangs_is_ended_with_all_that_it_started() {
        let note = std::env::temp_dir().join(format!("convoy-hangs-{}", std::process::id()));
        let hanging = shell(&format!("sleep 600 & echo $! > '{}'; wait", note.display()));
        // Long enough for a busy machine to start two programs in it.
        let status = limited(&hanging, Duration::from_secs(3)).status().unwrap();
        assert_eq!(Ended::of(status), Ended::Hung);
        assert!(is_soon_gone(&note));
        // The same if the program ends that waits for it.
        let _not_started = std::fs::remove_file(&note);
        let limited = limited(&hanging, Duration::from_secs(600));
        let words = limited.get_args().map(|word| word.to_str().unwrap());
        let mut holder = shell("setpriv \"$@\" & wait");
        let mut holder = holder.arg("sh").args(words).spawn().unwrap();
        while !std::fs::read_to_string(&note).is_ok_and(|text| text.ends_with('\n')) {
            sleep(Duration::from_millis(10));
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(is_soon_gone(&note));
        std::fs::remove_file(&note).unwrap();
    }

    #[test]
    fn exit_codes_are_kept_by_the_limit() {
        for (script, expected) in [("exit 0", Ended::Passed), ("exit 3", Ended::Failed)] {
            let status = limited(&shell(script), Duration::from_secs(60)).status().unwrap();
            assert_eq!(Ended::of(status), expected);
        }
    }

    #[test]
    fn how_tests_ended_is_told_apart() {
        let fails = "running 1 test\n---- ordered::Mutex stdout ----\nCausality violation\n";
        assert_eq!(judge("a", Ended::Failed, fails).to_string(), "a: ordered::Mutex");
        assert_eq!(judge("a", Ended::Failed, "killed").to_string(), "a");
        assert_eq!(
            judge("a", Ended::Failed, "\nwatchdog: all sleep\n").to_string(),
            "a, by the watchdog"
        );
        assert_eq!(judge("a", Ended::Hung, "").to_string(), "a HANGS");
    }

    #[test]
    fn the_verdict_counts_and_names() {
        let fails = ("x", Seen::Fails("a: t".to_owned()));
        let ended = ("y", Seen::Watchdog("a".to_owned()));
        assert_eq!(verdict(&[fails.clone(), ended]), "2 faults put in, 2 detected");
        let text = verdict(&[
            fails,
            ("p", Seen::Survives),
            ("q", Seen::Survives),
            ("h", Seen::Hangs("a".to_owned())),
            ("r", Seen::DoesNotCompile),
        ]);
        let expected = "5 faults put in, 1 detected; these do not compile, correct their `to`: r; \
                        these hang: h; these survive: p, q";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_fault_that_does_not_fit_says_so() {
        fn mutant(from: &str) -> Mutant {
            let [about, file, from, to] = ["it is wrong", "a.rs", from, "2"].map(str::to_owned);
            Mutant { about, file, from, to, by: None }
        }
        assert_eq!(mutant("1").apply("1 3").unwrap(), "2 3");
        for from in ["1", "2", "4"] {
            assert!(mutant(from).apply("1 1 2").unwrap_err().to_string().contains("it is wrong"));
        }
    }
}
