//! The cause of a wait: which thread owns the lock, where it acquired it, and for how much of the
//! wait it ran. Only waiting threads run this code. libc's lock contains the owner; the slot of the
//! owner contains the place of the acquisition, because each thread notes the keys of its last
//! acquisitions there ([`Thread::takes`]).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::arch;
use crate::file::index::{EVENTS_MAKING, EVENTS_NONE, EVENTS_READY, EVENTS_STATE, SLOT_OF};
use crate::file::map::{self, File, Slot, get, set};
use crate::file::pages;
use crate::layout::{
    EDGE_COUNT, EVENT_COUNT, Edge, FUTEX, KIND_SHIFT, MUTEX, Mapped, READ, SEMAPHORE, SLOW, Told,
    WAITS_SHIFT, WRITE, edge,
};
use crate::policy::mutex::{OWNER as MUTEX_OWNER, words};
use crate::system::calls::{self, CLOCK_GETTIME};
use crate::threads::lines::{self, Key};
use crate::threads::local::PRIVATE;
use crate::threads::thread::Thread;
use crate::waits::waiters::Waiters;

/// Offset of the thread ID of the writer in a reader/writer lock of glibc, in words of 32 bits.
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
            set(self.state().taken(kind, lock), key.address() as u64);
        }
    }

    /// Notes that the thread releases this lock. Its readers are found only by this note.
    #[inline(always)]
    pub(crate) fn leaves(self, kind: u64, lock: usize) {
        set(self.state().taken(kind, lock), 0);
    }

    /// Publishes that the thread waits for something without an owner.
    pub(crate) fn shows(self, kind: u64, word: usize, site: usize, detail: u64, now: u64) {
        let wait = &self.state().wait;
        // Published by the release store below.
        set(&wait.site, site as u64);
        set(&wait.since, now);
        set(&wait.owner, 0);
        set(&wait.held, 0);
        set(&wait.detail, detail);
        set(&wait.held_detail, 0);
        // Release: a reader that sees the lock sees the rest.
        wait.lock.store(word as u64 | kind << KIND_SHIFT, Release);
    }

    /// Publishes that the thread no longer waits.
    #[inline]
    pub(crate) fn shows_nothing(self) {
        set(&self.state().wait.lock, 0);
    }

    /// Publishes which thread a wait from `since` to `until` was for.
    fn ended(self, [since, until]: [u64; 2], lock: u64, owner: Option<&Owner>) {
        let count = &arch::local().ended;
        let number = get(count);
        set(count, number.wrapping_add(1));
        let ends = &self.state().ended;
        let end = &ends[number as usize % ends.len()];
        // A concurrent reader sees no wait.
        set(&end.since, 0);
        let held = owner.and_then(|owner| owner.held.as_ref()).map_or(0, |held| held.site);
        set(&end.owner, owner.map_or(0, |owner| owner.thread.into()));
        set(&end.until, until);
        set(&end.lock, lock);
        set(&end.held, held);
        // Release: a reader that sees the start sees the rest.
        end.since.store(since, Release);
    }

    /// Returns whether the owner's CPU time is read during a wait that begins now.
    fn measures(now: u64) -> bool {
        let next = MEASURES_NEXT.load(Relaxed);
        if now < get(&arch::local().measures_next) || now < next {
            return false;
        }
        // From half to one and a half of the mean, so that the readings do not synchronize with a
        // loop.
        let spread = now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let all_next = now + ALL_APART / 2 + spread % ALL_APART;
        if MEASURES_NEXT.compare_exchange(next, all_next, Relaxed, Relaxed).is_err() {
            return false;
        }
        set(&arch::local().measures_next, now + APART / 2 + spread % APART);
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
            set(&thread.state().wait.owner, owner.thread.into());
        }
        if let Some(held) = held {
            set(&thread.state().wait.held_detail, held.detail);
            set(&thread.state().wait.held, held.site);
        }
        let counted = held.map_or(0, Held::counted);
        let measured = owner.as_ref().filter(|_| Thread::measures(now));
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

    fn book(&self, file: &'static File, now: u64, ran_ns: Option<u64>, weight: u64) {
        let ticks = now.saturating_sub(self.begin);
        let Some(edge) = self.edge(file) else {
            // Relaxed, here and below: statistics that do not depend on each other.
            file.header.edges_lost.fetch_add(1, Relaxed);
            return;
        };
        // Relaxed, here and below: as above.
        edge.count.fetch_add(weight, Relaxed);
        edge.ticks.fetch_add(ticks * weight, Relaxed);
        if get(&edge.ticks_max) < ticks {
            edge.ticks_max.fetch_max(ticks, Relaxed);
        }
        if let Some(owner) = &self.owner {
            // A count that was restarted says nothing.
            let counted = owner.held.as_ref().map_or(0, Held::counted);
            let again = u64::from(counted.saturating_sub(self.counted));
            if again > 0 {
                edge.again.fetch_add(again * weight, Relaxed);
            }
            // Relaxed: as above.
            if u64::from(owner.thread) == get(&arch::local().thread_id) {
                edge.of_itself.fetch_add(weight, Relaxed);
            }
        }
        if let Some(ran_ns) = ran_ns {
            // Relaxed: as above.
            edge.measured.fetch_add(ticks, Relaxed);
            edge.ran_ns.fetch_add(ran_ns, Relaxed);
            self.event(file, now, ran_ns);
        }
    }

    /// Returns the edge of the wait, which is created for the first such wait. If there is no room,
    /// the edge of all locks of the place is used.
    fn edge(&self, file: &'static File) -> Option<&'static Edge<Mapped>> {
        let held = self.owner.as_ref().and_then(|owner| owner.held.as_ref());
        let (held, held_detail) = held.map_or((0, 0), |held| (held.site, held.detail));
        let (from, held_from) = (caller(file, self.detail), caller(file, held_detail));
        let detail = self.detail;
        let key = EdgeKey {
            lock: self.lock,
            site: self.site,
            held,
            from,
            held_from,
            detail,
            held_detail,
        };
        let kind = key.lock >> KIND_SHIFT << KIND_SHIFT;
        edge_of(file, &key).or_else(|| edge_of(file, &EdgeKey { lock: kind, ..key }))
    }

    /// Keeps the wait as part of the sample.
    fn event(&self, file: &'static File, now: u64, ran_ns: u64) {
        // Relaxed: the addition alone gives each wait a different number.
        let number = file.header.events.fetch_add(1, Relaxed);
        // The n-th wait gets a place with a probability of the number of places over n, so that in
        // the end each wait has the same chance.
        let spread = now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let place = if number < EVENT_COUNT as u64 { number } else { spread % (number + 1) };
        let event = file.events.get(place as usize).filter(|_| has_events(file));
        let Some(event) = event else { return };
        let owner = self.owner.as_ref();
        let held = owner.and_then(|owner| owner.held.as_ref());
        let owner = owner.map_or(0, |owner| u64::from(owner.thread));
        // Two threads may write the same entry, which then mixes two waits.
        set(&event.begin, self.begin);
        set(&event.end, now);
        set(&event.lock, self.lock);
        set(&event.site, self.site);
        set(&event.held, held.map_or(0, |held| held.site));
        set(&event.threads, get(&arch::local().thread_id) | owner << WAITS_SHIFT);
        set(&event.ran_ns, ran_ns + 1);
        set(&event.details, self.detail | held.map_or(0, |held| held.detail) << WAITS_SHIFT);
    }
}

