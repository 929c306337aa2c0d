//! Observes a running process from outside: samples many times a second which of its threads wait
//! and for which lock, from the information that the kernel gives to a process with tracing
//! permission. Nothing is stopped or changed.
//!
//! For a thread that sleeps in futex(2), the kernel shows the word that it waits on. The thread's
//! stack shows the call that led there: the first word that is a return address of a call of a
//! locking function. The owner's thread ID is stored in libc's mutex, and its state is in `/proc`.
//! Activity while no thread waits is not observed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use convoy_os::process::{self, Mapping, Stat, mappings};

use crate::launch::RECORDER;
use crate::names::mapped_file::with_identities;
use crate::record::{Process, Site};
use crate::sampling::counts::{Counts, Moment, Named, Place, Stay, Unfinished};
use crate::sampling::syscall_file::{Call, Sleep};

/// [`Program::source`](crate::Program::source) of such a record.
pub const SOURCE: &str = "a look from outside";

/// Maximum number of rounds per second.
pub(crate) const RATE: f64 = 500.0;
/// Maximum share of the time that sampling may take.
pub(crate) const SHARE: f64 = 0.03;
/// Time between two listings of the threads.
pub(crate) const LIST: Duration = Duration::from_millis(50);
/// Maximum number of files that are kept open.
pub(crate) const KEPT_OPEN: usize = 400;
/// Number of bytes of a stack that are read.
const STACK: usize = 4096;
/// Maximum number of stack words that are kept: those that point into code.
const WORDS: usize = 48;
/// Maximum number of distinct waits that are kept, and of places where owners slept.
pub(crate) const MOST: usize = 4096;
/// Time after which the memory map is first read again; this interval doubles each time.
const MAPS: Duration = Duration::from_millis(100);

/// Reasons why a process cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no such process.
    #[error("there is no process {0}; see ps")]
    None(u32),
    /// Permission to trace the process was denied.
    #[error(
        "process {0} may not be looked at: it is another user's, or the kernel lets programs be \
         traced by their parents only; run this as root, set kernel.yama.ptrace_scope to 0, or \
         start the program with convoy record"
    )]
    Refused(u32),
    /// The process has no memory map.
    #[error("process {0} is a thread of the kernel, or it has ended; see ps")]
    NoMemory(u32),
    /// The kernel does not report system calls.
    #[error(
        "the kernel does not tell what threads wait for ({0}); start the program with convoy record"
    )]
    Silent(std::io::Error),
    /// The path is not a control group.
    #[error(
        "{} is no control group; name a directory below /sys/fs/cgroup, or what systemctl status \
         shows after CGroup:", .0.display()
    )]
    NoGroup(PathBuf),
    /// The control group is empty.
    #[error("the control group {} has no processes that are seen from here", .0.display())]
    EmptyGroup(PathBuf),
}

struct Thread {
    /// The thread's `syscall` file; kept open unless there are too many.
    syscall: Option<File>,
    /// The sleep, the index of its place, and for how many seconds it was seen there.
    waits: Option<(Sleep, usize, f64)>,
    /// Number of listings that contained it.
    listings: u64,
}

/// A process that is observed from outside.
pub struct Attached {
    pub(crate) pid: u32,
    memory: File,
    command: Vec<String>,
    pub(crate) maps: String,
    mapped: Option<(Instant, Duration)>,
    /// Start and end of its code.
    code: Vec<(u64, u64)>,
    /// Address range of the recorder's code in the process.
    pub(crate) recorder: Range<u64>,
    threads: BTreeMap<u32, Thread>,
    kept_open: usize,
    pub(crate) most: usize,
    /// CPU time before the recording, in seconds.
    cpu_before_s: f64,
    listed: Option<Instant>,
    /// Time between two listings of the threads.
    list_each: Duration,
    pub(crate) begin: Instant,
    last: Instant,
    /// Places of waits. [`Counts::sites`] has the same order.
    pub(crate) places: Vec<Place>,
    pub(crate) counts: Counts,
    pub(crate) named: Named,
    known: BTreeMap<Place, usize>,
    /// Pairs of a place and a thread that was seen there.
    seen: BTreeSet<(usize, u32)>,
    pub(crate) sleeps: Vec<Vec<u64>>,
    asleep: BTreeMap<Vec<u64>, usize>,
    /// Names of threads, also of those that have ended.
    pub(crate) thread_names: BTreeMap<u64, String>,
    phases: Phases,
}

