//! `cargo xtask predictions`: compares predictions by `convoy predict` for small programs, or with
//! `--real` for third-party programs, with measurements in the same minutes. Every row is printed,
//! good or bad. The prediction comes first, so that no measurement decides which rows are refused.

mod load;
mod page;
mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::outcome::Outcome;
use crate::peers::output;
use crate::stage::cargo;
use load::Load;
use page::Lines;
use programs::{LOOPS, Program, REAL, Split};

/// Pairs of a measurement: the least and the most of five hold the median with 94 % confidence, of
/// three with 75 %.
const PAIRS: usize = 5;
/// Rounds of a prediction, as `convoy predict` has them.
const ROUNDS: usize = 3;
/// CPUs that other programs may use while a row is measured before it is left out of the medians:
/// as in `crates/workload/src/disturbance.rs`.
const QUIET_CPUS: f64 = 0.15;
/// Numbers of threads, unless others are asked for; the third one, or the last, is predicted from
/// the first one too.
const THREADS: [u32; 3] = [4, 16, 64];
const REAL_THREADS: [u32; 4] = [4, 16, 64, 256];
/// Ratio of the maximum to the minimum of the pairs, or of the recorded run to the others, from
/// which a program counts as bistable.
const BISTABLE: f64 = 2.0;

/// The request.
pub(crate) struct Wanted<'a> {
    /// Packaged programs instead of loops.
    real: bool,
    threads: Vec<u32>,
    cpus: Vec<u32>,
    /// Names of programs; empty: all.
    only: Vec<&'a str>,
    pairs: usize,
    rounds: usize,
    /// Priority of the measured programs, for nice(1); predictions keep theirs.
    nice: &'a str,
    /// A binary of convoy; none: a release build.
    convoy: Option<&'a str>,
    /// Whether the results replace the table of docs/predictions.md.
    write: bool,
}

impl<'a> Wanted<'a> {
    /// Parses the arguments. Returns `None` if they make no sense.
    pub(crate) fn of(arguments: &[&'a str]) -> Option<Self> {
        fn numbers(text: &str) -> Option<Vec<u32>> {
            text.split(',').map(|one| one.parse().ok()).collect()
        }
        let real = arguments.contains(&"--real");
        let threads = if real { REAL_THREADS.to_vec() } else { THREADS.to_vec() };
        let (cpus, only) = (vec![1, 2], Vec::new());
        let (pairs, rounds) = (PAIRS, ROUNDS);
        let (nice, convoy, write) = ("0", None, arguments.contains(&"--write"));
        let mut wanted = Self { real, threads, cpus, only, pairs, rounds, nice, convoy, write };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--real" | "--write" => {}
                "--threads" => wanted.threads = numbers(rest.next()?)?,
                "--cpus" => wanted.cpus = numbers(rest.next()?)?,
                "--only" => wanted.only.push(rest.next()?),
                "--pairs" => wanted.pairs = rest.next()?.parse().ok()?,
                "--nice" => wanted.nice = rest.next().filter(|nice| nice.parse::<i8>().is_ok())?,
                "--rounds" => wanted.rounds = rest.next()?.parse().ok()?,
                path if !path.starts_with('-') && wanted.convoy.is_none() => {
                    wanted.convoy = Some(path);
                }
                _ => return None,
            }
        }
        let positive = |list: &[u32]| !list.is_empty() && list.iter().all(|&one| one > 0);
        let some = wanted.pairs > 0 && wanted.rounds > 0;
        (some && positive(&wanted.threads) && positive(&wanted.cpus)).then_some(wanted)
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
    /// Throughput of the recorded run, relative to the unrecorded runs.
    recorded: f64,
    /// CPUs that other programs used during the measurement, among those available to the program.
    others: f64,
}

impl Row {
    /// Of pairs of rates before and after.
    fn new(what: String, predicted: Predicted, before: &[f64], after: &[f64]) -> Self {
        fn sorted(mut values: Vec<f64>) -> [f64; 3] {
            values.sort_by(f64::total_cmp);
            [0, values.len() / 2, values.len() - 1].map(|at| values[at])
        }
        let ratios = after.iter().zip(before).map(|(a, b)| a / b).collect();
        let [low, measured, high] = sorted(ratios);
        let recorded =
            predicted.recorded.map_or(1.0, |recorded| recorded / sorted(before.to_vec())[1]);
        let predicted = predicted.ratio;
        Self { what, predicted, measured, low, high, recorded, others: 0.0 }
    }

    fn beside(self, others: f64) -> Self {
        Self { others, ..self }
    }

