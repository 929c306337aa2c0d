//! Readers of this process: their records, their sections, and those that are late.

use super::membarrier::Membarrier;
use super::periods::{Patience, Periods, Reader};
use crate::{Mutex, Native};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU64};
use core::time::Duration;

/// A grace period is reported as late after this time (`CONFIG_RCU_CPU_STALL_TIMEOUT`).
const STALL_NS: u64 = 21_000_000_000;

/// Time to spin before sleeping, longer than most critical sections: a running reader is done by
/// then, and a preempted one may wait for this very CPU.
pub(super) const SPIN_NS: u64 = 4_000;

/// One reader. Lives as long as the program, and is used again by other threads.
#[repr(C, align(128))]
pub(super) struct Record {
    reader: Reader<Native>,
    /// Where its section began.
    section: AtomicPtr<Location<'static>>,
    thread: Mutex<String>,
}

impl AsRef<Reader<Native>> for Record {
    fn as_ref(&self) -> &Reader<Native> {
        &self.reader
    }
}

impl Record {
    #[inline(always)]
    fn began_at(&self, place: &'static Location<'static>) {
        // Relaxed: for reports only, and it points to a constant.
        self.section.store(from_ref(place).cast_mut(), Relaxed);
    }
}

/// The records of the process.
pub(super) struct Registry {
    entering: Vec<&'static Record>,
    quiescent: Vec<&'static Record>,
    unused: Vec<&'static Record>,
    prepared: bool,
}

impl Registry {
    pub(super) const fn new() -> Self {
        Self { entering: Vec::new(), quiescent: Vec::new(), unused: Vec::new(), prepared: false }
    }

    /// Returns all readers, in `list`, and whether any of them enter critical sections.
    pub(super) fn readers(&self, mut list: Vec<&'static Record>) -> (Vec<&'static Record>, bool) {
        list.extend_from_slice(&self.entering);
        list.extend_from_slice(&self.quiescent);
        (list, !self.entering.is_empty())
    }

    fn record(&mut self) -> &'static Record {
        if !self.prepared {
            Membarrier::prepare();
            self.prepared = true;
        }
        let thread = std::thread::current();
        let name = thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned);
        let unused = self.unused.pop();
        let record = unused.unwrap_or_else(|| {
            Box::leak(Box::new(Record {
                reader: Reader::default(),
                section: AtomicPtr::new(null_mut()),
                thread: Mutex::new(String::new()),
            }))
        });
        *record.thread.lock() = name;
        record
    }

    fn retire(&mut self, record: &'static Record) {
        let others = |one: &&'static Record| !core::ptr::eq(*one, record);
        self.entering.retain(others);
        self.quiescent.retain(others);
        self.unused.push(record);
    }
}

/// Grace periods and readers of this process.
pub(super) struct Process {
    pub(super) periods: Periods<Native, Membarrier>,
    /// Held during a grace period.
    drive: Mutex<Vec<&'static Record>>,
    registry: Mutex<Registry>,
}

pub(super) static PROCESS: Process = Process {
    periods: Periods::native(),
    drive: Mutex::new(Vec::new()),
    registry: Mutex::new(Registry::new()),
};

impl Process {
    /// Waits for a grace period that begins from now on.
    pub(super) fn synchronize(&self, spin_ns: u64) {
        let ticket = self.periods.ticket();
        let mut list = self.drive.lock();
        if self.periods.poll(ticket) {
            return;
        }
        let patience = Patience { spin_ns, stall_ns: Some(stall_ns()) };
        let empty = core::mem::take(&mut *list);
        let readers = || self.registry.lock().readers(empty);
        *list = self.periods.run(readers, patience, report);
    }
}

/// Registration of the calling thread.
pub(super) struct Mine {
    record: Cell<Option<&'static Record>>,
    /// [`Registered`] of this thread, and sections inside of one another.
    handles: Cell<u32>,
    depth: Cell<u32>,
    /// [`Quiescent`] of this thread that are not offline.
    online: Cell<u32>,
    /// It is the thread that runs callbacks.
    pub(super) runs_callbacks: Cell<bool>,
}

