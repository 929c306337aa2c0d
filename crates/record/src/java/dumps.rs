//! Takes thread dumps of the Java processes of a recording, in a separate thread: few of them, and
//! so that they stop the program for at most a two-hundredth of its time, and 5 ms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::java::dump::Dump;
use crate::java::jvm::{Jvm, No};
use crate::java::{Java, JavaLink, deadlock};
use crate::record::Process;

/// Maximum part of the time for which the threads may be stopped.
const SHARE: f64 = 0.005;
/// The same in addition, in seconds: a short run needs several dumps, too.
const ALLOWED_S: f64 = 0.005;
/// Maximum number of dumps of a process.
const MOST: u64 = 50;
/// Age in seconds of a process at the first dump.
const FIRST_S: f64 = 0.2;
/// Interval between the first two dumps in seconds, and its growth from dump to dump.
const INTERVAL_S: f64 = 0.05;
const GROWTH: f64 = 1.15;
/// Maximum of this interval in observations without an end, which take any number of dumps.
const LASTING_S: f64 = 1.0;
/// Number of attempts while a process starts, at intervals that double.
const ATTEMPTS: u32 = 7;
/// Maximum number of processes.
const PROCESSES: usize = 64;

/// What the dumps of each process have shown so far.
type Shown = Arc<Mutex<BTreeMap<u32, Java>>>;

/// Dumps of the processes of a recording.
pub struct Dumps {
    pids: Sender<u32>,
    shown: Shown,
    thread: JoinHandle<BTreeMap<u32, Java>>,
}

impl Dumps {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start() -> std::io::Result<Self> {
        Self::start_with(false)
    }

    /// Starts the thread for observations without an end: it takes a dump each second, if that
    /// stops the program for no larger part of its time.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start_lasting() -> std::io::Result<Self> {
        Self::start_with(true)
    }

    fn start_with(is_lasting: bool) -> std::io::Result<Self> {
        let (pids, new) = channel();
        let thread = std::thread::Builder::new().name("dumps".to_owned());
        let shown = Shown::default();
        let shared = Arc::clone(&shown);
        Ok(Self { pids, shown, thread: thread.spawn(move || run(&new, &shared, is_lasting))? })
    }

    /// Returns what the dumps of each process have shown so far.
    pub(crate) fn shown(&self) -> BTreeMap<u32, Java> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a process, which need not be one of Java.
    pub fn add(&self, pid: u32) {
        // The thread lives until the sender is dropped.
        let _never_fails = self.pids.send(pid);
    }

    /// Ends the dumps and adds them to the processes. Of several programs that a process executed,
    /// Java was the last.
    pub fn finish(self, processes: &mut [Process]) {
        drop(self.pids);
        for (pid, java) in self.thread.join().unwrap_or_default() {
            let its = processes.iter_mut().rfind(|one| one.pid == u64::from(pid));
            if let Some(process) = its {
                process.java = Some(java);
            }
        }
    }
}

/// A process, and when to ask it next.
struct Asked {
    begin: Instant,
    next: Instant,
    attempts: u32,
    jvm: Option<Jvm>,
    java: Java,
    /// Names of the threads that waited for a lock.
    waiting: BTreeSet<String>,
    /// The deadlock of the last dump.
    stuck: Vec<JavaLink>,
}

