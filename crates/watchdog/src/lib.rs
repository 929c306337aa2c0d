//! Ends a test program in which nothing happens any more, and says where each of its threads waits.
//!
//! A lock that loses a wakeup makes its test sleep for good, and a build machine says nothing for
//! hours. `use convoy_watchdog as _;` in a test program starts a thread before `main` that looks
//! once a second at all other threads of the process and of its forks. When none of them has run
//! for [`LOOKS`] looks in a row, it prints what each thread said it was [`doing`], the word it
//! sleeps on and its stack, and ends the process with [`EXIT`].
//!
//! No clock decides. A thread that is ready but gets no CPU is no sleeping thread, and one that
//! slept and woke has another number of context switches; so a busy machine delays the verdict and
//! does not change it. A process that waits for another program is not judged.
//!
//! Threads that spin for good are not idle: with [`BUDGET`] in the environment the process ends in
//! the same way when it has used so many seconds of CPU time.
//!
//! On Linux; elsewhere, and under Miri, it does nothing.

use std::cell::RefCell;
use std::fmt::Display;

#[cfg(all(target_os = "linux", not(miri)))]
mod report;
#[cfg(all(target_os = "linux", not(miri)))]
mod tree;

/// Looks in a row that must find the same sleeping threads. A look comes a second after another.
pub const LOOKS: u32 = 10;

/// How a process ends that was found idle or spinning.
pub const EXIT: i32 = 97;

/// What the report begins with.
pub const SIGN: &str = "watchdog:";

/// The environment variable with the CPU time that a process may use, in seconds.
pub const BUDGET: &str = "CONVOY_TEST_CPU_SECONDS";

thread_local! {
    static DOING: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Notes what the calling thread does from now on, such as the lock that it takes.
pub fn doing(what: impl Display) {
    DOING.set(what.to_string());
}

#[cfg(all(target_os = "linux", not(miri)))]
mod start {
    use super::{BUDGET, LOOKS, report, tree};
    use std::time::Duration;

    /// What the C library runs before `main`.
    // SAFETY: the section holds addresses of functions that take nothing; this is one.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static START: extern "C" fn() = start;

    extern "C" fn start() {
        let watch = std::thread::Builder::new().name("watchdog".to_owned());
        // A machine that has no thread for it fails in the test itself.
        drop(watch.spawn(watch_for_good));
    }

    fn watch_for_good() {
        let budget = std::env::var(BUDGET).ok().and_then(|text| text.parse::<u64>().ok());
        let (mut before, mut same) = (None, 0);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = tree::sleeping_threads();
            same = if now.is_some() && now == before { same + 1 } else { 0 };
            before = now;
            if same >= LOOKS {
                report::and_end(&format!("no thread has run for {LOOKS} looks, all sleep"));
            }
            if budget.is_some_and(|seconds| tree::cpu_seconds() > seconds) {
                report::and_end("more CPU time used than sound tests need");
            }
        }
    }
}