/// Wait time of all threads by phase; phases become longer as the recording does.
struct Phases {
    length_s: f64,
    waits_s: [f64; PHASES],
}

/// Number of phases. When the last one is over, neighbouring phases are merged in pairs.
const PHASES: usize = 128;

impl Phases {
    fn add(&mut self, at_s: f64, wait_s: f64) {
        while at_s >= self.length_s * PHASES as f64 {
            for phase in 0..PHASES {
                let pair = self.waits_s.get(2 * phase..2 * phase + 2);
                self.waits_s[phase] = pair.map_or(0.0, |pair| pair.iter().sum());
            }
            self.length_s *= 2.0;
        }
        self.waits_s[(at_s / self.length_s) as usize] += wait_s;
    }
}

impl Attached {
    /// Attaches to a process.
    ///
    /// # Errors
    /// Returns an [`AttachError`] if the process does not exist, may not be traced or has no
    /// memory, or if the kernel does not report its system calls.
    pub fn new(pid: u32) -> Result<Self, AttachError> {
        let refused = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => AttachError::None(pid),
            ErrorKind::PermissionDenied => AttachError::Refused(pid),
            _ => AttachError::Silent(error),
        };
        let file = |name: &str| format!("/proc/{pid}/{name}");
        let maps = process::maps(pid).map_err(refused)?;
        if maps.is_empty() {
            return Err(AttachError::NoMemory(pid));
        }
        let memory = File::open(file("mem")).map_err(refused)?;
        std::fs::read(file("syscall")).map_err(|error| match error.kind() {
            ErrorKind::NotFound => AttachError::Silent(error),
            _ => refused(error),
        })?;
        let maps = with_identities(pid, &maps);
        let now = Instant::now();
        let cpu_before_s = Stat::of(pid).map_or(0.0, |stat| stat.cpu_s());
        Ok(Self {
            pid,
            memory,
            command: process::command(pid),
            cpu_before_s,
            code: code(&maps),
            recorder: recorder(&maps),
            maps,
            mapped: None,
            threads: BTreeMap::new(),
            kept_open: KEPT_OPEN,
            most: 0,
            listed: None,
            list_each: LIST,
            begin: now,
            last: now,
            places: Vec::new(),
            counts: Counts::default(),
            named: Named::default(),
            known: BTreeMap::new(),
            seen: BTreeSet::new(),
            sleeps: Vec::new(),
            thread_names: BTreeMap::new(),
            asleep: BTreeMap::new(),
            phases: Phases { length_s: 0.01, waits_s: [0.0; PHASES] },
        })
    }

    pub(crate) fn command(&self) -> &[String] {
        &self.command
    }

    /// Sets the time between two listings of the threads.
    pub(crate) fn list_each(&mut self, time: Duration) {
        self.list_each = time;
    }

    /// Begins anew if no more places can be kept.
    pub(crate) fn renew(&mut self) {
        if self.places.len() < MOST && self.sleeps.len() < MOST && self.counts.owners.len() < MOST {
            return;
        }
        self.threads.values_mut().for_each(|thread| thread.waits = None);
        (self.places, self.counts, self.named) = Default::default();
        (self.known, self.seen, self.sleeps, self.asleep) = Default::default();
        (self.begin, self.mapped) = (self.last, None);
        self.cpu_before_s = Stat::of(self.pid).map_or(0.0, |stat| stat.cpu_s());
        self.phases = Phases { length_s: 0.01, waits_s: [0.0; PHASES] };
    }

    /// Limits the number of open files, which all recorded processes share.
    pub(crate) fn keep_open(&mut self, most: usize) {
        self.kept_open = most;
        for thread in self.threads.values_mut().skip(most) {
            thread.syscall = None;
        }
    }

    /// Samples all threads once, except those for which `is_known` says that their wait is recorded
    /// otherwise. Returns the state of each sampled thread, or `None` if the process has ended.
    pub(crate) fn look_past(&mut self, is_known: impl Fn(u32) -> bool) -> Option<Vec<(u32, Call)>> {
        let begin = Instant::now();
        if self.listed.is_none_or(|listed| listed.elapsed() > self.list_each) {
            self.list()?;
            self.map_again();
        }
        let span = begin.duration_since(self.last).as_secs_f64();
        self.last = begin;
        self.counts.rounds += 1;
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        let mut calls = Vec::new();
        let mut waiting: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for id in ids {
            let call = if is_known(id) { None } else { self.call(id) };
            calls.extend(call.map(|call| (id, call)));
            let place = self.follow(id, call.and_then(Call::sleep), span);
            if let Some((word, site)) = place {
                waiting.entry(word).or_insert((0, site)).0 += 1;
            }
            if let Some(stay) = Stay::of(call, place.map(|(_, site)| site)) {
                *self.counts.stays.entry(stay).or_default() += 1;
            }
        }
        let now = begin.duration_since(self.begin).as_secs_f64();
        for (word, (count, site)) in &waiting {
            self.held(*word, *site, span);
            self.counts.words.entry(*word).or_default().wait(now, span, *count);
        }
        for (_, word) in
            self.counts.words.iter_mut().filter(|(word, _)| !waiting.contains_key(word))
        {
            word.since = None;
        }
        Some(calls)
    }

    fn call(&self, id: u32) -> Option<Call> {
        let call = match &self.threads.get(&id)?.syscall {
            Some(file) => Call::read(file),
            None => Call::read(&self.syscall(id)?),
        };
        call.map(|call| call.of_program(&self.recorder))
    }

    fn syscall(&self, id: u32) -> Option<File> {
        File::open(format!("/proc/{}/task/{id}/syscall", self.pid)).ok()
    }

    /// Updates the list of threads. Returns `None` if the process has ended.
    fn list(&mut self) -> Option<()> {
        let mut there = BTreeSet::new();
        for id in process::threads(self.pid) {
            there.insert(id);
            if !self.threads.contains_key(&id) {
                let syscall = self.syscall(id).filter(|_| self.threads.len() < self.kept_open);
                self.threads.insert(id, Thread { syscall, waits: None, listings: 0 });
            }
            self.name(id);
        }
        let gone: Vec<u32> =
            self.threads.keys().filter(|id| !there.contains(id)).copied().collect();
        for id in gone {
            self.follow(id, None, 0.0);
            self.threads.remove(&id);
        }
        self.most = self.most.max(there.len());
        self.listed = Some(Instant::now());
        let stat = Stat::of(self.pid);
        if let Some(stat) = &stat {
            self.counts.cpu_s = stat.cpu_s() - self.cpu_before_s;
        }
        // The main thread may have exited before others. A process without threads has ended.
        (!there.is_empty() && stat.is_none_or(|stat| stat.state != 'Z')).then_some(())
    }

    /// Reads the name of a listed thread, more and more seldom: most threads get theirs at first.
    fn name(&mut self, id: u32) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.listings += 1;
        let is_due = thread.listings.is_power_of_two();
        if is_due && (self.thread_names.len() < MOST || self.thread_names.contains_key(&id.into()))
        {
            let name = process::name(self.pid, id);
            self.thread_names.extend(name.map(|name| (u64::from(id), name)));
        }
    }

    /// Reads the memory map again to find objects that were loaded later.
    fn map_again(&mut self) {
        let now = Instant::now();
        let (last, apart) = self.mapped.unwrap_or((self.begin, MAPS));
        if now.duration_since(last) < apart {
            return;
        }
        self.mapped = Some((now, apart * 2));
        let maps = process::maps(self.pid).unwrap_or_default();
        let maps = if maps.is_empty() { maps } else { with_identities(self.pid, &maps) };
        if !maps.is_empty() {
            (self.code, self.maps) = (code(&maps), maps);
            self.command = process::command(self.pid);
        }
    }

    /// Records the sleep of a thread, last sampled `span` seconds ago. Returns its word and place.
    fn follow(&mut self, id: u32, sleep: Option<Sleep>, span: f64) -> Option<(u64, usize)> {
        let before = self.threads.get_mut(&id)?.waits.take();
        let (site, seconds) = match (before, sleep) {
            (Some((old, site, seconds)), Some(new)) if old == new => (site, seconds + span),
            (before, sleep) => {
                if let Some((_, site, seconds)) = before {
                    self.counts.sites[site].wait.seen(seconds);
                }
                (self.site(sleep?)?, span)
            }
        };
        self.counts.sites[site].threads += u64::from(self.seen.insert((site, id)));
        self.phases.add(self.last.duration_since(self.begin).as_secs_f64(), span);
        let sleep = sleep?;
        self.threads.get_mut(&id)?.waits = Some((sleep, site, seconds));
        Some((sleep.word, site))
    }

    /// Returns the index of the place of a sleep, and adds the place if it is new.
    fn site(&mut self, sleep: Sleep) -> Option<usize> {
        let codes = self.codes(sleep.stack)?;
        let Sleep { word, asks, code, .. } = sleep;
        let place = Place { word, asks, code, codes };
        if let Some(at) = self.known.get(&place) {
            return Some(*at);
        }
        if self.places.len() >= MOST {
            return None;
        }
        self.places.push(place.clone());
        self.counts.sites.push(Site::default());
        self.known.insert(place, self.places.len() - 1);
        Some(self.places.len() - 1)
    }

    /// Returns the words of a stack that point into code.
    fn codes(&self, stack: u64) -> Option<Vec<u64>> {
        code_words(&self.memory, stack, &self.code)
    }

    /// Records the activity of the owner of a word, if its thread ID is where libc's mutex has it.
    fn held(&mut self, word: u64, site: usize, span: f64) {
        /// Offset of the owner in libc's mutex.
        const OWNER: u64 = 8;
        let mut owner = [0; 4];
        if self.memory.read_exact_at(&mut owner, word + OWNER).is_err() {
            return;
        }
        let owner = u32::from_le_bytes(owner);
        if !self.threads.contains_key(&owner) {
            return;
        }
        let Some(call) = self.call(owner) else { return };
        let seen = match call {
            Call::Running => (site, None, None),
            Call::Faulting => (site, Some(-1), None),
            Call::Asleep { number, stack, .. } => (site, Some(number), self.asleep(stack)),
        };
        *self.counts.owned.entry(seen).or_default() += 1;
        if self.counts.owners.len() < MOST {
            *self.counts.owners.entry((word, owner)).or_default() += 1;
        }
        let held = &mut self.counts.words.entry(word).or_default().held;
        held[usize::from(call != Call::Running)] += span;
    }

    /// Returns the index of the place where an owner sleeps.
    fn asleep(&mut self, stack: u64) -> Option<usize> {
        let codes = self.codes(stack)?;
        let known = self.asleep.get(&codes).copied();
        if known.is_some() || self.sleeps.len() >= MOST {
            return known;
        }
        self.sleeps.push(codes.clone());
        self.asleep.insert(codes, self.sleeps.len() - 1);
        Some(self.sleeps.len() - 1)
    }

    /// Returns the waits that have not ended: thread, place, seconds waited so far, and the owner
    /// (0 if there is no thread ID where libc's mutex has it).
    pub(crate) fn waiting(&self) -> Vec<Unfinished> {
        let waiting = |(id, thread): (&u32, &Thread)| {
            let (sleep, site, seconds) = thread.waits?;
            let mut owner = [0; 4];
            let _gone = self.memory.read_exact_at(&mut owner, sleep.word + 8);
            let owner = u32::from_le_bytes(owner);
            let owner = if self.threads.contains_key(&owner) { owner.into() } else { 0 };
            Some((u64::from(*id), site, seconds, owner))
        };
        self.threads.iter().filter_map(waiting).collect()
    }

    /// Stops observing. Returns the recorded process, and sentences about the limits of the record.
    pub fn finish(mut self) -> (Process, Vec<String>) {
        let waiting = self.waiting();
        self.end_waits();
        let counts = std::mem::take(&mut self.counts);
        let seconds = self.seconds();
        let each_ms = 1e3 * seconds / counts.rounds.max(1) as f64;
        let mut process = self.process(&counts, &waiting, seconds);
        process.threads = self.most as u64;
        process.phase_s = self.phases.length_s;
        let used = (seconds / self.phases.length_s).ceil() as usize;
        process.phases_wait_s = self.phases.waits_s[..used.clamp(1, PHASES)].to_vec();
        (process, vec![limits(each_ms)])
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { counts: self.counts.clone(), waiting: self.waiting(), at_s: self.seconds() }
    }

    /// Returns the time from the first to the last sample, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.last.duration_since(self.begin).as_secs_f64()
    }

    /// Returns the number of threads now.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Returns the process with these counts, which cover `seconds`. `waiting` is the result of
    /// [`Attached::waiting`].
    pub(crate) fn process(
        &mut self,
        counts: &Counts,
        waiting: &[Unfinished],
        seconds: f64,
    ) -> Process {
        let found = self.found(counts, waiting);
        let mut process = Process {
            pid: self.pid.into(),
            command: self.command.clone(),
            seconds,
            cpu_s: counts.cpu_s,
            threads: self.threads.len() as u64,
            sees_switches: true,
            locks: found.locks,
            causes: found.causes,
            pending: found.pending,
            ..Process::default()
        };
        process.name_threads(self.thread_names.clone());
        process
    }

    /// Records waits that have not ended.
    pub(crate) fn end_waits(&mut self) {
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        for id in ids {
            self.follow(id, None, 0.0);
        }
    }
}

