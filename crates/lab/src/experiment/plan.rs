//! From an experiment to its cells: the product of the axes, except for excluded points, with every
//! seed.

use convoy_catalogue::{CatalogueError, KERNELS, Loaded, MACHINES, Sheet};

use super::{
    Axis, AxisPoint, Changes, Experiment, Grid, INPUTS, Inputs, Published, Setting, Settings, Size,
    Target, accept,
};
use crate::job::{Job, JobError};

/// Most cells of a plan, seeds included.
const CELLS_MAX: usize = 1_000_000;

/// Errors of planning.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file of the experiment cannot be loaded.
    #[error("experiment {experiment}: {source}")]
    Catalogue {
        /// The experiment.
        experiment: String,
        /// Why.
        source: Box<CatalogueError>,
    },
    /// A cell makes no sense.
    #[error("experiment {experiment}, grid {grid}{at}: {source}")]
    Cell {
        /// The experiment.
        experiment: String,
        /// The grid.
        grid: String,
        /// The point.
        at: String,
        /// Why.
        source: Box<JobError>,
    },
    /// The changes do not match the file.
    #[error("experiment {experiment}: {problem}")]
    Changes {
        /// The experiment.
        experiment: String,
        /// The problem, and the accepted values.
        problem: String,
    },
}

/// A point of an axis, loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// As the file has it.
    pub raw: String,
    /// As tables have it: a changed preset says so.
    pub label: String,
    /// The range it belongs to, if its axis has such.
    pub range: Option<String>,
    set: Settings,
}

/// An axis, loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedAxis {
    /// Its name.
    pub name: String,
    /// Its points.
    pub levels: Vec<Level>,
}

impl Level {
    /// Whether it belongs to the range with this label.
    pub fn is_in(&self, range: &str) -> bool {
        self.range.as_deref() == Some(range)
    }

    /// Returns the label as a number if it is the value of a key; other labels are words.
    pub fn number(&self) -> Option<f64> {
        let value = self.set.values().find(|value| value.to_string() == self.label);
        value.filter(|_| self.set.len() == 1)?.number()
    }
}

impl PlannedAxis {
    /// The level that is called so in the file or in tables.
    pub fn find(&self, label: &str) -> Option<usize> {
        self.levels.iter().position(|level| level.raw == label || level.label == label)
    }
}

/// One point of the product with its cells.
#[derive(Clone, Debug)]
pub struct Point {
    /// Which level of each axis.
    pub at: Vec<usize>,
    /// One cell for each seed.
    pub jobs: Vec<Job>,
}

/// A grid with its cells.
#[derive(Clone, Debug)]
pub struct PlannedGrid {
    /// As the file has it.
    pub grid: Grid,
    /// Its axes.
    pub axes: Vec<PlannedAxis>,
    /// Its points, the last axis fastest.
    pub points: Vec<Point>,
    /// The seeds of every point; in a grid with a `half_width`, of the first stage.
    pub seeds: Vec<u64>,
    /// Whether points get more seeds as their spread asks for, up to [`Grid::seeds_at_most`].
    pub staged: bool,
    /// How often that is still decided.
    pub looks: u32,
    /// Divisor of users and start delay.
    pub scale: u32,
}

/// All cells of an experiment.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the experiment.
    pub name: String,
    /// The experiment.
    pub experiment: Loaded<Experiment>,
    /// Its grids.
    pub grids: Vec<PlannedGrid>,
    /// Names and titles of the grids that are run only if they are named.
    pub left: Vec<(String, String)>,
    /// The changes from the command line.
    pub(super) changes: Changes,
}

impl PlannedGrid {
    /// Labels of a point, axis by axis.
    pub fn labels(&self, point: &Point) -> Vec<&str> {
        let pairs = self.axes.iter().zip(&point.at);
        pairs.map(|(axis, &at)| axis.levels[at].label.as_str()).collect()
    }

    /// Which axis has this name.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name)
    }

    /// Returns the published results of a point.
    pub fn published(&self, at: &[usize]) -> Option<&Published> {
        self.grid.published.iter().find(|row| row.is_of(&self.axes, at))
    }

    /// The point that differs from `at` in one axis, where it has `level`.
    pub fn sibling(&self, at: &[usize], axis: usize, level: usize) -> Option<usize> {
        let mut other = at.to_vec();
        other[axis] = level;
        self.points.iter().position(|point| point.at == other)
    }

    /// The point that `index` is compared with.
    pub fn baseline(&self, index: usize) -> Option<usize> {
        let compare = self.grid.compare.as_ref()?;
        let axis = self.axis(&compare.axis)?;
        let first = self.axes[axis].find(&compare.baseline)?;
        let at = &self.points[index].at;
        let level = if compare.previous { first.max(at[axis].saturating_sub(1)) } else { first };
        self.sibling(at, axis, level)
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.points.iter().map(|point| point.jobs.len()).sum()
    }
}

