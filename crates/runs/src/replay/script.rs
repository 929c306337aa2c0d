//! Scripts: the steps of the threads of each class, replayed in order. Locks are nested as
//! recorded, and threads wait for each other at conditions.
//!
//! A condition has tokens. If it is *counted*, each pass through a critical section that may wait
//! takes the tokens that a signal brings, and waits until they are available: a bounded buffer, a
//! flag, a pool. For other conditions, the share of passes that wait is as recorded, and a wait
//! ends with a token: a group in which one thread does the work of all. So signals and passes limit
//! each other, and waits may last longer than recorded. If all threads wait, which can happen with
//! steps drawn at random, one of them continues without a token; such slips are counted.

use convoy_stats::Rng;

/// Steps of the threads of a program in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Classes of threads.
    pub classes: Vec<Class>,
    /// The conditions, by the index that steps use.
    pub conditions: Vec<Condition>,
}

/// Threads that do the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// Recorded number of threads.
    pub threads: u32,
    /// Recorded steps, in pieces that begin and end at the same place of the program.
    pub strips: Vec<Vec<Step>>,
    /// Relative frequency with which each piece is drawn; empty if all are drawn equally often.
    pub weights: Vec<f64>,
    /// Whether its threads rarely acquired a lock because they waited, so that their rate is not
    /// known: their acquisitions say nothing about the throughput.
    pub is_rare: bool,
    /// Whether the first step of its strips, a rest, is a guess: no thread called twice.
    pub is_guessed: bool,
    /// Place at which its threads call locking functions most often; empty if not known.
    pub place: String,
    /// Recorded acquisitions per second by all of its threads, without acquisitions that end a wait
    /// at a condition.
    pub acquired_per_s: f64,
}

/// Time until a thread calls again, if it was not recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Immediately.
    AtOnce,
    /// After this many nanoseconds of sleep.
    After(f64),
}

impl Class {
    /// Returns the mean work and sleep from an acquisition to its release, nanoseconds.
    pub fn held_ns(&self) -> f64 {
        let (mut held_ns, mut acquisitions) = (0.0, 0.0);
        for (at, strip) in self.strips.iter().enumerate() {
            let weight = self.weights.get(at).copied().unwrap_or(1.0);
            let mut held = 0_i32;
            for step in strip {
                match *step {
                    Step::Rest { work_ns, sleep_ns } if held > 0 => {
                        held_ns += weight * (work_ns + sleep_ns);
                    }
                    Step::Lock { .. } | Step::Read { .. } => {
                        held += 1;
                        acquisitions += weight;
                    }
                    Step::Unlock { .. } => held -= 1,
                    _ => {}
                }
            }
        }
        if acquisitions > 0.0 { held_ns / acquisitions } else { 0.0 }
    }

    /// Returns the mean work per acquisition, in critical sections and outside of them,
    /// nanoseconds.
    pub fn work_ns(&self) -> f64 {
        let (mut work, mut acquisitions) = (0.0, 0.0);
        for (at, strip) in self.strips.iter().enumerate() {
            let weight = self.weights.get(at).copied().unwrap_or(1.0);
            for step in strip {
                match *step {
                    Step::Rest { work_ns, .. } => work += weight * work_ns,
                    Step::Lock { .. } | Step::Read { .. } => acquisitions += weight,
                    _ => {}
                }
            }
        }
        if acquisitions > 0.0 { work / acquisitions } else { 0.0 }
    }

    /// Draws a strip.
    pub(super) fn draw(&self, rng: &mut Rng) -> &[Step] {
        let mut rank = rng.uniform() * self.weights.iter().sum::<f64>();
        let drawn = self.weights.iter().position(|weight| {
            rank -= weight;
            rank < 0.0
        });
        &self.strips[drawn.unwrap_or_else(|| rng.below(self.strips.len()))]
    }
}