thread_local! {
    // A constant initialiser and no destructor, so that a section costs no look whether it ran.
    pub(super) static MINE: Mine = const {
        Mine {
            record: Cell::new(None),
            handles: Cell::new(0),
            depth: Cell::new(0),
            online: Cell::new(0),
            runs_callbacks: Cell::new(false),
        }
    };
}

impl Mine {
    /// Returns whether a grace period can end while this thread waits for it.
    pub(super) fn is_outside(&self) -> bool {
        self.depth.get() == 0 && self.online.get() == 0
    }

    #[track_caller]
    pub(super) fn may_wait(&self, what: &str) {
        assert!(
            self.depth.get() == 0,
            "rcu::user::{what} inside a reader section would wait for itself: end the section first"
        );
        assert!(
            self.online.get() == 0,
            "rcu::user::{what} in a quiescent reader would wait for itself: use Quiescent::offline"
        );
    }
}

/// The calling thread may [`read`] while this lives.
#[derive(Debug)]
#[must_use = "the thread is registered as long as this lives"]
pub struct Registered(PhantomData<*const ()>);

/// Registers the calling thread (`rcu_register_thread`); costs a lock. More than once is as once.
pub fn register() -> Registered {
    MINE.with(|mine| {
        if mine.record.get().is_none() {
            let mut registry = PROCESS.registry.lock();
            let record = registry.record();
            registry.entering.push(record);
            mine.record.set(Some(record));
        }
        mine.handles.set(mine.handles.get() + 1);
    });
    Registered(PhantomData)
}

impl Drop for Registered {
    fn drop(&mut self) {
        MINE.with(|mine| {
            let handles = mine.handles.get() - 1;
            mine.handles.set(handles);
            if handles > 0 {
                return;
            }
            if mine.depth.get() > 0 {
                // I4: the record stays the thread's for good.
                assert!(
                    std::thread::panicking(),
                    "a thread left rcu::user inside a reader section: drop the section first"
                );
                return;
            }
            if let Some(record) = mine.record.take() {
                PROCESS.registry.lock().retire(record);
            }
        });
    }
}

/// A critical section of a reader: objects that it sees are not freed while it lives.
#[derive(Debug)]
#[must_use = "the section lasts as long as this lives"]
pub struct Section(PhantomData<*const ()>);

/// Begins a section (`rcu_read_lock`). Sections nest.
///
/// # Panics
///
/// If the thread has not [registered](register).
#[inline(always)]
#[track_caller]
pub fn read() -> Section {
    let place = Location::caller();
    MINE.with(|mine| {
        let depth = mine.depth.get();
        if depth == 0 {
            let Some(record) = mine.record.get() else { unregistered() };
            record.began_at(place);
            record.reader.enter(&PROCESS.periods);
        }
        mine.depth.set(depth + 1);
    });
    Section(PhantomData)
}

#[cold]
#[track_caller]
fn unregistered() -> ! {
    panic!(
        "rcu::user::read in a thread that has not registered: keep what rcu::user::register gives"
    )
}

impl Drop for Section {
    #[inline(always)]
    fn drop(&mut self) {
        MINE.with(|mine| {
            let depth = mine.depth.get() - 1;
            mine.depth.set(depth);
            if depth == 0
                && let Some(record) = mine.record.get()
            {
                record.reader.leave::<Membarrier>();
            }
        });
    }
}

/// A reader that is always inside but for the moments when it says otherwise.
#[must_use = "the thread is a reader as long as this lives"]
pub struct Quiescent {
    record: &'static Record,
    thread: PhantomData<*const ()>,
}

/// A section of a [`Quiescent`] reader; costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct QuiescentSection<'a>(PhantomData<&'a Quiescent>);

