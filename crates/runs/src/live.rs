//! Latest estimates of the simulations that this process runs, for a person waiting for one of them
//! or interrupting it. Simulations do not depend on this module.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoy_machine::{Here, User};

use crate::lock_loop::{Contest, Loop};

/// Interval at which the window of a lock loop is sampled, nanoseconds of virtual time.
const LOOK_NS: u64 = 1_000_000;

/// Latest estimates, each with the number of its simulation, in the order in which the simulations
/// began.
static RUNNING: Mutex<(u64, Vec<(u64, String)>)> = Mutex::new((0, Vec::new()));

fn running_now() -> MutexGuard<'static, (u64, Vec<(u64, String)>)> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the latest estimate of each running simulation that has one.
pub fn estimates() -> Vec<String> {
    running_now().1.iter().map(|(_, text)| text.clone()).filter(|text| !text.is_empty()).collect()
}

/// A running simulation. Its estimate is removed when it is dropped.
pub(crate) struct Live(u64);

impl Live {
    /// Registers a simulation without an estimate.
    pub(crate) fn new() -> Self {
        let mut running = running_now();
        running.0 += 1;
        let number = running.0;
        running.1.push((number, String::new()));
        Self(number)
    }

    /// Replaces the estimate.
    pub(crate) fn say(&self, text: String) {
        let mut running = running_now();
        if let Some(own) = running.1.iter_mut().find(|(number, _)| *number == self.0) {
            own.1 = text;
        }
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        running_now().1.retain(|(number, _)| *number != self.0);
    }
}

/// Reports the progress of the window of a lock loop from now on, when the window begins.
pub(crate) fn watch(measured: &Loop, contest: Rc<dyn Contest<User>>, begin_ns: u64) {
    let live = Live::new();
    let first = contest.stage().passed.load(Relaxed);
    let Loop { lock, threads, window_ms, .. } = *measured;
    Here::observe(LOOK_NS, move |now_ps| {
        let ms = (now_ps / 1000).saturating_sub(begin_ns) as f64 / 1e6;
        let passed = contest.stage().passed.load(Relaxed) - first;
        live.say(format!(
            "{lock}, {threads} threads: {:.0} acquisitions/s in {ms:.0} of {window_ms} virtual ms",
            passed as f64 / ms * 1e3
        ));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_lasts_as_long_as_its_simulation() {
        let has = |text: &str| estimates().iter().any(|one| one == text);
        let live = Live::new();
        live.say("half of this test".to_owned());
        let other = Live::new();
        other.say("another half".to_owned());
        live.say("all of this test".to_owned());
        assert!(has("all of this test") && has("another half") && !has("half of this test"));
        drop(live);
        assert!(!has("all of this test") && has("another half"));
    }
}
