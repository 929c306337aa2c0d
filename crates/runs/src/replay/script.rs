//! Scripts: what the threads of each class did step by step, replayed in that order. Locks lie
//! within each other as recorded, and threads wait on conditions for each other.
//!
//! A condition has tokens. Of one that is *counted*, each pass through a section that may wait
//! takes what a signal brings, and waits as long as that is not there: a bounded buffer, a flag, a
//! pool. Of others the share of passes that wait is the recorded one, and a wait ends with a token:
//! a group of which one thread does the work of all. So signals and passes limit each other, and
//! who waits longer than then does so here, too. If all threads wait, which steps drawn at random
//! may lead to, one goes on without a token; such slips are counted.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Release};

use convoy_kernel::World;
use convoy_machine::{Here, Sim, User};
use convoy_stats::Rng;
use convoy_sync::{Atomic, Lock, Platform, Sleep};

use super::{Field, Locks, Replay, named, rest};
use crate::lock_loop::{PHASE_OVER, PHASE_WINDOW, Trace};

/// What the threads of a program did in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Classes of threads.
    pub classes: Vec<Class>,
    /// The conditions that steps name by their number.
    pub conditions: Vec<Condition>,
}

/// Threads that do the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// How many there were.
    pub threads: u32,
    /// What was seen of them, in pieces that begin and end at the same place of the program.
    pub strips: Vec<Vec<Step>>,
    /// How often each of them is drawn beside the others; empty: all as often.
    pub weights: Vec<f64>,
}

impl Class {
    /// Some strip.
    fn draw(&self, rng: &mut Rng) -> &[Step] {
        let mut rank = rng.uniform() * self.weights.iter().sum::<f64>();
        let past = |weight: &f64| {
            rank -= weight;
            rank < 0.0
        };
        let drawn = self.weights.iter().position(past);
        &self.strips[drawn.unwrap_or_else(|| rng.below(self.strips.len()))]
    }
}

/// What threads wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    /// Tokens at the beginning.
    pub tokens: f64,
    /// Tokens that remain if nobody waits, at most; 0: a signal that nobody waits for is lost. If
    /// that is without end, those who pass count what is there, and a broadcast brings one, too.
    pub room: f64,
}

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Works, then sleeps, nanoseconds.
    Rest {
        /// Work.
        work_ns: f64,
        /// Sleep.
        sleep_ns: f64,
    },
    /// Takes a lock: which one of a name.
    Lock {
        /// The name.
        lock: usize,
        /// Which.
        of: u32,
    },
    /// Gives it up.
    Unlock {
        /// The name.
        lock: usize,
        /// Which.
        of: u32,
    },
    /// Takes this many tokens. While they are not there, the lock that was taken last is given up
    /// if the condition has one.
    Wait {
        /// The condition.
        condition: usize,
        /// Tokens.
        tokens: f64,
        /// Whether a lock is given up for it.
        is_within: bool,
        /// Nanoseconds after which it ends anyway; 0: never.
        limit_ns: u64,
    },
    /// Brings a token.
    Signal {
        /// The condition.
        condition: usize,
        /// Whether all that wait are woken, each with a token.
        all: bool,
    },
    /// Lets others run.
    Yield,
}

impl Script {
    /// Threads of each class if there are `threads` in all: the recorded shares, at least one of
    /// each as long as there are enough.
    pub(super) fn shares(&self, threads: u32) -> Vec<u32> {
        let all: u32 = self.classes.iter().map(|class| class.threads).sum();
        let exact =
            |class: &Class| f64::from(class.threads) * f64::from(threads) / f64::from(all.max(1));
        let mut shares: Vec<u32> =
            self.classes.iter().map(|class| (exact(class) as u32).max(1)).collect();
        loop {
            let sum: u32 = shares.iter().sum();
            let by = |one: &usize, other: &usize| {
                let off = |at: usize| exact(&self.classes[at]) - f64::from(shares[at]);
                off(*one).total_cmp(&off(*other))
            };
            let at = match sum.cmp(&threads) {
                std::cmp::Ordering::Equal => break shares,
                std::cmp::Ordering::Less => (0..shares.len()).max_by(by),
                std::cmp::Ordering::Greater => {
                    (0..shares.len()).filter(|&at| shares[at] > 0).min_by(by)
                }
            };
            match at {
                Some(at) if sum < threads => shares[at] += 1,
                Some(at) => shares[at] -= 1,
                None => break shares,
            }
        }
    }

