//! Samples a recorded program many times a second. The file of each process shows which threads
//! wait for which lock and who owns it. `/proc` shows the activity of the owner, which the program
//! cannot observe itself. For threads that wait outside of the recorded functions, their stacks are
//! read, as from outside. The pauses between samples limit the cost to about 2 % of a CPU, unless
//! a sample takes so long that `LONGEST` caps the pause after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use convoy_os::clock::thread_cpu_ns;
use convoy_os::process::{self, Stat, field, mappings};

use crate::java::dumps::Dumps;
use crate::launch::directory::open_file;
use crate::layout::{CONDITION, Header, KIND_SHIFT, MAGIC, SLOT_COUNT};
use crate::names::Names;
use crate::names::owners::library_scheduler;
use crate::record::Process;
use crate::sampling::attached::{Attached, code};
use crate::sampling::cpu_time::Sampling;
use crate::sampling::fileless::Fileless;
use crate::sampling::futex_waits::Ended;
use crate::sampling::kernel_waits::{
    FAULT, KernelObject, READ, is_pipe, may_wait, object, writes_to,
};
use crate::sampling::observations::Look;
use crate::sampling::owners::{Found, Source};
use crate::sampling::syscall_file::{Call, waits_for_good};
use crate::sampling::thread_state::{Edge, State, Wait};

/// Maximum number of samples per second.
const RATE: f64 = 250.0;
/// Maximum share of the CPU time of one CPU that sampling may take.
const SHARE: f64 = 0.02;
/// Maximum time between two samples: the first sample takes long.
const LONGEST: Duration = Duration::from_millis(25);
/// Time between two listings of the processes.
const LIST: Duration = Duration::from_millis(20);
/// Maximum number of running processes that are sampled.
const PROCESSES: usize = 16;
/// Maximum number of threads of a process that are sampled each time.
const THREADS: usize = 256;
/// Maximum number of distinct stacks of sleeps in the kernel that are kept.
const STACKS: usize = 1024;
/// A wait of this length, in seconds, may never end.
const LONG_S: f64 = 0.1;
/// Time of a sample within which the owner of a lock rarely releases and reacquires it.
const BRIEF: Duration = Duration::from_millis(1);

/// One sampled process.
struct Peek {
    source: Rc<Source>,
    pid: u32,
    look: Look,
    begin: Instant,
    /// When each wait was first seen, by its thread and the start of the wait.
    since: BTreeMap<(u64, u64), Instant>,
    /// Waits with an owner that is not known yet, and the slots of threads.
    ended: (Ended, BTreeMap<u64, usize>),
    /// Voluntary and involuntary context switches of each thread that was seen to own a lock.
    switches: BTreeMap<u64, [u64; 2]>,
    /// The waits when all threads last waited for each other: each thread, and the start of its
    /// wait.
    stuck: Option<Vec<(u64, u64)>>,
    has_ended: bool,
    /// Real-time priorities of threads.
    priorities: BTreeMap<u64, u32>,
    /// Whether the process also writes each of these files, which threads read.
    pipes: BTreeMap<u64, bool>,
    /// Start and end of its code, once a thread has waited for the kernel.
    code: Vec<(u64, u64)>,
}

/// A recorded program that is being sampled.
#[derive(Default)]
pub struct Looks {
    directory: PathBuf,
    peeks: BTreeMap<PathBuf, Peek>,
    listed: Option<Instant>,
    last: Option<Instant>,
    took: Duration,
    sampling: Option<Sampling>,
    dumps: Option<Dumps>,
    fileless: Fileless,
}

impl Looks {
    /// Adds samples of CPU time, which this thread has started.
    #[must_use]
    pub fn with(mut self, sampling: Sampling) -> Self {
        self.sampling = Some(sampling);
        self
    }

    /// Adds thread dumps of Java processes.
    #[must_use]
    pub fn with_dumps(mut self, dumps: Option<Dumps>) -> Self {
        self.dumps = dumps;
        self
    }

