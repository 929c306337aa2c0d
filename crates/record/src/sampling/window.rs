//! What happened lately in running processes: the difference of the counts of two moments, as the
//! processes of a record.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use convoy_os::clock::process_cpu_ns;

use crate::bpf;
use crate::java::Java;
use crate::java::dumps::Dumps;
use crate::names::syscalls;
use crate::record::causes::{self, Doing, Seen};
use crate::record::{Kind, Process};
use crate::sampling::attached::{Attached, limits};
use crate::sampling::counts::{Counts, Moment, Stay};
use crate::sampling::cpu_time::{self, Places};
use crate::sampling::processes::{Outside, without_samples};

/// The counts of all processes at a moment.
pub struct Moments {
    at: Instant,
    /// CPU time of this process until then, in nanoseconds.
    cost_ns: u64,
    /// Each with the time at which it was attached, because process IDs are used again.
    members: BTreeMap<u32, (Instant, Moment)>,
    kernel: Option<bpf::Moment>,
    java: BTreeMap<u32, Java>,
    hot: BTreeMap<u32, Places>,
}

/// What happened in a window of time.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// CPU time of this process during the window, in seconds.
    pub cost_s: f64,
    /// The processes.
    pub processes: Vec<Lately>,
    /// Sentences about what could not be observed.
    pub unseen: Vec<String>,
}

/// What happened in one process in a window of time.
#[derive(Clone, Debug, Default)]
pub struct Lately {
    /// The process, with the counts of the window.
    pub process: Process,
    /// Number of samples of all its threads.
    pub looks: u64,
    /// Sampled states of its threads, most frequent first; [`Seen::count`] divided by `looks` is
    /// the mean number of threads.
    pub states: Vec<Seen>,
    /// Threads that owned a lock while others waited for it, by the name and kind of the lock, each
    /// with the number of samples, most frequent first.
    pub owners: BTreeMap<(String, Kind), Vec<(u64, u64)>>,
}

impl Outside {
    /// Returns the counts of all processes that have not ended.
    pub fn moment(&self) -> Moments {
        let members = self.members.iter().map(|(pid, one)| (*pid, (one.begin, one.moment())));
        Moments {
            at: Instant::now(),
            cost_ns: process_cpu_ns(),
            members: members.collect(),
            kernel: self.watching.as_ref().map(bpf::Watching::moment),
            java: self.dumps.as_ref().map(Dumps::shown).unwrap_or_default(),
            hot: self.sampling.moment(),
        }
    }

    /// Returns what happened between two moments in the processes that have not ended.
    pub fn window(&mut self, then: &Moments, now: &Moments) -> Window {
        let mut processes = Vec::new();
        let (mut looks, mut looked_s) = (0, 0.0);
        for (pid, one) in &mut self.members {
            let Some((begin, moment)) = now.members.get(pid) else { continue };
            let new = Moment::default();
            let before = then.members.get(pid).filter(|(earlier, _)| earlier == begin);
            let before = before.map_or(&new, |(_, before)| before);
            let (counts, seconds) = (moment.since(before), moment.at_s - before.at_s);
            (looks, looked_s) = (looks + counts.rounds, looked_s + seconds);
            let mut lately = one.lately(&counts, moment, seconds);
            lately.process.java = now.java.get(pid).map(|java| {
                then.java.get(pid).map_or_else(|| java.clone(), |before| java.since(before))
            });
            if let (Some(hot), Some(stacks)) = (now.hot.get(pid), &one.named.stacks) {
                (lately.process.hot, lately.process.samples) =
                    cpu_time::lately(hot, then.hot.get(pid), &stacks.names);
            }
            processes.push(lately);
        }
        let window_s = now.at.duration_since(then.at).as_secs_f64();
        let mut unseen = vec![limits(1e3 * looked_s / looks.max(1) as f64)];
        unseen.extend(self.missing());
        if let (Some(watching), Some(then), Some(now)) =
            (&mut self.watching, &then.kernel, &now.kernel)
        {
            let mut counted: Vec<Process> =
                processes.iter_mut().map(|one| std::mem::take(&mut one.process)).collect();
            without_samples(&mut counted, &mut unseen);
            unseen.extend(watching.add_window(then, now, &mut counted));
            processes.resize(counted.len(), Lately::default());
            for (one, process) in processes.iter_mut().zip(counted) {
                one.process = process;
                // The kernel counts between the moments, and samples lie between the samples
                // before them.
                one.process.seconds = window_s;
            }
        }
        Window {
            seconds: window_s,
            cost_s: now.cost_ns.saturating_sub(then.cost_ns) as f64 / 1e9,
            processes,
            unseen,
        }
    }
}

