//! Locks and their names, from the numbers that the kernel counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::counts::{Counts, Entries};
use super::programs::{MUTEX, PER_CPU, READ, REAL_TIME, SPIN, WRITE};
use super::symbols::Symbols;
use super::tables::{Tables, giver, half, lock, threads, times, wait, word};
use crate::names::stacks::{JOIN, Stacks, Waiting};
use crate::names::wrappers::passes_on;
use crate::names::{LOCK_OF, named_after, named_inside};
use crate::record::causes::{Cause, Doing, Seen};
use crate::record::merge::sorted;
use crate::record::origin::Origin;
use crate::record::scheduling::Held;
use crate::record::{Kind, Lock, Site, Times, Waiters};
use crate::sampling::syscall_file::Asks;

/// Returns the kernel's name of a lock with these flags, its kind, and the operation.
pub(super) fn kind(flags: i32) -> (&'static str, Kind, &'static str) {
    let act = match flags {
        _ if flags & READ != 0 => "read",
        _ if flags & WRITE != 0 => "write",
        _ => "lock",
    };
    let is_shared = flags & (READ | WRITE) != 0;
    let (name, kind) = match () {
        () if flags & MUTEX != 0 => ("mutex", Kind::Mutex),
        () if flags & REAL_TIME != 0 && is_shared => ("rt-rwlock", Kind::Rwlock),
        () if flags & REAL_TIME != 0 => ("rt-mutex", Kind::Mutex),
        () if flags & PER_CPU != 0 => ("percpu-rwsem", Kind::Rwlock),
        () if flags & SPIN != 0 && is_shared => ("rwlock", Kind::Rwlock),
        () if flags & SPIN != 0 => ("spinlock", Kind::Spinlock),
        () if is_shared => ("rwsem", Kind::Rwlock),
        () => ("semaphore", Kind::Semaphore),
    };
    (name, kind, act)
}

pub(super) fn of_kernel(
    locks: &Entries,
    tables: &Tables,
    symbols: &Symbols,
) -> BTreeMap<u32, Vec<Lock>> {
    let mut places: BTreeMap<u32, String> = BTreeMap::new();
    let mut found: BTreeMap<(u32, String, &str), Lock> = BTreeMap::new();
    for (key, value) in locks.iter().filter(|(_, value)| value[lock::TIMES] > 0) {
        let [pid, flags, number] = [0, 1, 2].map(|at| half(key, at));
        let (kernel, kind, act) = kind(flags as i32);
        let place = places
            .entry(number)
            .or_insert_with(|| symbols.place(&Tables::stack(&tables.kernel_stacks, number)));
        if is_of_recorder(place) {
            continue;
        }
        let variable = match value[lock::MANY] {
            0 => symbols.variable(value[lock::ADDRESS]),
            _ => None,
        };
        let name = variable.map_or_else(|| [LOCK_OF, place].concat(), str::to_owned);
        let wait = times(value, lock::TIMES, Some(lock::BUCKETS_AT));
        let woken_s = value[lock::RUNNABLE] as f64 / 1e9;
        let site = Site {
            place: place.clone(),
            act: act.to_owned(),
            count: wait.count,
            contended: wait.count,
            threads: threads(&value[lock::THREADS..][..4]),
            handoff: way(wait.count, woken_s),
            wait,
            ..Site::default()
        };
        let one = Lock {
            name: name.clone(),
            kind,
            origin: Origin::Kernel,
            kernel: kernel.to_owned(),
            instances: 1 + value[lock::MANY],
            owners_known_s: value[lock::OWNED] as f64 / 1e9,
            owners_off_s: value[lock::OFF] as f64 / 1e9,
            sites: vec![site],
            ..Lock::default()
        };
        let instances = one.instances;
        found
            .entry((pid, name, kernel))
            .and_modify(|known| {
                let most = known.instances.max(instances);
                known.join(one.clone());
                known.instances = most;
            })
            .or_insert(one);
    }
    let mut by_process: BTreeMap<u32, Vec<Lock>> = BTreeMap::new();
    for ((pid, ..), lock) in found {
        by_process.entry(pid).or_default().push(lock);
    }
    by_process.into_iter().map(|(pid, locks)| (pid, sorted(locks))).collect()
}

/// Returns whether this is a wait caused by the recorder, which makes its tables resident, reads
/// the CPU clocks of threads, and samples with a perf timer. Programs that do so themselves are
/// rare.
fn is_of_recorder(place: &str) -> bool {
    let reads_clock =
        place.contains("task_sched_runtime") && place.ends_with("in clock_gettime(2)");
    let names = ["faultin_page_range", "cpu_clock_event", "perf_", "bpf_", "__htab", "stack_map"];
    reads_clock || names.iter().any(|name| place.contains(name))
}

