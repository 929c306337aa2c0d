//! The cause of a wait: which thread owns the lock, where it acquired it, and for how much of the
//! wait it ran. Only waiting threads run this code. libc's lock contains the owner; the slot of the
//! owner contains the place of the acquisition, because each thread notes the keys of its last
//! acquisitions there ([`Thread::takes`]).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::file::index::{EVENTS_MAKING, EVENTS_NONE, EVENTS_READY, EVENTS_STATE, SLOT_OF};
use crate::file::map::{self, Map, Slot};
use crate::file::pages;
use crate::layout::*;
use crate::policy::mutex::words;
use crate::system::calls::{self, CLOCK_GETTIME};
use crate::threads::lines::{self, Key};
use crate::threads::local::*;
use crate::threads::thread::Thread;
use crate::waits::waiters::Waiters;

// Offsets of the owner's thread ID in glibc, in words of 32 bits: in a mutex, and in a
// reader/writer lock that a writer owns.
const MUTEX_OWNER: usize = 2;
const CURRENT_WRITER: usize = 6;

/// Entries of the table of edges that are probed.
const PROBES: usize = 16;
/// Marks an edge that another thread is making.
const MAKING: u64 = u64::MAX;
/// Ticks between two waits of a thread during which the CPU time of the owner is read: some 100 us.
const APART: u64 = 1 << 18;
/// The same for all threads of the process, some 50 us. The two system calls of a reading take a
/// tenth of the time of a passage through a mutex for which 32 threads wait.
const ALL_APART: u64 = 1 << 17;
/// Number of slots that are searched for readers of a lock.
const READERS: usize = PRIVATE;

/// Time at which the CPU time of an owner may be read again.
static MEASURES_NEXT: AtomicU64 = AtomicU64::new(0);
/// The thread that a wait is for.
struct Owner {
    /// Its thread ID.
    thread: u32,
    /// Where it acquired the lock.
    held: Option<Held>,
}

/// Where an owner acquired a lock.
struct Held {
    /// The call site, with its kind.
    site: u64,
    detail: u64,
    /// Number of acquisitions there, if they are counted.
    count: Option<&'static AtomicU32>,
}

impl Held {
    fn counted(&self) -> u32 {
        self.count.map_or(0, |count| count.load(Relaxed) & !SLOW)
    }
}

/// A wait whose cause is being recorded.
pub(crate) struct Cause {
    thread: Thread,
    /// The lock with the kind of the call, the call site, and the detail of both.
    lock: u64,
    site: u64,
    detail: u64,
    owner: Option<Owner>,
    /// Acquisitions by the owner when the wait began.
    counted: u32,
    /// CPU time of the owner at that time, nanoseconds; none: not measured.
    ran_ns: Option<u64>,
    begin: u64,
}

impl Thread {
    /// Notes that the thread acquires this lock under this key.
    #[inline(always)]
    pub(crate) fn takes(self, kind: u64, lock: usize, key: Option<Key>) {
        if let Some(key) = key {
            self.0[taken(kind, lock)].store(key.address() as u64, Relaxed);
        }
    }

    /// Notes that the thread releases this lock. Its readers are found only by this note.
    #[inline(always)]
    pub(crate) fn leaves(self, kind: u64, lock: usize) {
        self.0[taken(kind, lock)].store(0, Relaxed);
    }

    /// Publishes that the thread waits for something without an owner.
    pub(crate) fn shows(self, kind: u64, word: usize, site: usize, detail: u64, now: u64) {
        for (at, value) in [
            (S_WAITS_SITE, site as u64),
            (S_WAITS_SINCE, now),
            (S_WAITS_OWNER, 0),
            (S_WAITS_HELD, 0),
            (S_WAITS_DETAIL, detail),
            (S_WAITS_HELD_DETAIL, 0),
        ] {
            // Relaxed: published by the release store below.
            self.0[at].store(value, Relaxed);
        }
        // Release: a reader that sees the lock sees the rest.
        self.0[S_WAITS].store(word as u64 | kind << KIND_SHIFT, Release);
    }