    fn is_disturbed(&self) -> bool {
        self.others > QUIET_CPUS
    }

    fn is_bistable(&self) -> bool {
        let twice = |ratio: f64| ratio.max(1.0 / ratio) > BISTABLE;
        twice(self.high / self.low) || twice(self.recorded)
    }

    /// Returns the error of the prediction, in percent of the measurement.
    fn error(&self) -> f64 {
        100.0 * (self.predicted / self.measured - 1.0)
    }

    /// The same beyond what repeats differ by.
    fn beyond(&self) -> f64 {
        let nearest = self.predicted.clamp(self.low, self.high);
        100.0 * (self.predicted / nearest - 1.0).abs()
    }

    /// Returns whether the direction is right, or `None` if the repeats show no direction.
    fn sign(&self) -> Option<bool> {
        let shown = self.low > 1.0 || self.high < 1.0;
        shown.then_some((self.predicted > 1.0) == (self.measured > 1.0))
    }
}

/// A change that was predicted from a record.
#[derive(Clone, Copy)]
struct Predicted {
    ratio: f64,
    /// Throughput of the record, if comparable with the program's output.
    recorded: Option<f64>,
}

/// Rows that were refused before they were measured.
struct Refused {
    what: String,
    why: String,
    rows: usize,
}

/// Rates of each policy and of the split lock, and the CPUs that other programs used.
struct Measured {
    rates: Vec<Vec<f64>>,
    parts: Vec<f64>,
    beside: f64,
}

/// The tools of all rows.
struct Bench {
    convoy: PathBuf,
    place: PathBuf,
    record: PathBuf,
    threads: Vec<u32>,
    pairs: usize,
    rounds: String,
    nice: String,
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
    let (threads, pairs) = (wanted.threads.clone(), wanted.pairs);
    let bench = Bench {
        convoy,
        place,
        record,
        threads,
        pairs,
        rounds: wanted.rounds.to_string(),
        nice: wanted.nice.to_owned(),
    };
    let mut lines = Lines::default();
    if (wanted.pairs, wanted.rounds) != (PAIRS, ROUNDS) {
        lines.say(format!(
            "reduced: {} pairs of runs instead of {PAIRS}, {} rounds of a prediction instead of \
             {ROUNDS}",
            wanted.pairs, wanted.rounds
        ));
    }
    let head = ["", "predicted", "measured", "from", "to", "error", "beyond", "others"];
    let [what, predicted, measured, from, to, error, beyond, others] = head;
    lines.say(format!(
        "{what:<52}{predicted:>10}{measured:>10}{from:>8}{to:>8}{error:>8}{beyond:>8}{others:>8}"
    ));
    let (mut rows, mut refused) = (Vec::new(), 0);
    for &cpus in &wanted.cpus {
        for program in wanted.programs() {
            if !program.is_installed(&bench.place) {
                lines.say(format!("{}: not installed, so not measured", program.name));
                continue;
            }
            bench.rows(cpus, program, &mut |found| match found {
                Ok(row) => {
                    lines.say(shown(&row));
                    rows.push(row);
                }
                Err(none) => {
                    lines.say(format!("{}: refused: {}", none.what, none.why));
                    refused += none.rows;
                }
            })?;
        }
    }
    summary(&rows, refused, &mut lines);
    if wanted.write {
        lines.write(root)?;
    }
    Ok(Outcome::Done)
}

fn shown(row: &Row) -> String {
    let percent = |ratio: f64| format!("{:+.0} %", 100.0 * (ratio - 1.0));
    format!(
        "{:<52}{:>10}{:>10}{:>8}{:>8}{:>8}{:>8}{:>8.2}{}{}",
        row.what,
        percent(row.predicted),
        percent(row.measured),
        percent(row.low),
        percent(row.high),
        format!("{:+.0} %", row.error()),
        format!("{:.0} %", row.beyond()),
        row.others,
        if row.is_disturbed() { "  disturbed" } else { "" },
        if row.is_bistable() { "  bistable" } else { "" }
    )
}

fn summary(rows: &[Row], refused: usize, lines: &mut Lines) {
    let count = |of: fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count();
    lines.say(format!(
        "{} rows: {} disturbed by other programs, {} bistable; {refused} more were refused before \
         they were measured",
        rows.len(),
        count(Row::is_disturbed),
        count(Row::is_bistable)
    ));
    let quiet: Vec<&Row> = rows.iter().filter(|row| !row.is_disturbed()).collect();
    lines.say(judge("undisturbed rows", &quiet));
    lines.say(judge("all rows, the disturbed ones too", &rows.iter().collect::<Vec<_>>()));
}

