//! Shortens a failing order: fewer runs first, then fewer cut-off runs, then fewer steps.

use super::memory::Memory;
use super::retrace::{Retraced, retrace};
use super::scenario::{Property, Scenario};
use super::schedule::{Choice, Run};

/// Returns the length of an order, the most important part first.
fn length(runs: &[Run]) -> (usize, usize, usize, u32) {
    let cut = runs.iter().filter(|run| run.steps.is_some()).count();
    let stale = runs.iter().map(|run| run.start.variant()).sum();
    (runs.len(), stale, cut, runs.iter().filter_map(|run| run.steps).sum())
}

/// Executes `runs` as far as they fit. Returns the runs that were executed if they violate
/// `property`.
fn attempt(
    scenario: (&Scenario, Memory),
    steps: usize,
    property: Property,
    runs: &[Run],
) -> Option<Vec<Run>> {
    let Retraced { outcome, runs, .. } = retrace(scenario, steps, runs, true, false);
    let (seen, _) = outcome.failure?;
    (seen == property).then_some(runs)
}

/// Returns variants of an order that may be shorter.
fn neighbours(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut all = Vec::new();
    for at in 0..runs.len() {
        let mut without = runs.to_vec();
        without.remove(at);
        all.push(without);
        if runs[at].start.is_stale() {
            let mut newest = runs.to_vec();
            newest[at].start = Choice::run(runs[at].start.task());
            all.push(newest);
        }
        // The run continues instead of being cut off.
        let Some(steps) = runs[at].steps else { continue };
        let mut whole = runs.to_vec();
        whole[at].steps = None;
        all.push(whole);
        if steps > 1 {
            let mut less = runs.to_vec();
            less[at].steps = Some(steps - 1);
            all.push(less);
        }
    }
    all
}

/// Returns the shortest order that can be reached from `runs` by single changes, each of which
/// shortens it and still violates `property`. Adds the executions to `explored`.
pub(super) fn shorten(
    (scenario, memory): (&Scenario, Memory),
    steps: usize,
    property: Property,
    runs: Vec<Run>,
    explored: &mut u64,
) -> Vec<Run> {
    let mut best = runs;
    loop {
        let shorter = neighbours(&best).into_iter().find_map(|candidate| {
            *explored += 1;
            let ran = attempt((scenario, memory), steps, property, &candidate)?;
            (length(&ran) < length(&best)).then_some(ran)
        });
        match shorter {
            Some(ran) => best = ran,
            None => return best,
        }
    }
}