    /// Samples the processes that create their files in this directory.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..Self::default() }
    }

    /// Takes a sample, if it is time. Returns the time to wait until the next one.
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
        let live = || self.peeks.values().filter(|peek| !peek.has_ended);
        let all: Vec<Rc<Source>> = live().map(|peek| Rc::clone(&peek.source)).collect();
        for peek in self.peeks.values_mut().filter(|peek| !peek.has_ended) {
            peek.has_ended = peek.look(&all).is_none();
        }
        self.fileless.look(|pid| self.peeks.values().any(|peek| peek.pid == pid));
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
        (self.took, self.last) = (took, Some(Instant::now()));
        least
    }

    /// Updates the list of processes.
    fn list(&mut self) {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let new = entries.map(|entry| entry.path()).filter(|path| !self.peeks.contains_key(path));
        for path in new.collect::<Vec<_>>() {
            if self.peeks.values().filter(|peek| !peek.has_ended).count() >= PROCESSES {
                return;
            }
            if let Some(peek) = Peek::new(&path) {
                self.dumps.iter().for_each(|dumps| dumps.add(peek.pid));
                self.peeks.insert(path, peek);
            }
        }
    }

    /// Adds processes that have not left a file.
    pub fn finish(mut self, processes: &mut Vec<Process>) {
        self.fileless.fill(processes);
        if let Some(sampling) = &mut self.sampling {
            sampling.fill(processes);
        }
    }

    /// Ends the thread dumps and adds them to the processes.
    pub(crate) fn add_dumps(&mut self, processes: &mut [Process]) {
        if let Some(dumps) = self.dumps.take() {
            dumps.finish(processes);
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
        let head = Source::new(open_file(path)?, 0, 0, "");
        let Header { magic, pid, base, .. } = *head.part(0)?;
        let pid = u32::try_from(pid).ok().filter(|_| magic == MAGIC)?;
        // The file may name a process that does not write it.
        let maps = process::maps(pid).ok()?;
        if !maps.contains(&*path.to_string_lossy()) {
            return None;
        }
        let outside = Attached::new(pid).ok();
        let source = Rc::new(Source::new(open_file(path)?, pid, base, &maps));
        let look = Look { outside, ..Look::default() };
        Some(Self {
            source,
            pid,
            look,
            begin: Instant::now(),
            since: BTreeMap::new(),
            ended: Default::default(),
            switches: BTreeMap::new(),
            stuck: None,
            has_ended: false,
            priorities: BTreeMap::new(),
            pipes: BTreeMap::new(),
            code: Vec::new(),
        })
    }

    /// Samples all threads once; returns `None` if the process has exited.
    fn look(&mut self, all: &[Rc<Source>]) -> Option<()> {
        let (mut waits, slots) = self.waits()?;
        if waits.is_empty() && !lives(self.pid) {
            return None;
        }
        self.time(&mut waits);
        let mut owners = BTreeMap::new();
        for wait in waits.values_mut().filter(|wait| wait.is_for_lock()) {
            let lock = wait.edge.lock;
            wait.take(*owners.entry(lock).or_insert_with(|| self.owner(lock, &slots, all)));
            if wait.owner == 0 && !wait.is_free && wait.seen_s > LONG_S {
                wait.take(self.source.only_taker(lock, &slots, wait.thread));
            }
        }
        let before = Instant::now();
        let mut holders = self.look.held.owners(&waits, |lock| self.owner(lock, &slots, &[]));
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
        // Observations of an owner after the end of the wait are useless.
        let lasts = |wait: &Wait| {
            let thread = &wait.thread;
            let lasts = held.contains(thread) && self.is_held(wait);
            (*wait, lasts && self.lasts(slots[thread], wait))
        };
        let lasting: Vec<(Wait, bool)> = Ended::of(&waits).map(lasts).collect();
        self.ended.0.add(&lasting, &states);
        // A sample that lost its CPU in between may show the owner's next critical section.
        holders.retain(|_| before.elapsed() < BRIEF);
        let mut held_now = std::mem::take(&mut self.look.held);
        held_now.add(&waits, &holders, |lock| self.owner(lock, &slots, &[]), &states);
        self.look.held = held_now;
        self.look.count += 1;
        if self.look.count.is_power_of_two() {
            self.libraries();
        }
        for state in states.values() {
            *self.look.threads.entry(*state).or_default() += 1;
        }
        self.kernel_waits(&states);
        self.owners(&mut waits, &slots, &states);
        self.admitted(&waits, &states);
        let is_long = waits.values().any(|wait| wait.is_for_lock() && wait.seen_s > LONG_S);
        self.look.is_stuck = is_long && self.is_stuck(&waits);
        self.look.seconds = self.begin.elapsed().as_secs_f64();
        self.look.waits = waits.into_values().collect();
        Some(())
    }

    /// Returns whether all threads wait for each other. While a process is being killed, its
    /// threads run, but none of their waits ends.
    fn is_stuck(&mut self, waits: &BTreeMap<u64, Wait>) -> bool {
        let now: Vec<(u64, u64)> = waits.values().map(|wait| (wait.thread, wait.since)).collect();
        if is_stuck(self.pid) == Some(true) {
            self.stuck = Some(now);
        } else if self.stuck.as_ref() != Some(&now) {
            self.stuck = None;
        }
        self.stuck.is_some()
    }

    /// Counts the activities of the owners of locks while threads wait for them.
    fn owners(
        &mut self,
        waits: &mut BTreeMap<u64, Wait>,
        slots: &BTreeMap<u64, usize>,
        states: &BTreeMap<u64, State>,
    ) {
        // Several threads may wait for one owner.
        let mut woken: BTreeMap<u64, bool> = BTreeMap::new();
        for (thread, wait) in waits.iter_mut().filter(|(_, wait)| wait.is_for_lock()) {
            let state = match wait.owner {
                0 if wait.is_free => Some(State::Free),
                0 => continue,
                owner => states.get(&owner).copied().or_else(|| self.state_of(owner, wait)),
            };
            let Some(state) = state else {
                // A waiter that runs is being killed with its process, as the owner was.
                let own = call(&format!("/proc/{}/task/{thread}/syscall", self.pid));
                wait.owner_ended = matches!(own, Some(Call::Asleep { .. }))
                    && !Path::new(&format!("/proc/{}", wait.owner)).exists();
                continue;
            };
            let state = match state {
                State::Runs
                    if *woken.entry(wait.owner).or_insert_with(|| self.has_slept(wait.owner)) =>
                {
                    State::Woken
                }
                other => other,
            };
            if !self.lasts(slots[thread], wait) {
                continue;
            }
            *self.look.owners.entry((wait.edge, state)).or_default() += 1;
            if matches!(state, State::Runs | State::Woken) {
                let [waits, owns] = [*thread, wait.owner].map(|thread| self.priority(thread));
                if waits > owns {
                    let threads = [(*thread, waits), (wait.owner, owns)];
                    *self.look.inversions.entry((wait.edge, threads)).or_default() += 1;
                }
            }
        }
    }

    /// Returns the real-time priority that a thread had when it was asked for first.
    fn priority(&mut self, thread: u64) -> u32 {
        let pid = self.pid;
        *self.priorities.entry(thread).or_insert_with(|| {
            let stat = u32::try_from(thread).ok().and_then(|thread| Stat::of_thread(pid, thread));
            stat.map_or(0, |stat| stat.priority)
        })
    }

    /// Counts the threads that sleep in the kernel and may wait for one of its locks.
    fn kernel_waits(&mut self, states: &BTreeMap<u64, State>) {
        let asleep = states.iter().filter_map(|(thread, state)| match state {
            State::Sleeps(call) if may_wait(*call) || *call == READ => Some((thread, *call)),
            State::Faults => Some((thread, FAULT)),
            _ => None,
        });
        for (thread, call) in asleep {
            let path = format!("/proc/{}/task/{thread}/wchan", self.pid);
            let function = std::fs::read_to_string(path).unwrap_or_default();
            let object = match call {
                READ => self.pipe(*thread, &function),
                _ => object(&function),
            };
            if let Some(object) = object {
                let stack = self.kernel_stack(*thread);
                let is_full = self.look.kernel.len() >= STACKS;
                let stack = if is_full { Vec::new() } else { stack };
                *self.look.kernel.entry((call, object, stack)).or_default() += 1;
            }
        }
    }

    /// Returns the kind of the object if a thread, which sleeps in this function of the kernel,
    /// reads a pipe that its process also writes.
    fn pipe(&mut self, thread: u64, function: &str) -> Option<KernelObject> {
        if !is_pipe(function) {
            return None;
        }
        let Some(Call::Asleep { number: READ, arguments: [file, ..], .. }) =
            Call::of(self.pid, u32::try_from(thread).ok()?)
        else {
            return None;
        };
        let pid = self.pid;
        let is_own = *self.pipes.entry(file).or_insert_with(|| writes_to(pid, file) == Some(true));
        is_own.then_some(KernelObject::Pipe)
    }

    /// Notes the runtimes of the libraries that are mapped now.
    fn libraries(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let paths = mappings(&maps).filter_map(|mapping| mapping.path);
        self.look.schedulers.extend(paths.filter_map(library_scheduler));
    }

    /// Returns the words that point into code on the stack of a thread that sleeps in the kernel.
    fn kernel_stack(&mut self, thread: u64) -> Vec<u64> {
        /// Number of words that are kept.
        const WORDS: usize = 12;
        let path = format!("/proc/{}/task/{thread}/syscall", self.pid);
        let call = File::open(path).ok().and_then(|file| Call::read(&file));
        let Some(Call::Asleep { stack, code: next, .. }) = call else { return Vec::new() };
        // A library may have been loaded since.
        if !self.code.iter().any(|(begin, end)| (*begin..*end).contains(&next)) {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid));
            self.code = code(&maps.unwrap_or_default());
        }
        let mut words = self.source.code_words(stack, &self.code).unwrap_or_default();
        words.truncate(WORDS);
        words
    }

    /// Counts the activities of the threads that conditions have admitted, while others wait for
    /// these conditions: they matter if the condition is part of a lock or of a pool.
    fn admitted(&mut self, waits: &BTreeMap<u64, Wait>, states: &BTreeMap<u64, State>) {
        /// Maximum number of conditions in a sample, since each costs a read of the file.
        const CONDITIONS: usize = 8;
        let on_conditions = waits.values().filter(|wait| !wait.is_for_lock());
        let on_conditions = on_conditions.filter(|wait| wait.edge.lock >> KIND_SHIFT == CONDITION);
        let conditions: BTreeMap<u64, Edge> =
            on_conditions.map(|wait| (wait.edge.lock, wait.edge)).collect();
        for (condition, edge) in conditions.into_iter().take(CONDITIONS) {
            let Some(thread) = self.source.admitted(condition) else { continue };
            if let Some(state) = states.get(&thread) {
                *self.look.owners.entry((edge, *state)).or_default() += 1;
            }
        }
    }

    /// Returns the waits that have not ended, and the slots of all threads, both by thread.
    fn waits(&self) -> Option<(BTreeMap<u64, Wait>, BTreeMap<u64, usize>)> {
        let used = (self.source.part::<Header>(0)?.slots as usize).min(SLOT_COUNT).min(THREADS);
        let (mut waits, mut slots) = (BTreeMap::new(), BTreeMap::new());
        for slot in 0..used {
            let state = self.source.state(slot)?;
            waits.extend(Wait::of(&state).map(|wait| (state.thread, wait)));
            slots.insert(state.thread, slot);
        }
        Some((waits, slots))
    }

    /// Sets for how long each wait was seen, and drops those that were left by a jump.
    fn time(&mut self, waits: &mut BTreeMap<u64, Wait>) {
        self.since.retain(|(thread, since), _| {
            waits.get(thread).is_some_and(|wait| wait.since == *since)
        });
        for wait in waits.values_mut() {
            let key = (wait.thread, wait.since);
            wait.seen_s =
                self.since.entry(key).or_insert_with(Instant::now).elapsed().as_secs_f64();
            if wait.seen_s > LONG_S {
                let path = format!("/proc/{}/task/{}/syscall", self.pid, wait.thread);
                let call = std::fs::read_to_string(path).unwrap_or_default();
                wait.is_timed = is_timed(&call);
                if is_elsewhere(&call) {
                    self.look.left.insert(key);
                }
            }
        }
        waits.retain(|thread, wait| !self.look.left.contains(&(*thread, wait.since)));
    }

    /// Attributes earlier samples to the owners of waits that have ended since the last sample.
    fn owners_at_ends(&mut self, slots: &BTreeMap<u64, usize>) {
        let (ended, known) = &mut self.ended;
        let threads: Vec<u64> = ended.threads().collect();
        for thread in threads {
            let Some(slot) = known.get(&thread) else { continue };
            if let Some(state) = self.source.state(*slot) {
                ended.take(thread, &state.ended);
            }
        }
        ended.settle(&mut self.look);
        known.extend(slots);
    }

    /// Returns whether `wait` has not ended and its lock has not changed hands since the slot was
    /// read. Otherwise, a sample that itself waited for a CPU would observe the owner after its
    /// release.
    fn lasts(&self, slot: usize, wait: &Wait) -> bool {
        let now = self.source.state(slot).and_then(|state| Wait::of(&state));
        let Some(mut now) = now.filter(|now| now.since == wait.since) else { return false };
        let owner = self.source.owner(wait.edge.lock);
        now.take(owner.map(|owner| (owner, None)));
        (now.owner, now.is_free) == (wait.owner, wait.is_free)
    }

    /// Returns whether most context switches of the thread since its last sample were voluntary.
    fn has_slept(&mut self, thread: u64) -> bool {
        let path = format!("/proc/{}/task/{thread}/status", self.pid);
        let Some(now) = std::fs::read_to_string(path).ok().and_then(|text| switches(&text)) else {
            return false;
        };
        let before = self.switches.insert(thread, now);
        let since = |before: [u64; 2], of: usize| now[of].saturating_sub(before[of]);
        before.is_some_and(|before| since(before, 0) > since(before, 1))
    }

    /// Returns the owner of a lock, if it can be determined, and where it acquired the lock.
    fn owner(&self, lock: u64, slots: &BTreeMap<u64, usize>, all: &[Rc<Source>]) -> Option<Found> {
        let owner = self.source.owner(lock)?;
        let held = match slots.get(&owner.thread) {
            Some(slot) => self.source.held(*slot, lock),
            None if owner.thread != 0 && self.source.is_shared(lock) => {
                all.iter().find_map(|one| one.held(one.slot_of(owner.thread, &self.source)?, lock))
            }
            None => None,
        };
        Some((owner, held))
    }

    /// Returns the state of a thread that does not wait in this process; it may belong to another
    /// one.
    fn state_of(&self, thread: u64, wait: &Wait) -> Option<State> {
        let own = call(&format!("/proc/{}/task/{thread}/syscall", self.pid));
        let is_other = || self.source.is_shared(wait.edge.lock);
        let any = own.or_else(|| is_other().then(|| call(&format!("/proc/{thread}/syscall")))?);
        any.map(State::from)
    }

    /// Returns whether a lock that bypasses libc has an owner. If the word is zero, the lock is
    /// free, and its waiter has been woken but has not run yet, unless it waits for zero to change,
    /// as at a semaphore.
    fn is_held(&self, wait: &Wait) -> bool {
        let call = || call(&format!("/proc/{}/task/{}/syscall", self.pid, wait.thread));
        let waits_for_more = || call()?.sleep().map(|sleep| sleep.asks.value == 0);
        self.source.of_lock(wait.edge.lock, 0) != Some(0) || waits_for_more() == Some(true)
    }
}

