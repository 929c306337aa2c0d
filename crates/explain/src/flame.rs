//! Flame graphs: where tasks were blocked, spinning or waiting for a CPU, as folded stacks.

use crate::locks::{Class, OwnerState};
use crate::task::Task;
use core::fmt::Write;
use std::collections::BTreeMap;

/// State of a task that does not make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// Asleep, either for a lock whose owner was in that state, or for another reason.
    Blocked(Option<OwnerState>),
    Spinning,
    Queued,
    QueuedOwner,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Blocked(None) => "asleep",
            Self::Blocked(Some(OwnerState::Running)) => "asleep, owner running",
            Self::Blocked(Some(OwnerState::Queued)) => "asleep, owner waits for a CPU",
            Self::Blocked(Some(OwnerState::Asleep)) => "asleep, owner asleep",
            Self::Blocked(Some(OwnerState::Free)) => "asleep, lock free",
            Self::Spinning => "spinning",
            Self::Queued => "waits for a CPU",
            Self::QueuedOwner => "owns it and waits for a CPU",
        }
    }
}

type Frames = (&'static str, &'static str, Option<&'static str>, Option<u32>, How);

/// Picoseconds by stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flame(BTreeMap<Frames, u64>);

impl Flame {
    /// Records that `task` lost `span` at a lock of `class`, or in its system call.
    pub(crate) fn add(&mut self, task: &Task, class: Option<u32>, how: How, span: u64) {
        *self.0.entry((task.label.kind, task.job, task.call, class, how)).or_default() += span;
    }

    /// Adds a sleep of `task` of length `span` for a lock of `class`, divided in proportion to the
    /// times that its owner spent in each state.
    pub(crate) fn add_wait(&mut self, task: &Task, class: u32, owner: [u64; 4], span: u64) {
        let all: u64 = owner.iter().sum();
        for (state, part) in OwnerState::ALL.into_iter().zip(owner) {
            let share = u128::from(span) * u128::from(part) / u128::from(all.max(1));
            if share > 0 {
                self.add(task, Some(class), How::Blocked(Some(state)), share as u64);
            }
        }
        if all == 0 {
            self.add(task, Some(class), How::Blocked(None), span);
        }
    }

    /// Returns the stacks from the outermost frame to the innermost, with their microseconds.
    pub(crate) fn stacks(&self, classes: &[Class]) -> Vec<(Vec<String>, u64)> {
        let stack = |(kind, job, call, class, how): &Frames| {
            let mut frames = vec![(*kind).to_owned()];
            if !job.is_empty() {
                frames.push((*job).to_owned());
            }
            frames.push(call.unwrap_or("user mode").to_owned());
            frames.extend(class.map(|class| classes[class as usize].name.clone()));
            frames.push(how.name().to_owned());
            frames
        };
        let whole = self.0.iter().map(|(frames, ps)| (stack(frames), ps / 1_000_000));
        whole.filter(|(_, us)| *us > 0).collect()
    }
}

/// Returns one line for each stack: the frames, outermost first, and the microseconds.
pub fn folded(stacks: &[(Vec<String>, u64)]) -> String {
    let mut text = String::new();
    for (frames, us) in stacks {
        // Readers split a line at its semicolons and its last blank.
        let _ = writeln!(text, "{} {us}", frames.join(";"));
    }
    text
}