/// Returns the sentence about the limits of a record of samples that were this far apart, in
/// milliseconds.
pub(crate) fn limits(each_ms: f64) -> String {
    format!(
        "The process was looked at from outside every {each_ms:.1} ms: shorter waits are there in \
         proportion to their length, but not in number; acquisitions, holds for which no thread \
         waited, and work between them are not known."
    )
}

/// Returns the words of a stack in this memory that point into these ranges of code.
pub(crate) fn code_words(memory: &File, stack: u64, code: &[(u64, u64)]) -> Option<Vec<u64>> {
    let mut bytes = vec![0; STACK];
    let length = memory.read_at(&mut bytes, stack).ok()?;
    let words = bytes[..length].chunks_exact(8);
    let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let is_code = |word: &u64| {
        let at = code.partition_point(|(begin, _)| begin <= word);
        at > 0 && *word < code[at - 1].1
    };
    Some(words.filter(is_code).take(WORDS).collect())
}

/// Returns start and end of each code range of files in a memory map, in ascending order.
pub(crate) fn code(maps: &str) -> Vec<(u64, u64)> {
    let code = mappings(maps).filter(|mapping| mapping.is_code && mapping.path.is_some());
    let mut all: Vec<(u64, u64)> = code.map(|mapping| (mapping.start, mapping.end)).collect();
    all.sort_unstable();
    all
}

/// Returns the address range of the recorder's code in a memory map.
fn recorder(maps: &str) -> Range<u64> {
    let is_recorder =
        |mapping: &Mapping<'_>| mapping.path.is_some_and(|path| path.contains(RECORDER));
    let code = mappings(maps).filter(|mapping| mapping.is_code).find(is_recorder);
    code.map_or(0..0, |mapping| mapping.start..mapping.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::syscall_file::Asks;

    #[test]
    fn a_process_with_too_many_places_is_observed_anew() {
        let mut attached = Attached::new(std::process::id()).expect("this process");
        attached.look_past(|_| false).expect("it runs");
        let begin = attached.begin;
        let place = Place { word: 8, asks: Asks::default(), code: 1, codes: Vec::new() };
        attached.places = vec![place.clone(); MOST - 1];
        attached.renew();
        assert_eq!((attached.places.len(), attached.begin), (MOST - 1, begin), "there is room");
        attached.places.push(place);
        attached.renew();
        assert!(attached.places.is_empty() && attached.begin > begin);
        assert!(attached.moment().at_s < 1e-9 && attached.counts.rounds == 0);
        attached.look_past(|_| false).expect("it runs");
        assert_eq!(attached.counts.rounds, 1);
    }
}
