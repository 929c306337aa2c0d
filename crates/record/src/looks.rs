//! Looks at a recorded program while it runs, many times a second: the file of each process shows
//! which threads wait for which lock and who owns it, and `/proc` what the owner does, which the
//! program cannot tell itself. Threads that wait past the recorded functions are looked at by their
//! stacks, as from outside. All of it takes at most a hundredth of a CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_host::clock::thread_cpu_ns;

use crate::attach::Attached;
use crate::ended::Ended;
use crate::futex::{Call, owner_at, waits_for_good};
use crate::hot::{Hot, Sampling};
use crate::layout::{
    ENDED_COUNT, ENDED_WORDS, H_MAGIC, H_PID, H_SLOTS, KIND_SHIFT, MAGIC, MUTEX, S_ENDED, S_THREAD,
    S_WAITS, S_WAITS_HELD_DETAIL, SLOT_COUNT, SLOT_WORDS, SLOTS,
};
use crate::names::Names;
use crate::place::open_file;
use crate::record::Process;

/// Looks a second at most.
const RATE: f64 = 250.0;
/// Of the CPU time of one CPU, what looking may take.
const SHARE: f64 = 0.02;
/// Maximum time between two samples: the first sample takes long.
const LONGEST: Duration = Duration::from_millis(25);
/// Time between two lists of the processes.
const LIST: Duration = Duration::from_millis(20);
/// Number of sampled processes, the most recent ones.
const PROCESSES: usize = 16;
/// Threads of a process that are sampled each time.
const THREADS: usize = 256;
/// A wait of this length may never end, seconds.
const LONG_S: f64 = 0.1;
/// Words of a slot up to what its thread waits for.
const WORDS: usize = S_WAITS_HELD_DETAIL + 1;

/// A waiting place and a holding place, as the words of the file have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    /// The lock with the kind of the waiting call.
    pub(crate) lock: u64,
    pub(crate) site: u64,
    /// The holding call, with its kind.
    pub(crate) held: u64,
    pub(crate) detail: u64,
    pub(crate) held_detail: u64,
}

/// Observed state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Runs,
    /// As [`Self::Runs`], but it has given up its CPU itself since the last look, and has not lost
    /// it: it slept, and was woken.
    Woken,
    Faults,
    /// In the system call of this number.
    Sleeps(i64),
    /// In a recorded wait.
    Waits(Edge),
    /// No owner: the lock is free, and its waiter has not run yet.
    Free,
}

impl From<Call> for State {
    fn from(call: Call) -> Self {
        match call {
            Call::Running => Self::Runs,
            Call::Faulting => Self::Faults,
            Call::Asleep { number, .. } => Self::Sleeps(number),
        }
    }
}

/// A current wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    pub(crate) thread: u64,
    pub(crate) edge: Edge,
    /// Ticks.
    pub(crate) since: u64,
    pub(crate) owner: u64,
    /// Whether the thread has exited.
    pub(crate) owner_ended: bool,
    /// Whether the lock had no owner.
    pub(crate) is_free: bool,
    /// Observed duration, in seconds.
    pub(crate) seen_s: f64,
}

/// Observations of one process.
#[derive(Default)]
pub(crate) struct Look {
    /// What owners did while others waited, and how often that was seen.
    pub(crate) owners: BTreeMap<(Edge, State), u64>,
    /// What all threads did.
    pub(crate) threads: BTreeMap<State, u64>,
    /// Waits at the last look.
    pub(crate) waits: Vec<Wait>,
    /// Whether no thread could run at the last look: all waited without a timeout, one of them for
    /// long.
    pub(crate) is_stuck: bool,
    /// Number of samples.
    pub(crate) count: u64,
    /// From the first look to the last one, seconds.
    pub(crate) seconds: f64,
    /// Waits past the recorded functions.
    pub(crate) outside: Option<Attached>,
    /// Where its threads spent CPU time, and all samples of that.
    pub(crate) hot: (Vec<Hot>, u64),
}

