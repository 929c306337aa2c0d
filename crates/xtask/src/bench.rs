//! `cargo xtask bench`: instructions that Convoy executes for fixed work, and their history in
//! `results/instructions.jsonl`. Counts repeat within 0.1 % on any machine, however busy; times do
//! not.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::stage::{Ending, built, cargo, output, run as show, starts};

/// One line for each recorded commit.
const HISTORY: &str = "results/instructions.jsonl";
/// A growth above this is a finding, percent.
const GROWTH: f64 = 2.0;

/// Work by name: the program, and its arguments.
const WORK: [(&str, &str, &[&str]); 6] = [
    ("start", "convoy", &["list"]),
    ("simulate", "convoy", &["sim", "--kernel", "2.6.26-rc1", "--users", "2", "--quiet"]),
    ("check", "convoy", &["check", "opportunistic", "--budget", "1000", "--quiet"]),
    ("queue", CONTENTION, &["2000", "100000", "queue"]),
    ("semaphore", CONTENTION, &["2000", "100000"]),
    ("mutex", CONTENTION, &["2000", "100000", "mutex"]),
];
const CONTENTION: &str = "examples/contention";

/// The counts of one commit.
#[derive(Serialize, Deserialize)]
struct Record {
    commit: String,
    /// Day of the commit.
    day: String,
    /// Version of the compiler, which changes the counts, too.
    rustc: String,
    instructions: BTreeMap<String, u64>,
}

/// Counts with a release build and compares with the last record; with `keep`
/// adds a line to the history.
pub(crate) fn run(root: &Path, keep: bool) -> anyhow::Result<Ending> {
    if !starts("valgrind") {
        return Ok(Ending::Missing("valgrind: apt-get install valgrind"));
    }
    for what in [&["convoy", "--bin", "convoy"][..], &["convoy-machine", "--example", "contention"]]
    {
        let build = ["build", "--release", "--locked", "--package"];
        let ending = show(&mut cargo(root, &[&build[..], what].concat()))?;
        ensure!(matches!(ending, Ending::Passed), "{} cannot be built", what[0]);
    }
    let git = |words: &[&str]| output(Command::new("git").current_dir(root).args(words));
    let mut latest = Record {
        commit: git(&["describe", "--always", "--dirty", "--abbrev=12"])?.trim().to_owned(),
        day: git(&["log", "-1", "--format=%cs"])?.trim().to_owned(),
        rustc: output(Command::new("rustc").arg("--version"))?.trim().to_owned(),
        instructions: BTreeMap::new(),
    };
    for (name, program, arguments) in WORK {
        let counted = count(&built(root, "release", program), arguments)?;
        latest.instructions.insert(name.to_owned(), counted);
    }
    let text = std::fs::read_to_string(root.join(HISTORY)).unwrap_or_default();
    let records = read(&text)?;
    let before = records.last();
    let grown = before.map_or_else(Vec::new, |before| growth(before, &latest));
    let commit = before.map_or("", |before| before.commit.as_str());
    println!("million instructions, and the ratio to {commit}");
    for line in table(before, &latest).iter().chain(&grown) {
        println!("{line}");
    }
    if keep {
        ensure!(!latest.commit.ends_with("-dirty"), "commit the changes before you record them");
        let mut file =
            std::fs::File::options().create(true).append(true).open(root.join(HISTORY))?;
        writeln!(file, "{}", serde_json::to_string(&latest)?)?;
    }
    Ok(if grown.is_empty() { Ending::Passed } else { Ending::Failed })
}

/// Returns the number of instructions that `program` executes in user mode.
fn count(program: &Path, arguments: &[&str]) -> anyhow::Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    let result = valgrind.arg(program).args(arguments).env("CONVOY_STORE", "none").output()?;
    let text = String::from_utf8_lossy(&result.stderr);
    ensure!(result.status.success(), "{} failed: {text}", program.display());
    counted(&text).with_context(|| format!("valgrind printed no count: {text}"))
}

/// Returns the count in what valgrind prints, such as `==12== I   refs:      1,234`.
fn counted(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("refs:"))?;
    line.rsplit(' ').next()?.replace(',', "").parse().ok()
}

fn read(text: &str) -> anyhow::Result<Vec<Record>> {
    text.lines().map(|line| serde_json::from_str(line).context(HISTORY)).collect()
}

/// Returns a line for each work that takes more instructions than before.
fn growth(before: &Record, after: &Record) -> Vec<String> {
    let grown = after.instructions.iter().filter_map(|(name, &now)| {
        let then = *before.instructions.get(name)?;
        let percent = (now as f64 / then as f64 - 1.0) * 100.0;
        let of = &before.commit;
        (percent > GROWTH).then(|| format!("{name}: {percent:.1} % more instructions than {of}"))
    });
    let mut lines: Vec<String> = grown.collect();
    if !lines.is_empty() && before.rustc != after.rustc {
        lines.push(format!("the compiler changed, too: {} before", before.rustc));
    }
    lines
}

/// Returns a line for each work: millions of instructions, and the ratio to the record before.
fn table(before: Option<&Record>, after: &Record) -> Vec<String> {
    let counts = after.instructions.iter().map(|(name, &now)| {
        let then = before.and_then(|before| before.instructions.get(name));
        let ratio = then.map(|&then| format!("{:>10.4}", now as f64 / then as f64));
        format!("{name:<12}{:>12.1}{}", now as f64 / 1e6, ratio.unwrap_or_default())
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(commit: &str, counts: &[(&str, u64)]) -> Record {
        let instructions = counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        let [day, rustc] = ["2026-01-02", "rustc 1"].map(str::to_owned);
        Record { commit: commit.to_owned(), day, rustc, instructions }
    }

    #[test]
    fn counts_are_read() {
        assert_eq!(counted("==1== Cachegrind\n==1== I   refs:      1,002,003\n"), Some(1_002_003));
        assert_eq!(counted("==1== no count"), None);
    }

    #[test]
    fn growth_is_a_finding_and_a_new_work_is_not() {
        let before = record("a", &[("start", 1000), ("check", 1000)]);
        let after = record("b", &[("start", 1019), ("check", 1030), ("queue", 5)]);
        assert_eq!(growth(&before, &after), ["check: 3.0 % more instructions than a"]);
        assert_eq!(growth(&after, &before), [""; 0]);
    }

    #[test]
    fn the_table_has_the_ratio_to_the_record_before() {
        let [before, after] = [2_000_000, 3_000_000].map(|count| record("a", &[("start", count)]));
        let lines = table(Some(&before), &after);
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["start", "3.0", "1.5000"]);
        let line = serde_json::to_string(&before).unwrap() + "\n";
        assert_eq!(read(&line).unwrap()[0].instructions["start"], 2_000_000);
        assert!(read("{}\n").is_err());
    }
}
