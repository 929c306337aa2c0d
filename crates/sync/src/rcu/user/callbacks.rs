//! Callbacks: a list for each CPU, and the thread that runs them after a grace period.

use super::super::Barrier;
use super::registry::{MINE, PROCESS, SPIN_NS};
use crate::{Mutex, Native, Platform, Sleep};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// Lists; CPUs beyond share them.
const LISTS: usize = 32;
/// Callbacks of the process that may wait unless [`limit`] says otherwise: 2 MB of lists.
const LIMIT: usize = 65_536;
/// Number of callbacks after which one caller that waits for space is woken.
const CHUNK: usize = 1024;

/// A callback: data, and the function for it.
struct Callback {
    data: *mut (),
    run: unsafe fn(*mut ()),
}

// SAFETY: `call` and `free` make it from values that are `Send`.
unsafe impl Send for Callback {}

impl Callback {
    fn new<F: FnOnce() + Send + 'static>(body: F) -> Self {
        /// # Safety
        ///
        /// `data` is a `Box<F>`, which this consumes.
        unsafe fn run<F: FnOnce()>(data: *mut ()) {
            // SAFETY: as demanded.
            let body = unsafe { Box::from_raw(data.cast::<F>()) };
            body();
        }
        Self { data: Box::into_raw(Box::new(body)).cast(), run: run::<F> }
    }

    fn free<T: Send + 'static>(value: Box<T>) -> Self {
        /// # Safety
        ///
        /// `data` is a `Box<T>`, which this consumes.
        unsafe fn run<T>(data: *mut ()) {
            // SAFETY: as demanded.
            drop(unsafe { Box::from_raw(data.cast::<T>()) });
        }
        Self { data: Box::into_raw(value).cast(), run: run::<T> }
    }

    fn run(self) {
        // SAFETY: `run` was chosen for `data`, and consumes it here, once.
        let body = || unsafe { (self.run)(self.data) };
        // A panic has been reported by then; the other callbacks run nevertheless.
        let _panicked = catch_unwind(AssertUnwindSafe(body));
    }
}

/// The callbacks of a CPU.
struct Queue {
    waiting: Vec<Callback>,
    /// Those that the thread has taken and not run.
    taken: usize,
    /// Callers that wait for room.
    callers: u32,
}

#[repr(align(128))]
struct List {
    queue: Mutex<Queue>,
    /// Goes up when there is room again.
    room: AtomicU32,
}

impl List {
    const fn new() -> Self {
        let queue = Queue { waiting: Vec::new(), taken: 0, callers: 0 };
        Self { queue: Mutex::new(queue), room: AtomicU32::new(0) }
    }

    /// Puts `callback` at the end; waits until the list is shorter than `most` first.
    fn add(&self, callback: Callback, most: usize) {
        let mut queue = self.queue.lock();
        while queue.waiting.len() + queue.taken >= most {
            // Relaxed: written under the lock.
            let room = self.room.load(Relaxed);
            queue.callers += 1;
            drop(queue);
            Native::wait(&self.room, room, Sleep::Uninterruptible, None);
            queue = self.queue.lock();
        }
        queue.waiting.push(callback);
    }

    /// `count` of those taken have run. Wakes one caller that waits for space, because it fills the
    /// space quickly; after the last callback of a batch wakes all, so that no caller is left.
    fn settle(&self, count: usize) {
        let mut queue = self.queue.lock();
        queue.taken -= count;
        let going = if queue.taken == 0 { queue.callers } else { queue.callers.min(1) };
        if going > 0 {
            queue.callers -= going;
            // Relaxed: under the lock.
            self.room.fetch_add(1, Relaxed);
            // Others want the lock, and a wake-up is a system call.
            drop(queue);
            Native::wake(&raw const self.room, going as usize);
        }
    }
}

/// The lists, and the thread.
struct Work {
    lists: [List; LISTS],
    limit: AtomicUsize,
    /// The thread sleeps, or is about to.
    asleep: AtomicU32,
}

/// Callbacks of this process.
static WORK: Work = Work::new();

impl Work {
    const fn new() -> Self {
        let lists = [const { List::new() }; LISTS];
        Self { lists, limit: AtomicUsize::new(LIMIT), asleep: AtomicU32::new(0) }
    }

