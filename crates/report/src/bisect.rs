//! The result of a search for the first bad commit.

use core::fmt::Write;

use crate::format::{fixed, significant, wrap};
use crate::json::to_json;
use crate::table::{Cell, Column, Table, page_width, page_wrap};
use convoy_measure::bisect::Commit as BisectCommit;
use serde::{Deserialize, Serialize};

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BisectVerdict {
    /// One commit has the wanted confidence.
    Found,
    /// Several commits share it.
    Set,
    /// The ends do not differ.
    NoRegression,
    /// The level changes little by little over the history.
    Ramp,
    /// The level changes at two commits.
    TwoSteps,
    /// A change is taken back by a later one, wholly or in part.
    FixedAgain,
    /// The ends differ in the direction that was not looked for.
    Improvement,
}

/// A commit that may be the first bad one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectSuspect {
    /// The commit.
    pub commit: BisectCommit,
    /// Probability that it is the first bad one.
    pub probability: f64,
}

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectInterval {
    /// Its mean.
    pub mean: f64,
    /// The ends of the interval.
    pub ci95: [f64; 2],
}

/// The first bad commit against its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectConfirmation {
    /// Id of the parent.
    pub parent: String,
    /// Number of pairs of runs.
    pub pairs: usize,
    /// First bad commit less parent, in units of the metric.
    pub difference: BisectInterval,
    /// Two-sided p of the exact signed-rank test.
    pub p: f64,
    /// Whether the interval lies on the side of the effect that the search found.
    pub confirmed: bool,
}

/// A commit that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BisectSkip {
    /// Its id.
    pub commit: String,
    /// Why.
    pub cause: String,
}

/// A commit of the range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectPoint {
    /// Its number in history order; the good end is 0.
    pub position: usize,
    /// Its id.
    pub commit: String,
    /// Probability that it is the first bad one.
    pub probability: f64,
    /// What its runs gave, in the order in which they were made.
    pub values: Vec<f64>,
}

/// A search and its result. The fields are the JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectReport {
    /// How it ended.
    pub verdict: BisectVerdict,
    /// Id of the first bad commit, if one has the wanted confidence.
    pub first_bad: Option<String>,
    /// Probability that the answer is right: of the commit, of the set, or that there is nothing.
    pub confidence: f64,
    /// Runs that returned a value.
    pub runs: u32,
    /// Builds.
    pub builds: u32,
    /// Runs that failed and were repeated.
    pub failed_runs: u32,
    /// Why the search ended, in words.
    pub why: String,
    /// Commits that may be the first bad one, before the search.
    pub candidates: usize,
    /// The metric.
    pub metric: String,
    /// Its unit; may be empty.
    pub unit: String,
    /// The good end.
    pub good: BisectCommit,
    /// The bad end.
    pub bad: BisectCommit,
    /// The commits that have the wanted confidence together, the most probable first.
    pub credible_set: Vec<BisectSuspect>,
    /// Level of good commits.
    pub good_level: BisectInterval,
    /// Level of bad commits.
    pub bad_level: BisectInterval,
    /// Bad level less good level.
    pub effect: BisectInterval,
    /// The same in percent of the good level.
    pub effect_percent: BisectInterval,
    /// Standard deviation of one run.
    pub noise: f64,
    /// The answer against its parent.
    pub confirmation: Option<BisectConfirmation>,
    /// Commits that could not be measured.
    pub skipped: Vec<BisectSkip>,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// Path of the log.
    pub log: String,
    /// The measured commits and the commits of the credible set, in history order.
    pub points: Vec<BisectPoint>,
}

/// Commits of a set that a page shows.
const SHOWN: usize = 12;
/// Characters of a commit's id that a page shows.
const SHORT: usize = 12;

fn short(id: &str) -> &str {
    &id[..id.len().min(SHORT)]
}

impl BisectReport {
    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = self.headline();
        text.push('\n');
        if !matches!(self.verdict, BisectVerdict::Found) || self.credible_set.len() > 1 {
            text.push_str(&self.suspects());
        }
        for line in self.facts() {
            for part in wrap(&line, page_width()) {
                let _ = writeln!(text, "{part}");
            }
        }
        text
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// One row for each commit that was measured or is in the credible set.
    pub fn to_csv(&self) -> String {
        let columns =
            ["position", "commit", "probability", "runs", "mean", "min", "max", "skipped"];
        let mut table = Table::new("", columns.map(Column::text).to_vec());
        for point in &self.points {
            let n = point.values.len();
            let mean = point.values.iter().sum::<f64>() / n as f64;
            let smallest = point.values.iter().copied().fold(f64::NAN, f64::min);
            let largest = point.values.iter().copied().fold(f64::NAN, f64::max);
            let skipped = self.skipped.iter().find(|skip| skip.commit == point.commit);
            table.row(vec![
                Cell::count(point.position as u64),
                Cell::text(&point.commit),
                Cell::shown("", point.probability),
                Cell::count(n as u64),
                Cell::plain(mean),
                Cell::plain(smallest),
                Cell::plain(largest),
                Cell::text(skipped.map_or("", |skip| skip.cause.as_str())),
            ]);
        }
        table.to_csv()
    }

