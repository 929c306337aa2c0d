//! Waits that were observed from outside, with names.

use std::collections::BTreeMap;

use crate::names::stacks::{JOIN, Stacks};
use crate::names::syscalls;
use crate::names::{families, named_inside};
use crate::record::causes::{self, Cause, Doing, Pending, Seen};
use crate::record::{Kind, Lock, Process, Site, Times};
use crate::sampling::attached::Attached;
use crate::sampling::counts::{Called, Counts, Place, Unfinished};

/// Locks with their waits, the causes of waits, and waits that had not ended.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) locks: Vec<Lock>,
    pub(crate) causes: Vec<Cause>,
    pub(crate) pending: Vec<Pending>,
}

impl Attached {
    /// Returns the counted waits with names. `waiting` is the result of [`Attached::waiting`].
    pub(crate) fn found(&mut self, counts: &Counts, waiting: &[Unfinished]) -> Found {
        self.found_but(counts, waiting, |_| false)
    }

    /// Like `found`, but without the words for which `is_known` says that they belong to recorded
    /// locks.
    pub(crate) fn found_but(
        &mut self,
        counts: &Counts,
        waiting: &[Unfinished],
        is_known: impl Fn(u64) -> bool,
    ) -> Found {
        let mut named = std::mem::take(&mut self.named);
        if named.maps != self.maps {
            (named.maps, named.stacks) = (self.maps.clone(), None);
        }
        let mut stacks = named.stacks.unwrap_or_else(|| Stacks::new(self.pid, &self.maps));
        for place in &self.places[named.called.len()..] {
            let called = if is_known(place.word) { None } else { name(&mut stacks, place) };
            named.called.push(called);
        }
        for asleep in counts.owned.keys().filter_map(|(_, _, asleep)| *asleep) {
            let place = || sleeps_in(&mut stacks, self.sleeps.get(asleep)?);
            named.sleeps.entry(asleep).or_insert_with(place);
        }
        let (called, sites) = (&named.called, &counts.sites);
        let mut by_word: BTreeMap<u64, Vec<(Called, Site)>> = BTreeMap::new();
        for (called, site) in called.iter().zip(sites) {
            let Some(called) = called.clone().filter(|_| site.wait.count > 0) else { continue };
            let mut site = site.clone();
            site.count = site.wait.count;
            site.contended = if called.act == "wait" { 0 } else { site.wait.count };
            by_word.entry(called.word).or_default().push((called, site));
        }
        let mut locks: BTreeMap<(String, Kind), Lock> = BTreeMap::new();
        let mut names = BTreeMap::new();
        let single = by_word.into_iter().map(|(word, sites)| (word, lock(counts, word, sites)));
        let mut single: Vec<(u64, Lock)> = single.collect();
        families::name(&mut single, &stacks.names, true);
        for (word, lock) in single {
            names.insert(word, (lock.name.clone(), lock.kind));
            match locks.get_mut(&(lock.name.clone(), lock.kind)) {
                Some(known) => known.join(lock),
                None => drop(locks.insert((lock.name.clone(), lock.kind), lock)),
            }
        }
        let mut found = Found {
            locks: crate::record::merge::sorted(locks.into_values().collect()),
            ..Found::default()
        };
        found.causes = causes(counts, called, &named.sleeps, &names);
        for &(thread, site, wait_s, owner) in waiting {
            let Some(Some(called)) = called.get(site) else { continue };
            let Some((lock, kind)) = names.get(&called.word).cloned() else { continue };
            found.pending.push(Pending {
                thread,
                lock,
                address: called.word,
                kind,
                place: called.place.clone(),
                act: called.act.to_owned(),
                wait_s,
                owner: if kind == Kind::Mutex && called.runtime.is_empty() { owner } else { 0 },
                counted: true,
                ..Pending::default()
            });
        }
        (named.stacks, named.locks) = (Some(stacks), names);
        self.named = named;
        found
    }
}

