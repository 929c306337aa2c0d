//! The time before the window of a replay, and the window.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use convoy_kernel::{Process, World};
use convoy_machine::{Here, User};
use convoy_sync::{Atomic, Platform, Sleep};
use convoy_workload::api::Kernel;

use super::{Field, POLL_NS, Replay};
use crate::lock_loop::PHASE_WINDOW;
use crate::steady::{BATCH_NS, Watch};
use crate::virtual_locks::{Board, Snapshot};

/// Acquisitions that a window should hold, and its length at least, nanoseconds.
const ENOUGH: (f64, f64) = (4000.0, 20e6);
/// The same of a script, whose threads wait for each other.
const ENOUGH_OF_SCRIPT: (f64, f64) = (20_000.0, 100e6);
/// Acquisitions that a batch should hold of those by which a run is judged to have settled.
const ENOUGH_OF_BATCH: f64 = 40.0;
/// Longest such batch, nanoseconds.
const BATCH_MAX_NS: f64 = 50e6;
/// How much longer than the record such a replay may take.
const SLOWEST: f64 = 100.0;
/// Time without a step after which a thread that waits goes on, nanoseconds.
const STUCK_NS: u64 = 20_000_000;

impl Replay {
    /// Lets a thread go on that waits if there were no steps since there were so many.
    fn slip_if_stuck(&self, field: &Field, steps: u64) {
        if field.doors.steps() != steps {
            return;
        }
        field.doors.slip();
        if field.doors.asleep() + field.counts.waiting() >= self.threads {
            // Semaphores of which steps drawn at random have freed too few units.
            self.free_semaphores(field);
        }
    }

    /// Lets time pass; if nothing moves meanwhile, lets a thread go on that waits.
    fn let_pass(&self, k: &mut Process, field: &Field, ns: u64) {
        if self.behaviour.script.is_none() {
            return k.sleep(ns);
        }
        let end = Here::now_ns() + ns;
        while Here::now_ns() < end {
            let steps = field.doors.steps();
            k.sleep(STUCK_NS.min(end - Here::now_ns()));
            self.slip_if_stuck(field, steps);
        }
    }

    /// Lets threads do what the program did in all; when that began.
    pub(super) fn pass_whole(&self, k: &mut Process, world: &World, field: &Field) -> Snapshot {
        let begin = Snapshot::take(world, self.machine.topology.cpus);
        field.others_ns.set(0.0);
        // Relaxed: threads see it once the gate is open.
        field.phase.store(PHASE_WINDOW, Relaxed);
        field.open();
        let recorded_ns = self.behaviour.total as f64 / self.behaviour.rate * 1e9;
        let last = begin.now_ns + (SLOWEST * recorded_ns) as u64;
        while field.phase.load(Acquire) == PHASE_WINDOW {
            let steps = field.doors.steps();
            let now = Here::now_ns();
            if now >= last {
                field.ends(world);
                break;
            }
            let has_script = self.behaviour.script.is_some();
            let until = if has_script { last.min(now + STUCK_NS) } else { last };
            User::wait(&field.phase, PHASE_WINDOW, Sleep::Uninterruptible, Some(until));
            self.slip_if_stuck(field, steps);
        }
        k.sleep(POLL_NS);
        begin
    }

    /// Lets threads run until the run has settled, then for as long as tells how fast they are;
    /// when that began.
    pub(super) fn pass_window(
        &self,
        k: &mut Process,
        world: &World,
        field: &Field,
        board: &Board,
    ) -> Snapshot {
        let has_script = self.behaviour.script.is_some();
        let (enough, least) = if has_script { ENOUGH_OF_SCRIPT } else { ENOUGH };
        let window_ns = (enough / self.behaviour.rate * 1e9).clamp(least, 5e9) as u64;
        let cpus = self.machine.topology.cpus;
        let batch_ns = ENOUGH_OF_BATCH / self.behaviour.rate * 1e9;
        let batch_ns = batch_ns.clamp(BATCH_NS as f64, BATCH_MAX_NS) as u64;
        let watch = Watch { world, cpus, batch_ns, least_ns: 0 };
        let rest = |k: &mut Process, ns| self.let_pass(k, field, ns);
        board.settling.set(Some(watch.settle(k, || field.counts.passed(), rest)));
        let begin = Snapshot::take(world, cpus);
        field.others_ns.set(0.0);
        field.phase.store(PHASE_WINDOW, Relaxed);
        self.let_pass(k, field, window_ns);
        field.ends(world);
        begin
    }
}
