//! Upper bounds of the throughput: it cannot exceed the capacity of the CPUs, of the threads, or of
//! a lock that is always held.

use convoy_runs::replay::{Anchor, Replay};

/// Ratio by which a simulation may exceed a bound: the random draws of a short window differ from
/// their mean.
const NOISE: f64 = 1.1;

/// An upper bound of the throughput, acquisitions per second, and the resource that sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) per_s: f64,
    pub(crate) by: &'static str,
}

/// Returns the lowest bound of a replay: its CPUs, its threads, or a lock that only one thread can
/// hold at a time. `None` for replays of steps in order, where the locks decide how often each
/// class of threads calls.
pub(crate) fn least(replay: &Replay) -> Option<Bound> {
    let behaviour = &replay.behaviour;
    if behaviour.script.is_some() {
        return None;
    }
    let Anchor { work, sleep_ns, .. } = replay.anchor;
    let work_ns = (behaviour.work_ns() * work.min(1.0)).max(1.0);
    let cpus = replay.machine.topology.cpus as f64;
    let threads = f64::from(replay.threads);
    let all: u64 = behaviour.sections.iter().map(|one| one.count).sum();
    let bounds = [
        Bound { per_s: cpus * 1e9 / work_ns, by: "the CPUs allow" },
        Bound { per_s: threads * 1e9 / (work_ns + sleep_ns), by: "the threads allow" },
    ];
    let locks = (0..behaviour.locks.len()).filter(|name| !behaviour.private.contains(name));
    let locks = locks.filter_map(|name| {
        let (held_ns, is_shared) = behaviour.held_ns(name);
        let own = behaviour.sections.iter().filter(|one| one.lock == name);
        let share = own.map(|one| one.count).sum::<u64>() as f64 / all.max(1) as f64;
        let per_s = f64::from(behaviour.locks[name].max(1)) * 1e9 / (held_ns * share);
        (held_ns * share > 0.0 && !is_shared).then_some(Bound { per_s, by: "a lock allows" })
    });
    bounds.into_iter().chain(locks).min_by(|a, b| a.per_s.total_cmp(&b.per_s))
}

/// Returns whether a throughput exceeds a bound.
pub(crate) fn is_exceeded(bound: Bound, per_s: f64) -> bool {
    per_s > NOISE * bound.per_s
}