/// One process.
struct Peek {
    file: File,
    pid: u32,
    /// For reading the owners in its locks.
    memory: Option<File>,
    look: Look,
    begin: Instant,
    /// When each wait was seen first, by its thread and begin.
    since: BTreeMap<(u64, u64), Instant>,
    /// Waits whose owner is not known yet, and the slots of threads.
    ended: (Ended, BTreeMap<u64, usize>),
    /// Voluntary and involuntary switches of each thread that was seen to own a lock.
    switches: BTreeMap<u64, [u64; 2]>,
    has_ended: bool,
}

/// A recorded program that is being sampled.
pub struct Looks {
    directory: PathBuf,
    peeks: BTreeMap<PathBuf, Peek>,
    listed: Option<Instant>,
    last: Option<Instant>,
    took: Duration,
    sampling: Option<Sampling>,
}

impl Looks {
    /// With samples of CPU time, which this thread has begun.
    #[must_use]
    pub fn with(mut self, sampling: Sampling) -> Self {
        self.sampling = Some(sampling);
        self
    }

    /// At the processes that leave their files in this directory.
    pub fn at(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            peeks: BTreeMap::new(),
            listed: None,
            last: None,
            took: Duration::ZERO,
            sampling: None,
        }
    }

    /// Looks once, if it is time; how long to wait until the next look.
    pub fn look(&mut self) -> Duration {
        let least = self.took.mul_f64(1.0 / SHARE).min(LONGEST);
        let least = least.max(Duration::from_secs_f64(1.0 / RATE));
        if let Some(left) = self.last.and_then(|last| least.checked_sub(last.elapsed())) {
            return left;
        }
        let (begin, before) = (Instant::now(), thread_cpu_ns());
        if self.listed.is_none_or(|listed| listed.elapsed() > LIST) {
            self.list();
            self.listed = Some(begin);
        }
        if let Some(sampling) = &mut self.sampling {
            sampling.look();
        }
        for peek in self.peeks.values_mut().filter(|peek| !peek.has_ended) {
            peek.has_ended = peek.look().is_none();
        }
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
        (self.took, self.last) = (took, Some(Instant::now()));
        least
    }

    /// Sees which processes there are.
    fn list(&mut self) {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let new = entries.map(|entry| entry.path()).filter(|path| !self.peeks.contains_key(path));
        for path in new.collect::<Vec<_>>() {
            if self.peeks.values().filter(|peek| !peek.has_ended).count() >= PROCESSES {
                return;
            }
            if let Some(peek) = Peek::new(&path) {
                self.peeks.insert(path, peek);
            }
        }
    }

    /// Adds processes that have not left a file.
    pub fn finish(mut self, processes: &mut Vec<Process>) {
        if let Some(sampling) = &mut self.sampling {
            sampling.fill(processes);
        }
    }

    /// Returns the observations of the process with this file.
    pub(crate) fn take(&mut self, path: &Path) -> Option<Look> {
        let Peek { mut look, pid, .. } = self.peeks.remove(path)?;
        if let Some(sampling) = &mut self.sampling {
            let maps = look.outside.as_ref().map_or("", |outside| &outside.maps);
            look.hot = sampling.take(pid, &Names::new(maps, Some(pid)));
        }
        Some(look)
    }
}

impl Peek {
    fn new(path: &Path) -> Option<Self> {
        let file = open_file(path)?;
        let [magic, pid] = [word(&file, H_MAGIC)?, word(&file, H_PID)?];
        let pid = u32::try_from(pid).ok().filter(|_| magic == MAGIC)?;
        // Another process than the one that writes it could have been named.
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        if !maps.contains(&*path.to_string_lossy()) {
            return None;
        }
        let outside = Attached::new(pid).ok();
        let memory = File::open(format!("/proc/{pid}/mem")).ok();
        let look = Look { outside, ..Look::default() };
        let (since, switches) = (BTreeMap::new(), BTreeMap::new());
        let begin = Instant::now();
        let ended = Default::default();
        Some(Self { file, pid, memory, look, begin, since, ended, switches, has_ended: false })
    }

