//! Activity of owners while threads waited for their locks.

use convoy_record::{Cause, Doing, total};

/// Activity of the owner during a part of the wait time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerState {
    /// It ran.
    Runs,
    /// It could run but had no CPU.
    Preempted,
    /// It slept.
    Asleep,
    /// It waited for another lock.
    Waits,
    /// The lock was free, and its waiter had not run yet.
    Free,
    /// Unknown.
    Unknown,
}

impl OwnerState {
    /// Every activity, in the order of the parts of [`owner_parts`].
    pub const ALL: [Self; 6] =
        [Self::Runs, Self::Preempted, Self::Asleep, Self::Waits, Self::Free, Self::Unknown];

    /// Returns the name of the activity.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "owner runs",
            Self::Preempted => "owner waits for a CPU",
            Self::Asleep => "owner asleep",
            Self::Waits => "owner waits for another lock",
            Self::Free => "lock free, waiter not yet running",
            Self::Unknown => "owner not known",
        }
    }
}

/// Returns the parts of the wait time of a cause by the activity of its owners, from their CPU time
/// and samples.
pub fn owner_parts(cause: &Cause) -> [f64; 6] {
    let samples = cause.samples();
    let part = |doing: &[Doing]| {
        let seen = cause.owners.iter().filter(|seen| doing.contains(&seen.doing));
        total(seen.map(|seen| seen.count)) as f64 / samples.max(1) as f64
    };
    let asleep = part(&[Doing::Sleeps, Doing::Faults, Doing::Idles]);
    let (waits, free) = (part(&[Doing::Waits]), part(&[Doing::Free]));
    let woken = part(&[Doing::Woken]);
    let could_run = part(&[Doing::Runs]) + woken;
    let is_timed = cause.measured_s > 0.0;
    let ran = if is_timed { (cause.ran_s / cause.measured_s).min(1.0) } else { 0.0 };
    if samples == 0 {
        return [ran, 0.0, 0.0, 0.0, 0.0, 1.0 - ran];
    }
    // CPU time is exact, and samples divide the rest: a runnable owner may have had no CPU.
    let ran = if is_timed { ran } else { could_run };
    // An owner that slept in the critical section and now waits for a CPU waits because it slept.
    let ready = (could_run - ran).max(0.0);
    let slept = if asleep > 0.0 { ready * woken / could_run.max(f64::MIN_POSITIVE) } else { 0.0 };
    let others = [ready - slept, asleep + slept, waits, free];
    let sum: f64 = others.iter().sum();
    let rest = if sum > 0.0 { (1.0 - ran) / sum } else { 0.0 };
    let [preempted, asleep, waits, free] = others.map(|other| other * rest);
    let unknown = if sum > 0.0 { 0.0 } else { 1.0 - ran };
    [ran, preempted, asleep, waits, free, unknown]
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::Seen;

    #[test]
    fn parts_of_the_waiting_add_up() {
        let seen = |doing, count| Seen { doing, count, ..Seen::default() };
        let owners_seen = vec![seen(Doing::Sleeps, 6), seen(Doing::Runs, 3), seen(Doing::Free, 1)];
        let timed = Cause { measured_s: 2.0, ran_s: 0.2, ..Cause::default() };
        let cause = Cause { owners: owners_seen, ..timed.clone() };
        let parts = owner_parts(&cause);
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{parts:?}");
        assert!((parts[0] - 0.1).abs() < 1e-9 && parts[2] > 0.5, "{parts:?}");
        assert!(
            (owner_parts(&timed)[5] - 0.9).abs() < 1e-9,
            "without samples the rest is not known"
        );
        assert!((owner_parts(&Cause::default())[5] - 1.0).abs() < 1e-9);
    }
}
