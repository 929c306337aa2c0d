//! Summary of the account of a run, in seconds and names.

use crate::analysis::{Analysis, Idle};
use crate::chain::{Hop, Via};
use crate::cpu::State;
use crate::locks::Class;
use crate::stall::{Stall, Why};
use convoy_stats::LogHistogram;
use serde::Serialize;

/// Maximum number of tasks that a convoy names among those that ran instead.
const NAMED: usize = 3;

/// The account of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Length of the measured part, in seconds of virtual time.
    pub window_s: f64,
    /// Number of CPUs.
    pub cpus: usize,
    /// CPU time by state, seconds of all CPUs.
    pub states: Vec<Share>,
    /// Idle time by cause, seconds of all CPUs.
    pub idle: Vec<Share>,
    /// Spinning time by lock, seconds of all CPUs, in descending order.
    pub spinning: Vec<Share>,
    /// Locks, in descending order of wait time.
    pub locks: Vec<LockSummary>,
    /// Stalls and convoys.
    pub stalls: StallSummary,
    /// The longest convoy.
    pub longest: Option<Convoy>,
    /// The longest chain of wakeups.
    pub chain: ChainSummary,
    /// Number of context switches.
    pub switches: u64,
    /// Number of records that the machine delivered.
    pub records: u64,
}

/// A part of a sum.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    /// The quantity.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
}

/// Percentiles of a distribution, microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Half of the values are below.
    pub p50_us: Option<f64>,
    /// 99 of 100 values are below.
    pub p99_us: Option<f64>,
    /// The largest value.
    pub max_us: Option<f64>,
}

impl Spread {
    fn new(histogram: &LogHistogram) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self {
            count: histogram.count(),
            p50_us: histogram.percentile(50.0).map(us),
            p99_us: histogram.percentile(99.0).map(us),
            max_us: histogram.max().map(us),
        }
    }
}

/// The locks of one name.
#[derive(Clone, Debug, Serialize)]
pub struct LockSummary {
    /// Name.
    pub name: String,
    /// Number of locks of that name.
    pub instances: u64,
    /// Number of acquisitions.
    pub acquisitions: u64,
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// Hand-offs: ownerships passed to a waiter.
    pub handoffs: u64,
    /// Acquisitions that overtook waiters.
    pub stolen: u64,
    /// Waits that a signal or a deadline ended.
    pub given_up: u64,
    /// Acquisitions by a task other than the last owner.
    pub owner_changes: u64,
    /// Number of times that the lock's cache line was fetched from elsewhere.
    pub transfers: u64,
    /// Largest number of waiters at the same time.
    pub waiters_max: u32,
    /// Time with an owner, in seconds over all locks of the name.
    pub owned_s: f64,
    /// Part of this time, in seconds, in which the owner was on no CPU.
    pub owner_not_running_s: f64,
    /// Time in convoys of these locks, in seconds.
    pub convoy_s: f64,
    /// Time with a waiter, in seconds.
    pub wanted_s: f64,
    /// Sum of all waits, in seconds.
    pub wait_s: f64,
    /// CPU time spent spinning, in seconds.
    pub spin_s: f64,
    /// From the owner's first step with the lock to its release.
    pub hold: Spread,
    /// From queueing to ownership.
    pub wait: Spread,
    /// From a release with waiters to the next owner running.
    pub handoff: Spread,
}

/// Intervals in which a lock was wanted and its owner was on no CPU.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StallSummary {
    /// Number of intervals.
    pub count: u64,
    /// Total time in seconds.
    pub time_s: f64,
    /// Number of intervals in which a CPU idled.
    pub convoys: u64,
    /// Total time of these intervals, in seconds.
    pub convoy_s: f64,
    /// Idle time of all CPUs in these intervals, in seconds.
    pub idle_cpu_s: f64,
}

/// Reason why an owner was not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It received the lock while it slept.
    GivenWhileAsleep,
    /// It was preempted.
    Preempted,
    /// It slept while it owned the lock.
    SleptWithLock,
}

