//! `cargo xtask predictions`: what `convoy predict` says of small programs, or with `--real` of
//! programs that nobody here wrote, beside what is measured in the same minutes. Every row is
//! printed, good or bad.

mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::Outcome;
use crate::peers::output;
use crate::stage::cargo;
use programs::{LOOPS, Program, REAL};

/// Pairs of a measurement: the least and the most of five hold the median with 94 % confidence.
const PAIRS: usize = 5;
/// Length of a run, milliseconds.
const RUN_MS: &str = "400";
/// Numbers of threads, unless others are asked for; the third one, or the last, is predicted from
/// the first one too.
const THREADS: [u32; 3] = [4, 16, 64];
const REAL_THREADS: [u32; 4] = [4, 16, 64, 256];
/// Ratio of the most and the least of the pairs, or of the recorded run and the others, from which
/// a program has two speeds of its own.
const BISTABLE: f64 = 2.0;

/// What is asked for.
pub(crate) struct Wanted<'a> {
    /// Programs of packages, not loops of ours.
    real: bool,
    threads: Vec<u32>,
    cpus: Vec<u32>,
    /// Names of programs; empty: all.
    only: Vec<&'a str>,
    /// A binary of convoy; none: a release build.
    convoy: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// Of the arguments; `None` if they make no sense.
    pub(crate) fn of(arguments: &[&'a str]) -> Option<Self> {
        let numbers = |text: &str| -> Option<Vec<u32>> {
            text.split(',').map(|one| one.parse().ok()).collect()
        };
        let real = arguments.contains(&"--real");
        let threads = if real { REAL_THREADS.to_vec() } else { THREADS.to_vec() };
        let mut wanted = Self { real, threads, cpus: vec![1, 2], only: Vec::new(), convoy: None };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--real" => {}
                "--threads" => wanted.threads = numbers(rest.next()?)?,
                "--cpus" => wanted.cpus = numbers(rest.next()?)?,
                "--only" => wanted.only.push(rest.next()?),
                path if !path.starts_with('-') && wanted.convoy.is_none() => {
                    wanted.convoy = Some(path);
                }
                _ => return None,
            }
        }
        let positive = |list: &[u32]| !list.is_empty() && list.iter().all(|&one| one > 0);
        (positive(&wanted.threads) && positive(&wanted.cpus)).then_some(wanted)
    }

    fn programs(&self) -> impl Iterator<Item = &'static Program> {
        let all: &[Program] = if self.real { &REAL } else { &LOOPS };
        all.iter().filter(|one| self.only.is_empty() || self.only.contains(&one.name))
    }
}

/// A change that was predicted and measured, as ratios.
struct Row {
    what: String,
    predicted: f64,
    measured: f64,
    low: f64,
    high: f64,
    /// Throughput of the run that was recorded, of that of the runs that were not.
    recorded: f64,
    /// Whether `predict` says itself that its replay is another program.
    doubted: bool,
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
        let recorded =
            predicted.recorded.map_or(1.0, |recorded| recorded / sorted(before.to_vec())[1]);
        let doubted = predicted.doubted;
        Self { what, predicted: predicted.ratio, measured, low, high, recorded, doubted }
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
    /// Throughput of the record, if it is what the program prints.
    recorded: Option<f64>,
    doubted: bool,
}

/// The tools of all rows.
struct Bench {
    convoy: PathBuf,
    place: PathBuf,
    record: PathBuf,
    threads: Vec<u32>,
}

