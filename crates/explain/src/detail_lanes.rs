//! Activity of the tasks of a simulated run around its longest convoy, as lanes.

use std::collections::BTreeMap;

use convoy_machine::Leave;
use convoy_sync::LockEvent;

use crate::detail::{Detail, Step, What, Who};
use crate::lanes::{Act, Lane, Lanes, LongWait, Span, Tag};

/// Number of tasks shown: those that wait longest.
const TASKS: usize = 200;
/// Number of intervals of the window for which the number of waiting tasks is shown.
const PHASES: usize = 120;

/// Why a task is on no CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Off {
    Asleep,
    Preempted,
    Woken,
    /// It has ended or has not started.
    Gone,
}

/// A task in its current state.
struct Task {
    lane: Lane,
    /// Reason why it is on no CPU; `None` while it runs.
    off: Option<Off>,
    waits: Option<u32>,
    owns: Vec<u32>,
    since: u64,
}

impl Task {
    /// Returns the current act and its lock; `None` if the task sleeps without a lock.
    fn act(&self) -> Option<(Act, Option<u32>)> {
        let lock = self.owns.last().copied();
        Some(match (self.waits, lock, self.off) {
            (Some(lock), ..) => (Act::Waits, Some(lock)),
            (None, Some(_), None) => (Act::Holds, lock),
            (None, Some(_), Some(Off::Asleep)) => (Act::Asleep, lock),
            (None, Some(_), Some(Off::Preempted)) => (Act::Preempted, lock),
            (None, Some(_), Some(_)) => (Act::Off, lock),
            (None, None, None) => (Act::Runs, None),
            (None, None, Some(Off::Preempted | Off::Woken)) => (Act::Away, None),
            (None, None, Some(_)) => return None,
        })
    }

    /// Ends the current act at `now`. Times are in nanoseconds.
    fn until(&mut self, now: u64, tags: &BTreeMap<u32, usize>) {
        let length_ns = now.saturating_sub(self.since);
        if let Some((act, lock)) = self.act().filter(|_| length_ns > 0) {
            let tag = lock.and_then(|lock| tags.get(&lock)).copied();
            self.lane.spans.push(Span { begin_ns: self.since, length_ns, act, tag });
        }
        self.since = now;
    }
}

impl Detail {
    /// Returns the activity of the tasks in the window. Times are nanoseconds after its start.
    pub fn lanes(&self) -> Lanes {
        let mut steps: Vec<&Step> = self.steps.iter().collect();
        steps.sort_by_key(|step| step.at);
        let from = self.window.from;
        let ns = |at: u64| at.saturating_sub(from) / 1000;
        let names = self.names.values();
        let tag = |name: &String| Tag { lock: name.clone(), ..Tag::default() };
        let tags: BTreeMap<u32, usize> = self.names.keys().copied().zip(0..).collect();
        let mut tasks: BTreeMap<i32, Task> = BTreeMap::new();
        for step in &steps {
            let now = ns(step.at);
            match step.what {
                What::Switch { prev, why, next } => {
                    change(&mut tasks, prev, now, &tags, |task| {
                        task.off = Some(match why {
                            Leave::Asleep => Off::Asleep,
                            Leave::Runnable => Off::Preempted,
                            Leave::Dead => Off::Gone,
                        });
                    });
                    change(&mut tasks, next, now, &tags, |task| task.off = None);
                }
                What::Wake { task, .. } => change(&mut tasks, task, now, &tags, |task| {
                    if task.off == Some(Off::Asleep) {
                        task.off = Some(Off::Woken);
                    }
                }),
                What::Lock { event, lock, task } => {
                    change(&mut tasks, task, now, &tags, |task| task.at_lock(event, lock));
                }
                What::Softirq(_) | What::Raise(..) | What::Mode(_) => {}
            }
        }
        let end = ns(self.cut.unwrap_or(self.window.to));
        let mut lanes = Lanes { seconds: end as f64 / 1e9, ..Lanes::default() };
        for (_, mut task) in tasks {
            task.until(end, &tags);
            lanes.threads.push(task.lane);
        }
        lanes.tags = names.map(tag).collect();
        lanes.threads.retain(|lane| !lane.spans.is_empty());
        lanes.threads.sort_by_key(|lane| (std::cmp::Reverse(waited(lane)), lane.thread));
        lanes.count_waiting();
        lanes.threads.truncate(TASKS);
        lanes.longest = self.analysis.stalls.longest.as_ref().map(|stall| LongWait {
            lock: self.analysis.locks.classes[stall.class as usize].name.clone(),
            pid: 0,
            begin_s: ns(stall.from) as f64 / 1e9,
            length_s: stall.to.saturating_sub(stall.from) as f64 / 1e12,
            most: u64::from(stall.waiters_max),
        });
        lanes
    }
}

fn waited(lane: &Lane) -> u64 {
    lane.spans.iter().filter(|span| span.act == Act::Waits).map(|span| span.length_ns).sum()
}

/// Changes the state of a task. Ignores idle tasks.
fn change(
    tasks: &mut BTreeMap<i32, Task>,
    who: Who,
    now: u64,
    tags: &BTreeMap<u32, usize>,
    how: impl FnOnce(&mut Task),
) {
    if who.tid() == 0 {
        return;
    }
    let task = tasks.entry(who.tid()).or_insert_with(|| Task {
        lane: Lane { thread: who.tid() as u64, ..Lane::default() },
        off: Some(Off::Gone),
        waits: None,
        owns: Vec::new(),
        since: now,
    });
    task.until(now, tags);
    how(task);
}

impl Task {
    fn at_lock(&mut self, event: LockEvent, lock: u32) {
        match event {
            LockEvent::Contended => self.waits = Some(lock),
            LockEvent::Acquired | LockEvent::Handoff => {
                self.waits = self.waits.filter(|other| *other != lock);
                if !self.owns.contains(&lock) {
                    self.owns.push(lock);
                }
            }
            LockEvent::Released => self.owns.retain(|other| *other != lock),
            LockEvent::Interrupted | LockEvent::TimedOut => self.waits = None,
            LockEvent::Woken | LockEvent::Stolen => {}
        }
    }
}

impl Lanes {
    /// Computes the average number of waiting tasks in each interval.
    fn count_waiting(&mut self) {
        let all_ns = self.seconds * 1e9;
        self.phase_s = self.seconds / PHASES as f64;
        let phase_ns = all_ns / PHASES as f64;
        if phase_ns < 1.0 {
            return;
        }
        self.waiting = vec![0.0; PHASES];
        let spans = self.threads.iter().flat_map(|lane| &lane.spans);
        for span in spans.filter(|span| span.act == Act::Waits) {
            let (begin, end) = (span.begin_ns as f64 / phase_ns, span.end_ns() as f64 / phase_ns);
            for phase in begin as usize..PHASES.min(end.ceil() as usize) {
                let (from, to) = (phase as f64, phase as f64 + 1.0);
                self.waiting[phase] += (end.min(to) - begin.max(from)).max(0.0);
            }
        }
    }
}
