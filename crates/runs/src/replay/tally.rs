//! Counts of a replay in its window: by place and by class of threads.

use std::cell::{Cell, RefCell};

use convoy_machine::Here;
use convoy_stats::{LogHistogram, jain};

use super::behaviour::{Behaviour, Mode};
use super::request::Replay;

/// One place: a section of a behaviour, or, in a script, the acquisitions of one name in one mode.
#[derive(Clone, Debug, Default)]
pub struct PlaceTally {
    /// The lock, an index of [`Behaviour::locks`].
    pub lock: usize,
    /// How it is held.
    pub mode: Mode,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Waits that ended with an acquisition, nanoseconds.
    pub waits: LogHistogram,
    /// Longest wait, nanoseconds, including waits that lasted when the window ended.
    pub longest_ns: u64,
}

/// Threads that do the same.
#[derive(Clone, Debug, Default)]
pub struct ClassTally {
    /// Acquisitions by each of its threads.
    pub acquisitions: Vec<u64>,
    /// Longest wait for a lock, nanoseconds, including waits that lasted when the window ended.
    pub longest_ns: u64,
    /// Time that its threads waited for locks within the window, nanoseconds.
    pub waited_ns: u64,
}

impl ClassTally {
    /// Returns Jain's index of its threads' acquisitions, from 1/n to 1; `None` without
    /// acquisitions.
    pub fn jain(&self) -> Option<f64> {
        jain(&self.acquisitions)
    }

    /// Returns the number of threads that acquired no lock.
    pub fn starved(&self) -> usize {
        self.acquisitions.iter().filter(|count| **count == 0).count()
    }
}

/// All counts of a replay.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The sections in order; for a script, the locks in order, and the modes of each.
    pub places: Vec<PlaceTally>,
    /// The classes in order; without a script, threads with the same sections form a class.
    pub classes: Vec<ClassTally>,
}

impl Tally {
    /// Returns the longest wait for a lock, nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.classes.iter().map(|class| class.longest_ns).max().unwrap_or(0)
    }

    /// Returns the time that threads waited for locks within the window, nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.classes.iter().map(|class| class.waited_ns).sum()
    }

    /// Returns the lowest of Jain's indices over all classes with more than one thread.
    pub fn jain(&self) -> Option<f64> {
        let of = |class: &ClassTally| class.jain().filter(|_| class.acquisitions.len() > 1);
        self.classes.iter().filter_map(of).min_by(f64::total_cmp)
    }
}

/// Counts while a replay runs. It is not in simulated memory and costs nothing there.
pub(super) struct Counts {
    tally: RefCell<Tally>,
    /// For each thread: its class and its number in the class, and, while it waits, the place and
    /// the start of the wait.
    threads: Vec<(usize, usize)>,
    waiting: RefCell<Vec<Option<(usize, u64)>>>,
    /// Acquisitions since the beginning.
    passed: Cell<u64>,
    /// Start of the window.
    begin_ns: Cell<u64>,
}

/// Returns the place of a lock and a mode in a script.
pub(super) fn place_of(lock: usize, mode: Mode) -> usize {
    2 * lock + usize::from(mode == Mode::Read)
}

impl Behaviour {
    /// Returns the places, with all counts zero.
    fn places(&self) -> Vec<PlaceTally> {
        let place = |lock, mode| PlaceTally { lock, mode, ..PlaceTally::default() };
        if self.script.is_none() {
            return self.sections.iter().map(|one| place(one.lock, one.mode)).collect();
        }
        let modes = |lock| [place(lock, Mode::Exclusive), place(lock, Mode::Read)];
        (0..self.locks.len()).flat_map(modes).collect()
    }

    /// Returns the class of each of `threads` threads.
    fn classes(&self, threads: u32) -> Vec<usize> {
        if let Some(script) = &self.script {
            let shares = script.shares(threads).into_iter().enumerate();
            return shares.flat_map(|(at, share)| (0..share).map(move |_| at)).collect();
        }
        let mut ends: Vec<u32> = self.sections.iter().map(|one| one.threads).collect();
        ends.sort_unstable();
        ends.dedup();
        let of = |index: u32| ends.partition_point(|end| *end <= index % self.threads.max(1));
        (0..threads).map(of).collect()
    }
}