    /// Publishes that the thread no longer waits.
    #[inline]
    pub(crate) fn shows_nothing(self) {
        self.0[S_WAITS].store(0, Relaxed);
    }

    /// Publishes which thread a wait from `since` to `until` was for.
    fn ended(self, [since, until]: [u64; 2], lock: u64, owner: Option<&Owner>) {
        let number = self.own(O_ENDED);
        self.put(O_ENDED, number.wrapping_add(1));
        let at = S_ENDED + number as usize % ENDED_COUNT * ENDED_WORDS;
        // A concurrent reader sees no wait.
        self.0[at + N_SINCE].store(0, Relaxed);
        let held = owner.and_then(|owner| owner.held.as_ref()).map_or(0, |held| held.site);
        self.0[at + N_OWNER].store(owner.map_or(0, |owner| owner.thread.into()), Relaxed);
        self.0[at + N_UNTIL].store(until, Relaxed);
        self.0[at + N_LOCK].store(lock, Relaxed);
        self.0[at + N_HELD].store(held, Relaxed);
        // Release: a reader that sees the start sees the rest.
        self.0[at + N_SINCE].store(since, Release);
    }

    /// Returns whether the owner's CPU time is read during a wait that begins now.
    fn measures(self, now: u64) -> bool {
        let next = MEASURES_NEXT.load(Relaxed);
        if now < self.own(O_MEASURES_NEXT) || now < next {
            return false;
        }
        // From half to one and a half of the mean, so that the readings do not synchronize with a
        // loop.
        let spread = now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let all_next = now + ALL_APART / 2 + spread % ALL_APART;
        if MEASURES_NEXT.compare_exchange(next, all_next, Relaxed, Relaxed).is_err() {
            return false;
        }
        self.put(O_MEASURES_NEXT, now + APART / 2 + spread % APART);
        true
    }
}

impl Cause {
    /// Begins to record the cause of a wait for `lock`.
    pub(crate) fn begin(
        thread: Thread,
        kind: u64,
        lock: usize,
        site: usize,
        detail: u64,
        now: u64,
    ) -> Option<Self> {
        let file = map::file()?;
        thread.shows(kind, lock, site, detail, now);
        let owner = find(file, thread, kind, lock, now);
        let held = owner.as_ref().and_then(|owner| owner.held.as_ref());
        if let Some(owner) = &owner {
            thread.set(S_WAITS_OWNER, owner.thread.into());
        }
        if let Some(held) = held {
            thread.set(S_WAITS_HELD_DETAIL, held.detail);
            thread.set(S_WAITS_HELD, held.site);
        }
        let counted = held.map_or(0, Held::counted);
        let measured = owner.as_ref().filter(|_| thread.measures(now));
        let ran_ns = measured.and_then(|owner| cpu_ns(owner.thread));
        let lock = lock as u64 | kind << KIND_SHIFT;
        let site = site as u64;
        Some(Self { thread, lock, site, detail, owner, counted, ran_ns, begin: now })
    }

    /// Records a wait in futex(2) for `lock`, 0 for a word that only the thread waits on. Only the
    /// thread that ended the wait and the place from which it did so are known.
    pub(crate) fn of_wake(
        thread: Thread,
        lock: usize,
        site: usize,
        detail: u64,
        [begin, now]: [u64; 2],
        woken: Option<(u64, u64)>,
    ) {
        let Some(file) = map::file() else { return };
        let owner = woken.map(|(thread, site)| {
            let held = Held { site: site | FUTEX << KIND_SHIFT, detail: 0, count: None };
            Owner { thread: thread as u32, held: Some(held) }
        });
        let lock = lock as u64 | FUTEX << KIND_SHIFT;
        let site = site as u64;
        thread.ended([begin, now], lock, owner.as_ref());
        let this = Self { thread, lock, site, detail, owner, counted: 0, ran_ns: None, begin };
        this.book(file, now, None, 1);
    }

