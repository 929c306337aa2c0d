//! Work of a known length: a dependent chain that neither the compiler nor the CPU can shorten.

use crate::lock_loop::Ground;
use convoy_os::clock::monotonic_ns;
use convoy_sync::Native;
use std::hint::black_box;

/// Multiplier of the chain: 2^64 divided by the golden ratio, odd, so no state is lost.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Steps of one calibration: about 0.2 ms, short enough to fit between two interruptions.
const CALIBRATION_STEPS: u32 = 100_000;

/// Clock reads of one calibration.
const CALIBRATION_READS: u32 = 1_000;

/// Number of calibrations. The fastest one counts, because disturbances only make them slower.
const CALIBRATIONS: u32 = 40;

/// Continues the chain by `steps`, each of which depends on the previous one.
#[inline]
pub(super) fn churn(mut value: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        // The shift keeps the chain from being folded into one multiplication.
        value = value.wrapping_mul(MULTIPLIER) ^ (value >> 29);
    }
    value
}

impl Ground for Native {
    const COUNTS: bool = false;

    #[inline]
    fn churn(value: usize, steps: u32) -> usize {
        churn(value as u64, steps) as usize
    }
}

/// Costs of a step of the chain and of a clock read on this machine.
pub(super) struct Calibration {
    /// Nanoseconds of one step.
    pub(super) step_ns: f64,
    /// Nanoseconds of one clock read.
    pub(super) clock_ns: f64,
}

impl Calibration {
    /// Measures this machine, in about 10 ms.
    pub(super) fn measure() -> Self {
        let mut value = 1;
        let step_ns = fastest(CALIBRATION_STEPS, || {
            value = churn(black_box(value), CALIBRATION_STEPS);
        });
        black_box(value);
        let clock_ns = fastest(CALIBRATION_READS, || {
            for _ in 0..CALIBRATION_READS {
                black_box(monotonic_ns());
            }
        });
        Self { step_ns, clock_ns }
    }

    /// Returns the number of steps that take `ns` together with one clock read; zero if the clock
    /// read alone takes longer.
    pub(super) fn steps(&self, ns: u32) -> u32 {
        ((f64::from(ns) - self.clock_ns) / self.step_ns).round().max(0.0) as u32
    }
}

/// Returns the nanoseconds of one of `parts` equal parts of `body`, in the fastest of several runs.
pub(super) fn fastest(parts: u32, mut body: impl FnMut()) -> f64 {
    let shortest = (0..CALIBRATIONS)
        .map(|_| {
            let begin = monotonic_ns();
            body();
            monotonic_ns() - begin
        })
        .min();
    // A clock that does not advance would make the number of steps infinite.
    shortest.unwrap_or_default().max(1) as f64 / f64::from(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_depends_on_every_step() {
        assert_eq!(churn(churn(7, 3), 4), churn(7, 7));
        assert_ne!(churn(7, 7), churn(7, 8));
    }

    #[test]
    fn the_clock_is_part_of_the_work() {
        let calibration = Calibration { step_ns: 2.0, clock_ns: 30.0 };
        assert_eq!(calibration.steps(130), 50);
        assert_eq!(calibration.steps(10), 0);
    }

    #[test]
    fn calibration_gives_usable_numbers() {
        let calibration = Calibration::measure();
        assert!(calibration.step_ns > 0.0 && calibration.step_ns.is_finite());
        assert!(calibration.clock_ns > 0.0 && calibration.clock_ns.is_finite());
    }
}