impl Published {
    fn is_of(&self, axes: &[PlannedAxis], at: &[usize]) -> bool {
        matches(&self.at, axes, at)
    }
}

/// Whether the point `at` has all labels that `wanted` names.
fn matches(wanted: &Settings, axes: &[PlannedAxis], at: &[usize]) -> bool {
    wanted.iter().all(|(name, label)| {
        let found = axes.iter().zip(at).find(|(axis, _)| axis.name == *name);
        let label = label.to_string();
        found.is_some_and(|(axis, &at)| {
            axis.levels[at].raw == label || axis.levels[at].is_in(&label)
        })
    })
}

impl Plan {
    /// The cells of `experiment`.
    ///
    /// # Errors
    /// [`PlanError`]: everything that the file names is there and in its range, asked before
    /// anything runs.
    pub fn new(experiment: &Loaded<Experiment>, changes: &Changes) -> Result<Self, PlanError> {
        // A comparison without its baseline says nothing.
        fn complete(grid: &PlannedGrid) -> bool {
            grid.grid.compare.as_ref().is_none_or(|compare| {
                let axis = grid.axis(&compare.axis);
                axis.is_some_and(|axis| grid.axes[axis].find(&compare.baseline).is_some())
            })
        }
        let name = experiment.value.name.clone();
        let wrong = |problem: String| PlanError::Changes { experiment: name.clone(), problem };
        let known = || experiment.grid.iter().map(|grid| grid.name.as_str());
        for only in &changes.only {
            if !known().any(|grid| grid == only) {
                let hint = convoy_catalogue::suggest::hint(only, known());
                let known = known().collect::<Vec<_>>().join(", ");
                return Err(wrong(format!("there is no grid {only:?}{hint}; known: {known}")));
            }
        }
        experiment.value.has(changes.size, &changes.only).map_err(wrong)?;
        let wanted = |grid: &&Grid| {
            (changes.size != Size::Quick || grid.quick.is_some())
                && (changes.only.is_empty() || changes.only.contains(&grid.name))
        };
        let mut plan = Self {
            name: name.clone(),
            grids: Vec::new(),
            left: Vec::new(),
            experiment: experiment.clone(),
            changes: changes.clone(),
        };
        for grid in experiment.grid.iter().filter(wanted) {
            let grid = &grid.with_published(&experiment.value.grid);
            let planned = Planner { experiment, grid, changes }.plan()?;
            if grid.on_request && changes.only.is_empty() {
                plan.left.push((grid.name.clone(), grid.title.clone()));
            } else {
                plan.grids.push(planned);
            }
        }
        if !changes.alone
            && changes.points.is_empty()
            && let Some(grid) = plan.grids.iter().find(|grid| !complete(grid))
        {
            let compare = grid.grid.compare.as_ref().map(|compare| compare.baseline.as_str());
            let baseline = compare.unwrap_or_default();
            return Err(wrong(format!("grid {}: no point is {baseline:?}", grid.grid.name)));
        }
        plan.grids.retain(|grid| (changes.alone || complete(grid)) && !grid.points.is_empty());
        if plan.grids.is_empty() {
            return Err(wrong("nothing is left to run; ask for less".to_owned()));
        }
        Ok(plan)
    }

    /// The grid and the point of the cell with this number.
    pub fn cell(&self, index: usize) -> Option<(&PlannedGrid, &Point)> {
        let points =
            self.grids.iter().flat_map(|grid| grid.points.iter().map(move |at| (grid, at)));
        points.flat_map(|(grid, at)| std::iter::repeat_n((grid, at), at.jobs.len())).nth(index)
    }

    /// All cells in their order: grids, points, seeds.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.grids.iter().flat_map(|grid| &grid.points).flat_map(|point| &point.jobs)
    }
}

/// One grid on its way to a plan.
pub(super) struct Planner<'a> {
    pub(super) experiment: &'a Loaded<Experiment>,
    pub(super) grid: &'a Grid,
    pub(super) changes: &'a Changes,
}

