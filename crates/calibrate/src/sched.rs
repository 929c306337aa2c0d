//! Measures the costs of this machine's scheduler: a pass, a wakeup, and a switch to a thread with
//! cold caches; and the time for which a hypervisor polls before it stops an idle CPU.

use crate::probe::{MachineError, read};
use crate::wakeups::{Threads, ring};

/// Memory operations of one pass of `schedule` and of one wakeup of the virtual kernel, which are
/// priced apart, in nanoseconds: what `kernels/6.18.toml` lacks of the figures it was made from.
const SCHEDULE_APART_NS: f64 = 31.0;
const WAKE_APART_NS: f64 = 98.0;
/// Threads of the rings.
const RINGS: [usize; 9] = [2, 3, 4, 16, 64, 256, 1024, 2048, 4096];

/// The table `[sched_ns]`; a system call takes `call` nanoseconds.
pub(crate) fn steps(
    call: f64,
    threads: &Threads,
    take: &mut impl FnMut(&str, f64) -> f64,
) -> String {
    let pass = (threads.yield_alone - call).max(0.0);
    let wake = threads.pass_on - 2.0 * call - pass - threads.switch;
    let schedule = take("schedule", (pass - SCHEDULE_APART_NS).max(0.0));
    let wake = take("wake", (wake - WAKE_APART_NS).max(0.0));
    format!(
        "\n[sched_ns]\n# Measured: sched_yield of the only thread, less a system call and what is \
         priced apart.\nschedule = {schedule:.1}\n# Measured: passing on by a futex, less its \
         calls, that, the switch and what is priced apart.\nwake = {wake:.1}\n"
    )
}

/// The table `[cold_switch]`, measured on `cpu`: more threads never cost less.
pub(crate) fn cold_switch(
    cpu: usize,
    take: &mut impl FnMut(&str, f64) -> f64,
) -> Result<String, MachineError> {
    let near = ring(cpu, RINGS[0])?;
    let mut most: f64 = 0.0;
    let mut prices = vec!["0.0".to_owned()];
    for threads in &RINGS[1..] {
        most = take(&format!("ring of {threads}"), ring(cpu, *threads)? - near).max(most);
        prices.push(format!("{most:.1}"));
    }
    Ok(format!(
        "\n# Measured: one step of a ring of so many threads that wake each the next by a futex, \
         less that of two.\n[cold_switch]\nafter = {RINGS:?}\nns = [{}]\n",
        prices.join(", ")
    ))
}

/// For how long an idle CPU of a guest is polled, and how that is known. The guest's own driver
/// switches the polling of KVM off (`cpuidle-haltpoll.c`).
pub(crate) fn halt_poll() -> (f64, &'static str) {
    let driver = read("/sys/devices/system/cpu/cpuidle/current_driver");
    let own = read("/sys/module/haltpoll/parameters/guest_halt_poll_ns");
    match own.and_then(|ns| ns.parse().ok()) {
        Some(ns) if driver.as_deref() == Some("haltpoll") => {
            (ns, "Read from the kernel: the driver haltpoll polls, and the hypervisor does not.")
        }
        _ => (200_000.0, "Default of KVM (halt_poll_ns)."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_those_that_a_machine_preset_has() {
        let threads =
            Threads { pause: 1.0, clock: 20.0, yield_alone: 190.0, switch: 259.0, pass_on: 706.0 };
        let mut names = Vec::new();
        let mut take = |name: &str, ns: f64| {
            names.push(name.to_owned());
            ns
        };
        let text = steps(99.0, &threads, &mut take);
        // What kernels/6.18.toml has, from the same figures.
        assert!(text.contains("\nschedule = 60.0\n") && text.contains("\nwake = 60.0"), "{text}");
        let text = cold_switch(0, &mut take).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let list = |key: &str| table["cold_switch"][key].as_array().unwrap().clone();
        assert_eq!(list("after").len(), list("ns").len());
        let ns: Vec<f64> = list("ns").iter().map(|ns| ns.as_float().unwrap()).collect();
        assert!(ns[0] == 0.0 && ns.is_sorted(), "{ns:?}");
        assert_eq!(names.len(), 2 + RINGS.len() - 1);
    }
}
