//! Aborts a test program that no longer makes progress, and prints where each of its threads waits.
//!
//! A lock that loses a wakeup makes its test sleep forever, and a CI machine hangs for hours. `use
//! convoy_watchdog as _;` in a test program starts a thread before `main` that samples all other
//! threads of the process and of its forks once a second. If none of them has run for [`LOOKS`]
//! samples in a row, it prints the activity that each thread announced with [`doing`], the word on
//! which it sleeps and its stack, and ends the process with [`EXIT`].
//!
//! The verdict does not depend on a clock. A runnable thread without a CPU does not count as
//! asleep, and the context switches of a thread that slept and woke have increased; so a busy
//! machine delays the verdict but does not change it. A process that waits for another program is
//! not considered hung.
//!
//! Threads that spin forever are not idle: with [`BUDGET`] in the environment the process ends in
//! the same way when it has used that many seconds of CPU time.
//!
//! On Linux; elsewhere, and under Miri, it does nothing.

use std::cell::RefCell;
use std::fmt::Display;

#[cfg(all(target_os = "linux", not(miri)))]
mod report;
#[cfg(all(target_os = "linux", not(miri)))]
mod start;
#[cfg(all(target_os = "linux", not(miri)))]
mod tree;

/// Number of consecutive samples, a second apart, that must find the same sleeping threads.
pub const LOOKS: u32 = 10;

/// Exit code of a process that was found idle or spinning.
pub const EXIT: i32 = 97;

/// The first word of the report.
pub const SIGN: &str = "watchdog:";

/// The environment variable with the CPU time that a process may use, in seconds.
pub const BUDGET: &str = "CONVOY_TEST_CPU_SECONDS";

thread_local! {
    static DOING: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Announces the activity of the calling thread, such as the lock that it acquires.
pub fn doing(what: impl Display) {
    DOING.set(what.to_string());
}
