//! The counters of a machine at one moment.

use convoy_kernel::sched::{IdleTimes, SchedStats};
use convoy_kernel::{BKL, RcuStats, World};
use convoy_machine::{Here, Watch};

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
        let mut modes = [0; 5];
        for cpu in 0..cpus {
            for (sum, time) in modes.iter_mut().zip(Here::times(cpu)) {
                *sum += time;
            }
        }
        Self {
            now_ns: Here::now_ns(),
            modes,
            sched: world.sched().stats(),
            idle: world.sched().idle_times(),
            usable_ps: world.sched().idle_usable_ps(),
            spun_beside_ps: Here::spun_beside_ps(),
            rcu: world.sched().rcu_stats(),
            bkl: Here::watched().into_iter().find(|watch| watch.name == BKL),
        }
    }
}
