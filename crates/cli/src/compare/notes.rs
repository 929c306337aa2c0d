//! The report around the rows: title, noise floor, what ended the measuring, and what a reader must
//! know; and the watch that ends the measuring when the verdict is sure.

use super::args::{self, Compare};
use super::judge::{self, Case, Row};
use super::live::Measured;
use super::series::{Series, Side};
use convoy_report::{CompareReport, fixed};
use convoy_stats::{Design, Finding, Goal, Sample, Verdict, diagnose, differences};

/// Blocks before the first look: with fewer not even ranks could tell two sides apart.
const FIRST_LOOK: usize = 6;

/// Chance to find what is there, of the number of runs that is proposed.
const PLANNED_POWER: f64 = 0.8;

/// Outliers of one series that are named.
const MOST_OUTLIERS: usize = 3;

/// The whole report.
pub(crate) fn report(
    case: Case<'_>,
    sides: &[Side],
    again: Option<&Side>,
    rows: &[Row<'_>],
    measured: &Measured,
) -> CompareReport {
    let args = case.args;
    let measured_here = measured.blocks > 0;
    let floor = measured_here
        .then(|| case.floor(&sides[0].series[0], again.and_then(|side| side.series.first())))
        .flatten();
    let failures: Vec<_> = measured.failures.iter().filter(|f| f.failed > 0).cloned().collect();
    let mut report = CompareReport {
        title: title(case, sides, measured),
        rows: rows.iter().map(|row| judge::row(case, row)).collect(),
        ranges: judge::ranges(case, rows, &args::ranges(&args.ranges).unwrap_or_default()),
        noise_floor: floor,
        failures,
        warm_up: measured.warm_up,
        runs: measured_here.then_some(measured.blocks),
        stopped: measured.stopped.clone(),
        partial: measured.broken.is_some(),
        notes: Vec::new(),
    };
    report.notes = notes(case, sides, rows, measured, &report);
    report
}

fn title(case: Case<'_>, sides: &[Side], measured: &Measured) -> String {
    if measured.blocks == 0 {
        let sources: Vec<&str> = sides.iter().map(|side| side.source.as_str()).collect();
        return format!("stored numbers: {}", sources.join(" | "));
    }
    format!(
        "{} runs of each side, in blocks of random order (seed {}), {}; {}{}",
        measured.blocks,
        case.seed,
        measured.warm_up,
        if measured.broken.is_some() { "PARTIAL: " } else { "" },
        measured.stopped
    )
}

fn notes(
    case: Case<'_>,
    sides: &[Side],
    rows: &[Row<'_>],
    measured: &Measured,
    report: &CompareReport,
) -> Vec<String> {
    let mut notes = vec![method(case, rows)];
    notes.extend(floors(rows));
    if let Some(floor) = &report.noise_floor {
        notes.push(format!(
            "noise floor: the baseline differs from itself by up to {} % ({})",
            fixed(floor.percent, 2),
            floor.source
        ));
        let small = |row: &&Row<'_>| {
            let far = matches!(row.comparison.verdict(), Verdict::Faster | Verdict::Slower);
            let change =
                row.comparison.ratio.map_or(f64::INFINITY, |r| 100.0 * (r.value - 1.0).abs());
            far && change < floor.percent
        };
        for row in rows.iter().filter(small) {
            let label = &row.candidate.0.label;
            notes.push(format!(
                "the difference of {label} is below that floor: do not trust it alone"
            ));
        }
    }
    for failure in &report.failures {
        notes.push(format!(
            "{} of {} runs of {} failed and were left out with their blocks; the first {}",
            failure.failed, failure.tried, failure.label, failure.first
        ));
    }
    if !measured.warm_up.stable {
        notes.push(format!(
            "still warming up after {} blocks: run longer before (--warmup N), or let the machine \
             settle",
            measured.warm_up.blocks
        ));
    }
    notes.extend(diagnoses(case, sides, measured.warm_up.blocks));
    notes.extend(plans(rows));
    notes.extend(missing(sides));
    notes
}

/// Test, level, correction and intervals, so that nobody must guess.
fn method(case: Case<'_>, rows: &[Row<'_>]) -> String {
    let args = case.args;
    let paired = rows.iter().all(|row| row.comparison.question.design == Design::Paired);
    let test = if case.sequential && paired {
        "bets on the sign of each block's log ratio, valid at every look whatever the noise, as \
         are the speedup's intervals"
    } else if paired {
        "exact Wilcoxon signed-rank test of the pairs of each block"
    } else {
        "exact Wilcoxon rank-sum test"
    };
    let correction = match (rows.len(), args.correction) {
        (1, _) | (_, args::Corrected::None) => "p not corrected".to_owned(),
        (n, args::Corrected::Bh) => format!("p corrected for {n} comparisons (Benjamini-Hochberg)"),
        (n, args::Corrected::Holm) => format!("p corrected for {n} comparisons (Holm)"),
    };
    let interval = match args.ci {
        args::Ci::T => "95 % intervals by Student's t",
        args::Ci::Z => "95 % intervals by the normal distribution, 1.96 sd / sqrt(n)",
    };
    format!(
        "{test}; {correction}; * p <= 0.05, ** 0.01, *** 0.001; {interval}; same: shown to differ \
         by less than {} %",
        (args.same_within * 1e8).round() / 1e6
    )
}

