//! Reads the files that processes wrote; see [`layout`](crate::layout).
//!
//! The process may have been killed at any moment, so no number is trusted: an index out of range
//! is ignored.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the names of the layout are its own vocabulary")
)]

pub(crate) mod causes;
pub(crate) mod contention;
pub(crate) mod futexes;
pub(crate) mod keys;
pub(crate) mod neighbours;
pub(crate) mod runtime_locks;
pub(crate) mod traces;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::RecordError;
use crate::launch::directory::open_file;
use crate::layout::*;
use crate::names::{Names, named_after, python};
use crate::raw::contention::Seen;
use crate::raw::futexes::Futexes;
use crate::raw::keys::{Comers, Key, act};
use crate::raw::neighbours::neighbours;
use crate::raw::runtime_locks::{Context, Jit, Waits};
use crate::raw::traces::{Clock, Known, Traces};
use crate::record::causes::Counted;
use crate::record::merge::sorted;
use crate::record::times::rounded;
use crate::record::unrecorded::{Unloaded, Unrecorded};
use crate::record::{Kind, Lock, Process, Site, Times, Waiters, total};
use crate::sampling::observations::Look;
use crate::sampling::sampler::Looks;

/// Number of phases of a process.
const PHASES: usize = 100;

/// Reads the files that the processes of one program left in `directory`. Returns the processes in
/// the order in which they began.
///
/// # Errors
/// The directory or a file in it cannot be read.
pub fn read(directory: &Path) -> Result<Vec<Process>, RecordError> {
    read_with(directory, &mut Looks::at(directory))
}

/// Reads the files like [`read`] and adds the samples that were taken while the processes ran.
///
/// # Errors
/// As for [`read`].
pub fn read_with(directory: &Path, looks: &mut Looks) -> Result<Vec<Process>, RecordError> {
    let refused = |source| RecordError::Read { path: directory.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        let refused = |source| RecordError::Read { path: path.clone(), source };
        if let Some(raw) = Raw::open(&path).map_err(refused)? {
            let look = looks.take(&path).unwrap_or_default();
            found.push((raw.header[H_NS_BEGIN], raw.process(look).map_err(refused)?));
        }
    }
    found.sort_by_key(|(begin, process)| (*begin, process.pid));
    let mut processes: Vec<Process> = found.into_iter().map(|(_, process)| process).collect();
    looks.add_dumps(&mut processes);
    Ok(processes)
}

/// The file of one process.
pub(crate) struct Raw {
    file: File,
    pub(crate) header: Vec<u64>,
    /// Nanoseconds per tick.
    pub(crate) tick_ns: f64,
}

/// A lock of the process that is not named yet.
#[derive(Default)]
struct Found {
    kind: Kind,
    sites: BTreeMap<Called, Site>,
    /// Threads that call at each site, by kind of call and call site.
    callers: BTreeMap<(u64, u64), Comers>,
}

/// Ratio of the middle of a bucket, which spans half a power of two, to its lower bound.
const MIDDLE: f64 = 1.0 + (std::f64::consts::SQRT_2 - 1.0) / 2.0;

/// A call site with its kind and the callers of the function around it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Called {
    kind: u64,
    site: u64,
    callers: [u64; CALLERS],
}

impl Raw {
    /// Opens a file. Returns `None` if it is not the file of a process or was cut off before
    /// recording began.
    fn open(path: &Path) -> std::io::Result<Option<Self>> {
        let Some(file) = open_file(path) else { return Ok(None) };
        let mut raw = Self { file, header: Vec::new(), tick_ns: 0.0 };
        if raw.file.metadata()?.len() < FILE_WORDS as u64 * 8 {
            return Ok(None);
        }
        raw.header = raw.words(0, PAGE)?;
        let header = &raw.header;
        if header[H_MAGIC] != MAGIC || header[H_VERSION] != VERSION {
            return Ok(None);
        }
        let ticks = header[H_TICKS_LAST].saturating_sub(header[H_TICKS_BEGIN]);
        let ns = header[H_NS_LAST].saturating_sub(header[H_NS_BEGIN]);
        raw.tick_ns = if ticks > 0 { ns as f64 / ticks as f64 } else { 0.0 };
        Ok(Some(raw))
    }

