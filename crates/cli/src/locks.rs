//! `convoy locks`: locks in a loop, on this machine or a virtual one.

use crate::args::Common;
use crate::experiment::carry_out;
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use convoy_catalogue::{EXPERIMENTS, Sheet};
use convoy_lab::experiment::{Changes, Experiment, Plan, Setting, given};
use convoy_lab::lock_loop::{Policy, Promise, Think};
use std::process::ExitCode;

/// The experiment that the flags change.
const NAME: &str = "locks";

/// `convoy locks`.
#[derive(Debug, Args)]
pub(crate) struct Locks {
    /// What the threads do.
    #[command(flatten)]
    loops: Loops,
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
struct Loops {
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
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

/// The command.
pub(crate) fn run(args: &Locks) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    let plan = args.plan()?;
    let kept = ("locks", args.loops.seed.unwrap_or(1), &args.store);
    carry_out(&plan, &args.common, None, kept, None)
}

impl Locks {
    /// The cells of the experiment [`NAME`], with what the flags say.
    fn plan(&self) -> Result<Plan, Failure> {
        let sheet = Sheet::open(&EXPERIMENTS, NAME, None).map_err(Failure::usage)?;
        let mut experiment = sheet.read::<Experiment>(&[]).map_err(Failure::usage)?;
        let compared = experiment.value.grid.iter_mut().filter_map(|grid| grid.compare.as_mut());
        if let Some([first, ..]) = self.loops.lock.as_deref() {
            compared.for_each(|compare| compare.baseline = first.to_string());
        }
        self.fits()?;
        Plan::new(&experiment, &self.changes()).map_err(Failure::usage)
    }

    /// A flag that would change nothing is refused.
    fn fits(&self) -> Result<(), Failure> {
        if self.kernel.is_none() && !self.sets.is_empty() {
            let text = "--set changes a preset, and this machine is none; name one with --kernel";
            return Err(Failure::usage(text));
        }
        let spins = |lock: &Policy| lock.promises_to(Promise::SpinLimit);
        let locks = self.loops.lock.as_deref();
        match self.loops.spin_limit {
            Some(limit) if locks.is_some_and(|locks| !locks.iter().any(spins)) => {
                Err(Failure::usage(format!(
                    "--spin-limit {limit}: no lock here spins for a while and then sleeps; \
                     adaptive does"
                )))
            }
            _ => Ok(()),
        }
    }

    fn changes(&self) -> Changes {
        let flags = &self.loops;
        let here = self.kernel.is_none();
        // A virtual machine repeats, and its time is dear.
        let default = |virtual_one: u32| (!here).then_some(virtual_one);
        let whole = |value: u32| Setting::Whole(i64::from(value));
        let text = |name: &String| Setting::Text(given(name));
        let think = |(think, _): (Think, u32)| Setting::Text(think.name().to_owned());
        let settings = [
            (if here { "kept_to" } else { "cpus" }, flags.cpus.map(whole)),
            ("outside_ns", flags.think.map(|(_, ns)| whole(ns))),
            ("think", flags.think.map(think)),
            ("spin_limit", flags.spin_limit.map(whole)),
            ("warmup_ms", flags.warmup_ms.map(whole)),
            ("window_ms", flags.window_ms.or(default(20)).map(whole)),
            ("kernel", self.kernel.as_ref().map(text)),
            ("machine", self.kernel.as_ref().map(|_| text(&self.machine))),
        ];
        let points = [
            ("lock", flags.lock.as_deref().map(words)),
            ("threads", flags.threads.as_deref().map(words)),
            ("section_ns", flags.section_ns.as_deref().map(words)),
        ];
        let settings = settings.into_iter().filter_map(|(key, value)| Some((key.into(), value?)));
        let points = points.into_iter().filter_map(|(key, list)| Some((key.into(), list?)));
        let mut changes = Changes {
            settings: settings.collect(),
            points: points.collect(),
            seeds: flags.rounds.or(default(1)),
            seed: flags.seed.unwrap_or(1),
            ..Changes::default()
        };
        self.sets.iter().for_each(|set| changes.set(set));
        changes
    }
}

fn words<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
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