/// Returns times from a wakeup to a CPU, of which only the sum is known.
fn way(count: u64, total_s: f64) -> Times {
    Times { count, total_s, max_s: 0.0, buckets: Vec::new() }
}

#[derive(Default)]
pub(super) struct Word {
    /// By the number of the stack.
    pub(super) waits: Vec<(u32, Vec<u64>)>,
    /// Releases to a waiter, by the number of the stack.
    givers: Vec<(u32, Vec<u64>)>,
    counted: Vec<u64>,
}

/// Returns the waits for words of each process.
pub(super) fn words(counts: &Counts) -> BTreeMap<u32, BTreeMap<u64, Word>> {
    let mut found: BTreeMap<u32, BTreeMap<u64, Word>> = BTreeMap::new();
    let address = |key: &[u8]| u64::from_le_bytes(key[8..16].try_into().expect("eight bytes"));
    for (key, value) in counts.waits.iter().filter(|(_, value)| value[wait::TIMES] > 0) {
        let words = found.entry(half(key, 0)).or_default();
        words.entry(address(key)).or_default().waits.push((half(key, 1), value.clone()));
    }
    for (key, value) in &counts.givers {
        let word = found.get_mut(&half(key, 0)).and_then(|words| words.get_mut(&address(key)));
        if let Some(word) = word {
            word.givers.push((half(key, 1), value.clone()));
        }
    }
    for (key, value) in &counts.words {
        let word = found.get_mut(&half(key, 0)).and_then(|words| words.get_mut(&address(key)));
        if let Some(word) = word {
            word.counted.clone_from(value);
        }
    }
    found
}

impl Word {
    /// Returns the activity of its owners, if there were holds.
    pub(super) fn held(&self) -> Option<Held> {
        let sum = |at: usize| self.waits.iter().map(|(_, value)| value[at]).sum::<u64>();
        let count = sum(wait::HOLD_ON) + sum(wait::HOLD_OFF);
        let seconds = |at: usize| sum(at) as f64 / 1e9;
        (count > 0).then(|| Held {
            count,
            total_s: seconds(wait::HOLD_ON + 1) + seconds(wait::HOLD_OFF + 1),
            preempted_s: seconds(wait::PREEMPTED),
            asleep_s: seconds(wait::BLOCKED),
            woken_s: seconds(wait::HELD_RUNNABLE),
        })
    }

