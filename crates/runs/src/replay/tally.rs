//! What a replay counts in its window: for each place and for each class of threads.

use std::cell::{Cell, RefCell};

use convoy_machine::Here;
use convoy_stats::{LogHistogram, jain};

use super::behaviour::{Behaviour, Mode};
use super::request::Replay;

/// One place: a section of a behaviour, or of a script the acquisitions of one name in one mode.
#[derive(Clone, Debug, Default)]
pub struct PlaceTally {
    /// The lock, an index of [`Behaviour::locks`].
    pub lock: usize,
    /// How it is held.
    pub mode: Mode,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Waits that ended with the lock, nanoseconds.
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
    /// Jain's index of its threads' acquisitions, from 1/n to 1; `None` without any.
    pub fn jain(&self) -> Option<f64> {
        jain(&self.acquisitions)
    }

    /// Threads that acquired no lock.
    pub fn starved(&self) -> usize {
        self.acquisitions.iter().filter(|count| **count == 0).count()
    }
}

/// All that was counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The sections in their order; of a script, the locks in their order and of each the modes.
    pub places: Vec<PlaceTally>,
    /// Classes in their order; of sections, threads with the same sections are a class.
    pub classes: Vec<ClassTally>,
}

impl Tally {
    /// Longest wait for a lock, nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.classes.iter().map(|class| class.longest_ns).max().unwrap_or(0)
    }

    /// Time that threads waited for locks within the window, nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.classes.iter().map(|class| class.waited_ns).sum()
    }

    /// Least index of Jain over all classes of more than one thread.
    pub fn jain(&self) -> Option<f64> {
        let of = |class: &ClassTally| class.jain().filter(|_| class.acquisitions.len() > 1);
        self.classes.iter().filter_map(of).min_by(f64::total_cmp)
    }
}

/// Counts while a replay runs. It lies in no simulated memory and costs nothing there.
pub(super) struct Counts {
    tally: RefCell<Tally>,
    /// Of each thread its class, which one of it, and since when it waits at which place.
    threads: Vec<(usize, usize)>,
    waiting: RefCell<Vec<Option<(usize, u64)>>>,
    /// Acquisitions since the beginning.
    passed: Cell<u64>,
    /// When the window began.
    begin_ns: Cell<u64>,
}

/// The place of a lock and a mode in a script.
pub(super) fn place_of(lock: usize, mode: Mode) -> usize {
    2 * lock + usize::from(mode == Mode::Read)
}

impl Behaviour {
    /// The places, with nothing counted.
    fn places(&self) -> Vec<PlaceTally> {
        let place = |lock, mode| PlaceTally { lock, mode, ..PlaceTally::default() };
        if self.script.is_none() {
            return self.sections.iter().map(|one| place(one.lock, one.mode)).collect();
        }
        let modes = |lock| [place(lock, Mode::Exclusive), place(lock, Mode::Read)];
        (0..self.locks.len()).flat_map(modes).collect()
    }

    /// The class of each of `threads` threads.
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

    /// The window begins.
    pub(super) fn begins(&self, now_ns: u64) {
        self.begin_ns.set(now_ns);
    }

    /// The part of a wait that lies within the window, nanoseconds.
    fn within(&self, wait_ns: u64, now_ns: u64) -> u64 {
        wait_ns.min(now_ns.saturating_sub(self.begin_ns.get()))
    }

    /// A thread asks for a lock.
    pub(super) fn asks(&self, thread: u32, place: usize, now_ns: u64) {
        self.waiting.borrow_mut()[thread as usize] = Some((place, now_ns));
    }

    /// The thread has it, and nothing is counted as yet or any more.
    pub(super) fn has(&self, thread: u32) {
        self.waiting.borrow_mut()[thread as usize] = None;
        self.passed.set(self.passed.get() + 1);
    }

    /// The thread has it again after a wait at a condition.
    pub(super) fn has_again(&self, thread: u32) {
        self.waiting.borrow_mut()[thread as usize] = None;
    }

    /// Acquisitions since the beginning, those before the window included.
    pub(super) fn passed(&self) -> u64 {
        self.passed.get()
    }

    /// The thread has it after so long, within the window.
    pub(super) fn counts(&self, thread: u32, place: usize, wait_ns: u64) {
        let (class, number) = self.threads[thread as usize];
        let mut tally = self.tally.borrow_mut();
        tally.classes[class].acquisitions[number] += 1;
        tally.classes[class].waited_ns += self.within(wait_ns, Here::now_ns());
        tally.places[place].acquisitions += 1;
        drop(tally);
        self.waited(thread, place, wait_ns);
    }

    /// The thread has waited for so long, within the window.
    pub(super) fn waited(&self, thread: u32, place: usize, wait_ns: u64) {
        let mut tally = self.tally.borrow_mut();
        let (class, _) = self.threads[thread as usize];
        let place = &mut tally.places[place];
        place.waits.record(wait_ns);
        place.longest_ns = place.longest_ns.max(wait_ns);
        tally.classes[class].longest_ns = tally.classes[class].longest_ns.max(wait_ns);
    }

    /// Threads that wait for a lock.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting.borrow().iter().flatten().count() as u32
    }

    /// How long the thread that has waited for longest has waited, nanoseconds.
    pub(super) fn waits_for_ns(&self, now_ns: u64) -> u64 {
        let waiting = self.waiting.borrow();
        waiting.iter().flatten().map(|(_, since)| now_ns.saturating_sub(*since)).max().unwrap_or(0)
    }

    /// Counts the waits that last at the end of the window as long as they have lasted.
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

    /// What was counted.
    pub(super) fn tally(&self) -> Tally {
        self.tally.borrow().clone()
    }
}
