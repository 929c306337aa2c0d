//! Reads the files that processes wrote; see [`crate::layout`].
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
pub(crate) mod part;
pub(crate) mod runtime_locks;
pub(crate) mod shares;
pub(crate) mod traces;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::RecordError;
use crate::launch::directory::open_file;
use crate::layout::{self, *};
use crate::names::{Names, families, python};
use crate::raw::contention::Seen;
use crate::raw::futexes::Futexes;
use crate::raw::keys::{Comers, Key, act};
use crate::raw::neighbours::neighbours;
use crate::raw::part::read_part;
use crate::raw::runtime_locks::{Context, Jit, Waits};
use crate::raw::traces::{Clock, Known, Traces};
use crate::record::causes::Counted;
use crate::record::merge::sorted;
use crate::record::origin::Origin;
use crate::record::thread::Thread;
use crate::record::times::rounded;
use crate::record::unrecorded::{Unloaded, Unrecorded};
use crate::record::{Kind, Lock, Process, Site, Stack, Times, Waiters, total};
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
            found.push((raw.header.ns_begin, raw.process(look).map_err(refused)?));
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
    pub(crate) header: Box<Header>,
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
        if file.metadata()?.len() < size_of::<layout::File>() as u64 {
            return Ok(None);
        }
        let header: Box<Header> = read_part(&file, 0)?;
        if header.magic != MAGIC || header.version != VERSION {
            return Ok(None);
        }
        let ticks = header.ticks_last.saturating_sub(header.ticks_begin);
        let ns = header.ns_last.saturating_sub(header.ns_begin);
        let tick_ns = if ticks > 0 { ns as f64 / ticks as f64 } else { 0.0 };
        Ok(Some(Self { file, header, tick_ns }))
    }

    /// Reads the part at this offset of the file, bytes.
    pub(crate) fn part<T: Part>(&self, offset: usize) -> std::io::Result<Box<T>> {
        read_part(&self.file, offset)
    }

    /// Reads an entry of the table at this offset of the file, bytes.
    pub(crate) fn entry<T: Part>(&self, table: usize, index: usize) -> std::io::Result<Box<T>> {
        self.part(table + index * size_of::<T>())
    }

    fn text(&self, offset: usize, bytes: usize) -> std::io::Result<Vec<u8>> {
        let mut text = vec![0; bytes];
        self.file.read_exact_at(&mut text, offset as u64)?;
        Ok(text)
    }

    fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.tick_ns / 1e9
    }

    /// Returns the process with the fields that its header contains.
    fn head(&self) -> std::io::Result<Process> {
        let header = &self.header;
        let bytes = size_of_val(&header.command);
        let command = self.text(offset_of!(layout::File, header.command), bytes)?;
        let command = command.split(|byte| *byte == 0).take_while(|word| !word.is_empty());
        Ok(Process {
            pid: header.pid,
            parent: header.parent,
            command: command.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            seconds: header.ns_last.saturating_sub(header.ns_begin) as f64 / 1e9,
            cpu_s: header.cpu_ns as f64 / 1e9,
            ended: header.ended == 1,
            threads: header.threads,
            threads_lost: header.threads_lost,
            unrecorded: Unrecorded::of(header),
            unloaded: Unloaded::all(header),
            chosen: header.chosen,
            sees_switches: header.sees_switches == 1,
            ..Process::default()
        })
    }

    fn process(&self, mut look: Look) -> std::io::Result<Process> {
        let (header, mut process) = (&self.header, self.head()?);
        let (mut locks, mut traces) = (BTreeMap::new(), Traces::default());
        let mut yields = [BTreeMap::new(), BTreeMap::new()];
        let (contexts, mut waits) = (self.contexts()?, Waits::new());
        for slot in 0..(header.slots as usize).min(SLOT_COUNT) {
            let few = self.entry(offset_of!(layout::File, few), slot)?;
            let slot = self.entry(offset_of!(layout::File, slots), slot)?;
            let keys = Key::all(&slot, &few);
            self.slot(&slot, &keys, &mut process, &mut locks, &mut yields, &mut waits)?;
            traces.slot(&keys, |site| match contexts.get(&(site & !CONTEXT)) {
                Some(context) if site & CONTEXT != 0 => context.site,
                _ => site,
            });
        }
        process.keep_threads();
        self.shared(&mut locks, &mut waits)?;
        let map_bytes = (header.map_bytes as usize).min(MAP_WORDS * 8);
        let maps = self.text(offset_of!(layout::File, map), map_bytes)?;
        let maps = String::from_utf8_lossy(&maps).replace('\0', "\n");
        let mut names = Names::new(&maps, u32::try_from(header.pid).ok());
        names.python =
            python::places(&*self.part::<[_; PLACE_COUNT]>(offset_of!(layout::File, places))?);
        process.gone = names.gone();
        let jit = Jit::read(header.pid, header.ns_begin);
        let counted =
            |(site, count): (u64, u64)| Counted { place: names.place(site, &[0; CALLERS]), count };
        [process.yields, process.attempts] = yields.map(|of| {
            let mut all: Vec<Counted> = of.into_iter().map(counted).collect();
            all.sort_by_key(|one| std::cmp::Reverse(one.count));
            all
        });
        let seen = self.waiters()?;
        let edges: Box<[layout::Edge; EDGE_COUNT]> = self.part(offset_of!(layout::File, edges))?;
        let wakers = futexes::wakers(&*edges);
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
        let frames = contexts.values().flat_map(Context::frames);
        process.schedulers = names.schedulers(frames.chain(sites.clone()));
        process.debug_links = names.debug_links(sites);
        let known;
        (process.locks, known) = named(locks, &names, process.seconds, &seen);
        let address = |(at, one): (&u64, &Known)| (*at, (one.name.clone(), one.kind));
        process.neighbours = neighbours(&known);
        process.addresses = known.iter().map(address).chain(futexes.addresses()).collect();
        for (address, name) in used {
            process.addresses.entry(address).or_insert((name, Kind::Mutex));
        }
        for trace in 0..(header.traces as usize).min(TRACE_COUNT) {
            traces.add(self.entry(offset_of!(layout::File, traces), trace)?);
        }
        process.name_threads(traces.thread_names());
        let clock = Clock { begin: header.ticks_begin, tick_ns: self.tick_ns };
        process.trace = traces.read(&clock, &known, &process.locks, &names);
        self.explain(&mut process, &mut look, &names, &known, &futexes, &*edges)?;
        process.futexes.extend(process.locks.extract_if(.., |lock| lock.kind == Kind::Futex));
        Ok(process)
    }

    /// Returns the call stacks of waits on per-thread conditions, by number.
    fn contexts(&self) -> std::io::Result<BTreeMap<u64, Context>> {
        let stacks: Box<[CallStack; STACK_COUNT]> = self.part(offset_of!(layout::File, stacks))?;
        let stacks = (0..).zip(stacks.iter());
        Ok(stacks.filter_map(|(number, stack)| Some((number, Context::read(stack)?))).collect())
    }

    /// Adds the counts of one slot.
    fn slot(
        &self,
        slot: &Slot,
        keys: &[Key],
        process: &mut Process,
        locks: &mut BTreeMap<u64, Found>,
        yields: &mut [BTreeMap<u64, u64>; 2],
        waits: &mut Waits,
    ) -> std::io::Result<()> {
        process.add_lost(slot.state.grown, slot.state.lost);
        // Yields and signals are no acquisitions.
        let is_counted =
            |key: &&Key| key.lock != 0 && ![YIELD, SIGNAL, BROADCAST].contains(&key.kind());
        let waited = |phases: &[u64]| rounded(self.seconds(total(phases.iter().copied())));
        process.add_thread(Thread {
            id: slot.state.thread,
            earlier: slot.state.generation.saturating_sub(1),
            count: total(keys.iter().filter(is_counted).map(|key| key.count)),
            lock_wait_s: waited(&slot.lock_phases),
            wait_s: waited(&slot.phases),
        });
        let seconds = process.seconds;
        process.phase_s = seconds / PHASES as f64;
        for (waited, shift, phases) in [
            (&slot.phases[..], slot.state.phase_shift, &mut process.phases_wait_s),
            (&slot.lock_phases[..], slot.state.lock_phase_shift, &mut process.phases_lock_s),
        ] {
            phases.resize(PHASES, 0.0);
            for (phase, ticks) in waited.iter().enumerate() {
                self.phase(phases, seconds, phase, shift.min(62), *ticks);
            }
        }
        let conditions = keys.iter().filter(|key| key.kind() == CONDITION && key.count > 0);
        let waits_for: BTreeSet<u64> = conditions.map(Key::address).collect();
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
            if key.kind() == SIGNAL && waits_for.contains(&key.address()) {
                site.by_waiters = key.count;
            }
            if site.wait.count > 0 {
                // The names of the callers follow.
                site.stacks.push(Stack { threads: vec![slot.state.thread], ..Stack::default() });
            }
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
        while index < (self.header.details as usize).min(DETAIL_COUNT) {
            let first: Box<Detail> = self.entry(offset_of!(layout::File, details), index)?;
            let shards = (first.shards as usize).min(DETAIL_COUNT - index);
            let kind = first.lock >> KIND_SHIFT;
            let address = keys::address(first.lock, first.site);
            for at in index..index + shards {
                let (site, _) = self.detail(at, true)?;
                if site == Site::default() {
                    continue;
                }
                if first.site & CONTEXT != 0 {
                    let number = futexes::number(kind, first.site);
                    waits.entry((number, address)).or_default().add(&site);
                    continue;
                }
                let found = locks.entry(address).or_default();
                found.kind = Kind::of(kind);
                let called = Called { kind, site: first.site, callers: first.callers };
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
        let detail: Box<Detail> = self.entry(offset_of!(layout::File, details), index)?;
        if detail.shards != 0 && !shared {
            return Ok((Site::default(), detail.callers));
        }
        let site = Site {
            contended: detail.contended,
            failed: detail.failed,
            hold_on: self.times(&detail.hold_on),
            hold_off: self.times(&detail.hold_off),
            wait: self.times(&detail.wait),
            think_on: self.times(&detail.think_on),
            think_off: self.times(&detail.think_off),
            handoff: self.times(&detail.handoff),
            acquire: self.times(&detail.acquire),
            futile: detail.futile,
            returned: detail.returned,
            passed: detail.passed,
            ..Site::default()
        };
        Ok((site, detail.callers))
    }

    /// Returns the times of a distribution, without the time of a clock reading.
    fn times(&self, distribution: &Distribution) -> Times {
        let Distribution { count, sum, max, ref buckets, .. } = *distribution;
        let stamp = self.header.stamp;
        let mut times = Times {
            count,
            total_s: rounded(self.seconds(sum.saturating_sub(count.saturating_mul(stamp)))),
            max_s: rounded(self.seconds(max.saturating_sub(stamp))),
            buckets: Vec::new(),
        };
        for (bucket, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            // The bucket whose middle is the middle of this one less the time of a clock reading.
            let begin = (least(bucket) as f64 - stamp as f64 / MIDDLE).max(0.0);
            times.buckets.push((rounded(begin * self.tick_ns), *count));
        }
        times
    }

    /// Returns the observations of locks, by address: the times with waiters, and for semaphores
    /// and conditions the releases by owners and by others.
    fn waiters(&self) -> std::io::Result<BTreeMap<u64, Seen>> {
        let table: Box<[layout::Lock; LOCK_COUNT]> = self.part(offset_of!(layout::File, locks))?;
        let mut locks = BTreeMap::new();
        for lock in table.iter().filter(|lock| lock.address != 0) {
            let longest_at = lock.longest_at.saturating_sub(self.header.ticks_begin);
            let waiters = Waiters {
                seconds: self.seconds(lock.waited),
                longest_s: self.seconds(lock.longest),
                longest_at_s: self.seconds(longest_at),
                most: lock.waiters_max,
            };
            let given = [lock.owner_releases, lock.other_releases];
            locks.insert(lock.address, Seen { waiters, given, mutex: lock.mutex });
        }
        Ok(locks)
    }
}

/// Names the locks and joins those of the same name.
fn named(
    locks: BTreeMap<u64, Found>,
    names: &Names,
    seconds: f64,
    waiters: &BTreeMap<u64, Seen>,
) -> (Vec<Lock>, BTreeMap<u64, Known>) {
    let mut places: BTreeMap<(u64, [u64; CALLERS]), (String, Vec<String>)> = BTreeMap::new();
    let mut single: Vec<(u64, Lock)> = Vec::new();
    let most = most_waited(&locks);
    for (address, found) in locks.into_iter().flat_map(|(at, found)| apart(at, found)) {
        let longest =
            found.sites.iter().max_by(|a, b| a.1.wait.total_s.total_cmp(&b.1.wait.total_s));
        let origin = longest.and_then(|(called, _)| called.origin(address, names));
        let mut sites: BTreeMap<(String, String), Site> = BTreeMap::new();
        // The threads of a place that several callers lead to are counted once.
        let mut counted = BTreeSet::new();
        for (Called { kind, site: at, callers }, mut site) in found.sites {
            let (place, outer) = places.entry((at, callers)).or_insert_with(|| {
                let place = names.under(names.place(at, &callers), at, &most[&at].1);
                let outer = names.outer(&place, &callers);
                (place, outer)
            });
            let place = place.clone();
            site.called_by(outer);
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
        // Keeps this result when semaphores of the same name are joined.
        own.held_for_good |= own.kind == Kind::Semaphore && !own.is_lock();
        single.push((address, own));
    }
    families::name(&mut single, names, false);
    let mut all: BTreeMap<(String, Kind, bool), Lock> = BTreeMap::new();
    let (mut known, mut mutexes) = (BTreeMap::<u64, Known>::new(), Vec::new());
    for (address, own) in single {
        // One function may take semaphores that are used as locks and semaphores that are used as
        // signals.
        let is_lock = own.is_lock();
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

impl Called {
    /// Returns the origin of the lock at an address that is acquired or waited for here. The
    /// function in which JavaScript waits calls the one that waits for the condition.
    fn origin(&self, address: u64, names: &Names) -> Option<Origin> {
        let of_caller = || {
            let mut origins = self.callers.iter().filter_map(|caller| names.runtime(*caller));
            origins.find(|origin| self.kind == CONDITION && *origin == Origin::JavaScript)
        };
        names.origin(address, self.site).or_else(of_caller)
    }
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