impl Counts {
    pub(super) fn new(replay: &Replay) -> Self {
        let classes = replay.behaviour.classes(replay.threads);
        let count = classes.iter().max().map_or(0, |most| most + 1);
        let mut tally = Tally {
            places: replay.behaviour.places(),
            classes: vec![ClassTally::default(); count],
        };
        let mut number = |class: usize| {
            let shares = &mut tally.classes[class].acquisitions;
            shares.push(0);
            (class, shares.len() - 1)
        };
        let threads = classes.into_iter().map(&mut number).collect();
        let waiting = RefCell::new(vec![None; replay.threads as usize]);
        Self {
            tally: RefCell::new(tally),
            threads,
            waiting,
            passed: Cell::new(0),
            begin_ns: Cell::new(0),
        }
    }

    /// Starts the window.
    pub(super) fn begins(&self, now_ns: u64) {
        self.begin_ns.set(now_ns);
    }

    /// Returns the part of a wait that is within the window, nanoseconds.
    fn within(&self, wait_ns: u64, now_ns: u64) -> u64 {
        wait_ns.min(now_ns.saturating_sub(self.begin_ns.get()))
    }

    /// Records that a thread requests a lock.
    pub(super) fn asks(&self, thread: u32, place: usize, now_ns: u64) {
        self.waiting.borrow_mut()[thread as usize] = Some((place, now_ns));
    }

    /// Records that the thread has acquired the lock, before, in or after the window.
    pub(super) fn has(&self, thread: u32) {
        self.waiting.borrow_mut()[thread as usize] = None;
        self.passed.set(self.passed.get() + 1);
    }

    /// Records that the thread has acquired the lock again after a wait at a condition.
    pub(super) fn has_again(&self, thread: u32) {
        self.waiting.borrow_mut()[thread as usize] = None;
    }

    /// Returns the acquisitions since the beginning, including those before the window.
    pub(super) fn passed(&self) -> u64 {
        self.passed.get()
    }

    /// Counts an acquisition within the window, after a wait of `wait_ns`.
    pub(super) fn counts(&self, thread: u32, place: usize, wait_ns: u64) {
        let (class, number) = self.threads[thread as usize];
        let mut tally = self.tally.borrow_mut();
        tally.classes[class].acquisitions[number] += 1;
        tally.classes[class].waited_ns += self.within(wait_ns, Here::now_ns());
        tally.places[place].acquisitions += 1;
        drop(tally);
        self.waited(thread, place, wait_ns);
    }

    /// Counts a wait of `wait_ns` that ended within the window.
    pub(super) fn waited(&self, thread: u32, place: usize, wait_ns: u64) {
        let mut tally = self.tally.borrow_mut();
        let (class, _) = self.threads[thread as usize];
        let place = &mut tally.places[place];
        place.waits.record(wait_ns);
        place.longest_ns = place.longest_ns.max(wait_ns);
        tally.classes[class].longest_ns = tally.classes[class].longest_ns.max(wait_ns);
    }

    /// Returns the number of threads that wait for a lock.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting.borrow().iter().flatten().count() as u32
    }

    /// Returns the longest time for which a thread has been waiting, nanoseconds.
    pub(super) fn waits_for_ns(&self, now_ns: u64) -> u64 {
        let waiting = self.waiting.borrow();
        waiting.iter().flatten().map(|(_, since)| now_ns.saturating_sub(*since)).max().unwrap_or(0)
    }

    /// Counts the waits that have not ended at the end of the window, with their length so far.
    pub(super) fn ends(&self, now_ns: u64) {
        let mut tally = self.tally.borrow_mut();
        for (waits, &(class, _)) in self.waiting.borrow().iter().zip(&self.threads) {
            let Some((place, since)) = *waits else { continue };
            let ns = now_ns.saturating_sub(since);
            tally.places[place].longest_ns = tally.places[place].longest_ns.max(ns);
            let class = &mut tally.classes[class];
            class.longest_ns = class.longest_ns.max(ns);
            class.waited_ns += self.within(ns, now_ns);
        }
    }

    /// Returns the counts.
    pub(super) fn tally(&self) -> Tally {
        self.tally.borrow().clone()
    }
}
