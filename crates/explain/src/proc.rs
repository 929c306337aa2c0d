//! The account in the formats of the kernels' own files.

use crate::analysis::Analysis;
use crate::cpu::State;
use convoy_stats::LogHistogram;
use core::fmt::Write;

/// Clock ticks of user space in a second (`USER_HZ`).
const USER_HZ: u64 = 100;

/// A file of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcFile {
    /// `/proc/lock_stat`, version 0.4.
    LockStat,
    /// `/proc/schedstat`, version 15.
    Schedstat,
    /// `/proc/softirqs`.
    Softirqs,
    /// `/proc/stat`.
    Stat,
}

impl Analysis {
    /// Returns the contents of `file` for the measured part of the run, on a kernel with these
    /// software interrupts (`vectors`, in its order). A quantity that the machine does not model is
    /// 0.
    pub fn proc(&self, file: ProcFile, vectors: &[&str]) -> String {
        match file {
            ProcFile::LockStat => self.lock_stat(),
            ProcFile::Schedstat => self.schedstat(),
            ProcFile::Softirqs => self.softirqs(vectors),
            ProcFile::Stat => self.stat(vectors.len()),
        }
    }

    fn softirqs(&self, vectors: &[&str]) -> String {
        let mut text = format!("{:>20}", "");
        for cpu in 0..self.cpus.len() {
            let _ = write!(text, "{:<11}", format!("CPU{cpu}"));
        }
        text.push('\n');
        for (vector, name) in vectors.iter().enumerate() {
            let _ = write!(text, "{name:>12}:");
            for cpu in &self.cpus {
                let _ = write!(text, " {:>10}", cpu.softirqs[vector]);
            }
            text.push('\n');
        }
        text
    }

    fn lock_stat(&self) -> String {
        let rule = "-".repeat(193);
        let mut text = format!("lock_stat version 0.4\n{rule}\n");
        let heads = [
            "con-bounces",
            "contentions",
            "waittime-min",
            "waittime-max",
            "waittime-total",
            "waittime-avg",
            "acq-bounces",
            "acquisitions",
            "holdtime-min",
            "holdtime-max",
            "holdtime-total",
            "holdtime-avg",
        ];
        let _ = write!(text, "{:>40} ", "class name");
        for head in heads {
            let _ = write!(text, " {head:>14}");
        }
        let _ = writeln!(text, "\n{rule}\n");
        let mut classes: Vec<_> =
            self.locks.classes.iter().filter(|class| class.acquisitions > 0).collect();
        classes.sort_by_key(|class| core::cmp::Reverse((class.contended, class.acquisitions)));
        for class in classes {
            let _ = write!(text, "{:>40}:", class.name);
            let _ = write!(text, " {:>14} {:>14}", class.con_bounces, class.contended);
            text.push_str(&times(&class.wait, class.wait_sum));
            let _ = write!(text, " {:>14} {:>14}", class.acq_bounces, class.acquisitions);
            text.push_str(&times(&class.hold, class.hold_sum));
            text.push('\n');
        }
        text
    }

    fn schedstat(&self) -> String {
        let hz = 1_000_000_000_000 / USER_HZ;
        let mut text = format!("version 15\ntimestamp {}\n", self.now / hz);
        for (index, cpu) in self.cpus.iter().enumerate() {
            let ran: u64 = State::ALL
                .iter()
                .filter(|state| **state != State::Idle)
                .map(|state| cpu.times[*state as usize])
                .sum();
            let _ = writeln!(
                text,
                "cpu{index} 0 0 {} {} {} {} {} {} {}",
                cpu.schedules,
                cpu.went_idle,
                cpu.wakeups,
                cpu.wakeups_local,
                ran / 1000,
                cpu.queued / 1000,
                cpu.slices
            );
        }
        text
    }

    fn stat(&self, vectors: usize) -> String {
        let ticks = |ps: u64| ps / (1_000_000_000_000 / USER_HZ);
        let line = |name: &str, times: crate::cpu::Times| {
            let of = |state: State| times[state as usize];
            let system = of(State::System) + of(State::Spin) + of(State::Switch);
            format!(
                "{name} {} 0 {} {} 0 {} {} 0 0 0\n",
                ticks(of(State::User)),
                ticks(system),
                ticks(of(State::Idle)),
                ticks(of(State::Irq)),
                ticks(of(State::Softirq))
            )
        };
        let mut all = crate::cpu::Times::default();
        for cpu in &self.cpus {
            all.iter_mut().zip(cpu.times).for_each(|(sum, time)| *sum += time);
        }
        let mut text = line("cpu ", all);
        for (index, cpu) in self.cpus.iter().enumerate() {
            text.push_str(&line(&format!("cpu{index}"), cpu.times));
        }
        let sum = |count: fn(&crate::cpu::Cpu) -> u64| self.cpus.iter().map(count).sum::<u64>();
        let running = self.cpus.iter().filter(|cpu| cpu.task as usize >= self.cpus.len()).count();
        let _ = write!(
            text,
            "intr {}\nctxt {}\nbtime 0\nprocesses {}\nprocs_running {running}\nprocs_blocked 0\n\
             softirq {}",
            sum(|cpu| cpu.interrupts),
            self.switches,
            self.births,
            sum(|cpu| cpu.softirqs.iter().sum())
        );
        for vector in 0..vectors {
            let _ =
                write!(text, " {}", self.cpus.iter().map(|cpu| cpu.softirqs[vector]).sum::<u64>());
        }
        text.push('\n');
        text
    }
}

/// Returns the columns of a distribution: minimum, maximum, total and mean in microseconds.
fn times(histogram: &LogHistogram, sum_ps: u64) -> String {
    let us = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e3;
    let total = sum_ps as f64 / 1e6;
    let mean = total / (histogram.count() as f64).max(1.0);
    format!(
        " {:>14.2} {:>14.2} {total:>14.2} {mean:>14.2}",
        us(histogram.percentile(0.0)),
        us(histogram.max())
    )
}