    fn headline(&self) -> String {
        let percent = percent_sure(self.confidence);
        match self.verdict {
            BisectVerdict::Found => {
                let mut text = String::new();
                if let Some(first) = self.credible_set.first() {
                    let BisectCommit { id: commit, author, date, subject } = &first.commit;
                    let short: String = commit.chars().take(12).collect();
                    let sentence = format!(
                        "{short} ({subject}) is the first bad commit, with {percent} confidence."
                    );
                    text = page_wrap(&sentence) + "\n";
                    let _ = writeln!(text, "  commit {commit}\n  author {author}");
                    let _ = writeln!(text, "  date   {date}\n\n      {subject}");
                }
                text
            }
            BisectVerdict::Set => format!(
                "the first bad commit is one of {} with {percent} confidence: {}\n",
                self.credible_set.len(),
                self.why
            ),
            BisectVerdict::NoRegression => format!("no regression: {}\n", self.why),
            BisectVerdict::Ramp => {
                format!("no single commit, with {percent} confidence: {}\n", self.why)
            }
            BisectVerdict::TwoSteps => {
                format!("two changes, with {percent} confidence: {}\n", self.why)
            }
            BisectVerdict::FixedAgain => {
                format!("changed and fixed again, with {percent} confidence: {}\n", self.why)
            }
            BisectVerdict::Improvement => format!("no regression, an improvement: {}\n", self.why),
        }
    }

    fn suspects(&self) -> String {
        if self.credible_set.is_empty() {
            return String::new();
        }
        let columns = vec![
            Column::number("probability", "%"),
            Column::text("commit"),
            Column::text("date"),
            Column::text("subject"),
        ];
        let mut table = Table::new("", columns);
        for suspect in self.credible_set.iter().take(SHOWN) {
            let BisectCommit { id, date, subject, .. } = &suspect.commit;
            table.row(vec![
                Cell::number(100.0 * suspect.probability, 1),
                Cell::text(short(id)),
                Cell::text(date.get(..10).unwrap_or(date)),
                Cell::text(subject.chars().take(72).collect::<String>()),
            ]);
        }
        let hidden = self.credible_set.len().saturating_sub(SHOWN);
        if hidden > 0 {
            table.note(format!("and {hidden} more; all are in the JSON"));
        }
        table.to_text() + "\n"
    }

    fn facts(&self) -> Vec<String> {
        let number = |value: f64| quantity(value, &self.unit);
        let mut lines = Vec::new();
        let (percent, [lo, hi]) = (self.effect_percent.mean, self.effect_percent.ci95);
        if self.good_level.mean.is_finite() && self.bad_level.mean.is_finite() {
            let change = if percent.is_finite() {
                format!("{} % ({} to {})", signed(percent), signed(lo), signed(hi))
            } else {
                number(self.effect.mean)
            };
            lines.push(format!(
                "{}: {change}, from {} to {}; one run varies by {}",
                self.metric,
                number(self.good_level.mean),
                number(self.bad_level.mean),
                number(self.noise)
            ));
        }
        if let Some(check) = &self.confirmation {
            let [lo, hi] = check.difference.ci95;
            lines.push(format!(
                "{} its parent {} in {} pairs: {} ({} to {}), signed-rank p {}",
                if check.confirmed { "confirmed against" } else { "NOT confirmed against" },
                short(&check.parent),
                check.pairs,
                number(check.difference.mean),
                number(lo),
                number(hi),
                if check.p < 0.001 {
                    "< 0.001".to_owned()
                } else {
                    format!("= {}", significant(check.p))
                }
            ));
        }
        lines.push(format!(
            "{} runs and {} builds for {} commits from {} to {}; {} skipped, {} failed runs",
            self.runs,
            self.builds,
            self.candidates,
            short(&self.good.id),
            short(&self.bad.id),
            self.skipped.len(),
            self.failed_runs
        ));
        for skip in self.skipped.iter().take(SHOWN) {
            lines.push(format!("skipped {}: {}", short(&skip.commit), skip.cause));
        }
        if self.skipped.len() > SHOWN {
            lines.push(format!("and {} more skipped", self.skipped.len() - SHOWN));
        }
        lines.extend(self.notes.iter().cloned());
        lines.push(format!("log: {}", self.log));
        lines
    }
}

