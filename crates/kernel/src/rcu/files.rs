//! The kernel's log of stalled grace periods.

use super::state::Rcu;
use convoy_sync::rcu::Stall;
use core::fmt::Write as _;

impl<S> Rcu<S> {
    /// Returns the kernel's log of grace periods that took too long.
    #[must_use]
    pub fn stall_log(&self) -> Vec<String> {
        self.stalls.borrow().clone()
    }

    /// At a tick of this CPU.
    pub(super) fn log_stalls(&self) {
        for (name, stall) in self.stalled() {
            let text = self.stall_text(name, &stall);
            self.stalls.borrow_mut().push(text);
        }
    }

    /// The line of the kernel, and one for each CPU with its task and what that is in.
    fn stall_text(&self, name: &str, stall: &Stall) -> String {
        let Stall { cpus, tasks, by, ticks } = stall;
        let mut text = if cpus == &[*by] {
            format!("INFO: {name}_state detected stall on CPU {by} (t={ticks} jiffies)\n")
        } else {
            let names = tasks.iter().map(|task| format!("P{task}"));
            let cpus: Vec<_> = names.chain(cpus.iter().map(usize::to_string)).collect();
            format!(
                "INFO: {name}_state detected stalls on CPUs/tasks: {{ {}}} (detected by {by}, \
                 t={ticks} jiffies)\n",
                cpus.join(" ")
            )
        };
        for &task in tasks {
            let section = self.rq.tcb(task).section.get().unwrap_or("no named section");
            let _infallible = writeln!(text, "task {task} in {section}, without a CPU");
        }
        for &cpu in cpus {
            let queue = &self.rq.queues[cpu];
            let task = self.rq.tcb(queue.curr.get());
            let place = match (queue.is_idle(), task.section.get()) {
                (true, _) => "idle",
                (false, Some(section)) => section,
                (false, None) => "no system call and no named section",
            };
            // Writing to a string never fails.
            let _infallible = writeln!(text, "CPU {cpu}: task {} in {place}", task.id);
        }
        text
    }
}
