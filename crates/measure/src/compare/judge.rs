//! From sides to verdicts: every number comes out of `convoy_stats`, this only asks and arranges.

use super::request::Request;
use super::series::{Series, Side, partner};
use crate::MeasureError;
use convoy_stats::{
    Alternative, Better, Comparison, Design, Question, Sample, Verdict, Zeros, adjust,
    adjust_table, noise_floor, noise_floor_within, signed_rank_of, stars,
};
use serde::{Deserialize, Serialize};

/// The fewest runs within which a noise floor is looked for.
const FEWEST_FOR_FLOOR: usize = 8;

/// Context of a judgement.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The request.
    pub request: &'a Request,
    /// Which sides were measured in common blocks.
    pub live: &'a [bool],
    /// Whether the number of runs depended on their results: then test and intervals must be valid
    /// at every evaluation.
    pub sequential: bool,
}

/// One comparison with its subject.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The baseline.
    pub baseline: (&'a Side, &'a Series),
    /// The candidate.
    pub candidate: (&'a Side, &'a Series),
    /// The statistical result.
    pub comparison: Comparison,
    /// The p-value before it was corrected over the table.
    pub raw: f64,
    /// How far the baseline is from itself, if that is known.
    pub floor: Option<Floor>,
}

impl Row<'_> {
    /// Returns the verdict of the statistics, unless the baseline differs from itself by as much.
    pub fn verdict(&self) -> Verdict {
        match self.comparison.verdict() {
            _ if self.unequal().is_some() => Verdict::Unsure,
            Verdict::Faster | Verdict::Slower if self.is_below_floor() => Verdict::Unsure,
            verdict => verdict,
        }
    }

    /// What disturbed one of two sides and not the other, if they were not measured in turns: then
    /// it is the disturbance that may have been compared. What disturbs turns in random order is
    /// noise that the tests bear.
    pub fn unequal(&self) -> Option<String> {
        let reasons = |side: &Side| side.disturbance.map_or(Vec::new(), |found| found.reasons());
        let (one, two) = (reasons(self.baseline.0), reasons(self.candidate.0));
        let paired = self.comparison.question.design == Design::Paired;
        if paired || one.is_empty() == two.is_empty() {
            return None;
        }
        let side = if one.is_empty() { self.candidate.0 } else { self.baseline.0 };
        Some(format!("{}: {}", side.label, [one, two].concat().join("; ")))
    }

    /// Whether the baseline differs from itself by as much as from the candidate, and nothing but
    /// typical runs speaks.
    pub fn is_below_floor(&self) -> bool {
        let typical = matches!(self.comparison.typical(), Verdict::Faster | Verdict::Slower);
        let (Some(floor), Some(ratio)) = (&self.floor, self.comparison.ratio) else { return false };
        // Three times as fast is as far from 1 as a third of the speed.
        typical && 100.0 * ratio.value.ln().abs().exp_m1() < floor.percent
    }

    /// Whether measuring may end with this verdict; see [`Comparison::is_settled`].
    pub fn is_settled(&self, tail: f64) -> bool {
        self.verdict() != Verdict::Unsure && self.comparison.is_settled(tail)
    }
}

/// Comparison of the baseline with itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Its source.
    pub source: String,
    /// The largest relative difference that the interval admits, percent.
    pub percent: f64,
}

/// The mean change of one workload over a range of users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeChange {
    /// The candidate.
    pub candidate: String,
    /// The workload.
    pub workload: String,
    /// First and last number of users.
    pub users: [u32; 2],
    /// Load points in it that both sides have.
    pub points: usize,
    /// Mean over these of the change in performance, percent; `None` without points.
    pub change_percent: Option<f64>,
    /// Stars of the signed-rank test over the load points, corrected over the table.
    pub stars: usize,
}