/// A probability near 1 with as many digits as it takes to see that it is not 1.
fn percent_sure(p: f64) -> String {
    let decimals = if p > 0.9999 { 3 } else { 1 };
    let factor = 10_f64.powi(decimals);
    // Rounded down: 100 % is never printed.
    let shown = ((100.0 * p * factor).floor() / factor).min(100.0 - 1.0 / factor);
    format!("{} %", fixed(shown, decimals as usize))
}

fn signed(percent: f64) -> String {
    let text = fixed(percent, 1);
    if percent > 0.0 && text != "0.0" { format!("+{text}") } else { text }
}

/// A number with its unit; times in the unit that makes them readable.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    let (value, unit) = match (unit, value.abs()) {
        ("s", size) if size > 0.0 && size < 1e-3 => (1e6 * value, "µs"),
        ("s", size) if size > 0.0 && size < 1.0 => (1e3 * value, "ms"),
        ("bytes", size) if size >= 1_048_576.0 => (value / 1_048_576.0, "MiB"),
        _ => (value, unit),
    };
    let text = significant(value);
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(letter: &str, subject: &str) -> BisectCommit {
        BisectCommit {
            id: letter.repeat(40),
            author: "A. Writer".to_owned(),
            date: "2024-03-02T10:00:00+00:00".to_owned(),
            subject: subject.to_owned(),
        }
    }

    fn interval(mean: f64, half: f64) -> BisectInterval {
        BisectInterval { mean, ci95: [mean - half, mean + half] }
    }

    pub(crate) fn example() -> BisectReport {
        fn suspect(letter: &str, subject: &str, probability: f64) -> BisectSuspect {
            BisectSuspect { commit: commit(letter, subject), probability }
        }
        let point = |position: usize, letter: &str, probability, values: &[f64]| BisectPoint {
            position,
            commit: letter.repeat(40),
            probability,
            values: values.to_vec(),
        };
        BisectReport {
            verdict: BisectVerdict::Found,
            first_bad: Some("c".repeat(40)),
            confidence: 0.9971,
            runs: 31,
            builds: 9,
            failed_runs: 1,
            why: "one commit has the wanted confidence".to_owned(),
            candidates: 199,
            metric: "wall time".to_owned(),
            unit: "s".to_owned(),
            good: commit("a", "begin"),
            bad: commit("f", "end"),
            credible_set: vec![suspect("c", "sem: Hand the semaphore to the waiter", 0.9971)],
            good_level: interval(0.0501, 0.001),
            bad_level: interval(0.0803, 0.002),
            effect: interval(0.0302, 0.002),
            effect_percent: interval(60.3, 4.0),
            noise: 0.0021,
            confirmation: Some(BisectConfirmation {
                parent: "b".repeat(40),
                pairs: 6,
                difference: interval(0.0299, 0.003),
                p: 0.031_25,
                confirmed: true,
            }),
            skipped: vec![BisectSkip {
                commit: "d".repeat(40),
                cause: "the build ended with exit code 2; it said: error".to_owned(),
            }],
            notes: Vec::new(),
            log: "state/log.jsonl".to_owned(),
            points: vec![
                point(0, "a", 0.0, &[0.05, 0.051, 0.049]),
                point(40, "b", 0.002, &[0.051, 0.052]),
                point(41, "c", 0.9971, &[0.079, 0.081]),
                point(42, "d", 0.0, &[]),
                point(199, "f", 0.0, &[0.08, 0.083]),
            ],
        }
    }

    #[test]
    fn text() {
        insta::assert_snapshot!(example().to_text());
    }

    #[test]
    fn text_of_a_set() {
        let mut report = example();
        report.verdict = BisectVerdict::Set;
        report.first_bad = None;
        report.credible_set[0].probability = 0.6;
        let other = BisectSuspect { commit: commit("d", "does not build"), probability: 0.398 };
        report.credible_set.push(other);
        report.confirmation = None;
        report.why = "the commits that remain cannot be measured apart".to_owned();
        insta::assert_snapshot!(report.to_text());
    }

    #[test]
    fn csv() {
        insta::assert_snapshot!(example().to_csv());
    }

    #[test]
    fn svg() {
        insta::assert_snapshot!(example().to_svg());
    }

    #[test]
    fn confidence_is_never_rounded_to_certainty() {
        assert_eq!(percent_sure(1.0), "99.999 %");
        assert_eq!(percent_sure(0.99), "99.0 %");
        assert_eq!(percent_sure(0.995_99), "99.5 %");
    }
}
