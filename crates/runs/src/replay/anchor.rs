//! The anchor of a replay: the parameters that are fitted to the record.

use convoy_machine::Preset;
use convoy_stats::Rng;

use super::behaviour::Behaviour;

/// Largest factor between the work before critical sections and the record.
const WORK: f64 = 2.0;
/// Mean of the sleeps, nanoseconds, below which they are fewer instead: the slack of timers
/// (`PR_SET_TIMERSLACK` of prctl(2)).
const SLEEP_LEAST_NS: f64 = 50_000.0;
/// Largest factor between the price of wakeups and the machine's.
const WAKEUPS: f64 = 8.0;

/// Result of the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// Factor on the prices of switches and wakeups.
    pub wakeups: f64,
    /// Factor on the work before each critical section.
    pub work: f64,
    /// Sleep that is added before each section, nanoseconds.
    pub sleep_ns: f64,
}

impl Anchor {
    /// Nothing is changed.
    pub const NONE: Self = Self { wakeups: 1.0, work: 1.0, sleep_ns: 0.0 };

    /// Adds `more` nanoseconds of work to each acquisition. Sections keep their length, and threads
    /// that work little keep working little.
    pub(super) fn work_more(&mut self, more: f64, known: &Behaviour) {
        let think_ns = known.think_ns().max(1.0);
        self.work = (self.work + more / think_ns).clamp(1.0 / WORK, WORK);
    }

    /// Multiplies the price of wakeups, by two at most.
    pub(super) fn wakeups_times(&mut self, factor: f64) {
        self.wakeups = (self.wakeups * factor.clamp(0.5, 2.0)).clamp(1.0 / WAKEUPS, WAKEUPS);
    }

    /// Sleep before a critical section, nanoseconds. Programs sleep seldom and long rather than
    /// often and briefly, and each sleep costs a switch; it is exponential around its mean, so that
    /// threads do not march in step.
    pub(super) fn sleep(&self, rng: &mut Rng) -> f64 {
        let mean = self.sleep_ns.max(SLEEP_LEAST_NS);
        let sleeps = self.sleep_ns > 0.0 && rng.uniform() < self.sleep_ns / mean;
        if sleeps { -libm::log(1.0 - rng.uniform()) * mean } else { 0.0 }
    }

    /// The machine with its price of wakeups.
    pub(super) fn price(&self, machine: &Preset) -> Preset {
        let mut machine = machine.clone();
        let prices = &mut machine.price_ns;
        let mut all = vec![&mut prices.ipi, &mut prices.idle_exit, &mut prices.switch];
        if let Some(guest) = &mut machine.guest_ns {
            all.extend([&mut guest.send, &mut guest.halted_exit]);
        }
        if let Some(cold) = &mut machine.cold_switch {
            all.extend(&mut cold.ns);
        }
        for ns in all {
            *ns *= self.wakeups;
        }
        machine
    }
}
