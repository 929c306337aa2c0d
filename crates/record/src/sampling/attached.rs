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
use crate::record::{Process, Site, Times, Waiters};
use crate::sampling::syscall_file::{Asks, Call, Sleep};

/// [`Program::source`](crate::Program::source) of such a record.
pub const SOURCE: &str = "a look from outside";

/// Maximum number of rounds per second.
pub(crate) const RATE: f64 = 500.0;
/// Maximum share of the time that sampling may take.
pub(crate) const SHARE: f64 = 0.03;
/// Time between two listings of the threads.
const LIST: Duration = Duration::from_millis(50);
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

/// A thread.
struct Thread {
    /// The thread's `syscall` file; kept open unless there are too many.
    syscall: Option<File>,
    /// The sleep, the index of its place, and for how many seconds it was seen there.
    waits: Option<(Sleep, usize, f64)>,
    /// Number of listings that contained it.
    listings: u64,
}

/// A wait for a word, identified by the stack words that point into code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) word: u64,
    pub(crate) asks: Asks,
    /// Address after the system call.
    pub(crate) code: u64,
    pub(crate) codes: Vec<u64>,
}

/// Observations of a word.
#[derive(Default)]
pub(crate) struct Word {
    pub(crate) waiters: Waiters,
    /// Start of the current period with waiting threads, and when it was last observed, in seconds.
    since: Option<(f64, f64)>,
    /// Time that its owner ran, and time that it did not, while others waited, in seconds.
    pub(crate) held: [f64; 2],
}

