//! The gate at which the users of a load wait for their release.
//!
//! AIM7's users pause until a signal to their process group arrives. This gate does the same: the
//! parent walks the list once, with one wakeup per child; woken children do not wait for each
//! other.

use crate::process::Process;
use convoy_machine::{Here, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep};
use core::sync::atomic::Ordering::{Acquire, Release};

const CLOSED: u32 = 0;
const OPEN: u32 = 1;

/// A gate that is closed until it is opened, once.
pub struct Gate {
    state: Sim<Word<u32>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::closed()
    }
}

impl Gate {
    /// A closed gate; made by a task of the machine.
    pub fn closed() -> Self {
        Self { state: Here::place(Word::new(CLOSED)) }
    }
}

impl Process {
    /// Sleeps until the gate is open, and then takes the signal that opened it.
    pub fn pause_at(&mut self, gate: &Gate) {
        self.call("pause", || {
            // Acquire: pairs with the release in `open_gate`; nobody misses a gate that opens
            // first.
            while gate.state.load(Acquire) == CLOSED {
                Smp::wait(&gate.state, CLOSED, Sleep::Uninterruptible, None);
            }
            Here::pass(self.world.costs.signal_deliver);
        });
    }

    /// Opens the gate: wakes `users` tasks in the order in which they came.
    pub fn open_gate(&mut self, gate: &Gate, users: u32) {
        self.call("kill", || {
            Here::pass(self.world.costs.kill);
            gate.state.store(OPEN, Release);
            Smp::wake(&raw const *gate.state, users as usize);
        });
    }
}
