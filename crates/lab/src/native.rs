//! The native lock experiment: the policies of a lock on this machine's threads.
//!
//! Each thread loops: work outside, take the lock, work inside, release it. Both kinds of work are
//! dependent chains of multiplications of a calibrated length, so that time spent preempted does
//! not count as work done; the chain inside continues from a word that all threads share. The
//! policies of a cell run one after the other, in drawn order, in every round: a ratio is taken
//! inside a round, where both sides saw the same machine.
//!
//! The loop itself is [`lock_loop`](crate::lock_loop), whose source also runs on the virtual
//! kernel.
//!
//! What the numbers mean, and what they do not:
//!
//! - A wait runs from before `down` to after it, its beginning in the warm-up included. The wait of
//!   a thread that still waits when the window ends counts as if it ended there; without those, a
//!   lock that starves would look fast.
//! - The clock read that ends a wait happens with the semaphore held, so it is part of the section
//!   and the calibration takes it out of the chain.
//! - Context switches and CPU time are those of the whole process.
//! - Other programs on the machine take CPUs from whoever wants them all, so they make a policy
//!   that keeps the CPUs busy look worse against one that lets them idle. `cpus_used` shows it.

mod cell;
mod once;
mod work;

use convoy_catalogue::Source;
use convoy_stats::Sample;
use convoy_sync::{AdaptiveLock, Native, Promise, with_lock};
use serde::{Deserialize, Serialize};

use crate::lock_loop::by_name;
pub use crate::lock_loop::{Policy, Think};
use cell::{CellError, Plan, Tally};
use convoy_workload::draw::{Lcg, shuffle};
use convoy_workload::user::Next;
pub use once::{Loop, once};
use work::Calibration;

/// Version of [`NativeRecord`]; fields are only ever added.
const SCHEMA: u32 = 1;

/// What the `kind` of these experiments says in records.
pub const KIND: &str = "native-locks";

/// Most threads of a cell: half of the default limit of process ids of Linux.
const THREADS_MAX: u32 = 16_384;

/// Longest section and outside work, in nanoseconds.
const WORK_NS_MAX: u32 = 1_000_000;

/// Longest warm-up and window, in milliseconds.
const PHASE_MS_MAX: u32 = 60_000;

/// Lock loops on this machine, as `convoy locks` runs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeExperiment {
    /// [`KIND`].
    pub kind: String,
    /// Name in titles and records.
    pub name: String,
    /// The policies; ratios have the first as their baseline.
    #[serde(with = "by_name::list")]
    pub policies: Vec<Policy>,
    /// CPUs that the threads may use, the first of those that the program may use; all of them by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Lengths of the section under the semaphore, in nanoseconds.
    pub section_ns: Vec<u32>,
    /// Work between two sections, in nanoseconds: the mean.
    pub outside_ns: u32,
    /// How that work varies.
    #[serde(default)]
    pub think: Think,
    /// Looks of a lock that spins before it sleeps, instead of its own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_limit: Option<u32>,
    /// Time between the start of the threads and the window, in milliseconds.
    pub warmup_ms: u32,
    /// Time in which acquisitions count, in milliseconds.
    pub window_ms: u32,
    /// How often everything is repeated.
    pub rounds: u32,
    /// Seed of the order; the command line may replace it.
    pub seed: u64,
}

/// Why the experiment gives no result.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// A field has a value that makes no sense.
    #[error("{field} is {value}; it must be {rule}")]
    Range {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        rule: String,
    },
    /// The system refused a thread.
    #[error(
        "only {started} of {wanted} threads could start ({source}); raise `ulimit -u` or \
         lower `threads`"
    )]
    Threads {
        /// Threads running when it refused.
        started: u32,
        /// Threads asked for.
        wanted: u32,
        /// Its reason.
        source: std::io::Error,
    },
    /// Threads never came back from the lock: a wake-up was lost, or so many spin that it takes
    /// too long.
    #[error(
        "{policy}: {missing} of {threads} threads did not leave the lock in time; a wake-up was \
         lost, or the lock has collapsed"
    )]
    Stuck {
        /// The policy.
        policy: Policy,
        /// Threads that were started.
        threads: u32,
        /// Threads that did not end.
        missing: u32,
    },
    /// The threads cannot be kept to some CPUs.
    #[error(transparent)]
    Cpus(convoy_host::clock::CpusError),
}