/// Returns the causes of waits, with the activity of the owners while others waited.
fn causes(
    counts: &Counts,
    called: &[Option<Called>],
    sleeps: &BTreeMap<usize, Option<String>>,
    names: &BTreeMap<u64, (String, Kind)>,
) -> Vec<Cause> {
    let mut all: Vec<Cause> = Vec::new();
    let cause = |at: usize| {
        let called = called.get(at)?.as_ref()?;
        let (lock, kind) = names.get(&called.word)?.clone();
        Some(Cause {
            lock,
            kind,
            place: called.place.clone(),
            act: called.act.to_owned(),
            ..Cause::default()
        })
    };
    let mut join = |cause: Cause| match all.iter_mut().find(|known| known.is_like(&cause)) {
        Some(known) => known.join(cause),
        None => all.push(cause),
    };
    for (&(at, call, asleep), &count) in &counts.owned {
        let Some(mut cause) = cause(at).filter(|cause| cause.kind == Kind::Mutex) else {
            continue;
        };
        let place = asleep.and_then(|at| sleeps.get(&at)?.clone());
        let (doing, what) = match call {
            None => (Doing::Runs, String::new()),
            Some(-1) => (Doing::Faults, String::new()),
            Some(number) => (Doing::Sleeps, syscalls::name(number)),
        };
        cause.owners = vec![Seen { doing, what, place: place.unwrap_or_default(), count }];
        join(cause);
    }
    for (at, site) in counts.sites.iter().enumerate().filter(|(_, site)| site.wait.count > 0) {
        let Some(mut cause) = cause(at) else { continue };
        cause.count = site.wait.count;
        (cause.wait_s, cause.max_s) = (site.wait.total_s, site.wait.max_s);
        join(cause);
    }
    for cause in &mut all {
        causes::sort(&mut cause.owners);
    }
    all
}

/// Returns the lock at this word, without a name unless it is internal to libc.
fn lock(counts: &Counts, word: u64, mut sites: Vec<(Called, Site)>) -> Lock {
    sites.sort_by(|(_, a), (_, b)| b.wait.total_s.total_cmp(&a.wait.total_s));
    let first = sites[0].0.clone();
    let mut lock = Lock {
        kind: first.kind,
        origin: first.origin,
        instances: 1,
        runtime: first.runtime.clone(),
        ..Lock::default()
    };
    if !first.runtime.is_empty() {
        lock.name = named_inside(&first.runtime);
    }
    if let Some(seen) = counts.words.get(&word) {
        lock.waiters.add(&seen.waiters);
        let [on, off] = seen.held;
        let held = |total_s| Times { total_s, ..Times::default() };
        if first.kind == Kind::Mutex {
            (sites[0].1.hold_on, sites[0].1.hold_off) = (held(on), held(off));
        }
    }
    for (called, site) in sites {
        let site = Site { place: called.place, act: called.act.to_owned(), ..site };
        match lock.sites.iter_mut().find(|one| one.place == site.place && one.act == site.act) {
            Some(known) => known.add(&site),
            None => lock.sites.push(site),
        }
    }
    lock
}

/// Returns the place of a wait, or `None` if it is a wait for the exit of a thread.
fn name(stacks: &mut Stacks, place: &Place) -> Option<Called> {
    let waiting = stacks.scan(&place.codes, place.asks)?;
    if waiting.act == JOIN {
        return None;
    }
    // Wakeups are not visible from outside the process.
    let kind = if waiting.kind == Kind::Futex { Kind::Condition } else { waiting.kind };
    let site = *waiting.frames.first()?;
    let at = stacks.names.place(site, &waiting.frames[1..]);
    let at = stacks.names.under(at, site, &waiting.frames[1..]);
    let origin = stacks.origin(&waiting, place.code, place.word);
    let (word, act, runtime) = (place.word, waiting.act, waiting.runtime);
    Some(Called { word, kind, act, place: at, origin, runtime })
}

/// Returns the place in the program that called the function in which a thread sleeps.
fn sleeps_in(stacks: &mut Stacks, codes: &[u64]) -> Option<String> {
    let calls = stacks.calls(codes);
    Some(stacks.names.place(*calls.first()?, &calls[1..]))
}

impl Attached {
    /// Adds the waits that did not go through the recorded functions to a process that recorded
    /// itself.
    pub(crate) fn add_to(&mut self, process: &mut Process) {
        /// Number of bytes that contain the words of a libc lock.
        const LOCK_BYTES: u64 = 56;
        /// Minimum length of a pending wait, in seconds: one this long also lasted between two
        /// samples.
        const LEFT_S: f64 = 0.5;
        let waiting = self.waiting();
        self.end_waits();
        process.name_threads(std::mem::take(&mut self.thread_names));
        let addresses = process.addresses.clone();
        let counts = std::mem::take(&mut self.counts);
        let found = self.found_but(&counts, &waiting, |word| {
            let near = addresses.range(..=word).next_back();
            near.is_some_and(|(begin, _)| word - *begin < LOCK_BYTES)
        });
        let (inside, others): (Vec<Lock>, Vec<Lock>) =
            found.locks.into_iter().partition(|lock| !lock.runtime.is_empty());
        process.runtime_locks.extend(inside);
        process.futexes.extend(others);
        process.causes.extend(found.causes);
        // A process that ended by itself had left the waits of the last sample.
        let is_left = |one: &Pending| !process.ended && one.wait_s > LEFT_S;
        process.pending.extend(found.pending.into_iter().filter(is_left));
    }
}
