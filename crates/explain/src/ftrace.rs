//! The window in the format of ftrace: `sched_switch`, `sched_wakeup`, `softirq_raise`,
//! `softirq_entry` and `softirq_exit`.

use crate::detail::{Detail, Step, What, Who};
use convoy_machine::Leave;
use core::fmt::Write;

/// The priority of a task of nice level 0 in the kernels' output.
pub(crate) const PRIORITY: i32 = 120;

/// Returns the letter of the state in which a task leaves its CPU.
fn letter(why: Leave) -> char {
    match why {
        Leave::Asleep => 'S',
        Leave::Runnable => 'R',
        Leave::Dead => 'X',
    }
}

/// Returns the text of `step`. `last` is the vector that began last on its CPU.
fn event(step: &Step, last: Option<(u32, &str)>) -> Option<String> {
    let comm = |who: Who| who.label.comm();
    match step.what {
        What::Switch { prev, why, next } => Some(format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={PRIORITY} prev_state={} ==> \
             next_comm={} next_pid={} next_prio={PRIORITY}",
            comm(prev),
            prev.tid(),
            letter(why),
            comm(next),
            next.tid()
        )),
        What::Wake { task, cpu } => Some(format!(
            "sched_wakeup: comm={} pid={} prio={PRIORITY} target_cpu={cpu:03}",
            comm(task),
            task.tid()
        )),
        What::Softirq(Some((vector, name))) => {
            Some(format!("softirq_entry: vec={vector} [action={name}]"))
        }
        What::Raise(vector, name) => Some(format!("softirq_raise: vec={vector} [action={name}]")),
        What::Softirq(None) => {
            last.map(|(vector, name)| format!("softirq_exit: vec={vector} [action={name}]"))
        }
        What::Lock { .. } | What::Mode(_) => None,
    }
}

impl Detail {
    /// Returns the text that `/sys/kernel/tracing/trace` would contain. The flags of the task are
    /// unknown and printed as dots.
    pub fn ftrace(&self) -> String {
        let mut vectors = vec![None; self.analysis.cpus.len()];
        let mut steps: Vec<(&Step, String)> = Vec::new();
        for step in &self.steps {
            steps.extend(event(step, vectors[step.cpu]).map(|text| (step, text)));
            if let What::Softirq(vector) = step.what {
                vectors[step.cpu] = vector;
            }
        }
        steps.sort_by_key(|(step, _)| step.at);
        let mut text = String::from("# tracer: nop\n#\n");
        let (count, cpus) = (steps.len(), self.analysis.cpus.len());
        let _ = writeln!(text, "# entries-in-buffer/entries-written: {count}/{count}   #P:{cpus}");
        text.push_str("#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n");
        text.push_str("#              | |         |   |||||     |         |\n");
        for (step, event) in steps {
            let (comm, tid, cpu) = (step.by.label.comm(), step.by.tid(), step.cpu);
            let (us, comm) = (step.at / 1_000_000, comm.chars().take(15).collect::<String>());
            let (seconds, part) = (us / 1_000_000, us % 1_000_000);
            let _ = writeln!(
                text,
                "{comm:>16}-{tid:<7} [{cpu:03}] ..... {seconds:>5}.{part:06}: {event}"
            );
        }
        text
    }
}
