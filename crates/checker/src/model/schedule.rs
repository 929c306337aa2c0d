//! An order of steps as a short string: `cv1:opportunistic/two-ups:0*3,1,2!,1`.
//!
//! After the format's version and the scenario's name comes a list of runs. `1` runs task 1 until
//! it blocks or exits, `1*3` runs it for three steps, `1!` lets the deadline of its sleep fire and
//! then runs it. `cv1-c11` and `cv1-tso` name other memory models. There `1~2` begins with variant
//! 2 of the step, which reads the third newest value, or writes before two newer ones; with `tso`
//! variant 1 delays a store, and `1~f` makes the oldest delayed store of task 1 visible. After the
//! end of the list, each task in order runs until it blocks or exits.

use super::memory::Memory;
use core::fmt;
use core::str::FromStr;

/// Version of the format and of the meaning of a step. A change of the scheduling points needs a
/// new version, because old strings would otherwise mean other orders.
const VERSION: &str = "cv1";

/// One step: which task runs, whether its deadline fires, and which variant of the step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    task: u8,
    deadline: bool,
    variant: u8,
}

/// The variant that makes a delayed store visible, without a step of the task.
const FLUSH: u8 = u8::MAX;

impl Choice {
    pub(super) fn run(task: usize) -> Self {
        Self::variant_of(task, 0)
    }

    pub(super) fn variant_of(task: usize, variant: usize) -> Self {
        Self { task: task as u8, deadline: false, variant: variant as u8 }
    }

    pub(super) fn flush(task: usize) -> Self {
        Self::variant_of(task, FLUSH.into())
    }

    pub(super) fn deadline(task: usize) -> Self {
        Self { task: task as u8, deadline: true, variant: 0 }
    }

    pub(super) fn variant(self) -> usize {
        self.variant.into()
    }

    pub(super) fn is_flush(self) -> bool {
        self.variant == FLUSH
    }

    /// Returns whether memory that is not sequentially consistent is needed for it.
    pub(super) fn is_stale(self) -> bool {
        self.variant != 0 && !self.is_flush()
    }

    /// Returns whether the task takes its next step.
    pub(super) fn is_step_of(self, task: usize) -> bool {
        self.task() == task && !self.deadline && !self.is_flush()
    }

    /// Returns a number for each kind of step of each task, whichever the variant.
    pub(super) fn slot(self) -> usize {
        3 * self.task() + usize::from(self.deadline) + 2 * usize::from(self.is_flush())
    }

    pub(super) fn task(self) -> usize {
        self.task as usize
    }

    pub(super) fn is_deadline(self) -> bool {
        self.deadline
    }
}

/// Consecutive steps of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: Choice,
    /// `None`: until the task blocks or exits.
    pub(super) steps: Option<u32>,
}

/// A parsed schedule string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Name of the scenario.
    pub scenario: String,
    /// The memory model.
    pub memory: Memory,
    pub(super) runs: Vec<Run>,
}

/// Why a schedule string cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The string is not of this format, or is of another version.
    #[error(
        "a schedule reads {VERSION}:<scenario>:<runs>, for example {VERSION}:handoff/binary:0*3,1; \
         copy one that a check of this version printed"
    )]
    Format,
    /// A run cannot be parsed.
    #[error("`{0}` is no run; write `1`, `1*3`, `1!` or `1!*3`")]
    Run(String),
    /// The scenario does not have that task, or it cannot run at that point.
    #[error("run {0} of the schedule cannot happen there: the schedule belongs to other code")]
    Impossible(usize),
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start.task)?;
        if self.start.deadline {
            f.write_str("!")?;
        }
        match self.start.variant {
            0 => {}
            FLUSH => return f.write_str("~f"),
            variant => write!(f, "~{variant}")?,
        }
        self.steps.map_or(Ok(()), |steps| write!(f, "*{steps}"))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION)?;
        if self.memory != Memory::Sc {
            write!(f, "-{}", self.memory)?;
        }
        write!(f, ":{}:", self.scenario)?;
        for (place, run) in self.runs.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{run}")?;
        }
        Ok(())
    }
}

