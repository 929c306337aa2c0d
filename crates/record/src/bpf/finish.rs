//! Adds the numbers from the kernel to the processes of a record.

use std::collections::{BTreeMap, BTreeSet};

use super::counts::Counts;
use super::locks::{Word, of_kernel, words};
use super::symbols::Symbols;
use super::tables::{half, lost, process};
use super::{Moment, Seen, Watching, me};
use convoy_os::clock::monotonic_ns;

use crate::names::runtimes::runtime;
use crate::names::stacks::Stacks;
use crate::record::merge::sorted;
use crate::record::origin::Scheduler;
use crate::record::scheduling::Scheduling;
use crate::record::{Kind, Lock, Process};

/// Number of bytes that contain the words of a libc lock.
const LOCK_BYTES: u64 = 56;

impl Watching {
    /// Stops recording and adds the results to the processes. Returns sentences about the limits of
    /// the record.
    pub fn finish(mut self, processes: &mut Vec<Process>) -> Vec<String> {
        let end = self.stop();
        self.finish_at(&end, processes)
    }

    pub(crate) fn stop(&mut self) -> Moment {
        self.look();
        self.links.clear();
        self.golang.detach();
        self.moment()
    }

    /// Adds the results until the moment at which recording stopped to the processes. Returns
    /// sentences about the limits of the record.
    pub(crate) fn finish_at(mut self, end: &Moment, processes: &mut Vec<Process>) -> Vec<String> {
        self.add(&end.0.whole(), monotonic_ns(), processes)
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment(Counts::read(&self.tables, monotonic_ns()))
    }

    /// Adds the results between two moments to the processes. Returns sentences about their limits.
    pub(crate) fn add_window(
        &mut self,
        then: &Moment,
        now: &Moment,
        processes: &mut Vec<Process>,
    ) -> Vec<String> {
        self.add(&now.0.since(&then.0), monotonic_ns(), processes)
    }

    /// Adds counts to the processes. Returns sentences about their limits.
    fn add(&mut self, counts: &Counts, now_ns: u64, processes: &mut Vec<Process>) -> Vec<String> {
        // The symbols take long to read, and often no thread has waited in the kernel.
        if !counts.locks.is_empty() {
            self.symbols.get_or_insert_with(Symbols::read);
        }
        let symbols = self.symbols.as_ref();
        let mut kernel = symbols
            .map(|symbols| of_kernel(&counts.locks, &self.tables, symbols))
            .unwrap_or_default();
        let mut waited = words(counts);
        let own = me().map(|(process, _)| process);
        for (key, value) in &counts.processes {
            let pid = half(key, 0);
            if Some(pid) == own {
                continue;
            }
            let seen = self.seen.remove(&pid).unwrap_or_default();
            let at = processes.iter().rposition(|one| one.pid == u64::from(pid));
            let known = at.is_some_and(|at| !processes[at].addresses.is_empty());
            let (locks, found) = (kernel.remove(&pid), waited.remove(&pid));
            let at = match at {
                Some(at) => at,
                None if locks.is_none() && found.is_none() => {
                    self.seen.insert(pid, seen);
                    continue;
                }
                None => {
                    processes.push(new(pid, &seen, value, now_ns));
                    processes.len() - 1
                }
            };
            let process = &mut processes[at];
            process.scheduling = Some(scheduling(value));
            if !process.ended {
                // The clock of a process that calls _exit(2) itself, as Go's do, was read before.
                process.cpu_s = process.cpu_s.max(value[process::CPU] as f64 / 1e9);
                // A busy machine may have delayed the last sample.
                let end_ns = if value[process::END] == 0 { now_ns } else { value[process::END] };
                let run_ns = end_ns.saturating_sub(value[process::BEGIN].max(self.begin_ns));
                process.seconds = process.seconds.max(run_ns as f64 / 1e9);
            }
            process.kernel_locks = locks.unwrap_or_default();
            if let Some(is_watched) = seen.is_watched {
                process.schedulers.retain(|scheduler| *scheduler != Scheduler::Go);
                let scheduler = if is_watched { Scheduler::GoChannels } else { Scheduler::Go };
                process.schedulers.push(scheduler);
            }
            self.futexes(pid, process, &seen, found.unwrap_or_default(), known);
            self.seen.insert(pid, seen);
        }
        self.unseen(self.symbols.as_ref())
    }