/// Activity of the owner of a word while a thread waited at a place: the place, the owner's system
/// call (`None` if it was running), and the index of its stack words in [`Attached::sleeps`].
pub(crate) type Owned = (usize, Option<i64>, Option<usize>);

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
    recorder: Range<u64>,
    threads: BTreeMap<u32, Thread>,
    kept_open: usize,
    pub(crate) most: usize,
    /// CPU time before the recording, and until the last listing, in seconds.
    cpu_s: [f64; 2],
    listed: Option<Instant>,
    begin: Instant,
    last: Instant,
    pub(crate) rounds: u64,
    pub(crate) sites: Vec<(Place, Site)>,
    known: BTreeMap<Place, usize>,
    /// Pairs of a place and a thread that was seen there.
    seen: BTreeSet<(usize, u32)>,
    pub(crate) words: BTreeMap<u64, Word>,
    pub(crate) owned: BTreeMap<Owned, u64>,
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
        let cpu_s = Stat::of(pid).map_or(0.0, |stat| stat.cpu_s());
        Ok(Self {
            pid,
            memory,
            command: process::command(pid),
            cpu_s: [cpu_s; 2],
            code: code(&maps),
            recorder: recorder(&maps),
            maps,
            mapped: None,
            threads: BTreeMap::new(),
            kept_open: KEPT_OPEN,
            most: 0,
            listed: None,
            begin: now,
            last: now,
            rounds: 0,
            sites: Vec::new(),
            known: BTreeMap::new(),
            seen: BTreeSet::new(),
            words: BTreeMap::new(),
            owned: BTreeMap::new(),
            sleeps: Vec::new(),
            thread_names: BTreeMap::new(),
            asleep: BTreeMap::new(),
            phases: Phases { length_s: 0.01, waits_s: [0.0; PHASES] },
        })
    }

    /// Returns the command line.
    pub(crate) fn command(&self) -> &[String] {
        &self.command
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
        if self.listed.is_none_or(|listed| listed.elapsed() > LIST) {
            self.list()?;
            self.map_again();
        }
        let span = begin.duration_since(self.last).as_secs_f64();
        self.last = begin;
        self.rounds += 1;
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        let mut calls = Vec::new();
        let mut waiting: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for id in ids {
            let call = if is_known(id) { None } else { self.call(id) };
            calls.extend(call.map(|call| (id, call)));
            if let Some((word, site)) = self.follow(id, call.and_then(Call::sleep), span) {
                waiting.entry(word).or_insert((0, site)).0 += 1;
            }
        }
        let now = begin.duration_since(self.begin).as_secs_f64();
        for (word, (count, site)) in &waiting {
            self.held(*word, *site, span);
            self.words.entry(*word).or_default().wait(now, span, *count);
        }
        for (_, word) in self.words.iter_mut().filter(|(word, _)| !waiting.contains_key(word)) {
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
            self.cpu_s[1] = stat.cpu_s();
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
                    self.sites[site].1.wait.seen(seconds);
                }
                (self.site(sleep?)?, span)
            }
        };
        self.sites[site].1.threads += u64::from(self.seen.insert((site, id)));
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
        if self.sites.len() >= MOST {
            return None;
        }
        self.sites.push((place.clone(), Site::default()));
        self.known.insert(place, self.sites.len() - 1);
        Some(self.sites.len() - 1)
    }

    /// Returns the words of a stack that point into code.
    fn codes(&self, stack: u64) -> Option<Vec<u64>> {
        let mut bytes = vec![0; STACK];
        let length = self.memory.read_at(&mut bytes, stack).ok()?;
        let words = bytes[..length].chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let is_code = |word: &u64| {
            let at = self.code.partition_point(|(begin, _)| begin <= word);
            at > 0 && *word < self.code[at - 1].1
        };
        Some(words.filter(is_code).take(WORDS).collect())
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
        *self.owned.entry(seen).or_default() += 1;
        let held = &mut self.words.entry(word).or_default().held;
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
    pub(crate) fn waiting(&self) -> Vec<(u64, usize, f64, u64)> {
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
        let seconds = self.last.duration_since(self.begin).as_secs_f64();
        let mut process = Process {
            pid: self.pid.into(),
            command: std::mem::take(&mut self.command),
            seconds,
            cpu_s: self.cpu_s[1] - self.cpu_s[0],
            threads: self.most as u64,
            sees_switches: true,
            ..Process::default()
        };
        process.phase_s = self.phases.length_s;
        let used = (seconds / self.phases.length_s).ceil() as usize;
        process.phases_wait_s = self.phases.waits_s[..used.clamp(1, PHASES)].to_vec();
        let each_ms = 1e3 * seconds / self.rounds.max(1) as f64;
        let found = self.found(&waiting);
        process.locks = found.locks;
        process.causes = found.causes;
        process.pending = found.pending;
        process.name_threads(std::mem::take(&mut self.thread_names));
        let sentence = format!(
            "The process was looked at from outside every {each_ms:.1} ms: shorter waits are there \
             in proportion to their length, but not in number; acquisitions, holds for which no \
             thread waited, and work between them are not known."
        );
        (process, vec![sentence])
    }

    /// Records waits that have not ended.
    pub(crate) fn end_waits(&mut self) {
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        for id in ids {
            self.follow(id, None, 0.0);
        }
    }
}

/// Returns start and end of each code range of files in a memory map, in ascending order.
fn code(maps: &str) -> Vec<(u64, u64)> {
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

impl Word {
    fn wait(&mut self, now: f64, span: f64, count: u64) {
        let (since, _) = *self.since.get_or_insert((now - span, now));
        self.since = Some((since, now));
        self.waiters.seconds += span;
        self.waiters.most = self.waiters.most.max(count);
        if now - since > self.waiters.longest_s {
            self.waiters.longest_s = now - since;
            self.waiters.longest_at_s = since.max(0.0);
        }
    }
}

impl Times {
    /// Adds a wait that was seen for this many seconds.
    fn seen(&mut self, seconds: f64) {
        let ns = seconds * 1e9;
        let least = if ns < 1.0 { 0.0 } else { f64::powi(2.0, ns.log2().floor() as i32) };
        self.add(&Self { count: 1, total_s: seconds, max_s: seconds, buckets: vec![(least, 1)] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_belongs_to_the_power_of_two_below_it() {
        let mut times = Times::default();
        times.seen(3e-3);
        times.seen(3e-3);
        assert_eq!(times.buckets, [(2_097_152.0, 2)]);
        assert!((times.total_s - 6e-3).abs() < 1e-12 && times.count == 2);
    }
}
