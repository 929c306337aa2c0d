//! Other programs, which take CPUs from the replayed one.
//!
//! They are unknown, except for their CPU use. So tasks that the scheduler prefers compute and
//! sleep in turns of about a time slice: the replayed program gets the rest of the CPU time, and
//! its lock owners are preempted as in the record.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use convoy_kernel::sched::kthread::Policy as Class;
use convoy_kernel::{Process, World};
use convoy_machine::{Here, User};
use convoy_stats::Rng;
use convoy_sync::{Atomic, Platform};

use super::field::{FOOTPRINT, Field};
use super::request::Replay;
use crate::lock_loop::PHASE_OVER;

/// Mean turn on a CPU, nanoseconds: the time slice of a task that competes with one or two others
/// on kernels from 2.6.23 on.
const TURN_NS: f64 = 3e6;
/// Number of pieces of a turn in which its CPU time is counted, so that the count of a window is
/// off by at most one piece per task.
const PIECES: f64 = 20.0;
/// Largest share of a CPU for one task.
const SHARE_MAX: f64 = 1.0;
/// Tasks per CPU that other programs use: one program that computes is the usual case, and it runs
/// on an idle CPU if there is one.
const TASKS: f64 = 1.0;

impl Replay {
    /// Returns the number of tasks of other programs.
    pub(super) fn others(&self) -> u32 {
        let cpus = self.machine.topology.cpus as f64;
        if self.others_cpus <= 0.0 { 0 } else { (TASKS * self.others_cpus).ceil().min(cpus) as u32 }
    }

    /// Starts the other programs.
    pub(super) fn start_others(
        &self,
        k: &mut Process,
        world: &Rc<World>,
        field: &Rc<Field>,
    ) -> Result<(), String> {
        let tasks = self.others();
        for index in 0..tasks {
            let share = (self.others_cpus / f64::from(tasks)).min(SHARE_MAX);
            let rng = Rng::new(!self.seed ^ (u64::from(index) << 32));
            let (world, field) = (Rc::clone(world), Rc::clone(field));
            let body = Box::new(move || other(&world, &field, share, rng));
            k.thread(FOOTPRINT, body).map_err(|error| format!("clone: {error}"))?;
        }
        Ok(())
    }
}

/// Runs one task that uses `share` of a CPU until the run is over.
fn other(world: &World, field: &Field, share: f64, mut rng: Rng) {
    world.sched().rq.set_policy(User::current(), Class::Normal { nice: -20 });
    let mut due = Here::now_ns() as f64 + TURN_NS / share * rng.uniform();
    // Relaxed: the phase orders nothing here.
    while field.phase.load(Relaxed) != PHASE_OVER {
        world.sched().nap_until(due as u64);
        let turn = TURN_NS * (0.5 + rng.uniform());
        due += turn / share;
        let piece = TURN_NS / PIECES;
        for _ in 0..(turn / piece) as u32 {
            Here::compute((piece * 1e3) as u64);
            add(&field.others_ns, piece);
        }
        let rest = turn % piece;
        Here::compute((rest * 1e3) as u64);
        add(&field.others_ns, rest);
    }
}

fn add(sum: &Cell<f64>, ns: f64) {
    sum.set(sum.get() + ns);
}