/// One convoy.
#[derive(Clone, Debug, Serialize)]
pub struct Convoy {
    /// The lock.
    pub lock: String,
    /// Start, in seconds since the beginning of the measurement.
    pub from_s: f64,
    /// End, in seconds since the beginning of the measurement.
    pub to_s: f64,
    /// Its owner.
    pub owner: String,
    /// Its job and system call.
    pub doing: String,
    /// Reason why it was on no CPU.
    pub cause: Cause,
    /// The task that handed off the lock to it, if any.
    pub giver: Option<String>,
    /// When it was woken or put on a run queue, in milliseconds into the convoy, and on which CPU.
    pub queued: Option<(f64, usize)>,
    /// CPU on which it finally ran.
    pub ran_on: usize,
    /// Tasks that ran on the CPU that it waited for: task, job, milliseconds.
    pub instead: Vec<(String, &'static str, f64)>,
    /// Number of tasks that ran there, including those not named.
    pub instead_tasks: usize,
    /// Number of waiters at the start.
    pub waiters: u32,
    /// Largest number of waiters.
    pub waiters_max: u32,
    /// Idle time of each CPU, milliseconds.
    pub idle_ms: Vec<f64>,
    /// The wakeups that led to its end, in chronological order.
    pub chain: Vec<HopSummary>,
}

impl Convoy {
    /// Returns the length in milliseconds.
    pub fn ms(&self) -> f64 {
        (self.to_s - self.from_s) * 1e3
    }
}

/// One wakeup.
#[derive(Clone, Debug, Serialize)]
pub struct HopSummary {
    /// Time in seconds since the beginning of the measurement.
    pub at_s: f64,
    /// The waker.
    pub from: String,
    /// The woken task.
    pub to: String,
    /// The lock, or the system call, that the woken task waited for.
    pub waited_for: String,
    /// Whether it waited for a lock.
    pub lock: bool,
}

/// The longest chain.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChainSummary {
    /// Time by kind, in seconds.
    pub shares: Vec<Share>,
    /// Number of wakeups along it.
    pub hops: u64,
    /// Number of these wakeups for a lock.
    pub lock_hops: u64,
    /// The last wakeups.
    pub last: Vec<HopSummary>,
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

impl Analysis {
    /// Returns the summary of the account.
    pub fn summary(&self) -> Summary {
        let to = self.to.unwrap_or(self.now);
        let of = |state: State| self.cpus.iter().map(|cpu| cpu.times[state as usize]).sum();
        let states = State::ALL.map(|state| share(state.name(), of(state)));
        let idle = Idle::ALL.map(|cause| share(cause.name(), self.idle[cause as usize]));
        let classes = &self.locks.classes;
        let mut spinning: Vec<Share> = classes
            .iter()
            .filter(|class| class.spin > 0)
            .map(|class| share(&class.name, class.spin))
            .collect();
        let known: f64 = spinning.iter().map(|share| share.seconds).sum();
        let unknown = seconds(of(State::Spin)) - known;
        if unknown > 1e-9 {
            let name = "polled without a queue".to_owned();
            spinning.push(Share { name, seconds: unknown });
        }
        spinning.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let mut locks: Vec<LockSummary> =
            classes.iter().filter(|class| class.acquisitions > 0).map(lock).collect();
        locks.sort_by(|a, b| {
            b.wait_s.total_cmp(&a.wait_s).then(b.acquisitions.cmp(&a.acquisitions))
        });
        Summary {
            window_s: seconds(to.saturating_sub(self.from)),
            cpus: self.cpus.len(),
            states: states.into(),
            idle: idle.into(),
            spinning,
            locks,
            stalls: StallSummary {
                count: self.stalls.count,
                time_s: seconds(self.stalls.time),
                convoys: self.stalls.convoys,
                convoy_s: seconds(self.stalls.convoy_time),
                idle_cpu_s: seconds(self.stalls.idled),
            },
            longest: self.stalls.longest.as_ref().map(|stall| self.convoy(stall)),
            chain: self.chain(),
            switches: self.switches,
            records: self.records,
        }
    }

