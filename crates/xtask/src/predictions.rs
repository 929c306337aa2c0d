//! `cargo xtask predictions`: what `convoy predict` says of small programs, beside what is measured
//! in the same minutes. Every row is printed, good or bad.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::Outcome;
use crate::peers::output;
use crate::stage::cargo;

/// Pairs of a measurement: the least and the most of five hold the median with 94 % confidence.
const PAIRS: usize = 5;
/// Length of a run, milliseconds.
const RUN_MS: &str = "400";
/// Numbers of threads; the last one is predicted from the first one too.
const THREADS: [u32; 3] = [4, 16, 64];
/// Ratio of the most and the least of the pairs, or of the recorded run and the others, from which
/// a program has two speeds of its own.
const BISTABLE: f64 = 2.0;

/// A program of `crates/record/tests/programs/rate.c`, recorded under the first of its locks.
struct Program {
    kind: &'static str,
    flag: &'static str,
    policies: &'static [&'static str],
}

const PROGRAMS: [Program; 3] = [
    Program { kind: "turn", flag: "--sem", policies: &["handoff", "sleep"] },
    Program { kind: "hot", flag: "--mutex", policies: &["sleep", "spin", "handoff"] },
    Program { kind: "rare", flag: "--mutex", policies: &["sleep", "spin", "handoff"] },
];

/// A change that was predicted and measured, as ratios.
struct Row {
    what: String,
    predicted: f64,
    measured: f64,
    low: f64,
    high: f64,
    /// Throughput of the run that was recorded, of that of the runs that were not.
    recorded: f64,
}

impl Row {
    /// Of pairs of rates before and after.
    fn new(what: String, predicted: Predicted, before: &[f64], after: &[f64]) -> Self {
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            [0, PAIRS / 2, PAIRS - 1].map(|at| values[at])
        };
        let ratios = after.iter().zip(before).map(|(a, b)| a / b).collect();
        let [low, measured, high] = sorted(ratios);
        let recorded = predicted.recorded / sorted(before.to_vec())[1];
        Self { what, predicted: predicted.ratio, measured, low, high, recorded }
    }

    fn is_bistable(&self) -> bool {
        let twice = |ratio: f64| ratio.max(1.0 / ratio) > BISTABLE;
        twice(self.high / self.low) || twice(self.recorded)
    }

    /// How far off the prediction is, percent of what was measured.
    fn error(&self) -> f64 {
        100.0 * (self.predicted / self.measured - 1.0)
    }

    /// The same beyond what repeats differ by.
    fn beyond(&self) -> f64 {
        let nearest = self.predicted.clamp(self.low, self.high);
        100.0 * (self.predicted / nearest - 1.0).abs()
    }

    /// Whether the direction is right; `None` where the repeats show none.
    fn sign(&self) -> Option<bool> {
        let shown = self.low > 1.0 || self.high < 1.0;
        shown.then_some((self.predicted > 1.0) == (self.measured > 1.0))
    }
}

/// A change that was predicted from a record.
#[derive(Clone, Copy)]
struct Predicted {
    ratio: f64,
    /// Throughput of the record.
    recorded: f64,
}

/// The tools of all rows.
struct Bench {
    convoy: PathBuf,
    program: PathBuf,
    record: PathBuf,
}

/// Measures and predicts with the binary that is given, else with a release build.
pub(crate) fn run(root: &Path, convoy: Option<&str>) -> anyhow::Result<Outcome> {
    let place = root.join("target/predictions");
    std::fs::create_dir_all(&place)?;
    let convoy = if let Some(path) = convoy {
        PathBuf::from(path)
    } else {
        let build = ["build", "--release", "--locked", "--package", "convoy"];
        output(&mut cargo(root, &build))?;
        root.join("target/release/convoy")
    };
    let bench = Bench { convoy, program: place.join("rate"), record: place.join("record.json") };
    let source = root.join("crates/record/tests/programs/rate.c");
    let mut compile = Command::new("cc");
    output(compile.args(["-O1", "-g", "-pthread", "-o"]).arg(&bench.program).arg(source))?;
    let head = ["", "predicted", "measured", "from", "to", "error", "beyond"];
    let [what, predicted, measured, from, to, error, beyond] = head;
    println!("{what:<38}{predicted:>10}{measured:>10}{from:>8}{to:>8}{error:>8}{beyond:>8}");
    let mut rows = Vec::new();
    for cpus in [1, 2] {
        for program in &PROGRAMS {
            bench.rows(cpus, program, &mut |row| {
                print(&row);
                rows.push(row);
            })?;
        }
    }
    summary(&rows);
    Ok(Outcome::Done)
}

fn print(row: &Row) {
    let percent = |ratio: f64| format!("{:+.0} %", 100.0 * (ratio - 1.0));
    println!(
        "{:<38}{:>10}{:>10}{:>8}{:>8}{:>8}{:>8}{}",
        row.what,
        percent(row.predicted),
        percent(row.measured),
        percent(row.low),
        percent(row.high),
        format!("{:+.0} %", row.error()),
        format!("{:.0} %", row.beyond()),
        if row.is_bistable() { "  bistable" } else { "" }
    );
}

