//! The anchor of a replay: the parameters that are fitted to the record.

use convoy_machine::Preset;
use convoy_stats::Rng;

use super::behaviour::Behaviour;

/// Largest ratio between the replayed and the recorded work before critical sections.
const WORK: f64 = 2.0;
/// Mean of the sleeps, nanoseconds, below which there are fewer of them instead: the slack of
/// timers (`PR_SET_TIMERSLACK` of prctl(2)).
const SLEEP_LEAST_NS: f64 = 50_000.0;
/// Largest ratio between the price of wakeups and the machine's price.
const WAKEUPS: f64 = 8.0;

/// Result of the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// Factor applied to the prices of switches and wakeups.
    pub wakeups: f64,
    /// Factor applied to the work before each critical section.
    pub work: f64,
    /// Sleep added before each critical section, nanoseconds.
    pub sleep_ns: f64,
}

impl Anchor {
    /// The anchor that changes nothing.
    pub const NONE: Self = Self { wakeups: 1.0, work: 1.0, sleep_ns: 0.0 };

    /// Adds `more` nanoseconds of work to each acquisition. Critical sections keep their length,
    /// and threads that work little still work little.
    pub(super) fn work_more(&mut self, more: f64, known: &Behaviour) {
        let think_ns = known.think_ns().max(1.0);
        self.work = (self.work + more / think_ns).clamp(1.0 / WORK, WORK);
    }

    /// Multiplies the price of wakeups by `factor`, limited to between a half and two.
    pub(super) fn wakeups_times(&mut self, factor: f64) {
        self.wakeups = (self.wakeups * factor.clamp(0.5, 2.0)).clamp(1.0 / WAKEUPS, WAKEUPS);
    }

    /// Draws the sleep before a critical section, nanoseconds. Programs sleep rarely and long
    /// rather than often and briefly, and each sleep costs a switch. Sleeps are exponential, so
    /// that threads do not run in lockstep.
    pub(super) fn sleep(&self, rng: &mut Rng) -> f64 {
        let mean = self.sleep_ns.max(SLEEP_LEAST_NS);
        let sleeps = self.sleep_ns > 0.0 && rng.uniform() < self.sleep_ns / mean;
        if sleeps { -libm::log(1.0 - rng.uniform()) * mean } else { 0.0 }
    }

    /// Returns the machine with the fitted price of wakeups.
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