    /// Returns the causes of waits for this word, the word of `lock`: the places that released it
    /// to waiters.
    pub(super) fn causes(
        &self,
        lock: &Lock,
        stacks: &Stacks,
        tables: &Tables,
        sleeps_in: &str,
        could_run_s: f64,
    ) -> Vec<Cause> {
        /// Minimum part of the wait time without a running thread in which an owner sleeps.
        const MOSTLY: f64 = 0.5;
        /// Mean wait in seconds below which no owner sleeps: a goroutine that sleeps needs a thread
        /// that wakes up, switches to it and finds it (an estimate).
        const BRIEF_S: f64 = 100e-6;
        fn seen(doing: Doing, what: &str, count: u64) -> Seen {
            Seen { doing, what: what.to_owned(), place: String::new(), count }
        }
        let act = "lock".to_owned();
        let waited = lock.sites.iter().max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s));
        let place = waited.map(|site| site.place.clone()).unwrap_or_default();
        let cause = |(number, value): &(u32, Vec<u64>)| {
            let chain = Tables::stack(&tables.stacks, *number);
            // The innermost function makes a waiter runnable; its callers follow.
            let callers = chain.get(1..).unwrap_or_default();
            let passes = |code: &&u64| {
                let name = stacks.names.name(code.saturating_sub(1)).unwrap_or_default();
                passes_on(&name) || crate::import::is_of_go(&name)
            };
            let from =
                callers.iter().take_while(passes).count().min(callers.len().saturating_sub(1));
            let site = *callers.get(from)?;
            let times = times(value, giver::TIMES, None);
            let slept = value[giver::SLEPT] as f64 / 1e9 / times.total_s.max(f64::MIN_POSITIVE);
            // A goroutine may sleep without a thread. Then no thread runs for it. Threads
            // that find no goroutine to run for a moment do not show that.
            let parked = 1.0 - could_run_s / lock.waiters.seconds.max(f64::MIN_POSITIVE);
            let slept = if parked > MOSTLY { slept.max(parked) } else { slept };
            let is_short = lock.wait_s() < BRIEF_S * lock.count() as f64;
            let slept = if is_short { 0.0 } else { slept };
            // One sample for each millisecond of waiting.
            let looks = (1e3 * times.total_s).ceil() as u64;
            let slept = (looks as f64 * slept.min(1.0)) as u64;
            let owners =
                vec![seen(Doing::Sleeps, sleeps_in, slept), seen(Doing::Runs, "", looks - slept)];
            Some(Cause {
                lock: lock.name.clone(),
                kind: lock.kind,
                place: place.clone(),
                act: act.clone(),
                held_at: without_defer(
                    stacks.names.place(site, callers.get(from + 1..).unwrap_or_default()),
                ),
                held_act: act.clone(),
                count: times.count,
                wait_s: times.total_s,
                max_s: waited.map_or(0.0, |site| site.wait.max_s),
                owners,
                ..Cause::default()
            })
        };
        let mut all: Vec<Cause> = Vec::new();
        for cause in
            self.givers.iter().filter(|(_, value)| value[giver::TIMES] > 0).filter_map(cause)
        {
            match all.iter_mut().find(|known| known.is_like(&cause)) {
                Some(known) => known.join(cause),
                None => all.push(cause),
            }
        }
        all
    }

    /// Returns the word as a lock, or `None` if no thread waited for it or it belongs to the
    /// recorder.
    pub(super) fn lock(
        &self,
        pid: u32,
        address: u64,
        stacks: &mut Stacks,
        tables: &Tables,
        begin_ns: u64,
    ) -> Option<Lock> {
        // Only goroutines have recorded releases.
        let is_go = !self.givers.is_empty();
        let counted = |at: usize| self.counted.get(at).copied().unwrap_or(0);
        let mut found = Lock {
            kind: Kind::Futex,
            instances: 1,
            given_by_owner: counted(word::OWN),
            given_by_others: counted(word::OTHER),
            waiters: Waiters {
                seconds: counted(word::TOTAL) as f64 / 1e9,
                longest_s: counted(word::LONGEST) as f64 / 1e9,
                longest_at_s: counted(word::LONGEST_AT).saturating_sub(begin_ns) as f64 / 1e9,
                most: counted(word::MOST),
            },
            held: self.held(),
            ..Lock::default()
        };
        let mut seen = BTreeMap::new();
        // Several functions may acquire a lock of libc. The one that waits longest names it.
        let mut waits: Vec<_> =
            self.waits.iter().filter(|(_, value)| value[wait::TIMES] > 0).collect();
        waits.sort_by_key(|(_, value)| Reverse(value[wait::TIMES + times::TOTAL]));
        for (number, value) in waits {
            let waiting = waiting((pid, *number, address), stacks, tables)?;
            if waiting.act == JOIN {
                continue;
            }
            // The stacks of some waits do not reach the function of libc.
            if found.sites.is_empty() || found.runtime.is_empty() && !waiting.runtime.is_empty() {
                found.origin = if is_go { Origin::Go } else { waiting.origin };
                found.runtime.clone_from(&waiting.runtime);
            }
            found.add_wait(value, &waiting, stacks, &mut seen);
        }
        if !matches!(found.kind, Kind::Futex | Kind::Semaphore) {
            (found.given_by_owner, found.given_by_others) = (0, 0);
        }
        let first = found.sites.iter().max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s))?;
        let place = first.place.clone();
        let is_lock = found.is_lock();
        found.name = match found.runtime.as_str() {
            "" => {
                let name = stacks.names.variable(address);
                let name = name.map(|name| if is_go { without_field(name) } else { name });
                name.unwrap_or_else(|| named_after(&place, is_lock))
            }
            function => named_inside(function),
        };
        Some(found)
    }
}

/// Returns the wait of a process at the stack of this number for the word at an address, or `None`
/// if the recorder waits there.
fn waiting(
    (pid, number, address): (u32, u32, u64),
    stacks: &mut Stacks,
    tables: &Tables,
) -> Option<Waiting> {
    let key = [&pid.to_le_bytes()[..], &number.to_le_bytes(), &address.to_le_bytes()];
    let piece = tables.pieces.get(&key.concat()).ok().flatten().unwrap_or_default();
    let piece = super::tables::words(&piece);
    let chain = Tables::stack(&tables.stacks, number);
    let code = piece.first().copied().or(chain.first().copied()).unwrap_or(0);
    let chain = if chain.is_empty() { vec![code] } else { chain };
    let rest = piece.get(2..).unwrap_or_default();
    if stacks.is_ours(code) || rest.first().is_some_and(|first| stacks.is_ours(*first)) {
        return None;
    }
    let asks = piece.get(1).copied().unwrap_or(0);
    let asks = Asks { operation: (asks >> 32) as u32, value: asks as u32 };
    let waiting = stacks.walk(&chain, rest, asks).unwrap_or_else(|| Waiting {
        kind: Kind::Futex,
        origin: Origin::Futex,
        act: "wait",
        frames: vec![code],
        runtime: String::new(),
    });
    let origin = stacks.origin(&waiting, code.saturating_add(1), address);
    // Threads of Go's runtime wait for a lock with another value: this is a note, on which a thread
    // sleeps until there is work. Goroutines do not call futex(2).
    let is_of_go = |name: String| crate::import::is_of_go(&name);
    let is_note = asks == Asks { operation: 128, value: 0 };
    if is_note && stacks.names.name(code).is_some_and(is_of_go) {
        return Some(Waiting { kind: Kind::Condition, act: "wait", origin, ..waiting });
    }
    Some(Waiting { origin, ..waiting })
}

