//! Throughput by class of threads.
//!
//! The sum over all threads measures a program only while each class of threads contributes the
//! same share: a thread that starves acquires a lock many times as often once the lock is fair, and
//! the other threads may do less work. If the shares change, the class that held locks for longest
//! leads: the rows have its throughput, and the other classes are listed.

use convoy_runs::replay::Behaviour;
use convoy_runs::virtual_locks::VirtualLocksPoint;

use crate::doubt::Doubt;
use crate::row::{Part, Row};

/// Largest change of a class's share at which the sum still measures the same work.
const SHIFT: f64 = 0.1;

/// Classes of threads that acquire locks at one place.
struct Group {
    classes: Vec<usize>,
    place: String,
    /// Acquisitions per second in the record.
    recorded_per_s: f64,
}

impl Group {
    fn rate_of(&self, point: &VirtualLocksPoint) -> f64 {
        let own = self.classes.iter().filter_map(|class| point.tally.classes.get(*class));
        own.flat_map(|one| &one.acquisitions).sum::<u64>() as f64 / point.result.window_s
    }

    fn mean(&self, points: &[VirtualLocksPoint]) -> f64 {
        points.iter().map(|point| self.rate_of(point)).sum::<f64>() / points.len().max(1) as f64
    }
}

/// The groups that count acquisitions, the leading group first.
pub(crate) struct Mix {
    groups: Vec<Group>,
}

/// Returns the shares of the groups in the acquisitions of simulations.
fn shares(groups: &[Group], points: &[VirtualLocksPoint]) -> Vec<f64> {
    let rates: Vec<f64> = groups.iter().map(|group| group.mean(points)).collect();
    let sum = rates.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    rates.iter().map(|rate| rate / sum).collect()
}

impl Mix {
    /// Returns the groups of a behaviour that is replayed in `base`; `None` unless their shares in
    /// one of the `rows` differ from their shares in `base`.
    pub(crate) fn new<'a>(
        behaviour: &Behaviour,
        base: &[VirtualLocksPoint],
        mut rows: impl Iterator<Item = &'a [VirtualLocksPoint]>,
    ) -> Option<Self> {
        let all = &behaviour.script.as_ref()?.classes;
        let mut groups: Vec<Group> = Vec::new();
        for (at, class) in all.iter().enumerate().filter(|(_, class)| !class.is_rare) {
            match groups.iter_mut().find(|group| group.place == class.place) {
                Some(group) => {
                    group.classes.push(at);
                    group.recorded_per_s += class.acquired_per_s;
                }
                None => groups.push(Group {
                    classes: vec![at],
                    place: class.place.clone(),
                    recorded_per_s: class.acquired_per_s,
                }),
            }
        }
        let before = shares(&groups, base);
        let shifts = |points| {
            let now = shares(&groups, points);
            now.iter().zip(&before).any(|(one, other)| (one - other).abs() > SHIFT)
        };
        if !rows.any(shifts) {
            return None;
        }
        let held = |group: &Group| -> f64 {
            let held_ns = group.classes.iter().map(|&at| all[at].held_ns()).sum::<f64>();
            held_ns / group.classes.len() as f64 * group.mean(base)
        };
        groups.sort_by(|a, b| held(b).total_cmp(&held(a)));
        base.iter().all(|point| groups[0].rate_of(point) > 0.0).then_some(Self { groups })
    }

    /// Returns the acquisitions per second of the leading group.
    pub(crate) fn leads(&self, point: &VirtualLocksPoint) -> f64 {
        self.groups[0].rate_of(point)
    }

    /// Returns the share of the leading group in the acquisitions.
    pub(crate) fn share(&self, points: &[VirtualLocksPoint]) -> f64 {
        shares(&self.groups, points)[0]
    }

    /// Returns the throughput of each group in a row.
    pub(crate) fn parts(&self, found: &[VirtualLocksPoint]) -> Vec<Part> {
        let part = |group: &Group| Part {
            place: group.place.clone(),
            acquisitions_per_s: group.mean(found),
            recorded_per_s: group.recorded_per_s,
        };
        self.groups.iter().map(part).collect()
    }

    /// Returns a doubt that names the classes of threads, with their throughput in the rows.
    pub(crate) fn doubt(&self, rows: &[Row]) -> Doubt {
        let classes = self.groups.iter().enumerate().map(|(number, group)| {
            let simulated = rows.iter().filter_map(|row| row.simulated.as_ref());
            let parts = simulated.filter_map(|figures| figures.parts.get(number));
            let rates = parts.map(|part| part.acquisitions_per_s);
            let (least, most) = rates
                .fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
            (group.place.clone(), [group.recorded_per_s, least, most])
        });
        Doubt::Mix { classes: classes.collect() }
    }
}
