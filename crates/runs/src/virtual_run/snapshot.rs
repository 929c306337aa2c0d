//! The counters of a machine at one moment.

use convoy_kernel::sched::{IdleTimes, SchedStats};
use convoy_kernel::{BKL, Rcu, RcuStats, World};
use convoy_machine::{CpuTimes, Here, Watch};

/// Counters of the machine at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) now_ns: u64,
    pub(super) modes: [u64; 5],
    pub(super) sched: SchedStats,
    pub(super) idle: IdleTimes,
    pub(super) usable_ps: u64,
    pub(super) spun_beside_ps: u64,
    pub(super) rcu: RcuStats,
    pub(super) bkl: Option<Watch>,
}

impl Snapshot {
    pub(super) fn take(world: &World, cpus: usize) -> Self {
        Self {
            idle: world.sched().rq.idle_times(),
            usable_ps: world.sched().rq.idle_usable_ps(),
            spun_beside_ps: Here::spun_beside_ps(),
            rcu: world.sched().rcu.as_ref().map(Rcu::stats).unwrap_or_default(),
            ..Self::with(world, cpus, Here::times, Here::watched())
        }
    }

    /// Returns the counters of a sample, with the current mode of each CPU and the current owner of
    /// the lock accounted up to now. Does not update any account.
    pub(super) fn so_far(world: &World, cpus: usize) -> Self {
        Self::with(world, cpus, Here::times_so_far, Here::watched_so_far())
    }

    fn with(world: &World, cpus: usize, times: fn(usize) -> CpuTimes, watched: Vec<Watch>) -> Self {
        let mut modes = [0; 5];
        for cpu in 0..cpus {
            for (sum, time) in modes.iter_mut().zip(times(cpu)) {
                *sum += time;
            }
        }
        Self {
            now_ns: Here::now_ns(),
            modes,
            sched: world.sched().rq.stats(),
            bkl: watched.into_iter().find(|watch| watch.name == BKL),
            ..Self::default()
        }
    }
}
