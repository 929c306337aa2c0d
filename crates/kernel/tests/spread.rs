//! How fast tasks that never sleep spread from two CPUs over a machine of 64.

use convoy_kernel::KernelPreset;
use convoy_kernel::sched::Sched;
use convoy_machine::{Here, Machine, Outcome, Preset};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const MS_NS: u64 = 1_000_000;
const LONGEST_MS: usize = 300;

/// 64 tasks start on CPUs 1 and 2 of `machine`. Returns the number of CPUs that run one of them in
/// each millisecond.
fn used(kernel: &str, machine: &str) -> Vec<usize> {
    let preset = Preset::named(machine).expect("a shipped preset");
    let kernel = KernelPreset::named(kernel).expect("a shipped preset");
    let machine = Machine::new(&preset, 1, 300).expect("address space");
    let sched = Sched::new(&kernel, &preset);
    let used = Rc::new(RefCell::new(vec![BTreeSet::new(); LONGEST_MS]));
    let (inner, seen) = (Rc::clone(&sched), Rc::clone(&used));
    let scene = move || {
        inner.sleep_until(Here::now_ns() + 100 * MS_NS);
        let start = Here::now_ns();
        for task in 0..64 {
            let seen = Rc::clone(&seen);
            let spin = move || {
                loop {
                    Here::user(250_000_000);
                    let ms = (Here::now_ns() - start) / MS_NS;
                    if let Some(cpus) = seen.borrow_mut().get_mut(ms as usize) {
                        cpus.insert(Here::cpu());
                    }
                }
            };
            inner.fork_on(1 + task % 2, Box::new(spin)).expect("room");
        }
        inner.sleep_until(start + LONGEST_MS as u64 * MS_NS);
        Here::stop();
    };
    sched.boot(&machine, Box::new(scene));
    assert_eq!(machine.run(100_000_000_000), Outcome::Stopped);
    used.borrow().iter().map(BTreeSet::len).collect()
}

/// Milliseconds until the tasks run on `cpus` CPUs at once.
fn until(used: &[usize], cpus: usize) -> usize {
    used.iter().position(|&used| used >= cpus).unwrap_or(LONGEST_MS)
}

/// With ticks of 1 ms each kick fills one CPU, the one that was kicked: it balances for itself
/// first, and then has work.
#[test]
fn up_to_4_0_each_kick_fills_one_cpu() {
    for kernel in ["3.7", "3.10"] {
        let used = used(kernel, "xeon-64-2011-8x8");
        assert!((20..40).contains(&until(&used, 32)), "{kernel}: {used:?}");
        assert!((45..75).contains(&until(&used, 60)), "{kernel}: {used:?}");
    }
}

/// The kicked CPU balances for all others first, so one tick of 4 ms and the next find most of the
/// idle CPUs.
#[test]
fn from_4_1_on_a_kick_serves_all_idle_cpus() {
    for machine in ["xeon-64-2011", "xeon-64-2011-8x8", "server-2x64"] {
        let used = used("6.18", machine);
        assert!(until(&used, 56) <= 8, "{machine}: {used:?}");
    }
}

/// With load tracking an idle group takes tasks by their utilisation, which is low as long as many
/// share a CPU: the first one takes most of them, and shares them out.
#[test]
fn with_load_tracking_half_of_the_cpus_are_busy_at_once() {
    for machine in ["xeon-64-2011", "xeon-64-2011-8x8", "server-2x64"] {
        let used = used("current", machine);
        assert!(until(&used, 32) <= 8, "{machine}: {used:?}");
    }
    let [early, late] = ["6.18", "current"].map(|kernel| used(kernel, "xeon-64-2011-8x8"));
    assert!(until(&early, 56) < until(&late, 56), "{early:?} {late:?}");
}