    /// The class of a thread.
    fn class(&self, threads: u32, index: u32) -> Option<&Class> {
        let mut end = 0;
        let shares = self.shares(threads);
        let found = shares.iter().position(|share| {
            end += share;
            index < end
        });
        found.map(|at| &self.classes[at])
    }
}

/// What was waited for at conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gates {
    /// Waits that ended.
    pub waits: u64,
    /// Their time, nanoseconds.
    pub wait_ns: f64,
    /// Waits that ended without a token because nothing else could go on.
    pub slips: u64,
}

/// The conditions of a run. What is in cells costs nothing on the virtual machine; the words that
/// threads sleep on do.
pub(super) struct Doors {
    all: Vec<Door>,
    threads: u32,
    asleep: Cell<u32>,
    /// Steps of all threads.
    steps: Cell<u64>,
    gates: Cell<Gates>,
}

struct Door {
    what: Condition,
    word: Sim<<User as Platform>::AtomicU32>,
    tokens: Cell<f64>,
    waiting: Cell<u32>,
}

impl Doors {
    pub(super) fn new(script: Option<&Script>, threads: u32) -> Self {
        let conditions = script.map_or(&[][..], |script| &script.conditions);
        let door = |&what: &Condition| Door {
            what,
            word: named(Atomic::new(0), "a condition"),
            tokens: Cell::new(what.tokens),
            waiting: Cell::new(0),
        };
        Self {
            all: conditions.iter().map(door).collect(),
            threads,
            asleep: Cell::new(0),
            steps: Cell::new(0),
            gates: Cell::default(),
        }
    }

    /// What was waited for.
    pub(super) fn gates(&self) -> Gates {
        self.gates.get()
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    fn change(&self, change: impl FnOnce(&mut Gates)) {
        let mut gates = self.gates.get();
        change(&mut gates);
        self.gates.set(gates);
    }

    /// Lets one thread on that waits: nothing else moves.
    pub(super) fn slip(&self) {
        let most = self.all.iter().max_by_key(|door| door.waiting.get());
        if let Some(door) = most.filter(|door| door.waiting.get() > 0) {
            door.tokens.set(door.tokens.get().max(0.0) + 1.0);
            door.wake(1);
            self.change(|gates| gates.slips += 1);
        }
    }

    /// Wakes all, as the run is over.
    pub(super) fn open(&self) {
        self.all.iter().for_each(|door| door.wake(usize::MAX >> 1));
    }

    fn signal(&self, condition: usize, all: bool) {
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
    fn wake(&self, count: usize) {
        self.word.fetch_add(1, Release);
        User::wake(&raw const *self.word, count);
    }
}

/// A thread that follows a script.
pub(super) struct Actor<'a, C> {
    pub(super) replay: &'a Replay,
    pub(super) world: &'a World,
    pub(super) field: &'a Field<C>,
    pub(super) index: u32,
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    /// Locks that it has: name, which as recorded, which here.
    held: Vec<(usize, u32, usize)>,
}

impl<'a, C: Lock> Actor<'a, C> {
    pub(super) fn new(
        replay: &'a Replay,
        world: &'a World,
        field: &'a Field<C>,
        (index, rng, trace): (u32, Rng, Trace),
    ) -> Self {
        Self { replay, world, field, index, trace, rng, held: Vec::new() }
    }

    fn phase(&self) -> u32 {
        self.field.phase.load(Acquire)
    }

    /// Draws strips until the run is over.
    pub(super) fn act(mut self, script: &Script) -> Trace {
        let class = script.class(self.replay.threads, self.index);
        let Some(class) = class.filter(|class| !class.strips.is_empty()) else {
            return self.trace;
        };
        // So that threads do not march in step from the beginning.
        let first = class.draw(&mut self.rng);
        let mut from = 0;
        let starts: Vec<usize> = Self::starts(first);
        if !starts.is_empty() {
            from = starts[self.rng.below(starts.len())];
        }
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
        while let Some((lock, _, at)) = self.held.pop() {
            self.give(lock, at);
        }
        self.trace
    }

