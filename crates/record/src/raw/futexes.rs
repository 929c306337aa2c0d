//! Waits in futex(2) that a process recorded itself, because they went through libc's `syscall`:
//! locks of Rust's standard library, `parking_lot`, folly and others. Their kind follows from the
//! functions on the call stack, or else from the threads that wake the waiters.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::{BROADCAST, CONTEXT, Edge, FUTEX, KIND_SHIFT};
use crate::names::wrappers::{is_of_locks, passes_on};
use crate::names::{Names, families};
use crate::raw::contention::Seen;
use crate::raw::runtime_locks::{Context, Waits, name, only_waits};
use crate::record::merge::sorted;
use crate::record::origin::Origin;
use crate::record::{Kind, Lock, Site, total};

/// Bit in the number of a call stack that marks a wait in futex(2).
const WORDS: u64 = 1 << 32;
/// Bit that marks a call that woke several threads.
const WAKES: u64 = 1 << 33;

/// Returns the number that [`Waits`] uses for the call stack at a site.
pub(crate) fn number(kind: u64, site: u64) -> u64 {
    let bit = match kind {
        FUTEX => WORDS,
        BROADCAST => WAKES,
        _ => 0,
    };
    site & !CONTEXT | bit
}

/// The lock operation that a call stack performs.
#[derive(Clone)]
pub(crate) struct Use {
    pub(crate) kind: Kind,
    origin: Origin,
    pub(crate) act: &'static str,
    pub(crate) place: String,
    /// The functions that led there, outermost first.
    callers: Vec<String>,
    /// Addresses of the functions on its stack, from the first that does more than wait or wake.
    functions: Vec<u64>,
    /// Whether each thread waits for a lock at a word of its own, as with `parking_lot`.
    parks: bool,
}

/// Call stacks of the wakeups of each word, by address of the word.
pub(crate) type Wakers = BTreeMap<u64, BTreeSet<u64>>;

/// Returns the wakers in the causes of waits.
pub(crate) fn wakers(edges: &[Edge]) -> Wakers {
    let low = |word: u64| word << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
    let mut wakers = Wakers::new();
    let is_woken = |edge: &&Edge| edge.lock >> KIND_SHIFT == FUTEX && edge.held & CONTEXT != 0;
    for edge in edges.iter().filter(is_woken) {
        wakers.entry(low(edge.lock)).or_default().insert(low(edge.held));
    }
    wakers
}

/// Operations of the call stacks that call futex(2), and the locks that they operate on.
#[derive(Default)]
pub(crate) struct Futexes {
    uses: BTreeMap<u64, Use>,
    /// Names and kinds by call stack and address.
    called: BTreeMap<(u64, u64), (String, Kind)>,
}

/// Returns the kind of lock and the operation, from the names of functions, innermost first.
fn of_names(inner: &[String]) -> (Kind, &'static str) {
    let low: Vec<String> = inner.iter().map(|name| name.to_ascii_lowercase()).collect();
    // Barriers are built from a mutex and a condition, so they are checked first.
    if low.iter().any(|name| name.contains("barrier")) {
        return (Kind::Barrier, "wait");
    }
    for name in &low {
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let last = name.rsplit("::").next().unwrap_or(name);
        // A writer waits for readers.
        let reads = (last.contains("read") || last.contains("shared")) && !last.contains("readers");
        if has(&["rwlock", "sharedmutex", "shared_mutex"]) {
            return (Kind::Rwlock, if reads { "read" } else { "write" });
        }
        if has(&["mutex", "microlock"]) {
            return (Kind::Mutex, "lock");
        }
        if has(&["cond"]) {
            return (Kind::Condition, "wait");
        }
    }
    if low.iter().any(|name| name.contains("park")) {
        return (Kind::Condition, "wait");
    }
    if low.iter().any(|name| is_own_lock(name)) {
        return (Kind::Mutex, "lock");
    }
    (Kind::Futex, "wait")
}

/// Returns whether a function waits or releases on behalf of its caller.
fn is_inside(name: &str) -> bool {
    is_of_locks(name) || only_waits(name) || is_own_lock(name)
}

/// Returns whether a function that calls futex(2) is, by its name, the lock or unlock function of
/// the program's own lock.
fn is_own_lock(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name).to_ascii_lowercase();
    last.split('_').any(|word| ["lock", "unlock", "locked"].contains(&word))
}

