//! Samples the processes of a recorded program that have no file, as forked processes that acquire
//! few locks: each may wait for a lock of the system, which no other process shows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use convoy_os::clock::thread_cpu_ns;
use convoy_os::process::descendants;
use serde::Serialize;

use crate::record::{Process, total};
use crate::sampling::attached::Attached;

/// Maximum number of processes that are sampled.
const PROCESSES: usize = 16;
/// Minimum time between two listings of the processes, and the maximum share of a CPU for all but
/// the first few, so that processes of short programs are found.
const LIST: Duration = Duration::from_millis(20);
const LIST_SHARE: f64 = 0.01;
const FIRST: u32 = 5;
/// Minimum number of samples in which a thread waits for such a lock.
const WAITS: u64 = 4;

/// Locks between processes that the kernel keeps. A system call that waits for one sleeps only
/// until another process or thread has released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemLock {
    /// The lock of a file.
    File,
    /// A semaphore of System V.
    Semaphore,
}

impl SystemLock {
    /// Returns the lock that a system call waits for, by the call's name, such as `flock(2)`.
    pub fn of_call(call: &str) -> Option<Self> {
        match call {
            "flock(2)" | "fcntl(2)" => Some(Self::File),
            "semop(2)" | "semtimedop(2)" => Some(Self::Semaphore),
            _ => None,
        }
    }
}

/// The processes.
#[derive(Default)]
pub(crate) struct Fileless {
    running: BTreeMap<u32, Attached>,
    /// Processes that have ended and waited for such a lock.
    ended: Vec<Process>,
    /// Processes without the object, as of programs that are linked statically.
    others: BTreeSet<u32>,
    list_next: Option<Instant>,
    /// Number of listings.
    lists: u32,
}

impl Fileless {
    /// Samples all threads once. Processes for which `has_file` holds are left out.
    pub(crate) fn look(&mut self, has_file: impl Fn(u32) -> bool) {
        if self.list_next.is_none_or(|next| Instant::now() >= next) {
            self.list(has_file);
        }
        let ended = self.running.iter_mut().filter_map(|(pid, process)| {
            let is_over = process.look_past(|_| false).is_none();
            is_over.then_some(*pid)
        });
        for pid in ended.collect::<Vec<_>>() {
            self.ended.extend(self.running.remove(&pid).and_then(waiting));
        }
    }

    fn list(&mut self, has_file: impl Fn(u32) -> bool) {
        let before = thread_cpu_ns();
        // A new process may create its file later.
        self.running.retain(|pid, _| !has_file(*pid));
        for pid in descendants(std::process::id()).into_iter().filter(|pid| !has_file(*pid)) {
            let is_full = self.running.len() + self.ended.len() >= PROCESSES;
            if is_full || self.running.contains_key(&pid) || self.others.contains(&pid) {
                continue;
            }
            match Attached::new(pid) {
                Ok(process) if !process.recorder.is_empty() => {
                    self.running.insert(pid, process);
                }
                _ => {
                    self.others.insert(pid);
                }
            }
        }
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
        self.lists = self.lists.saturating_add(1);
        let least = if self.lists > FIRST { took.mul_f64(1.0 / LIST_SHARE) } else { LIST };
        self.list_next = Some(Instant::now() + least.max(LIST));
    }

    /// Adds those that waited for such a lock to the processes of a record.
    pub(crate) fn fill(self, processes: &mut Vec<Process>) {
        let running = self.running.into_values().filter_map(waiting);
        for observed in self.ended.into_iter().chain(running) {
            let Process { pid, threads, seconds, looks, activity, command, .. } = observed;
            let known = processes.iter().rposition(|process| process.pid == pid);
            let at = known.unwrap_or_else(|| {
                processes.push(Process { pid, command, ..Process::default() });
                processes.len() - 1
            });
            let process = &mut processes[at];
            if process.looks == 0 {
                (process.looks, process.activity) = (looks, activity);
            }
            process.threads = process.threads.max(threads);
            process.seconds = process.seconds.max(seconds);
        }
    }
}

/// Returns the activity of a process if it waited for a lock of the system.
fn waiting(observed: Attached) -> Option<Process> {
    let process = observed.activity();
    let waits = process.activity.iter().filter(|seen| SystemLock::of_call(&seen.what).is_some());
    (total(waits.map(|seen| seen.count)) >= WAITS).then_some(process)
}
