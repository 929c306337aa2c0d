//! Whether a replay is the program that was recorded.

use crate::Point;
use convoy_runs::replay::Gates;

/// A sentence, if waits often ended only because nothing else could go on.
pub(crate) fn slips(gates: &[Gates]) -> Option<String> {
    /// Of all waits.
    const OFTEN: f64 = 0.01;
    let sum = |of: fn(&Gates) -> u64| gates.iter().map(of).sum::<u64>() as f64;
    let (slips, waits) = (sum(|one| one.slips), sum(|one| one.waits).max(1.0));
    (slips > OFTEN * waits).then(|| {
        format!(
            "In {:.0} % of its waits for other threads all threads of the replay waited, and one \
             went on.",
            100.0 * slips / waits
        )
    })
}

/// Whether the replay is another program than the record, whose threads take a lock every
/// `turn_us`.
pub(crate) fn doubt(measured: &Point, replayed: &Point, turn_us: f64) -> Option<String> {
    /// How far the throughput may be off, which is fitted.
    const RATE: f64 = 2.0;
    /// How far the mean wait may be off, which is not.
    const WAIT: f64 = 3.0;
    /// Of a turn: a smaller difference of waits does not matter.
    const LITTLE: f64 = 0.3;
    let off =
        |of: fn(&Point) -> f64| of(measured).max(of(replayed)) / of(measured).min(of(replayed));
    let other = |of: fn(&Point) -> f64| {
        (of(measured) - of(replayed)).abs() > LITTLE * turn_us && off(of) > WAIT
    };
    let what = match () {
        () if off(|one| one.acquisitions_per_s) > RATE => "throughput",
        () if other(|one| one.wait_mean_us) => "mean wait",
        () if other(|one| one.idle_mean_us) => "mean wait for other threads",
        () => return None,
    };
    Some(format!(
        "The replay is not this program: its {what} is another one, so nothing follows from it."
    ))
}