impl NativeExperiment {
    /// What is run without flags: two threads in sections of 100 ns, 1 µs apart on average.
    pub fn plain() -> Self {
        Self {
            kind: KIND.to_owned(),
            name: "locks".to_owned(),
            policies: vec![
                Policy::Handoff,
                Policy::Opportunistic,
                Policy::Mutex,
                Policy::Adaptive,
                Policy::TestAndSet,
                Policy::Ticket,
            ],
            cpus: None,
            threads: vec![2],
            section_ns: vec![100],
            outside_ns: 1000,
            think: Think::Fixed,
            spin_limit: None,
            warmup_ms: 50,
            window_ms: 100,
            rounds: 3,
            seed: 1,
        }
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// [`NativeError::Range`].
    pub fn check(&self) -> Result<(), NativeError> {
        let fail = |field, value: String, rule: &str| {
            Err(NativeError::Range { field, value, rule: rule.to_owned() })
        };
        if self.kind != KIND {
            return fail("kind", format!("{:?}", self.kind), &format!("{KIND:?}"));
        }
        let mut seen = self.policies.clone();
        seen.sort();
        seen.dedup();
        if seen.is_empty() || seen.len() != self.policies.len() {
            return fail("policies", format!("{:?}", self.policies), "a list without repetition");
        }
        within("threads", &self.threads, 1, THREADS_MAX)?;
        within("section_ns", &self.section_ns, 1, WORK_NS_MAX)?;
        if let Some(cpus) = self.cpus {
            within("cpus", &[cpus], 1, convoy_host::clock::cpus())?;
        }
        within("outside_ns", &[self.outside_ns], 0, WORK_NS_MAX)?;
        within("warmup_ms", &[self.warmup_ms], 0, PHASE_MS_MAX)?;
        within("window_ms", &[self.window_ms], 1, PHASE_MS_MAX)?;
        within("rounds", &[self.rounds], 1, 1_000)?;
        let spins = |lock: &Policy| lock.promises_to(Promise::SpinLimit);
        match self.spin_limit {
            Some(limit) if !self.policies.iter().any(spins) => fail(
                "spin_limit",
                limit.to_string(),
                "left away: no lock here spins for a while and then sleeps; adaptive does",
            ),
            _ => Ok(()),
        }
    }

    /// How many cells [`run`] measures.
    pub fn runs(&self) -> usize {
        self.policies.len() * self.threads.len() * self.section_ns.len() * self.rounds as usize
    }

    /// Every cell of one round, in the drawn order; the policies of a pair stay neighbours.
    fn round(&self, random: &mut Lcg) -> Vec<(u32, u32, Policy)> {
        let mut pairs: Vec<(u32, u32)> = self
            .section_ns
            .iter()
            .flat_map(|section| self.threads.iter().map(|threads| (*section, *threads)))
            .collect();
        shuffle(random, &mut pairs);
        let mut cells = Vec::new();
        for (section_ns, threads) in pairs {
            let mut policies = self.policies.clone();
            shuffle(random, &mut policies);
            cells.extend(policies.into_iter().map(|policy| (section_ns, threads, policy)));
        }
        cells
    }
}

fn within(field: &'static str, values: &[u32], low: u32, high: u32) -> Result<(), NativeError> {
    let bad = values.iter().find(|value| !(low..=high).contains(*value));
    let value = match bad {
        Some(value) => value.to_string(),
        None if values.is_empty() => "empty".to_owned(),
        None => return Ok(()),
    };
    Err(NativeError::Range { field, value, rule: format!("{low} to {high}") })
}

/// One policy at one number of threads and one section, measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeRun {
    /// Round, from 0.
    pub round: u32,
    /// Place in the order of the whole experiment, from 0.
    pub order: u32,
    /// Length of the section, in nanoseconds.
    pub section_ns: u32,
    /// Threads.
    pub threads: u32,
    /// The lock.
    #[serde(with = "by_name")]
    pub policy: Policy,
    /// Length of the window as it was, in seconds.
    pub window_s: f64,
    /// CPUs this process used, on average over the window.
    pub cpus_used: f64,
    /// CPUs that others used meanwhile, a hypervisor included: from the ticks of the machine, less
    /// this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpus: Option<f64>,
    /// Sections completed per second.
    pub acquisitions_per_s: f64,
    /// Voluntary context switches of the process per second.
    pub voluntary_switches_per_s: f64,
    /// Involuntary context switches of the process per second; `None` on a virtual machine.
    pub involuntary_switches_per_s: Option<f64>,
    /// Jain's index of the threads' acquisitions; `None` if there were none at all.
    pub jain: Option<f64>,
    /// Threads without an acquisition in the window.
    pub starved_threads: u32,
    /// Threads that waited when the window ended.
    pub waiting_threads: u32,
    /// Median wait, in microseconds.
    pub wait_p50_us: f64,
    /// 99th percentile of the waits, in microseconds.
    pub wait_p99_us: f64,
    /// Longest wait, in microseconds.
    pub wait_max_us: f64,
    /// From the end of the window until all threads had left, in milliseconds.
    pub drain_ms: f64,
}

