//! The time-slice extension: a thread in user mode shares its CPU with another one.

use super::common::{kernel, preset, run_on};
use convoy_kernel::Options;
use convoy_machine::{Here, User};
use convoy_sync::Platform;
use convoy_workload::Kernel;
use std::cell::RefCell;
use std::rc::Rc;

const MS: u64 = 1_000_000;
/// Shorter pauses are interrupts.
const PAUSE_NS: u64 = 100_000;
/// One step of work, nanoseconds.
const STEP_NS: u64 = 500;

/// Where a thread lost its CPU, and in which nanosecond after the tick that wanted it.
#[derive(Default)]
struct Lost {
    in_section: Vec<u64>,
    after_it: Vec<u64>,
}

/// Runs two threads on one CPU for 200 ms; one of them is in critical sections of `section_ns`
/// almost always, and asks for an extension in each if it `asks`.
fn lost(extension_ns: u64, asks: bool, section_ns: u64) -> Lost {
    let lost = Rc::new(RefCell::new(Lost::default()));
    let (seen, mut kernel) = (Rc::clone(&lost), kernel("6.18"));
    kernel.config.slice_extension_ns = extension_ns;
    let tick_ns = 1_000_000_000 / u64::from(kernel.config.hz);
    let options = Options { processes: 10, ..Options::default() };
    run_on(&preset(1), &kernel, options, 1, move |process| {
        let end = Here::now_ns() + 200 * MS;
        let mut last = Here::now_ns();
        let mut pause = move || {
            let before = std::mem::replace(&mut last, Here::now_ns());
            (last - before > PAUSE_NS).then(|| (before + STEP_NS) % tick_ns)
        };
        let owner = move || {
            pause();
            while Here::now_ns() < end {
                if asks {
                    User::request_extension();
                }
                for _ in 0..section_ns / STEP_NS {
                    Here::compute(STEP_NS * 1000);
                    seen.borrow_mut().in_section.extend(pause());
                }
                if asks {
                    User::end_extension();
                }
                seen.borrow_mut().after_it.extend(pause());
            }
        };
        process.thread(0.0, Box::new(owner)).expect("room");
        let other = move || {
            while Here::now_ns() < end {
                Here::compute(STEP_NS * 1000);
            }
        };
        process.thread(0.0, Box::new(other)).expect("room");
        process.sleep(300 * MS);
    });
    Rc::into_inner(lost).expect("the threads have ended").into_inner()
}

#[test]
fn a_thread_that_asks_is_preempted_after_a_short_section() {
    let plain = lost(5000, false, 3000);
    assert!(plain.in_section.len() > 10, "{:?}", plain.in_section);
    let asked = lost(5000, true, 3000);
    assert!(asked.in_section.is_empty(), "{:?}", asked.in_section);
    assert!(asked.after_it.len() > 10, "{:?}", asked.after_it);
}

#[test]
fn a_thread_that_keeps_the_cpu_loses_it_when_the_extension_ends() {
    let plain = lost(5000, false, 10 * MS);
    assert!(plain.in_section.iter().all(|&after| after < 1000), "{:?}", plain.in_section);
    for extension in [5000, 50_000] {
        let asked = lost(extension, true, 10 * MS);
        assert!(!asked.in_section.is_empty());
        // The handlers of the tick take a few microseconds more.
        let ends = extension - 1000..extension + 10_000;
        // A request counts once.
        assert!(
            asked.in_section.iter().any(|after| ends.contains(after)),
            "{:?}",
            asked.in_section
        );
    }
}

#[test]
fn a_kernel_without_the_extension_ignores_the_request() {
    let (plain, asked) = (lost(0, false, 3000), lost(0, true, 3000));
    assert!(plain.in_section.len() > 10);
    assert_eq!((plain.in_section, plain.after_it), (asked.in_section, asked.after_it));
}
