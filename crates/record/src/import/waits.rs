//! Collects the waits that a reader finds in the output of another tool, and makes a record from
//! them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::layout;
use crate::record::causes::Cause;
use crate::record::origin::Origin;
use crate::record::{Kind, Lock, Process, Program, Record, Site, Times, VERSION, total};

/// An invalid line: its number, counted from 1, and the reason.
pub(super) type Refused = (usize, String);

/// The waits that a reader has found.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) locks: BTreeMap<(String, Kind), Lock>,
    /// Number of lines that were skipped, and the first of these lines.
    pub(super) passed_over: usize,
    pub(super) first_passed: usize,
    /// Further sentences for the account.
    pub(super) notes: Vec<String>,
    /// Time from the first to the last event, in seconds. 0 if not known.
    pub(super) seconds: f64,
    /// Number of threads that waited. 0 if not known.
    pub(super) threads: u64,
    /// Places that held locks.
    pub(super) causes: Vec<Cause>,
}

impl Waits {
    /// Returns the site at which a lock is acquired, and creates it on first use.
    pub(super) fn site(
        &mut self,
        lock: &str,
        (kind, origin): (Kind, Origin),
        place: &str,
        act: &str,
    ) -> &mut Site {
        let key = (lock.to_owned(), kind);
        let lock = self.locks.entry(key).or_insert_with(|| Lock {
            name: lock.to_owned(),
            kind,
            origin,
            instances: 1,
            ..Lock::default()
        });
        let same = |site: &Site| site.place == place && site.act == act;
        let at = lock.sites.iter().position(same).unwrap_or_else(|| {
            let site = Site { place: place.to_owned(), act: act.to_owned(), ..Site::default() };
            lock.sites.push(site);
            lock.sites.len() - 1
        });
        &mut lock.sites[at]
    }

    pub(super) fn pass_over(&mut self, line: usize) {
        if self.passed_over == 0 {
            self.first_passed = line;
        }
        self.passed_over += 1;
    }

    pub(super) fn record(self, source: &str, path: &Path) -> Record {
        let mut unseen = vec![format!(
            "Read from {source}: it has waits, not how long owners worked and what threads did \
             between; nothing can be replayed."
        )];
        unseen.extend(self.notes);
        if self.passed_over > 0 {
            unseen.push(format!(
                "{} lines were passed over, the first is line {}.",
                self.passed_over, self.first_passed
            ));
        }
        let mut locks: Vec<Lock> = self.locks.into_values().collect();
        for lock in &mut locks {
            lock.sites.sort_by(|a, b| b.wait.total_s.total_cmp(&a.wait.total_s));
        }
        locks.sort_by(|a, b| b.wait_s().total_cmp(&a.wait_s()));
        let program = Program {
            command: vec![path.display().to_string()],
            source: source.to_owned(),
            wall_s: self.seconds,
            ..Program::default()
        };
        let (seconds, threads, causes) = (self.seconds, self.threads, self.causes);
        let process = Process { seconds, threads, locks, causes, ..Process::default() };
        Record { recorded: VERSION, program, processes: vec![process], unseen }
    }
}

impl Site {
    /// Adds waits of which only the number, the sum and the maximum are known.
    pub(super) fn waited(&mut self, count: u64, total_s: f64, max_s: f64) {
        self.count = total([self.count, count]);
        self.contended = total([self.contended, count]);
        self.wait.add(&Times::summed(count, total_s, max_s));
    }
}

impl Times {
    /// Returns a distribution of a single time.
    pub(super) fn one(seconds: f64) -> Self {
        let least = layout::least(layout::bucket((seconds * 1e9) as u64)) as f64;
        Self { count: 1, total_s: seconds, max_s: seconds, buckets: vec![(least, 1)] }
    }

    /// Returns times of which only the number, the sum and the maximum are known. They do not have
    /// a distribution.
    pub(super) fn summed(count: u64, total_s: f64, max_s: f64) -> Self {
        Self { count, total_s, max_s, buckets: Vec::new() }
    }
}

/// Returns the kind and the operation for a word of the kernel's tools.
pub(super) fn kind(word: &str) -> (Kind, &'static str) {
    let (name, side) = word.split_once(':').unwrap_or((word, ""));
    let kind = match name {
        "spinlock" => Kind::Spinlock,
        "rwlock" | "rwsem" | "percpu-rwsem" | "pcpu-sem" => Kind::Rwlock,
        "semaphore" => Kind::Semaphore,
        _ => Kind::Mutex,
    };
    let act = match side {
        "R" => "read",
        "W" => "write",
        _ => "lock",
    };
    (kind, act)
}

/// Returns the number in a column, or an error.
pub(super) fn number(word: &str, what: &str) -> Result<f64, String> {
    match word.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("`{}` is not a valid {what}", word.trim())),
    }
}
