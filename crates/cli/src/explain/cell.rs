//! Which workload, or which loop of pages, of an experiment is explained.

use super::args::Explain;
use super::choose::{Candidate, choose, place, push};
use super::simulation::Simulation;
use super::target::{flags_of_point, plan_of};
use crate::fail::Failure;
use crate::keep::is_stored;
use convoy_explain::Analysis;
use convoy_lab::experiment::Target as Kind;
use convoy_lab::job::{Job, JobError, Listener, Recorded};
use convoy_report::{ExplainReport, Explained};
use serde_json::json;
use std::collections::BTreeMap;

/// One cell of an experiment with the target `work` or `zone`.
#[derive(Clone)]
pub(super) struct Cell {
    name: String,
    /// Its labels, in the order of the axes.
    labels: Vec<String>,
    job: Job,
    /// RUN and the flags that select this simulation.
    flags: String,
}

impl Cell {
    /// The cell that the flags name, if the experiment is one of workloads or of pages in a loop.
    pub(super) fn find(args: &Explain) -> Result<Option<Self>, Failure> {
        if is_stored(&args.run) {
            return Ok(None);
        }
        let plan = plan_of(args)?;
        let kinds = [Kind::Sim, Kind::Work, Kind::Zone];
        let grid = plan.grids.iter().find(|grid| kinds.contains(&grid.grid.target));
        let Some(grid) = grid.filter(|grid| grid.grid.target != Kind::Sim) else {
            return Ok(None);
        };
        refuse(args)?;
        let candidates = grid.points.iter().filter_map(|point| {
            let (at, ranges) = place(grid, point);
            let job = point.jobs.first()?.clone();
            let seed = job.seed();
            Some(Candidate { at, ranges, job, users: None, seed, hash: None })
        });
        let what = format!("experiment {}, {}", args.run, grid.grid.name);
        let found = choose(args, &what, candidates.collect())?;
        let mut flags = flags_of_point(args, &found);
        push(&mut flags, "machine", args.machine.as_ref());
        push(&mut flags, "cpus", args.cpus);
        push(&mut flags, "seed", Some(found.seed));
        let labels = grid.axes.iter().filter_map(|axis| found.at.get(&axis.name).cloned());
        let (name, labels) = (plan.name.clone(), labels.collect());
        Ok(Some(Self { name, labels, job: found.job, flags: flags + &args.sets.flags() }))
    }
}

impl Simulation for Cell {
    type Point = Recorded;

    fn cpus(&self) -> usize {
        self.job.cpus().unwrap_or(0)
    }

    fn run(&self, recorder: Listener) -> Result<Recorded, JobError> {
        self.job.record(recorder).expect("a workload or pages in a loop")
    }

    fn hash(recorded: &Recorded) -> String {
        recorded.outcome.schedule_hash.clone().unwrap_or_default()
    }

    fn report(&self, recorded: &Recorded, analysis: &Analysis) -> ExplainReport {
        let parts = self.job.parts().iter();
        ExplainReport {
            rcu_threads: None,
            title: format!(
                "{}: {} ({} CPUs), seed {}",
                self.name,
                self.labels.join(", "),
                self.cpus(),
                self.job.seed()
            ),
            replay: format!("convoy explain {}", self.flags),
            explained: Explained::Cell {
                target: self.job.target(),
                parts: json!(
                    parts.map(|part| (part.kind, &part.source)).collect::<BTreeMap<_, _>>()
                ),
                settings: self.job.settings(),
                metrics: recorded.outcome.metrics.clone(),
            },
            hash: Self::hash(recorded),
            summary: analysis.summary(),
            bulk: recorded.bulk.clone(),
            notes: Vec::new(),
        }
    }
}

/// Flags that mean nothing here.
fn refuse(args: &Explain) -> Result<(), Failure> {
    if args.users.is_some() || args.shrink.is_some() {
        return Err(Failure::usage(
            "--users and --shrink are for AIM7; change a workload with --set, such as --set \
             workload.script.rounds=4",
        ));
    }
    Ok(())
}
