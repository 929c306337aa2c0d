//! `convoy explain`: where a run on the virtual machine spent its time, and why.
//!
//! A simulation repeats to the byte, so nothing is kept for this: the run is executed again with a
//! recorder, which costs no virtual time.

mod args;
mod cell;
mod choose;
mod files;
mod find;
mod recorded;
mod target;

use crate::experiment::apart;
use crate::fail::Failure;
use crate::output;
use convoy_explain::{Analysis, Detail};
use convoy_lab::virtual_end::VirtualError;
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use convoy_machine::Recorder;
use convoy_report::{ExplainReport, Explained, Page, RcuThreads};
use files::{INTERVALS, details, stacks};
use find::known;
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use target::Target;

pub(crate) use args::Explain;
pub(crate) use find::{find, numbered, parser};

/// The command.
pub(crate) fn run(args: &Explain) -> Result<ExitCode, Failure> {
    args.ready()?;
    if let Some(mut record) = find(&args.run, args.store.as_deref())? {
        if let Some(directory) = &args.symbols {
            find::name(&mut record, directory)?;
        }
        return recorded::explain(args, &record);
    }
    known(&args.run)?;
    args.fits_simulations()?;
    if let Some(cell) = cell::Cell::find(args)? {
        return cell.explain(args);
    }
    let target = Target::new(args)?;
    let detailed = args.trace.is_some();
    let bar = output::progress(&args.common, if detailed { 2 } else { 1 });
    bar.set_message("running it, recorded");
    let cpus = target.run.machine.topology.cpus;
    let analysis = Analysis::new(cpus);
    let (point, analysis) = execute(&target.run, analysis)?;
    let mut report = report(&target, &point, &analysis);
    if detailed {
        bar.inc(1);
        bar.set_message("again, with the part around the longest convoy in full");
        report.notes.extend(details(args, &report.hash, cpus, &analysis, |detail| {
            let (point, detail) = execute(&target.run, detail)?;
            Ok((format!("{:016x}", point.hash), detail))
        })?);
    }
    bar.finish_and_clear();
    let seconds = analysis.summary().window_s;
    report.notes.extend(stacks(args, &report.title, &analysis.stacks(), seconds)?);
    args.print(&report)
}

/// The page of a simulated run.
pub(crate) fn page(args: &Explain) -> Result<Page, Failure> {
    known(&args.run)?;
    if let Some(cell) = cell::Cell::find(args)? {
        return cell.page();
    }
    let target = Target::new(args)?;
    let bar = output::progress(&args.common, 2);
    bar.set_message("running it, recorded");
    let cpus = target.run.machine.topology.cpus;
    let (point, analysis) = execute(&target.run, Analysis::new(cpus))?;
    bar.inc(1);
    bar.set_message("again, with the part around the longest convoy in full");
    let (_, detail) = execute(&target.run, Detail::new(cpus, analysis.window()))?;
    bar.finish_and_clear();
    let report = report(&target, &point, &analysis);
    Ok(report.page(&analysis.stacks(), &analysis.over_time(INTERVALS), detail.lanes()))
}

/// Runs it with `recorder`, and returns the recorder.
fn execute<R: Recorder + Send + 'static>(
    run: &VirtualRun,
    recorder: R,
) -> Result<(VirtualPoint, R), Failure> {
    let run = run.clone();
    apart(move || {
        let shared = Rc::new(RefCell::new(recorder));
        let point = run.record(shared.clone())?;
        let recorder = Rc::into_inner(shared).expect("the machine is gone");
        Ok::<_, VirtualError>((point, recorder.into_inner()))
    })?
    .ok_or_else(|| Failure::interrupted(0))
}

fn report(target: &Target, point: &VirtualPoint, analysis: &Analysis) -> ExplainReport {
    let run = &target.run;
    let mut notes = Vec::new();
    notes.extend(target.difference(&format!("{:016x}", point.hash)));
    if let Some(failure) = &point.first_failure {
        notes.push(format!("a job failed: {failure}"));
    }
    let summary = analysis.summary();
    ExplainReport {
        rcu_threads: RcuThreads::new(&point.rcu, &summary),
        title: format!(
            "{}: {} users of {}, {} on {} ({} CPUs), seed {}: {:.1} jobs/min",
            target.name,
            run.users,
            run.mix.name,
            run.kernel.name,
            run.machine.name,
            run.machine.topology.cpus,
            run.seed,
            point.columns.jobs_per_min
        ),
        replay: format!("convoy {}", target.replay()),
        explained: Explained::Load {
            inputs: Box::new(target.inputs.clone()),
            users: u64::from(run.users),
            jobs_per_min: point.columns.jobs_per_min,
        },
        hash: format!("{:016x}", point.hash),
        summary,
        bulk: point.bulk.clone(),
        notes,
    }
}