/// Returns whether the text of a thread's file `syscall` shows a wait in futex(2) with a time
/// limit.
fn is_timed(call: &str) -> bool {
    call.starts_with("202 ") && call.split(' ').nth(4).is_some_and(|time| time != "0x0")
}

/// Returns whether it shows a thread that sleeps in another system call.
fn is_elsewhere(call: &str) -> bool {
    let number = call.split(' ').next().and_then(|number| number.parse::<i64>().ok());
    number.is_some_and(|number| number >= 0 && number != crate::sampling::syscall_file::FUTEX)
}

/// Returns whether all threads of a process wait for each other, or `None` if it is ending.
fn is_stuck(pid: u32) -> Option<bool> {
    let threads = process::threads(pid);
    let call = |thread: &u32| std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall"));
    let calls: Vec<String> =
        threads.iter().map(|thread| call(thread).ok()).collect::<Option<_>>()?;
    let maps = std::cell::LazyCell::new(|| process::maps(pid));
    let is_private = |word| maps.as_ref().is_ok_and(|maps| is_private(maps, word));
    (!calls.is_empty())
        .then(|| calls.iter().all(|text| waits_for_good(text, &threads, &is_private)))
}

/// Returns whether only its own process can write at an address, from the text of its file `maps`.
fn is_private(maps: &str, address: u64) -> bool {
    let mapping = mappings(maps).find(|mapping| (mapping.start..mapping.end).contains(&address));
    mapping.is_some_and(|mapping| mapping.is_private)
}