    /// Records a wait for a mutex that began when `owner` owned it, and turned out to be long.
    pub(crate) fn of_long(
        thread: Thread,
        kind: u64,
        lock: usize,
        site: usize,
        detail: u64,
        [begin, now]: [u64; 2],
        owner: u32,
    ) {
        let Some(file) = map::file() else { return };
        let owner = (owner != 0).then(|| owned_by(file, owner, kind, lock));
        // Acquisitions by the owner during the wait were not counted.
        let counted = owner.as_ref().and_then(|owner| owner.held.as_ref()).map_or(0, Held::counted);
        let lock = lock as u64 | kind << KIND_SHIFT;
        let site = site as u64;
        let this = Self { thread, lock, site, detail, owner, counted, ran_ns: None, begin };
        this.book(file, now, None, 1);
    }

    /// Records the wait, which has ended and represents `weight` waits.
    pub(crate) fn end(self, now: u64, weight: u64) {
        self.thread.shows_nothing();
        let Some(file) = map::file() else { return };
        let ran_ns = self
            .ran_ns
            .and_then(|before| Some(cpu_ns(self.owner.as_ref()?.thread)?.saturating_sub(before)));
        self.book(file, now, ran_ns, weight);
    }

    fn book(&self, file: &'static Map, now: u64, ran_ns: Option<u64>, weight: u64) {
        let ticks = now.saturating_sub(self.begin);
        let Some(edge) = self.edge(file) else {
            // Relaxed, here and below: statistics that do not depend on each other.
            file[H_EDGES_LOST].fetch_add(1, Relaxed);
            return;
        };
        let add = |at: usize, value: u64| {
            if value > 0 {
                edge[at].fetch_add(value, Relaxed);
            }
        };
        add(E_COUNT, weight);
        add(E_TICKS, ticks * weight);
        // Relaxed: see above.
        if edge[E_MOST].load(Relaxed) < ticks {
            edge[E_MOST].fetch_max(ticks, Relaxed);
        }
        if let Some(owner) = &self.owner {
            let again = owner.held.as_ref().map_or(0, |held| {
                // A count that was restarted says nothing.
                held.counted().saturating_sub(self.counted)
            });
            add(E_AGAIN, u64::from(again) * weight);
            let is_self = u64::from(owner.thread) == self.thread.own(O_THREAD);
            add(E_SELF, u64::from(is_self) * weight);
        }
        if let Some(ran_ns) = ran_ns {
            add(E_MEASURED, ticks);
            add(E_RAN_NS, ran_ns);
            self.event(file, now, ran_ns);
        }
    }

