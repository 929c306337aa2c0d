//! Reads the traces of threads and groups similar threads into classes.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the names of the layout are its own vocabulary")
)]

use std::collections::BTreeMap;

use crate::layout::{self, *};
use crate::names::Names;
use crate::raw::keys::Key;
use crate::record::trace::{Class, Place, Step, Strip, Trace, What};
use crate::record::{Kind, Lock};

/// Number of steps to which a record is thinned. It keeps at most twice as many.
const STEPS: usize = 24_000;
/// Minimum similarity of two threads of one class: the cosine between their counts of calls by lock
/// and call site.
const ALIKE: f64 = 0.6;

/// Minimum number of calls of a thread in a class, relative to the busiest thread of the class.
const FEW: f64 = 0.02;

/// Name and kind of a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) is_lock: bool,
}

/// Converts ticks to times.
pub(crate) struct Clock {
    pub(crate) begin: u64,
    pub(crate) tick_ns: f64,
}

impl Clock {
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.tick_ns) as u64
    }

    /// Returns ticks in seconds, rounded down to nanoseconds.
    pub(crate) fn seconds(&self, ticks: u64) -> f64 {
        self.ns(ticks) as f64 / 1e9
    }
}

/// A lock by name, and the call site.
type Call<'a> = (Option<&'a Known>, u64);

/// Contents of the file of a process.
#[derive(Default)]
pub(crate) struct Traces {
    /// Keys of each slot, with call sites instead of call stacks.
    slots: Vec<Vec<Key>>,
    /// Number of calls, by lock and call site.
    calls: BTreeMap<(u64, u64), u64>,
    /// Traces with their numbers of steps.
    found: Vec<(Box<layout::Trace>, usize)>,
}

impl Traces {
    /// Adds the keys of the next slot. `site` returns the call site for a key's site, which may be
    /// a call stack.
    pub(crate) fn slot(&mut self, keys: &[Key], site: impl Fn(u64) -> u64) {
        let all = &mut self.calls;
        // Yielding the CPU does not characterize a thread, and waits in futex(2) are not steps.
        let is_call = |key: &Key| ![YIELD, FUTEX, BROADCAST].contains(&key.kind());
        let keys =
            keys.iter().map(|key| Key { lock: if is_call(key) { key.lock } else { 0 }, ..*key });
        let keys = keys.map(|key| {
            let at = site(key.site);
            if key.lock != 0 {
                let sum = all.entry((key.address(), at)).or_default();
                *sum = sum.saturating_add(key.count);
            }
            Key { site: at, ..key }
        });
        self.slots.push(keys.collect());
    }

    pub(crate) fn add(&mut self, trace: Box<layout::Trace>) {
        let used = trace.steps.iter().take_while(|step| step.what != 0).count();
        if used > 0 && (trace.slot as usize) < self.slots.len() {
            self.found.push((trace, used));
        }
    }