    pub(crate) fn words(&self, first: usize, count: usize) -> std::io::Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        self.file.read_exact_at(&mut bytes, first as u64 * 8)?;
        let words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        Ok(words.collect())
    }

    fn text(&self, first: usize, bytes: usize) -> std::io::Result<Vec<u8>> {
        let mut text = vec![0; bytes];
        self.file.read_exact_at(&mut text, first as u64 * 8)?;
        Ok(text)
    }

    fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.tick_ns / 1e9
    }

    /// Returns the process with the fields that its header contains.
    fn head(&self) -> std::io::Result<Process> {
        let header = &self.header;
        let command = self.text(H_COMMAND, COMMAND_WORDS * 8)?;
        let command = command.split(|byte| *byte == 0).take_while(|word| !word.is_empty());
        Ok(Process {
            pid: header[H_PID],
            parent: header[H_PARENT],
            command: command.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            seconds: header[H_NS_LAST].saturating_sub(header[H_NS_BEGIN]) as f64 / 1e9,
            cpu_s: header[H_CPU_NS] as f64 / 1e9,
            ended: header[H_ENDED] == 1,
            threads: header[H_THREADS],
            threads_lost: header[H_THREADS_LOST],
            unrecorded: Unrecorded::of(header),
            unloaded: Unloaded::all(header),
            chosen: header[H_CHOSEN],
            sees_switches: header[H_SEES_SWITCHES] == 1,
            ..Process::default()
        })
    }

    fn process(&self, mut look: Look) -> std::io::Result<Process> {
        let (header, mut process) = (&self.header, self.head()?);
        let (mut locks, mut traces) = (BTreeMap::new(), Traces::default());
        let mut yields = [BTreeMap::new(), BTreeMap::new()];
        let (contexts, mut waits) = (self.contexts()?, Waits::new());
        for slot in 0..(header[H_SLOTS] as usize).min(SLOT_COUNT) {
            let words = self.words(SLOTS + slot * SLOT_WORDS, SLOT_WORDS)?;
            let few = self.words(FEW + slot * FEW_WORDS, FEW_WORDS)?;
            let keys = Key::all(&words, &few);
            self.slot(&words, &keys, &mut process, &mut locks, &mut yields, &mut waits)?;
            traces.slot(&keys, |site| match contexts.get(&(site & !CONTEXT)) {
                Some(context) if site & CONTEXT != 0 => context.site,
                _ => site,
            });
        }
        self.shared(&mut locks, &mut waits)?;
        let maps = self.text(MAP, (header[H_MAP_BYTES] as usize).min(MAP_WORDS * 8))?;
        let maps = String::from_utf8_lossy(&maps).replace('\0', "\n");
        let mut names = Names::new(&maps, u32::try_from(header[H_PID]).ok());
        names.python = python::places(&self.words(PLACES, PLACE_COUNT * PLACE_WORDS)?);
        process.gone = names.gone();
        let jit = Jit::read(header[H_PID], header[H_NS_BEGIN]);
        let counted =
            |(site, count): (u64, u64)| Counted { place: names.place(site, &[0; CALLERS]), count };
        [process.yields, process.attempts] = yields.map(|of| {
            let mut all: Vec<Counted> = of.into_iter().map(counted).collect();
            all.sort_by_key(|one| std::cmp::Reverse(one.count));
            all
        });
        let seen = self.waiters()?;
        let wakers = crate::raw::futexes::wakers(&self.words(EDGES, EDGE_COUNT * EDGE_WORDS)?);
        let into = &mut process.futexes;
        let futexes = Futexes::take(&mut waits, &contexts, &names, &seen, &wakers, into);
        let used;
        (process.runtime_locks, used) = runtime_locks::locks(&mut waits, &contexts, &names, &jit);
        for ((number, address), site) in waits {
            let Some(context) = contexts.get(&number) else { continue };
            let (at, callers) = context.outside(&names);
            let found = locks.entry(address).or_default();
            found.kind = Kind::Condition;
            let called = Called { kind: CONDITION, site: at, callers };
            found.sites.entry(called).or_default().add(&site);
        }
        let sites = locks.values().flat_map(|found| &found.sites);
        let sites = sites.filter(|(_, site)| site.wait.count > 0).map(|(called, _)| called.site);
        process.debug_links = names.debug_links(sites);
        let known;
        (process.locks, known) = named(locks, &names, process.seconds, &seen);
        let address = |(at, one): (&u64, &Known)| (*at, (one.name.clone(), one.kind));
        process.neighbours = neighbours(&known);
        process.addresses = known.iter().map(address).chain(futexes.addresses()).collect();
        for (address, name) in used {
            process.addresses.entry(address).or_insert((name, Kind::Mutex));
        }
        for trace in 0..(header[H_TRACES] as usize).min(TRACE_COUNT) {
            traces.add(&self.words(TRACES + trace * TRACE_WORDS, TRACE_WORDS)?);
        }
        let clock = Clock { begin: header[H_TICKS_BEGIN], tick_ns: self.tick_ns };
        process.trace = traces.read(&clock, &known, &process.locks, &names);
        self.explain(&mut process, &mut look, &names, &known, &futexes)?;
        process.futexes.extend(process.locks.extract_if(.., |lock| lock.kind == Kind::Futex));
        Ok(process)
    }

    /// Returns the call stacks of waits on per-thread conditions, by number.
    fn contexts(&self) -> std::io::Result<BTreeMap<u64, Context>> {
        let words = self.words(CONTEXTS, CONTEXT_COUNT * CONTEXT_WORDS)?;
        let all = (0..).zip(words.chunks_exact(CONTEXT_WORDS));
        Ok(all.filter_map(|(number, words)| Some((number, Context::read(words)?))).collect())
    }

    /// Adds the counts of one slot.
    fn slot(
        &self,
        words: &[u64],
        keys: &[Key],
        process: &mut Process,
        locks: &mut BTreeMap<u64, Found>,
        yields: &mut [BTreeMap<u64, u64>; 2],
        waits: &mut Waits,
    ) -> std::io::Result<()> {
        process.add_lost(words[S_GROWN], words[S_LOST]);
        let seconds = process.seconds;
        process.phase_s = seconds / PHASES as f64;
        for (from, count, shift, phases) in [
            (S_PHASES, PHASE_COUNT, S_PHASE_SHIFT, &mut process.phases_wait_s),
            (S_LOCK_PHASES, LOCK_PHASE_COUNT, S_LOCK_PHASE_SHIFT, &mut process.phases_lock_s),
        ] {
            phases.resize(PHASES, 0.0);
            for (phase, ticks) in words[from..from + count].iter().enumerate() {
                self.phase(phases, seconds, phase, words[shift].min(62), *ticks);
            }
        }
        for key in keys.iter().filter(|key| key.lock != 0 && key.count > 0) {
            if key.kind() == YIELD {
                let is_attempt = key.address() != YIELDS_LOCK as u64;
                let sum = yields[usize::from(is_attempt)].entry(key.site).or_default();
                *sum = total([*sum, key.count]);
                continue;
            }
            let (mut site, callers) = self.detail(key.told.detail() as usize, false)?;
            site.count = key.count;
            site.threads = key.told.threads().max(1);
            if key.site & CONTEXT != 0 {
                let number = futexes::number(key.kind(), key.site);
                waits.entry((number, key.address())).or_default().add(&site);
                continue;
            }
            let found = locks.entry(key.address()).or_default();
            found.kind = Kind::of(key.kind());
            let called = Called { kind: key.kind(), site: key.site, callers };
            found.callers.entry((key.kind(), key.site)).or_default().add(key.count, site.threads);
            found.sites.entry(called).or_default().add(&site);
        }
        Ok(())
    }

    /// Adds the wait time in one phase of a thread to the phases of the process, each of which is a
    /// hundredth of its time.
    fn phase(&self, phases: &mut [f64], seconds: f64, phase: usize, shift: u64, ticks: u64) {
        if ticks > 0 {
            let middle = self.seconds((2 * phase as u64 + 1) << shift) / 2.0;
            let at = (middle / seconds * PHASES as f64).min(PHASES as f64 - 1.0);
            phases[at as usize] += self.seconds(ticks);
        }
    }

    /// Adds the distributions that threads share, which do not belong to any single thread.
    fn shared(&self, locks: &mut BTreeMap<u64, Found>, waits: &mut Waits) -> std::io::Result<()> {
        let mut index = 1;
        while index < (self.header[H_DETAILS] as usize).min(DETAIL_COUNT) {
            let words = self.words(DETAILS + index * DETAIL_WORDS, D_CALLERS + CALLERS)?;
            let shards = (words[D_SHARDS] as usize).min(DETAIL_COUNT - index);
            let kind = words[D_LOCK] >> KIND_SHIFT;
            let address = keys::address(words[D_LOCK], words[D_SITE]);
            for at in index..index + shards {
                let (site, _) = self.detail(at, true)?;
                if site == Site::default() {
                    continue;
                }
                if words[D_SITE] & CONTEXT != 0 {
                    let number = futexes::number(kind, words[D_SITE]);
                    waits.entry((number, address)).or_default().add(&site);
                    continue;
                }
                let found = locks.entry(address).or_default();
                found.kind = Kind::of(kind);
                let callers = words[D_CALLERS..].try_into().expect("as many");
                let called = Called { kind, site: words[D_SITE], callers };
                found.sites.entry(called).or_default().add(&site);
            }
            index += shards.max(1);
        }
        Ok(())
    }

    /// Returns the distributions of a key, and its callers. Both are empty if the key does not have
    /// any. The distributions are also empty if threads share them and `shared` is false.
    fn detail(&self, index: usize, shared: bool) -> std::io::Result<(Site, [u64; CALLERS])> {
        if index == 0 || index >= DETAIL_COUNT {
            return Ok((Site::default(), [0; CALLERS]));
        }
        let words = self.words(DETAILS + index * DETAIL_WORDS, DETAIL_WORDS)?;
        let callers = words[D_CALLERS..][..CALLERS].try_into().expect("as many");
        if words[D_SHARDS] != 0 && !shared {
            return Ok((Site::default(), callers));
        }
        let times = |list: usize| {
            let list = &words[D_LISTS + list * LIST_WORDS..][..LIST_WORDS];
            let filled = list[4..].iter().enumerate().filter(|(_, count)| **count > 0);
            let stamp = self.header[H_STAMP];
            // The bucket whose middle is the middle of this one less the time of a clock reading.
            let ns = |bucket| {
                let begin = least(bucket) as f64;
                rounded((begin - stamp as f64 / MIDDLE).max(0.0) * self.tick_ns)
            };
            Times {
                count: list[0],
                total_s: rounded(
                    self.seconds(list[1].saturating_sub(list[0].saturating_mul(stamp))),
                ),
                max_s: rounded(self.seconds(list[2].saturating_sub(stamp))),
                buckets: filled.map(|(bucket, count)| (ns(bucket), *count)).collect(),
            }
        };
        let site = Site {
            contended: words[D_CONTENDED],
            failed: words[D_FAILED],
            hold_on: times(HOLD_ON),
            hold_off: times(HOLD_OFF),
            wait: times(WAIT),
            think_on: times(THINK_ON),
            think_off: times(THINK_OFF),
            handoff: times(HANDOFF),
            acquire: times(ACQUIRE),
            futile: words[D_FUTILE],
            returned: words[D_RETURNED],
            passed: words[D_PASSED],
            ..Site::default()
        };
        Ok((site, callers))
    }

    /// Returns the observations of locks, by address: the times with waiters, and for semaphores
    /// and conditions the releases by owners and by others.
    fn waiters(&self) -> std::io::Result<BTreeMap<u64, Seen>> {
        let words = self.words(LOCKS, LOCK_COUNT * LOCK_WORDS)?;
        let filled = words.chunks_exact(LOCK_WORDS).filter(|lock| lock[L_ADDRESS] != 0);
        let since = |ticks: u64| ticks.saturating_sub(self.header[H_TICKS_BEGIN]);
        Ok(filled
            .map(|lock| {
                let waiters = Waiters {
                    seconds: self.seconds(lock[L_WAITED]),
                    longest_s: self.seconds(lock[L_LONGEST]),
                    longest_at_s: self.seconds(since(lock[L_LONGEST_AT])),
                    most: lock[L_MOST],
                };
                let given = [lock[L_OWN], lock[L_OTHER]];
                (lock[L_ADDRESS], Seen { waiters, given, mutex: lock[L_MUTEX] })
            })
            .collect())
    }
}