impl Use {
    fn of(context: &Context, names: &Names) -> Self {
        let frames: Vec<u64> = context.frames().collect();
        let named: Vec<String> = frames.iter().map(|frame| name(names, *frame)).collect();
        let inner = named.iter().take_while(|name| is_inside(name)).count();
        let (kind, act) = of_names(&named[..inner]);
        let at = inner.min(frames.len() - 1);
        let callers = &frames[at + 1..];
        // A function that ends in a tail call, as guards do, is not on the stack.
        let called = (inner == at).then(|| names.target(frames[at])).flatten();
        let is_skipped = |begin: &u64| {
            let called = names.name(*begin).unwrap_or_default();
            let is_next = at.checked_sub(1).is_some_and(|next| named[next] == called);
            // A stub of the linker may have the name of the function before it.
            let is_stub = called == "syscall" || names.begin(begin + 1) != Some(*begin);
            !is_next && !is_stub && !is_inside(&called) && !passes_on(&called)
        };
        let place = match called.filter(is_skipped) {
            Some(begin) => names.place(begin + 1, &[]),
            None => names.under(names.place(frames[at], callers), frames[at], callers),
        };
        let outer = names.outer(&place, callers);
        let from = named.iter().take_while(|name| is_inside(name) || passes_on(name)).count();
        let functions = frames[from..].iter().filter_map(|frame| names.begin(*frame)).collect();
        let is_library = named[..inner].iter().any(|name| is_of_locks(name));
        let origin = if is_library { Origin::Library } else { Origin::Futex };
        let runtime = frames[..inner].iter().find_map(|frame| names.runtime(*frame));
        let origin = runtime.unwrap_or(origin);
        let parks = named[..inner].iter().any(|name| name.to_ascii_lowercase().contains("park"));
        let parks = parks && kind != Kind::Condition;
        Self { kind, origin, act, place, callers: outer, functions, parks }
    }
}

impl Futexes {
    /// Removes the waits in futex(2) from `waits`, and adds their locks to `locks`.
    pub(crate) fn take(
        waits: &mut Waits,
        contexts: &BTreeMap<u64, Context>,
        names: &Names,
        seen: &BTreeMap<u64, Seen>,
        wakers: &Wakers,
        locks: &mut Vec<Lock>,
    ) -> Self {
        let all = contexts.iter().map(|(number, one)| (*number, Use::of(one, names)));
        let mut this = Self { uses: all.collect(), ..Self::default() };
        let mut found: BTreeMap<u64, Vec<(u64, Site)>> = BTreeMap::new();
        let mut wakes = found.clone();
        waits.retain(|&(number, address), site| {
            let to = match number & (WORDS | WAKES) {
                0 => return true,
                WORDS => &mut found,
                _ => &mut wakes,
            };
            to.entry(address).or_default().push((number & !(WORDS | WAKES), site.clone()));
            false
        });
        let parking = parking(&found);
        let (mut single, mut numbers) = (Vec::new(), Vec::new());
        for (address, sites) in found {
            let woken_by = wakers.get(&address);
            let is_lock = !sites.iter().all(|(number, _)| parking.contains(number));
            let woken_by = woken_by.filter(|_| is_lock);
            let seen = seen.get(&address).map(|seen| this.given(seen, &sites, woken_by));
            let wakes = wakes.remove(&address);
            let is_barrier = wakes.as_ref().is_some_and(|wakes| this.is_barrier(&sites, wakes));
            // A unit of a semaphore may wake all waiters, too, most of which wait again.
            let pool =
                if is_barrier { this.lock(Some(Kind::Condition), &sites, seen) } else { None };
            let pool = pool.filter(|pool| pool.left_over().is_some());
            let kind = is_barrier.then_some(Kind::Barrier);
            let lock = pool.or_else(|| this.lock(kind, &sites, seen));
            let Some(mut lock) = lock else { continue };
            let wakes = wakes.filter(|_| lock.kind == Kind::Condition);
            for (number, site) in wakes.unwrap_or_default() {
                let Some(Use { place, .. }) = this.uses.get(&number) else { continue };
                let act = "signal".to_owned();
                lock.sites.push(Site { place: place.clone(), act, ..site });
            }
            single.push((address, lock));
            numbers.push(sites.into_iter().map(|(number, _)| number));
        }
        families::name(&mut single, names, true);
        let mut all: BTreeMap<(String, Kind, bool), Lock> = BTreeMap::new();
        for ((address, lock), numbers) in single.into_iter().zip(numbers) {
            for number in numbers {
                this.called.insert((number, address), (lock.name.clone(), lock.kind));
            }
            match all.get_mut(&(lock.name.clone(), lock.kind, lock.is_lock())) {
                Some(known) => known.join(lock),
                None => drop(all.insert((lock.name.clone(), lock.kind, lock.is_lock()), lock)),
            }
        }
        for lock in all.values_mut() {
            lock.instances = lock.instances.max(1);
        }
        locks.extend(sorted(all.into_values().collect()));
        this
    }

