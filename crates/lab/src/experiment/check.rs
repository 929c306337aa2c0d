//! What ranges cannot say of an experiment file: which key fits which target, and names that must
//! exist.

use convoy_catalogue::{EXPERIMENTS, Entry, Fault, Json, Shelf, parsed};

use super::{Axis, Experiment, Grid, Range, Setting, Settings, Size, Target, View, accept};

/// Largest published value in its unit.
const PUBLISHED_MAX: f64 = 1e15;
/// Smallest measured rate.
const RATE_MIN: f64 = 1e-9;

impl Entry for Experiment {
    const SHELF: &'static Shelf = &EXPERIMENTS;

    #[inline(never)]
    fn parse(tree: Json) -> Result<Self, Fault> {
        parsed(tree)
    }

    fn check(&self) -> Result<(), Fault> {
        if self.grid.is_empty() {
            return Err(Fault::new("grid", "there must be one"));
        }
        for (key, value) in &self.inputs {
            let place = format!("inputs.{key}");
            if !self.grid.iter().any(|grid| accept(grid.target, key, value).is_ok()) {
                let problem = accept(self.grid[0].target, key, value).err().unwrap_or_default();
                return Err(Fault::new(place, problem));
            }
        }
        for (index, grid) in self.grid.iter().enumerate() {
            grid.check().map_err(|fault| {
                Fault::new(format!("grid[{index}].{}", fault.key), fault.problem)
            })?;
            if self.grid[..index].iter().any(|other| other.name == grid.name) {
                let problem = format!("there is another grid {:?}", grid.name);
                return Err(Fault::new(format!("grid[{index}].name"), problem));
            }
            if let Some(name) = &grid.published_as
                && !self.grid.iter().any(|other| other.name == *name)
            {
                let problem = format!("there is no grid {name:?}");
                return Err(Fault::new(format!("grid[{index}].published_as"), problem));
            }
        }
        Ok(())
    }

    fn set_name(&mut self, label: String) {
        self.name = label;
    }
}

impl Grid {
    /// The grid with the published rows that it has from another one.
    pub(super) fn with_published(&self, all: &[Self]) -> Self {
        let other = all.iter().find(|grid| Some(&grid.name) == self.published_as.as_ref());
        let rows = other.map_or(&[][..], |grid| &grid.published);
        let mut grid = self.clone();
        grid.published.extend(rows.iter().cloned());
        grid
    }

    /// Ranges need a table of rows; other sizes name axes and points.
    fn check_sizes(&self) -> Result<(), Fault> {
        let ranged = self.axis.iter().any(|axis| !axis.range.is_empty());
        if ranged && (self.columns.is_some() || self.view != View::Table) {
            let problem = "an axis with ranges needs the view table, and no axis across";
            return Err(Fault::new("axis", problem));
        }
        for (place, size) in [("quick", Size::Quick), ("full", Size::Full)] {
            for (name, labels) in self.form(size).iter().flat_map(|form| &form.at) {
                let key = format!("{place}.at.{name}");
                self.axis_named(&key, name)?.has_all(&key, labels, size)?;
            }
        }
        Ok(())
    }

    /// The axis of this name.
    fn axis_named(&self, key: &str, name: &str) -> Result<&Axis, Fault> {
        self.axis.iter().find(|axis| axis.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.axis.iter().map(Axis::name).collect();
            Fault::new(key, format!("there is no axis {name:?}; known: {}", known.join(", ")))
        })
    }

    fn check(&self) -> Result<(), Fault> {
        let settings = |place: &str, set: &Settings| {
            set.iter().try_for_each(|(key, value)| {
                accept(self.target, key, value)
                    .map_err(|problem| Fault::new(format!("{place}.{key}"), problem))
            })
        };
        settings("inputs", &self.inputs)?;
        for (index, axis) in self.axis.iter().enumerate() {
            let place = format!("axis[{index}]");
            axis.check(self.target)
                .map_err(|fault| Fault::new(format!("{place}.{}", fault.key), fault.problem))?;
        }
        let axis = |key: &str, name: &str| self.axis_named(key, name).map(|_| ());
        self.check_sizes()?;
        if let Some(name) = &self.columns {
            axis("columns", name)?;
        }
        if let Some(compare) = &self.compare {
            axis("compare.axis", &compare.axis)?;
            for (label, value) in &compare.published {
                published(format!("compare.published.{label}"), *value, -PUBLISHED_MAX)?;
            }
        }
        for (index, row) in self.published.iter().enumerate() {
            let place = format!("published[{index}]");
            for name in row.at.keys() {
                axis(&format!("{place}.at.{name}"), name)?;
            }
            if let Some(change) = row.change {
                published(format!("{place}.change"), change, -PUBLISHED_MAX)?;
            }
            for (metric, values) in &row.values {
                let key = format!("{place}.values.{metric}");
                if values.is_empty() {
                    return Err(Fault::new(key, "must be a list of numbers, one at least"));
                }
                // A measured value is a rate, and errors are relative to it.
                let least = if self.view == View::Measured { RATE_MIN } else { -PUBLISHED_MAX };
                for (at, value) in values.iter().enumerate() {
                    published(format!("{key}[{at}]"), *value, least)?;
                }
            }
        }
        let known = |key: &String| key == "jobs_failed" || crate::figures::metric(key).is_some();
        if let Some(index) = self.metrics.iter().position(|key| !known(key)) {
            let key = &self.metrics[index];
            let known: Vec<&str> = crate::figures::all().map(|metric| metric.key).collect();
            let problem = format!("there is no figure {key:?}; known: {}", known.join(", "));
            return Err(Fault::new(format!("metrics[{index}]"), problem));
        }
        if self.half_width.is_some() && (self.compare.is_none() || self.seeds < 2) {
            let problem = "needs a change that is compared, and two seeds to see their spread";
            return Err(Fault::new("half_width", problem));
        }
        let more = |second: u32| self.half_width.is_some() && second > self.seeds;
        if self.second_look.is_some_and(|second| !more(second) || second > self.seeds_at_most) {
            let problem = "needs a half_width, more than seeds, and at most seeds_at_most";
            return Err(Fault::new("second_look", problem));
        }
        let small = |ratio: &f64| (0.01..=100.0).contains(ratio);
        if let Some((label, ratio)) = self.scale_error.iter().find(|(_, ratio)| !small(ratio)) {
            return Err(Fault::range(format!("scale_error.{label}"), *ratio, "0.01 to 100"));
        }
        Ok(())
    }
}