/// Measures and predicts.
pub(crate) fn run(root: &Path, wanted: &Wanted<'_>) -> anyhow::Result<Outcome> {
    let place = root.join("target/predictions");
    std::fs::create_dir_all(&place)?;
    let convoy = if let Some(path) = wanted.convoy {
        PathBuf::from(path)
    } else {
        let build = ["build", "--release", "--locked", "--package", "convoy"];
        output(&mut cargo(root, &build))?;
        root.join("target/release/convoy")
    };
    let source = root.join("crates/record/tests/programs/rate.c");
    let mut compile = Command::new("cc");
    output(compile.args(["-O1", "-g", "-pthread", "-o"]).arg(place.join("rate")).arg(source))?;
    if wanted.real {
        programs::prepare(&place)?;
    }
    let record = place.join("record.json");
    let bench = Bench { convoy, place, record, threads: wanted.threads.clone() };
    let head = ["", "predicted", "measured", "from", "to", "error", "beyond"];
    let [what, predicted, measured, from, to, error, beyond] = head;
    println!("{what:<52}{predicted:>10}{measured:>10}{from:>8}{to:>8}{error:>8}{beyond:>8}");
    let mut rows = Vec::new();
    for &cpus in &wanted.cpus {
        for program in wanted.programs() {
            if !program.is_installed(&bench.place) {
                println!("{}: not installed, so not measured", program.name);
                continue;
            }
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
        "{:<52}{:>10}{:>10}{:>8}{:>8}{:>8}{:>8}{}{}",
        row.what,
        percent(row.predicted),
        percent(row.measured),
        percent(row.low),
        percent(row.high),
        format!("{:+.0} %", row.error()),
        format!("{:.0} %", row.beyond()),
        if row.is_bistable() { "  bistable" } else { "" },
        if row.doubted { "  doubted" } else { "" }
    );
}

fn summary(rows: &[Row]) {
    let middle = |of: fn(&Row) -> f64| {
        let kept = rows.iter().filter(|row| !row.is_bistable() && !row.doubted);
        let mut all: Vec<f64> = kept.map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let signs: Vec<bool> = rows.iter().filter(|row| !row.doubted).filter_map(Row::sign).collect();
    let right = signs.iter().filter(|right| **right).count();
    println!(
        "{} rows, {} of them bistable and {} that predict doubts itself left out: the change is \
         off by {:.0} % (median), by {:.0} % beyond what repeats differ by; sign right in {right} \
         of the {} rows that show one",
        rows.len(),
        rows.iter().filter(|row| row.is_bistable()).count(),
        rows.iter().filter(|row| row.doubted && !row.is_bistable()).count(),
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
        let few = self.threads[0];
        let many = self.threads.get(THREADS.len() - 1).or(self.threads.last());
        let many = *many.unwrap_or(&few);
        for &threads in &self.threads {
            let mut rates = vec![Vec::new(); program.policies.len()];
            for _ in 0..PAIRS {
                for (rates, policy) in rates.iter_mut().zip(program.policies) {
                    rates.push(self.rate(cpus, program, threads, policy)?);
                }
            }
            self.record(cpus, program, threads, base)?;
            let predicted = self.predict(program, &["--policy", &others.join(",")])?;
            let name =
                |policy: &str| format!("{}, {cpus} CPU, {threads} threads: {policy}", program.name);
            for ((policy, after), predicted) in others.iter().zip(&rates[1..]).zip(predicted) {
                row(Row::new(name(policy), predicted, &rates[0], after));
            }
            if threads == few && many != few {
                let flags = ["--policy", base, "--threads", &many.to_string()];
                more = self.predict(program, &flags)?.first().copied();
            }
            bases.push(rates.swap_remove(0));
        }
        let at = |threads| self.threads.iter().position(|&one| one == threads);
        let of = |threads| at(threads).and_then(|at| bases.get(at));
        if let (Some(predicted), Some(before), Some(after)) = (more, of(few), of(many)) {
            let what = format!("{}, {cpus} CPU, {base}: {few} to {many} threads", program.name);
            row(Row::new(what, predicted, before, after));
        }
        Ok(())
    }

    /// A command kept to so many CPUs.
    fn kept(cpus: u32, program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &format!("0-{}", cpus - 1)]).arg(program);
        command
    }

    /// The flags of `convoy with` and `convoy record` for a lock; libc's own needs none.
    fn flags<'a>(program: &Program, policy: &'a str) -> Vec<&'a str> {
        if policy == "sleep" { Vec::new() } else { vec![program.flag, policy] }
    }

    /// What the program says of its rate.
    fn rate(
        &self,
        cpus: u32,
        program: &Program,
        threads: u32,
        policy: &str,
    ) -> anyhow::Result<f64> {
        let (flags, words) = (Self::flags(program, policy), program.words(&self.place, threads));
        let mut command = if flags.is_empty() {
            Self::kept(cpus, Path::new(&words[0]))
        } else {
            let mut command = Self::kept(cpus, &self.convoy);
            command.arg("with").args(flags).args(["--", &words[0]]);
            command
        };
        program.rate(&output(command.args(&words[1..]))?, threads)
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
        command.args(Self::flags(program, policy)).arg("--");
        output(command.args(program.words(&self.place, threads))).map(|_| ())
    }

    /// The predicted changes, one for each row.
    fn predict(&self, program: &Program, flags: &[&str]) -> anyhow::Result<Vec<Predicted>> {
        let mut command = Command::new(&self.convoy);
        command.arg("predict").arg(&self.record).args(flags).args(["--format", "json"]);
        let prediction: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
        let rows = prediction["rows"].as_array().context("a prediction has rows")?;
        let recorded = prediction["anchor"][0]["acquisitions_per_s"].as_f64();
        // The loops count acquisitions, the others what they do with them.
        let is_loop = LOOPS.iter().any(|one| one.name == program.name);
        let recorded = recorded.filter(|_| is_loop);
        let doubted = !prediction["doubt"].is_null();
        let predicted = |row: &serde_json::Value| {
            let change = row["change_percent"].as_f64().context("a row has a change")?;
            Ok(Predicted { ratio: 1.0 + change / 100.0, recorded, doubted })
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
        let of = |ratio| Predicted { ratio, recorded: Some(100.0), doubted: false };
        let row = |ratio| {
            Row::new(String::new(), of(ratio), &before, &[120.0, 150.0, 130.0, 110.0, 140.0])
        };
        let near = row(1.5);
        assert!(near.beyond().abs() < 1e-9 && near.error() > 15.0 && !near.is_bistable());
        assert_eq!((near.sign(), row(0.9).sign()), (Some(true), Some(false)));
        assert!((row(3.0).beyond() - 100.0).abs() < 1e-9);
        let both = Row::new(String::new(), of(0.5), &before, &[90.0, 100.0, 110.0, 95.0, 300.0]);
        assert!(both.is_bistable() && both.sign().is_none());
        let slow = Predicted { ratio: 1.0, recorded: Some(40.0), doubted: false };
        assert!(Row::new(String::new(), slow, &before, &before).is_bistable());
    }
}
