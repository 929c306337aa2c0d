//! Parses records.

use std::path::Path;

use crate::RecordError;
use crate::layout::{FNV, fnv};
use crate::names::runtimes::runtime;
use crate::record::origin::Origin;
use crate::record::{Lock, Process, Record, Site, VERSION};

impl Record {
    /// Parses a record from its JSON.
    ///
    /// # Errors
    /// [`RecordError::NoRecord`] with `path` if the text is not a record or is truncated, and
    /// [`RecordError::Version`] if a newer version wrote it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RecordError> {
        let record: Self = serde_json::from_str(text).map_err(|error| RecordError::NoRecord {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        match record.recorded {
            found if found > VERSION => Err(RecordError::Version { found }),
            _ => Ok(record.with_origins().with_reason().with_short_names()),
        }
    }

    /// Sets the reason why a record of an earlier version has only samples, which is in a sentence.
    fn with_reason(mut self) -> Self {
        const SENTENCE: &str = "Only samples of CPU time were recorded:";
        if self.program.only_samples.is_none() {
            let mut reasons = self.unseen.iter().filter_map(|line| line.strip_prefix(SENTENCE));
            self.program.only_samples = reasons.next().map(|reason| reason.trim().to_owned());
        }
        self
    }

    /// Sets the origins of locks in a record of an earlier version, which has them in lists only.
    fn with_origins(mut self) -> Self {
        for process in &mut self.processes {
            let Process { locks, futexes, runtime_locks, kernel_locks, .. } = process;
            let lists = [
                (locks, Origin::Libc),
                (futexes, Origin::Futex),
                (runtime_locks, Origin::Library),
                (kernel_locks, Origin::Kernel),
            ];
            for (list, origin) in lists {
                for lock in list.iter_mut().filter(|lock| lock.origin == Origin::Unknown) {
                    lock.origin = lock.earlier_origin(origin);
                }
            }
        }
        self
    }

    /// Truncates names to a readable length, since names from other tools may be long.
    #[must_use]
    pub fn with_short_names(mut self) -> Self {
        /// Maximum number of callers in a stack.
        const CALLERS: usize = 128;
        self.program.command.iter_mut().for_each(shorten);
        for process in &mut self.processes {
            process.command.iter_mut().for_each(shorten);
            let Process { locks, futexes, runtime_locks, kernel_locks, .. } = process;
            for lock in [locks, futexes, runtime_locks, kernel_locks].into_iter().flatten() {
                [&mut lock.name, &mut lock.mutex].into_iter().for_each(shorten);
                for site in &mut lock.sites {
                    [&mut site.place, &mut site.act].into_iter().for_each(shorten);
                    for stack in &mut site.stacks {
                        stack.callers.truncate(CALLERS);
                        stack.callers.iter_mut().for_each(shorten);
                    }
                }
            }
        }
        self
    }
}

impl Lock {
    /// Returns the origin of a lock without one, from its other fields and that of its list.
    fn earlier_origin(&self, list: Origin) -> Origin {
        /// Descriptions that earlier versions wrote.
        const JAVA: [(&str, Origin); 2] = [
            ("Java's monitors, `synchronized`", Origin::JavaMonitor),
            ("Java's locks, java.util.concurrent", Origin::JavaLock),
        ];
        if !self.kernel.is_empty() {
            return Origin::Kernel;
        }
        let is_of_vm = |site: &Site| site.place.ends_with(" (libjvm.so)");
        let java = JAVA.iter().find(|(description, _)| *description == self.runtime);
        match (java, runtime(&self.runtime)) {
            (Some((_, origin)), _) => *origin,
            (None, Some(inside)) => inside.origin,
            (None, None) if self.sites.iter().any(is_of_vm) => Origin::JavaVm,
            (None, None) => list,
        }
    }
}

/// Replaces the end of a very long name with a hash of the name, so that different names stay
/// different.
fn shorten(name: &mut String) {
    const MOST: usize = 1024;
    const PART: usize = 256;
    if name.len() <= MOST {
        return;
    }
    let hash = fnv(FNV, name.as_bytes());
    let head: String = name.chars().take(PART).collect();
    *name = format!("{head}…{hash:016x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a record of an earlier version with these four lists of locks.
    fn earlier(lists: [&[Lock]; 4]) -> Record {
        let [locks, futexes, runtime_locks, kernel_locks] = lists.map(<[Lock]>::to_vec);
        let process = Process { locks, futexes, runtime_locks, kernel_locks, ..Process::default() };
        let record = Record { processes: vec![process], ..Record::default() };
        let text = serde_json::to_string(&record).expect("it is text");
        let text = text.replace(r#""origin":"libc","#, "");
        assert!(!text.contains("origin"), "{text}");
        Record::parse(&text, Path::new("earlier.json")).expect("a record")
    }

    #[test]
    fn locks_of_earlier_records_have_the_origin_of_their_list() {
        let lock = |runtime: &str| Lock { runtime: runtime.to_owned(), ..Lock::default() };
        let site = Site { place: "Monitor::wait+0x6 (libjvm.so)".to_owned(), ..Site::default() };
        let vm = Lock { sites: vec![site], ..Lock::default() };
        let runtimes = [
            lock("Java's monitors, `synchronized`"),
            lock("fprintf"),
            lock("localtime_r"),
            lock("park_mutex_lock"),
        ];
        let record = earlier([&[lock(""), vm], &[lock("")], &runtimes, &[lock("")]]);
        let process = &record.processes[0];
        let origins = |locks: &[Lock]| locks.iter().map(|lock| lock.origin).collect::<Vec<_>>();
        assert_eq!(origins(&process.locks), [Origin::Libc, Origin::JavaVm]);
        assert_eq!(origins(&process.futexes), [Origin::Futex]);
        assert_eq!(
            origins(&process.runtime_locks),
            [Origin::JavaMonitor, Origin::LibcStream, Origin::LibcInternal, Origin::Library]
        );
        assert_eq!(origins(&process.kernel_locks), [Origin::Kernel]);
    }
}