    /// Returns how often owners released a word, and how often other threads woke its waiters.
    /// Acquisitions of a word without a wait are not visible to the recorder. But the function that
    /// acquires and releases a lock is on the stacks of its waiters; the producer of a queue is
    /// not.
    fn given(&self, seen: &Seen, waits: &[(u64, Site)], woken_by: Option<&BTreeSet<u64>>) -> Seen {
        let stacks = || waits.iter().filter_map(|(number, _)| self.uses.get(number));
        let functions = woken_by.into_iter().flatten().filter_map(|number| self.uses.get(number));
        let mut functions = functions.filter_map(|one| one.functions.first());
        let is_around = |function: &u64| stacks().any(|wait| wait.functions.contains(function));
        let given = total(seen.given);
        let waits = total(waits.iter().map(|(_, site)| site.wait.count));
        // At a barrier, the last thread wakes all others.
        let wakes_one = waits <= total([given, given]);
        let mut seen = *seen;
        if wakes_one && functions.any(is_around) {
            seen.given = [given, 0];
        }
        seen
    }

    /// Returns whether the function that waits for a word wakes all other threads there, unlike
    /// the function that releases a lock.
    fn is_barrier(&self, waits: &[(u64, Site)], wakes: &[(u64, Site)]) -> bool {
        let function = |number: &u64| {
            let one = self.uses.get(number).filter(|one| one.kind == Kind::Futex)?;
            one.place.split(" (").next()
        };
        let waiting: BTreeSet<_> =
            waits.iter().filter_map(|(number, _)| function(number)).collect();
        let is_same = |one: &&(u64, Site)| function(&one.0).is_some_and(|at| waiting.contains(at));
        let woken = total(wakes.iter().filter(is_same).map(|(_, site)| site.contended));
        2 * woken > total(waits.iter().map(|(_, site)| site.wait.count))
    }

    /// Returns the lock with these call sites, without its name. `kind`, if given, overrides the
    /// kind from the call stack.
    fn lock(&self, kind: Option<Kind>, sites: &[(u64, Site)], seen: Option<Seen>) -> Option<Lock> {
        let most = sites.iter().max_by(|a, b| a.1.wait.total_s.total_cmp(&b.1.wait.total_s))?;
        let first = self.uses.get(&most.0)?;
        let kind = kind.unwrap_or(first.kind);
        // The words of parked threads do not show how many locks there are.
        let (origin, instances) = (first.origin, u64::from(!first.parks));
        let mut lock = Lock { kind, origin, instances, ..Lock::default() };
        if let Some(seen) = seen {
            lock.waiters = seen.waiters;
            if matches!(lock.kind, Kind::Futex | Kind::Condition) {
                [lock.given_by_owner, lock.given_by_others] = seen.given;
            }
        }
        for (number, site) in sites {
            let Some(Use { act, place, callers, .. }) = self.uses.get(number) else { continue };
            let mut site = Site { place: place.clone(), act: (*act).to_owned(), ..site.clone() };
            site.count = site.wait.count;
            site.called_by(callers);
            match lock.sites.iter_mut().find(|one| one.place == *place && one.act == *act) {
                Some(known) => known.add_stack(&site),
                None => lock.sites.push(site),
            }
        }
        // A thread that waits for a condition, and wakes another one there later, holds nothing
        // but a unit of a pool.
        if !first.has_owner() && !lock.is_pool() {
            for site in &mut lock.sites {
                (site.hold_on, site.hold_off) = Default::default();
            }
        }
        Some(lock)
    }

    /// Returns the operation at a site, if the site is a call of futex(2) with a known stack.
    pub(crate) fn at(&self, site: u64) -> Option<&Use> {
        let number = site << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
        if site & CONTEXT == 0 { None } else { self.uses.get(&number) }
    }

    /// Returns name and kind of the lock that threads wait for at a site. An address of 0 matches
    /// any lock of that site.
    pub(crate) fn lock_at(&self, lock: u64, site: u64) -> Option<&(String, Kind)> {
        let low = |word: u64| word << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
        if lock >> KIND_SHIFT != FUTEX || site & CONTEXT == 0 {
            return None;
        }
        let (number, address) = (low(site), low(lock));
        match address {
            0 => self.called.range((number, 0)..=(number, u64::MAX)).next().map(|(_, name)| name),
            _ => self.called.get(&(number, address)),
        }
    }

    /// Returns the addresses of the words, with the names and kinds of their locks.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (u64, (String, Kind))> {
        self.called.iter().map(|((_, address), name)| (*address, name.clone()))
    }
}