impl FromStr for Run {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let error = || ScheduleError::Run(text.to_owned());
        let (start, steps) = match text.split_once('*') {
            Some((start, steps)) => (start, Some(steps.parse().map_err(|_| error())?)),
            None => (text, None),
        };
        let (start, variant) = match start.split_once('~') {
            None => (start, 0),
            Some((task, "f")) if steps.is_none() => {
                let task: u8 = task.parse().map_err(|_| error())?;
                return Ok(Self { start: Choice::flush(task.into()), steps: Some(1) });
            }
            Some((start, variant)) => match variant.parse() {
                Ok(variant) if variant != 0 && variant != FLUSH => (start, variant),
                _ => return Err(error()),
            },
        };
        let (task, deadline) = start.strip_suffix('!').map_or((start, false), |t| (t, true));
        let task = task.parse().map_err(|_| error())?;
        if steps == Some(0) {
            return Err(error());
        }
        Ok(Self { start: Choice { task, deadline, variant }, steps })
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let mut parts = text.trim().splitn(3, ':');
        let (version, scenario, runs) = (parts.next(), parts.next(), parts.next());
        let (Some(version), Some(scenario), Some(runs)) = (version, scenario, runs) else {
            return Err(ScheduleError::Format);
        };
        let memory = version.strip_prefix(VERSION).ok_or(ScheduleError::Format)?;
        let memory = match memory.strip_prefix('-') {
            Some(name) => name.parse().map_err(|()| ScheduleError::Format)?,
            None if memory.is_empty() => Memory::Sc,
            None => return Err(ScheduleError::Format),
        };
        let runs = runs.split(',').filter(|run| !run.is_empty());
        Ok(Self {
            scenario: scenario.to_owned(),
            memory,
            runs: runs.map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

/// Follows a list of runs.
pub(super) struct Follower<'a> {
    runs: &'a [Run],
    at: usize,
    /// Executed steps of the run at `at`.
    done: u32,
    /// Skip impossible runs instead of failing.
    lenient: bool,
    /// The run that was not possible.
    pub(super) impossible: Option<usize>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(runs: &'a [Run], lenient: bool) -> Self {
        Self { runs, at: 0, done: 0, lenient, impossible: None }
    }

    /// Returns whether every run has ended.
    pub(super) fn is_over(&self) -> bool {
        let ended = |run: &Run| run.steps.is_some_and(|steps| self.done >= steps);
        let left = self.runs.get(self.at..).unwrap_or_default();
        left.is_empty() || left.len() == 1 && ended(&left[0])
    }

    /// Returns the next step, or `None` if the list does not fit.
    pub(super) fn choose(&mut self, choices: &[Choice], last: Option<usize>) -> Option<Choice> {
        while let Some(run) = self.runs.get(self.at) {
            let wanted = if self.done == 0 { run.start } else { Choice::run(run.start.task()) };
            let over = run.steps.is_some_and(|steps| self.done >= steps);
            if !over && choices.contains(&wanted) {
                self.done += 1;
                return Some(wanted);
            }
            let complete = if run.steps.is_some() { over } else { self.done > 0 };
            if !complete && !self.lenient {
                self.impossible = Some(self.at);
                return None;
            }
            self.at += 1;
            self.done = 0;
        }
        Some(default_choice(choices, last))
    }
}

/// Returns the task that ran last if it can continue, else the first choice, and prefers steps that
/// are not stale.
pub(super) fn default_choice(choices: &[Choice], last: Option<usize>) -> Choice {
    let continues = last.map(Choice::run).filter(|choice| choices.contains(choice));
    let first = || choices.iter().copied().find(|choice| !choice.is_stale());
    continues.or_else(first).unwrap_or(choices[0])
}

/// Returns whether the task that ran last can continue, without a stale step.
pub(super) fn can_continue(choices: &[Choice], last: Option<usize>) -> bool {
    last.is_some_and(|last| choices.contains(&Choice::run(last)))
}

/// Records the steps of an execution.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    runs: Vec<Run>,
    steps: u32,
}

impl Recorder {
    /// Records that `choice` was taken among `choices` after `last` ran.
    pub(super) fn record(&mut self, choices: &[Choice], last: Option<usize>, choice: Choice) {
        let plain = last.map(Choice::run) == Some(choice);
        let start = self.runs.last().map(|run| run.start).filter(|start| !start.is_flush());
        if plain && start.is_some_and(|start| start.task() == choice.task()) {
            self.steps += 1;
            return;
        }
        // The previous run was cut short if its task could have continued.
        self.finish(can_continue(choices, last));
        let steps = choice.is_flush().then_some(1);
        self.runs.push(Run { start: choice, steps });
        self.steps = 1;
    }

    fn finish(&mut self, preempted: bool) {
        if let Some(run) = self.runs.last_mut().filter(|run| !run.start.is_flush()) {
            run.steps = preempted.then_some(self.steps);
        }
    }

    /// Returns the position after the steps so far, for [`Self::back_to`].
    pub(super) fn mark(&self) -> (usize, u32) {
        (self.runs.len(), self.steps)
    }

    /// Discards the steps after `mark`.
    pub(super) fn back_to(&mut self, mark: (usize, u32)) {
        self.runs.truncate(mark.0);
        if let Some(run) = self.runs.last_mut().filter(|run| !run.start.is_flush()) {
            run.steps = None;
        }
        self.steps = mark.1;
    }

    /// Returns the runs, the last of which ends after its number of steps.
    pub(super) fn counted(mut self) -> Vec<Run> {
        self.finish(true);
        self.runs
    }

    pub(super) fn runs(mut self) -> Vec<Run> {
        self.finish(false);
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_back() {
        for text in [
            "cv1:opportunistic/two-ups:0*3,1,2!,1!*2",
            "cv1:x:",
            "cv1:x:7",
            "cv1-c11:x:0~1*2,1~2",
            "cv1-tso:x:0~1,1,0~f,1~f",
        ] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        for text in ["", "cv1", "cv1:x", "cv0:x:1", "cv1-arm:x:1", "cv1c11:x:1"] {
            assert_eq!(text.parse::<Schedule>(), Err(ScheduleError::Format), "{text}");
        }
        for run in ["x", "1*", "1*0", "*3", "!", "-1", "1!3", "1~", "1~0", "1~f*2", "~1"] {
            let text = format!("cv1:x:0,{run}");
            assert_eq!(text.parse::<Schedule>(), Err(ScheduleError::Run(run.to_owned())));
        }
    }
}