    fn chain(&self) -> ChainSummary {
        let path = &self.end_path;
        let parts = &path.shares;
        let shares = [
            ("user mode", parts.user),
            ("kernel", parts.system),
            ("spinning", parts.spin),
            ("waiting for a CPU with a lock that others wanted", parts.queued_owner),
            ("waiting for a CPU otherwise", parts.queued),
            ("asleep until a timer", parts.slept),
        ];
        ChainSummary {
            shares: shares.map(|(name, ps)| share(name, ps)).into(),
            hops: path.hops,
            lock_hops: path.lock_hops,
            last: path.last().iter().map(|hop| self.hop(hop)).collect(),
        }
    }

    fn hop(&self, hop: &Hop) -> HopSummary {
        let (waited_for, lock) = match hop.via {
            Via::Lock(class) => (self.locks.classes[class as usize].name.clone(), true),
            Via::Call(call) => (call.to_owned(), false),
        };
        HopSummary {
            at_s: seconds(hop.at.saturating_sub(self.from)),
            from: hop.from.to_string(),
            to: hop.to.to_string(),
            waited_for,
            lock,
        }
    }

    fn convoy(&self, stall: &Stall) -> Convoy {
        let ms = |ps: u64| ps as f64 / 1e9;
        let mut ran = stall.ran.clone();
        ran.retain(|(label, _, _)| label.kind != "idle");
        ran.sort_by_key(|(label, _, span)| (core::cmp::Reverse(*span), *label));
        let instead = ran.iter().take(NAMED);
        let call = stall.call.map(|call| format!("in {call}"));
        let job = Some(stall.job).filter(|job| !job.is_empty()).map(str::to_owned);
        Convoy {
            lock: self.locks.classes[stall.class as usize].name.clone(),
            from_s: seconds(stall.from.saturating_sub(self.from)),
            to_s: seconds(stall.to.saturating_sub(self.from)),
            owner: stall.label.to_string(),
            doing: [job, call].into_iter().flatten().collect::<Vec<_>>().join(", "),
            cause: match stall.why {
                Why::Given => Cause::GivenWhileAsleep,
                Why::Preempted => Cause::Preempted,
                Why::Slept | Why::Nested => Cause::SleptWithLock,
            },
            giver: (stall.why == Why::Given).then(|| stall.giver.to_string()),
            queued: stall.woken.map(|(at, cpu)| (ms(at.saturating_sub(stall.from)), cpu)),
            ran_on: stall.ended_on,
            instead: instead.map(|(who, job, ps)| (who.to_string(), *job, ms(*ps))).collect(),
            instead_tasks: ran.len(),
            waiters: stall.waiters,
            waiters_max: stall.waiters_max,
            idle_ms: stall.idle.iter().map(|&ps| ms(ps)).collect(),
            chain: stall.chain.iter().map(|hop| self.hop(hop)).collect(),
        }
    }

    /// Returns the stacks of blocked, spinning and queued time, see [`crate::folded`].
    pub fn stacks(&self) -> Vec<(Vec<String>, u64)> {
        self.flame.stacks(&self.locks.classes)
    }
}

fn share(name: &str, ps: u64) -> Share {
    Share { name: name.to_owned(), seconds: seconds(ps) }
}

fn lock(class: &Class) -> LockSummary {
    LockSummary {
        name: class.name.clone(),
        instances: class.instances,
        acquisitions: class.acquisitions,
        contended: class.contended,
        handoffs: class.handoffs,
        stolen: class.stolen,
        given_up: class.given_up,
        owner_changes: class.owner_changes,
        transfers: class.transfers,
        waiters_max: class.waiters_max,
        owned_s: seconds(class.owned),
        owner_not_running_s: seconds(class.owner_off),
        convoy_s: seconds(class.convoy),
        wanted_s: seconds(class.wanted),
        wait_s: seconds(class.wait_sum),
        spin_s: seconds(class.spin),
        hold: Spread::new(&class.hold),
        wait: Spread::new(&class.wait),
        handoff: Spread::new(&class.handoff),
    }
}
