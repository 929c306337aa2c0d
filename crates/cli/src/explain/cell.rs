//! Which workload, or which loop of pages, of an experiment is explained.

use super::args::Explain;
use super::choose::{Candidate, choose, place, push};
use super::files::{INTERVALS, details, stacks};
use super::target::{flags_of_point, plan_of};
use crate::experiment::apart;
use crate::fail::Failure;
use crate::output;
use convoy_explain::{Analysis, Detail};
use convoy_lab::experiment::Target as Kind;
use convoy_lab::job::{Job, JobError, Recorded};
use convoy_machine::Recorder;
use convoy_report::{ExplainReport, Explained, Page};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;

/// One cell of an experiment with the target `work` or `zone`.
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
        if args.run.starts_with('@') || args.run.chars().all(|c| c.is_ascii_digit()) {
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

    /// Runs it with `recorder`, and returns the recorder.
    fn execute<R: Recorder + Send + 'static>(&self, recorder: R) -> Result<(Recorded, R), Failure> {
        let job = self.job.clone();
        apart(move || {
            let shared = Rc::new(RefCell::new(recorder));
            let recorded = job.record(shared.clone()).expect("a workload or pages in a loop");
            let recorder = Rc::into_inner(shared).expect("the machine is gone");
            Ok::<_, JobError>((recorded?, recorder.into_inner()))
        })?
        .ok_or_else(|| Failure::interrupted(0))
    }

    /// Runs it, recorded, for a page.
    pub(super) fn page(&self) -> Result<Page, Failure> {
        let (recorded, analysis) = self.execute(Analysis::new(self.cpus()))?;
        let (_, detail) = self.execute(Detail::new(self.cpus(), analysis.window()))?;
        let report = self.report(&recorded, &analysis);
        Ok(report.page(&analysis.stacks(), &analysis.over_time(INTERVALS), detail.lanes()))
    }

    /// Runs it, recorded, and prints the account.
    pub(super) fn explain(&self, args: &Explain) -> Result<ExitCode, Failure> {
        let detailed = args.trace.is_some();
        let bar = output::progress(&args.common, if detailed { 2 } else { 1 });
        bar.set_message("running it, recorded");
        let (recorded, analysis) = self.execute(Analysis::new(self.cpus()))?;
        let mut report = self.report(&recorded, &analysis);
        if detailed {
            bar.inc(1);
            bar.set_message("again, with the part around the longest convoy in full");
            report.notes.extend(details(args, &report.hash, self.cpus(), &analysis, |detail| {
                let (recorded, detail) = self.execute(detail)?;
                Ok((hash(&recorded), detail))
            })?);
        }
        bar.finish_and_clear();
        let seconds = analysis.summary().window_s;
        report.notes.extend(stacks(args, &report.title, &analysis.stacks(), seconds)?);
        args.print(&report)
    }

    fn cpus(&self) -> usize {
        self.job.cpus().unwrap_or(0)
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
            hash: hash(recorded),
            summary: analysis.summary(),
            bulk: recorded.bulk.clone(),
            notes: Vec::new(),
        }
    }
}

/// The schedule hash of a run.
fn hash(recorded: &Recorded) -> String {
    recorded.outcome.schedule_hash.clone().unwrap_or_default()
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