    /// Samples all threads once; returns `None` if the process has exited.
    fn look(&mut self) -> Option<()> {
        let used = (word(&self.file, H_SLOTS)? as usize).min(SLOT_COUNT).min(THREADS);
        let mut waits: BTreeMap<u64, Wait> = BTreeMap::new();
        let mut slots: BTreeMap<u64, usize> = BTreeMap::new();
        for slot in 0..used {
            let words = words::<WORDS>(&self.file, SLOTS + slot * SLOT_WORDS)?;
            if words[S_WAITS] != 0
                && let Some(wait) = Wait::of(&words)
            {
                waits.insert(words[S_THREAD], wait);
                slots.insert(words[S_THREAD], slot);
            }
        }
        if waits.is_empty() && state_of(self.pid).is_none() {
            return None;
        }
        for wait in waits.values_mut().filter(|wait| wait.is_for_lock()) {
            self.refresh(wait);
        }
        let held: BTreeSet<u64> =
            Ended::of(&waits).filter(|wait| self.is_held(wait)).map(|wait| wait.thread).collect();
        let mut states: BTreeMap<u64, State> =
            waits.iter().map(|(thread, wait)| (*thread, State::Waits(wait.edge))).collect();
        if let Some(outside) = &mut self.look.outside {
            let others = outside.look_past(|thread| waits.contains_key(&u64::from(thread)))?;
            let of = |(thread, call)| (u64::from(thread), State::from(call));
            states.extend(others.into_iter().map(of));
        }
        self.owners_at_ends(&slots);
        // What is seen of an owner after the wait is of no use.
        let lasts = |wait: &Wait| {
            let thread = &wait.thread;
            let lasts = held.contains(thread) && self.is_held(wait);
            (*wait, lasts && self.lasts(slots[thread], wait))
        };
        let lasting: Vec<(Wait, bool)> = Ended::of(&waits).map(lasts).collect();
        self.ended.0.add(&lasting, &states);
        self.look.count += 1;
        for state in states.values() {
            *self.look.threads.entry(*state).or_default() += 1;
        }
        for (thread, wait) in waits.iter_mut().filter(|(_, wait)| wait.is_for_lock()) {
            let state = match wait.owner {
                0 if wait.is_free => Some(State::Free),
                0 => continue,
                owner => {
                    states.get(&owner).copied().or_else(|| call(self.pid, owner).map(State::from))
                }
            };
            let Some(state) = state else {
                wait.owner_ended = true;
                continue;
            };
            let state = match state {
                State::Runs if self.has_slept(wait.owner) => State::Woken,
                other => other,
            };
            if !self.lasts(slots[thread], wait) {
                continue;
            }
            *self.look.owners.entry((wait.edge, state)).or_default() += 1;
        }
        self.time(&mut waits);
        let is_long = waits.values().any(|wait| wait.is_for_lock() && wait.seen_s > LONG_S);
        // A process that is being killed is what it was.
        self.look.is_stuck = is_long && is_stuck(self.pid).unwrap_or(self.look.is_stuck);
        self.look.seconds = self.begin.elapsed().as_secs_f64();
        self.look.waits = waits.into_values().collect();
        Some(())
    }

    /// Sets for how long each wait was seen.
    fn time(&mut self, waits: &mut BTreeMap<u64, Wait>) {
        self.since.retain(|(thread, since), _| {
            waits.get(thread).is_some_and(|wait| wait.since == *since)
        });
        for wait in waits.values_mut() {
            let key = (wait.thread, wait.since);
            wait.seen_s =
                self.since.entry(key).or_insert_with(Instant::now).elapsed().as_secs_f64();
        }
    }

    /// Takes the owners of waits that have ended since the last look.
    fn owners_at_ends(&mut self, slots: &BTreeMap<u64, usize>) {
        const WORDS: usize = ENDED_COUNT * ENDED_WORDS;
        let (ended, known) = &mut self.ended;
        let threads: Vec<u64> = ended.threads().collect();
        for thread in threads {
            let Some(slot) = known.get(&thread) else { continue };
            let words = words::<WORDS>(&self.file, SLOTS + slot * SLOT_WORDS + S_ENDED);
            ended.take(thread, &words.unwrap_or([0; WORDS]));
        }
        ended.settle(&mut self.look);
        known.extend(slots);
    }

