//! Places at which the threads of a script wait for each other: conditions and barriers.

use std::cell::Cell;
use std::sync::atomic::Ordering::Release;

use convoy_machine::{Sim, User};
use convoy_sync::{Atomic, Platform};

use super::named::named;
use super::script::{Condition, Gates, Script, Step};

/// The conditions of a run. State in cells costs nothing on the virtual machine, but the words that
/// threads sleep on do.
pub(super) struct Doors {
    pub(super) all: Vec<Door>,
    /// The tokens of a barrier are the threads that have reached it.
    pub(super) barriers: Vec<Door>,
    pub(super) threads: u32,
    /// Threads that wait for others and were not woken.
    asleep: Cell<u32>,
    /// Steps of all threads.
    pub(super) steps: Cell<u64>,
    /// Steps at the last look that found more of them, and its time, nanoseconds.
    seen: Cell<(u64, u64)>,
    /// Units of semaphores that were freed and not taken.
    pub(super) spare: Cell<i64>,
    gates: Cell<Gates>,
}

/// One condition or barrier.
pub(super) struct Door {
    what: Condition,
    pub(super) word: Sim<<User as Platform>::AtomicU32>,
    pub(super) tokens: Cell<f64>,
    /// Threads that wait and were not woken, and threads that were woken and have not run since.
    waiting: Cell<u32>,
    woken: Cell<u32>,
}

impl Doors {
    pub(super) fn new(script: Option<&Script>, threads: u32) -> Self {
        let conditions = script.map_or(&[][..], |script| &script.conditions);
        let door = |what: Condition, name| Door {
            what,
            word: named(Atomic::new(0), name),
            tokens: Cell::new(what.tokens),
            waiting: Cell::new(0),
            woken: Cell::new(0),
        };
        let barrier = |_| door(Condition::default(), "a barrier");
        Self {
            all: conditions.iter().map(|&what| door(what, "a condition")).collect(),
            barriers: (0..script.map_or(0, Script::barriers)).map(barrier).collect(),
            threads,
            asleep: Cell::new(0),
            steps: Cell::new(0),
            seen: Cell::default(),
            spare: Cell::new(0),
            gates: Cell::default(),
        }
    }

    /// Returns the counts of waits.
    pub(super) fn gates(&self) -> Gates {
        self.gates.get()
    }

    /// Returns the number of threads that wait for others and were not woken.
    pub(super) fn asleep(&self) -> u32 {
        self.asleep.get()
    }

    /// Records that the calling thread begins to wait at a door.
    pub(super) fn begins(&self, door: &Door) {
        door.waiting.set(door.waiting.get() + 1);
        self.asleep.set(self.asleep.get() + 1);
    }

    /// Records that the calling thread continues. If threads were woken, one of them no longer
    /// counts; which one does not matter.
    pub(super) fn ends(&self, door: &Door) {
        if door.woken.get() > 0 {
            door.woken.set(door.woken.get() - 1);
        } else {
            door.waiting.set(door.waiting.get() - 1);
            self.asleep.set(self.asleep.get() - 1);
        }
    }

    /// Wakes up to `count` threads at a door. From now on they do not count as waiting, although it
    /// may take long until they run: a thread that waits in the meantime is not the last one.
    fn wake(&self, door: &Door, count: usize) {
        let woken = door.waiting.get().min(u32::try_from(count).unwrap_or(u32::MAX));
        door.waiting.set(door.waiting.get() - woken);
        door.woken.set(door.woken.get() + woken);
        self.asleep.set(self.asleep.get() - woken);
        door.word.fetch_add(1, Release);
        User::wake(&raw const *door.word, count);
    }

    /// Opens a barrier.
    pub(super) fn pass_on(&self, barrier: usize) {
        self.barriers[barrier].tokens.set(0.0);
        self.wake(&self.barriers[barrier], usize::MAX >> 1);
    }

    /// Returns the time since a look at which threads had made steps, nanoseconds.
    pub(super) fn quiet_ns(&self, now_ns: u64) -> u64 {
        let (steps, since_ns) = self.seen.get();
        if steps == self.steps.get() {
            return now_ns - since_ns;
        }
        self.seen.set((self.steps.get(), now_ns));
        0
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Gates)) {
        let mut gates = self.gates.get();
        change(&mut gates);
        self.gates.set(gates);
    }

    /// Lets one waiting thread continue, because no thread makes progress.
    pub(super) fn slip(&self) {
        fn most(doors: &[Door]) -> Option<usize> {
            let most = (0..doors.len()).max_by_key(|&at| doors[at].waiting.get());
            most.filter(|&at| doors[at].waiting.get() > 0)
        }
        if let Some(at) = most(&self.all) {
            let door = &self.all[at];
            door.tokens.set(door.tokens.get().max(0.0) + 1.0);
            self.wake(door, 1);
            self.change(|gates| gates.slips += 1);
        } else if let Some(at) = most(&self.barriers) {
            self.pass_on(at);
            self.change(|gates| gates.slips += 1);
        }
    }

    /// Counts a step that a thread did before the run.
    pub(super) fn passes_over(&self, step: &Step) {
        let (condition, brings) = match *step {
            Step::Signal { condition, .. } => (condition, 1.0),
            Step::Wait { condition, tokens, .. } => (condition, -tokens),
            _ => return,
        };
        let door = &self.all[condition];
        if door.what.room.is_infinite() {
            door.tokens.set(door.tokens.get() + brings);
        }
    }

    /// Wakes all threads, because the run is over.
    pub(super) fn open(&self) {
        self.all.iter().chain(&self.barriers).for_each(|door| self.wake(door, usize::MAX >> 1));
    }

    pub(super) fn signal(&self, condition: usize, all: bool) {
        let door = &self.all[condition];
        let tokens = door.tokens.get();
        let waiting = f64::from(door.waiting.get() + door.woken.get());
        if door.what.room.is_infinite() {
            door.tokens.set(tokens + 1.0);
        } else if all {
            door.tokens.set(tokens.max(waiting).max((tokens + 1.0).min(door.what.room)));
        } else {
            door.tokens.set((tokens + 1.0).min(door.what.room.max(waiting)).max(tokens));
        }
        if door.waiting.get() > 0 {
            self.wake(door, if all { usize::MAX >> 1 } else { 1 });
        }
    }
}
