//! Throughput and CPU time of a program, in its record or in a replay.

use convoy_runs::replay::Behaviour;
use serde::Serialize;

/// Throughput of a program and its cost per acquisition.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// `recorded` or `replayed`; if other programs used CPUs, `beside` (with such programs) and
    /// `alone`.
    pub what: &'static str,
    /// Acquisitions per second.
    pub acquisitions_per_s: f64,
    /// CPU time of an acquisition and the work before it, microseconds.
    pub cpu_us: f64,
    /// Mean wait for a lock, microseconds.
    pub wait_mean_us: f64,
    /// Mean wait for other threads at conditions per acquisition, microseconds.
    pub idle_mean_us: f64,
}

impl Point {
    /// Returns the point for the same work in `times` as many acquisitions, each with 1/`times` of
    /// the CPU time.
    pub(crate) fn of_work(&self, times: f64) -> Self {
        let (acquisitions_per_s, cpu_us) = (self.acquisitions_per_s * times, self.cpu_us / times);
        Self { acquisitions_per_s, cpu_us, ..self.clone() }
    }

    pub(crate) fn recorded(behaviour: &Behaviour) -> Self {
        Self {
            what: "recorded",
            acquisitions_per_s: behaviour.rate,
            cpu_us: behaviour.cpu_ns / 1e3,
            wait_mean_us: behaviour.wait_ns / 1e3,
            idle_mean_us: behaviour.idle_ns / 1e3,
        }
    }
}
