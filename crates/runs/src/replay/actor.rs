//! A thread that follows a script.

use std::sync::atomic::Ordering::Acquire;

use convoy_kernel::World;
use convoy_machine::{Here, User};
use convoy_stats::Rng;
use convoy_sync::{Atomic, Platform, Sleep};

use super::behaviour::{Kind, Mode};
use super::field::{Field, rest};
use super::moved;
use super::request::Replay;
use super::script::{Script, Step};
use super::tally::place_of;
use crate::lock_loop::{PHASE_OVER, PHASE_WINDOW, Trace};

/// Largest number of free units of semaphores: more have the same effect.
const SPARE_MAX: i64 = 30_000;

/// A thread that follows a script.
pub(super) struct Actor<'a> {
    pub(super) replay: &'a Replay,
    pub(super) world: &'a World,
    pub(super) field: &'a Field,
    pub(super) index: u32,
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    held: Vec<Held>,
    /// Replayed threads of its class per recorded thread.
    growth: f64,
    /// Whether its class is rare.
    is_rare: bool,
    /// Additional work of the current critical section, nanoseconds.
    moved_ns: f64,
}

/// A lock that a thread holds.
#[derive(Clone, Copy)]
struct Held {
    lock: usize,
    /// Index of the lock in the record; `at` is its index in the replay.
    of: u32,
    at: usize,
    mode: Mode,
}

impl<'a> Actor<'a> {
    pub(super) fn new(
        replay: &'a Replay,
        world: &'a World,
        field: &'a Field,
        index: u32,
        rng: Rng,
        trace: Trace,
    ) -> Self {
        Self {
            replay,
            world,
            field,
            index,
            trace,
            rng,
            held: Vec::new(),
            growth: 1.0,
            moved_ns: 0.0,
            is_rare: false,
        }
    }

    fn phase(&self) -> u32 {
        self.field.phase.load(Acquire)
    }