impl Planner<'_> {
    fn wrong(&self, problem: String) -> PlanError {
        PlanError::Changes { experiment: self.experiment.value.name.clone(), problem }
    }

    /// Checks the changes against the ranges of the file.
    fn check(&self) -> Result<(), PlanError> {
        let Changes { settings, points, .. } = self.changes;
        let shelf = |key: &str| [&KERNELS, &MACHINES].into_iter().any(|shelf| shelf.kind == key);
        let names = points.iter().filter(|(key, _)| !shelf(key));
        let values =
            names.flat_map(|(key, all)| all.iter().map(move |word| (key, Setting::of(word))));
        let given = settings.iter().map(|(key, value)| (key, value.clone()));
        for (key, value) in given.chain(values) {
            let mut inputs = INPUTS.iter().filter(|input| input.key == key);
            if inputs.any(|input| input.targets.contains(&self.grid.target)) {
                accept(self.grid.target, key, &value).map_err(|problem| {
                    self.wrong(format!("grid {}: {key}: {problem}", self.grid.name))
                })?;
            }
        }
        Ok(())
    }

    fn plan(&self) -> Result<PlannedGrid, PlanError> {
        self.check()?;
        let axes =
            self.grid.axis.iter().map(|axis| self.axis(axis)).collect::<Result<Vec<_>, _>>()?;
        let count = self
            .changes
            .seeds
            .unwrap_or(self.grid.seeds_at(self.changes.size))
            .min(self.grid.seeds_at_most);
        let first = self.changes.seed;
        let end = first.checked_add(u64::from(count)).ok_or_else(|| {
            self.wrong(format!(
                "--seed {first} leaves no room for {count} seeds; give a smaller one"
            ))
        })?;
        let seeds: Vec<u64> = (first..end).collect();
        let asked = self.changes.scale.unwrap_or(self.grid.scale_at(self.changes.size));
        // Users of an axis are not scaled.
        let varied = axes.iter().flat_map(|axis| &axis.levels).any(|l| l.set.contains_key("users"));
        let scale = if varied { 1 } else { asked.max(self.grid.scale_at_least) };
        let cells = axes.iter().map(|axis| axis.levels.len()).product::<usize>() * seeds.len();
        if cells > CELLS_MAX {
            return Err(self.wrong(format!(
                "grid {} has {cells} cells; at most {CELLS_MAX} are run",
                self.grid.name
            )));
        }
        let staged =
            self.grid.half_width.is_some() && self.changes.seeds.is_none() && seeds.len() > 1;
        let looks = if staged { 1 + u32::from(self.grid.second_look.is_some()) } else { 0 };
        let (grid, points) = (self.grid.clone(), Vec::new());
        let mut planned = PlannedGrid { grid, axes, points, seeds, staged, looks, scale };
        for at in product(&planned.axes) {
            let excluded = self.grid.exclude.iter().any(|out| matches(out, &planned.axes, &at));
            let unpublished = self.grid.only_published && planned.published(&at).is_none();
            if !excluded && !unpublished {
                let jobs = self.jobs(&planned, &at, &planned.seeds)?;
                planned.points.push(Point { at, jobs });
            }
        }
        Ok(planned)
    }

    /// The settings that all cells of the grid have.
    fn settings(&self) -> Settings {
        let mut all = Settings::new();
        let fits =
            |(key, value): &(&String, &Setting)| accept(self.grid.target, key, value).is_ok();
        all.extend(own(self.experiment.inputs.iter().filter(fits)));
        all.extend(own(self.grid.inputs.iter()));
        all.extend(own(self.changes.settings.iter().filter(fits)));
        for (key, names) in &self.changes.points {
            let varies = self.grid.axis.iter().any(|axis| axis.key.as_deref() == Some(key));
            if let (false, [name, ..]) = (varies, &names[..]) {
                all.insert(key.clone(), Setting::of(name));
            }
        }
        all
    }

    fn axis(&self, axis: &Axis) -> Result<PlannedAxis, PlanError> {
        let size = self.changes.size;
        let mut points = axis.points(size);
        if let Some(kept) = self.grid.form(size).and_then(|form| form.at.get(axis.name())) {
            points.retain(|point| kept.iter().any(|label| label.to_string() == point.label));
        }
        let key = axis.key.as_deref().unwrap_or_default();
        let shelf = [&KERNELS, &MACHINES].into_iter().find(|shelf| shelf.kind == key);
        // A kernel may be called 3.0, which is not a number.
        let value = |name: &str| match shelf {
            Some(_) => Setting::Text(name.to_owned()),
            None => Setting::of(name),
        };
        if let Some(wanted) = self.changes.points.get(key).filter(|wanted| !wanted.is_empty()) {
            // A name that is not a point of the axis is a separate preset.
            let plain = |name: &str| name.strip_prefix('v').unwrap_or(name).to_owned();
            let point = |name: &String| {
                let same = |point: &&AxisPoint| point.label == *name || point.label == plain(name);
                points.iter().find(same).cloned().unwrap_or_else(|| AxisPoint {
                    label: name.clone(),
                    set: [(key.to_owned(), value(name))].into(),
                })
            };
            points = wanted.iter().map(point).collect();
        }
        let mut levels = Vec::new();
        for AxisPoint { label: raw, set } in points {
            let label = match shelf {
                None => raw.clone(),
                Some(shelf) => {
                    let directory = self.experiment.source.directory();
                    let sheet = Sheet::open(shelf, &raw, directory.as_deref());
                    let source = sheet.map_err(|source| PlanError::Catalogue {
                        experiment: self.experiment.value.name.clone(),
                        source: Box::new(source),
                    })?;
                    source.source().label()
                }
            };
            let range = axis.range_of(&raw).map(|range| range.label.clone());
            levels.push(Level { raw, label, range, set });
        }
        Ok(PlannedAxis { name: axis.name().to_owned(), levels })
    }

    /// The cells of a point with these seeds.
    pub(super) fn jobs(
        &self,
        planned: &PlannedGrid,
        at: &[usize],
        seeds: &[u64],
    ) -> Result<Vec<Job>, PlanError> {
        let mut settings = self.settings();
        for (axis, &level) in planned.axes.iter().zip(at) {
            settings.extend(own(axis.levels[level].set.iter()));
        }
        if let Some(first) = self.grid.first_at(self.changes.size) {
            settings.entry("first".to_owned()).or_insert(Setting::Whole(i64::from(first)));
        }
        if let Some(jobs) = self.grid.jobs_together_at(self.changes.size) {
            settings.entry("jobs_together".to_owned()).or_insert(Setting::Whole(i64::from(jobs)));
        }
        let job = |&seed: &u64| {
            let inputs = Inputs {
                settings: settings.clone(),
                directory: self.experiment.source.directory(),
                scale: planned.scale,
                seed,
            };
            Job::new(self.grid.target, &inputs)
        };
        seeds.iter().map(job).collect::<Result<_, _>>().map_err(|source| {
            let pairs = planned.axes.iter().zip(at);
            let at = pairs.map(|(axis, &at)| format!(", {} {}", axis.name, axis.levels[at].label));
            PlanError::Cell {
                experiment: self.experiment.value.name.clone(),
                grid: self.grid.name.clone(),
                at: at.collect(),
                source: Box::new(source),
            }
        })
    }
}

