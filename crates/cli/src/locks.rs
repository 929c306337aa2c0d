//! `convoy locks`: locks in a loop, on this machine or a virtual one.

use crate::args::Common;
use crate::experiment::{execute, threads};
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use convoy_host::Interrupts;
use convoy_lab::native::{self, NativeExperiment, NativeRecord, Policy, Think};
use convoy_lab::pool::{self, Watch};
use convoy_lab::virtual_locks::{self, VirtualLocks, VirtualLocksPoint};
use convoy_report::{native_csv, native_json, native_text};
use convoy_workload::user::Next;
use std::process::ExitCode;

/// `convoy locks`.
#[derive(Debug, Args)]
pub(crate) struct Locks {
    /// What the threads do.
    #[command(flatten)]
    plan: Plan,
    /// Kernel preset: run on a virtual machine instead of this one
    #[arg(long, value_name = "PRESET", help_heading = "Virtual machine")]
    kernel: Option<String>,
    /// Machine preset of the virtual machine
    #[arg(long, value_name = "PRESET", default_value = "quad-2008-two-dies")]
    #[arg(requires = "kernel", help_heading = "Virtual machine")]
    machine: String,
    /// What is changed in the presets.
    #[command(flatten)]
    sets: Sets,
    /// Where the record goes.
    #[command(flatten)]
    store: StoreArgs,
    /// Flags of every command.
    #[command(flatten)]
    common: Common,
}

/// What the threads do. A list gives a row for each of its values.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loop")]
struct Plan {
    /// Locks; ratios have the first as their baseline [default: handoff,opportunistic,mutex,
    /// adaptive,test-and-set,ticket]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(Policy::NAMES).map(lock))]
    lock: Option<Vec<Policy>>,
    /// Numbers of threads [default: 2]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Option<Vec<u32>>,
    /// Lengths of the section under the lock, nanoseconds [default: 100]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    section_ns: Option<Vec<u32>>,
    /// Work between two sections, nanoseconds: fixed:NS, or exp:MEAN, drawn from the exponential
    /// distribution [default: fixed:1000]
    #[arg(long, value_name = "TIME", value_parser = think)]
    think: Option<(Think, u32)>,
    /// Looks of a lock at its word before it sleeps, for locks that spin first
    #[arg(long, value_name = "N")]
    spin_limit: Option<u32>,
    /// Number of CPUs: the first of this machine, or those of the virtual one [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Number of rounds, on a virtual machine each with its own seed [default: 3, virtual 1]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Time before acquisitions count, milliseconds [default: 50]
    #[arg(long, value_name = "MS", hide_short_help = true)]
    warmup_ms: Option<u32>,
    /// Milliseconds in which acquisitions count [default: 100, virtual 20]
    #[arg(long, value_name = "MS")]
    window_ms: Option<u32>,
    /// Seed of the order of runs, the draws and the virtual machine [default: 1]
    #[arg(long)]
    seed: Option<u64>,
}

#[expect(clippy::needless_pass_by_value, reason = "what the parser maps with")]
fn lock(name: String) -> Policy {
    Policy::named(&name).expect("the parser lets only these through")
}

/// `exp:1000` as a distribution and its mean.
fn think(text: &str) -> Result<(Think, u32), String> {
    let (kind, ns) = text.split_once(':').unwrap_or(("fixed", text));
    let kind = match kind {
        "fixed" => Some(Think::Fixed),
        "exp" => Some(Think::Exponential),
        _ => None,
    };
    let pair = kind.zip(ns.parse().ok());
    pair.ok_or_else(|| "give fixed:NS or exp:NS, such as exp:1000".to_owned())
}

