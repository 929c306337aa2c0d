//! Time for which the threads of a program were runnable but had no CPU, sampled from outside.
//!
//! For each thread, the kernel counts the time that it ran and the time that it waited in a run
//! queue (`/proc/PID/task/TID/schedstat`). The ratio of the two over all threads and samples, times
//! the CPU time of the process, is the time that it waited for CPUs. Threads that exit between two
//! samples are assumed to have waited as much as the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_os::{clock, process};

use crate::Process;

/// Minimum time between two samples.
const LEAST: Duration = Duration::from_millis(10);
/// Time to the next sample, as a multiple of the CPU time of the last one. Its inverse is the
/// largest fraction of a CPU that sampling uses.
const REST: u32 = 200;
/// Minimum CPU time, in nanoseconds, to report a process.
const ENOUGH_NS: u64 = 20_000_000;

/// Samples of the processes of one recording.
#[derive(Debug, Default)]
pub struct Ready {
    directory: PathBuf,
    /// Processes that have mapped their file. A process in another PID namespace uses an ID that
    /// another process may have here.
    known: BTreeSet<u32>,
    threads: BTreeMap<(u32, u32), Seen>,
    /// Time that the threads of a process ran, and time that they waited for a CPU, in nanoseconds.
    sums: BTreeMap<u32, [u64; 2]>,
    next: Option<Instant>,
}

/// The last sample of a thread.
#[derive(Debug)]
struct Seen {
    /// Time that it ran, and time that it waited for a CPU, in nanoseconds. Both are unchanged
    /// since `since`.
    counts: [u64; 2],
    since: Instant,
    /// Time for which it has waited since then. The kernel adds the time of a wait when the wait
    /// ends, which never happens for the last wait of each thread. While other programs run, this
    /// is a large part of a short recording.
    waits_ns: u64,
}

impl Ready {
    /// Creates samples of the processes that leave a file in `directory`.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..Self::default() }
    }

    /// Samples the processes if the next sample is due.
    pub fn look(&mut self) {
        if self.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        // CPU time: a sample that waits for a CPU must not delay the next one by 200 times that
        // wait.
        let begin = clock::thread_cpu_ns();
        let files = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let pids = files.filter_map(|file| pid_of(file.file_name().to_str()?));
        let pids: Vec<u32> = pids.collect();
        for pid in pids {
            if self.known.contains(&pid) || self.has_mapped(pid) {
                self.known.insert(pid);
                self.look_at(pid);
            }
        }
        let took = Duration::from_nanos(clock::thread_cpu_ns() - begin);
        self.next = Some(Instant::now() + (took * REST).max(LEAST));
    }

    /// Returns whether the process uses the directory, whose last component is secret.
    fn has_mapped(&self, pid: u32) -> bool {
        let maps = process::maps(pid).unwrap_or_default();
        let name = self.directory.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| maps.contains(name))
    }

    fn look_at(&mut self, pid: u32) {
        for thread in process::threads(pid) {
            let Some(counts) = process::schedule_ns(pid, thread) else { continue };
            let [ran, ready] = counts;
            let now = Instant::now();
            // The first sample counts from the start of the thread.
            let first = Seen { counts: [0; 2], since: now, waits_ns: 0 };
            let seen = self.threads.entry((pid, thread)).or_insert(first);
            let sums = self.sums.entry(pid).or_default();
            sums[0] += ran.saturating_sub(seen.counts[0]);
            sums[1] += ready.saturating_sub(seen.counts[1]);
            let stat = process::Stat::of_thread(pid, thread);
            if seen.counts == counts && stat.is_some_and(|stat| stat.state == 'R') {
                seen.waits_ns = (now - seen.since).as_nanos() as u64;
            } else {
                *seen = Seen { counts, since: now, waits_ns: 0 };
            }
        }
    }

    /// Returns the time that the threads of a process ran, and the time that they waited for a CPU,
    /// in nanoseconds.
    fn of(&self, pid: u32) -> Option<[u64; 2]> {
        let [ran, ready] = *self.sums.get(&pid)?;
        let threads = self.threads.iter().filter(|((of, _), _)| *of == pid);
        Some([ran, ready + threads.map(|(_, seen)| seen.waits_ns).sum::<u64>()])
    }

    /// Stores the results in the processes.
    pub fn finish(self, processes: &mut [Process]) {
        for process in processes {
            let sums = u32::try_from(process.pid).ok().and_then(|pid| self.of(pid));
            let sums = sums.filter(|sums| sums[0] >= ENOUGH_NS);
            process.ready_s = sums.map(|sums| process.cpu_s * sums[1] as f64 / sums[0] as f64);
        }
    }
}

/// Returns the process ID with which the name of a file of a recording begins.
fn pid_of(name: &str) -> Option<u32> {
    let end = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
    name[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_processes() {
        assert_eq!(pid_of("4711"), Some(4711));
        assert_eq!(pid_of("4711-2"), Some(4711));
        assert_eq!(pid_of("object.so"), None);
    }

    #[test]
    fn threads_that_share_a_cpu_wait_for_it() {
        let mut ready = Ready::default();
        let pid = std::process::id();
        let begin = Instant::now();
        // More threads than CPUs, so that some are always runnable.
        let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from) + 1;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| while begin.elapsed() < Duration::from_millis(300) {});
            }
            std::thread::sleep(Duration::from_millis(200));
            ready.look_at(pid);
        });
        // Waits that have not ended count as well. Those of sleeping threads do not.
        let since = Instant::now();
        let seen = |waits_ns| Seen { counts: [0; 2], since, waits_ns };
        let [ran, waited] = ready.of(pid).expect("it ran");
        ready.threads.insert((pid, u32::MAX), seen(1000));
        assert_eq!(ready.of(pid), Some([ran, waited + 1000]));
        let mut processes = [Process { pid: pid.into(), cpu_s: 1.0, ..Process::default() }];
        ready.finish(&mut processes);
        assert!(processes[0].ready_s.is_some_and(|ready_s| ready_s > 0.1), "{processes:?}");
    }
}