/// Reads the state of the thread with this file.
fn call(path: &str) -> Option<Call> {
    Call::read(&File::open(path).ok()?)
}

/// Returns the voluntary and involuntary switches in a thread's `/proc/PID/task/TID/status`.
fn switches(status: &str) -> Option<[u64; 2]> {
    let number = |name: &str| field(status, name)?.parse().ok();
    Some([number("voluntary_ctxt_switches")?, number("nonvoluntary_ctxt_switches")?])
}

fn lives(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.state != 'Z')
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_private_as_its_mapping_says() {
        let maps = "1000-2000 rw-p 00000000 00:00 0\n2000-3000 rw-s 00000000 00:01 7 /dev/shm/a\n";
        let of = |address| super::is_private(maps, address);
        assert_eq!([0x0fff, 0x1000, 0x1fff, 0x2000].map(of), [false, true, true, false]);
    }

    #[test]
    fn switches_are_read_by_their_names() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(super::switches(status), Some([12, 3]));
        assert_eq!(super::switches("Name:\ta\n"), None);
    }

    #[test]
    fn a_wait_with_a_limit_and_one_that_was_left_show_in_the_call() {
        let of = |call: &str| (super::is_timed(call), super::is_elsewhere(call));
        assert_eq!(of("202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00"), (false, false));
        assert_eq!(of("202 0x1000 0x89 0x2 0x7ff0 0x0 0xffffffff 0x7ffd10 0x7f00"), (true, false));
        assert_eq!(of("230 0x1000 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00"), (false, true));
        assert_eq!(of("running"), (false, false));
        assert_eq!(of("-1 0x7ffd10 0x7f00"), (false, false));
    }
}