/// Owned copies of settings.
fn own<'a>(
    settings: impl Iterator<Item = (&'a String, &'a Setting)>,
) -> impl Iterator<Item = (String, Setting)> {
    settings.map(|(key, value)| (key.clone(), value.clone()))
}

/// All combinations of levels, the last axis fastest; one empty combination without axes.
fn product(axes: &[PlannedAxis]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |combinations, axis| {
        let longer = |combination: &Vec<usize>| {
            let with = |level| [&combination[..], &[level]].concat();
            (0..axis.levels.len()).map(with).collect::<Vec<_>>()
        };
        combinations.iter().flat_map(longer).collect()
    })
}

impl Target {
    /// The metrics of a table that names none.
    pub fn metrics(self) -> &'static [&'static str] {
        match self {
            Self::Sim => &["jobs_per_min", "cpu_ms_per_job", "idle_percent"],
            Self::Host => &["jobs_per_min", "jti", "cpu_ms_per_job"],
            Self::Locks => {
                &["acquisitions_per_s", "jain", "cpus_used", "wait_p50_us", "wait_p99_us"]
            }
            Self::Zone => &["pages_per_s", "wait_mean_us", "wait_p99_us", "hold_mean_us"],
            Self::Work => &["real_s", "cpu_s", "idle_percent", "refill_count", "drain_count"],
            Self::Command => &["wall_s", "user_s", "system_s", "switches"],
        }
    }
}
