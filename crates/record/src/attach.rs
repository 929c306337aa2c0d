//! A running process, looked at from outside: which of its threads wait for what, many times a
//! second, by what the kernel tells whoever may trace it. Nothing is stopped or changed.
//!
//! A thread that sleeps in futex(2) shows the word that it waits on, and its stack the call that
//! led there: the first word on it that a call of a locking function returns to. The owner stands
//! in libc's mutex, and its state in `/proc`. What happens while nobody waits is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use crate::futex::{Sleep, sleep, state};
use crate::names::named_after;
use crate::record::{Kind, Lock, Process, Site, Times, Waiters};
use crate::stacks::Stacks;

/// What [`Program::source`](crate::Program::source) says of such a record.
pub const SOURCE: &str = "a look from outside";

/// Rounds a second at most.
const RATE: f64 = 500.0;
/// Of the time, what looking may take.
const SHARE: f64 = 0.03;
/// Time between two lists of the threads.
const LIST: Duration = Duration::from_millis(50);
/// Files that are kept open.
const KEPT_OPEN: usize = 400;
/// Bytes of a stack that are read.
const STACK: usize = 4096;

/// Why a process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is none.
    #[error("there is no process {0}; see ps")]
    None(u32),
    /// It is not ours to look at.
    #[error(
        "process {0} may not be looked at: it is another user's, or the kernel lets programs be \
         traced by their parents only; run this as root, set kernel.yama.ptrace_scope to 0, or \
         start the program with convoy record"
    )]
    Refused(u32),
    /// The kernel does not tell.
    #[error(
        "the kernel does not tell what threads wait for ({0}); start the program with convoy record"
    )]
    Silent(std::io::Error),
}

/// A thread.
struct Thread {
    /// Kept open, unless there are too many.
    syscall: Option<File>,
    /// What it waits on, which site that is, and for how many seconds it was seen there.
    waits: Option<(Sleep, usize, f64)>,
}

/// A place that waits for a word.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Called {
    word: u64,
    kind: Kind,
    act: &'static str,
    place: String,
}

/// What was seen of a word.
#[derive(Default)]
struct Word {
    waiters: Waiters,
    /// Since when somebody waits, and until when that was seen, seconds.
    since: Option<(f64, f64)>,
    /// Time in which its owner ran, and in which it did not, while others waited, seconds.
    held: [f64; 2],
}

/// A process that is being looked at.
pub struct Attached {
    pid: u32,
    memory: File,
    stacks: Stacks,
    threads: BTreeMap<u32, Thread>,
    most: usize,
    listed: Option<Instant>,
    begin: Instant,
    last: Instant,
    rounds: u64,
    sites: Vec<(Called, Site)>,
    /// Which threads were seen at which site.
    seen: BTreeSet<(usize, u32)>,
    words: BTreeMap<u64, Word>,
    places: BTreeMap<Vec<u64>, String>,
    phases: Phases,
}

/// Time that threads waited, by when, in parts that become longer with the look.
struct Phases {
    length_s: f64,
    waits_s: [f64; PHASES],
}

