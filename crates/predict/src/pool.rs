//! One prediction from several records of a program.

use crate::prediction::Prediction;
use crate::row::{Row, Simulated};

impl Prediction {
    /// Returns one prediction from those of several records of a program, which answer the same
    /// question: the geometric mean of their ratios, in an interval that covers the interval of
    /// each. `None` without a prediction.
    pub fn pooled(predictions: Vec<Self>) -> Option<Self> {
        let rows = pooled_rows(&predictions);
        let mut others = predictions.into_iter();
        let first = others.next()?;
        if others.len() == 0 {
            return Some(first);
        }
        let mut all = Self { rows, ..first };
        for other in others {
            all.anchor.extend(other.anchor);
            all.missing += other.missing;
            all.beyond = all.beyond.or(other.beyond);
            all.reason = all.reason.or(other.reason);
            let is_new = all.limits().all(|limit| limit.station() != other.limit.station());
            all.other_limits.extend(is_new.then_some(other.limit));
            for doubt in other.doubts {
                if !all.doubts.contains(&doubt) {
                    all.doubts.push(doubt);
                }
            }
        }
        Some(all)
    }
}

/// Returns the rows that all predictions have, in the order of the first.
fn pooled_rows(predictions: &[Prediction]) -> Vec<Row> {
    let Some(first) = predictions.first() else { return Vec::new() };
    let numbered = first.rows.iter().enumerate();
    let shared = numbered.filter_map(|(number, row)| {
        let rows = predictions.iter().map(|prediction| prediction.rows.get(number));
        let rows = rows.collect::<Option<Vec<&Row>>>()?;
        rows.iter().all(|other| other.asks_as(row)).then(|| pooled_row(&rows))
    });
    shared.collect()
}

/// Returns one row from the same row of several records.
fn pooled_row(rows: &[&Row]) -> Row {
    let ratios = rows.iter().map(|row| 1.0 + row.change_percent / 100.0);
    let [least_run, _, most_run] = summary(rows.iter().map(|row| row.change_percent));
    let simulated: Option<Vec<&Simulated>> =
        rows.iter().map(|row| row.simulated.as_ref()).collect();
    let programs: Option<Vec<[f64; 3]>> = rows.iter().map(|row| row.program_times).collect();
    Row {
        acquisitions_per_s: geometric(rows.iter().map(|row| row.acquisitions_per_s)),
        change_percent: 100.0 * (geometric(ratios) - 1.0),
        low_percent: summary(rows.iter().map(|row| row.low_percent))[0],
        high_percent: summary(rows.iter().map(|row| row.high_percent))[2],
        runs_percent: Some([least_run, most_run]),
        program_times: programs.map(|all| {
            [
                geometric(all.iter().map(|times| times[0])),
                summary(all.iter().map(|times| times[1]))[0],
                summary(all.iter().map(|times| times[2]))[2],
            ]
        }),
        simulated: simulated.map(|all| Simulated {
            cpus_used: summary(all.iter().map(|one| one.cpus_used))[1],
            wait_p99_us: summary(all.iter().map(|one| one.wait_p99_us))[2],
            wait_max_us: summary(all.iter().map(|one| one.wait_max_us))[2],
            jain: summary(all.iter().map(|one| one.jain))[0],
            parts: Vec::new(),
        }),
        reason: rows.iter().find_map(|row| row.reason.clone()),
        ..rows[0].clone()
    }
}

/// Returns the least value, the mean and the most.
fn summary(values: impl ExactSizeIterator<Item = f64>) -> [f64; 3] {
    let count = values.len() as f64;
    let [least, sum, most] = values.fold([f64::INFINITY, 0.0, f64::NEG_INFINITY], |all, value| {
        [all[0].min(value), all[1] + value, all[2].max(value)]
    });
    [least, sum / count, most]
}

/// Returns the geometric mean of ratios, which a prediction may give as zero.
fn geometric(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    summary(ratios.map(|ratio| ratio.max(f64::MIN_POSITIVE).ln()))[1].exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demands::Named;
    use crate::{Holders, Limit};

    fn prediction(lock: &str, [low_percent, change_percent, high_percent]: [f64; 3]) -> Prediction {
        let row = Row {
            acquisitions_per_s: 100.0 + change_percent,
            change_percent,
            low_percent,
            high_percent,
            ..Row::default()
        };
        let limit = Limit::Lock {
            lock: Named { name: lock.to_owned(), place: None },
            waited: 0.5,
            holders: Holders::One,
            hold_us: None,
            per_s: None,
        };
        Prediction { limit, rows: vec![row], ..Prediction::default() }
    }

    /// Twice and eight times are four times on average; the interval covers both.
    #[test]
    fn several_records_give_one_row_with_the_range_between_them() {
        let records = [
            prediction("queue", [50.0, 100.0, 120.0]),
            prediction("queue", [80.0, 700.0, 900.0]),
            prediction("cache", [0.0, 300.0, 300.0]),
        ];
        let all = Prediction::pooled(records.to_vec()).expect("three");
        let row = &all.rows[0];
        assert!((row.change_percent - 300.0).abs() < 1e-9, "{row:?}");
        assert!((row.acquisitions_per_s - 400.0).abs() < 1e-9, "{row:?}");
        let ends = format!("{} {} {:?}", row.low_percent, row.high_percent, row.runs_percent);
        assert_eq!(ends, "0 900 Some([100.0, 700.0])");
        assert_eq!(all.other_limits, [records[2].limit.clone()]);
        let alone = Prediction::pooled(vec![records[0].clone()]).expect("one");
        assert_eq!(alone.rows[0].runs_percent, None);
        assert!(Prediction::pooled(Vec::new()).is_none());
    }
}
