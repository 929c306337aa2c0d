//! Flame graphs: where tasks were blocked, spun or waited for a CPU, as folded stacks.

use crate::locks::Class;
use crate::task::Task;
use core::fmt::Write;
use std::collections::BTreeMap;

/// What a task that does not get on does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    Blocked,
    Spinning,
    Queued,
    QueuedOwner,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Blocked => "asleep",
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
    /// `task` lost `span` at a lock of `class`, or at what its system call waits for.
    pub(crate) fn add(&mut self, task: &Task, class: Option<u32>, how: How, span: u64) {
        let frames = (task.label.kind, task.job, task.call, class, how);
        *self.0.entry(frames).or_default() += span;
    }

    /// Stacks from the outermost frame to the innermost, with their microseconds.
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

/// One line for each stack: the frames, outermost first, and the microseconds.
pub fn folded(stacks: &[(Vec<String>, u64)]) -> String {
    let mut text = String::new();
    for (frames, us) in stacks {
        // A line is cut at its semicolons and its last blank.
        let _ = writeln!(text, "{} {us}", frames.join(";"));
    }
    text
}
