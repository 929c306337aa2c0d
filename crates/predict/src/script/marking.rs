//! Computes how many tokens each condition has when all threads are where their strips begin. In
//! the terms of Petri nets: the recorded marking, moved to the places at which the replay begins,
//! so that the replay has as many items in progress as the program had.

use super::cycle::{Anchors, free, key};
use super::{Act, Event, Seen, Writer};
use std::collections::BTreeMap;

/// A signal or pass of one thread.
struct Change {
    /// Index of its event among the early and the remaining events of its strip.
    at: usize,
    /// Nanoseconds since the process began.
    when_ns: f64,
    /// Tokens that it brings, or takes if negative.
    tokens: f64,
    /// Whether the thread waited for it.
    waited: bool,
}

/// Changes in one strip, and the events at which strips of its class begin.
struct Course {
    class: u64,
    changes: Vec<Change>,
    anchors: Vec<usize>,
    /// Events at which a wait for some condition ended.
    waits: Vec<usize>,
    events: usize,
    end_ns: f64,
}

impl Course {
    /// Returns the tokens that the thread brings from event `from` to the next event at which a
    /// strip begins; `None` if it does not get there.
    fn ahead(&self, from: usize) -> Option<f64> {
        let to = *self.anchors.iter().find(|at| **at >= from)?;
        let own = self.changes.iter().filter(|change| (from..to).contains(&change.at));
        Some(own.map(|change| change.tokens).sum())
    }
}

impl Writer<'_> {
    /// Returns the tokens of a counted condition at the start of the replay: the median over the
    /// windows in which a thread waited for it. `None` if there is no such window.
    pub(super) fn marking(
        &self,
        condition: usize,
        strips: &[Seen],
        anchors: &Anchors,
    ) -> Option<f64> {
        let mut windows: BTreeMap<u64, Vec<Course>> = BTreeMap::new();
        for strip in strips {
            let course = self.course(condition, strip, anchors);
            windows.entry(strip.window).or_default().push(course);
        }
        // A thread that waits from the start of a window to its end has no steps there. It counts
        // like the threads of its class that have waited.
        let courses = || windows.values().flatten();
        let usual = |class: u64| -> f64 {
            let own = courses().filter(|course| course.class == class);
            let ahead = own.flat_map(|course| course.waits.iter().map(|at| course.ahead(*at)));
            mean(ahead.flatten()).unwrap_or(0.0)
        };
        let usual: BTreeMap<u64, f64> =
            anchors.keys().map(|&class| (class, usual(class))).collect();
        let most = courses().map(|course| course.events).max().unwrap_or(0);
        let mut found: Vec<f64> = Vec::new();
        for window in windows.values() {
            let Some(begin) = begin(window, most) else { continue };
            let mut tokens = begin;
            for (&class, usual) in &usual {
                let own = || window.iter().filter(|course| course.class == class);
                let threads = self.trace.classes.get(class as usize).map_or(0, |one| one.threads);
                let absent = threads.saturating_sub(own().count() as u64);
                tokens += usual * absent as f64;
                tokens += own().map(|course| course.ahead(0).unwrap_or(*usual)).sum::<f64>();
            }
            found.push(tokens);
        }
        found.sort_by(f64::total_cmp);
        found.get(found.len() / 2).map(|tokens| tokens.round())
    }

    /// Returns the changes that a thread makes to a condition in one strip.
    fn course(&self, condition: usize, strip: &Seen, anchors: &Anchors) -> Course {
        let first = strip.early.len();
        let own = anchors.get(&strip.class);
        let at_anchor = |at: &usize| Some(&key(&strip.events[*at])) == own;
        let anchors = free(&strip.events).filter(at_anchor).map(|at| first + at).collect();
        let all: Vec<&Event> = strip.early.iter().chain(&strip.events).collect();
        let mut course = Course {
            class: strip.class,
            changes: Vec::new(),
            anchors,
            waits: Vec::new(),
            events: all.len(),
            end_ns: all.last().map_or(strip.begin_ns, |last| strip.begin_ns + last.end_ns),
        };
        // The last wait of each critical section, by the event with which the section began.
        let mut last: BTreeMap<Option<usize>, (usize, usize)> = BTreeMap::new();
        // After the last event of the strip, the thread may have waited again.
        let mut unfinished = None;
        for (at, event) in all.iter().enumerate() {
            unfinished = None;
            if let Act::Wait(of, within, limit_ns) = event.act {
                let section = within.filter(|_| at >= first).map(|at| first + at);
                unfinished = Some(section);
                if limit_ns == 0 {
                    last.insert(section, (of, at));
                }
            }
        }
        unfinished.map(|section| last.remove(&section));
        course.waits.extend(last.values().map(|(_, at)| *at));
        last.retain(|_, (of, _)| *of == condition);
        let takes = -self.price(condition);
        let sites = &self.uses[condition].sites;
        for (at, event) in all.iter().enumerate() {
            let is_unknown = last.get(&None) == Some(&(condition, at));
            let (at, tokens, waited) = match event.act {
                Act::Signal(of, _) if of == condition => (at, 1.0, false),
                // Of a critical section that began before the strip, only the end of the wait is
                // known.
                Act::Wait(..) if is_unknown => (at, takes, true),
                Act::Lock(..)
                    if sites.contains(&(strip.class, event.site))
                        && unfinished != Some(Some(at)) =>
                {
                    // A pass that waits takes its tokens after the wait.
                    let waited = last.get(&Some(at));
                    (waited.map_or(at, |one| one.1), takes, waited.is_some())
                }
                _ => continue,
            };
            let when_ns = strip.begin_ns + all[at].end_ns;
            course.changes.push(Change { at, when_ns, tokens, waited });
        }
        course
    }
}

