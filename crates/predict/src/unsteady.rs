//! Simulations without a result: they reach the limit of the host's time before the throughput is
//! known.

use convoy_runs::replay::Replay;
use convoy_runs::virtual_end::VirtualError;
use convoy_runs::virtual_locks::VirtualLocksPoint;

/// Largest relative error of the throughput of a run. With a larger error, the interval of a row
/// reaches from a loss of half to a gain of half, which says nothing about a lock.
const UNSURE: f64 = 0.5;

/// The throughput of a simulation is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown;

/// Runs a simulation. Returns [`Unknown`] if its throughput is not known within its limit of work.
/// With other programs, whose load varies, any throughput is accepted: it is only compared with the
/// record.
pub(crate) fn answer(replay: &Replay) -> Result<Result<VirtualLocksPoint, Unknown>, VirtualError> {
    let refuses = replay.effort.refuses && replay.others_cpus <= 0.0;
    match replay.run() {
        Ok(point) if refuses && point.uncertainty > UNSURE => Ok(Err(Unknown)),
        Ok(point) => Ok(Ok(point)),
        Err(VirtualError::OperationLimit { .. }) => Ok(Err(Unknown)),
        Err(error) => Err(error),
    }
}

/// Returns the relative error of the mean throughput of `points` whose windows ended before it was
/// known. Each point has a different seed, so their errors are independent.
pub(crate) fn uncertainty(points: &[VirtualLocksPoint]) -> f64 {
    let most = points.iter().map(|point| point.uncertainty).fold(0.0, f64::max);
    // Runs that are not refused may have an infinite uncertainty.
    if most.is_finite() { most / (points.len().max(1) as f64).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(uncertainty: f64) -> VirtualLocksPoint {
        VirtualLocksPoint { uncertainty, ..VirtualLocksPoint::default() }
    }

    #[test]
    fn more_rounds_know_a_throughput_better() {
        assert!(uncertainty(&[]).abs() < 1e-12);
        assert!(uncertainty(&[point(0.0), point(0.0)]).abs() < 1e-12);
        let four = [point(0.1), point(0.0), point(0.2), point(0.0)];
        assert!((uncertainty(&four) - 0.1).abs() < 1e-12);
    }
}
