//! Recording of running processes from outside: one process, or all of a control group.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::java::dumps::Dumps;
use crate::record::Process;
use crate::sampling::attached::{AttachError, Attached, KEPT_OPEN, RATE, SHARE};

/// Mount points of control groups: version 2 alone, version 2 with version 1, and systemd with
/// version 1.
const MOUNTS: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"];
/// Name of the file that lists the process IDs of a control group.
const MEMBERS: &str = "cgroup.procs";
/// Interval between two reads of the list of processes.
const LIST: Duration = Duration::from_millis(100);
/// Maximum number of recorded processes, and of groups below the group.
const MOST: usize = 512;

/// The recorded processes.
pub struct Outside {
    /// Directory of the control group; `None` for a single process.
    group: Option<PathBuf>,
    members: BTreeMap<u32, Attached>,
    /// Processes that this user may not trace.
    refused: BTreeSet<u32>,
    ended: Vec<(Process, Vec<String>)>,
    /// Processes that started after [`MOST`] processes were recorded.
    left_out: BTreeSet<u32>,
    listed: Instant,
    /// Processes that were added since the last call of [`Outside::arrived`].
    arrived: Vec<u32>,
    dumps: Option<Dumps>,
}

impl Outside {
    /// Attaches to one process.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn process(pid: u32) -> Result<Self, AttachError> {
        let mut all = Self::none(None);
        all.attach(pid)?;
        Ok(all)
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
        let mut all = Self::none(Some(found.clone()));
        let mut refused = None;
        for pid in members(&found) {
            if let Err(error) = all.attach(pid) {
                refused = Some(error);
            }
        }
        match refused {
            _ if !all.members.is_empty() => Ok(all),
            Some(error) => Err(error),
            None => Err(AttachError::EmptyGroup(path.to_owned())),
        }
    }

    fn none(group: Option<PathBuf>) -> Self {
        Self {
            group,
            members: BTreeMap::new(),
            refused: BTreeSet::new(),
            ended: Vec::new(),
            left_out: BTreeSet::new(),
            listed: Instant::now(),
            arrived: Vec::new(),
            dumps: None,
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
        self.members.insert(pid, attached);
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

    /// Samples all threads once, and returns the time until the next sample. `None`: all processes
    /// have exited.
    pub fn look(&mut self) -> Option<Duration> {
        let begin = Instant::now();
        if self.listed.elapsed() > LIST {
            self.list();
        }
        let look = |(pid, one): (&u32, &mut Attached)| {
            let is_gone = one.look_past(|_| false).is_none();
            is_gone.then_some(*pid)
        };
        let gone: Vec<u32> = self.members.iter_mut().filter_map(look).collect();
        let gone = gone.iter().filter_map(|pid| self.members.remove(pid));
        self.ended.extend(gone.map(Attached::finish));
        if self.members.is_empty() {
            return None;
        }
        Some(Duration::from_secs_f64(1.0 / RATE).max(begin.elapsed().mul_f64(1.0 / SHARE)))
    }

    /// Attaches to new processes of the group.
    fn list(&mut self) {
        self.listed = Instant::now();
        let there = self.group.as_deref().map(members).unwrap_or_default();
        for pid in there {
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

    /// Ends the recording. Returns the processes in the order in which they exited, and sentences
    /// about missing data.
    pub fn finish(mut self) -> (Vec<Process>, Vec<String>) {
        let alive = std::mem::take(&mut self.members);
        self.ended.extend(alive.into_values().map(Attached::finish));
        let (mut processes, sentences): (Vec<_>, Vec<_>) = self.ended.into_iter().unzip();
        if let Some(dumps) = self.dumps {
            dumps.finish(&mut processes);
        }
        // The sentences of the processes differ only in the sampling interval.
        let mut unseen: Vec<String> = sentences.into_iter().next_back().unwrap_or_default();
        for (count, why) in [
            (self.refused.len(), "may not be traced by this user; run this as root"),
            (self.left_out.len(), "started when too many were recorded already"),
        ] {
            match count {
                0 => {}
                1 => unseen.push(format!("A process of the control group {why}.")),
                _ => unseen.push(format!("{count} processes of the control group {why}.")),
            }
        }
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