/// Names the locks and joins those of the same name. A lock that is not a named variable is named
/// after the place that waited longest for it. Between places with equal waits, the number of calls
/// decides.
fn named(
    locks: BTreeMap<u64, Found>,
    names: &Names,
    seconds: f64,
    waiters: &BTreeMap<u64, Seen>,
) -> (Vec<Lock>, BTreeMap<u64, Known>) {
    let mut places: BTreeMap<(u64, [u64; CALLERS]), String> = BTreeMap::new();
    let mut all: BTreeMap<(String, Kind, bool), Lock> = BTreeMap::new();
    let (mut known, mut mutexes) = (BTreeMap::<u64, Known>::new(), Vec::new());
    let most = most_waited(&locks);
    for (address, found) in locks.into_iter().flat_map(|(at, found)| apart(at, found)) {
        let longest =
            found.sites.iter().max_by(|a, b| a.1.wait.total_s.total_cmp(&b.1.wait.total_s));
        let origin = longest.and_then(|(called, _)| names.origin(address, called.site));
        let mut sites: BTreeMap<(String, String), Site> = BTreeMap::new();
        // The threads of a place that several callers lead to are counted once.
        let mut counted = BTreeSet::new();
        for (Called { kind, site: at, callers }, mut site) in found.sites {
            let place = places
                .entry((at, callers))
                .or_insert_with(|| names.under(names.place(at, &callers), at, &most[&at].1));
            let place = place.clone();
            let is_first = counted.insert((kind, at, place.clone()));
            // A thread is recorded with the caller under which it first waited, but it also has
            // others.
            let all = if is_first { found.callers.get(&(kind, at)) } else { None };
            (site.threads, site.regulars) = all.map_or((0, 0), |all| (all.threads, all.regulars()));
            sites.entry((place, act(kind).to_owned())).or_default().add(&site);
        }
        let origin = origin.unwrap_or_default();
        let mut own = Lock { kind: found.kind, origin, instances: 1, ..Lock::default() };
        if let Some(seen) = waiters.get(&address) {
            own.waiters = seen.waiters;
            [own.given_by_owner, own.given_by_others] = seen.given;
        }
        let sites = sites.into_iter();
        own.sites = sites.map(|((place, act), site)| Site { place, act, ..site }).collect();
        own.held_for_good = own.kind == Kind::Semaphore && own.is_for_good(seconds);
        let most = own
            .sites
            .iter()
            .max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s).then(a.count.cmp(&b.count)));
        let place = most.map_or_else(String::new, |site| site.place.clone());
        // One function may take semaphores that are used as locks and semaphores that are used as
        // signals.
        let is_lock = own.is_lock();
        // Keeps this result when semaphores of the same name are joined.
        own.held_for_good |= own.kind == Kind::Semaphore && !is_lock;
        own.name = names.variable(address).unwrap_or_else(|| named_after(&place, is_lock));
        known.insert(address, Known { name: own.name.clone(), kind: own.kind, is_lock });
        mutexes.extend(
            waiters
                .get(&address)
                .filter(|seen| seen.mutex != 0)
                .map(|seen| ((own.name.clone(), own.kind, is_lock), seen.mutex)),
        );
        match all.entry((own.name.clone(), own.kind, is_lock)) {
            Entry::Vacant(free) => drop(free.insert(own)),
            Entry::Occupied(mut known) => known.get_mut().join(own),
        }
    }
    for (key, mutex) in mutexes {
        if let (Some(lock), Some(name)) = (all.get_mut(&key), known.get(&mutex)) {
            lock.mutex.clone_from(&name.name);
        }
    }
    (sorted(all.into_values().collect()), known)
}

