//! The collapse of May 2008 comes out of the mechanism, and only for the hand-off.

use crate::{point, shared};
use convoy_kernel::sched::Order;
use convoy_kernel::{KernelPreset, StandardInput};
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use std::sync::LazyLock;

const QUAD: &str = "quad-2008-two-dies";
/// Enough for a convoy to last; the published runs have 2000.
const USERS: u32 = 120;

fn run(kernel: &str, change: impl FnOnce(&mut KernelPreset)) -> VirtualPoint {
    let mut run = VirtualRun { pool_users: 2000, ..shared(kernel, QUAD, USERS) };
    // Tasks are few, so contention must come early: the longest hold that the estimates allow.
    run.kernel.bkl_traffic.hold_tty_ns = 40_000.0;
    change(&mut run.kernel);
    let point = point(&run);
    assert_eq!(point.jobs_failed, 0, "{kernel}: {:?}", point.first_failure);
    assert_eq!(point.jobs_done, u64::from(USERS) * 97);
    point
}

/// The run that collapses, for both tests that compare others with it.
static HAND_OFF: LazyLock<VirtualPoint> = LazyLock::new(|| run("2.6.26-rc1", |_| {}));

#[test]
fn only_the_hand_off_collapses() {
    let base = run("2.6.25", |_| {});
    for kernel in ["2.6.26-rc1+semaphore-speedup", "2.6.26-rc1+bkl-spinlock"] {
        let point = run(kernel, |_| {});
        assert!(point.idle_percent < 2.0, "{kernel}: idle {} %", point.idle_percent);
        let loss = 1.0 - point.columns.jobs_per_min / base.columns.jobs_per_min;
        assert!(loss.abs() < 0.04, "{kernel}: loss {loss}");
        assert!((point.cpu_s / base.cpu_s - 1.0).abs() < 0.03, "{kernel}: {} s", point.cpu_s);
    }
    let point = &*HAND_OFF;
    assert!(base.idle_percent < 2.0, "2.6.25: idle {} %", base.idle_percent);
    assert!((30.0..60.0).contains(&point.idle_percent), "idle {} %", point.idle_percent);
    let bkl = point.bkl.as_ref().expect("2.6.26-rc1 has the lock");
    assert!((1.5..4.0).contains(&bkl.owner_change_ms), "{} ms", bkl.owner_change_ms);
    assert!(bkl.owner_not_running_percent > 80.0);
    assert!((point.cpu_s / base.cpu_s - 1.0).abs() < 0.03, "{} s", point.cpu_s);
}

#[test]
fn the_rule_that_breaks_work_conservation_is_the_hot_buddy() {
    let without = run("2.6.26-rc1", |kernel| {
        let rules = kernel.sched.cfs.as_mut().expect("rules of its class");
        (rules.buddy_hot, rules.order) = (false, Order::NewestFirst);
    });
    assert!(without.idle_percent < HAND_OFF.idle_percent / 2.0, "{}", without.idle_percent);
}

/// Longest latency of a switch of the console beside 120 users, milliseconds.
fn console(kernel: &str) -> f64 {
    let point = point(&VirtualRun { console: true, ..shared(kernel, QUAD, 120) });
    assert_eq!(point.jobs_done, 120 * 97, "the console is no user");
    let second = point.console_ms.len() as f64;
    assert!(
        second >= 1.0 && second <= point.columns.real_s,
        "{second} in {}",
        point.columns.real_s
    );
    point.console_ms.iter().copied().fold(0.0, f64::max)
}

#[test]
fn a_switch_of_the_console_waits_for_the_convoy() {
    let (convoy, repaired) = (console("2.6.26-rc1"), console("2.6.26-rc1+semaphore-speedup"));
    assert!(convoy > 2.0 * repaired, "{convoy} ms, with the repair {repaired} ms");
}

/// Acquisitions of the big kernel lock for each of 20 users.
fn acquisitions(kernel: &str, input: StandardInput) -> f64 {
    let point = point(&VirtualRun { input, shrink: 1000, ..shared(kernel, QUAD, 20) });
    point.bkl.expect("it has the lock").per_user
}

#[test]
fn the_name_of_a_piped_input_is_not_looked_up() {
    let kernel = "2.6.26-rc1+bkl-spinlock";
    let [terminal, piped] =
        [StandardInput::Terminal, StandardInput::Pipe].map(|input| acquisitions(kernel, input));
    // One process of each user asks ten times, and its entry in /proc is looked up once.
    assert!((terminal - piped - 1.0).abs() < 1e-9, "{terminal} and {piped}");
}

/// With many CPUs tasks are pushed, pulled and woken while they leave a CPU, and their numbers are
/// used again at once. A task that two CPUs ran ended this in a livelock.
fn comes_to_an_end(cpus: usize, users: u32) {
    let mut run = VirtualRun { shrink: 1000, ..shared("2.6.26-rc1+bkl-spinlock", QUAD, users) };
    run.machine.topology.cpus = cpus;
    let point = point(&run);
    assert_eq!(point.jobs_failed, 0, "{:?}", point.first_failure);
    assert_eq!(point.jobs_done, u64::from(users) * 97);
}

#[test]
fn hundreds_of_cpus_come_to_an_end() {
    comes_to_an_end(256, 300);
}

#[test]
#[ignore = "80 s of CPU time; `cargo xtask nightly` runs it"]
fn a_thousand_cpus_come_to_an_end() {
    comes_to_an_end(1024, 1200);
}