/// Makes the calling thread a quiescent-state reader. Every grace period waits until it says that
/// it is [quiescent](Quiescent::quiescent).
#[track_caller]
pub fn register_quiescent() -> Quiescent {
    let place = Location::caller();
    let mut registry = PROCESS.registry.lock();
    let record = registry.record();
    record.began_at(place);
    registry.quiescent.push(record);
    drop(registry);
    MINE.with(|mine| mine.online.set(mine.online.get() + 1));
    record.reader.arrive(&PROCESS.periods);
    Quiescent { record, thread: PhantomData }
}

impl Quiescent {
    /// Returns a critical section: objects that this thread sees are not freed while it lives.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "the section borrows it")]
    pub fn read(&self) -> QuiescentSection<'_> {
        QuiescentSection(PhantomData)
    }

    /// Reports that this thread holds no references now (`rcu_quiescent_state`). To be said often:
    /// at the end of each request, for instance.
    #[inline(always)]
    #[track_caller]
    pub fn quiescent(&mut self) {
        self.record.began_at(Location::caller());
        self.record.reader.pass(&PROCESS.periods);
    }

    /// Runs `body`, which may sleep and wait: grace periods do not wait for this thread in the
    /// meantime (`rcu_thread_offline`).
    #[track_caller]
    pub fn offline<T>(&mut self, body: impl FnOnce() -> T) -> T {
        struct Back<'a>(&'a Record, &'static Location<'static>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                MINE.with(|mine| mine.online.set(mine.online.get() + 1));
                self.0.began_at(self.1);
                self.0.reader.arrive(&PROCESS.periods);
            }
        }
        self.record.reader.leave::<Membarrier>();
        MINE.with(|mine| mine.online.set(mine.online.get() - 1));
        let _back = Back(self.record, Location::caller());
        body()
    }
}

impl Drop for Quiescent {
    fn drop(&mut self) {
        self.record.reader.leave::<Membarrier>();
        MINE.with(|mine| mine.online.set(mine.online.get() - 1));
        PROCESS.registry.lock().retire(self.record);
    }
}

impl fmt::Debug for Quiescent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quiescent").finish_non_exhaustive()
    }
}

/// A reader that a grace period has waited for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delayed {
    /// The name of its thread, or its number.
    pub thread: String,
    /// Where its section began; of a quiescent reader, where it was quiescent last.
    pub section: &'static Location<'static>,
}

impl fmt::Display for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} reads since {}", self.thread, self.section)
    }
}

type Tell = fn(&[Delayed]);

/// Callback for stalls, and its timeout.
struct Watch {
    limit_ns: AtomicU64,
    tell: Mutex<Option<Tell>>,
}

static WATCH: Watch = Watch { limit_ns: AtomicU64::new(STALL_NS), tell: Mutex::new(None) };

/// Makes the waiting thread call `tell` each time a grace period has waited for another `limit`.
/// Without it the limit is 21 s, and stalls are not reported. `tell` must not wait for a grace
/// period.
pub fn on_stall(limit: Duration, tell: fn(&[Delayed])) {
    *WATCH.tell.lock() = Some(tell);
    // Relaxed: a grace period that has begun may go by the old limit.
    WATCH.limit_ns.store(limit.as_nanos().try_into().unwrap_or(u64::MAX), Relaxed);
}

pub(super) fn stall_ns() -> u64 {
    // Relaxed: as in `on_stall`.
    WATCH.limit_ns.load(Relaxed)
}

pub(super) fn report(late: &[&'static Record]) {
    let tell = *WATCH.tell.lock();
    let Some(tell) = tell else { return };
    let delayed = late.iter().filter_map(|record| {
        // Relaxed: a report, and it points to a constant.
        let section = record.section.load(Relaxed);
        // SAFETY: null, or what `began_at` stored, which is constant.
        let section = unsafe { section.as_ref() }?;
        Some(Delayed { thread: record.thread.lock().clone(), section })
    });
    tell(&delayed.collect::<Vec<_>>());
}