impl Attached {
    /// Returns the activity in the last `seconds` before a moment, with the counts of this time.
    fn lately(&mut self, counts: &Counts, now: &Moment, seconds: f64) -> Lately {
        let process = self.process(counts, &now.waiting, seconds);
        let states = self.states(counts);
        let mut owners: BTreeMap<(String, Kind), Vec<(u64, u64)>> = BTreeMap::new();
        for ((word, thread), count) in &counts.owners {
            if let Some(lock) = self.named.locks.get(word) {
                owners.entry(lock.clone()).or_default().push((u64::from(*thread), *count));
            }
        }
        for threads in owners.values_mut() {
            threads.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        }
        Lately { process, looks: counts.rounds, states, owners }
    }

    /// Returns the sampled states of its threads, most frequent first.
    fn states(&self, counts: &Counts) -> Vec<Seen> {
        let mut states = Vec::new();
        for (stay, count) in &counts.stays {
            let (doing, what) = self.state(*stay);
            causes::add(&mut states, Seen { doing, what, count: *count, ..Seen::default() });
        }
        causes::sort(&mut states);
        states
    }

    /// Returns the process with the activity of its threads, without their waits.
    pub(crate) fn activity(self) -> Process {
        Process {
            pid: self.pid.into(),
            command: self.command().to_vec(),
            threads: self.most as u64,
            seconds: self.seconds(),
            looks: self.counts.rounds,
            activity: self.states(&self.counts),
            ..Process::default()
        }
    }

    /// Returns the activity of a thread in a state, and the call or lock of it.
    fn state(&self, stay: Stay) -> (Doing, String) {
        match stay {
            Stay::Runs => (Doing::Runs, String::new()),
            Stay::Faults => (Doing::Faults, String::new()),
            Stay::Sleeps(number) => (Doing::Sleeps, syscalls::name(number)),
            Stay::Waits(place) => {
                let called = self.named.called.get(place).and_then(Option::as_ref);
                let lock = called.and_then(|called| self.named.locks.get(&called.word));
                match lock {
                    Some((name, Kind::Mutex | Kind::Rwlock | Kind::Spinlock)) => {
                        (Doing::Waits, name.clone())
                    }
                    Some((name, _)) => (Doing::Idles, name.clone()),
                    // A wait for the exit of a thread.
                    None => (Doing::Idles, String::new()),
                }
            }
        }
    }
}

/// Moments of the recent past: the differences of the last one and an earlier one are windows.
pub struct Past {
    length: Duration,
    moments: VecDeque<Moments>,
}

impl Past {
    /// Starts with a moment. Windows shall have this length.
    pub fn new(first: Moments, length: Duration) -> Self {
        Self { length, moments: VecDeque::from([first]) }
    }

    /// Adds a moment. Returns the beginning of the window that ends with it, and this moment.
    /// Earlier moments are forgotten.
    pub fn add(&mut self, now: Moments) -> (&Moments, &Moments) {
        let ages: Vec<Duration> =
            self.moments.iter().map(|then| now.at.duration_since(then.at)).collect();
        self.moments.drain(..begin_of(&ages, self.length));
        self.moments.push_back(now);
        let last = self.moments.len() - 1;
        (&self.moments[0], &self.moments[last])
    }
}

/// Returns the position of the moment at which a window of this length begins: the last one that is
/// old enough, or the first one. `ages` descend.
fn begin_of(ages: &[Duration], length: Duration) -> usize {
    ages.iter().rposition(|age| *age >= length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_with_the_last_moment_that_is_old_enough() {
        fn seconds(ages: &[u64]) -> Vec<Duration> {
            ages.iter().map(|age| Duration::from_secs(*age)).collect()
        }
        let length = Duration::from_secs(5);
        assert_eq!(begin_of(&seconds(&[2, 1]), length), 0, "the first one until there are others");
        assert_eq!(begin_of(&seconds(&[7, 6, 5, 1]), length), 2);
        assert_eq!(begin_of(&seconds(&[30, 4]), length), 0, "a refresh may come late");
    }

    #[test]
    fn moments_before_the_window_are_forgotten() {
        let begin = Instant::now();
        let after = |seconds: u64| Moments {
            at: begin + Duration::from_secs(seconds),
            cost_ns: 0,
            members: BTreeMap::new(),
            kernel: None,
            java: BTreeMap::new(),
            hot: BTreeMap::new(),
        };
        let mut past = Past::new(after(0), Duration::from_secs(2));
        for second in 1..10 {
            let (then, now) = past.add(after(second));
            let length = now.at.duration_since(then.at).as_secs();
            assert_eq!(length, second.min(2));
        }
        assert_eq!(past.moments.len(), 3);
    }
}