/// Whether a published value can be one: far beyond any rate per second.
fn published(key: String, value: f64, least: f64) -> Result<(), Fault> {
    if (least..=PUBLISHED_MAX).contains(&value) {
        return Ok(());
    }
    Err(Fault::range(key, value, &format!("{least:e} to {PUBLISHED_MAX:e}")))
}

impl Range {
    /// The executed values must be among its values.
    fn check(&self, place: &str) -> Result<(), Fault> {
        if self.values.is_empty() {
            return Err(Fault::new(format!("{place}.values"), "a range has one value at least"));
        }
        for (key, some) in [("run", &self.run), ("quick", &self.quick)] {
            if let Some(other) = some.iter().find(|value| !self.values.contains(value)) {
                let problem = format!("{other} is not among the values of the range");
                return Err(Fault::new(format!("{place}.{key}"), problem));
            }
        }
        Ok(())
    }
}

impl Axis {
    /// Every label must be a point at `size`.
    fn has_all(&self, key: &str, labels: &[Setting], size: Size) -> Result<(), Fault> {
        let points = self.points(size);
        let known = |label: &Setting| points.iter().any(|point| point.label == label.to_string());
        match labels.iter().find(|label| !known(label)) {
            None if !labels.is_empty() => Ok(()),
            None => Err(Fault::new(key, "must be a list of labels, one at least")),
            Some(label) => {
                let known: Vec<&str> = points.iter().map(|point| point.label.as_str()).collect();
                let problem = format!("there is no point {label}; known: {}", known.join(", "));
                Err(Fault::new(key, problem))
            }
        }
    }

    fn check(&self, target: Target) -> Result<(), Fault> {
        for (index, range) in self.range.iter().enumerate() {
            range.check(&format!("range[{index}]"))?;
            let key = self.key.as_deref().unwrap_or_default();
            for (at, value) in range.values.iter().enumerate() {
                accept(target, key, value).map_err(|problem| {
                    Fault::new(format!("range[{index}].values[{at}]"), problem)
                })?;
            }
        }
        match (&self.key, self.values.is_empty(), self.point.is_empty()) {
            (Some(_), true, true) if !self.range.is_empty() => {}
            (Some(key), false, true) => {
                for (index, value) in self.values.iter().enumerate() {
                    accept(target, key, value)
                        .map_err(|problem| Fault::new(format!("values[{index}]"), problem))?;
                }
            }
            (None, true, false) => {
                for (index, point) in self.point.iter().enumerate() {
                    for (key, value) in &point.set {
                        accept(target, key, value).map_err(|problem| {
                            Fault::new(format!("point[{index}].set.{key}"), problem)
                        })?;
                    }
                }
            }
            _ => {
                let problem = "an axis has a key and values or ranges, or points";
                return Err(Fault::new(if self.key.is_some() { "key" } else { "point" }, problem));
            }
        }
        if self.name().is_empty() {
            return Err(Fault::new("name", "an axis of points needs a name"));
        }
        let labels: Vec<String> =
            self.points(Size::Full).into_iter().map(|point| point.label).collect();
        match labels.iter().enumerate().find(|(at, label)| labels[..*at].contains(label)) {
            Some((_, label)) => Err(Fault::new("name", format!("{label:?} is listed twice"))),
            None => Ok(()),
        }
    }
}