    /// Where the first step of a strip comes again in it: there it may begin, too.
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
                Step::Lock { .. } => 1,
                Step::Unlock { .. } => -1,
                _ => 0,
            };
        }
        starts
    }

    /// One step; `due` is work and sleep that come before it.
    fn step(&mut self, step: &Step, due: &mut (f64, f64)) {
        if let Step::Rest { work_ns, sleep_ns } = *step {
            *due = (due.0 + work_ns, due.1 + sleep_ns);
            return;
        }
        let (mut work, mut sleep) = std::mem::take(due);
        if let Step::Lock { .. } = step {
            let anchor = &self.replay.anchor;
            // Exponential around its mean, so that threads do not march in step.
            sleep += -libm::log(1.0 - self.rng.uniform()) * anchor.sleep_ns;
            work = (work + anchor.work_ns).max(0.0);
        }
        rest(self.world, work, sleep);
        match *step {
            Step::Lock { lock, of } => self.lock(lock, of),
            Step::Unlock { lock, of } => {
                let found = self.held.iter().rposition(|held| (held.0, held.1) == (lock, of));
                if let Some(at) = found {
                    let (lock, _, at) = self.held.remove(at);
                    self.give(lock, at);
                }
            }
            Step::Wait { condition, tokens, is_within, limit_ns } => {
                self.wait(condition, tokens, is_within, limit_ns);
            }
            Step::Signal { condition, all } => self.field.doors.signal(condition, all),
            Step::Yield => User::yield_now(),
            Step::Rest { .. } => {}
        }
    }

    fn lock(&mut self, lock: usize, of: u32) {
        let behaviour = &self.replay.behaviour;
        let count = self.field.locks[lock].count();
        let recorded = behaviour.recorded(lock);
        let at = if behaviour.private.contains(&lock) {
            self.index as usize % count
        } else if count > recorded {
            // Split: any part of what the lock was.
            of as usize % recorded + recorded * self.rng.below(count / recorded)
        } else {
            of as usize % count
        };
        if self.held.iter().any(|held| (held.0, held.2) == (lock, at)) {
            return;
        }
        let asked = User::now();
        self.take(lock, at);
        let got = User::now();
        self.held.push((lock, of, at));
        match self.phase() {
            PHASE_WINDOW => {
                self.trace.waits.record(got - asked);
                self.field.count(self.world, &mut self.trace);
            }
            PHASE_OVER => self.trace.waiting = asked < self.field.end.get().now_ns,
            _ => {}
        }
    }

    fn take(&self, lock: usize, at: usize) {
        match &self.field.locks[lock] {
            Locks::Own(locks) => locks[at].acquire(),
            Locks::Others(locks) => locks[at].acquire(),
        }
    }

    fn give(&self, lock: usize, at: usize) {
        match &self.field.locks[lock] {
            Locks::Own(locks) => locks[at].release(),
            Locks::Others(locks) => locks[at].release(),
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
            if doors.asleep.get() + 1 >= doors.threads {
                doors.change(|gates| gates.slips += 1);
                door.tokens.set(door.tokens.get() + tokens);
                break;
            }
            let seen = door.word.load(Acquire);
            door.waiting.set(door.waiting.get() + 1);
            doors.asleep.set(doors.asleep.get() + 1);
            let within = self.held.last().copied().filter(|_| is_within);
            if let Some((lock, _, at)) = within {
                self.give(lock, at);
            }
            User::wait(&door.word, seen, Sleep::Uninterruptible, deadline);
            door.waiting.set(door.waiting.get() - 1);
            doors.asleep.set(doors.asleep.get() - 1);
            if let Some((lock, _, at)) = within {
                self.take(lock, at);
                if self.phase() == PHASE_WINDOW {
                    self.field.count(self.world, &mut self.trace);
                }
            }
        }
        if door.tokens.get() >= tokens - 1e-9 {
            door.tokens.set(door.tokens.get() - tokens);
        }
        if let (Some(begin), PHASE_WINDOW) = (begin, self.phase()) {
            doors.change(|gates| {
                gates.waits += 1;
                gates.wait_ns += (Here::now_ns() - begin) as f64;
            });
        }
    }
}