    /// Adds the words that threads waited for, except those in known locks.
    fn futexes(
        &mut self,
        pid: u32,
        process: &mut Process,
        seen: &Seen,
        found: BTreeMap<u64, Word>,
        is_known: bool,
    ) {
        let known_stacks = self.stacks.remove(&pid).filter(|(maps, _)| *maps == seen.maps);
        let mut stacks =
            known_stacks.map_or_else(|| Stacks::new(pid, &seen.maps), |(_, stacks)| stacks);
        // Every wait is counted here, including those for libc's internal locks, which were only
        // sampled before.
        process.runtime_locks.retain(|lock| runtime(&lock.runtime).is_none());
        let known = |lock: &Lock| (lock.name.clone(), lock.kind);
        let recorded: BTreeSet<_> = process.addresses.values().cloned().collect();
        process.futexes.retain(|lock| recorded.contains(&known(lock)));
        let mut all: BTreeMap<(String, Kind, bool), Lock> = BTreeMap::new();
        for (address, word) in found {
            let near = process.addresses.range(..=address).next_back();
            let near = near.filter(|(begin, _)| is_known && address - *begin < LOCK_BYTES);
            if let Some((_, (name, kind))) = near {
                let held = word.held();
                let lock = process.locks.iter_mut();
                let lock = lock.into_iter().find(|lock| lock.name == *name && lock.kind == *kind);
                if let (Some(lock), Some(held)) = (lock, held) {
                    lock.held.get_or_insert_default().add(&held);
                }
                continue;
            }
            let lock = word.lock(pid, address, &mut stacks, &self.tables, self.begin_ns);
            let Some(lock) = lock else { continue };
            let waited = process.scheduling.map_or(0.0, |all| all.preempted_s + all.woken_s);
            let could_run_s = process.cpu_s + waited;
            let sleeps_in = seen.sleeps_in();
            process.causes.extend(word.causes(
                &lock,
                &stacks,
                &self.tables,
                &sleeps_in,
                could_run_s,
            ));
            let key = (lock.name.clone(), lock.kind, lock.is_lock());
            match all.get_mut(&key) {
                Some(known) => known.join(lock),
                None => drop(all.insert(key, lock)),
            }
        }
        process.futexes.extend(all.into_values());
        process.futexes = sorted(std::mem::take(&mut process.futexes));
        self.stacks.insert(pid, (seen.maps.clone(), stacks));
    }

    /// Returns sentences about the data that was lost.
    fn unseen(&self, symbols: Option<&Symbols>) -> Vec<String> {
        let losses = self.tables.losses();
        let sentences = [
            (lost::THREADS, "threads were not followed by the kernel: too many lived at once"),
            (lost::PROCESSES, "processes were not followed by the kernel: there were too many"),
            (lost::WAITS, "waits in futex(2) were not counted: too many words and places"),
            (lost::WORDS, "waits in futex(2) do not say who woke whom: too many words"),
            (lost::LOCKS, "waits for locks of the kernel were not counted: too many places"),
            (lost::STACKS, "waits have no stack: too many different ones, or none to be read"),
            (
                lost::NESTED,
                "waits for locks of the kernel were interrupted by others and not timed",
            ),
        ];
        let lost = sentences.into_iter().filter(|(what, _)| losses[*what] > 0);
        let mut all: Vec<String> =
            lost.map(|(what, sentence)| format!("{} {sentence}.", losses[what])).collect();
        if let Some(share) = self.recorded_share() {
            all.push(format!(
                "Threads that often switch or wait in futex(2) were recorded during {:.0} % of the \
                 time, to keep the program fast, and their counts are scaled up; --kernel on \
                 records all events.",
                100.0 * share
            ));
        }
        if let Some(error) = &self.golang.failed {
            all.push(format!("Locks of goroutines were not recorded: {error}."));
        }
        if symbols.is_some_and(Symbols::is_empty) {
            all.push(
                "Places in the kernel have no names: /proc/kallsyms hides its addresses; set \
                 kernel.kptr_restrict to 0 or 1, or run as root."
                    .to_owned(),
            );
        }
        all
    }
}

/// Returns a process of which nothing else is known.
fn new(pid: u32, seen: &Seen, value: &[u64], now_ns: u64) -> Process {
    let end = if value[process::END] == 0 { now_ns } else { value[process::END] };
    Process {
        pid: pid.into(),
        parent: value[process::PARENT],
        command: seen.command.clone(),
        seconds: end.saturating_sub(value[process::BEGIN]) as f64 / 1e9,
        cpu_s: value[process::CPU] as f64 / 1e9,
        ended: value[process::END] != 0,
        threads: value[process::THREADS],
        sees_switches: true,
        ..Process::default()
    }
}

fn scheduling(value: &[u64]) -> Scheduling {
    let seconds = |at: usize| value[at] as f64 / 1e9;
    Scheduling {
        preemptions: value[process::PREEMPTIONS],
        preempted_s: seconds(process::PREEMPTED),
        sleeps: value[process::SLEEPS],
        asleep_s: seconds(process::BLOCKED),
        woken_s: seconds(process::RUNNABLE),
        woken_by_others: value[process::BY_OTHERS],
        wakes_others: value[process::WAKES_OTHERS],
        asleep_by_others_s: seconds(process::ASLEEP_BY_OTHERS),
    }
}
