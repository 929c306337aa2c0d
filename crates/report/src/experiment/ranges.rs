//! Rows of a table: one for each point, or where an axis has ranges, one for the points of a range
//! as the source has it.

use convoy_lab::experiment::{Change, PlannedGrid};
use convoy_stats::{CONFIDENCE, Estimate, Sample, mean_of_means};

use super::results::Results;

impl Results<'_> {
    /// The points of each row that have outcomes, in the order of their first points.
    pub(super) fn rows(self) -> Vec<Vec<usize>> {
        let mut rows: Vec<(Vec<&str>, Vec<usize>)> = Vec::new();
        for index in (0..self.grid.points.len()).filter(|&index| self.point(index).is_some()) {
            let labels = self.labels(index);
            match rows.iter_mut().find(|row| row.0 == labels) {
                Some((_, row)) => row.push(index),
                None => rows.push((labels, vec![index])),
            }
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Labels of the row that a point belongs to.
    pub(super) fn labels(&self, index: usize) -> Vec<&str> {
        let pairs = self.grid.axes.iter().zip(&self.grid.points[index].at);
        let levels = pairs.map(|(axis, &at)| &axis.levels[at]);
        levels.map(|level| level.range.as_deref().unwrap_or(&level.label)).collect()
    }

    /// Mean of a metric over the points of a row.
    pub(super) fn mean(self, row: &[usize], key: &str) -> Option<Estimate> {
        self.over(row, |index| self.values(index, key))
    }

    /// The rows that a row is compared with, point by point; `None` for the baseline.
    pub(super) fn baseline_of(self, row: &[usize]) -> Option<Vec<usize>> {
        row.iter().map(|&index| self.baseline(index).filter(|base| *base != index)).collect()
    }

    /// The mean over the points of a row of the change from `base`, in pairs of seeds.
    pub(super) fn change(self, base: &[usize], row: &[usize], key: &str) -> Option<Estimate> {
        let kind = self.grid.grid.compare.as_ref()?.change;
        self.over(row, |index| {
            let column = row.iter().position(|own| *own == index)?;
            let (before, after) = self.values(base[column], key).zip(self.values(index, key))?;
            let pairs = before.iter().zip(&after);
            Some(pairs.map(|(base, value)| kind.of(*base, *value)).collect())
        })
    }

    fn over(self, row: &[usize], values: impl Fn(usize) -> Option<Vec<f64>>) -> Option<Estimate> {
        if let [index] = row {
            return self.estimate(values(*index)?);
        }
        let samples: Option<Vec<Sample>> =
            row.iter().map(|&index| Sample::new(values(index)?).ok()).collect();
        mean_of_means(&samples?, CONFIDENCE).ok()
    }
}

/// How far a change is from none.
pub(super) fn far(kind: Change, value: f64) -> f64 {
    if kind == Change::Ratio { value.ln().abs() } else { value.abs() }
}

/// Which points the rows are means of.
pub(super) fn note(grid: &PlannedGrid) -> Option<String> {
    let axis = grid.grid.axis.iter().find(|axis| !axis.range.is_empty())?;
    let levels = &grid.axes[grid.axis(axis.name())?].levels;
    let told = axis.range.iter().filter_map(|range| {
        let own: Vec<&str> = levels
            .iter()
            .filter(|level| level.is_in(&range.label))
            .map(|level| level.label.as_str())
            .collect();
        let (all, run) = (range.values.len(), own.len());
        let text = own.join(", ");
        match run {
            0 => None,
            _ if run == all => Some(format!("{text} (all)")),
            _ => Some(format!("{text} (of {all})")),
        }
    });
    let told: Vec<String> = told.collect();
    Some(format!(
        "each row is the mean over its points, and its change that of the changes at each; {}: {}; \
         ± is the 95 % interval of that mean over seeds, by Welch and Satterthwaite",
        axis.name(),
        told.join("; ")
    ))
}
