//! Means with their deviations and intervals, speedups over a baseline, and the star of a rank
//! test: the form of the tables of the zone lock, published and reproduced.

use convoy_lab::experiment::{Published, Summary};
use convoy_stats::{
    Alternative, Estimate, Sample, Zeros, signed_rank, signed_rank_floor, t_quantile,
};

use super::power::{Effect, powerful};
use super::published::fitted_and_ending;
use super::results::Results;
use super::sentence;
use crate::format::fixed;
use crate::metric::metric;
use crate::table::{Cell, Column, Table};

/// Level of the star.
const LEVEL: f64 = 0.05;
/// Normal quantile of the source's intervals: `1.96 sd / sqrt(n)`.
const QUANTILE: f64 = 1.96;

/// One point of one side: mean, deviation, the half of the source's interval, speedup.
#[derive(Clone, Copy)]
struct Side {
    mean: f64,
    sd: f64,
    half: f64,
    /// Of the baseline's mean over this one; `None` of the baseline itself.
    speedup: Option<f64>,
    /// Runs.
    runs: u32,
}

impl Side {
    fn new(mean: f64, sd: f64, runs: u32) -> Self {
        Self { mean, sd, half: QUANTILE * sd / f64::from(runs).sqrt(), speedup: None, runs }
    }

    fn cells(self) -> [Cell; 4] {
        let [mean, sd, half] = [self.mean, self.sd, self.half].map(|value| Cell::number(value, 3));
        [mean, sd, half, Cell::known(self.speedup, 3)]
    }

    /// Cells of what follows from the printed means and deviations.
    fn derived(self) -> [Cell; 2] {
        [Cell::number(self.half, 3), Cell::known(self.speedup, 3)]
    }

    fn over(self, base: Option<Self>) -> Self {
        Self { speedup: base.map(|base| base.mean / self.mean), ..self }
    }
}

/// Returns the cells of a published row as printed: mean, deviation, interval, speedup.
fn printed(row: &Published, key: &str) -> Option<[Cell; 4]> {
    let (mean, summary) = (row.values.get(key)?.first()?, row.summary?);
    let half = Cell::known(summary.half_width, 3);
    let speedup = Cell::known(row.change, 3);
    let [mean, sd] = [*mean, summary.sd].map(|value| Cell::number(value, 3));
    Some([mean, sd, half, if row.star { speedup.marked("*") } else { speedup }])
}

/// Returns the published value of a point, with the figures derived from it.
fn theirs(results: Results, index: usize, key: &str) -> Option<Side> {
    let row = results.grid.published(&results.grid.points[index].at)?;
    let values = row.values.get(key)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let Summary { sd, runs, .. } = row.summary?;
    Some(Side::new(mean, sd, runs))
}

/// Returns the reproduced estimate of a point.
fn ours(results: Results, index: usize, key: &str) -> Option<(Sample, Side)> {
    let sample = Sample::new(results.values(index, key)?).ok()?;
    let runs = u32::try_from(sample.n()).ok()?;
    let side = Side::new(sample.mean(), sample.sd().unwrap_or(f64::NAN), runs);
    Some((sample, side))
}

/// Speedup of a printed mean over another one, with half its interval: Student's t, independent
/// runs.
fn ratio_of(base: Side, own: Side) -> (f64, f64) {
    let share = |side: Side| (side.sd / side.mean).powi(2) / f64::from(side.runs);
    let freedom = f64::from(base.runs + own.runs) - 2.0;
    let ratio = base.mean / own.mean;
    let quantile = t_quantile(0.975, freedom).unwrap_or(f64::INFINITY);
    (ratio, quantile * ratio * (share(base) + share(own)).sqrt())
}

/// Speedup of `own` over `base`, run by run, with its interval by Student's t.
fn ratio(results: Results, base: &Sample, own: &Sample) -> Option<Estimate> {
    let pairs = base.values().iter().zip(own.values());
    results.estimate(pairs.map(|(base, own)| base / own).collect())
}

fn columns(results: Results, unit: &str) -> Vec<Column> {
    let axes = results.grid.axes.iter().map(|axis| Column::text(&axis.name));
    let side = |group: &'static str| {
        let of = |title: &str, unit: &str, key: &str| {
            Column::number(title, unit).group(group).key(&format!("{group} {key}"))
        };
        [
            of("Mean", unit, "mean"),
            of("sd", unit, "sd"),
            of("± 1.96", unit, "half width"),
            of("Speedup", "", "speedup"),
        ]
    };
    let own = |title: &str, unit: &str| Column::number(title, unit).group("reproduced");
    axes.chain(side("published"))
        .chain([
            Column::number("± 1.96", unit).group("derived").key("derived half width"),
            Column::number("Speedup", "").group("derived").key("derived speedup"),
        ])
        .chain(side("reproduced"))
        .chain([
            own("± t", "").key("reproduced speedup half width"),
            own("p", ""),
            Column::number("Error", "%").key("error_percent"),
        ])
        .collect()
}