impl Plan {
    /// `base` with what the flags say.
    fn over(&self, mut base: NativeExperiment) -> NativeExperiment {
        fn set<T: Clone>(field: &mut T, flag: Option<&T>) {
            if let Some(value) = flag {
                field.clone_from(value);
            }
        }
        set(&mut base.policies, self.lock.as_ref());
        set(&mut base.threads, self.threads.as_ref());
        set(&mut base.section_ns, self.section_ns.as_ref());
        set(&mut base.rounds, self.rounds.as_ref());
        set(&mut base.warmup_ms, self.warmup_ms.as_ref());
        set(&mut base.window_ms, self.window_ms.as_ref());
        set(&mut base.seed, self.seed.as_ref());
        if let Some((think, ns)) = self.think {
            (base.think, base.outside_ns) = (think, ns);
        }
        base.spin_limit = self.spin_limit.or(base.spin_limit);
        base
    }
}

/// The command.
pub(crate) fn run(args: &Locks) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    let mut base = NativeExperiment::plain();
    if args.kernel.is_some() {
        // A virtual machine repeats, and its time is dear.
        (base.rounds, base.window_ms, base.cpus) = (1, 20, None);
    }
    let mut experiment = args.plan.over(base);
    if args.kernel.is_none() {
        if !args.sets.is_empty() {
            let text = "--set changes a preset, and this machine is none; name one with --kernel";
            return Err(Failure::usage(text));
        }
        experiment.cpus = args.plan.cpus.or(experiment.cpus);
    }
    experiment.check().map_err(Failure::usage)?;
    let record = match &args.kernel {
        Some(kernel) => simulated(args, kernel, &experiment)?,
        None => measured(args, &experiment)?,
    };
    let done = record.runs.len();
    if done == 0 {
        return Err(Failure::interrupted(0));
    }
    output::print(
        &args.common,
        || native_text(&record),
        || native_json(&record),
        || native_csv(&record),
    )?;
    let body = serde_json::to_value(&record).map_err(Failure::environment)?;
    args.store.keep(&args.common, "native", Some(experiment.seed), body);
    if done < experiment.runs() {
        return Err(Failure::interrupted(done));
    }
    Ok(ExitCode::SUCCESS)
}

/// The loops on this machine, one after the other.
fn measured(args: &Locks, experiment: &NativeExperiment) -> Result<NativeRecord, Failure> {
    let interrupts = Interrupts::catch();
    let bar = output::progress(&args.common, experiment.runs() as u64);
    let record = native::run(experiment, &mut |at, what| {
        bar.set_position(at as u64);
        bar.set_message(what.to_owned());
        if interrupts.pending() { Next::Stop } else { Next::Continue }
    });
    bar.finish_and_clear();
    record.map_err(Failure::environment)
}

/// The loops on a virtual machine, side by side.
fn simulated(
    args: &Locks,
    kernel: &str,
    experiment: &NativeExperiment,
) -> Result<NativeRecord, Failure> {
    let kernel = args.sets.kernel(kernel)?;
    let machine = args.sets.machine(&args.machine, args.plan.cpus.map(|cpus| cpus as usize))?;
    let cells = virtual_locks::cells(experiment, &kernel, &machine);
    let threads = threads(None)?;
    let numbered = cells.iter().cloned().enumerate().collect();
    let start = |watch: &mut Watch<VirtualLocksPoint>| {
        let run = |cell: &VirtualLocks| Ok(cell.run()?);
        pool::simulate(numbered, threads, run, watch)
    };
    let done = execute(&args.common, "lock loops", cells.len(), start, |_, _| Ok(()))?;
    if let Some(error) = done.failures.first() {
        return Err(Failure::environment(error));
    }
    let record = virtual_locks::record(experiment, &cells, &done.outcomes);
    Ok(NativeRecord { kernel: Some(kernel.source), machine: Some(machine.source), ..record })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_have_a_distribution_and_a_mean() {
        assert_eq!(think("exp:1000"), Ok((Think::Exponential, 1000)));
        assert_eq!(think("fixed:5"), Ok((Think::Fixed, 5)));
        assert_eq!(think("7"), Ok((Think::Fixed, 7)));
        for wrong in ["", "exp", "exp:", "exp:-1", "pareto:3", "exp:1e3"] {
            assert!(think(wrong).is_err(), "{wrong}");
        }
    }
}
