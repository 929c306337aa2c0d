//! How a program uses its conditions: the tokens that a pass takes and a signal brings.

use super::condition::{Pool, Use};
use super::{Act, Event, Role, Seen, Writer};
use convoy_record::{Lock, Process};
use convoy_runs::replay::Condition;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the number of tokens of a pool of which `taken` were taken on average in `seconds`:
/// while threads wait for a pool, its tokens are all taken. `None` if they waited for a small part
/// of the time.
fn units(lock: &Lock, taken: f64, seconds: f64) -> Option<u32> {
    /// Share of the run.
    const OFTEN: f64 = 0.5;
    let waiting = (lock.waiters.seconds / seconds.max(1e-9)).min(1.0);
    let is_finite = taken.is_finite() && taken < f64::from(u32::MAX);
    (waiting > OFTEN && is_finite).then(|| (taken / waiting).round().max(1.0) as u32)
}

impl Writer<'_> {
    /// Counts how conditions are used.
    pub(super) fn count(&mut self, class: u64, events: &[Event]) {
        let mut last: Option<(usize, usize)> = None;
        for (number, event) in events.iter().enumerate() {
            match event.act {
                Act::Wait(condition, within, limit) => {
                    let site = within.and_then(|at| events.get(at)).map(|one| one.site);
                    let one = &mut self.uses[condition];
                    // After a futile wakeup, the thread repeats the same wait.
                    let again = last == Some((condition, within.unwrap_or(usize::MAX)));
                    one.waits += u64::from(!again);
                    one.vain += u64::from(again);
                    one.late += u64::from(limit > 0 && !again);
                    one.sites.extend(site.map(|site| (class, site)));
                    if let (Some(site), Some(at)) = (site, within) {
                        let signals = |event: &Event| matches!(event.act, Act::Signal(..));
                        let is_late = events[at..number].iter().any(signals);
                        one.order.entry((class, site)).or_default()[usize::from(is_late)] += 1;
                    }
                    last = Some((condition, within.unwrap_or(usize::MAX)));
                }
                Act::Signal(condition, all) => {
                    self.uses[condition].signals += 1;
                    self.uses[condition].broadcasts += u64::from(all);
                    self.uses[condition].signallers.insert(event.site);
                    last = None;
                }
                Act::Unlock(..) => last = None,
                Act::Lock(..) | Act::Read(..) | Act::Barrier(..) | Act::Yield => {}
            }
        }
    }

    /// Returns the conditions, without their initial tokens.
    pub(super) fn conditions(&mut self, strips: &[Seen]) -> Vec<Condition> {
        for Seen { class, events, .. } in strips {
            for event in events.iter().filter(|event| matches!(event.act, Act::Lock(..))) {
                let of = |one: &&mut Use| one.sites.contains(&(*class, event.site));
                self.uses.iter_mut().filter(of).for_each(|one| one.passes += 1);
            }
        }
        self.count_calls();
        self.count_turns(strips);
        let levels = (0..self.uses.len()).map(|condition| {
            let one = &self.uses[condition];
            // A signal without a waiter is lost if critical sections wait for the condition, or if
            // many signals find no waiter.
            let often = one.signals as f64 > 1.5 * one.waits as f64 || one.passes > 0;
            if one.is_counted() {
                return Condition { tokens: 0.0, room: f64::INFINITY };
            }
            Condition { tokens: 0.0, room: if often { 0.0 } else { 1e6 } }
        });
        levels.collect()
    }

    /// Counts the signals and passes of the whole run.
    fn count_calls(&mut self) {
        let mut calls: BTreeMap<usize, f64> = BTreeMap::new();
        for (place, site) in self.trace.places.iter().zip(&self.sites) {
            *calls.entry(*site).or_default() += place.calls as f64;
        }
        let sum = |sites: &BTreeSet<usize>| -> Option<f64> {
            sites.iter().map(|site| calls.get(site).copied().filter(|calls| *calls > 0.0)).sum()
        };
        for one in &mut self.uses {
            let passing: BTreeSet<usize> = one.sites.iter().map(|at| at.1).collect();
            let of = sum(&one.signallers).zip(sum(&passing)).filter(|(_, passes)| *passes > 0.0);
            one.share = of.map(|(signals, passes)| signals / passes);
        }
    }

    /// Counts how often a thread alternates between passing a condition and signalling it.
    pub(super) fn count_turns(&mut self, strips: &[Seen]) {
        for Seen { class, events, .. } in strips {
            for (number, one) in self.uses.iter_mut().enumerate() {
                let mut last = None;
                for event in events {
                    let passes = match event.act {
                        Act::Lock(..) if one.sites.contains(&(*class, event.site)) => true,
                        Act::Signal(condition, _) if condition == number => false,
                        _ => continue,
                    };
                    if let Some(before) = last {
                        one.turns[usize::from(before == passes)] += 1;
                    }
                    last = Some(passes);
                }
            }
        }
        self.uses.iter_mut().for_each(Use::learn_turns);
    }

    /// Returns the pools: conditions that each thread passes and signals in turn. A lock that the
    /// program has built is recorded as a lock.
    pub(super) fn pools(&self, process: &Process, strips: &[Seen]) -> Vec<Pool> {
        let pools = process.locks.iter().enumerate().filter_map(|(lock, recorded)| {
            let Role::Condition(condition) = self.roles[lock] else { return None };
            if !self.uses[condition].is_lock || recorded.is_built() {
                return None;
            }
            let signals = recorded.sites.iter().filter(|site| site.act == "signal");
            let passes = signals.map(|site| site.count).sum::<u64>() as f64;
            let taken = self.held_s(condition, strips)?.map(|s| s * passes / self.seconds);
            let units = units(recorded, taken[0], self.seconds);
            Some(Pool { lock, condition, units, taken })
        });
        pools.collect()
    }

    /// Returns the mean time for which a thread keeps a token, seconds: as recorded, and its work
    /// and sleep alone. `None` if no thread was seen to take and return one.
    fn held_s(&self, condition: usize, strips: &[Seen]) -> Option<[f64; 2]> {
        let (mut passes, mut recorded_ns, mut work_ns) = (0.0, 0.0, 0.0);
        for Seen { class, events, .. } in strips {
            // The time at which the thread took its token, and its work and sleep since.
            let mut taken: Option<(f64, f64)> = None;
            for event in events {
                let gap_ns = event.gap.0 + event.gap.1;
                taken = taken.map(|(begin_ns, work_ns)| (begin_ns, work_ns + gap_ns));
                match event.act {
                    Act::Lock(..) if self.uses[condition].sites.contains(&(*class, event.site)) => {
                        taken = Some((event.end_ns, 0.0));
                    }
                    Act::Wait(waited, ..) if waited == condition => {
                        taken = Some((event.end_ns, 0.0));
                    }
                    Act::Signal(signalled, _) if signalled == condition => {
                        if let Some((begin_ns, work)) = taken.take() {
                            passes += 1.0;
                            recorded_ns += event.end_ns - begin_ns;
                            work_ns += work;
                        }
                    }
                    _ => {}
                }
            }
        }
        (passes > 0.0).then(|| [recorded_ns, work_ns].map(|ns| ns / passes / 1e9))
    }

    /// Returns the tokens that a pass takes.
    pub(super) fn price(&self, condition: usize) -> f64 {
        /// Signals per pass that count as one signal per pass: windows show more of either.
        const AS_MANY: std::ops::Range<f64> = 0.6..1.7;
        let one = &self.uses[condition];
        let share = one.share();
        if one.is_lock || AS_MANY.contains(&share) { 1.0 } else { share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::Waiters;

    #[test]
    fn a_pool_has_as_many_units_as_are_taken_while_threads_wait() {
        fn of(waiting_s: f64, taken: f64) -> Option<u32> {
            let waiters = Waiters { seconds: waiting_s, ..Waiters::default() };
            units(&Lock { waiters, ..Lock::default() }, taken, 2.0)
        }
        assert_eq!(of(1.9, 1.94), Some(2));
        assert_eq!(of(1.2, 1.8), Some(3));
        assert_eq!(of(0.1, 1.8), None, "at least two, and perhaps many more");
        assert_eq!(of(2.0, f64::NAN), None);
    }

    #[test]
    fn signals_for_one_thread_each_are_counted_though_every_pass_waits() {
        fn of(broadcasts: u64, waits: u64) -> bool {
            let one = Use { waits, broadcasts, signals: 100, passes: 100, ..Use::default() };
            one.is_counted()
        }
        assert!(of(0, 100) && of(0, 40) && of(100, 40));
        assert!(!of(100, 100), "a broadcast that all passes wait for");
    }
}