    /// Returns the names of threads when they began a trace.
    pub(crate) fn thread_names(&self) -> impl Iterator<Item = (u64, String)> + '_ {
        self.found.iter().map(|(trace, _)| {
            let name: Vec<u8> = trace.name.iter().flat_map(|word| word.to_le_bytes()).collect();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            (trace.thread, String::from_utf8_lossy(name).into_owned())
        })
    }

    /// Thins out the traces: keeps whole windows, spread over the run.
    fn thinned(&mut self) {
        let steps: usize = self.found.iter().map(|(_, steps)| steps).sum();
        let every = steps.div_ceil(STEPS).max(1) as u64;
        self.found.retain(|(trace, _)| trace.window % every == 1 % every);
        let mut room = STEPS * 2;
        self.found.retain(|(_, steps)| {
            let fits = *steps <= room;
            room -= if fits { *steps } else { 0 };
            fits
        });
        self.found.sort_by_key(|(trace, _)| (trace.window, trace.slot, trace.steps[0].begin));
    }

    /// Returns the class of each slot, and the classes. A slot belongs to the first class that it
    /// resembles.
    fn classes(&self, known: &BTreeMap<u64, Known>, names: &Names) -> (Vec<u64>, Vec<Class>) {
        let mut firsts: Vec<(BTreeMap<Call<'_>, u64>, Class)> = Vec::new();
        let (mut of_slots, mut sums) = (Vec::new(), Vec::<Vec<u64>>::new());
        for keys in &self.slots {
            let mut calls = BTreeMap::<Call<'_>, u64>::new();
            for key in keys.iter().filter(|key| key.lock != 0 && key.count > 0) {
                let sum = calls.entry((known.get(&key.address()), key.site)).or_default();
                *sum = sum.saturating_add(key.count);
            }
            let calls = &calls;
            let all = calls.values().fold(0_u64, |all, one| all.saturating_add(*one));
            let like = firsts.iter().position(|(first, _)| cosine(first, calls) > ALIKE);
            let class = like.unwrap_or_else(|| {
                let most = calls.iter().max_by_key(|(_, count)| **count).map_or(0, |most| most.0.1);
                let most = names.place(most, &[0; CALLERS]);
                firsts.push((calls.clone(), Class { threads: 0, calls: 0, most }));
                sums.push(Vec::new());
                firsts.len() - 1
            });
            let known = &mut firsts[class].1;
            known.calls = known.calls.saturating_add(all);
            sums[class].push(all);
            of_slots.push(class as u64);
        }
        for (first, sums) in firsts.iter_mut().zip(&sums) {
            // A thread that makes the calls of a class only when it begins and ends is not part of
            // the class.
            let least = sums.iter().copied().max().unwrap_or(0) as f64 * FEW;
            first.1.threads = sums.iter().filter(|sum| **sum as f64 >= least).count() as u64;
        }
        (of_slots, firsts.into_iter().map(|first| first.1).collect())
    }

    /// Returns the trace of the process.
    pub(crate) fn read(
        mut self,
        clock: &Clock,
        known: &BTreeMap<u64, Known>,
        locks: &[Lock],
        names: &Names,
    ) -> Trace {
        self.thinned();
        if self.found.is_empty() {
            return Trace::default();
        }
        let (of_slots, classes) = self.classes(known, names);
        let numbers = locks.iter().enumerate().map(|(number, lock)| {
            let (name, kind) = (lock.name.clone(), lock.kind);
            (Known { name, kind, is_lock: lock.is_lock() }, number as u64)
        });
        let numbers: BTreeMap<Known, u64> = numbers.collect();
        let mut book = Book::new(known, &numbers, names, &self.calls);
        let mut strips = Vec::new();
        for (trace, used) in &self.found {
            let slot = trace.slot as usize;
            let steps = book.steps(clock, &trace.steps[..*used], &self.slots[slot]);
            let begin = trace.steps[0].begin.saturating_sub(clock.begin);
            strips.push(Strip {
                class: of_slots[slot],
                thread: trace.thread,
                window: trace.window,
                begin_s: clock.ns(begin) as f64 / 1e9,
                steps,
            });
        }
        Trace { classes, places: book.places, strips }
    }
}

/// Collects places in the order in which steps refer to them.
struct Book<'a> {
    known: &'a BTreeMap<u64, Known>,
    numbers: &'a BTreeMap<Known, u64>,
    names: &'a Names,
    calls: &'a BTreeMap<(u64, u64), u64>,
    places: Vec<Place>,
    of: BTreeMap<(u64, u64), usize>,
    instances: BTreeMap<u64, (u64, u64)>,
    sites: BTreeMap<u64, String>,
    used: BTreeMap<u64, u64>,
}