    /// Callbacks that may wait in one list.
    fn share(&self) -> usize {
        static CPUS: OnceLock<usize> = OnceLock::new();
        let cpus = CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, Into::into));
        // Relaxed: a number by itself.
        (self.limit.load(Relaxed) / (*cpus).min(LISTS)).max(1)
    }

    fn add(&'static self, callback: Callback) {
        let may_wait = MINE.with(|mine| mine.is_outside() && !mine.runs_callbacks.get());
        self.add_within(callback, if may_wait { self.share() } else { usize::MAX });
    }

    fn add_within(&'static self, callback: Callback, most: usize) {
        self.lists[Native::cpu() as usize % LISTS].add(callback, most);
        self.rouse();
    }

    /// Wakes the thread, or starts it.
    fn rouse(&'static self) {
        static THREAD: OnceLock<()> = OnceLock::new();
        THREAD.get_or_init(|| {
            let builder = std::thread::Builder::new().name("rcu".to_owned());
            let thread = builder.spawn(|| self.serve());
            assert!(thread.is_ok(), "no thread for the callbacks of RCU: see `ulimit -u`");
        });
        // Relaxed, both: a list's lock lies between the thread's store and its read of that list,
        // and between our callback and this read. A callback that the thread has not seen finds it
        // asleep.
        if self.asleep.load(Relaxed) != 0 && self.asleep.swap(0, Relaxed) != 0 {
            Native::wake(&raw const self.asleep, 1);
        }
    }

    fn serve(&self) {
        MINE.with(|mine| mine.runs_callbacks.set(true));
        let mut batches = [const { Vec::new() }; LISTS];
        loop {
            if !self.take(&mut batches) {
                // Relaxed: see `rouse`.
                self.asleep.store(1, Relaxed);
                if !self.take(&mut batches) {
                    Native::wait(&self.asleep, 1, Sleep::Uninterruptible, None);
                    continue;
                }
                // Relaxed: a caller that has found it set wakes no thread.
                self.asleep.store(0, Relaxed);
            }
            PROCESS.synchronize(SPIN_NS);
            for (list, batch) in self.lists.iter().zip(&mut batches) {
                let mut due = batch.drain(..);
                while due.len() > 0 {
                    let count = due.by_ref().take(CHUNK).map(Callback::run).count();
                    list.settle(count);
                }
            }
        }
    }

    /// Takes all callbacks into `batches`, which are empty. Returns whether there were any.
    fn take(&self, batches: &mut [Vec<Callback>; LISTS]) -> bool {
        for (list, batch) in self.lists.iter().zip(&mut *batches) {
            let mut queue = list.queue.lock();
            core::mem::swap(&mut queue.waiting, batch);
            queue.taken = batch.len();
        }
        batches.iter().any(|batch| !batch.is_empty())
    }
}

/// Runs `body` after a grace period, in the thread of the callbacks (`call_rcu`). Callbacks of one
/// CPU run in order. While too many wait ([`limit`]) the caller waits first, and so for sections,
/// as [`super::synchronize`] does; unless it is in a section itself, in a callback or a
/// [`super::Quiescent`] reader.
pub fn call(body: impl FnOnce() + Send + 'static) {
    WORK.add(Callback::new(body));
}

/// Sees to a grace period; waits for nothing.
pub(super) fn ask() {
    WORK.add_within(Callback::new(|| ()), usize::MAX);
}

/// Drops `value` after a grace period (`kfree_rcu`); as [`call`], without allocating memory.
pub fn free<T: Send + 'static>(value: Box<T>) {
    WORK.add(Callback::free(value));
}

/// Lets at most about `callbacks` wait, in equal parts on each CPU; 65 536 to begin with. Callers
/// that wait already go by the old number until there is room.
pub fn limit(callbacks: usize) {
    // Relaxed: a number by itself.
    WORK.limit.store(callbacks, Relaxed);
}

/// Waits until all callbacks have run that were queued before (`rcu_barrier`).
///
/// # Panics
///
/// Inside a section, in a [`super::Quiescent`] reader that is not offline, and in a callback: it
/// would wait for itself.
#[track_caller]
pub fn barrier() {
    MINE.with(|mine| {
        mine.may_wait("barrier");
        assert!(
            !mine.runs_callbacks.get(),
            "rcu::user::barrier in a callback would wait for itself: call it in another thread"
        );
    });
    let barrier = Arc::new(Barrier::<Native>::default());
    for list in &WORK.lists {
        barrier.join();
        let mine = Arc::clone(&barrier);
        list.add(Callback::new(move || mine.leave()), usize::MAX);
    }
    WORK.rouse();
    barrier.leave();
    barrier.wait();
}
