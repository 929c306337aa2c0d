//! Findings that are not about waits for one lock.

use convoy_record::Origin;

use crate::finding::{Confidence, Finding, Source};
use crate::problem::{Problem, Subject};

/// A finding on a place, a process, or a lock for which no thread waited.
pub(super) struct Plain<'a> {
    pub(super) pid: u64,
    pub(super) lock: &'a str,
    pub(super) share: Option<f64>,
    pub(super) cost_s: f64,
    pub(super) source: Source,
    pub(super) observations: u64,
}

impl Plain<'_> {
    pub(super) fn finding(self, problem: Problem) -> Finding {
        let Self { pid, lock, share, cost_s, source, observations } = self;
        Finding {
            pid,
            lock: lock.to_owned(),
            origin: None,
            subject: None,
            waiters: None,
            owners: None,
            share,
            weight: None,
            cost_s,
            problem,
            second: None,
            gaps: Vec::new(),
            confidence: Confidence { source, observations, interval: None },
        }
    }
}

impl Finding {
    /// Returns the finding with the lock that it is about.
    pub(super) fn about(mut self, subject: Subject, origin: Origin) -> Self {
        self.subject = Some(subject);
        self.origin = Some(origin);
        self
    }
}
