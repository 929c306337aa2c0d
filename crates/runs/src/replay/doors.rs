//! Where the threads of a script wait for each other: conditions and barriers.

use std::cell::Cell;
use std::sync::atomic::Ordering::Release;

use convoy_machine::{Sim, User};
use convoy_sync::{Atomic, Platform};

use super::named;
use super::script::{Condition, Gates, Script};

/// The conditions of a run. What is in cells costs nothing on the virtual machine; the words that
/// threads sleep on do.
pub(super) struct Doors {
    pub(super) all: Vec<Door>,
    /// Of a barrier, the tokens are the threads that have come.
    pub(super) barriers: Vec<Door>,
    pub(super) threads: u32,
    pub(super) asleep: Cell<u32>,
    /// Steps of all threads.
    pub(super) steps: Cell<u64>,
    /// Units of semaphores that were freed and not taken.
    pub(super) spare: Cell<i64>,
    gates: Cell<Gates>,
}

/// One condition or barrier.
pub(super) struct Door {
    what: Condition,
    pub(super) word: Sim<<User as Platform>::AtomicU32>,
    pub(super) tokens: Cell<f64>,
    pub(super) waiting: Cell<u32>,
}

impl Doors {
    pub(super) fn new(script: Option<&Script>, threads: u32) -> Self {
        let conditions = script.map_or(&[][..], |script| &script.conditions);
        let door = |what: Condition, name| Door {
            what,
            word: named(Atomic::new(0), name),
            tokens: Cell::new(what.tokens),
            waiting: Cell::new(0),
        };
        let barrier = |_| door(Condition::default(), "a barrier");
        Self {
            all: conditions.iter().map(|&what| door(what, "a condition")).collect(),
            barriers: (0..script.map_or(0, Script::barriers)).map(barrier).collect(),
            threads,
            asleep: Cell::new(0),
            steps: Cell::new(0),
            spare: Cell::new(0),
            gates: Cell::default(),
        }
    }

    /// What was waited for.
    pub(super) fn gates(&self) -> Gates {
        self.gates.get()
    }

    /// Threads that wait for others.
    pub(super) fn asleep(&self) -> u32 {
        self.asleep.get()
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Gates)) {
        let mut gates = self.gates.get();
        change(&mut gates);
        self.gates.set(gates);
    }

    /// Lets one thread on that waits: nothing else moves.
    pub(super) fn slip(&self) {
        let most = |doors: &'_ [Door]| {
            let most = (0..doors.len()).max_by_key(|&at| doors[at].waiting.get());
            most.filter(|&at| doors[at].waiting.get() > 0)
        };
        if let Some(at) = most(&self.all) {
            let door = &self.all[at];
            door.tokens.set(door.tokens.get().max(0.0) + 1.0);
            door.wake(1);
            self.change(|gates| gates.slips += 1);
        } else if let Some(at) = most(&self.barriers) {
            self.barriers[at].pass_on();
            self.change(|gates| gates.slips += 1);
        }
    }

    /// Wakes all, as the run is over.
    pub(super) fn open(&self) {
        self.all.iter().chain(&self.barriers).for_each(|door| door.wake(usize::MAX >> 1));
    }

    pub(super) fn signal(&self, condition: usize, all: bool) {
        let door = &self.all[condition];
        let (waiting, tokens) = (f64::from(door.waiting.get()), door.tokens.get());
        if door.what.room.is_infinite() {
            door.tokens.set(tokens + 1.0);
        } else if all {
            door.tokens.set(tokens.max(waiting).max((tokens + 1.0).min(door.what.room)));
        } else {
            door.tokens.set((tokens + 1.0).min(door.what.room.max(waiting)).max(tokens));
        }
        if waiting > 0.0 {
            door.wake(if all { usize::MAX >> 1 } else { 1 });
        }
    }
}

impl Door {
    /// Opens a barrier.
    pub(super) fn pass_on(&self) {
        self.tokens.set(0.0);
        self.wake(usize::MAX >> 1);
    }

    fn wake(&self, count: usize) {
        self.word.fetch_add(1, Release);
        User::wake(&raw const *self.word, count);
    }
}