    /// Returns whether `wait` has not ended and its lock has not changed hands since the slot was
    /// read: a look that waited for a CPU itself would otherwise find the owner at its next work.
    fn lasts(&self, slot: usize, wait: &Wait) -> bool {
        let words = words::<WORDS>(&self.file, SLOTS + slot * SLOT_WORDS);
        let now = words.filter(|words| words[S_WAITS] != 0).and_then(|words| Wait::of(&words));
        let Some(mut now) = now.filter(|now| now.since == wait.since) else { return false };
        self.refresh(&mut now);
        (now.owner, now.is_free) == (wait.owner, wait.is_free)
    }

    /// Returns whether all switches of the thread since the last look at it were voluntary, and
    /// there was one.
    fn has_slept(&mut self, thread: u64) -> bool {
        let path = format!("/proc/{}/task/{thread}/status", self.pid);
        let Some(now) = std::fs::read_to_string(path).ok().and_then(|text| switches(&text)) else {
            return false;
        };
        let before = self.switches.insert(thread, now);
        before.is_some_and(|[voluntary, lost]| now[0] > voluntary && now[1] == lost)
    }

    /// The owner of now, where another thread has got the lock since the wait began. The call site
    /// stays the first sample's.
    fn refresh(&self, wait: &mut Wait) {
        let kind = wait.edge.lock >> KIND_SHIFT;
        let Some(owner) = owner_at(kind).and_then(|offset| self.word(wait, offset)) else { return };
        if owner == wait.owner {
            return;
        }
        if owner == 0 {
            // Readers do not stand in a lock.
            if kind == MUTEX {
                (wait.owner, wait.is_free) = (0, true);
            }
            return;
        }
        wait.owner = owner;
        (wait.edge.held, wait.edge.held_detail) = (0, 0);
    }

    /// Whether a lock past libc has an owner. A word of zero is free: its waiter has been woken and
    /// has not run yet.
    fn is_held(&self, wait: &Wait) -> bool {
        self.word(wait, 0) != Some(0)
    }

    /// The word of the process that begins so many bytes after the begin of the lock.
    fn word(&self, wait: &Wait, offset: u64) -> Option<u64> {
        let lock = wait.edge.lock << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
        let mut word = [0; 4];
        self.memory.as_ref()?.read_exact_at(&mut word, lock + offset).ok()?;
        Some(u32::from_le_bytes(word).into())
    }
}

/// Whether all threads of a process wait for each other; none: it is ending.
fn is_stuck(pid: u32) -> Option<bool> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads: Vec<u32> =
        tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    let call = |thread: &u32| std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall"));
    let calls: Vec<String> =
        threads.iter().map(|thread| call(thread).ok()).collect::<Option<_>>()?;
    (!calls.is_empty()).then(|| calls.iter().all(|text| waits_for_good(text, &threads)))
}

/// Where a thread is.
fn call(pid: u32, thread: u64) -> Option<Call> {
    Call::read(&File::open(format!("/proc/{pid}/task/{thread}/syscall")).ok()?)
}

/// The voluntary and involuntary switches in a thread's `/proc/PID/task/TID/status`.
fn switches(status: &str) -> Option<[u64; 2]> {
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some([number("voluntary_ctxt_switches:")?, number("nonvoluntary_ctxt_switches:")?])
}

fn state_of(pid: u32) -> Option<char> {
    crate::futex::state(pid, pid).filter(|state| *state != 'Z')
}

fn word(file: &File, at: usize) -> Option<u64> {
    words::<1>(file, at).map(|[word]| word)
}

fn words<const N: usize>(file: &File, at: usize) -> Option<[u64; N]> {
    let mut bytes = [[0; 8]; N];
    file.read_exact_at(bytes.as_flattened_mut(), at as u64 * 8).ok()?;
    Some(bytes.map(u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn switches_are_read_by_their_names() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(super::switches(status), Some([12, 3]));
        assert_eq!(super::switches("Name:\ta\n"), None);
    }
}
