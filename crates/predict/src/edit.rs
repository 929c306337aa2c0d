//! Changes of the source of a program, whose effect follows from its demands.

use convoy_diagnose::{Cure, Diagnosis, Finding, Kind, Problem};
use serde::Serialize;

use crate::demands::{Demand, Range};
use crate::limit::Limit;

/// A change of the source of a program at the lock that limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "edit", rename_all = "kebab-case")]
pub enum Edit {
    /// A pool has this number of units.
    Units {
        /// Number of units.
        units: u32,
    },
    /// Half of the time under the lock, or with a unit, is spent after its release.
    Half,
    /// The sleep under the lock is outside of it.
    Sleep,
    /// Readers do not acquire the lock.
    Readers,
    /// One thread less.
    Thread,
}

impl Edit {
    /// Returns whether a replay has the edited program.
    pub(crate) fn is_replayed(self) -> bool {
        matches!(self, Self::Units { .. } | Self::Thread)
    }

    /// Returns the demand on the edited lock.
    pub(crate) fn applied(self, demand: &Demand) -> Demand {
        let all = demand.service.middle;
        let share = |kept: f64| if all > 0.0 { (kept / all).clamp(0.0, 1.0) } else { 1.0 };
        let kept = match self {
            Self::Units { units } => {
                return Demand { servers: [f64::from(units); 2], ..demand.clone() };
            }
            Self::Half => 0.5,
            Self::Sleep => share(all - demand.slept),
            Self::Readers => share(all - demand.read),
            Self::Thread => 1.0,
        };
        let Range { least, middle, most } = demand.service;
        Demand {
            service: Range::new([least, middle, most].map(|seconds| seconds * kept)),
            work: demand.work * if self == Self::Half { 0.5 } else { 1.0 },
            single: demand.single * kept,
            slept: match self {
                Self::Sleep => 0.0,
                Self::Half => demand.slept * 0.5,
                _ => demand.slept,
            },
            ..demand.clone()
        }
    }
}

/// Returns the edits that the first finding leaves open, given the limit at the recorded point.
pub(crate) fn edits(diagnosis: &Diagnosis, limit: &Limit, threads: u32) -> Vec<Edit> {
    let Some(first) = diagnosis.first() else { return Vec::new() };
    let fewer = (threads > 1).then_some(Edit::Thread);
    match (limit, root(first), first.cure()) {
        (Limit::Pool { units, .. }, ..) if *units < u32::MAX / 2 => {
            let units = [units + 1, 2 * units].map(|units| Edit::Units { units });
            units
                .into_iter()
                .take(if units[0] == units[1] { 1 } else { 2 })
                .chain([Edit::Half])
                .collect()
        }
        (Limit::Lock { .. }, Problem::OwnerAsleep { parks: false, .. }, _) => {
            vec![Edit::Sleep, Edit::Half]
        }
        (_, Problem::ReaderCounter { .. }, _) => vec![Edit::Readers],
        (Limit::Lock { .. }, _, Cure::PreferWriters) => vec![Edit::Readers, Edit::Half],
        (Limit::Lock { .. }, _, cure) if cure.is_lock() => {
            [Edit::Half].into_iter().chain(fewer).collect()
        }
        (Limit::Lock { .. } | Limit::Kernel { .. }, ..) => vec![Edit::Half],
        _ => Vec::new(),
    }
}

/// Returns the CPU time that readers lose because they write one counter, seconds.
pub(crate) fn counted_s(diagnosis: &Diagnosis) -> f64 {
    let first = diagnosis.first().filter(|first| first.kind() == Kind::ReaderCounter);
    first.map_or(0.0, |first| first.cost_s)
}

/// Changes that the first finding of a record leaves open. Without a finding, a replay decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) lock: bool,
    /// Several locks or more units in place of one lock.
    pub(crate) split: bool,
}

impl Open {
    pub(crate) fn new(diagnosis: &Diagnosis) -> Self {
        let Some(cure) = diagnosis.first().map(Finding::cure) else {
            return Self { lock: true, split: true };
        };
        let lock = cure.is_lock();
        let splits = [Cure::Shorten, Cure::MoreUnits, Cure::ReleaseBeforeCall];
        Self { lock, split: lock || splits.contains(&cure) }
    }
}

/// Returns the problem at the end of the locks that owners wait for.
fn root(finding: &Finding) -> &Problem {
    let mut problem = &finding.problem;
    while let Problem::OwnerWaits { end: Some(end), .. } = problem {
        problem = end;
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock of 0.8 s in each second: 0.2 s of work, 0.5 s of sleep, and 0.1 s for readers.
    fn demand() -> Demand {
        Demand {
            service: Range::new([0.4, 0.8, 1.0]),
            work: 0.2,
            slept: 0.5,
            read: 0.1,
            servers: [1.0; 2],
            ..Demand::default()
        }
    }

    #[test]
    fn an_edit_removes_its_part_of_the_service() {
        let known = [
            (Edit::Half, 0.4, 0.1, 0.25),
            (Edit::Sleep, 0.3, 0.2, 0.0),
            (Edit::Readers, 0.7, 0.2, 0.5),
            (Edit::Thread, 0.8, 0.2, 0.5),
        ];
        for (edit, middle, work, slept) in known {
            let edited = edit.applied(&demand());
            let parts = [edited.service.middle, edited.work, edited.slept];
            let is_known =
                parts.iter().zip([middle, work, slept]).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(is_known, "{edit:?}: {edited:?}");
        }
        let wider = Edit::Units { units: 3 }.applied(&demand());
        assert_eq!((wider.service, wider.servers), (demand().service, [3.0; 2]));
    }
}
