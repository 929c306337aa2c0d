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

struct Line {
    task: TaskId,
    call: &'static str,
    text: String,
}

/// See the module documentation.
#[derive(Default)]
pub(super) struct Narrative {
    lines: Vec<Line>,
    named: Vec<Named>,
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
        Some(part.map_or_else(|| format!("{name}+{offset}"), |(_, part)| part.clone()))
    }

    /// Records that `task` did `text` during `call`.
    pub(super) fn line(&mut self, task: TaskId, call: &'static str, text: String) {
        self.lines.push(Line { task, call, text });
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
            format!("  {name}: {label} {state}")
        } else {
            format!("  {name}: {label} task {task} {state}")
        };
        self.line(here, call, text);
    }

    /// Returns the lines as text.
    pub(super) fn tell(self) -> Vec<String> {
        let width = self.lines.iter().map(|line| line.call.len()).max().unwrap_or(0);
        let tell = |Line { task, call, text }| format!("task {task}  {call:<width$}  {text}");
        self.lines.into_iter().map(tell).collect()
    }
}
