//! A recorded program on the virtual machine: threads that work, sleep and hold locks for times
//! drawn from the recorded ones, anchored to the recorded throughput and CPU time.

use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use convoy_kernel::{Options, Process, World};
use convoy_machine::{Here, Machine, User};
use convoy_stats::{LogHistogram, Rng};
use convoy_sync::{Atomic, Platform, Sleep};
use convoy_workload::api::Kernel;
use convoy_workload::calibration::Calibration;

use crate::board::{Board, TASKS_BESIDE, VirtualLocksPoint};
use crate::lock_loop::{PHASE_OVER, Trace};
pub use crate::spread::{Span, Spread};
use crate::virtual_end::{VirtualError, run_to_end};
use actor::Actor;
pub use anchor::Anchor;
pub use behaviour::{Behaviour, Kind, Mode, Moved, Section};
pub use effort::Effort;
use field::{FOOTPRINT, Field, POLL_NS, SHUT, Visit, rest};
pub use request::Replay;
pub use script::{Class, Condition, Gates, Pace, Script, Step};
pub use tally::{ClassTally, PlaceTally, Tally};

mod actor;
mod anchor;
mod behaviour;
mod doors;
mod effort;
mod field;
mod fit;
mod locks;
mod moved;
mod named;
mod others;
mod request;
pub mod script;
mod tally;
mod window;

/// Virtual time after the window in which threads must exit, nanoseconds.
const DRAIN_NS: u64 = 100_000_000_000;

impl Replay {
    /// Runs the replay.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if the run cannot be set up or does not end.
    pub fn run(&self) -> Result<VirtualLocksPoint, VirtualError> {
        let cpus = self.machine.topology.cpus;
        let tasks = (self.threads + self.others()) as usize + TASKS_BESIDE + cpus;
        let preset = self.anchor.price(&self.machine);
        let machine = Machine::new(&preset, self.seed, tasks)
            .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
        machine.limit_operations(self.effort.most);
        if cpus == 1 {
            machine.forbid_spinning();
        }
        let calibration = Calibration::embedded()?;
        let options = Options { processes: tasks, ..Options::default() };
        let world = World::new(&self.kernel, &preset, &calibration.ns, options)?;
        let board = Rc::new(Board::default());
        let (replay, shared, inner) = (self.clone(), Rc::clone(&board), Rc::clone(&world));
        world.boot(&machine, move |process| {
            if let Err(what) = replay.coordinate(process, &inner, &shared) {
                *shared.broken.borrow_mut() = Some(what);
            }
        });
        run_to_end(&machine, self.threads, self.seed, &self.kernel.name, &board.broken)?;
        let mut point = VirtualLocksPoint::of(&board, &machine);
        if self.others_cpus > 0.0 {
            let cpus = board.others_ns.get() / 1e9 / point.result.window_s;
            point.result.cpus_used -= cpus;
            point.result.others_cpus = Some(cpus);
        }
        Ok(point)
    }

    fn coordinate(
        &self,
        k: &mut Process,
        world: &Rc<World>,
        board: &Rc<Board>,
    ) -> Result<(), String> {
        let field = Rc::new(Field::new(self));
        self.start_others(k, world, &field)?;
        for index in 0..self.threads {
            let (field, board, replay) = (Rc::clone(&field), Rc::clone(board), self.clone());
            let inner = Rc::clone(world);
            let body = move || {
                let trace = replay.thread(&inner, &field, index);
                board.traces.borrow_mut().push(trace);
                field.gone.fetch_add(1, Release);
            };
            k.thread(FOOTPRINT, Box::new(body)).map_err(|error| format!("clone: {error}"))?;
        }
        let begin = if self.is_whole() {
            self.pass_whole(k, world, &field)
        } else {
            self.pass_window(k, world, &field, board)
        };
        let end = field.end.get();
        *board.window.borrow_mut() = (begin, end);
        *board.gates.borrow_mut() = field.doors.gates();
        *board.tally.borrow_mut() = field.counts.tally();
        board.others_ns.set(field.others_ns.get());
        while field.gone.load(Acquire) < self.threads {
            if Here::now_ns() > end.now_ns + DRAIN_NS {
                return Err("the threads did not leave the lock".to_owned());
            }
            field.doors.open();
            field.free_semaphores(&self.behaviour);
            k.sleep(POLL_NS);
        }
        Ok(())
    }

    /// Runs one thread from its start to its end.
    fn thread(&self, world: &World, field: &Field, index: u32) -> Trace {
        let mut rng = Rng::new(self.seed ^ (u64::from(index) << 32));
        let mut trace = Trace { acquisitions: 0, waits: LogHistogram::new(), waiting: false };
        // Acquire: pairs with the release that opens the gate.
        while field.gate.load(Acquire) == SHUT {
            User::wait(&field.gate, SHUT, Sleep::Uninterruptible, None);
        }
        if let Some(script) = &self.behaviour.script {
            return Actor::new(self, world, field, index, rng, trace).act(script);
        }
        // As in the record; additional threads do the same as the first ones.
        let class = index % self.behaviour.threads.max(1);
        let all_sections = self.behaviour.sections.iter().enumerate();
        let sections: Vec<(usize, &Section)> =
            all_sections.filter(|(_, one)| class < one.threads).collect();
        let share = |one: &Section| one.count as f64 / f64::from(one.threads.max(1));
        let all: f64 = sections.iter().map(|(_, one)| share(one)).sum();
        while field.phase.load(Relaxed) != PHASE_OVER {
            let mut rank = rng.uniform() * all;
            let past = |one: &(usize, &Section)| {
                rank -= share(one.1);
                rank < 0.0
            };
            let found = sections.iter().copied().find(past).or(sections.last().copied());
            let Some((place, section)) = found else { break };
            let (work, sleep) = section.think.draw(&mut rng);
            let more = self.anchor.sleep(&mut rng);
            rest(world, work * self.anchor.work, sleep + more);
            let locks = &field.locks[section.lock];
            let at = if self.behaviour.private.contains(&section.lock) {
                index as usize % locks.len()
            } else {
                rng.below(locks.len())
            };
            let moves = || self.moves(&field.owners, section.lock, at);
            let visit = Visit { thread: index, place, section, lock: &*locks[at], moves: &moves };
            if !field.pass(&visit, world, &mut rng, &mut trace) {
                break;
            }
        }
        trace
    }
}

#[cfg(test)]
mod tests;