/// Takes dumps until the sender is gone.
fn run(new: &Receiver<u32>, shown: &Shown, is_lasting: bool) -> BTreeMap<u32, Java> {
    let (mut all, mut over) = (BTreeMap::<u32, Asked>::new(), BTreeSet::new());
    let mut done = BTreeMap::new();
    loop {
        let next = all.values().map(|one| one.next).min();
        let wait =
            next.map_or(Duration::MAX, |next| next.saturating_duration_since(Instant::now()));
        match new.recv_timeout(wait) {
            Ok(pid) if all.len() < PROCESSES && over.insert(pid) => {
                all.insert(pid, Asked::new());
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let now = Instant::now();
                let due = all.iter_mut().filter(|(_, one)| one.next <= now);
                let mut ended = Vec::new();
                for (pid, one) in due {
                    if !one.ask(*pid, is_lasting) {
                        ended.push(*pid);
                    }
                    let java = one.java.clone();
                    shown.lock().unwrap_or_else(PoisonError::into_inner).insert(*pid, java);
                }
                let ended = ended.into_iter().filter_map(|pid| Some((pid, all.remove(&pid)?)));
                done.extend(ended.map(|(pid, one)| (pid, one.java)));
            }
        }
    }
    done.extend(all.into_iter().map(|(pid, one)| (pid, one.java)));
    done.retain(|_, java| java.dumps > 0 || !java.refused.is_empty());
    done
}

impl Asked {
    fn new() -> Self {
        let begin = Instant::now();
        let next = begin + Duration::from_secs_f64(FIRST_S);
        let (java, waiting, stuck) = Default::default();
        Self { begin, next, attempts: 0, jvm: None, java, waiting, stuck }
    }

    /// Takes a dump if it is time. Returns whether to ask again.
    fn ask(&mut self, pid: u32, is_lasting: bool) -> bool {
        let no = match self.dump(pid, is_lasting) {
            Ok(()) => return is_lasting || self.java.dumps < MOST,
            Err(no) => no,
        };
        let reason = match no {
            // The program may become one of Java when it executes another one.
            No::Java if self.jvm.is_some() => return false,
            No::Java => String::new(),
            No::Yet(reason) => reason.to_owned(),
            No::Never(reason) => {
                self.java.refused = reason;
                return false;
            }
        };
        self.java.refused = reason;
        self.attempts += 1;
        self.next = Instant::now() + Duration::from_secs_f64(FIRST_S) * (1 << self.attempts) / 2;
        self.attempts < ATTEMPTS
    }

    fn dump(&mut self, pid: u32, is_lasting: bool) -> Result<(), No> {
        let jvm = match &mut self.jvm {
            Some(jvm) => jvm,
            None => self.jvm.insert(Jvm::find(pid)?),
        };
        let age_s = self.begin.elapsed().as_secs_f64();
        let early_s = until_allowed_s(jvm.expected_s(), age_s);
        if self.java.dumps == 0 && early_s > 0.0 {
            self.next = Instant::now() + Duration::from_secs_f64(early_s);
            return Ok(());
        }
        let (text, stopped_s) = jvm.dump()?;
        self.java.refused.clear();
        self.attempts = 0;
        let dump = Dump::parse(&text);
        self.java.add(&dump);
        self.waiting.extend(dump.waiting().map(str::to_owned));
        self.java.waiters = self.waiting.len() as u64;
        self.java.stopped_s += stopped_s;
        let stuck = deadlock(&dump);
        self.java.deadlock = if stuck == self.stuck { stuck.clone() } else { Vec::new() };
        self.stuck = stuck;
        let grown_s = INTERVAL_S * GROWTH.powf(self.java.dumps as f64);
        let grown_s = if is_lasting { grown_s.min(LASTING_S) } else { grown_s };
        let wait_s = grown_s.max(until_allowed_s(self.java.stopped_s + stopped_s, age_s));
        self.next = Instant::now() + Duration::from_secs_f64(wait_s.min(3600.0));
        Ok(())
    }
}

/// Returns how many seconds a process of this age is too young for dumps that stop it for
/// `stopped_s` seconds in all.
fn until_allowed_s(stopped_s: f64, age_s: f64) -> f64 {
    (stopped_s - ALLOWED_S) / SHARE - age_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_of_a_short_run_may_stop_it_for_a_few_milliseconds() {
        assert!(until_allowed_s(0.003, 0.1) < 0.0, "26 threads, at the start");
        assert!(until_allowed_s(0.006, 0.1) > 0.0);
        assert!((until_allowed_s(0.055, 4.0) - 6.0).abs() < 1e-9, "0.5 % of 10 s in addition");
    }
}
