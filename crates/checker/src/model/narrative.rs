//! Narrative of one execution: one line for each step and each event of a named lock.

use convoy_sync::{LockEvent, TaskId, TellPart};

/// Reports the names of the parts of an object.
pub(super) type Parts = fn(&mut TellPart<'_>);

/// An object with a name.
struct Named {
    start: usize,
    bytes: usize,
    name: &'static str,
    /// Names of the words of the object by offset.
    parts: Vec<(usize, String)>,
    /// The owners of the lock, according to its events.
    owners: Vec<TaskId>,
    /// The waiters, in the order of arrival.
    waiting: Vec<TaskId>,
}

impl Named {
    fn apply(&mut self, event: LockEvent, task: TaskId) {
        match event {
            LockEvent::Contended => self.waiting.push(task),
            LockEvent::Acquired | LockEvent::Handoff => {
                self.waiting.retain(|&other| other != task);
                // After a hand-off the owner reports once more, when it runs.
                if !self.owners.contains(&task) {
                    self.owners.push(task);
                }
            }
            LockEvent::Interrupted | LockEvent::TimedOut => {
                self.waiting.retain(|&other| other != task);
            }
            LockEvent::Released => self.owners.retain(|&other| other != task),
            LockEvent::Woken | LockEvent::Stolen => {}
        }
    }

    /// Describes owners and waiters briefly.
    fn state(&self) -> String {
        format!("[owners: {}; waiting: {}]", list(&self.owners), list(&self.waiting))
    }
}

fn list(tasks: &[TaskId]) -> String {
    let tasks: Vec<_> = tasks.iter().map(ToString::to_string).collect();
    if tasks.is_empty() { "none".to_owned() } else { tasks.join(" ") }
}

/// A step of an execution, or an event of a named lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The task.
    pub task: TaskId,
    /// The call that the task was executing.
    pub call: &'static str,
    /// What it did.
    pub text: String,
    /// The state after it, or why it is stale.
    pub note: Option<String>,
    /// Whether it read an old value, or wrote before newer values or late.
    pub is_stale: bool,
    /// The file and the line of the operation.
    pub source: Option<(&'static str, u32)>,
}

impl Step {
    /// Returns what the step did, and why it is stale if it is.
    pub fn told(&self) -> String {
        match self.note.as_ref().filter(|_| self.is_stale) {
            Some(note) => format!("{} {note}", self.text),
            None => self.text.clone(),
        }
    }

    /// Returns the name of the file and the line of the operation, or nothing if unknown.
    pub fn place(&self) -> String {
        self.source.map_or(String::new(), |(file, line)| {
            format!("{}:{line}", file.rsplit('/').next().unwrap_or(file))
        })
    }
}

/// Returns `steps` as lines of text.
pub(crate) fn tell(steps: &[Step]) -> Vec<String> {
    let width = steps.iter().map(|step| step.call.len()).max().unwrap_or(0);
    let tell = |Step { task, call, text, note, .. }: &Step| {
        let note = note.as_ref().map_or(String::new(), |note| format!(" {note}"));
        format!("task {task}  {call:<width$}  {text}{note}")
    };
    steps.iter().map(tell).collect()
}

/// See the module documentation.
#[derive(Default)]
pub(super) struct Narrative {
    steps: Vec<Step>,
    named: Vec<Named>,
    /// Addresses without a name, in the order of their first steps.
    unnamed: Vec<usize>,
}

impl Narrative {
    /// Names an object and its words. The first name stays.
    pub(super) fn name(&mut self, start: usize, bytes: usize, name: &'static str, tell: Parts) {
        if self.named.iter().all(|known| known.start != start) {
            let (owners, waiting, mut parts) = (Vec::new(), Vec::new(), Vec::new());
            tell(&mut |at, name| parts.push((at, name.to_string())));
            self.named.push(Named { start, bytes, name, parts, owners, waiting });
        }
    }

    /// Returns the name of the word at `address`, if it is in a named object.
    pub(super) fn place(&self, address: usize) -> Option<String> {
        let holds = |named: &&Named| (named.start..named.start + named.bytes).contains(&address);
        let Named { start, name, parts, .. } = self.named.iter().find(holds)?;
        let offset = address - start;
        let part = parts.iter().find(|(at, _)| *at == offset);
        Some(match part {
            Some((_, part)) => part.clone(),
            None if offset == 0 && parts.is_empty() => (*name).to_owned(),
            None => format!("{name}+{offset}"),
        })
    }

    /// Returns a number for the word at `address`, which has no name: the same in each execution.
    pub(super) fn unnamed(&mut self, address: usize) -> usize {
        let number = self.unnamed.iter().position(|&unnamed| unnamed == address);
        number.unwrap_or_else(|| {
            self.unnamed.push(address);
            self.unnamed.len() - 1
        })
    }

    /// Records a step.
    pub(super) fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Records that `here` reported `event` of the lock at `lock` for `task` during `call`.
    pub(super) fn event(
        &mut self,
        here: TaskId,
        call: &'static str,
        event: LockEvent,
        lock: usize,
        task: TaskId,
    ) {
        let Some(named) = self.named.iter_mut().find(|named| named.start == lock) else { return };
        named.apply(event, task);
        let (name, label, state) = (named.name, event.label(), named.state());
        let text = if task == here {
            format!("  {name}: {label}")
        } else {
            format!("  {name}: {label} task {task}")
        };
        let (note, is_stale, source) = (Some(state), false, None);
        self.steps.push(Step { task: here, call, text, note, is_stale, source });
    }

    /// Returns the steps.
    pub(super) fn steps(self) -> Vec<Step> {
        self.steps
    }
}