/// A condition at which threads wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    /// Tokens at the beginning.
    pub tokens: f64,
    /// Largest number of tokens that remain if no thread waits; 0 if a signal without a waiter is
    /// lost. If it is infinite, passes count the tokens, and a broadcast brings one token as well.
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
    /// Acquires a lock, one of a name.
    Lock {
        /// The name.
        lock: usize,
        /// Which.
        of: u32,
    },
    /// Acquires a reader/writer lock together with other readers, one of a name.
    Read {
        /// The name.
        lock: usize,
        /// Which.
        of: u32,
    },
    /// Releases a lock.
    Unlock {
        /// The name.
        lock: usize,
        /// Which.
        of: u32,
    },
    /// Takes this many tokens. Until they are available, the lock that was acquired last is
    /// released if the condition has one.
    Wait {
        /// The condition.
        condition: usize,
        /// Tokens.
        tokens: f64,
        /// Whether a lock is released for the wait.
        is_within: bool,
        /// Nanoseconds after which the wait ends anyway; 0 for no limit.
        limit_ns: u64,
    },
    /// Brings a token.
    Signal {
        /// The condition.
        condition: usize,
        /// Whether all waiting threads are woken, each with a token.
        all: bool,
    },
    /// Waits until `places` threads have reached this step since it was passed last.
    Barrier {
        /// The barrier.
        barrier: usize,
        /// Number of threads, out of the recorded threads of the class.
        places: u32,
    },
    /// Yields the CPU.
    Yield,
}

impl Step {
    /// Returns the barrier of a barrier step, otherwise `None`.
    fn barrier(&self) -> Option<usize> {
        if let Self::Barrier { barrier, .. } = self { Some(*barrier) } else { None }
    }
}

impl Script {
    /// Returns whether the rate of calls of some class is a guess.
    pub fn has_guesses(&self) -> bool {
        self.classes.iter().any(|class| class.is_guessed)
    }

    /// Replaces the guesses by `pace`.
    pub fn guess(&mut self, pace: Pace) {
        let guessed = self.classes.iter_mut().filter(|class| class.is_guessed);
        for first in guessed.flat_map(|class| &mut class.strips).filter_map(|one| one.first_mut()) {
            if let Step::Rest { work_ns, sleep_ns } = first {
                *work_ns = 0.0;
                *sleep_ns = if let Pace::After(ns) = pace { ns } else { 0.0 };
            }
        }
    }

    /// Returns the number of threads of each class if there are `threads` in total: the recorded
    /// shares, and at least one of each class if there are enough.
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

    /// Returns the class of a thread, and the number of threads in it; `None` if there is no such
    /// thread.
    pub(super) fn class(&self, threads: u32, index: u32) -> Option<(&Class, u32)> {
        let mut end = 0;
        let shares = self.shares(threads);
        let found = shares.iter().position(|share| {
            end += share;
            index < end
        });
        found.map(|at| (&self.classes[at], shares[at]))
    }

    /// Returns the mean sleep per acquisition, nanoseconds.
    pub(super) fn slept_ns(&self) -> f64 {
        let strips = self.classes.iter().filter(|class| !class.is_rare);
        let steps = strips.flat_map(|class| &class.strips).flatten();
        let (mut slept_ns, mut acquisitions) = (0.0, 0.0);
        for step in steps {
            match *step {
                Step::Rest { sleep_ns, .. } => slept_ns += sleep_ns,
                Step::Lock { .. } | Step::Read { .. } => acquisitions += 1.0,
                _ => {}
            }
        }
        slept_ns / f64::max(acquisitions, 1.0)
    }

    /// Returns the number of barriers that steps use.
    pub(super) fn barriers(&self) -> usize {
        let strips = self.classes.iter().flat_map(|class| &class.strips);
        strips.flatten().filter_map(Step::barrier).max().map_or(0, |most| most + 1)
    }
}

/// Counts of waits at conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gates {
    /// Waits that ended.
    pub waits: u64,
    /// Returns of waiting threads, including returns that found nothing and waited again.
    pub returns: u64,
    /// Total time of the waits, nanoseconds.
    pub wait_ns: f64,
    /// Waits that ended without a token because no other thread could continue.
    pub slips: u64,
}