    /// Draws strips until the run is over.
    pub(super) fn act(mut self, script: &Script) -> Trace {
        let class = script.class(self.replay.threads, self.index);
        let Some((class, threads)) = class.filter(|(class, _)| !class.strips.is_empty()) else {
            return self.trace;
        };
        self.is_rare = class.is_rare;
        self.growth = f64::from(threads) / f64::from(class.threads.max(1));
        // A random start, so that threads do not run in lockstep from the beginning.
        let first = class.draw(&mut self.rng);
        let mut from = 0;
        let starts: Vec<usize> = Self::starts(first);
        if !starts.is_empty() {
            from = starts[self.rng.below(starts.len())];
        }
        // The tokens of conditions assume that all threads are at the start of a strip.
        first[..from].iter().for_each(|step| self.field.doors.passes_over(step));
        let mut strip = &first[from..];
        'run: loop {
            let mut due = (0.0, 0.0);
            for step in strip {
                if self.phase() == PHASE_OVER {
                    break 'run;
                }
                self.field.doors.steps.set(self.field.doors.steps.get() + 1);
                self.step(step, &mut due);
            }
            rest(self.world, due.0, due.1);
            if self.phase() == PHASE_OVER {
                break;
            }
            strip = class.draw(&mut self.rng);
        }
        while let Some(held) = self.held.pop() {
            self.give(held);
        }
        self.trace
    }

    /// Returns the positions in a strip at which its first step is repeated: the strip may begin
    /// there, too.
    fn starts(strip: &[Step]) -> Vec<usize> {
        let moves = |at: &usize| !matches!(strip[*at], Step::Rest { .. });
        let Some(first) = (0..strip.len()).find(moves) else { return Vec::new() };
        let mut held = 0_i32;
        let mut starts = Vec::new();
        for (at, step) in strip.iter().enumerate() {
            if held == 0 && *step == strip[first] {
                starts.push(at);
            }
            held += match step {
                Step::Lock { .. } | Step::Read { .. } => 1,
                Step::Unlock { .. } => -1,
                _ => 0,
            };
        }
        starts
    }

    /// Executes one step; `due` is the work and sleep before it.
    fn step(&mut self, step: &Step, due: &mut (f64, f64)) {
        if let Step::Rest { work_ns, sleep_ns } = *step {
            *due = (due.0 + work_ns, due.1 + sleep_ns);
            return;
        }
        let (mut work, mut sleep) = std::mem::take(due);
        if let Step::Lock { .. } | Step::Read { .. } = step {
            let anchor = &self.replay.anchor;
            sleep += anchor.sleep(&mut self.rng);
            // Work inside a critical section is not work before one.
            if self.held.is_empty() {
                work *= anchor.work;
            }
        }
        if !self.held.is_empty() {
            work = moved::with(work, std::mem::take(&mut self.moved_ns));
        }
        rest(self.world, work, sleep);
        match *step {
            Step::Lock { lock, of } => self.lock(lock, of, Mode::Exclusive),
            Step::Read { lock, of } => self.lock(lock, of, Mode::Read),
            Step::Unlock { lock, of } => self.unlock(lock, of),
            Step::Barrier { barrier, places } => self.meet(barrier, places),
            Step::Wait { condition, tokens, is_within, limit_ns } => {
                self.wait(condition, tokens, is_within, limit_ns);
            }
            Step::Signal { condition, all } => self.field.doors.signal(condition, all),
            Step::Yield => User::yield_now(),
            Step::Rest { .. } => {}
        }
    }

    /// Returns the lock of a name that represents the recorded one.
    fn which(&mut self, lock: usize, of: u32) -> usize {
        let behaviour = &self.replay.behaviour;
        let count = self.field.locks[lock].len();
        let recorded = behaviour.recorded(lock);
        if behaviour.private.contains(&lock) {
            self.index as usize % count
        } else if count > recorded {
            // Split: any part of the recorded lock.
            of as usize % recorded + recorded * self.rng.below(count / recorded)
        } else {
            of as usize % count
        }
    }

    fn is_semaphore(&self, lock: usize) -> bool {
        matches!(self.replay.behaviour.kind(lock), Kind::Semaphore { .. })
    }

    fn lock(&mut self, lock: usize, of: u32, mode: Mode) {
        let held = Held { lock, of, at: self.which(lock, of), mode };
        let is_semaphore = self.is_semaphore(lock);
        if !is_semaphore && self.held.iter().any(|other| (other.lock, other.at) == (lock, held.at))
        {
            return;
        }
        let asked = User::now();
        self.field.counts.asks(self.index, place_of(lock, mode), asked);
        self.take(held);
        let got = User::now();
        self.field.counts.has(self.index);
        if is_semaphore {
            self.spare(-1);
        } else {
            self.moved_ns = self.replay.moves(&self.field.owners, lock, held.at);
            self.held.push(held);
        }
        match self.phase() {
            PHASE_WINDOW => {
                self.trace.waits.record(got - asked);
                self.counts(held, got - asked);
            }
            PHASE_OVER => self.trace.waiting = asked < self.field.end.get().now_ns,
            _ => {}
        }
    }

    /// Counts an acquisition that ended in the window.
    fn counts(&mut self, held: Held, wait_ns: u64) {
        let place = place_of(held.lock, held.mode);
        self.field.counts.counts(self.index, place, wait_ns);
        self.count();
    }

    /// Releases a lock that the thread holds, or frees a unit of a semaphore, which any thread may
    /// do.
    fn unlock(&mut self, lock: usize, of: u32) {
        if self.is_semaphore(lock) {
            let at = self.which(lock, of);
            if self.spare(1) {
                self.give(Held { lock, of, at, mode: Mode::Exclusive });
            }
            return;
        }
        let found = self.held.iter().rposition(|held| (held.lock, held.of) == (lock, of));
        if let Some(at) = found {
            let held = self.held.remove(at);
            self.give(held);
        }
    }

    /// Counts units that are freed, or taken if negative. Returns whether so many may be free.
    fn spare(&self, units: i64) -> bool {
        let spare = self.field.doors.spare.get() + units;
        let fits = spare < SPARE_MAX;
        self.field.doors.spare.set(spare.min(SPARE_MAX));
        fits
    }

    fn take(&self, held: Held) {
        self.field.locks[held.lock][held.at].take(held.mode);
    }

    /// Reacquires the lock after a wakeup, to check whether the thread may continue. This is not
    /// counted as an acquisition.
    fn take_again(&self, held: Held) {
        match held.mode {
            Mode::Exclusive => self.field.locks[held.lock][held.at].take_again(),
            Mode::Read | Mode::Write => self.take(held),
        }
    }

    fn give(&self, held: Held) {
        self.field.locks[held.lock][held.at].give(held.mode);
    }

    /// Counts an acquisition.
    fn count(&mut self) {
        if !self.is_rare {
            self.field.count(self.world, &mut self.trace);
        }
    }

    /// Waits at a barrier.
    fn meet(&self, barrier: usize, places: u32) {
        let doors = &self.field.doors;
        let door = &doors.barriers[barrier];
        let places = (f64::from(places) * self.growth).round().max(1.0);
        door.tokens.set(door.tokens.get() + 1.0);
        if door.tokens.get() >= places {
            return doors.pass_on(barrier);
        }
        // Acquire: pairs with the release that opens the barrier.
        let seen = door.word.load(Acquire);
        let begin = User::now();
        doors.begins(door);
        while door.word.load(Acquire) == seen && self.phase() != PHASE_OVER {
            User::wait(&door.word, seen, Sleep::Uninterruptible, None);
        }
        doors.ends(door);
        self.waited(begin);
    }

    /// Counts a wait for other threads that has ended.
    fn waited(&self, begin: u64) {
        if self.phase() == PHASE_WINDOW {
            self.field.doors.change(|gates| {
                gates.waits += 1;
                gates.wait_ns += (Here::now_ns() - begin) as f64;
            });
        }
    }

    fn wait(&mut self, condition: usize, tokens: f64, is_within: bool, limit_ns: u64) {
        let doors = &self.field.doors;
        let door = &doors.all[condition];
        let (mut begin, mut deadline) = (None, None);
        while door.tokens.get() < tokens - 1e-9 {
            let since = *begin.get_or_insert_with(User::now);
            if limit_ns > 0 && deadline.is_none() {
                deadline = Some(since + limit_ns);
            }
            if self.phase() == PHASE_OVER || deadline.is_some_and(|end| Here::now_ns() >= end) {
                break;
            }
            if doors.asleep() + 1 >= doors.threads {
                doors.change(|gates| gates.slips += 1);
                door.tokens.set(door.tokens.get() + tokens);
                break;
            }
            let seen = door.word.load(Acquire);
            doors.begins(door);
            let within = self.held.last().copied().filter(|_| is_within);
            if let Some(held) = within {
                self.give(held);
            }
            User::wait(&door.word, seen, Sleep::Uninterruptible, deadline);
            doors.ends(door);
            if self.phase() == PHASE_WINDOW {
                doors.change(|gates| gates.returns += 1);
            }
            if let Some(held) = within {
                let asked = User::now();
                self.field.counts.asks(self.index, place_of(held.lock, held.mode), asked);
                self.take_again(held);
                self.field.counts.has_again(self.index);
                if self.phase() == PHASE_WINDOW {
                    let place = place_of(held.lock, held.mode);
                    self.field.counts.waited(self.index, place, User::now() - asked);
                }
            }
        }
        if door.tokens.get() >= tokens - 1e-9 {
            door.tokens.set(door.tokens.get() - tokens);
        }
        if let Some(begin) = begin {
            self.waited(begin);
        }
    }
}
