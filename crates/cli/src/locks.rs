//! `convoy locks`: locks in a loop, on this machine or a virtual one.

use crate::args::{Common, Numbers, numbers};
use crate::experiment::{Files, Kept, carry_out};
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use convoy_catalogue::{EXPERIMENTS, Sheet};
use convoy_lab::experiment::{Changes, Experiment, Plan, Setting, given};
use convoy_lab::lock_loop::{Measured, Promise, Vary};
use std::path::PathBuf;
use std::process::ExitCode;

/// The experiment that the flags change; its file has the defaults.
const NAME: &str = "locks";

#[derive(Debug, Args)]
pub(crate) struct Locks {
    #[command(flatten)]
    loops: Loops,
    /// Number of spins before a lock sleeps, for locks that spin first
    #[arg(long, help_heading = "Loop", value_name = "N")]
    spin_limit: Option<u32>,
    /// Percentage of the critical sections that only read
    #[arg(long, help_heading = "Loop", value_name = "PERCENT", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=100))]
    readers: Option<u32>,
    /// Number of CPUs: the first ones of this machine, or all of the virtual machine [default: all]
    #[arg(long, help_heading = "Loop", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Kernel preset: run on a virtual machine instead of this one
    #[arg(long, value_name = "PRESET", help_heading = "Virtual machine")]
    kernel: Option<String>,
    /// Machine preset of the virtual machine
    #[arg(long, value_name = "PRESET", default_value = "quad-2008-two-dies")]
    #[arg(requires = "kernel", help_heading = "Virtual machine")]
    machine: String,
    /// Start all threads at the same time and measure from the start, without a warm-up
    #[arg(long, requires = "kernel", help_heading = "Virtual machine", hide_short_help = true)]
    from_start: bool,
    #[command(flatten)]
    sets: Sets,
    /// Draw throughput over threads, FILE.svg
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    common: Common,
}

/// The loop of the threads. Each value of a list has a row.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loop")]
pub(crate) struct Loops {
    /// Locks from `convoy list locks`; the first is the baseline of ratios [default: some of each
    /// kind]
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(Measured::names()).map(lock))]
    lock: Option<Vec<Measured>>,
    /// Numbers of threads [default: 2; bench 2 to 2000]
    #[arg(long, value_name = "LIST", value_parser = numbers(0..=u32::MAX))]
    threads: Option<Numbers>,
    /// Lengths of the critical section, nanoseconds [default: 100; bench 100,1000,10000]
    #[arg(long, value_name = "LIST", value_parser = numbers(0..=u32::MAX))]
    section_ns: Option<Numbers>,
    /// Work between two critical sections, nanoseconds: fixed:NS, or exp:MEAN, drawn from the
    /// exponential distribution [default: fixed:1000]
    #[arg(long, value_name = "TIME", value_parser = think)]
    think: Option<(Vary, u32)>,
    /// Draw the lengths of critical sections from the exponential distribution
    #[arg(long)]
    exp_sections: bool,
    /// Number of rounds, on a virtual machine each with its own seed [default: 3; virtual 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Warm-up time, milliseconds; on a virtual machine the minimum, until throughput and the
    /// number of CPUs in use have stopped drifting [default: 50; bench 150]
    #[arg(long, value_name = "MS", hide_short_help = true)]
    warmup_ms: Option<u32>,
    /// Length of the measurement, milliseconds [default: 100; virtual 20, bench 300]
    #[arg(long, value_name = "MS")]
    window_ms: Option<u32>,
    /// Seed of the order of runs, the draws and the virtual machine [default: 1]
    #[arg(long)]
    seed: Option<u64>,
}