/// Returns the owner of a lock, if it can be determined.
fn find(file: &'static File, me: Thread, kind: u64, lock: usize, now: u64) -> Option<Owner> {
    let thread = match kind {
        MUTEX => owner_of(lock),
        READ | WRITE => words(lock)[CURRENT_WRITER].load(Relaxed),
        SEMAPHORE => Waiters::known(lock).map_or(0, |waiters| owner_of_unit(file, waiters)),
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
fn owned_by(file: &'static File, thread: u32, kind: u64, lock: usize) -> Owner {
    let held = slot_of(file, thread).and_then(|(number, slot)| {
        held(file, number, slot, kind, lock).filter(|held| held.site >> KIND_SHIFT != READ)
    });
    Owner { thread, held }
}

/// Returns the thread that acquired a unit of the semaphore last.
fn owner_of_unit(file: &'static File, waiters: Waiters) -> u32 {
    let state = file.slots.get((waiters.owner() as usize).wrapping_sub(1)).map(|slot| &slot.state);
    let state = state.filter(|state| pages::is_reserved(file, *state));
    state.map_or(0, |state| get(&state.thread) as u32)
}

/// Returns one of the threads that hold a lock for reading, chosen at random.
fn reader(file: &'static File, me: Thread, lock: usize, now: u64) -> Option<Owner> {
    let used = (get(&file.header.slots) as usize).min(READERS);
    let first = (now >> 8) as usize;
    (0..used).map(|offset| (first + offset) % used).find_map(|number| {
        let slot = &file.slots[number];
        let state = &slot.state;
        if !pages::is_reserved(file, state) {
            return None;
        }
        // A thread has also noted the lock that it waits for.
        let waits = get(&state.wait.lock) << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
        if core::ptr::eq(slot, me.slot()) || waits == lock as u64 {
            return None;
        }
        let held = held(file, number, slot, READ, lock)?;
        let thread = get(&state.thread) as u32;
        (held.site >> KIND_SHIFT == READ).then_some(Owner { thread, held: Some(held) })
    })
}

/// Returns where the thread of a slot acquired the lock last.
fn held(
    file: &'static File,
    number: usize,
    slot: &'static Slot,
    kind: u64,
    lock: usize,
) -> Option<Held> {
    // The owner may change its notes at any time, with any ordering.
    let address = get(slot.state.taken(kind, lock)) as usize;
    let (key, count) = lines::key_at(file, number, slot, address)?;
    // So the lock of the key is compared. The rest may belong to an older acquisition: a wrong
    // site, which is rare.
    let key_lock = get(&key.lock);
    let kind = key_lock >> KIND_SHIFT;
    (key_lock == lock as u64 | kind << KIND_SHIFT).then(|| Held {
        site: get(&key.site) | kind << KIND_SHIFT,
        detail: Told(get(&key.told)).detail(),
        count: Some(count),
    })
}

/// Returns the nearest caller in a detail; 0 if unknown.
fn caller(file: &File, detail: u64) -> u64 {
    if detail == 0 { 0 } else { get(&file.details[detail as usize].callers[0]) }
}

/// The words that identify an edge, and the details of both places.
struct EdgeKey {
    lock: u64,
    site: u64,
    held: u64,
    from: u64,
    held_from: u64,
    detail: u64,
    held_detail: u64,
}

/// Returns the edge with this key, which is created if it is missing; none if there is no room.
fn edge_of(file: &'static File, key: &EdgeKey) -> Option<&'static Edge<Mapped>> {
    let first = edge(key.lock, key.site, key.held);
    for edge in (first..first + PROBES).map(|index| &file.edges[index % EDGE_COUNT]) {
        if !pages::has(file, edge) {
            return None;
        }
        // Acquire: pairs with the release of the thread that made the edge.
        let mut lock = edge.lock.load(Acquire);
        if lock == 0 {
            // Relaxed: the exchange claims the edge, and publishes nothing.
            match edge.lock.compare_exchange(0, MAKING, Relaxed, Acquire) {
                Ok(_) => {
                    set(&edge.site, key.site);
                    set(&edge.held, key.held);
                    set(&edge.from, key.from);
                    set(&edge.held_from, key.held_from);
                    set(&edge.detail, key.detail);
                    set(&edge.held_detail, key.held_detail);
                    // Release: pairs with the acquire load above.
                    edge.lock.store(key.lock, Release);
                    return Some(edge);
                }
                Err(other) => lock = other,
            }
        }
        // The acquire above has made the words of a finished edge visible.
        let places = [&edge.site, &edge.held, &edge.from, &edge.held_from].map(get);
        if lock == key.lock && places == [key.site, key.held, key.from, key.held_from] {
            return Some(edge);
        }
    }
    None
}

fn cpu_clock(thread: u32) -> usize {
    /// A clock of one thread that counts the time it was scheduled.
    const THREAD_SCHED: i32 = 6;
    ((!(thread as i32)) << 3 | THREAD_SCHED) as isize as usize
}

fn slot_of(file: &'static File, thread: u32) -> Option<(usize, &'static Slot)> {
    let entry = SLOT_OF[thread as usize % SLOT_OF.len()].load(Relaxed);
    let number = usize::from(entry).checked_sub(1)?;
    let slot = &file.slots[number];
    (get(&slot.state.thread) == u64::from(thread)).then_some((number, slot))
}

/// Returns the CPU time of a thread of this process, nanoseconds; none if it has ended.
fn cpu_ns(thread: u32) -> Option<u64> {
    let mut time = [0_u64; 2];
    let clock = cpu_clock(thread);
    let result = calls::call(CLOCK_GETTIME, [clock, (&raw mut time) as usize, 0, 0, 0, 0]);
    (result == 0).then(|| time[0] * 1_000_000_000 + time[1])
}

/// Returns whether there is room for events, which is made the first time.
fn has_events(file: &File) -> bool {
    // Acquire: pairs with the release store below. Relaxed: a thread that has made the room itself
    // sees its own store.
    let state = EVENTS_STATE.load(Acquire);
    let begins = state == EVENTS_NONE
        && EVENTS_STATE.compare_exchange(EVENTS_NONE, EVENTS_MAKING, Acquire, Relaxed).is_ok();
    if begins && pages::reserve(file, &file.events) {
        EVENTS_STATE.store(EVENTS_READY, Release);
    }
    // Relaxed: see above.
    begins && EVENTS_STATE.load(Relaxed) == EVENTS_READY || state == EVENTS_READY
}
