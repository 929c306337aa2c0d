//! Convoy's checker, loom and shuttle on six programs that all three can express: executions, CPU
//! seconds, and what each finds in the broken program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A search ends after this time.
const LIMIT: Duration = Duration::from_secs(60);
/// Executions of Convoy's checker.
const EXECUTIONS: u64 = 10_000_000;
/// Executions of shuttle's random scheduler (probabilistic concurrency testing, depth 3).
const RANDOM: usize = 100_000;

mod convoy {
    mod platform {
        pub use convoy_checker::program::cell::UnsafeCell;
        pub use convoy_checker::program::hint::spin_loop;
        pub use convoy_checker::program::sync::{Arc, Condvar, Mutex, atomic};
        pub use convoy_checker::program::thread;
    }
    include!("programs.rs");
}

mod under_loom {
    mod platform {
        pub use loom::cell::UnsafeCell;
        pub use loom::hint::spin_loop;
        pub use loom::sync::{Arc, Condvar, Mutex, atomic};
        pub use loom::thread;
    }
    include!("programs.rs");
}

mod under_shuttle {
    mod platform {
        pub use shuttle::hint::spin_loop;
        pub use shuttle::sync::{Arc, Condvar, Mutex, atomic};
        pub use shuttle::thread;

        /// Shuttle has no cells: it finds no races.
        pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

        impl<T> UnsafeCell<T> {
            pub fn new(value: T) -> Self {
                Self(std::cell::UnsafeCell::new(value))
            }
            pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
                read(self.0.get())
            }
            pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
                write(self.0.get())
            }
        }
    }
    include!("programs.rs");
}

type Program = fn(usize, bool);

/// CPU seconds of this thread.
fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is a valid place for the result.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "a clock of Linux");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Prints executions, CPU seconds, and the end of a search.
fn measured(search: impl FnOnce() -> (u64, String)) -> String {
    let before = seconds();
    let (executions, end) = search();
    format!("{executions} | {:.4} | {end}", seconds() - before)
}

fn first_line(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    text.lines().find(|line| !line.is_empty()).unwrap_or("").chars().take(60).collect()
}

fn with_convoy(program: Program, threads: usize, broken: bool) -> (u64, String) {
    use convoy_checker::program::Check;
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let budget = convoy_checker::Budget { executions: EXECUTIONS, ..Default::default() };
    let check = Check { threads: threads.max(3), budget, ..Check::default() };
    let result = check.explore(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        program(threads, broken);
    });
    let executions = count.load(Ordering::Relaxed);
    match result {
        Ok(checked) if checked.exhaustive => (executions, "exhausted".to_owned()),
        Ok(_) => (executions, "budget used".to_owned()),
        Err(broken) => (executions, format!("finds {}", broken.property.name())),
    }
}

fn with_loom(program: Program, threads: usize, broken: bool) -> (u64, String) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let started = std::time::Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = loom::model::Builder::new();
        builder.max_duration = Some(LIMIT);
        builder.max_branches = 10_000;
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            program(threads, broken);
        });
    }));
    let end = match result {
        Ok(()) if started.elapsed() < LIMIT => "exhausted".to_owned(),
        Ok(()) => "time used".to_owned(),
        Err(panic) => format!("finds: {}", first_line(&*panic)),
    };
    (count.load(Ordering::Relaxed), end)
}

fn with_shuttle(program: Program, threads: usize, broken: bool) -> (u64, String) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let started = std::time::Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut config = shuttle::Config::default();
        config.failure_persistence = shuttle::FailurePersistence::None;
        config.max_steps = shuttle::MaxSteps::ContinueAfter(3000);
        config.max_time = Some(LIMIT);
        let body = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            program(threads, broken);
        };
        if broken {
            let scheduler = shuttle::scheduler::PctScheduler::new(3, RANDOM);
            shuttle::Runner::new(scheduler, config).run(body);
        } else {
            let scheduler = shuttle::scheduler::DfsScheduler::new(None, false);
            shuttle::Runner::new(scheduler, config).run(body);
        }
    }));
    let end = match result {
        Ok(()) if broken => "finds nothing".to_owned(),
        Ok(()) if started.elapsed() < LIMIT => "exhausted".to_owned(),
        Ok(()) => "time used".to_owned(),
        Err(panic) => format!("finds: {}", first_line(&*panic)),
    };
    (count.load(Ordering::Relaxed), end)
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    macro_rules! programs {
        ($($name:ident $threads:literal),+) => {
            [$((stringify!($name), $threads,
                [convoy::$name as Program, under_loom::$name, under_shuttle::$name])),+]
        };
    }
    let programs = programs![
        ticket_lock 2, ticket_lock 3, test_and_set 2, test_and_set 3, peterson 2, ring 2,
        reference_count 3, queue 3
    ];
    // Names of programs, and the name of one checker as `only=`.
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let only = wanted.iter().find_map(|word| word.strip_prefix("only=")).unwrap_or("").to_owned();
    wanted.retain(|word| !word.starts_with("only="));
    println!(
        "| program | threads | checker | executions | CPU s | end |\n|---|--:|---|--:|--:|---|"
    );
    for (name, threads, [convoy, loom, shuttle]) in programs {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        for broken in [false, true] {
            let title = if broken { format!("{name}, broken") } else { name.to_owned() };
            type Search = fn(Program, usize, bool) -> (u64, String);
            let searches: [(&str, Search, Program); 3] = [
                ("convoy", with_convoy, convoy),
                ("shuttle", with_shuttle, shuttle),
                // Last: it aborts when it reports the lost wakeup of the queue.
                ("loom", with_loom, loom),
            ];
            for (checker, search, program) in searches {
                if !only.is_empty() && only != checker {
                    continue;
                }
                let row = measured(|| search(program, threads, broken));
                println!("| {title} | {threads} | {checker} | {row} |");
            }
        }
    }
}
