//! Throughput by class of threads.
//!
//! The sum over all threads measures a program only while each class of threads contributes the
//! same share: a thread that starves acquires a lock many times as often once the lock is fair, and
//! the work of the other threads may be less. Where the shares change, the class that held locks
//! for longest leads: the rows have its throughput, and the other classes are named.

use convoy_runs::replay::Behaviour;
use convoy_runs::virtual_locks::VirtualLocksPoint;
use serde::Serialize;

use crate::doubt::Doubt;
use crate::row::Row;

/// Largest change of the share of a class at which the sum still measures the same work.
const SHIFT: f64 = 0.05;

/// Throughput of one class of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Where its threads acquire locks most often.
    pub place: String,
    /// Acquisitions per second in the simulations of the row.
    pub acquisitions_per_s: f64,
    /// Acquisitions per second in the record.
    pub recorded_per_s: f64,
}

/// The classes whose acquisitions are counted.
pub(crate) struct Mix {
    /// Number of each, its place, and its acquisitions per second in the record; the one that
    /// leads first.
    classes: Vec<(usize, String, f64)>,
}

/// Acquisitions per second of a class.
fn rate_of(point: &VirtualLocksPoint, class: usize) -> f64 {
    let own = point.tally.classes.get(class).map_or(0, |one| one.acquisitions.iter().sum::<u64>());
    own as f64 / point.result.window_s
}

fn mean(points: &[VirtualLocksPoint], class: usize) -> f64 {
    points.iter().map(|point| rate_of(point, class)).sum::<f64>() / points.len().max(1) as f64
}

impl Mix {
    /// Returns the classes of a behaviour whose replay is `base`, if their shares in one of the
    /// `rows` differ from those in the base.
    pub(crate) fn new(
        behaviour: &Behaviour,
        base: &[VirtualLocksPoint],
        rows: &[&[VirtualLocksPoint]],
    ) -> Option<Self> {
        let all = &behaviour.script.as_ref()?.classes;
        let mut counted: Vec<usize> = (0..all.len()).filter(|&at| !all[at].is_rare).collect();
        let shares = |points: &[VirtualLocksPoint]| -> Vec<f64> {
            let rates: Vec<f64> = counted.iter().map(|&class| mean(points, class)).collect();
            let sum = rates.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            rates.iter().map(|rate| rate / sum).collect()
        };
        let before = shares(base);
        let shifts = |points: &&[VirtualLocksPoint]| {
            shares(points).iter().zip(&before).any(|(one, other)| (one - other).abs() > SHIFT)
        };
        if !rows.iter().any(shifts) {
            return None;
        }
        let held = |class: usize| all[class].held_ns() * mean(base, class);
        counted.sort_by(|a, b| held(*b).total_cmp(&held(*a)));
        let is_there = base.iter().all(|point| rate_of(point, counted[0]) > 0.0);
        let name = |class: usize| (class, all[class].place.clone(), all[class].calls_per_s);
        is_there.then(|| Self { classes: counted.into_iter().map(name).collect() })
    }

    /// Acquisitions per second of the class that leads.
    pub(crate) fn leads(&self, point: &VirtualLocksPoint) -> f64 {
        rate_of(point, self.classes[0].0)
    }

    /// Share of that class in the acquisitions.
    pub(crate) fn share(&self, points: &[VirtualLocksPoint]) -> f64 {
        let rates: Vec<f64> = self.classes.iter().map(|class| mean(points, class.0)).collect();
        rates[0] / rates.iter().sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// The classes of a row.
    pub(crate) fn parts(&self, found: &[VirtualLocksPoint]) -> Vec<Part> {
        let part = |(class, place, recorded_per_s): &(usize, String, f64)| Part {
            place: place.clone(),
            acquisitions_per_s: mean(found, *class),
            recorded_per_s: *recorded_per_s,
        };
        self.classes.iter().map(part).collect()
    }

    /// Says which threads the rows count, and what the others do.
    pub(crate) fn told(&self, rows: &[Row]) -> Doubt {
        let others = (1..self.classes.len()).map(|at| {
            let rates = rows.iter().filter_map(|row| row.parts.get(at));
            let rates = rates.map(|part| part.acquisitions_per_s);
            let (least, most) = rates
                .fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
            let (_, place, recorded) = &self.classes[at];
            let place = in_place(place);
            format!("{place} {least:.0} to {most:.0} per second ({recorded:.0} in the record)")
        });
        Doubt::note(format!(
            "Which threads acquire locks how often changes from row to row, so the rows count the \
             threads {} alone, which held locks for longest. The others: {}.",
            in_place(&self.classes[0].1),
            others.collect::<Vec<_>>().join("; ")
        ))
    }
}

/// `in simulate_tick (hog.cc:7)`.
pub(crate) fn in_place(place: &str) -> String {
    if place.is_empty() { "without a name".to_owned() } else { format!("in {place}") }
}
