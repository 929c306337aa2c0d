//! Activity of the machine, by the kernel's counters: two readings show the disturbance between
//! them.

use crate::clock::{self, CpuTicks};
use crate::disturbance::Disturbance;
use crate::groups;
use std::path::Path;

/// Ticks of a second in `/proc/stat`.
const TICKS_PER_S: f64 = 100.0;

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    at_ns: u64,
    own_ns: u64,
    ticks: Option<CpuTicks>,
    throttled: u64,
    stalled_us: u64,
}

impl Surroundings {
    /// Reads them. Values that the kernel does not report stay zero.
    pub fn now() -> Self {
        Self {
            at_ns: clock::monotonic_ns(),
            own_ns: clock::process_cpu_ns(),
            ticks: clock::cpu_ticks(),
            throttled: throttled(),
            stalled_us: stalled_us().unwrap_or(0),
        }
    }

    /// Returns the activity since `self` was read, without this program and the measured programs,
    /// which used `used_s` seconds of CPU time.
    pub fn since(&self, used_s: f64) -> Disturbance {
        let now = Self::now();
        let ns = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e9;
        let (seconds, own_s) = (ns(now.at_ns, self.at_ns), ns(now.own_ns, self.own_ns));
        let [busy_s, stolen_s] = match (&self.ticks, &now.ticks) {
            (Some(before), Some(after)) => {
                let ticks = |of: fn(&CpuTicks) -> u64| {
                    of(after).saturating_sub(of(before)) as f64 / TICKS_PER_S
                };
                [ticks(|ticks| ticks.user + ticks.system), ticks(|ticks| ticks.steal)]
            }
            _ => [used_s + own_s, 0.0],
        };
        Disturbance {
            seconds,
            others_s: busy_s - used_s - own_s,
            stolen_s,
            throttled: now.throttled.saturating_sub(self.throttled),
            stalled_s: now.stalled_us.saturating_sub(self.stalled_us) as f64 / 1e6,
        }
    }
}

/// How often CPUs were slowed down by heat, and this control group or one above it by a quota.
fn throttled() -> u64 {
    let heat = clock::usable_cpus().into_iter().filter_map(|cpu| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count");
        std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    });
    heat.sum::<u64>() + groups::throttled()
}

/// Time in which some program waited for memory, microseconds.
fn stalled_us() -> Option<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/pressure/memory")).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_work_of_this_process_is_its_own() {
        let before = Surroundings::now();
        let begin = clock::process_cpu_ns();
        while clock::process_cpu_ns() < begin + 100_000_000 {}
        let found = before.since(0.0);
        // Other threads of this process work at the same time: their CPU time ends the loop sooner.
        assert!(found.seconds > 0.0 && found.others_s > -0.1, "{found:?}");
        assert!(found.stalled_s >= 0.0 && found.stolen_s >= 0.0);
    }
}