/// Returns the table of a grid, and its result in a sentence.
pub(super) fn table(results: Results) -> (Table, Option<String>) {
    let grid = results.grid;
    let title = sentence::title(results);
    let Some(compare) = &grid.grid.compare else { return (Table::new(&title, Vec::new()), None) };
    let key = compare.metric.as_str();
    let mut table = Table::new(&title, columns(results, metric(key).map_or("", |it| it.unit)));
    let (mut errors, mut least, mut stars) = (Vec::new(), 1.0_f64, Vec::new());
    let mut effects = Vec::new();
    for (index, point) in grid.points.iter().enumerate() {
        let base = results.baseline(index).filter(|base| *base != index);
        let Some((own, side)) = ours(results, index, key) else { continue };
        let before = base.and_then(|base| ours(results, base, key));
        let published = theirs(results, index, key)
            .map(|side| side.over(base.and_then(|base| theirs(results, base, key))));
        let side = side.over(before.as_ref().map(|(_, side)| *side));
        let found = before.as_ref().and_then(|(base, _)| ratio(results, base, &own));
        let test = before.as_ref().and_then(|(base, _)| {
            least = least.min(signed_rank_floor(own.n()));
            signed_rank(base, &own, Zeros::Wilcoxon, Alternative::TwoSided).ok()
        });
        let labels = grid.labels(point);
        let theirs_base = base.and_then(|base| theirs(results, base, key));
        if let (Some(base), Some(own), Some(found)) = (theirs_base, published, found) {
            let published = ratio_of(base, own);
            effects.push(Effect { labels: labels.join(" "), published, found });
        }
        let source = grid.published(&point.at);
        let fitted = source.is_some_and(|row| row.fitted.contains(&compare.metric));
        let mut row: Vec<Cell> = labels.iter().map(|label| Cell::text(*label)).collect();
        let cells = source.and_then(|row| printed(row, key));
        row.extend(cells.unwrap_or_else(|| [(); 4].map(|()| Cell::empty())));
        let derived = published.map(Side::derived);
        row.extend(derived.unwrap_or_else(|| [(); 2].map(|()| Cell::empty())));
        let [mean, sd, half, speedup] = side.cells();
        let star = test.as_ref().is_some_and(|test| test.p < LEVEL);
        if star {
            stars.push(format!("{} {}", labels.join(", "), fixed(side.speedup.unwrap_or(1.0), 3)));
        }
        let speedup = if star { speedup.marked("*") } else { speedup };
        row.extend([if fitted { mean.marked("f") } else { mean }, sd, half, speedup]);
        row.push(Cell::known(found.map(|found| found.half_width()), 3));
        row.push(Cell::known(test.map(|test| test.p), 3));
        let error = published.map(|published| 100.0 * (side.mean / published.mean - 1.0));
        row.push(Cell::known(error, 1));
        table.row(row);
        if let Some(pair) = source.and_then(|row| row.change).zip(side.speedup) {
            errors.push(pair);
        }
    }
    for note in notes(results, &errors, least).into_iter().chain(powerful(&effects)) {
        table.note(note);
    }
    (table, verdict(&grid.grid.name, &errors, &stars))
}

/// Summarises the published speedups, and the points with a star.
fn verdict(name: &str, errors: &[(f64, f64)], stars: &[String]) -> Option<String> {
    let star = (!stars.is_empty()).then(|| format!("star for {}", stars.join("; ")));
    let reproduced = mean_errors(errors).map(|(ours, none)| {
        let [ours_text, none_text] = [ours, none].map(|error| fixed(error, 3));
        if ours < none {
            format!("speedups are off by {ours_text} on average, no effect at all by {none_text}")
        } else {
            format!(
                "the published speedups are not reproduced, off by {ours_text} on average; no \
                 effect at all is off by {none_text}"
            )
        }
    });
    let said: Vec<String> = reproduced.into_iter().chain(star).collect();
    (!said.is_empty()).then(|| format!("{name}: {}", said.join("; ")))
}

/// Mean errors of the speedups found, and of no effect at all.
fn mean_errors(errors: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mean =
        |of: fn(&(f64, f64)) -> f64| errors.iter().map(of).sum::<f64>() / errors.len() as f64;
    (!errors.is_empty())
        .then(|| (mean(|(theirs, ours)| (ours - theirs).abs()), mean(|(it, _)| (1.0 - it).abs())))
}

fn notes(results: Results, errors: &[(f64, f64)], least: f64) -> Vec<String> {
    let mut notes = vec![
        "published: as printed, with the stars of the source; derived: from the printed means and \
         deviations; ± 1.96: 1.96 sd / sqrt(runs); ± t: Student's, of the speedup in pairs of \
         seeds; *: p < 0.05 by Wilcoxon's signed-rank test"
            .to_owned(),
    ];
    if least >= LEVEL {
        notes.push(format!(
            "so few pairs cannot have a star: their smallest p is {}",
            fixed(least, 3)
        ));
    }
    if let Some((ours, none)) = mean_errors(errors) {
        notes.push(format!(
            "speedups are off by {} on average; no effect at all would be off by {}",
            fixed(ours, 3),
            fixed(none, 3)
        ));
    }
    notes.extend(fitted_and_ending(results));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_says_whether_the_speedups_beat_no_effect_at_all() {
        let star = ["pmake, 16 CPUs 0.960".to_owned()];
        assert_eq!(verdict("table", &[], &[]), None);
        assert_eq!(
            verdict("table", &[(1.05, 1.03), (0.95, 0.97)], &[]).unwrap(),
            "table: speedups are off by 0.020 on average, no effect at all by 0.050"
        );
        let text = verdict("table", &[(1.04, 0.96)], &star).unwrap();
        assert!(text.starts_with("table: the published speedups are not reproduced, off by 0.080"));
        assert!(text.ends_with("; star for pmake, 16 CPUs 0.960"), "{text}");
    }
}
