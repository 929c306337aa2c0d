//! Recording of running processes from outside: a process with its children, all processes of a
//! control group, or all of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_os::clock::thread_cpu_ns;
use convoy_os::process::{self, Stat, descendants};

use crate::bpf::Watching;
use crate::java::dumps::Dumps;
use crate::record::Process;
use crate::sampling::attached::{AttachError, Attached, KEPT_OPEN, RATE, SHARE};
use crate::sampling::cpu_time::Sampling;

/// Mount points of control groups: version 2 alone, version 2 with version 1, and systemd with
/// version 1.
const MOUNTS: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"];
/// Name of the file that lists the process IDs of a control group.
const MEMBERS: &str = "cgroup.procs";
/// Minimum interval between two reads of the list of processes, and the maximum share of the time
/// for these reads.
const LIST: Duration = Duration::from_millis(100);
const LIST_SHARE: f64 = 0.01;
/// Maximum number of recorded processes, and of groups below the group.
const MOST: usize = 512;

/// The same limits for observations without an end: the share of a CPU for up to
/// [`GENTLE_THREADS`] threads, the interval between two listings of the threads of a process, and
/// the interval and the share for those of the processes.
const GENTLE_SHARE: f64 = 0.005;
const GENTLE_THREADS: f64 = 1000.0;
const GENTLE_LIST: Duration = Duration::from_millis(250);
const GENTLE_PROCESSES: Duration = Duration::from_secs(1);
const GENTLE_PROCESSES_SHARE: f64 = 0.001;

/// Where the recorded processes are listed.
#[derive(Clone, Debug)]
enum Source {
    /// A process and its descendants.
    Family(u32),
    /// The directory of a control group.
    Group(PathBuf),
    Machine,
}

impl Source {
    fn processes(&self) -> Vec<u32> {
        match self {
            Self::Family(pid) => [vec![*pid], descendants(*pid)].concat(),
            Self::Group(directory) => members(directory),
            Self::Machine => process::all(),
        }
    }
}

/// The recorded processes.
pub struct Outside {
    source: Source,
    pub(crate) members: BTreeMap<u32, Attached>,
    /// Processes that cannot be observed, and whether this is because this user may not trace them.
    refused: BTreeMap<u32, bool>,
    ended: Vec<(Process, Vec<String>)>,
    /// Processes that started after [`MOST`] processes were recorded.
    left_out: BTreeSet<u32>,
    listed: Instant,
    /// Time until the next listing.
    pause: Duration,
    /// Processes that were added since the last sample.
    arrived: Vec<u32>,
    /// All processes in the order in which they were added.
    order: Vec<u32>,
    /// Whether the processes that existed at the start were added.
    has_begun: bool,
    pub(crate) dumps: Option<Dumps>,
    pub(crate) sampling: Sampling,
    pub(crate) watching: Option<Watching>,
    is_gentle: bool,
    /// Whether observations are forgotten when there are too many.
    is_forgetful: bool,
}

impl Outside {
    /// Attaches to a process and its children, including those that start later.
    ///
    /// # Errors
    /// [`AttachError`]: this process does not exist, or may not be traced by this user.
    pub fn process(pid: u32) -> Result<Self, AttachError> {
        let mut family = Self::none(Source::Family(pid));
        family.attach(pid)?;
        family.list();
        family.has_begun = true;
        Ok(family)
    }

    /// Attaches to all processes of a control group and the groups below it, including processes
    /// that start later. The path is absolute, or as `systemctl status` and `/proc/PID/cgroup`
    /// print it.
    ///
    /// # Errors
    /// [`AttachError`]: the group does not exist or is empty, or this user may trace none of its
    /// processes.
    pub fn group(path: &Path) -> Result<Self, AttachError> {
        let inner = path.strip_prefix("/").unwrap_or(path);
        let below = MOUNTS.iter().map(|mount| Path::new(mount).join(inner));
        let mut all = [path.to_owned()].into_iter().chain(below);
        let found = all.find(|path| path.join(MEMBERS).is_file());
        let found = found.ok_or_else(|| AttachError::NoGroup(path.to_owned()))?;
        let mut all = Self::none(Source::Group(found.clone()));
        let mut refused = None;
        for pid in members(&found) {
            if let Err(error) = all.attach(pid) {
                refused = Some(error);
            }
        }
        all.has_begun = true;
        match refused {
            _ if !all.members.is_empty() => Ok(all),
            Some(error) => Err(error),
            None => Err(AttachError::EmptyGroup(path.to_owned())),
        }
    }

    /// Attaches to all processes that this user may trace, including those that start later. Their
    /// CPU time is not sampled: the kernel would keep an event of each thread on each CPU.
    ///
    /// # Errors
    /// [`AttachError`]: there are none.
    pub fn machine() -> Result<Self, AttachError> {
        let mut machine = Self { sampling: Sampling::none(), ..Self::none(Source::Machine) };
        machine.list();
        match machine.refused.iter().find(|(_, may_not)| **may_not) {
            _ if !machine.members.is_empty() => Ok(machine),
            Some((pid, _)) => Err(AttachError::Refused(*pid)),
            None => Err(AttachError::None(0)),
        }
    }

