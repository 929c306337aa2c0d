//! Recording of running processes from outside: a process with its children, or all processes of a
//! control group.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_os::process::{Stat, descendants};

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

/// Where the recorded processes are listed.
#[derive(Clone, Debug)]
enum Source {
    /// A process and its descendants.
    Family(u32),
    /// The directory of a control group.
    Group(PathBuf),
}

impl Source {
    fn processes(&self) -> Vec<u32> {
        match self {
            Self::Family(pid) => [vec![*pid], descendants(*pid)].concat(),
            Self::Group(directory) => members(directory),
        }
    }
}

/// The recorded processes.
pub struct Outside {
    source: Source,
    members: BTreeMap<u32, Attached>,
    /// Processes that this user may not trace.
    refused: BTreeSet<u32>,
    ended: Vec<(Process, Vec<String>)>,
    /// Processes that started after [`MOST`] processes were recorded.
    left_out: BTreeSet<u32>,
    listed: Instant,
    /// Time until the next listing.
    pause: Duration,
    /// Processes that were added since the last call of [`Outside::arrived`].
    arrived: Vec<u32>,
    /// All processes in the order in which they were added.
    order: Vec<u32>,
    /// Whether the processes that existed at the start were added.
    has_begun: bool,
    dumps: Option<Dumps>,
    sampling: Sampling,
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

    fn none(source: Source) -> Self {
        Self {
            source,
            members: BTreeMap::new(),
            refused: BTreeSet::new(),
            ended: Vec::new(),
            left_out: BTreeSet::new(),
            listed: Instant::now(),
            pause: LIST,
            arrived: Vec::new(),
            order: Vec::new(),
            has_begun: false,
            dumps: None,
            sampling: Sampling::of_running(),
        }
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
        let attached = Attached::new(pid).inspect_err(|error| {
            if !matches!(error, AttachError::None(_)) {
                self.refused.insert(pid);
            }
        })?;
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

    /// Returns the processes that were added since the last call.
    pub fn arrived(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.arrived)
    }

    /// Returns the IDs and command lines of the processes that have not ended.
    pub fn members(&self) -> impl Iterator<Item = (u32, &[String])> {
        self.members.iter().map(|(pid, member)| (*pid, member.command()))
    }

    /// Samples all threads once, and returns the time until the next sample. `None`: all processes
    /// have exited, or the one whose children are recorded has.
    pub fn look(&mut self) -> Option<Duration> {
        let begin = Instant::now();
        if self.listed.elapsed() > self.pause {
            self.list();
        }
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
            Source::Group(_) => self.members.is_empty(),
        };
        if is_over {
            return None;
        }
        Some(Duration::from_secs_f64(1.0 / RATE).max(begin.elapsed().mul_f64(1.0 / SHARE)))
    }

    /// Attaches to new processes.
    fn list(&mut self) {
        let begin = Instant::now();
        let processes = self.source.processes();
        self.listed = Instant::now();
        self.pause = self.listed.duration_since(begin).mul_f64(1.0 / LIST_SHARE).max(LIST);
        // Convoy itself may be a descendant.
        for pid in processes.into_iter().filter(|pid| *pid != std::process::id()) {
            let is_known = self.members.contains_key(&pid) || self.refused.contains(&pid);
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
        for (count, why) in [
            (self.refused.len(), "may not be traced by this user; run this as root"),
            (self.left_out.len(), "started when too many were recorded already"),
        ] {
            match count {
                0 => {}
                1 => unseen.push(format!("A further process {why}.")),
                _ => unseen.push(format!("{count} further processes {why}.")),
            }
        }
        unseen.extend(self.sampling.refused.map(|reason| {
            format!("Not all CPU time of threads was sampled: perf_event_open(2): {reason}.")
        }));
        (processes, unseen)
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
