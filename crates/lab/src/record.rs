//! The record of an experiment: its inputs, including the content of every preset, and the outcome
//! of each cell.
//!
//! The record needs neither the files nor the command line that made it: `explain`, `compare` and
//! `report` read it as it is. [`Record::hash`] covers the experiment and its outcomes and nothing
//! of the machine or the moment, so the same run has the same hash everywhere.

use std::collections::BTreeMap;

use convoy_catalogue::Source;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::{Plan, PlannedGrid};
use crate::job::{Job, JobError, Outcome, Part, SimJob, sha256};

/// Version of [`Record`]; fields are only ever added.
pub const SCHEMA: u32 = 2;

/// An experiment with its outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this format, [`SCHEMA`].
    pub schema: u32,
    /// SHA-256 of all below but `build` and `command`.
    pub hash: String,
    /// Its name.
    pub name: String,
    /// Source of the experiment.
    pub source: Value,
    /// Its content.
    pub experiment: Value,
    /// Presets and mixes by the hash of their content.
    pub parts: BTreeMap<String, PartRecord>,
    /// Its grids.
    pub grids: Vec<GridRecord>,
    /// The build that ran it: commit, or hash of the program.
    pub build: String,
    /// The command that ran it.
    pub command: Vec<String>,
}

/// A preset or a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    /// `kernel`, `machine` or `mix`.
    pub kind: String,
    /// What titles call it.
    pub label: String,
    /// Its source.
    pub source: Value,
    /// Its content.
    pub content: Value,
}

/// The cells of a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridRecord {
    /// Its name.
    pub name: String,
    /// Its cells: points in order, seeds innermost.
    pub cells: Vec<CellRecord>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Labels by axis.
    pub at: BTreeMap<String, String>,
    /// SHA-256 of its content.
    pub hash: String,
    /// Hashes of its presets and its mix, by kind.
    pub parts: BTreeMap<String, String>,
    /// Its other inputs.
    pub inputs: Value,
    /// Its outcome; `None` after an interrupt.
    pub outcome: Option<Outcome>,
}

impl Record {
    /// The record of `plan` with one outcome for each of its cells, in their order.
    pub fn new(plan: &Plan, outcomes: &[Option<Outcome>], build: &str, command: &[String]) -> Self {
        let mut outcomes = outcomes.iter();
        let grids = plan.grids.iter().map(|grid| grid_record(grid, &mut outcomes)).collect();
        let (from, content) = (source(&plan.experiment.source), plan.experiment.to_json());
        Self::of(&plan.name, from, content, plan.jobs(), grids, build, command)
    }

    /// The record of load points without an experiment: one axis, `users`.
    pub fn of_load(
        name: &str,
        points: &[(Job, Option<Outcome>)],
        build: &str,
        command: &[String],
    ) -> Self {
        let cell = |(job, outcome): &(Job, Option<Outcome>)| {
            let users = job.settings()["users"].to_string();
            CellRecord::of(job, [("users".to_owned(), users)].into(), outcome.clone())
        };
        let grid = GridRecord { name: "load".to_owned(), cells: points.iter().map(cell).collect() };
        let jobs = points.iter().map(|(job, _)| job);
        Self::of(name, Value::Null, Value::Null, jobs, vec![grid], build, command)
    }

    fn of<'a>(
        name: &str,
        source: Value,
        experiment: Value,
        jobs: impl Iterator<Item = &'a Job>,
        grids: Vec<GridRecord>,
        build: &str,
        command: &[String],
    ) -> Self {
        let mut parts = BTreeMap::new();
        for part in jobs.flat_map(|job| job.parts()) {
            parts.entry(part.source.hash.clone()).or_insert_with(|| PartRecord::of(part));
        }
        let mut record = Self {
            schema: SCHEMA,
            hash: String::new(),
            name: name.to_owned(),
            source,
            experiment,
            parts,
            grids,
            build: String::new(),
            command: Vec::new(),
        };
        record.hash = sha256(&serde_json::to_string(&record).unwrap_or_default());
        build.clone_into(&mut record.build);
        record.command = command.to_vec();
        record
    }

    /// The cells of its simulations that can be run again.
    pub fn simulations(&self) -> impl Iterator<Item = (&GridRecord, &CellRecord)> {
        let cells =
            self.grids.iter().flat_map(|grid| grid.cells.iter().map(move |cell| (grid, cell)));
        cells
            .filter(|(_, cell)| cell.parts.contains_key("kernel") && cell.parts.contains_key("mix"))
    }

    /// The simulation of `cell`, made of the content in this record alone.
    ///
    /// # Errors
    /// [`JobError`]: this version does not read a preset of it.
    pub fn simulation(&self, cell: &CellRecord) -> Result<SimJob, JobError> {
        let mut parts = Vec::new();
        for (kind, hash) in &cell.parts {
            let part = self.parts.get(hash).ok_or_else(|| {
                JobError::input(kind, format_args!("{hash} is not in the record"))
            })?;
            parts.push(part.part(hash));
        }
        SimJob::of_record(&cell.inputs, parts)
    }
}

impl CellRecord {
    fn of(job: &Job, at: BTreeMap<String, String>, outcome: Option<Outcome>) -> Self {
        let parts = job.parts().iter();
        Self {
            at,
            hash: job.hash(),
            parts: parts.map(|part| (part.kind.to_owned(), part.source.hash.clone())).collect(),
            inputs: job.settings(),
            outcome,
        }
    }
}

impl PartRecord {
    fn of(part: &Part) -> Self {
        Self {
            kind: part.kind.to_owned(),
            label: part.source.label(),
            source: source(&part.source),
            content: part.content.clone(),
        }
    }

    fn part(&self, hash: &str) -> Part {
        let kind = ["kernel", "machine", "mix"].into_iter().find(|kind| *kind == self.kind);
        Part {
            kind: kind.unwrap_or("part"),
            source: Source::recorded(&self.label, hash),
            content: self.content.clone(),
        }
    }
}

/// The source without the path that it had on one machine.
fn source(source: &Source) -> Value {
    let mut value = serde_json::to_value(source).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("path");
    }
    value
}

fn grid_record<'a>(
    grid: &PlannedGrid,
    outcomes: &mut impl Iterator<Item = &'a Option<Outcome>>,
) -> GridRecord {
    let mut cells = Vec::new();
    for point in &grid.points {
        let names = grid.axes.iter().map(|axis| axis.name.clone());
        let labels = grid.labels(point).into_iter().map(str::to_owned);
        let at: BTreeMap<String, String> = names.zip(labels).collect();
        for job in &point.jobs {
            let outcome = outcomes.next().cloned().flatten();
            cells.push(CellRecord::of(job, at.clone(), outcome));
        }
    }
    GridRecord { name: grid.grid.name.clone(), cells }
}