/// Returns a judgement of the predictions of some rows.
fn judge(what: &str, rows: &[&Row]) -> String {
    if rows.is_empty() {
        return format!("{what}: none");
    }
    let kept: Vec<_> = rows.iter().filter(|row| !row.is_bistable()).collect();
    let middle = |of: fn(&Row) -> f64| {
        let mut all: Vec<f64> = kept.iter().map(|row| of(row)).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let signs: Vec<bool> = rows.iter().filter_map(|row| row.sign()).collect();
    let right = signs.iter().filter(|right| **right).count();
    format!(
        "{what}, without bistable ones ({}): the change is off by {:.0} % (median), by \
         {:.0} % beyond what repeats differ by; no change would be off by {:.0} %; sign right in \
         {right} of the {} rows that show one",
        kept.len(),
        middle(|row| row.error().abs()),
        middle(Row::beyond),
        middle(|row| 100.0 * (1.0 / row.measured - 1.0).abs()),
        signs.len()
    )
}

impl Bench {
    /// Predicts all rows of a program on this number of CPUs, and measures those not refused.
    fn rows(
        &self,
        cpus: u32,
        program: &Program,
        row: &mut impl FnMut(Result<Row, Refused>),
    ) -> anyhow::Result<()> {
        let (base, others, few) = (program.policies[0], &program.policies[1..], self.threads[0]);
        let many = self.threads.get(THREADS.len() - 1).or(self.threads.last());
        let many = *many.unwrap_or(&few);
        let growth = format!("{}, {cpus} CPU, {base}: {few} to {many} threads", program.name);
        let (mut more, mut ends) = (None, Vec::new());
        for &threads in &self.threads {
            let at = format!("{}, {cpus} CPU, {threads} threads", program.name);
            let name = |what: &str| format!("{at}: {what}");
            self.record(cpus, program, threads, base)?;
            if threads == few && many != few {
                let flags = ["--policy", base, "--threads", &many.to_string()];
                match self.predict(program, &flags)? {
                    Ok(found) => more = found.first().copied(),
                    Err(why) => row(Err(Refused { what: growth.clone(), why, rows: 1 })),
                }
            }
            let policies = others.join(",");
            let mut flags = vec!["--policy", &policies];
            flags.extend(program.split.iter().flat_map(|split| ["--split", split.ways]));
            let predicted = self.predict(program, &flags)?.unwrap_or_else(|why| {
                let rows = others.len() + usize::from(program.split.is_some());
                row(Err(Refused { what: at.clone(), why, rows }));
                Vec::new()
            });
            let is_end = more.is_some() && [few, many].contains(&threads);
            let Measured { mut rates, parts, beside } = match (predicted.is_empty(), is_end) {
                (false, _) => self.measure(cpus, program, threads, program.policies)?,
                (true, true) => self.measure(cpus, program, threads, &program.policies[..1])?,
                (true, false) => continue,
            };
            for ((policy, after), &predicted) in others.iter().zip(&rates[1..]).zip(&predicted) {
                row(Ok(Row::new(name(policy), predicted, &rates[0], after).beside(beside)));
            }
            if let (Some(split), Some(&predicted)) = (&program.split, predicted.get(others.len())) {
                row(Ok(Row::new(name(split.what), predicted, &rates[0], &parts).beside(beside)));
            }
            if is_end {
                ends.push((rates.swap_remove(0), beside));
            }
        }
        if let (Some(predicted), [(before, first), (after, last)]) = (more, &ends[..]) {
            row(Ok(Row::new(growth, predicted, before, after).beside(first.max(*last))));
        }
        Ok(())
    }

    /// Measures these policies, and the lock in parts unless only the recorded policy is measured.
    fn measure(
        &self,
        cpus: u32,
        program: &Program,
        threads: u32,
        policies: &[&str],
    ) -> anyhow::Result<Measured> {
        let mut rates = vec![Vec::new(); policies.len()];
        let mut parts = Vec::new();
        let split = program.split.as_ref().filter(|_| policies.len() > 1);
        let load = Load::now(cpus)?;
        for _ in 0..self.pairs {
            for (rates, policy) in rates.iter_mut().zip(policies) {
                rates.push(self.rate(cpus, program, threads, policy, None)?);
            }
            if split.is_some() {
                parts.push(self.rate(cpus, program, threads, policies[0], split)?);
            }
        }
        Ok(Measured { rates, parts, beside: load.others(cpus)? })
    }

    /// Returns a command pinned to this number of CPUs, at the requested priority: also of its
    /// session, if the kernel shares CPUs between sessions (`sched_autogroup_enabled`).
    fn kept(&self, cpus: u32, program: &Path) -> Command {
        const SCRIPT: &str = "echo \"$0\" 2>/dev/null >/proc/self/autogroup; \
                              exec nice -n \"$0\" taskset -c \"$@\"";
        let cpus = format!("0-{}", cpus - 1);
        let mut command = Command::new(if self.nice == "0" { "taskset" } else { "setsid" });
        match self.nice.as_str() {
            "0" => command.args(["-c", &cpus]),
            nice => command.args(["--wait", "sh", "-c", SCRIPT, nice, &cpus]),
        };
        command.arg(program);
        command
    }

    /// Returns the flags of `convoy with` and `convoy record` for a lock; libc's own needs none.
    fn flags<'a>(program: &Program, policy: &'a str) -> Vec<&'a str> {
        if policy == "sleep" { Vec::new() } else { vec![program.flag, policy] }
    }

    /// Returns the rate that the program prints.
    fn rate(
        &self,
        cpus: u32,
        program: &Program,
        threads: u32,
        policy: &str,
        split: Option<&Split>,
    ) -> anyhow::Result<f64> {
        let mut words = program.words(&self.place, threads);
        let flags = Self::flags(program, policy);
        if let Some(split) = split {
            for word in words.iter_mut().filter(|word| *word == split.from) {
                split.to.clone_into(word);
            }
        }
        let mut command = if flags.is_empty() {
            self.kept(cpus, Path::new(&words[0]))
        } else {
            let mut command = self.kept(cpus, &self.convoy);
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
        let mut command = self.kept(cpus, &self.convoy);
        command.args(["record", "--kernel", "off", "--quiet", "-o"]).arg(&self.record);
        command.args(Self::flags(program, policy)).arg("--");
        output(command.args(program.words(&self.place, threads))).map(|_| ())
    }

    /// Returns the predicted changes, one for each row, or the reason why there are none.
    fn predict(
        &self,
        program: &Program,
        flags: &[&str],
    ) -> anyhow::Result<Result<Vec<Predicted>, String>> {
        let mut command = Command::new(&self.convoy);
        command.arg("predict").arg(&self.record).args(flags);
        command.args(["--rounds", &self.rounds, "--format", "json"]);
        let found = match output(&mut command) {
            Ok(found) => found,
            Err(error) => {
                // Without the command and its files, which are places of this machine.
                let text = error.to_string();
                let why = text.rsplit_once(".json: ").map_or(text.as_str(), |(_, why)| why);
                return Ok(Err(why.to_owned()));
            }
        };
        let prediction: serde_json::Value = serde_json::from_str(&found)?;
        if let Some(doubt) = prediction["doubt"].as_str() {
            return Ok(Err(doubt.to_owned()));
        }
        let rows = prediction["rows"].as_array().context("a prediction has rows")?;
        let recorded = prediction["anchor"][0]["acquisitions_per_s"].as_f64();
        // The loops count acquisitions, the others what they do with them.
        let is_loop = LOOPS.iter().any(|one| one.name == program.name);
        let recorded = recorded.filter(|_| is_loop);
        let predicted = |row: &serde_json::Value| {
            let change = row["change_percent"].as_f64().context("a row has a change")?;
            Ok(Predicted { ratio: 1.0 + change / 100.0, recorded })
        };
        rows.iter().map(predicted).collect::<anyhow::Result<_>>().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_within_the_repeats_and_signs_that_they_do_not_show_do_not_count() {
        let before = [100.0; PAIRS];
        let of = |ratio| Predicted { ratio, recorded: Some(100.0) };
        let row = |ratio| {
            Row::new(String::new(), of(ratio), &before, &[120.0, 150.0, 130.0, 110.0, 140.0])
        };
        let near = row(1.5);
        assert!(near.beyond().abs() < 1e-9 && near.error() > 15.0 && !near.is_bistable());
        assert_eq!((near.sign(), row(0.9).sign()), (Some(true), Some(false)));
        assert!((row(3.0).beyond() - 100.0).abs() < 1e-9);
        let both = Row::new(String::new(), of(0.5), &before, &[90.0, 100.0, 110.0, 95.0, 300.0]);
        assert!(both.is_bistable() && both.sign().is_none());
        let slow = Predicted { ratio: 1.0, recorded: Some(40.0) };
        assert!(Row::new(String::new(), slow, &before, &before).is_bistable());
    }
}
