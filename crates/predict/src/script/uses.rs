//! How a program uses its conditions: the tokens that a pass takes and a signal brings.

use super::condition::Use;
use super::{Act, Event, Seen, Writer};
use convoy_runs::replay::Condition;
use std::collections::{BTreeMap, BTreeSet};

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
