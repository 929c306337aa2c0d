//! From verdicts to the report: its rows, title, noise floor, the reason for the end of the
//! measurement, and notes.

use convoy_measure::compare::{Case, Measured, Row, Series, Side, differing, partner};
use convoy_os::Disturbance;
use convoy_report::{CompareCollapses, CompareReport, CompareRow, CompareSide, fixed};
use convoy_stats::{
    Better, CONFIDENCE, Correction, Design, Doubt, Estimate, Finding, Goal, Interval, Ratio,
    Sample, Tail, Verdict, diagnose, differences,
};

/// Power of the proposed number of runs.
const PLANNED_POWER: f64 = 0.8;

/// Characters of a name in a sentence.
const LONGEST_NAME: usize = 40;

/// Outliers of one series that are named.
const MOST_OUTLIERS: usize = 3;

pub(crate) fn report(
    case: Case<'_>,
    sides: &[Side],
    rows: &[Row<'_>],
    measured: &Measured,
    ranges: &[[u32; 2]],
) -> CompareReport {
    let measured_here = measured.blocks > 0;
    let floor = rows.first().and_then(|row| row.floor.clone()).filter(|_| measured_here);
    let failures = measured.failures.iter().filter(|failure| failure.failed > 0);
    let mut report = CompareReport {
        title: title(case, sides, measured),
        rows: rows.iter().map(|of| row(case, of)).collect(),
        ranges: case.ranges(rows, ranges),
        noise_floor: floor,
        failures: failures.cloned().collect(),
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
        case.request.seed,
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
    let mut notes: Vec<String> = differing(sides)
        .iter()
        .map(|difference| format!("compared across {difference}: it is part of what is measured"))
        .collect();
    notes.push(method(case, rows));
    notes.extend(sides.iter().flat_map(|side| side.notes.iter().cloned()));
    notes.extend(floors(rows));
    if let Some(floor) = &report.noise_floor {
        notes.push(format!(
            "noise floor: the baseline differs from itself by up to {} % ({})",
            fixed(floor.percent, 2),
            floor.source
        ));
    }
    notes.extend(disturbed(sides));
    for row in rows {
        notes.extend(collapses(row));
        notes.extend(doubt(row));
    }
    notes.extend(unseen(case, rows));
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

/// Test, level, correction and intervals, so that a reader need not guess.
fn method(case: Case<'_>, rows: &[Row<'_>]) -> String {
    let request = case.request;
    let paired = rows.iter().all(|row| row.comparison.question.design == Design::Paired);
    let test = if case.sequential && paired {
        "bets on the sign of each block's log ratio, valid at every look whatever the noise, as \
         are the speedup's intervals"
    } else if paired {
        "exact Wilcoxon signed-rank test of the pairs of each block"
    } else {
        "exact Wilcoxon rank-sum test"
    };
    let correction = match (rows.len(), request.correction) {
        (1, _) | (_, Correction::None) => "p not corrected".to_owned(),
        (n, Correction::BenjaminiHochberg) => {
            format!("p corrected for {n} comparisons (Benjamini-Hochberg)")
        }
        (n, Correction::Holm) => format!("p corrected for {n} comparisons (Holm)"),
    };
    let interval = match request.interval {
        Interval::T => "95 % intervals by Student's t",
        Interval::Z => "95 % intervals by the normal distribution, 1.96 sd / sqrt(n)",
    };
    format!(
        "{test}; {correction}; * p <= 0.05, ** 0.01, *** 0.001; {interval}; same: shown to differ \
         by less than the margin (two one-sided tests at {} %)",
        (request.alpha * 1e8).round() / 1e6
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
    fn only(one: &Side, other: &Side) -> Vec<String> {
        let alone = one.series.iter().filter(|s| partner(one, s, other).is_none());
        alone.map(Series::name).collect()
    }
    let mut notes = Vec::new();
    for side in &sides[1..] {
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

/// Faults of the measured series: which run is affected, and the remedy.
fn diagnoses(case: Case<'_>, sides: &[Side], warm_up: usize) -> Vec<String> {
    let mut notes = Vec::new();
    for (side, _) in sides.iter().zip(case.live).filter(|(_, live)| **live) {
        for series in &side.series {
            let Ok(sample) = Sample::new(series.values.clone()) else { continue };
            let found = diagnose(&sample, case.request.seed);
            let label = &side.label;
            notes.extend(
                found.iter().filter_map(|found| finding(label, &series.unit, found, warm_up)),
            );
            notes.extend(outliers(label, series, &found));
            notes.extend(widened(label, &sample, case.request.interval));
        }
    }
    notes
}

/// Why the interval of a mean is wider than the method below the table makes it.
fn widened(label: &str, sample: &Sample, interval: Interval) -> Option<String> {
    let plain = sample.estimate_with(CONFIDENCE, interval).ok()?.half_width();
    let factor = sample.serial_estimate(CONFIDENCE, interval).ok()?.half_width() / plain;
    (factor > 1.0).then(|| {
        format!(
            "{label}: neighbouring runs are alike, so its ± is {} times as wide as of independent \
             runs; the speedup, of runs in turns, is not affected",
            fixed(factor, 1)
        )
    })
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
        // The first makes the interval wider, which is said there; the second has its own line.
        Finding::Autocorrelation { .. } | Finding::Outlier { .. } => return None,
    })
}

/// How many runs it takes to find a difference of the margin, where nothing could be said.
fn plans(rows: &[Row<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.verdict() == Verdict::Unsure) {
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

/// A row as it is printed.
fn row(case: Case<'_>, row: &Row<'_>) -> CompareRow {
    let (comparison, series) = (&row.comparison, row.baseline.1);
    let speedup = comparison.speedup();
    let (verdict, within) = match row.verdict() {
        Verdict::Faster => ("faster", None),
        Verdict::Slower => ("slower", None),
        // Rounded to six digits, as 100 times 0.07 is not 7.
        Verdict::Same { within } => ("same", Some((within * 1e8).round() / 1e6)),
        Verdict::Unsure => ("unsure", None),
    };
    CompareRow {
        benchmark: series.benchmark.clone(),
        users: series.users,
        metric: series.metric.clone(),
        unit: series.unit.clone(),
        higher_is_better: comparison.question.better == Better::Higher,
        baseline: side(&row.baseline.0.label, &comparison.baseline, comparison.tail, 0),
        candidate: side(&row.candidate.0.label, &comparison.candidate, comparison.tail, 1),
        verdict: verdict.to_owned(),
        same_within_percent: within,
        doubt: match comparison.doubt() {
            _ if row.unequal().is_some() => Some("treated unequally".to_owned()),
            _ if row.is_below_floor() => Some("noise floor".to_owned()),
            Some(Doubt::Mean) => Some("mean".to_owned()),
            Some(Doubt::Tail) => Some("tail".to_owned()),
            None => None,
        },
        speedup: speedup.map(|ratio| ratio.value),
        ci95: speedup.map_or([f64::NAN; 2], |ratio: Ratio| [ratio.lo, ratio.hi]),
        p: comparison.p,
        p_raw: row.raw,
        p_floor: comparison.test.floor,
        test: match comparison.question.design {
            Design::Paired if case.sequential => "betting".to_owned(),
            Design::Paired => "signed-rank".to_owned(),
            Design::Unpaired => "rank-sum".to_owned(),
        },
        stars: comparison.stars(),
        superiority: comparison.superiority,
        shift: comparison.shift.map(|shift| shift.value),
        needs: comparison.needs,
    }
}

fn side(label: &str, estimate: &Estimate, tail: Option<Tail>, number: usize) -> CompareSide {
    let collapses = tail.and_then(|tail| {
        let (runs, factor) = (tail.collapses[number], tail.size[number]?);
        Some(CompareCollapses { runs, factor })
    });
    CompareSide {
        label: label.to_owned(),
        runs: estimate.n,
        mean: estimate.mean,
        sd: estimate.sd,
        ci95: [estimate.lo, estimate.hi],
        collapses,
    }
}

/// The benchmark and metric of a row, for a sentence.
fn name(row: &Row<'_>) -> String {
    let label = &row.candidate.0.label;
    let mut name: String = label.chars().take(LONGEST_NAME).collect();
    if name.len() < label.len() {
        name.push('…');
    }
    match row.baseline.1.users {
        Some(users) => format!("{name}, {users} users"),
        None => name,
    }
}

/// Other activity of the machine, over all sides.
pub(super) fn disturbed(sides: &[Side]) -> Option<String> {
    let mut all = Disturbance::default();
    sides.iter().filter_map(|side| side.disturbance.as_ref()).for_each(|one| all.add(one));
    all.sentence()
}

/// The runs of a row that were far worse than the rest: how many, and by how much.
fn collapses(row: &Row<'_>) -> Option<String> {
    let tail = row.comparison.tail?;
    let side = |number: usize| {
        let (count, runs) = (tail.collapses[number], tail.runs[number]);
        let share = fixed(100.0 * count as f64 / runs as f64, 0);
        let size = tail.size[number];
        let size = size.map_or(String::new(), |size| format!(", x{} its median", fixed(size, 2)));
        format!("{count} of {runs} runs ({share} %{size})")
    };
    (tail.collapses != [0, 0])
        .then(|| format!("{} collapses in {}; the baseline in {}", name(row), side(1), side(0)))
}

/// Why the verdict is not that on typical runs.
fn doubt(row: &Row<'_>) -> Option<String> {
    let (name, comparison) = (name(row), &row.comparison);
    if let Some(unequal) = row.unequal() {
        return Some(format!(
            "{name}: no comparison, as only one side was disturbed ({unequal}); measure both in \
             turns"
        ));
    }
    if row.is_below_floor() {
        return Some(format!(
            "{name}: no verdict, as the baseline differs from itself by as much; a quieter machine \
             or more runs may tell"
        ));
    }
    let doubt = comparison.doubt()?;
    if row.verdict() == Verdict::Slower {
        return Some(format!("{name}: slower by its collapses; typical runs are {}", typical(row)));
    }
    Some(match doubt {
        Doubt::Tail => format!(
            "{name}: no verdict, though typical runs are {}: it may collapse more often; more runs \
             may tell",
            typical(row)
        ),
        Doubt::Mean => {
            let percent = |end: f64| fixed(100.0 * end / comparison.baseline.mean.abs(), 1);
            let [lo, hi] = [percent(comparison.mean.lo), percent(comparison.mean.hi)];
            format!(
                "{name}: no verdict, though typical runs are {}: the mean changes by {lo} to \
                 {hi} %; more runs may tell",
                typical(row)
            )
        }
    })
}

fn typical(row: &Row<'_>) -> &'static str {
    match row.comparison.typical() {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same { .. } => "the same",
        Verdict::Unsure => "not told apart",
    }
}

/// The collapses that this number of runs cannot exclude for a candidate that is called faster or
/// the same.
fn unseen(case: Case<'_>, rows: &[Row<'_>]) -> Option<String> {
    let called = |row: &&Row<'_>| matches!(row.verdict(), Verdict::Faster | Verdict::Same { .. });
    let few = rows.iter().filter(called).map(|row| row.comparison.candidate.n).min()?;
    let share = 1.0 - 0.05_f64.powf(1.0 / few as f64);
    (share > case.request.tail).then(|| {
        format!(
            "{few} runs do not show collapses that come in less than {} % of the runs",
            fixed(100.0 * share, 0)
        )
    })
}
