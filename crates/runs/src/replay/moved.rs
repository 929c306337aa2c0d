//! Data of critical sections that moves between CPUs: a critical section takes longer if the
//! previous owner ran on another CPU, depending on the distance.

use std::cell::Cell;

use convoy_machine::{Here, Preset};

use super::request::Replay;

/// Minimum share of the work of a critical section that remains without the cache lines of another
/// CPU.
const LEAST: f64 = 0.2;

/// The CPU of the last owner of each lock. It costs nothing on the virtual machine.
pub(super) struct Owners(Vec<Vec<Cell<Option<u32>>>>);

impl Owners {
    /// Returns the state for the given number of locks of each name.
    pub(super) fn new(counts: impl Iterator<Item = usize>) -> Self {
        Self(counts.map(|count| (0..count).map(|_| Cell::new(None)).collect()).collect())
    }

    /// Sets the calling CPU as the last owner. Returns the previous one.
    fn replace(&self, lock: usize, at: usize, cpu: u32) -> Option<u32> {
        self.0[lock][at].replace(Some(cpu))
    }
}

/// Returns the price of a cache line that moves from one CPU to another, nanoseconds.
fn transfer_ns(machine: &Preset, from: usize, to: usize) -> f64 {
    let (topology, prices) = (&machine.topology, &machine.price_ns);
    let same = |size: usize| from / size.max(1) == to / size.max(1);
    match () {
        () if same(topology.threads_per_core) => 0.0,
        () if same(topology.cpus_per_llc) => prices.llc,
        () if same(topology.cpus_per_package) => prices.package,
        () => prices.remote,
    }
}

impl Replay {
    /// Returns the work of the critical section that begins, relative to the recorded mean,
    /// nanoseconds; negative if it is less. Also records the calling CPU as the last owner.
    pub(super) fn moves(&self, owners: &Owners, lock: usize, at: usize) -> f64 {
        let Some(moved) = self.behaviour.moved.get(lock).filter(|one| one.extra_ns > 0.0) else {
            return 0.0;
        };
        let cpu = Here::cpu();
        let last = owners.replace(lock, at, cpu as u32);
        let far = last.map_or(0.0, |last| transfer_ns(&self.machine, last as usize, cpu));
        moved.extra_ns * (far / self.behaviour.transfer_ns.max(1.0) - moved.share)
    }
}

/// Returns the work of a critical section plus a positive or negative addition.
pub(super) fn with(work_ns: f64, more_ns: f64) -> f64 {
    (work_ns + more_ns).max(LEAST * work_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_costs_by_how_far_it_comes() {
        let mut machine = Preset::named("epyc-7r13-2x48").expect("shipped");
        let prices = machine.price_ns.clone();
        let of = |machine: &Preset, to| transfer_ns(machine, 0, to);
        let threads = machine.topology.threads_per_core;
        assert!(of(&machine, 0).abs() < 1e-9);
        assert!((of(&machine, threads) - prices.llc).abs() < 1e-9);
        let (llc, package) = (machine.topology.cpus_per_llc, machine.topology.cpus_per_package);
        assert!((of(&machine, llc) - prices.package).abs() < 1e-9);
        assert!((of(&machine, package) - prices.remote).abs() < 1e-9);
        machine.topology.threads_per_core = 1;
        assert!((of(&machine, 1) - prices.llc).abs() < 1e-9);
    }

    #[test]
    fn a_section_keeps_a_part_of_its_work() {
        assert!((with(100.0, 50.0) - 150.0).abs() < 1e-9);
        assert!((with(100.0, -500.0) - 20.0).abs() < 1e-9);
    }
}