/// Median and range over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`; `None` if there are none, or one is not finite.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sample = Sample::new(values.into_iter().collect::<Vec<_>>()).ok()?;
        Some(Self { median: sample.median(), min: sample.min(), max: sample.max() })
    }
}

/// All rounds of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeCell {
    /// Length of the section, in nanoseconds.
    pub section_ns: u32,
    /// Threads.
    pub threads: u32,
    /// The lock.
    #[serde(with = "by_name")]
    pub policy: Policy,
    /// Sections completed per second.
    pub acquisitions_per_s: Spread,
    /// This policy's acquisitions over the baseline's, taken inside each round; `None` for the
    /// baseline itself.
    pub ratio: Option<Spread>,
    /// CPUs this process used, on average over the window.
    pub cpus_used: Spread,
    /// CPUs that others used meanwhile; `None` if the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpus: Option<Spread>,
    /// Voluntary context switches of the process per second.
    pub voluntary_switches_per_s: Spread,
    /// Jain's index; `None` if a round had no acquisition.
    pub jain: Option<Spread>,
    /// Threads without an acquisition in the window.
    pub starved_threads: Spread,
    /// Threads that waited when the window ended.
    pub waiting_threads: Spread,
    /// Median wait, in microseconds.
    pub wait_p50_us: Spread,
    /// 99th percentile of the waits, in microseconds.
    pub wait_p99_us: Spread,
    /// Longest wait, in microseconds.
    pub wait_max_us: Spread,
}

/// What `convoy locks` measured for an experiment of this kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeRecord {
    /// Version of this format, 1.
    pub schema: u32,
    /// The experiment, as run.
    pub experiment: NativeExperiment,
    /// The kernel and the virtual machine; `None` for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Where that kernel comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Source>,
    /// Where that machine comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Source>,
    /// CPUs this process could use.
    pub cpus: u32,
    /// Nanoseconds of one step of the work chain, as calibrated.
    pub step_ns: f64,
    /// Nanoseconds of one look at the clock, as calibrated.
    pub clock_ns: f64,
    /// One entry per cell, in the order of the experiment file.
    pub cells: Vec<NativeCell>,
    /// One entry per measurement, in the order measured.
    pub runs: Vec<NativeRun>,
}

/// Runs the experiment. `progress` hears of each run before it starts, its place and what it is,
/// and may stop there: the record then has the runs before it.
///
/// # Errors
/// [`NativeError::Threads`] and [`NativeError::Stuck`].
pub fn run(
    experiment: &NativeExperiment,
    progress: &mut dyn FnMut(usize, &str) -> Next,
) -> Result<NativeRecord, NativeError> {
    experiment.check()?;
    let calibration = Calibration::measure();
    let mut random = Lcg::for_user(experiment.seed, 0);
    let mut runs = Vec::new();
    'rounds: for round in 0..experiment.rounds {
        for (section_ns, threads, policy) in experiment.round(&mut random) {
            let what = format!("{policy}, {threads} threads, {section_ns} ns");
            if progress(runs.len(), &what) == Next::Stop {
                break 'rounds;
            }
            let run = calibration.run(&Loop {
                policy,
                cpus: experiment.cpus,
                threads,
                section_ns,
                outside_ns: experiment.outside_ns,
                think: experiment.think,
                spin_limit: experiment.spin_limit,
                seed: experiment.seed,
                warmup_ms: experiment.warmup_ms,
                window_ms: experiment.window_ms,
            })?;
            runs.push(NativeRun { round, order: runs.len() as u32, ..run });
        }
    }
    let Calibration { step_ns, clock_ns } = calibration;
    let cpus = convoy_host::clock::cpus();
    Ok(NativeRecord::new(experiment, None, cpus, (step_ns, clock_ns), runs))
}