/// Of them; two become one when the last is over.
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
    /// To a process.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(pid: u32) -> Result<Self, AttachError> {
        let refused = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => AttachError::None(pid),
            ErrorKind::PermissionDenied => AttachError::Refused(pid),
            _ => AttachError::Silent(error),
        };
        let file = |name: &str| format!("/proc/{pid}/{name}");
        let maps = std::fs::read_to_string(file("maps")).map_err(refused)?;
        let memory = File::open(file("mem")).map_err(refused)?;
        let silent = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => AttachError::Silent(error),
            _ => refused(error),
        };
        std::fs::read(file("syscall")).map_err(silent)?;
        let (stacks, now) = (Stacks::new(pid, &maps), Instant::now());
        Ok(Self {
            pid,
            memory,
            stacks,
            threads: BTreeMap::new(),
            most: 0,
            listed: None,
            begin: now,
            last: now,
            rounds: 0,
            sites: Vec::new(),
            seen: BTreeSet::new(),
            words: BTreeMap::new(),
            places: BTreeMap::new(),
            phases: Phases { length_s: 0.01, waits_s: [0.0; PHASES] },
        })
    }

    /// Looks once at all threads; how long to wait until the next look. `None`: it has ended.
    pub fn look(&mut self) -> Option<Duration> {
        let begin = Instant::now();
        if self.listed.is_none_or(|listed| listed.elapsed() > LIST) {
            self.list()?;
        }
        let span = begin.duration_since(self.last).as_secs_f64();
        self.last = begin;
        self.rounds += 1;
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        let mut waiting: BTreeMap<u64, (u64, Kind)> = BTreeMap::new();
        for id in ids {
            let sleep = self.threads.get(&id).and_then(|thread| match &thread.syscall {
                Some(file) => sleep(file),
                None => sleep(&self.syscall(id)?),
            });
            if let Some((word, kind)) = self.follow(id, sleep, span) {
                waiting.entry(word).or_insert((0, kind)).0 += 1;
            }
        }
        let now = begin.duration_since(self.begin).as_secs_f64();
        for (word, (count, kind)) in &waiting {
            self.held(*word, *kind, span);
            let seen = self.words.entry(*word).or_default();
            seen.wait(now, span, *count);
        }
        for (_, word) in self.words.iter_mut().filter(|(word, _)| !waiting.contains_key(word)) {
            word.since = None;
        }
        let least = Duration::from_secs_f64(1.0 / RATE);
        Some(least.max(begin.elapsed().mul_f64(1.0 / SHARE)))
    }

    fn syscall(&self, id: u32) -> Option<File> {
        File::open(format!("/proc/{}/task/{id}/syscall", self.pid)).ok()
    }

    /// Sees which threads there are.
    fn list(&mut self) -> Option<()> {
        let mut there = BTreeSet::new();
        for entry in std::fs::read_dir(format!("/proc/{}/task", self.pid)).ok()? {
            let name = entry.ok()?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            there.insert(id);
            if !self.threads.contains_key(&id) {
                let syscall = self.syscall(id).filter(|_| self.threads.len() < KEPT_OPEN);
                self.threads.insert(id, Thread { syscall, waits: None });
            }
        }
        let gone: Vec<u32> =
            self.threads.keys().filter(|id| !there.contains(id)).copied().collect();
        for id in gone {
            self.follow(id, None, 0.0);
            self.threads.remove(&id);
        }
        self.most = self.most.max(there.len());
        self.listed = Some(Instant::now());
        // The main thread may have ended before others; a process without any has ended.
        (!there.is_empty() && state(self.pid, self.pid) != Some('Z')).then_some(())
    }

    /// Books what a thread waits on now, after it was seen `span` seconds ago; its word and kind.
    fn follow(&mut self, id: u32, sleep: Option<Sleep>, span: f64) -> Option<(u64, Kind)> {
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
        let (called, seen) = &mut self.sites[site];
        seen.threads += u64::from(self.seen.insert((site, id)));
        let kind = called.kind;
        self.phases.add(self.last.duration_since(self.begin).as_secs_f64(), span);
        let sleep = sleep?;
        self.threads.get_mut(&id)?.waits = Some((sleep, site, seconds));
        Some((sleep.word, kind))
    }

    /// The place that a sleep is for: an index.
    fn site(&mut self, sleep: Sleep) -> Option<usize> {
        let called = self.called(sleep)?;
        if let Some(at) = self.sites.iter().position(|(known, _)| *known == called) {
            return Some(at);
        }
        self.sites.push((called, Site::default()));
        Some(self.sites.len() - 1)
    }

    /// Reads the stack.
    fn called(&mut self, sleep: Sleep) -> Option<Called> {
        let mut bytes = vec![0; STACK];
        let length = self.memory.read_at(&mut bytes, sleep.stack).ok()?;
        let words = bytes[..length].chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let (kind, act, frames) = self.stacks.scan(words)?;
        // Who wakes whom is not seen from here.
        let kind = if kind == Kind::Futex { Kind::Condition } else { kind };
        let site = *frames.first()?;
        let place = match self.places.get(&frames) {
            Some(place) => place.clone(),
            None => self.stacks.names.place(site, &frames[1..]),
        };
        self.places.insert(frames, place.clone());
        Some(Called { word: sleep.word, kind, act, place })
    }

    /// Books whether the owner of a word runs.
    fn held(&mut self, word: u64, kind: Kind, span: f64) {
        /// Where the owner stands in libc's mutex.
        const OWNER: u64 = 8;
        let mut owner = [0; 4];
        if kind != Kind::Mutex || self.memory.read_exact_at(&mut owner, word + OWNER).is_err() {
            return;
        }
        let owner = u32::from_le_bytes(owner);
        if !self.threads.contains_key(&owner) {
            return;
        }
        let Some(state) = state(self.pid, owner) else { return };
        let held = &mut self.words.entry(word).or_default().held;
        held[usize::from(state != 'R')] += span;
    }

    /// Ends the look; what was seen, and in sentences what was not.
    pub fn finish(mut self) -> (Process, Vec<String>) {
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        for id in ids {
            self.follow(id, None, 0.0);
        }
        let seconds = self.last.duration_since(self.begin).as_secs_f64();
        let command = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let mut process = Process {
            pid: self.pid.into(),
            command: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            seconds,
            threads: self.most as u64,
            sees_switches: true,
            ..Process::default()
        };
        process.phase_s = self.phases.length_s;
        let used = (seconds / self.phases.length_s).ceil() as usize;
        process.phases_wait_s = self.phases.waits_s[..used.clamp(1, PHASES)].to_vec();
        process.locks = self.locks();
        let each_ms = 1e3 * seconds / self.rounds.max(1) as f64;
        let sentence = format!(
            "The process was looked at from outside every {each_ms:.1} ms: shorter waits are there \
             in proportion to their length, but not in number; acquisitions, holds for which \
             nobody waited, and work between them are not known."
        );
        (process, vec![sentence])
    }

    /// The words with names.
    fn locks(&mut self) -> Vec<Lock> {
        let mut all: BTreeMap<(String, Kind), Lock> = BTreeMap::new();
        let sites = std::mem::take(&mut self.sites);
        let mut by_word: BTreeMap<u64, Vec<(Called, Site)>> = BTreeMap::new();
        for (called, mut site) in sites {
            site.count = site.wait.count;
            site.contended = if called.act == "wait" { 0 } else { site.wait.count };
            by_word.entry(called.word).or_default().push((called, site));
        }
        for (word, mut sites) in by_word {
            sites.sort_by(|(_, a), (_, b)| b.wait.total_s.total_cmp(&a.wait.total_s));
            let Some((first, _)) = sites.first() else { continue };
            let name = self.stacks.names.variable(word);
            let kind = first.kind;
            let all_sites = sites.iter().map(|(_, site)| site.clone()).collect();
            let is_lock = Lock { kind, sites: all_sites, ..Lock::default() }.is_lock();
            let name = name.unwrap_or_else(|| named_after(&first.place, is_lock));
            let key = (name.clone(), kind);
            let lock = all.entry(key).or_insert_with(|| Lock { name, kind, ..Lock::default() });
            lock.instances += 1;
            if let Some(seen) = self.words.get(&word) {
                lock.waiters.add(&seen.waiters);
                let [on, off] = seen.held;
                let held = |total_s| Times { total_s, ..Times::default() };
                sites[0].1.hold_on = held(on);
                sites[0].1.hold_off = held(off);
            }
            for (called, site) in sites {
                let known = lock.sites.iter_mut();
                let known = known
                    .into_iter()
                    .find(|one| one.place == called.place && one.act == called.act);
                match known {
                    Some(known) => known.add(&site),
                    None => lock.sites.push(Site {
                        place: called.place,
                        act: called.act.to_owned(),
                        ..site
                    }),
                }
            }
        }
        let mut locks: Vec<Lock> = all.into_values().collect();
        locks.sort_by(|a, b| b.wait_s().total_cmp(&a.wait_s()));
        locks
    }
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
    /// Adds one that was seen for so many seconds.
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