impl Use {
    /// Returns whether a thread owns the lock until it wakes another one.
    pub(crate) fn has_owner(&self) -> bool {
        ![Kind::Condition, Kind::Barrier].contains(&self.kind)
    }
}

/// Returns the sites at which each thread waits for a word of its own: threads are parked there, as
/// in a group commit, where several threads would wait for a lock. A single word with one waiter
/// may be a lock, since its owner does not wait for it.
fn parking(words: &BTreeMap<u64, Vec<(u64, Site)>>) -> BTreeSet<u64> {
    /// Words of a site, at least: two words with one waiter each may be the locks of two pairs.
    const WORDS: usize = 4;
    let mut alone: BTreeMap<u64, usize> = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for (number, site) in words.values().flatten() {
        if site.threads > 1 {
            shared.insert(*number);
        } else {
            *alone.entry(*number).or_default() += 1;
        }
    }
    let parks = |(number, words): &(u64, usize)| *words >= WORDS && !shared.contains(number);
    alone.into_iter().filter(parks).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_locks_if_a_function_on_the_stacks_of_waiters_wakes_one() {
        let one = |place: &str, functions: &[u64]| Use {
            kind: Kind::Futex,
            origin: Origin::Futex,
            act: "wait",
            place: place.to_owned(),
            callers: Vec::new(),
            functions: functions.to_vec(),
            parks: false,
        };
        let uses = [
            (1, one("take (a.cc:1)", &[10, 20])),
            (2, one("job (a.cc:2)", &[20])),
            (3, one("put (a.cc:3)", &[30])),
        ];
        let words = Futexes { uses: uses.into(), ..Futexes::default() };
        let site = |count| {
            let wait = crate::record::Times { count, ..Default::default() };
            Site { contended: count, wait, ..Site::default() }
        };
        let waits = [(1, site(10))];
        let given = |by, count| {
            let seen = Seen { given: [0, count], ..Seen::default() };
            words.given(&seen, &waits, Some(&BTreeSet::from([by]))).given
        };
        assert_eq!(given(2, 10), [10, 0]);
        assert_eq!(given(3, 10), [0, 10], "the producer of a queue");
        assert_eq!(given(2, 2), [0, 2], "one wakeup for many");
        assert!(words.is_barrier(&waits, &[(1, site(9))]));
        assert!(!words.is_barrier(&waits, &[(2, site(9))]));
        assert!(!words.is_barrier(&waits, &[(1, site(2))]));
    }

    #[test]
    fn functions_tell_what_is_waited_for() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert!(names.iter().all(|name| is_inside(name)), "{names:?}");
            of_names(&names)
        };
        let wait = "std::sys::pal::unix::futex::futex_wait";
        let mutex = "std::sys::sync::mutex::futex::Mutex::lock_contended";
        let condition = "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout";
        assert_eq!(of(&[wait, mutex]), (Kind::Mutex, "lock"));
        assert_eq!(of(&[wait, condition]), (Kind::Condition, "wait"));
        // The mutex is reacquired after a signal.
        assert_eq!(of(&[wait, mutex, condition]), (Kind::Mutex, "lock"));
        let lock = "std::sys::sync::rwlock::futex::RwLock::read_contended";
        assert_eq!(of(&[wait, lock]), (Kind::Rwlock, "read"));
        let park = "parking_lot_core::parking_lot::park";
        assert_eq!(of(&[park, "parking_lot::raw_mutex::RawMutex::lock_slow"]).0, Kind::Mutex);
        let shared = "parking_lot::raw_rwlock::RawRwLock::lock_shared_slow";
        assert_eq!(of(&[park, shared]), (Kind::Rwlock, "read"));
        let readers = "parking_lot::raw_rwlock::RawRwLock::wait_for_readers";
        assert_eq!(of(&[park, readers]), (Kind::Rwlock, "write"));
        assert_eq!(of(&[wait, "std::thread::park"]), (Kind::Condition, "wait"));
        assert!(!is_inside("ledger::Journal::append") && !is_inside("take_block"));
        assert_eq!(of(&["Latch::lock_slow"]), (Kind::Mutex, "lock"));
    }

    #[test]
    fn threads_that_each_have_a_word_are_parked_there() {
        let words = |each: &[u64]| {
            let word = |(address, &threads): (u64, &u64)| {
                (address, vec![(7, Site { threads, ..Site::default() })])
            };
            parking(&(0..).zip(each).map(word).collect())
        };
        assert_eq!(words(&[1, 1, 1, 1]), BTreeSet::from([7]));
        assert!(words(&[1]).is_empty(), "the victim of a hog");
        assert!(words(&[1, 1, 1, 2]).is_empty(), "locks, of which some had one waiter");
    }
}