impl NativeRecord {
    /// The record of `runs` at `place`, with nanoseconds of a step and of a look at the clock.
    pub(crate) fn new(
        experiment: &NativeExperiment,
        place: Option<String>,
        cpus: u32,
        (step_ns, clock_ns): (f64, f64),
        runs: Vec<NativeRun>,
    ) -> Self {
        let cells = summarise(experiment, &runs);
        let experiment = experiment.clone();
        let (kernel, machine) = (None, None);
        let schema = SCHEMA;
        Self { schema, experiment, place, kernel, machine, cpus, step_ns, clock_ns, cells, runs }
    }
}

fn measure(policy: Policy, plan: &Plan) -> Result<Tally, NativeError> {
    // User space cannot forbid preemption, so the inner locks may sleep.
    let result = with_lock!(policy, Native, AdaptiveLock<Native>, T => cell::run::<T>(plan));
    result.map_err(|error| match error {
        CellError::Threads { started, source } => {
            NativeError::Threads { started, wanted: plan.threads, source }
        }
        CellError::Stuck { missing } => {
            NativeError::Stuck { policy, threads: plan.threads, missing }
        }
        CellError::Cpus(error) => NativeError::Cpus(error),
    })
}

/// The cells in the order of the experiment file.
fn summarise(experiment: &NativeExperiment, runs: &[NativeRun]) -> Vec<NativeCell> {
    let mut cells = Vec::new();
    for section_ns in &experiment.section_ns {
        for threads in &experiment.threads {
            let of = |policy: Policy| -> Vec<&NativeRun> {
                let mut own: Vec<&NativeRun> = runs
                    .iter()
                    .filter(|run| {
                        (run.section_ns, run.threads, run.policy) == (*section_ns, *threads, policy)
                    })
                    .collect();
                own.sort_by_key(|run| run.round);
                own
            };
            let baseline = of(experiment.policies[0]);
            for policy in &experiment.policies {
                cells.extend(summarise_cell(&of(*policy), &baseline));
            }
        }
    }
    cells
}

/// One cell; `None` without runs.
fn summarise_cell(runs: &[&NativeRun], baseline: &[&NativeRun]) -> Option<NativeCell> {
    let first = runs.first()?;
    let over = |pick: fn(&NativeRun) -> f64| Spread::of(runs.iter().map(|run| pick(run)));
    let ratios = runs
        .iter()
        .zip(baseline)
        .map(|(run, base)| run.acquisitions_per_s / base.acquisitions_per_s);
    let own_baseline = baseline.first().is_some_and(|base| base.policy == first.policy);
    Some(NativeCell {
        section_ns: first.section_ns,
        threads: first.threads,
        policy: first.policy,
        acquisitions_per_s: over(|run| run.acquisitions_per_s)?,
        ratio: if own_baseline { None } else { Spread::of(ratios) },
        cpus_used: over(|run| run.cpus_used)?,
        others_cpus: over(|run| run.others_cpus.unwrap_or(f64::NAN)),
        voluntary_switches_per_s: over(|run| run.voluntary_switches_per_s)?,
        jain: over(|run| run.jain.unwrap_or(f64::NAN)),
        starved_threads: over(|run| f64::from(run.starved_threads))?,
        waiting_threads: over(|run| f64::from(run.waiting_threads))?,
        wait_p50_us: over(|run| run.wait_p50_us)?,
        wait_p99_us: over(|run| run.wait_p99_us)?,
        wait_max_us: over(|run| run.wait_max_us)?,
    })
}

#[cfg(test)]
mod tests;
