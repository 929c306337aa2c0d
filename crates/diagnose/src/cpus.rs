//! The CPUs that were in use while a program was recorded.

use convoy_record::Record;
use serde::Serialize;

/// Mean numbers of CPUs that were in use during the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpusInUse {
    /// By the program.
    pub program: f64,
    /// By other programs.
    pub others: f64,
    /// Number of CPUs.
    pub cpus: f64,
}

impl CpusInUse {
    pub(crate) fn of(record: &Record) -> Self {
        let program = &record.program;
        let cpu_s: f64 = record.processes.iter().map(|process| process.cpu_s).sum();
        Self {
            // An imported record need not contain the time of the run.
            program: if program.wall_s > 0.0 { cpu_s / program.wall_s } else { 0.0 },
            others: program.other_cpus(),
            cpus: f64::from(program.cpus.max(1)),
        }
    }

    /// Returns whether more threads can run: a CPU was idle for a part of the time.
    pub(crate) fn has_room(self) -> bool {
        /// Minimum part of the time of all CPUs.
        const ROOM: f64 = 0.1;
        self.idle() >= ROOM
    }

    /// Returns the part of the time of the CPUs that was idle.
    pub(crate) fn idle(self) -> f64 {
        1.0 - (self.program + self.others) / self.cpus
    }
}
