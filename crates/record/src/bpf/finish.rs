//! Adds the numbers from the kernel to the processes of a record.

use std::collections::{BTreeMap, BTreeSet};

use super::locks::{Word, of_kernel, words};
use super::programs::SUMS;
use super::symbols::Symbols;
use super::tables::{all, half, lost, process, thread, times, wait, word};
use super::{Seen, Watching, bytes, me};
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
        self.look();
        let now_ns = monotonic_ns();
        self.links.clear();
        self.golang.end();
        self.end_waits(now_ns);
        self.end_convoys(now_ns);
        // The symbols take long to read, and often no thread has waited in the kernel.
        let symbols = (!self.tables.locks.keys().is_empty()).then(Symbols::read);
        let mut kernel =
            symbols.as_ref().map(|symbols| of_kernel(&self.tables, symbols)).unwrap_or_default();
        let mut waited = words(&self.tables);
        let own = me().map(|(process, _)| process);
        for (key, value) in all(&self.tables.processes) {
            let pid = half(&key, 0);
            if Some(pid) == own {
                continue;
            }
            let seen = self.seen.remove(&pid).unwrap_or_default();
            let at = processes.iter().rposition(|one| one.pid == u64::from(pid));
            let known = at.is_some_and(|at| !processes[at].addresses.is_empty());
            let (locks, found) = (kernel.remove(&pid), waited.remove(&pid));
            let at = match at {
                Some(at) => at,
                None if locks.is_none() && found.is_none() => continue,
                None => {
                    processes.push(new(pid, &seen, &value, now_ns));
                    processes.len() - 1
                }
            };
            let process = &mut processes[at];
            process.scheduling = Some(scheduling(&value));
            process.kernel_locks = locks.unwrap_or_default();
            if let Some(is_watched) = seen.is_watched {
                process.schedulers.retain(|scheduler| *scheduler != Scheduler::Go);
                process.schedulers.extend((!is_watched).then_some(Scheduler::Go));
            }
            self.futexes(pid, process, &seen, found.unwrap_or_default(), known);
        }
        self.unseen(symbols.as_ref())
    }

    /// Records waits that have not ended, because the process is still running.
    fn end_waits(&self, now_ns: u64) {
        for (key, value) in all(&self.tables.threads) {
            let (pid, since) = (value[thread::PROCESS] as u32, value[thread::SINCE]);
            let number = pid.to_le_bytes();
            if let Ok(Some(sums)) = self.tables.processes.get(&number) {
                let mut sums = super::words(&sums);
                for (from, to) in SUMS {
                    sums[to] += value[from];
                }
                let _gone = self.tables.processes.set(&number, &bytes(&sums));
            }
            if since == 0 || now_ns <= since {
                continue;
            }
            let stack = value[thread::STACK] as u32;
            let place = [&number[..], &stack.to_le_bytes(), &value[thread::WORD].to_le_bytes()];
            let place = place.concat();
            if let Ok(Some(found)) = self.tables.waits.get(&place) {
                let mut found = super::words(&found);
                let ns = now_ns - since;
                found[wait::TIMES + times::COUNT] += 1;
                found[wait::TIMES + times::TOTAL] += ns;
                let most = &mut found[wait::TIMES + times::MOST];
                *most = (*most).max(ns);
                found[wait::BUCKETS_AT + crate::layout::bucket(ns)] += 1;
                let id = half(&key, 0);
                found[wait::THREADS + (id >> 6 & 3) as usize] |= 1 << (id & 63);
                let _gone = self.tables.waits.set(&place, &bytes(&found));
            }
        }
    }

    /// Records the time with waiters of words that have some now.
    fn end_convoys(&self, now_ns: u64) {
        for (key, mut value) in all(&self.tables.words) {
            let (waiters, since) = (value[word::WAITERS] as i64, value[word::SINCE]);
            if waiters > 0 && (1..now_ns).contains(&since) {
                let ns = now_ns - since;
                value[word::TOTAL] += ns;
                if ns > value[word::LONGEST] {
                    (value[word::LONGEST], value[word::LONGEST_AT]) = (ns, since);
                }
                let _gone = self.tables.words.set(&key, &bytes(&value));
            }
        }
    }

    /// Adds the words that threads waited for, except those in known locks.
    fn futexes(
        &self,
        pid: u32,
        process: &mut Process,
        seen: &Seen,
        found: BTreeMap<u64, Word>,
        is_known: bool,
    ) {
        let mut stacks = Stacks::new(pid, &seen.maps);
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
