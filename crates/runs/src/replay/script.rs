//! Scripts: what the threads of each class did step by step, replayed in that order. Locks lie
//! within each other as recorded, and threads wait on conditions for each other.
//!
//! A condition has tokens. Of one that is *counted*, each pass through a section that may wait
//! takes what a signal brings, and waits as long as that is not there: a bounded buffer, a flag, a
//! pool. Of others the share of passes that wait is the recorded one, and a wait ends with a token:
//! a group of which one thread does the work of all. So signals and passes limit each other, and
//! who waits longer than then does so here, too. If all threads wait, which steps drawn at random
//! may lead to, one goes on without a token; such slips are counted.

use convoy_stats::Rng;

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
    /// Whether its threads came so seldom, because they waited, that how often they come is not
    /// known: their acquisitions say nothing of the throughput.
    pub is_rare: bool,
    /// Whether the first step of its strips, a rest, is a guess: no thread came twice.
    pub is_guessed: bool,
    /// Where its threads call locking functions most often; empty: not known.
    pub place: String,
    /// Recorded acquisitions per second by all of its threads, without those that end a wait at a
    /// condition.
    pub acquired_per_s: f64,
}

/// How soon a thread comes back of which that is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At once.
    AtOnce,
    /// After as many nanoseconds of sleep.
    After(f64),
}

impl Class {
    /// Mean time from one acquisition to its release as far as it is work or sleep, nanoseconds.
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

    /// Mean work for each acquisition, in critical sections and outside of them, nanoseconds.
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

    /// Some strip.
    pub(super) fn draw(&self, rng: &mut Rng) -> &[Step] {
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
    /// Takes a reader/writer lock together with other readers: which one of a name.
    Read {
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
    /// Waits until so many threads have come to this step since it was passed last.
    Barrier {
        /// Which barrier.
        barrier: usize,
        /// Threads, of those that its class had when it was recorded.
        places: u32,
    },
    /// Lets others run.
    Yield,
}

impl Step {
    /// The barrier, if it is one.
    fn barrier(&self) -> Option<usize> {
        if let Self::Barrier { barrier, .. } = self { Some(*barrier) } else { None }
    }
}

impl Script {
    /// Whether how often the threads of some class come is a guess.
    pub fn has_guesses(&self) -> bool {
        self.classes.iter().any(|class| class.is_guessed)
    }

    /// Replaces the guesses.
    pub fn guess(&mut self, pace: Pace) {
        let guessed = self.classes.iter_mut().filter(|class| class.is_guessed);
        for first in guessed.flat_map(|class| &mut class.strips).filter_map(|one| one.first_mut()) {
            if let Step::Rest { work_ns, sleep_ns } = first {
                *work_ns = 0.0;
                *sleep_ns = if let Pace::After(ns) = pace { ns } else { 0.0 };
            }
        }
    }

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

    /// The class of a thread, and how many threads are in it.
    pub(super) fn class(&self, threads: u32, index: u32) -> Option<(&Class, u32)> {
        let mut end = 0;
        let shares = self.shares(threads);
        let found = shares.iter().position(|share| {
            end += share;
            index < end
        });
        found.map(|at| (&self.classes[at], shares[at]))
    }

    /// Sleep of each acquisition, nanoseconds.
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

    /// Barriers that steps name.
    pub(super) fn barriers(&self) -> usize {
        let strips = self.classes.iter().flat_map(|class| &class.strips);
        strips.flatten().filter_map(Step::barrier).max().map_or(0, |most| most + 1)
    }
}

/// What was waited for at conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gates {
    /// Waits that ended.
    pub waits: u64,
    /// Returns of waiting threads, those included that found nothing and waited again.
    pub returns: u64,
    /// Their time, nanoseconds.
    pub wait_ns: f64,
    /// Waits that ended without a token because nothing else could go on.
    pub slips: u64,
}