/// Returns the name of the Go function around a deferred call. Such a call has a separate function:
/// `f.deferwrap2 (x.go:5)`.
fn without_defer(place: String) -> String {
    let Some((function, rest)) = place.split_once(".deferwrap") else { return place };
    [function, rest.trim_start_matches(|digit: char| digit.is_ascii_digit())].concat()
}

/// Returns the name of a lock of Go, whose goroutines wait at a field of it: the semaphore of a
/// mutex, or those of the writers and the readers of a reader/writer lock.
fn without_field(name: String) -> String {
    let fields = ["+0x4", "+0x8", "+0xc"];
    fields.iter().find_map(|field| name.strip_suffix(field)).map(str::to_owned).unwrap_or(name)
}

impl Lock {
    /// Adds the waits that were counted at one stack.
    fn add_wait(
        &mut self,
        value: &[u64],
        waiting: &Waiting,
        stacks: &Stacks,
        seen: &mut BTreeMap<String, [u64; 4]>,
    ) {
        let Waiting { kind, act, frames, .. } = waiting;
        // The names of libc and other functions determine the kind; otherwise it follows from the
        // releasing threads.
        self.kind = if self.kind == Kind::Futex { *kind } else { self.kind };
        let names = &stacks.names;
        let place = names.place(frames[0], &frames[1..]);
        let place = names.under(place, frames[0], &frames[1..]);
        let act = if self.kind == Kind::Futex && self.is_lock() { "lock" } else { act };
        let wait = times(value, wait::TIMES, Some(wait::BUCKETS_AT));
        let failed = value[wait::FAILED];
        let site = Site {
            place,
            act: act.to_owned(),
            count: wait.count,
            contended: wait.count,
            failed,
            hold_on: times(value, wait::HOLD_ON, Some(wait::HOLD_BUCKETS)),
            hold_off: times(value, wait::HOLD_OFF, None),
            handoff: way(wait.count, value[wait::RUNNABLE] as f64 / 1e9),
            wait,
            ..Site::default()
        };
        // Several stacks may lead to one place, with the same threads.
        let bits = seen.entry(site.place.clone()).or_default();
        for (bits, more) in bits.iter_mut().zip(&value[wait::THREADS..]) {
            *bits |= more;
        }
        let count = threads(bits);
        let at = self.sites.iter().position(|one| one.place == site.place && one.act == site.act);
        let at = at.unwrap_or_else(|| {
            self.sites.push(Site {
                place: site.place.clone(),
                act: site.act.clone(),
                ..Site::default()
            });
            self.sites.len() - 1
        });
        self.sites[at].add(&site);
        self.sites[at].threads = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferred_calls_are_named_after_their_function() {
        let place = without_defer("main.(*Log).Sync.deferwrap2 (main.go:5)".to_owned());
        assert_eq!(place, "main.(*Log).Sync (main.go:5)");
        assert_eq!(without_defer("main.f (x.go:1)".to_owned()), "main.f (x.go:1)");
    }

    #[test]
    fn locks_of_go_are_named_without_the_field_at_which_goroutines_wait() {
        let named = |name: &str| without_field(name.to_owned());
        assert_eq!(named("main.mu+0x4"), "main.mu");
        // A lock inside of another structure.
        assert_eq!(named("main.server+0x24"), "main.server+0x24");
        assert_eq!(named("main.mu"), "main.mu");
    }

    #[test]
    fn flags_say_what_a_lock_is() {
        for (flags, expected) in [
            (MUTEX | SPIN, ("mutex", Kind::Mutex, "lock")),
            (SPIN, ("spinlock", Kind::Spinlock, "lock")),
            (SPIN | WRITE, ("rwlock", Kind::Rwlock, "write")),
            (READ, ("rwsem", Kind::Rwlock, "read")),
            (PER_CPU | READ, ("percpu-rwsem", Kind::Rwlock, "read")),
            (REAL_TIME, ("rt-mutex", Kind::Mutex, "lock")),
            (0, ("semaphore", Kind::Semaphore, "lock")),
        ] {
            assert_eq!(kind(flags), expected, "{flags}");
        }
    }
}
