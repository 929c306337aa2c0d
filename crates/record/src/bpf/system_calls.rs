//! The programs at system calls. While they are attached, every system call of every process on the
//! machine takes a longer path in the kernel, so they are detached where that costs much and there
//! is little to see: in servers that wait for events, which seldom call futex(2).

use convoy_os::bpf::{Link, Program, ProgramKind};
use std::io;
use std::time::{Duration, Instant};

use super::btf::Offsets;
use super::programs::{AT_CALLS, code};
use super::tables::{Tables, bytes, calls};

/// Minimum time for which the programs stay attached, and after which their use is judged.
const TRIAL: Duration = Duration::from_millis(500);
/// Time that the programs add to a system call, in seconds; measured on an AMD EPYC
/// (`results/record.md`).
const CALL_S: f64 = 130e-9;
/// Share of a CPU that they may cost where they see little.
const SHARE: f64 = 0.01;
/// System calls for each wait in futex(2) above which they see little.
const CALLS_FOR_A_WAIT: u64 = 1000;
/// Sleeps in futex(2) per second from which on they are attached again, and a number of sleeps that
/// is too small for a decision.
const SLEEPS_PER_S: f64 = 100.0;
const FEW_SLEEPS: u64 = 10;

/// The programs at system calls.
pub(super) struct SystemCalls {
    programs: [(&'static std::ffi::CStr, Program); 2],
    links: Vec<Link>,
    /// Since when they are attached, or not, and the numbers at that time.
    since: Instant,
    then: [u64; 2],
}

impl SystemCalls {
    /// Loads and attaches the programs.
    pub(super) fn new(tables: &Tables, offsets: Offsets) -> io::Result<Self> {
        let [enter, leave] = AT_CALLS.map(|(name, tracepoint, write)| {
            let kind = ProgramKind::Tracepoint;
            Program::load(name, kind, &code(write, tables, offsets))
                .map(|program| (tracepoint, program))
        });
        let programs = [enter?, leave?];
        let mut found = Self { programs, links: Vec::new(), since: Instant::now(), then: [0; 2] };
        found.attach()?;
        Ok(found)
    }

    fn attach(&mut self) -> io::Result<()> {
        for (tracepoint, program) in &self.programs {
            self.links.push(program.attach(tracepoint)?);
        }
        Ok(())
    }

    /// Returns whether they are attached.
    pub(super) fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// Detaches the programs for good.
    pub(super) fn end(&mut self) {
        self.links.clear();
    }

    /// Detaches the programs if they cost much and see little, and attaches them again when threads
    /// begin to sleep in futex(2).
    pub(super) fn adapt(&mut self, tables: &Tables) {
        let elapsed = self.since.elapsed();
        let called = tables.called();
        if self.links.is_empty() {
            let slept = called[calls::SLEEPS] - self.then[1];
            if is_enough(slept, elapsed) && self.attach().is_ok() {
                self.mark(tables, called, 0);
            }
        } else if elapsed >= TRIAL {
            let passed = tables.passed().wrapping_sub(self.then[0]);
            let waits = called[calls::WAITS].saturating_sub(self.then[1]);
            if is_dear(passed, waits, elapsed) {
                self.links.clear();
                self.mark(tables, called, 1);
            } else {
                (self.then, self.since) = ([tables.passed(), called[calls::WAITS]], Instant::now());
            }
        }
    }

    /// Tells the other programs whether these are detached, and notes the numbers at that time.
    fn mark(&mut self, tables: &Tables, mut called: Vec<u64>, unwatched: u64) {
        called[calls::UNWATCHED] = unwatched;
        let _full = tables.calls.set(&0_u32.to_le_bytes(), &bytes(&called));
        let counted = if unwatched == 1 { calls::SLEEPS } else { calls::WAITS };
        (self.then, self.since) = ([tables.passed(), called[counted]], Instant::now());
    }
}

/// Returns whether it costs too much to watch these system calls for the waits among them.
fn is_dear(passed: u64, waits: u64, elapsed: Duration) -> bool {
    passed as f64 * CALL_S > SHARE * elapsed.as_secs_f64() && waits * CALLS_FOR_A_WAIT < passed
}

/// Returns whether threads slept in futex(2) often enough for their waits to be watched.
fn is_enough(slept: u64, elapsed: Duration) -> bool {
    slept > FEW_SLEEPS && slept as f64 > SLEEPS_PER_S * elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_waits_for_events_is_watched_again_when_its_threads_sleep_in_futexes() {
        let second = Duration::from_secs(1);
        assert!(is_dear(500_000, 3, second), "an event loop");
        assert!(!is_dear(500_000, 2000, second), "threads that wait for each other");
        assert!(!is_dear(20_000, 0, second), "few system calls");
        assert!(!is_enough(9, second / 100), "too few for a decision");
        assert!(is_enough(40, second / 20) && !is_enough(40, second));
    }
}
