//! An execution in the order of a list of runs.

use super::cycles::{Slots, served};
use super::execution::run::{Guide, Outcome, Point, run};
use super::memory::Memory;
use super::scenario::{Property, Scenario};
use super::schedule::{Choice, Follower, Recorder, Run};

/// Number of steps after the end of a list that may close its cycle.
const AFTER: usize = 100;

/// A point on the way.
struct Stop {
    values: u128,
    /// Steps that need no turn for fairness after the step that was taken here.
    served: Slots,
    stale: bool,
}

/// Follows a list of runs. The execution ends if the list ends with a fair cycle.
struct Retrace<'a> {
    follower: Follower<'a>,
    recorder: Recorder,
    stops: Vec<Stop>,
    /// Number of steps after the list.
    after: usize,
    /// Number of steps of the cycle.
    cycle: Option<usize>,
    /// Number of steps left, if the cycle is known.
    left: Option<usize>,
}

impl<'a> Retrace<'a> {
    fn new(runs: &'a [Run], lenient: bool, left: Option<usize>) -> Self {
        let (follower, recorder) = (Follower::new(runs, lenient), Recorder::default());
        Self { follower, recorder, stops: Vec::new(), after: 0, cycle: None, left }
    }
}

impl Guide for Retrace<'_> {
    fn choose(&mut self, point: &Point<'_>) -> Option<Choice> {
        let &Point { choices, last, execution, .. } = point;
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
            return self.follower.choose(choices, last);
        }
        let matters = |_: &usize| execution.tasks.has_pause();
        if let Some(state) = execution.state(last.filter(matters)) {
            let over = self.follower.is_over();
            self.after += usize::from(over);
            if over && self.after <= AFTER {
                let mut slots = 0;
                for (steps, stop) in (1..).zip(self.stops.iter().rev()) {
                    slots |= stop.served;
                    if stop.stale {
                        break;
                    }
                    if stop.values == state.values && slots == Slots::MAX {
                        self.cycle = Some(steps);
                        return None;
                    }
                }
            }
            self.stops.push(Stop { values: state.values, served: 0, stale: false });
        }
        let choice = self.follower.choose(choices, last)?;
        if let Some(stop) = self.stops.last_mut() {
            (stop.served, stop.stale) = (served(choices, choice), choice.is_stale());
        }
        self.recorder.record(choices, last, choice);
        Some(choice)
    }
}

/// Result of an execution in the order of a list of runs.
pub(super) struct Retraced {
    pub(super) outcome: Outcome,
    /// The runs that were executed.
    pub(super) runs: Vec<Run>,
    /// The run that was not possible.
    pub(super) impossible: Option<usize>,
}

/// Executes `scenario` in the order of `runs`. Runs that are not possible are skipped if `lenient`.
pub(super) fn retrace(
    (scenario, memory): (&Scenario, Memory),
    steps: usize,
    runs: &[Run],
    lenient: bool,
    narrate: bool,
) -> Retraced {
    let mut silent = Retrace::new(runs, lenient, None);
    let mut outcome = run(scenario, memory, steps, false, &mut silent);
    let Retrace { follower: Follower { impossible, .. }, recorder, stops, cycle, .. } = silent;
    if narrate && !outcome.again {
        // Telling leaves words on the stacks, so states are compared in a silent execution.
        let left = cycle.map(|_| stops.len());
        outcome = run(scenario, memory, steps, true, &mut Retrace::new(runs, lenient, left));
    }
    if let Some(steps) = cycle {
        let text = format!("the last {steps} steps can be repeated for ever");
        outcome.failure = Some((Property::NoLivelock, text));
    }
    // The steps of a cycle are counted: its last task would run on.
    let runs = if cycle.is_some() { recorder.counted() } else { recorder.runs() };
    Retraced { outcome, runs, impossible }
}