impl<'a> Book<'a> {
    fn new(
        known: &'a BTreeMap<u64, Known>,
        numbers: &'a BTreeMap<Known, u64>,
        names: &'a Names,
        calls: &'a BTreeMap<(u64, u64), u64>,
    ) -> Self {
        Self {
            known,
            numbers,
            names,
            calls,
            places: Vec::new(),
            of: BTreeMap::new(),
            instances: BTreeMap::new(),
            sites: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    /// Returns the index of a place, if the lock is known.
    fn place(&mut self, address: u64, site: u64) -> Option<usize> {
        if let Some(&found) = self.of.get(&(address, site)) {
            return Some(found);
        }
        let known = self.known.get(&address)?;
        let lock = *self.numbers.get(known)?;
        let element = self.names.variable(address).filter(|element| *element != known.name);
        let used = &mut self.used;
        let (_, instance) = *self.instances.entry(address).or_insert_with(|| {
            let next = used.entry(lock).or_default();
            *next += 1;
            (lock, *next - 1)
        });
        let name = match site {
            0 => String::new(),
            site => {
                let name = || self.names.place(site, &[0; CALLERS]);
                self.sites.entry(site).or_insert_with(name).clone()
            }
        };
        let calls = self.calls.get(&(address, site)).copied().unwrap_or(0);
        let element = element.unwrap_or_default();
        self.places.push(Place { lock, instance, element, site: name, calls });
        self.of.insert((address, site), self.places.len() - 1);
        Some(self.places.len() - 1)
    }

    fn steps(&mut self, clock: &Clock, recorded: &[layout::Step], keys: &[Key]) -> Vec<Step> {
        // Differences of rounded times, so that the times of threads stay comparable.
        let time = |ticks: u64| clock.ns(ticks.saturating_sub(clock.begin));
        let (mut steps, mut last) = (Vec::new(), time(recorded[0].begin));
        for step in recorded {
            let (begin, code) = (time(step.begin), step.what);
            let end = time(step.end).max(begin);
            let what = code >> STEP_SHIFT;
            let kind = code & STEP_KIND;
            let place = match kind {
                STEP_YIELD => Some(0),
                STEP_UNLOCK => self.place(what, 0),
                _ => keys.get(what as usize).and_then(|key| self.place(key.address(), key.site)),
            };
            let Some(place) = place else { continue };
            let what = match kind {
                STEP_LOCK => What::Lock,
                STEP_UNLOCK => What::Unlock,
                STEP_WAIT => What::Wait,
                STEP_SIGNAL => What::Signal,
                STEP_BROADCAST => What::Broadcast,
                STEP_YIELD => What::Yield,
                STEP_BARRIER => What::Barrier,
                _ => What::Other,
            };
            steps.push(Step {
                what,
                off: code & STEP_OFF != 0,
                failed: code & STEP_FAILED != 0,
                place,
                gap_ns: begin.saturating_sub(last),
                took_ns: end - begin,
            });
            last = end;
        }
        steps
    }
}

/// Returns the cosine between two vectors of counts.
fn cosine<K: Ord>(one: &BTreeMap<K, u64>, other: &BTreeMap<K, u64>) -> f64 {
    fn norm<K: Ord>(counts: &BTreeMap<K, u64>) -> f64 {
        counts.values().map(|count| (*count as f64).powi(2)).sum::<f64>().sqrt()
    }
    let product =
        one.iter().filter_map(|(site, count)| Some(*count as f64 * *other.get(site)? as f64));
    let norms = norm(one) * norm(other);
    if norms > 0.0 { product.sum::<f64>() / norms } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_alike_by_where_they_call_from() {
        let of = |pairs: &[(u64, u64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
        let (put, take) = (of(&[(1, 900), (2, 100)]), of(&[(3, 800), (2, 200)]));
        assert!(cosine(&put, &of(&[(1, 90), (2, 20)])) > ALIKE);
        assert!(cosine(&put, &take) < ALIKE);
        assert!(cosine(&put, &BTreeMap::new()).abs() < 1e-9);
    }
}