impl Loops {
    /// The changes of the experiment by the flags.
    pub(crate) fn changes(&self) -> Changes {
        let text = |vary: Vary| Setting::Text(vary.name().to_owned());
        let section = self.exp_sections.then_some(Vary::Exponential);
        let settings = [
            ("outside_ns", self.think.map(|(_, ns)| whole(ns))),
            ("think", self.think.map(|(vary, _)| text(vary))),
            ("section", section.map(text)),
            ("warmup_ms", self.warmup_ms.map(whole)),
            ("window_ms", self.window_ms.map(whole)),
        ];
        let points = [
            ("lock", self.lock.as_deref().map(words)),
            ("threads", self.threads.as_ref().map(|list| words(&list.0))),
            ("section_ns", self.section_ns.as_ref().map(|list| words(&list.0))),
        ];
        let settings = settings.into_iter().filter_map(|(key, value)| Some((key.into(), value?)));
        let points = points.into_iter().filter_map(|(key, list)| Some((key.into(), list?)));
        Changes {
            settings: settings.collect(),
            points: points.collect(),
            seeds: self.rounds,
            seed: self.seed(),
            ..Changes::default()
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the parser maps with it")]
fn lock(name: String) -> Measured {
    Measured::named(&name).expect("the parser lets only these through")
}

/// `exp:1000` as a distribution and its mean.
fn think(text: &str) -> Result<(Vary, u32), String> {
    let (kind, ns) = text.split_once(':').unwrap_or(("fixed", text));
    let kind = match kind {
        "fixed" => Some(Vary::Fixed),
        "exp" => Some(Vary::Exponential),
        _ => None,
    };
    let pair = kind.zip(ns.parse().ok());
    pair.ok_or_else(|| "give fixed:NS or exp:NS, such as exp:1000".to_owned())
}

pub(crate) fn run(args: &Locks) -> Result<ExitCode, Failure> {
    output::ready(args.common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), true)?;
    let plan = args.plan()?;
    let kept = Kept { kind: "locks", seed: args.loops.seed(), store: &args.store };
    let files = Files { plot: args.plot.as_deref(), line: None };
    carry_out(&plan, &args.common, None, kept, files)
}

impl Locks {
    /// The cells of the experiment [`NAME`] with the changes of the flags.
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
        let spins = |lock: &Measured| lock.promises_to(Promise::SpinLimit);
        let locks = self.loops.lock.as_deref();
        match self.spin_limit {
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
        let here = self.kernel.is_none();
        let text = |name: &String| Setting::Text(given(name));
        let settings = [
            (if here { "kept_to" } else { "cpus" }, self.cpus.map(whole)),
            ("spin_limit", self.spin_limit.map(whole)),
            ("readers_percent", self.readers.map(whole)),
            ("kernel", self.kernel.as_ref().map(text)),
            ("machine", self.kernel.as_ref().map(|_| text(&self.machine))),
        ];
        let mut changes = self.loops.changes();
        let settings = settings.into_iter().filter_map(|(key, value)| Some((key.into(), value?)));
        changes.settings.extend(settings);
        if !here {
            // A virtual machine repeats, and its time is dear.
            changes.settings.entry("window_ms".to_owned()).or_insert(whole(20));
            changes.seeds = changes.seeds.or(Some(1));
            if self.from_start {
                changes.settings.insert("from_start".to_owned(), Setting::Bool(true));
                changes.settings.entry("warmup_ms".to_owned()).or_insert(whole(0));
            }
        }
        self.sets.iter().for_each(|set| changes.set(set));
        changes
    }
}

fn whole(value: u32) -> Setting {
    Setting::Whole(i64::from(value))
}

pub(crate) fn words<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_have_a_distribution_and_a_mean() {
        assert_eq!(think("exp:1000"), Ok((Vary::Exponential, 1000)));
        assert_eq!(think("fixed:5"), Ok((Vary::Fixed, 5)));
        assert_eq!(think("7"), Ok((Vary::Fixed, 7)));
        for wrong in ["", "exp", "exp:", "exp:-1", "pareto:3", "exp:1e3"] {
            assert!(think(wrong).is_err(), "{wrong}");
        }
    }
}