    fn none(source: Source) -> Self {
        Self {
            source,
            members: BTreeMap::new(),
            refused: BTreeMap::new(),
            ended: Vec::new(),
            left_out: BTreeSet::new(),
            listed: Instant::now(),
            pause: LIST,
            arrived: Vec::new(),
            order: Vec::new(),
            has_begun: false,
            dumps: None,
            sampling: Sampling::of_running(),
            watching: None,
            is_gentle: false,
            is_forgetful: false,
        }
    }

    /// Samples less often, for observations without an end: sampling takes half a hundredth of a
    /// CPU for up to a thousand threads, and in proportion for more. With `is_kept`, all
    /// observations are part of the record at the end; otherwise a process is observed anew when
    /// its threads have waited at too many places.
    #[must_use]
    pub fn gently(mut self, is_kept: bool) -> Self {
        (self.is_gentle, self.is_forgetful) = (true, !is_kept);
        self.members.values_mut().for_each(|one| one.list_each(GENTLE_LIST));
        self.watching.iter_mut().for_each(Watching::gently);
        self
    }

    /// Returns the share of a CPU that sampling may take.
    fn share(&self) -> f64 {
        if !self.is_gentle {
            return SHARE;
        }
        let threads: usize = self.members.values().map(Attached::threads).sum();
        GENTLE_SHARE * (threads as f64 / GENTLE_THREADS).max(1.0)
    }

    /// Adds kernel events.
    #[must_use]
    pub fn with_kernel(mut self, watching: Option<Watching>) -> Self {
        self.watching = watching;
        self
    }

    /// Adds thread dumps of Java processes.
    #[must_use]
    pub fn with_dumps(mut self, dumps: Option<Dumps>) -> Self {
        for pid in self.members.keys() {
            if let Some(dumps) = &dumps {
                dumps.add(*pid);
            }
        }
        self.dumps = dumps;
        self
    }

    fn attach(&mut self, pid: u32) -> Result<(), AttachError> {
        let mut attached = Attached::new(pid).inspect_err(|error| {
            if !matches!(error, AttachError::None(_)) {
                self.refused.insert(pid, matches!(error, AttachError::Refused(_)));
            }
        })?;
        if self.is_gentle {
            attached.list_each(GENTLE_LIST);
        }
        // Samples include the processes that a sampled one starts.
        let parent = Stat::of(pid).and_then(|stat| u32::try_from(stat.parent).ok());
        let is_inherited = parent.is_some_and(|parent| self.members.contains_key(&parent));
        if !is_inherited || !self.has_begun {
            self.sampling.add(pid);
        }
        self.members.insert(pid, attached);
        self.order.push(pid);
        self.arrived.push(pid);
        self.dumps.iter().for_each(|dumps| dumps.add(pid));
        let each = KEPT_OPEN / self.members.len();
        self.members.values_mut().for_each(|one| one.keep_open(each));
        Ok(())
    }

    /// Returns the IDs and command lines of the processes that have not ended.
    pub fn members(&self) -> impl Iterator<Item = (u32, &[String])> {
        self.members.iter().map(|(pid, member)| (*pid, member.command()))
    }

    /// Samples all threads once, and returns the time until the next sample. `None`: all processes
    /// have exited, or the process whose children are recorded.
    pub fn look(&mut self) -> Option<Duration> {
        if self.listed.elapsed() > self.pause {
            self.list();
        }
        if let Some(watching) = &mut self.watching {
            for pid in self.arrived.drain(..) {
                watching.follow(pid);
            }
            watching.look();
        }
        if self.is_forgetful {
            self.members.values_mut().for_each(Attached::renew);
        }
        let before = thread_cpu_ns();
        self.sampling.look();
        let look = |(pid, one): (&u32, &mut Attached)| {
            let is_gone = one.look_past(|_| false).is_none();
            is_gone.then_some(*pid)
        };
        let gone: Vec<u32> = self.members.iter_mut().filter_map(look).collect();
        let gone = gone.iter().filter_map(|pid| self.members.remove(pid));
        self.ended.extend(gone.map(Attached::finish));
        let is_over = match &self.source {
            Source::Family(pid) => !self.members.contains_key(pid),
            Source::Group(_) | Source::Machine => self.members.is_empty(),
        };
        if is_over {
            return None;
        }
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
        Some(Duration::from_secs_f64(1.0 / RATE).max(took.mul_f64(1.0 / self.share())))
    }

