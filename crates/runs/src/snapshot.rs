//! CPU time and switches of a machine so far.

use convoy_kernel::World;
use convoy_machine::{Here, Mode};

/// CPU time and switches at one moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Snapshot {
    pub(crate) now_ns: u64,
    pub(crate) busy_ps: u64,
    /// CPU time of idle CPUs that waiting tasks could have used, picoseconds.
    pub(crate) usable_ps: u64,
    pub(crate) voluntary: u64,
}

/// Returns the busy time of a CPU, in picoseconds.
fn busy_ps(cpu: usize) -> u64 {
    let times = Here::times(cpu);
    times.iter().sum::<u64>() - times[Mode::Idle as usize]
}

impl Snapshot {
    pub(crate) fn take(world: &World, cpus: usize) -> Self {
        Self {
            now_ns: Here::now_ns(),
            // Not computed as the remainder of idle time: a CPU that still idles has not booked its
            // idle time yet.
            busy_ps: (0..cpus).map(busy_ps).sum(),
            usable_ps: world.sched().rq.idle_usable_ps(),
            voluntary: world.sched().rq.stats().voluntary,
        }
    }
}