fn summary(rows: &[Row]) {
    let middle = |of: fn(&Row) -> f64| {
        let mut all: Vec<f64> = rows.iter().filter(|row| !row.is_bistable()).map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let signs: Vec<bool> = rows.iter().filter_map(Row::sign).collect();
    let right = signs.iter().filter(|right| **right).count();
    println!(
        "{} rows, {} of them bistable and left out: the change is off by {:.0} % (median), by \
         {:.0} % beyond what repeats differ by; sign right in {right} of the {} rows that show one",
        rows.len(),
        rows.iter().filter(|row| row.is_bistable()).count(),
        middle(|row| row.error().abs()),
        middle(Row::beyond),
        signs.len()
    );
}

impl Bench {
    /// All rows of a program on so many CPUs.
    fn rows(&self, cpus: u32, program: &Program, row: &mut impl FnMut(Row)) -> anyhow::Result<()> {
        let (base, others) = (program.policies[0], &program.policies[1..]);
        let mut bases: Vec<Vec<f64>> = Vec::new();
        let mut more = None;
        for threads in THREADS {
            let mut rates = vec![Vec::new(); program.policies.len()];
            for _ in 0..PAIRS {
                for (rates, policy) in rates.iter_mut().zip(program.policies) {
                    rates.push(self.rate(cpus, program, threads, policy)?);
                }
            }
            self.record(cpus, program, threads, base)?;
            let predicted = self.predict(&["--policy", &others.join(",")])?;
            let name =
                |policy: &str| format!("{}, {cpus} CPU, {threads} threads: {policy}", program.kind);
            for ((policy, after), predicted) in others.iter().zip(&rates[1..]).zip(predicted) {
                row(Row::new(name(policy), predicted, &rates[0], after));
            }
            if threads == THREADS[0] {
                let most = THREADS[THREADS.len() - 1].to_string();
                more = self.predict(&["--policy", base, "--threads", &most])?.first().copied();
            }
            bases.push(rates.swap_remove(0));
        }
        if let (Some(predicted), Some(few), Some(many)) = (more, bases.first(), bases.last()) {
            let threads = format!("{} to {} threads", THREADS[0], THREADS[THREADS.len() - 1]);
            let what = format!("{}, {cpus} CPU, {base}: {threads}", program.kind);
            row(Row::new(what, predicted, few, many));
        }
        Ok(())
    }

    /// The command of convoy, or of the program itself, kept to so many CPUs.
    fn kept(cpus: u32, program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &format!("0-{}", cpus - 1)]).arg(program);
        command
    }

    /// The flags of `convoy with` and `convoy record` for a lock; libc's own needs none.
    fn flags<'a>(program: &Program, policy: &'a str) -> Vec<&'a str> {
        if policy == "sleep" { Vec::new() } else { vec![program.flag, policy] }
    }

    /// What the program prints.
    fn rate(
        &self,
        cpus: u32,
        program: &Program,
        threads: u32,
        policy: &str,
    ) -> anyhow::Result<f64> {
        let flags = Self::flags(program, policy);
        let mut command = if flags.is_empty() {
            Self::kept(cpus, &self.program)
        } else {
            let mut command = Self::kept(cpus, &self.convoy);
            command.arg("with").args(flags).arg("--").arg(&self.program);
            command
        };
        let text = output(command.args([program.kind, &threads.to_string(), RUN_MS]))?;
        text.trim().parse().with_context(|| format!("{command:?} printed {text:?}"))
    }

    fn record(
        &self,
        cpus: u32,
        program: &Program,
        threads: u32,
        policy: &str,
    ) -> anyhow::Result<()> {
        let mut command = Self::kept(cpus, &self.convoy);
        command.args(["record", "--quiet", "-o"]).arg(&self.record);
        command.args(Self::flags(program, policy)).arg("--").arg(&self.program);
        output(command.args([program.kind, &threads.to_string(), RUN_MS])).map(|_| ())
    }

    /// The predicted changes, one for each row.
    fn predict(&self, flags: &[&str]) -> anyhow::Result<Vec<Predicted>> {
        let mut command = Command::new(&self.convoy);
        command.arg("predict").arg(&self.record).args(flags).args(["--format", "json"]);
        let prediction: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
        let rows = prediction["rows"].as_array().context("a prediction has rows")?;
        let recorded = prediction["anchor"][0]["acquisitions_per_s"].as_f64();
        let recorded = recorded.context("an anchor has a throughput")?;
        let predicted = |row: &serde_json::Value| {
            let change = row["change_percent"].as_f64().context("a row has a change")?;
            Ok(Predicted { ratio: 1.0 + change / 100.0, recorded })
        };
        rows.iter().map(predicted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_within_the_repeats_and_signs_that_they_do_not_show_do_not_count() {
        let before = [100.0; PAIRS];
        let of = |ratio| Predicted { ratio, recorded: 100.0 };
        let row = |ratio| {
            Row::new(String::new(), of(ratio), &before, &[120.0, 150.0, 130.0, 110.0, 140.0])
        };
        let near = row(1.5);
        assert!(near.beyond().abs() < 1e-9 && near.error() > 15.0 && !near.is_bistable());
        assert_eq!((near.sign(), row(0.9).sign()), (Some(true), Some(false)));
        assert!((row(3.0).beyond() - 100.0).abs() < 1e-9);
        let both = Row::new(String::new(), of(0.5), &before, &[90.0, 100.0, 110.0, 95.0, 300.0]);
        assert!(both.is_bistable() && both.sign().is_none());
        let slow = Predicted { ratio: 1.0, recorded: 40.0 };
        assert!(Row::new(String::new(), slow, &before, &before).is_bistable());
    }
}