/// Which rows could not earn a star whatever the effect.
fn floors(rows: &[Row<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for row in rows {
        if let Some(need) = row.comparison.needs {
            let have = row.comparison.baseline.n.min(row.comparison.candidate.n);
            let text = format!(
                "no difference can be claimed from {have} value{} a side: the smallest p is {}; \
                 {need} are needed",
                if have == 1 { "" } else { "s" },
                fixed(row.comparison.test.floor, 4)
            );
            if !notes.contains(&text) {
                notes.push(text);
            }
        }
    }
    notes
}

/// What only one side has.
fn missing(sides: &[Side]) -> Vec<String> {
    let mut notes = Vec::new();
    for side in &sides[1..] {
        let only = |one: &Side, other: &Side| -> Vec<String> {
            let alone =
                one.series.iter().filter(|s| super::series::partner(one, s, other).is_none());
            alone.map(Series::name).collect()
        };
        for (label, names) in
            [(&sides[0].label, only(&sides[0], side)), (&side.label, only(side, &sides[0]))]
        {
            if let Some(first) = names.first() {
                let more = names.len() - 1;
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                notes.push(format!("only {label} has {first}{more}; left out"));
            }
        }
    }
    notes
}

/// What is wrong with the series that were measured here, which run it is, and what to do.
fn diagnoses(case: Case<'_>, sides: &[Side], warm_up: usize) -> Vec<String> {
    let mut notes = Vec::new();
    for (side, _) in sides.iter().zip(case.live).filter(|(_, live)| **live) {
        for series in &side.series {
            let Ok(sample) = Sample::new(series.values.clone()) else { continue };
            let found = diagnose(&sample, case.seed);
            let label = &side.label;
            notes.extend(
                found.iter().filter_map(|found| finding(label, &series.unit, found, warm_up)),
            );
            notes.extend(outliers(label, series, &found));
        }
    }
    notes
}

/// All outliers of a series in one line, the farthest of them by number.
fn outliers(label: &str, series: &Series, found: &[Finding]) -> Option<String> {
    let far = |finding: &Finding| match finding {
        Finding::Outlier { index, value, score } => Some((*index, *value, *score)),
        _ => None,
    };
    let mut all: Vec<_> = found.iter().filter_map(far).collect();
    all.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
    let name = |(index, value, score): &(usize, f64, f64)| {
        format!("run {} ({value:.4} {}, {score:+.1})", index + 1, series.unit)
    };
    let named: Vec<String> = all.iter().take(MOST_OUTLIERS).map(name).collect();
    (!named.is_empty()).then(|| {
        format!(
            "{label}: {} of {} runs {} far from the median, in robust standard deviations: {}{}; \
             look what else ran then, or use --pin",
            all.len(),
            series.values.len(),
            if all.len() == 1 { "is" } else { "are" },
            named.join(", "),
            if all.len() > MOST_OUTLIERS { ", …" } else { "" }
        )
    })
}

fn finding(label: &str, unit: &str, finding: &Finding, warm_up: usize) -> Option<String> {
    Some(match finding {
        Finding::WarmUp { samples } => format!(
            "{label}: the first {} from the rest: use --warmup {}",
            match samples {
                1 => "run that counts differs".to_owned(),
                _ => format!("{samples} runs that count differ"),
            },
            samples + warm_up
        ),
        Finding::Drift { total, relative, .. } => format!(
            "{label}: drifts by {} over the series; the blocks cancel that in the speedup, not in \
             mean and sd",
            match relative {
                Some(share) => format!("{:+.2} %", 100.0 * share),
                None => format!("{total:+} {unit}"),
            }
        ),
        Finding::Autocorrelation { .. } => format!("{label}: {finding}"),
        Finding::Outlier { .. } => return None,
    })
}

/// How many runs it takes to find a difference of the margin, where nothing could be said.
fn plans(rows: &[Row<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.comparison.verdict() == Verdict::Unsure) {
        let Some(runs) = runs_needed(row) else { continue };
        let margin = 100.0 * row.comparison.question.margin;
        let text = format!(
            "unsure: with this noise a difference of {margin:.3} % takes about {runs} runs of each \
             side (--runs {runs}) to find in 4 of 5 cases"
        );
        if !notes.contains(&text) {
            notes.push(text);
        }
    }
    notes
}

fn runs_needed(row: &Row<'_>) -> Option<usize> {
    let sample = |series: &Series| Sample::new(series.values.clone()).ok()?.logarithms().ok();
    let (one, two) = (sample(row.baseline.1)?, sample(row.candidate.1)?);
    let question = row.comparison.question;
    let sd = match question.design {
        Design::Paired => differences(&one, &two).ok()?.sd()?,
        Design::Unpaired => one.sd()?.max(two.sd()?),
    };
    let effect = question.margin.ln_1p() / sd;
    let goal =
        Goal { effect, alpha: question.alpha, design: question.design, power: PLANNED_POWER };
    goal.runs().ok()
}

/// Ends the measuring when every candidate's verdict is sure.
pub(crate) struct Watch<'a> {
    args: &'a Compare,
    sides: Option<usize>,
}

impl<'a> Watch<'a> {
    /// A watch over the first `sides` sides; none if some side is not measured here.
    pub(crate) fn new(args: &'a Compare, sides: Option<usize>) -> Self {
        Self { args, sides }
    }

    /// Why there are enough runs, if there are. It may be asked after every block: the test bounds
    /// the error over all looks together.
    pub(crate) fn enough(&self, sides: &[Side]) -> Option<String> {
        let count = self.sides?;
        let blocks = sides.first()?.series.first()?.values.len();
        if blocks < FIRST_LOOK {
            return None;
        }
        let live = vec![true; count];
        let case = Case { args: self.args, seed: 0, live: &live, sequential: true };
        let rows = case.rows(&sides[..count]).ok()?;
        let sure = rows.iter().all(|row| row.comparison.verdict() != Verdict::Unsure);
        sure.then(|| format!("sure after {blocks} runs of each side"))
    }
}
