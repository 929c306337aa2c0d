//! Classes of threads with their strips: pieces of the trace that begin and end at the same place.

use super::cycle::{Anchors, free, key};
use super::{Act, Event, Pool, Role, Seen, Writer, mode, starts_as};
use convoy_record::trace::Place;
use convoy_record::{Times, trace};
use convoy_runs::replay::{Class, Condition, Mode, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum calls of a thread, relative to the average thread, for its class to matter.
const IDLE: f64 = 0.1;
/// Number of cycles below which nothing is known of a class.
const CYCLES: usize = 3;
/// Minimum share of the windows with steps of the busiest class in which another class must have
/// steps.
const THERE: f64 = 0.3;
/// Largest share of all calls of a class that may be left out.
const SMALL: f64 = 0.05;
/// Minimum calls of a thread, relative to the average thread, for its class to do the work of the
/// program.
const WORKS: f64 = 0.5;

impl Writer<'_> {
    /// Makes waits for conditions that are not counted take as many tokens as signals bring, summed
    /// over all classes at their recorded speeds.
    pub(super) fn balance(&self, classes: &mut [(f64, Class)]) {
        for condition in (0..self.uses.len()).filter(|&at| !self.uses[at].is_counted()) {
            let mut sums = [0.0; 2];
            for (calls, class) in classes.iter() {
                let (mut locks, mut own) = (0.0, [0.0; 2]);
                for (strip, weight) in class.strips.iter().zip(&class.weights) {
                    for step in strip {
                        match step {
                            Step::Lock { .. } => locks += weight,
                            Step::Wait { condition: at, .. } if *at == condition => {
                                own[0] += weight;
                            }
                            Step::Signal { condition: at, .. } if *at == condition => {
                                own[1] += weight;
                            }
                            _ => {}
                        }
                    }
                }
                let speed = calls / f64::max(locks, 1e-9);
                sums = [sums[0] + speed * own[0], sums[1] + speed * own[1]];
            }
            let share = if sums[0] > 0.0 { sums[1] / sums[0] } else { 1.0 };
            for step in classes.iter_mut().flat_map(|one| one.1.strips.iter_mut().flatten()) {
                if let Step::Wait { condition: at, tokens, .. } = step
                    && *at == condition
                {
                    *tokens = share.clamp(0.01, 1.0);
                }
            }
        }
    }

    /// Returns the number of threads that make as many calls as others but were seen in few of the
    /// windows in which the others work, and the number of all working threads. Such threads run
    /// before or after the others, or other programs used the CPUs while their steps should have
    /// been recorded.
    pub(super) fn absent(&self, strips: &[Seen]) -> [u64; 2] {
        let classes = &self.trace.classes;
        let threads: u64 = classes.iter().map(|class| class.threads).sum();
        let calls: u64 = classes.iter().map(|class| class.calls).sum();
        let least = WORKS * calls as f64 / threads.max(1) as f64;
        let busiest = (0..classes.len()).max_by_key(|&at| classes[at].calls);
        let windows = Self::windows(strips, busiest.unwrap_or(0) as u64);
        let mut counts = [0, 0];
        for (number, class) in (0..).zip(classes) {
            if class.calls as f64 >= least * class.threads as f64 {
                let there = Self::windows(strips, number).intersection(&windows).count() as f64;
                counts[0] += if there < THERE * windows.len() as f64 { class.threads } else { 0 };
                counts[1] += class.threads;
            }
        }
        counts
    }

    /// Returns the windows in which a class makes steps.
    fn windows(strips: &[Seen], class: u64) -> BTreeSet<u64> {
        let own = strips.iter().filter(|strip| strip.class == class && !strip.events.is_empty());
        own.map(|strip| strip.window).collect()
    }

    /// Returns the classes with their strips; `None` if a class with many calls cannot be replayed,
    /// or if there is no class. Also sets the initial tokens of `conditions`, which depend on where
    /// the strips begin.
    pub(super) fn classes(
        &self,
        strips: &[Seen],
        conditions: &mut [Condition],
        pools: &[Pool],
    ) -> Option<Vec<Class>> {
        let of_thread = |class: &trace::Class| class.calls as f64 / class.threads.max(1) as f64;
        let threads: u64 = self.trace.classes.iter().map(|class| class.threads).sum();
        let calls: u64 = self.trace.classes.iter().map(|class| class.calls).sum();
        let mean = calls as f64 / threads.max(1) as f64;
        let mut classes = Vec::new();
        let mut anchors = Anchors::new();
        for condition in (0..conditions.len()).filter(|&at| self.uses[at].is_lock) {
            let pool = pools.iter().find(|pool| pool.condition == condition);
            conditions[condition].tokens = f64::from(pool.and_then(|pool| pool.units).unwrap_or(1));
        }
        let windows = |class: u64| Self::windows(strips, class);
        let busiest = (0..self.trace.classes.len()).max_by_key(|&at| self.trace.classes[at].calls);
        let work = windows(busiest.unwrap_or(0) as u64);
        for (number, class) in self.trace.classes.iter().enumerate() {
            // Threads that only start or stop the program run before or after the others.
            let there = windows(number as u64).intersection(&work).count() as f64;
            if of_thread(class) < IDLE * mean || there < THERE * work.len() as f64 {
                classes.extend(self.waiting(class));
                continue;
            }
            let all = strips;
            let own = strips.iter().filter(|strip| strip.class == number as u64);
            let own: Vec<&Vec<Event>> = own.map(|strip| &strip.events).collect();
            let Some(anchor) = Self::anchor(&own) else {
                if class.calls as f64 > SMALL * calls as f64 {
                    return None;
                }
                continue;
            };
            let mut found = Vec::new();
            let mut cycles = 0;
            for events in &own {
                cycles += self.strips(events, number as u64, anchor, &mut found);
            }
            if cycles < CYCLES {
                let waiting = self.waiting(class);
                if waiting.is_none() && class.calls as f64 > SMALL * calls as f64 {
                    return None;
                }
                classes.extend(waiting);
                continue;
            }
            let (strips, counts): (Vec<Vec<Step>>, Vec<_>) = found.into_iter().unzip();
            anchors.insert(number as u64, anchor);
            self.borrow(&strips, class.threads, conditions);
            let weights = self.weights(&counts);
            let threads = class.threads as u32;
            let place = class.most.clone();
            let acquired_per_s = self.acquired(all, number as u64) / self.seconds.max(1e-9);
            let class_of =
                Class { threads, strips, weights, place, acquired_per_s, ..Class::default() };
            classes.push((class.calls as f64, class_of));
        }
        let is_counted = |at: &usize| self.uses[*at].is_counted() && !self.uses[*at].is_lock;
        for at in (0..conditions.len()).filter(is_counted) {
            conditions[at].tokens = self.marking(at, strips, &anchors).unwrap_or(0.0);
        }
        self.balance(&mut classes);
        let classes: Vec<Class> = classes.into_iter().map(|one| one.1).collect();
        (!classes.is_empty()).then_some(classes)
    }

    /// Returns the acquisitions of a class in the whole run: for each site, the calls times the
    /// share of this class in the recorded steps.
    fn acquired(&self, strips: &[Seen], class: u64) -> f64 {
        let mut calls: BTreeMap<usize, f64> = BTreeMap::new();
        for (place, site) in self.trace.places.iter().zip(&self.sites) {
            *calls.entry(*site).or_default() += place.calls as f64;
        }
        // By site: acquisitions of this class, and of all classes.
        let mut seen: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        for Seen { class: of, events, .. } in strips {
            let locks = |event: &&Event| matches!(event.act, Act::Lock(..) | Act::Read(..));
            for event in events.iter().filter(locks) {
                let [own, all] = seen.entry(event.site).or_default();
                *own += f64::from(u8::from(*of == class));
                *all += 1.0;
            }
        }
        seen.iter().map(|(site, [own, all])| calls[site] * own / all).sum()
    }

    /// Returns a class whose threads rarely acquire a lock because they wait for it, based on the
    /// times of the place that it calls most often; `None` if its threads rarely wait.
    fn waiting(&self, class: &trace::Class) -> Option<(f64, Class)> {
        /// Share of the run.
        const MUCH: f64 = 0.02;
        /// Share of its time for which such a thread holds the lock if it never waits.
        const RARE: f64 = 0.01;
        let sites = self.kept.iter().enumerate().flat_map(|(lock, one)| {
            one.sites.iter().filter(|site| site.act != "signal").map(move |site| (lock, site))
        });
        let mut own = sites.filter(|(_, site)| starts_as(&site.place, &class.most));
        let (lock, site) = own.next()?;
        let threads = class.threads.max(1);
        if site.wait.total_s < MUCH * self.seconds * threads as f64 {
            return None;
        }
        let rest = |on: &Times, off: &Times| {
            let span = self.away.span(on, off);
            Step::Rest { work_ns: span.work.mean(), sleep_ns: span.slept_ns() }
        };
        let acquire = match mode(&site.act) {
            Mode::Read => Step::Read { lock, of: 0 },
            Mode::Exclusive | Mode::Write => Step::Lock { lock, of: 0 },
        };
        // If a thread called once, the time between its calls is not known.
        let hold_s = site.hold_on.mean_s() + site.hold_off.mean_s();
        let is_guessed = site.think_on.count + site.think_off.count == 0;
        let think = if is_guessed {
            Step::Rest { work_ns: 0.0, sleep_ns: hold_s * 1e9 * (1.0 / RARE - 1.0) }
        } else {
            rest(&site.think_on, &site.think_off)
        };
        let strip =
            vec![think, acquire, rest(&site.hold_on, &site.hold_off), Step::Unlock { lock, of: 0 }];
        let threads = threads as u32;
        let weights = vec![1.0];
        let strips = vec![strip];
        let place = class.most.clone();
        let acquired_per_s = site.count as f64 / self.seconds.max(1e-9);
        let class_of =
            Class { threads, strips, weights, is_rare: true, is_guessed, place, acquired_per_s };
        Some((class.calls as f64, class_of))
    }

    /// Returns the number of threads that meet at a barrier.
    fn places(&self, barrier: usize) -> u32 {
        let at =
            |place: &Place| self.roles.get(place.lock as usize) == Some(&Role::Barrier(barrier));
        let comes = |strip: &&trace::Strip| {
            strip.steps.iter().any(|step| self.trace.places.get(step.place).is_some_and(at))
        };
        let classes: BTreeSet<u64> =
            self.trace.strips.iter().filter(comes).map(|strip| strip.class).collect();
        let threads = classes.iter().filter_map(|class| self.trace.classes.get(*class as usize));
        threads.map(|class| class.threads as u32).sum()
    }

    /// Returns how often each strip must be drawn to call the sites in the same proportions as the
    /// whole run: a window over-represents threads that wait, compared with threads that run.
    pub(super) fn weights(&self, counts: &[BTreeMap<usize, f64>]) -> Vec<f64> {
        const STEPS: usize = 200;
        /// Largest ratio between a weight and the mean weight.
        const MOST: f64 = 1e3;
        let mut calls: BTreeMap<usize, f64> = BTreeMap::new();
        for (place, site) in self.trace.places.iter().zip(&self.sites) {
            *calls.entry(*site).or_default() += place.calls as f64;
        }
        let mut seen: BTreeMap<usize, f64> = BTreeMap::new();
        for (site, count) in counts.iter().flatten() {
            *seen.entry(*site).or_default() += count;
        }
        // Sites that this class rarely calls say nothing about it.
        seen.retain(|site, count| *count >= 5.0 && calls.get(site).is_some_and(|all| *all > 0.0));
        let all: f64 = seen.keys().map(|site| calls[site]).sum();
        let mut weights = vec![1.0; counts.len()];
        for _ in 0..STEPS {
            let mut drawn: BTreeMap<usize, f64> = BTreeMap::new();
            for (weight, counts) in weights.iter().zip(counts) {
                for (site, count) in counts.iter().filter(|(site, _)| seen.contains_key(site)) {
                    *drawn.entry(*site).or_default() += weight * count;
                }
            }
            let sum: f64 = drawn.values().sum();
            for (weight, counts) in weights.iter_mut().zip(counts) {
                let own = || counts.iter().filter(|(site, _)| seen.contains_key(site));
                let steps: f64 = own().map(|one| one.1).sum();
                let factor: f64 = own()
                    .map(|(site, count)| {
                        count / steps * (calls[site] / all / (drawn[site] / sum)).ln()
                    })
                    .sum();
                *weight *= factor.exp();
            }
            let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
            for weight in &mut weights {
                *weight = (*weight / mean).clamp(1.0 / MOST, MOST);
            }
        }
        weights
    }

    /// Returns the most frequent event outside of critical sections: cycles begin and end there.
    pub(super) fn anchor(own: &[&Vec<Event>]) -> Option<(u8, usize)> {
        let mut counts: BTreeMap<(u8, usize), u64> = BTreeMap::new();
        for events in own {
            for event in free(events).map(|at| &events[at]) {
                *counts.entry(key(event)).or_default() += 1;
            }
        }
        // Among equals, the first.
        counts.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0))).map(|most| *most.0)
    }

    /// Adds the pieces of a strip that begin and end at the anchor, each with its number of calls
    /// by site. Returns the number of cycles in them.
    pub(super) fn strips(
        &self,
        events: &[Event],
        class: u64,
        anchor: (u8, usize),
        found: &mut Vec<(Vec<Step>, BTreeMap<usize, f64>)>,
    ) -> usize {
        /// Cycles per piece: consecutive cycles remain together.
        const TOGETHER: usize = 8;
        let at: Vec<usize> = free(events).filter(|&at| key(&events[at]) == anchor).collect();
        let cycles = at.len().saturating_sub(1);
        for from in (0..cycles).step_by(TOGETHER) {
            let to = (from + TOGETHER).min(cycles);
            let (first, last) = (at[from], at[to]);
            let mut counts = BTreeMap::new();
            for event in &events[first..last] {
                let counts_here = match event.act {
                    Act::Lock(..) | Act::Read(..) | Act::Signal(..) | Act::Barrier(..) => true,
                    // The replay determines whether it waits.
                    Act::Wait(condition, ..) => !self.uses[condition].is_counted(),
                    Act::Unlock(..) | Act::Yield => false,
                };
                if counts_here {
                    *counts.entry(event.site).or_default() += 1.0;
                }
            }
            let steps = (first..last).flat_map(|number| self.steps(class, events, number, first));
            found.push((steps.collect(), counts));
        }
        cycles
    }

    /// Returns the steps of an event, whose strip begins with the event `first`.
    pub(super) fn steps(
        &self,
        class: u64,
        events: &[Event],
        number: usize,
        first: usize,
    ) -> Vec<Step> {
        let event = &events[number];
        let (work_ns, sleep_ns) = event.gap;
        let mut steps = Vec::new();
        // After a futile wakeup a thread checks and waits again, which the replay does by itself.
        let is_again = matches!(event.act, Act::Wait(condition, Some(_), _)
            if self.uses[condition].is_counted())
            && number.checked_sub(1).is_some_and(|before| events[before].act == event.act);
        if work_ns + sleep_ns > 0.0 && !is_again {
            steps.push(Step::Rest { work_ns, sleep_ns });
        }
        match event.act {
            Act::Lock(lock, of) => {
                steps.push(Step::Lock { lock, of });
                steps.extend(self.passes((class, event.site), false));
            }
            Act::Read(lock, of) => steps.push(Step::Read { lock, of }),
            Act::Barrier(barrier) => {
                // The threads of the class, or of all classes that meet at the barrier.
                steps.push(Step::Barrier { barrier, places: self.places(barrier) });
            }
            Act::Unlock(lock, of) => {
                let begins = |one: &&Event| one.act == Act::Lock(lock, of);
                if let Some(begin) = events[first..number].iter().rfind(begins) {
                    steps.extend(self.passes((class, begin.site), true));
                }
                steps.push(Step::Unlock { lock, of });
            }
            Act::Wait(condition, within, limit_ns) => {
                let is_within = within.is_some_and(|at| at >= first && at < number);
                if !(is_within && self.uses[condition].is_counted()) {
                    steps.push(Step::Wait { condition, tokens: 1.0, is_within, limit_ns });
                }
            }
            Act::Signal(condition, all) => steps.push(Step::Signal { condition, all }),
            Act::Yield => steps.push(Step::Yield),
        }
        steps
    }

    /// Returns the waits of a critical section that begins at a site, for the tokens that each pass
    /// takes: the waits at its beginning, or the waits after its signals.
    fn passes(&self, at: (u64, usize), is_late: bool) -> impl Iterator<Item = Step> + '_ {
        let own = move |condition: &usize| {
            let one = &self.uses[*condition];
            one.is_counted() && one.sites.contains(&at) && one.is_late(at) == is_late
        };
        (0..self.uses.len()).filter(own).map(|condition| Step::Wait {
            condition,
            tokens: self.price(condition),
            is_within: true,
            limit_ns: 0,
        })
    }

    /// If a class begins with a release of a lock that the program has built, each of its threads
    /// holds that lock.
    pub(super) fn borrow(&self, strips: &[Vec<Step>], threads: u64, conditions: &mut [Condition]) {
        for condition in (0..conditions.len()).filter(|&at| self.uses[at].is_lock) {
            let firsts = strips.iter().filter_map(|strip| {
                strip.iter().find_map(|step| match step {
                    Step::Signal { condition: one, .. } if *one == condition => Some(true),
                    Step::Wait { condition: one, .. } if *one == condition => Some(false),
                    _ => None,
                })
            });
            let firsts: Vec<bool> = firsts.collect();
            let has = firsts.iter().filter(|has| **has).count();
            if 2 * has > firsts.len() {
                conditions[condition].tokens -= threads as f64;
            }
        }
    }
}