    /// Attaches to new processes.
    fn list(&mut self) {
        let before = thread_cpu_ns();
        let processes = self.source.processes();
        self.listed = Instant::now();
        let (least, share) = if self.is_gentle {
            (GENTLE_PROCESSES, GENTLE_PROCESSES_SHARE)
        } else {
            (LIST, LIST_SHARE)
        };
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
        self.pause = took.mul_f64(1.0 / share).max(least);
        // Convoy itself may be a descendant.
        for pid in processes.into_iter().filter(|pid| *pid != std::process::id()) {
            let is_known = self.members.contains_key(&pid) || self.refused.contains_key(&pid);
            if is_known {
                continue;
            }
            if self.members.len() + self.ended.len() >= MOST {
                self.left_out.insert(pid);
            } else {
                // `attach` counts a refusal.
                let _gone_already = self.attach(pid);
            }
        }
    }

    /// Ends the recording. Returns the processes in the order in which they were added, and
    /// sentences about missing data.
    pub fn finish(mut self) -> (Vec<Process>, Vec<String>) {
        // Finding names takes long, and the kernel would count on.
        let end = self.watching.as_mut().map(Watching::stop);
        let missing = self.missing();
        let alive = std::mem::take(&mut self.members);
        self.ended.extend(alive.into_values().map(Attached::finish));
        let (mut processes, sentences): (Vec<_>, Vec<_>) = self.ended.into_iter().unzip();
        if let Some(dumps) = self.dumps {
            dumps.finish(&mut processes);
        }
        self.sampling.fill(&mut processes);
        let order =
            |process: &Process| self.order.iter().position(|pid| process.pid == u64::from(*pid));
        processes.sort_by_key(|process| order(process).unwrap_or(usize::MAX));
        // The sentences of the processes differ only in the sampling interval.
        let mut unseen: Vec<String> = sentences.into_iter().next_back().unwrap_or_default();
        unseen.extend(missing);
        if let (Some(watching), Some(end)) = (self.watching, end) {
            without_samples(&mut processes, &mut unseen);
            unseen.extend(watching.finish_at(&end, &mut processes));
        }
        (processes, unseen)
    }

    /// Returns sentences about processes and CPU time that are not observed.
    pub(crate) fn missing(&self) -> Vec<String> {
        let refused = self.refused.values().filter(|may_not| **may_not).count();
        let reasons = [
            (refused, "may not be traced by this user; run this as root"),
            (self.left_out.len(), "started when too many were recorded already"),
        ];
        let sentence = |(count, reason): (usize, &str)| match count {
            0 => None,
            1 => Some(format!("A further process {reason}.")),
            _ => Some(format!("{count} further processes {reason}.")),
        };
        let mut missing: Vec<String> = reasons.into_iter().filter_map(sentence).collect();
        missing.extend(self.sampling.refused.as_ref().map(|reason| {
            format!("Not all CPU time of threads was sampled: perf_event_open(2): {reason}.")
        }));
        missing
    }
}

/// Removes the sampled waits, for the waits that the kernel counted, which are complete.
pub(crate) fn without_samples(processes: &mut [Process], unseen: &mut Vec<String>) {
    // The first sentence is about samples.
    unseen.drain(..unseen.len().min(1));
    for process in processes {
        process.locks.clear();
        process.phases_wait_s.clear();
    }
}

/// Returns the IDs of the processes in a control group and below it.
fn members(group: &Path) -> Vec<u32> {
    let (mut found, mut groups, mut at) = (BTreeSet::new(), vec![group.to_owned()], 0);
    while let Some(directory) = groups.get(at).cloned() {
        at += 1;
        let text = std::fs::read_to_string(directory.join(MEMBERS)).unwrap_or_default();
        let numbers = text.lines().filter_map(|line| line.parse().ok());
        // 0 is a process outside of this PID namespace. Convoy itself is left out, since it would
        // wait for its own exit.
        found.extend(numbers.filter(|pid| ![0, std::process::id()].contains(pid)));
        let below = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.extend(below.map(|entry| entry.path()).take(MOST.saturating_sub(groups.len())));
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_processes_of_those_below_it() {
        let base = std::env::temp_dir().join(format!("convoy-group-{}", std::process::id()));
        std::fs::create_dir_all(base.join("a/b")).expect("directories");
        let own = std::process::id();
        std::fs::write(base.join(MEMBERS), format!("0\n{own}\n4711\n")).expect("written");
        std::fs::write(base.join("a/b").join(MEMBERS), "12\nno number\n").expect("written");
        assert_eq!(members(&base), [12, 4711]);
        let refused = Outside::group(&base.join("a")).err().expect("no group");
        assert!(matches!(refused, AttachError::NoGroup(_)), "{refused}");
        std::fs::write(base.join(MEMBERS), "").expect("written");
        std::fs::write(base.join("a/b").join(MEMBERS), "").expect("written");
        let refused = Outside::group(&base).err().expect("an empty one");
        assert!(matches!(refused, AttachError::EmptyGroup(_)), "{refused}");
        std::fs::remove_dir_all(base).expect("it goes away");
    }
}