/// Returns the tokens at the start of a window, which follow because there are none while a thread
/// waits; `None` if no thread waited. The window ends with the first strip that has about as many
/// events as the longest one.
fn begin(window: &[Course], most: usize) -> Option<f64> {
    let full = window.iter().filter(|course| 10 * course.events > 9 * most);
    let end_ns = full.map(|course| course.end_ns).fold(f64::INFINITY, f64::min);
    let changes = window.iter().flat_map(|course| &course.changes);
    let mut changes: Vec<&Change> = changes.filter(|change| change.when_ns <= end_ns).collect();
    changes.sort_by(|a, b| a.when_ns.total_cmp(&b.when_ns));
    let (mut level, mut least) = (0.0_f64, 0.0_f64);
    for change in &changes {
        level += change.tokens;
        least = least.min(level);
    }
    changes.iter().any(|change| change.waited).then_some(-least)
}

/// Returns the mean; `None` if there are no values.
fn mean(of: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = of.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use crate::away::Away;
    use crate::script::script;
    use convoy_record::trace::{Class, Place, Step, Strip, Trace, What};
    use convoy_record::{Kind, Lock, Process, Program};

    const WORKERS: u64 = 3;
    /// Work of an item, nanoseconds.
    const WORK: u64 = 4000;

    fn step(what: What, place: usize, gap_ns: u64, took_ns: u64) -> Step {
        Step { what, place, gap_ns, took_ns, ..Step::default() }
    }

    /// One thread passes an item to one of several workers and waits until it is done. A broadcast
    /// wakes all workers, which have waited since before the window. The workers receive items in
    /// turn.
    fn strips() -> Vec<Strip> {
        let (lock, tell, unlock, lock_again, wait) = (0, 1, 2, 3, 4);
        let (look, lock_done, done) = (5, 6, 7);
        let (mut main, mut workers) = (Vec::new(), vec![Vec::new(); WORKERS as usize]);
        for item in 0..10 * WORKERS {
            main.extend([
                step(What::Lock, lock, 100, 0),
                step(What::Broadcast, tell, 100, 0),
                step(What::Unlock, unlock, 0, 0),
                step(What::Lock, lock_again, 0, 0),
                step(What::Wait, wait, 0, WORK + 200),
                step(What::Unlock, unlock, 100, 0),
            ]);
            for (at, worker) in (0..).zip(&mut workers) {
                let turn = WORK + 500;
                let gap = if worker.is_empty() { 0 } else { 100 };
                if at == item % WORKERS {
                    worker.extend([
                        step(What::Wait, look, gap, 300 - gap),
                        step(What::Unlock, unlock, 0, 0),
                        step(What::Lock, lock_done, WORK, 0),
                        step(What::Signal, done, 0, 0),
                    ]);
                    // The rest of the turn belongs to the next wait.
                    worker.push(step(What::Wait, look, 0, turn - WORK - 300));
                } else {
                    worker.push(step(What::Wait, look, gap, turn - gap));
                }
            }
        }
        let strip = |class, thread, steps| Strip { class, thread, steps, ..Strip::default() };
        let mut strips = vec![strip(0, 0, main)];
        strips.extend((1..).zip(workers).map(|(thread, steps)| strip(1, thread, steps)));
        strips
    }

    #[test]
    fn as_many_items_are_on_their_way_as_in_the_program() {
        let lock = |name: &str, kind, mutex: &str| Lock {
            name: name.to_owned(),
            kind,
            mutex: mutex.to_owned(),
            instances: 1,
            ..Lock::default()
        };
        let locks = vec![
            lock("queue", Kind::Mutex, ""),
            lock("items", Kind::Condition, "queue"),
            lock("ready", Kind::Condition, "queue"),
        ];
        let at = [(0, "a"), (1, "b"), (0, ""), (0, "c"), (2, "d"), (1, "e"), (0, "f"), (2, "g")];
        let class = |threads, calls| Class { threads, calls, ..Class::default() };
        let trace = Trace {
            classes: vec![class(1, 60 * WORKERS), class(WORKERS, 60 * WORKERS)],
            places: at
                .map(|(lock, site)| Place { lock, site: site.to_owned(), ..Place::default() })
                .to_vec(),
            strips: strips(),
        };
        let process = Process { locks, trace, seconds: 1.0, ..Process::default() };
        let kept = [&process.locks[0]];
        let away = Away::new(&Program::default(), &process, &kept);
        let script = script(&process, &kept, away).script.expect("it has one");
        assert_eq!(script.classes.len(), 2);
        // Strips of workers begin after their work, with an item that was not taken in the replay.
        let tokens: Vec<f64> = script.conditions.iter().map(|one| one.tokens).collect();
        assert_eq!(tokens, [-(WORKERS as f64), 0.0], "{:?}", script.conditions);
    }
}