    /// Returns the edge of the wait, which is created for the first such wait. If there is no room,
    /// the edge of all locks of the place is used.
    fn edge(&self, file: &'static Map) -> Option<&'static [AtomicU64]> {
        let callers = |detail: u64| match detail {
            0 => 0,
            detail => file[DETAILS + detail as usize * DETAIL_WORDS + D_CALLERS].load(Relaxed),
        };
        let held = self.owner.as_ref().and_then(|owner| owner.held.as_ref());
        let (site, detail) = held.map_or((0, 0), |held| (held.site, held.detail));
        let of = [self.lock, self.site, site, callers(self.detail), callers(detail)];
        let found = edge_of(file, of, [self.detail, detail]);
        found.or_else(|| {
            let [lock, rest @ ..] = of;
            let kind = lock >> KIND_SHIFT << KIND_SHIFT;
            let [a, b, c, d] = rest;
            edge_of(file, [kind, a, b, c, d], [self.detail, detail])
        })
    }

    /// Keeps the wait as part of the sample.
    fn event(&self, file: &'static Map, now: u64, ran_ns: u64) {
        let number = file[H_EVENTS].fetch_add(1, Relaxed);
        // The n-th wait gets a place with a probability of the number of places over n, so that in
        // the end each wait has the same chance.
        let spread = now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let at = if number < EVENT_COUNT as u64 { number } else { spread % (number + 1) };
        if at >= EVENT_COUNT as u64 || !has_events(file) {
            return;
        }
        let owner = self.owner.as_ref();
        let held = owner.and_then(|owner| owner.held.as_ref());
        let words = &file[EVENTS + at as usize * EVENT_WORDS..][..EVENT_WORDS];
        let owner = owner.map_or(0, |owner| u64::from(owner.thread));
        for (word, value) in [
            (V_BEGIN, self.begin),
            (V_END, now),
            (V_LOCK, self.lock),
            (V_SITE, self.site),
            (V_HELD, held.map_or(0, |held| held.site)),
            (V_THREADS, self.thread.own(O_THREAD) | owner << WAITS_SHIFT),
            (V_RAN_NS, ran_ns + 1),
            (V_DETAILS, self.detail | held.map_or(0, |held| held.detail) << WAITS_SHIFT),
        ] {
            // Relaxed: two threads may write the same entry, which then mixes two waits.
            words[word].store(value, Relaxed);
        }
    }
}

/// Returns the owner of a lock, if it can be determined.
fn find(file: &'static Map, me: Thread, kind: u64, lock: usize, now: u64) -> Option<Owner> {
    let thread = match kind {
        MUTEX => owner_of(lock),
        READ | WRITE => words(lock)[CURRENT_WRITER].load(Relaxed),
        SEMAPHORE => Waiters::known(lock).map_or(0, |all| owner_of_unit(file, all)),
        _ => 0,
    };
    if thread == 0 {
        return if kind == WRITE { reader(file, me, lock, now) } else { None };
    }
    Some(owned_by(file, thread, kind, lock))
}

/// Returns the thread that owns a mutex, 0 if none does.
#[inline(always)]
pub(crate) fn owner_of(mutex: usize) -> u32 {
    words(mutex)[MUTEX_OWNER].load(Relaxed)
}

/// Returns a thread as the owner of a lock, with the place where it acquired the lock.
fn owned_by(file: &'static Map, thread: u32, kind: u64, lock: usize) -> Owner {
    let held = slot_of(file, thread).and_then(|(number, slot)| {
        held(file, number, slot, kind, lock).filter(|held| held.site >> KIND_SHIFT != READ)
    });
    Owner { thread, held }
}

/// Returns the thread that acquired a unit of the semaphore last.
fn owner_of_unit(file: &'static Map, all: Waiters) -> u32 {
    let number = (all.owner() as usize).checked_sub(1).filter(|number| *number < SLOT_COUNT);
    let number = number.filter(|number| pages::is_there(SLOTS + number * SLOT_WORDS));
    number.map_or(0, |number| map::slot(file, number)[S_THREAD].load(Relaxed) as u32)
}

/// Returns one of the threads that hold a lock for reading, chosen at random.
fn reader(file: &'static Map, me: Thread, lock: usize, now: u64) -> Option<Owner> {
    let used = (file[H_SLOTS].load(Relaxed) as usize).min(READERS);
    let first = (now >> 8) as usize;
    let there = |number: &usize| pages::is_there(SLOTS + number * SLOT_WORDS);
    (0..used).map(|at| (first + at) % used).filter(there).find_map(|number| {
        let slot = map::slot(file, number);
        // A thread has also noted the lock that it waits for.
        let waits = slot[S_WAITS].load(Relaxed) << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
        if core::ptr::eq(slot, me.0) || waits == lock as u64 {
            return None;
        }
        let held = held(file, number, slot, READ, lock)?;
        let thread = slot[S_THREAD].load(Relaxed) as u32;
        (held.site >> KIND_SHIFT == READ).then_some(Owner { thread, held: Some(held) })
    })
}

/// Returns where the thread of a slot acquired the lock last.
fn held(
    file: &'static Map,
    number: usize,
    slot: &'static Slot,
    kind: u64,
    lock: usize,
) -> Option<Held> {
    // Relaxed: the owner may change its notes at any time, with any ordering.
    let address = slot[taken(kind, lock)].load(Relaxed) as usize;
    let (words, count) = lines::at(file, number, slot, address)?;
    // Relaxed: so the lock of the key is compared. The rest may belong to an older acquisition: a
    // wrong site, which is rare.
    let known = words[K_LOCK].load(Relaxed);
    let kind = known >> KIND_SHIFT;
    (known == lock as u64 | kind << KIND_SHIFT).then(|| Held {
        site: words[K_SITE].load(Relaxed) | kind << KIND_SHIFT,
        detail: Told(words[K_DETAIL].load(Relaxed)).detail(),
        count: Some(count),
    })
}

/// Returns the edge with these words from [`E_LOCK`] on, which is created if it is missing;
/// none if there is no room.
fn edge_of(file: &'static Map, of: [u64; 5], details: [u64; 2]) -> Option<&'static [AtomicU64]> {
    let first = edge(of[0], of[1], of[2]);
    for at in (first..first + PROBES).map(|at| at % EDGE_COUNT) {
        if !pages::has(file, EDGES + at * EDGE_WORDS, EDGE_WORDS) {
            return None;
        }
        let words = &file[EDGES + at * EDGE_WORDS..][..EDGE_WORDS];
        let own = &words[E_LOCK];
        // Acquire: pairs with the release of the thread that made the edge.
        let mut found = own.load(Acquire);
        if found == 0 {
            match own.compare_exchange(0, MAKING, Relaxed, Acquire) {
                Ok(_) => {
                    let rest = of[1..].iter().chain(&details);
                    for (word, value) in words[E_SITE..].iter().zip(rest) {
                        // Relaxed: published by the release store below, which pairs with the
                        // acquire load above.
                        word.store(*value, Relaxed);
                    }
                    own.store(of[0], Release);
                    return Some(words);
                }
                Err(other) => found = other,
            }
        }
        // Relaxed: the acquire above has made the words of a finished edge visible.
        let same = |(word, value): (&AtomicU64, &u64)| word.load(Relaxed) == *value;
        if found == of[0] && words[E_SITE..].iter().zip(&of[1..]).all(same) {
            return Some(words);
        }
    }
    None
}

/// Returns the clock of the CPU time of a thread.
fn cpu_clock(thread: u32) -> usize {
    /// A clock of one thread that counts the time it was scheduled.
    const THREAD_SCHED: i32 = 6;
    ((!(thread as i32)) << 3 | THREAD_SCHED) as isize as usize
}

/// Returns the slot of a thread, with its number.
fn slot_of(file: &'static Map, thread: u32) -> Option<(usize, &'static Slot)> {
    let known = SLOT_OF[thread as usize % SLOT_OF.len()].load(Relaxed);
    let number = usize::from(known).checked_sub(1)?;
    let slot = map::slot(file, number);
    (slot[S_THREAD].load(Relaxed) == u64::from(thread)).then_some((number, slot))
}

/// Returns the CPU time of a thread of this process, nanoseconds; none if it has ended.
fn cpu_ns(thread: u32) -> Option<u64> {
    let mut time = [0_u64; 2];
    let clock = cpu_clock(thread);
    let result = calls::call(CLOCK_GETTIME, [clock, (&raw mut time) as usize, 0, 0, 0, 0]);
    (result == 0).then(|| time[0] * 1_000_000_000 + time[1])
}

/// Returns whether there is room for events, which is made the first time.
fn has_events(file: &Map) -> bool {
    // Acquire: pairs with the release store below. Relaxed: a thread that has made the room itself
    // sees its own store.
    let state = EVENTS_STATE.load(Acquire);
    let begins = state == EVENTS_NONE
        && EVENTS_STATE.compare_exchange(EVENTS_NONE, EVENTS_MAKING, Acquire, Relaxed).is_ok();
    if begins && pages::reserve(file, EVENTS, EVENT_COUNT * EVENT_WORDS) {
        EVENTS_STATE.store(EVENTS_READY, Release);
    }
    // Relaxed: see above.
    begins && EVENTS_STATE.load(Relaxed) == EVENTS_READY || state == EVENTS_READY
}