/// Splits the calls at one address by kind, since stack memory may first hold a mutex and later a
/// condition.
fn apart(address: u64, found: Found) -> impl Iterator<Item = (u64, Found)> {
    let of_condition = |kind: u64| [CONDITION, SIGNAL].contains(&kind);
    let (mut locks, mut conditions) = (Found::default(), Found::default());
    for (called, site) in found.sites {
        let part = if of_condition(called.kind) { &mut conditions } else { &mut locks };
        part.kind = Kind::of(called.kind);
        part.sites.insert(called, site);
    }
    for ((kind, site), callers) in found.callers {
        let part = if of_condition(kind) { &mut conditions } else { &mut locks };
        part.callers.insert((kind, site), callers);
    }
    let parts = [conditions, locks].into_iter().filter(|part| !part.sites.is_empty());
    parts.map(move |part| (address, part))
}

/// Returns the callers under which threads waited longest, by call site.
fn most_waited(locks: &BTreeMap<u64, Found>) -> BTreeMap<u64, (f64, [u64; CALLERS])> {
    let mut most = BTreeMap::new();
    for (called, site) in locks.values().flat_map(|found| &found.sites) {
        let known = most.entry(called.site).or_insert((-1.0, called.callers));
        if site.wait.total_s > known.0 {
            *known = (site.wait.total_s, called.callers);
        }
    }
    most
}