impl Case<'_> {
    fn question(self, series: &Series, paired: bool) -> Question {
        let higher = series.higher_is_better || self.request.higher_is_better;
        Question {
            design: if paired { Design::Paired } else { Design::Unpaired },
            better: if higher { Better::Higher } else { Better::Lower },
            alpha: self.request.alpha,
            margin: self.request.same_within,
            widest: self.request.widest,
            interval: self.request.interval,
            zeros: Zeros::Wilcoxon,
            ..Question::default()
        }
    }

    /// All candidates against the baseline, corrected over the table; benchmark by benchmark.
    /// `again` are A/A runs of the baseline, if there are any.
    pub fn rows<'s>(
        self,
        sides: &'s [Side],
        again: Option<&Side>,
    ) -> Result<Vec<Row<'s>>, MeasureError> {
        let mut rows = Vec::new();
        let baseline = &sides[0];
        for series in &baseline.series {
            for (number, side) in sides.iter().enumerate().skip(1) {
                let Some(other) = partner(baseline, series, side) else { continue };
                if series.unit != other.unit {
                    return Err(MeasureError::request(format!(
                        "{}: {:?} is in {:?} and {:?} in {:?}; give both in one unit",
                        series.name(),
                        baseline.label,
                        series.unit,
                        side.label,
                        other.unit
                    )));
                }
                let same = series.values.len() == other.values.len();
                let paired = self.live[0] && self.live[number] && same;
                let mut row = self.compare((baseline, series), (side, other), paired)?;
                row.floor =
                    self.floor(series, again.and_then(|side| partner(baseline, series, side)));
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return Err(nothing_in_common(sides));
        }
        let mut comparisons: Vec<Comparison> =
            rows.iter().map(|row| row.comparison.clone()).collect();
        adjust_table(&mut comparisons, self.request.correction).map_err(MeasureError::request)?;
        for (row, comparison) in rows.iter_mut().zip(comparisons) {
            row.comparison = comparison;
        }
        Ok(rows)
    }

    fn compare<'s>(
        self,
        baseline: (&'s Side, &'s Series),
        candidate: (&'s Side, &'s Series),
        paired: bool,
    ) -> Result<Row<'s>, MeasureError> {
        let sample = |(side, series): (&Side, &Series)| {
            Sample::new(series.values.clone()).map_err(|error| {
                MeasureError::request(format!("{}, {}: {error}", side.label, series.name()))
            })
        };
        let (one, two) = (sample(baseline)?, sample(candidate)?);
        let question = self.question(baseline.1, paired);
        let sequential = self.sequential && paired;
        let comparison = if sequential {
            Comparison::watched(&one, &two, question)
        } else {
            Comparison::new(&one, &two, question)
        };
        let comparison = comparison.map_err(MeasureError::request)?;
        Ok(Row { baseline, candidate, raw: comparison.p, comparison, floor: None })
    }

    /// How far the baseline is from itself: by its A/A runs, else by its neighbouring blocks.
    fn floor(self, baseline: &Series, again: Option<&Series>) -> Option<Floor> {
        if !self.live[0] {
            return None;
        }
        let own = Sample::new(baseline.values.clone()).ok()?;
        let (source, floor) = match again {
            Some(again) => {
                let again = Sample::new(again.values.clone()).ok()?;
                ("A/A runs", noise_floor(&own, &again))
            }
            None if own.n() < FEWEST_FOR_FLOOR => return None,
            None => ("neighbouring runs of it", noise_floor_within(&own)),
        };
        Some(Floor { source: source.to_owned(), percent: 100.0 * floor.ok()?.floor })
    }

    /// The mean change of each candidate and workload over each range of users, with stars of the
    /// signed-rank test over the load points.
    pub fn ranges(self, rows: &[Row<'_>], wanted: &[[u32; 2]]) -> Vec<RangeChange> {
        let mut cells: Vec<RangeChange> = Vec::new();
        let mut tests = Vec::new();
        for row in rows.iter().filter(|row| row.baseline.1.users.is_some()) {
            let (candidate, workload) = (&row.candidate.0.label, &row.baseline.1.benchmark);
            if cells.iter().any(|cell| &cell.candidate == candidate && &cell.workload == workload) {
                continue;
            }
            for &users in wanted {
                let within = |row: &&Row<'_>| {
                    let (series, label) = (row.baseline.1, &row.candidate.0.label);
                    let inside = series.users.is_some_and(|n| (users[0]..=users[1]).contains(&n));
                    inside && &series.benchmark == workload && label == candidate
                };
                let speedups: Vec<f64> = rows.iter().filter(within).filter_map(change).collect();
                let logs = speedups.iter().map(|speedup| speedup.ln()).collect::<Vec<_>>();
                let test = |logs| signed_rank_of(&logs, Zeros::Wilcoxon, Alternative::TwoSided).p;
                tests.push(Sample::new(logs).map_or(1.0, test));
                let percent =
                    speedups.iter().map(|speedup| 100.0 * (speedup - 1.0)).collect::<Vec<_>>();
                cells.push(RangeChange {
                    candidate: candidate.clone(),
                    workload: workload.clone(),
                    users,
                    points: speedups.len(),
                    change_percent: Sample::new(percent).ok().map(|sample| sample.mean()),
                    stars: 0,
                });
            }
        }
        // A range that holds no load point of any workload is not worth a column.
        let adjusted = adjust(&tests, self.request.correction).unwrap_or(tests);
        for (cell, p) in cells.iter_mut().zip(adjusted) {
            cell.stars = stars(p);
        }
        let empty =
            |users: [u32; 2]| cells.iter().all(|cell| cell.users != users || cell.points == 0);
        let gone: Vec<[u32; 2]> = wanted.iter().copied().filter(|&users| empty(users)).collect();
        cells.retain(|cell| !gone.contains(&cell.users));
        cells
    }
}

fn nothing_in_common(sides: &[Side]) -> MeasureError {
    fn names(side: &Side) -> String {
        let names: Vec<String> = side.series.iter().take(3).map(Series::name).collect();
        format!("{:?} has {}", side.label, names.join("; "))
    }
    let all: Vec<String> = sides.iter().map(names).collect();
    MeasureError::request(format!(
        "the sides have no benchmark and metric in common: {}",
        all.join(", ")
    ))
}

/// The ratio of the means, as the lists of the mailing lists have it.
fn change(row: &Row<'_>) -> Option<f64> {
    let (baseline, candidate) = (row.comparison.baseline.mean, row.comparison.candidate.mean);
    let speedup = match row.comparison.question.better {
        Better::Higher => candidate / baseline,
        Better::Lower => baseline / candidate,
    };
    (speedup.is_finite() && speedup > 0.0).then_some(speedup)
}
