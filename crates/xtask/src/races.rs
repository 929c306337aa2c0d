//! `cargo xtask races`: the recorder, and the replacement locks of `convoy with`, under
//! `ThreadSanitizer`. The object is compiled with it by a nightly toolchain, C programs by gcc;
//! libc itself is not instrumented, so each lock runs only code outside libc.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use crate::peers::output;
use crate::stage::Ending;

/// The exit code of a program in which a race was found.
const RACE: i32 = 66;
/// Longest that a program runs.
const SECONDS: &str = "120";

/// The kind of machine on which `ThreadSanitizer` and gcc work together here.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Flags of the locks and of the object.
const FLAGS: &str = "-Cforce-unwind-tables=yes -Zsanitizer=thread \
                     -Cunsafe-allow-abi-mismatch=sanitizer";

/// The replacement of libc's locks, and the programs that run with it.
struct Case {
    locks: &'static [(&'static str, &'static str)],
    recorded: &'static [bool],
    programs: &'static [&'static str],
    /// Whether a race must be found: libc's locks are not seen, so the counts of the program race.
    races: bool,
}

/// Trying and limits of time are libc's under `spin` and `sleep`, and so are condition variables.
const ONLY_WAITS: &[&str] = &["plain 4 5000 w", "plain 12 3000 w"];
const MUTEXES: &[&str] = &["plain 4 5000", "plain 12 3000", "stress 4 400", "queue", "shares 8"];
const BOTH: &[bool] = &[false, true];

const CASES: [Case; 6] = [
    Case { locks: &[], recorded: BOTH, programs: &["plain 4 5000"], races: true },
    Case { locks: &[("MUTEX", "spin")], recorded: &[false], programs: ONLY_WAITS, races: false },
    Case { locks: &[("MUTEX", "sleep")], recorded: &[false], programs: ONLY_WAITS, races: false },
    Case { locks: &[("MUTEX", "fair")], recorded: BOTH, programs: MUTEXES, races: false },
    Case { locks: &[("MUTEX", "handoff")], recorded: BOTH, programs: MUTEXES, races: false },
    Case {
        locks: &[("MUTEX", "handoff"), ("SEM", "handoff")],
        recorded: BOTH,
        programs: &["turns 8 300", "roles"],
        races: false,
    },
];

/// Compiles everything, runs every case.
pub(crate) fn run(root: &Path) -> anyhow::Result<Ending> {
    let there = |command: &mut Command| command.output().is_ok_and(|out| out.status.success());
    if !there(Command::new("rustc").args(["+nightly", "--version"])) {
        return Ok(Ending::Skipped("a nightly toolchain: rustup toolchain install nightly"));
    }
    let place = root.join("target/races");
    std::fs::create_dir_all(&place)?;
    let object = object(root, &place)?;
    for program in ["plain", "stress", "queue", "shares", "turns", "roles"] {
        let source = root.join("crates/record/tests/programs").join(program).with_extension("c");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-fsanitize=thread", "-pthread", "-o"]).arg(place.join(program));
        output(gcc.arg(source))?;
    }
    let mut passed = true;
    for case in &CASES {
        for &recorded in case.recorded {
            for words in case.programs {
                passed &= case.run(&place, &object, recorded, words)?;
            }
        }
    }
    Ok(if passed { Ending::Passed } else { Ending::Failed })
}

/// Builds the object with cargo, as `crates/record/build.rs` does, for `ThreadSanitizer`, and
/// returns its path.
fn object(root: &Path, place: &Path) -> anyhow::Result<std::path::PathBuf> {
    let past = place.join("past_sanitizer.o");
    let source = root.join("crates/record/tests/programs/past_sanitizer.c");
    output(Command::new("gcc").args(["-O1", "-fPIC", "-c", "-o"]).arg(&past).arg(source))?;
    let mut cargo = Command::new("rustup");
    cargo.current_dir(root).args(["run", "nightly", "cargo", "rustc", "--package"]);
    cargo.args(["convoy-preload", "--profile", "preload", "--locked", "--target", TARGET]);
    cargo.arg("--target-dir").arg(place);
    for (key, value) in [("LTO", "off"), ("OPT_LEVEL", "2"), ("DEBUG", "2"), ("STRIP", "none")] {
        cargo.env(format!("CARGO_PROFILE_PRELOAD_{key}"), value);
    }
    // The calling cargo is of another toolchain.
    cargo.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    cargo.env("RUSTFLAGS", FLAGS);
    cargo.args(["--", "-Zexternal-clangrt", "-C"]).arg(format!("link-arg={}", past.display()));
    output(&mut cargo)?;
    Ok(place.join(TARGET).join("preload/libconvoy_preload.so"))
}

impl Case {
    /// Whether a program ends as it should.
    fn run(
        &self,
        place: &Path,
        object: &Path,
        recorded: bool,
        words: &str,
    ) -> anyhow::Result<bool> {
        let files = place.join("files");
        std::fs::create_dir_all(&files)?;
        // The sanitizer wants its memory where it expects it. What follows `env` has the object.
        let mut command = Command::new("timeout");
        command.args([SECONDS, "setarch", "-R", "env"]);
        command.arg(format!("LD_PRELOAD={}", object.display()));
        command.arg(format!("TSAN_OPTIONS=exitcode={RACE} report_signal_unsafe=0"));
        command.args(self.locks.iter().map(|(kind, policy)| format!("CONVOY_{kind}={policy}")));
        if recorded {
            command.arg(format!("CONVOY_RECORD_DIR={}", files.display()));
        }
        let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
        command.arg(place.join(name)).args(rest.split_whitespace());
        let ended = command.output()?;
        std::fs::remove_dir_all(&files)?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let code = ended.status.code();
        ensure!(
            [Some(0), Some(RACE)].contains(&code),
            "{words}: {:?} {}",
            ended.status,
            said.lines().next().unwrap_or_default()
        );
        let reports = said.matches("WARNING: ThreadSanitizer").count();
        let good = (code == Some(RACE)) == self.races;
        let locks: Vec<String> =
            self.locks.iter().map(|(kind, policy)| format!("{kind} {policy}")).collect();
        println!(
            "{:<32}{:<10}{words:<18}{reports:>3} reports{}",
            if locks.is_empty() { "libc's, unseen".to_owned() } else { locks.join(", ") },
            if recorded { "recorded" } else { "" },
            if good { "" } else { "  WRONG" }
        );
        if !good {
            println!("{said}");
        }
        Ok(good)
    }
}
