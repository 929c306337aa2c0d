//! The gate at which the users of a load wait for their release.
//!
//! AIM7's users pause until their parent signals the process group (`kill(0, SIGINT)`). This gate
//! does the same: the parent walks the group once, with one wakeup for each child, and a woken
//! child does not wait for the others. The walk begins with the newest child: `attach_pid` puts
//! each process at the head of its group's list (`kernel/pid.c`, from 2.6.0 on).

use crate::process::Process;
use convoy_machine::{Here, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep};
use core::cell::RefCell;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::collections::BTreeMap;
use std::rc::Rc;

const CLOSED: u32 = 0;
const OPEN: u32 = 1;

/// A gate that is closed until it is opened, once.
pub struct Gate {
    state: Sim<Word<u32>>,
    /// The words on which the processes wait, by process id.
    waiting: RefCell<BTreeMap<i32, Rc<Sim<Word<u32>>>>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::closed()
    }
}

impl Gate {
    /// A closed gate; made by a task of the machine.
    pub fn closed() -> Self {
        Self { state: Here::place(Word::new(CLOSED)), waiting: RefCell::default() }
    }
}

impl Process {
    /// Sleeps until the gate is open, and then takes the signal that opened it.
    pub fn pause_at(&mut self, gate: &Gate) {
        let pid = self.me.pid;
        self.call("pause", || {
            let word = Rc::new(Here::place(Word::new(CLOSED)));
            gate.waiting.borrow_mut().insert(pid, Rc::clone(&word));
            // Acquire: pairs with the releases in `open_gate`. A process that comes too late for
            // the walk sees the state of the gate, which is stored before the walk.
            while gate.state.load(Acquire) == CLOSED && word.load(Acquire) == CLOSED {
                Smp::wait(&word, CLOSED, Sleep::Uninterruptible, None);
            }
            Here::pass(self.world.costs.signal_deliver);
        });
    }

    /// Opens the gate: wakes the processes that wait there, the newest first.
    pub fn open_gate(&mut self, gate: &Gate) {
        self.call("kill", || {
            Here::pass(self.world.costs.kill);
            gate.state.store(OPEN, Release);
            let waiting = gate.waiting.take();
            for word in waiting.values().rev() {
                word.store(OPEN, Release);
                Smp::wake(&raw const ***word, 1);
            }
        });
    }
}
