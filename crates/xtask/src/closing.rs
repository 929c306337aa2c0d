//! The end of a test run: the closing line of each test program, the tests that failed, and a
//! second chance for tests that measure this machine.
//!
//! Tests of the recorder and of the command line run programs in real time. Next to other programs
//! one of them may fail because a thread did not get a CPU for a second. Such a test is repeated
//! alone, up to [`REPEATS`] times, and the output names it. Tests of packages that only simulate
//! are never repeated: a result that differs from run to run is a defect there.

use std::path::Path;

use crate::stage::{Ending, cargo, run};

/// Packages with tests that depend on the CPU time that other programs leave. Tests of locks are
/// not among them: a test that fails rarely may have found a defect.
const LIVE: [&str; 6] = [
    "convoy",
    "convoy-calibrate",
    "convoy-explain",
    "convoy-host",
    "convoy-record",
    "convoy-watchdog",
];

/// How many times a test that failed is run again, alone: three failures in a row, with nothing
/// else of this run next to them, are a defect.
const REPEATS: usize = 3;

/// With more failures than this the machine is not the cause.
const MOST: usize = 4;

/// A test that failed, and the arguments that select its program: `-p convoy --test cli`.
#[derive(Debug, PartialEq)]
struct Failure {
    test: String,
    program: Option<String>,
}

impl Failure {
    /// Returns the selection without the package, if the test may be repeated.
    fn live(&self) -> Option<Vec<&str>> {
        let mut words = self.program.as_deref()?.split_whitespace();
        let package = (words.next() == Some("-p")).then(|| words.next())??;
        LIVE.contains(&package).then(|| words.collect())
    }
}

/// The lines with which the test runner closes each test program, kept for the end of the output.
#[derive(Default)]
pub(crate) struct ClosingLines {
    lines: Vec<String>,
    failures: Vec<Failure>,
    repeated: Vec<String>,
    /// Programs that failed, by a failure of a test or by a crash.
    programs: usize,
    heading: String,
}

impl ClosingLines {
    /// Takes a closing line away from the stream, so that each one is printed once.
    pub(crate) fn hold(&mut self, line: &str) -> bool {
        let text = line.trim_start();
        if text.starts_with("Running ") || text.starts_with("Doc-tests ") {
            line.clone_into(&mut self.heading);
        }
        if let Some(test) = text.strip_prefix("test ").and_then(|t| t.strip_suffix(" ... FAILED")) {
            self.failures.push(Failure { test: test.to_owned(), program: None });
        }
        let program = text.strip_prefix("error: test failed, to rerun pass `");
        if let Some(program) = program.and_then(|rest| rest.strip_suffix('`')) {
            self.programs += 1;
            for failure in self.failures.iter_mut().filter(|one| one.program.is_none()) {
                failure.program = Some(program.to_owned());
            }
        }
        let closes = text.starts_with("test result: ");
        if closes {
            self.lines.push(std::mem::take(&mut self.heading));
            self.lines.push(text.to_owned());
        }
        closes
    }

    /// Repeats the tests that failed, with `arguments` of the run in which they did, and returns
    /// whether each of them passed once. False without repeating if one of them may not be
    /// repeated, if there are more than [`MOST`], or if a program ended without naming a test.
    pub(crate) fn pass_when_repeated(
        &mut self,
        root: &Path,
        arguments: &[&str],
    ) -> anyhow::Result<bool> {
        if !self.may_be_repeated() {
            return Ok(false);
        }
        for failure in &self.failures {
            let program = failure.live().expect("it may be repeated");
            let alone = ["--", "--exact", &failure.test];
            let arguments = [arguments, &program[..], &alone].concat();
            let mut passed = false;
            for _ in 0..REPEATS {
                passed = matches!(run(&mut cargo(root, &arguments))?, Ending::Passed);
                if passed {
                    break;
                }
            }
            if !passed {
                return Ok(false);
            }
            self.repeated.push(failure.test.clone());
        }
        self.failures.clear();
        Ok(true)
    }

    /// A crashed program counts as a failed one, and names no test.
    fn may_be_repeated(&self) -> bool {
        let programs: std::collections::BTreeSet<_> =
            self.failures.iter().map(|failure| &failure.program).collect();
        (1..=MOST).contains(&self.failures.len())
            && self.failures.iter().all(|failure| failure.live().is_some())
            && self.programs == programs.len()
    }

    pub(crate) fn print(&self) {
        for test in &self.repeated {
            println!("failed once and passed alone: {test}");
        }
        for failure in &self.failures {
            println!("failed: {}", failure.test);
        }
        for line in &self.lines {
            println!("{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(stream: &[&str]) -> (ClosingLines, Vec<bool>) {
        let mut closing = ClosingLines::default();
        let held = stream.iter().map(|line| closing.hold(line)).collect();
        (closing, held)
    }

    #[test]
    fn closing_lines_are_held_with_their_heading_and_nothing_else_is() {
        let stream = [
            "   Compiling convoy v0.1.0",
            "     Running unittests src/lib.rs (target/debug/deps/a-1)",
            "test spin::fair ... ok",
            "test spin::busted ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored",
        ];
        let (closing, held) = held(&stream);
        assert_eq!(held, [false, false, false, false, true]);
        assert_eq!(closing.lines, [stream[1], stream[4]]);
        let busted = Failure { test: "spin::busted".to_owned(), program: None };
        assert_eq!(closing.failures, [busted]);
        assert!(!closing.may_be_repeated(), "its program is not known");
    }

    #[test]
    fn only_a_few_tests_that_measure_are_repeated() {
        fn failed(package: &str, tests: usize) -> ClosingLines {
            let mut stream = vec!["test record::b ... FAILED"; tests];
            let rerun = format!("error: test failed, to rerun pass `-p {package} --test cli`");
            stream.push("test result: FAILED. 1 passed; 1 failed; 0 ignored");
            stream.push(&rerun);
            held(&stream).0
        }
        assert!(failed("convoy", 1).may_be_repeated());
        assert_eq!(failed("convoy", 1).failures[0].live(), Some(vec!["--test", "cli"]));
        assert!(!failed("convoy", MOST + 1).may_be_repeated());
        assert!(
            !failed("convoy-kernel", 1).may_be_repeated(),
            "a simulation is the same each time"
        );
        assert!(!failed("convoy-sync", 1).may_be_repeated(), "a lock that fails rarely is broken");
        assert!(!ClosingLines::default().may_be_repeated(), "what failed is not known");
        let mut closing = failed("convoy", 1);
        closing.hold("error: test failed, to rerun pass `-p convoy --test bisect`");
        assert!(!closing.may_be_repeated(), "a program crashed");
    }
}
