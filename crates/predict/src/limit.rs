//! Which lock limits, and what disturbed the record: sentences.

use convoy_calibrate::hour::{self, Quartiles};
use convoy_record::{Lock, Process, Program};
use convoy_runs::replay::Behaviour;
use std::collections::BTreeMap;

/// Waits that take less than this share of the threads' CPU time limit nothing.
const WAITS: f64 = 0.01;

/// Which lock limits, or would be the first to, and from how many CPUs on.
pub(crate) fn limit(behaviour: &Behaviour, locks: &[&Lock]) -> String {
    let count: u64 = behaviour.sections.iter().map(|one| one.count).sum();
    let per_call = |lock: &Lock| {
        let (held_s, _) = lock.held_s(0.0);
        held_s / count.max(1) as f64 / lock.instances.max(1) as f64
    };
    let most = locks.iter().max_by(|a, b| per_call(a).total_cmp(&per_call(b)));
    let Some(lock) = most.filter(|lock| per_call(lock) > 0.0) else {
        return "No hold was timed, so no lock is known to limit.".to_owned();
    };
    let rate = 1.0 / per_call(lock);
    let cpus = (rate * behaviour.cpu_ns / 1e9).ceil().max(1.0);
    let site = lock.sites.first().map_or("", |site| site.place.as_str());
    let enough = if cpus < 2.0 { "CPU is" } else { "CPUs are" };
    let limits = if behaviour.wait_ns < WAITS * behaviour.cpu_ns {
        let name = &lock.name;
        format!(
            "Hardly any thread waits, so no lock limits yet; `{name}` in {site} would be the first"
        )
    } else {
        format!("`{}` in {site} limits", lock.name)
    };
    format!(
        "{limits}: as long as it is held now it allows {rate:.0} acquisitions a second in all, for \
         which {cpus:.0} {enough} enough; the record had {} and {:.0} a second.",
        behaviour.cpus, behaviour.rate
    )
}

/// A sentence, with a space before it, if wakeups of a record took so long that they tell of other
/// programs.
pub(crate) fn disturbed(prices_ns: &BTreeMap<String, Quartiles>) -> Option<String> {
    let odd = prices_ns.iter().filter(|(_, ns)| !hour::is_price(ns));
    let (key, [_, median, _]) = odd.max_by(|one, other| one.1[1].total_cmp(&other.1[1]))?;
    Some(format!(
        " Other programs had the CPUs when this was recorded ({key} would be {:.1} ms), so wakeups \
         cost what the machine preset says; record again on a quiet machine.",
        median / 1e6
    ))
}

/// A sentence, with a space before it, if other programs had CPUs that the replay has for itself.
pub(crate) fn beside(program: &Program) -> Option<String> {
    /// Of the CPUs, what matters.
    const MUCH: f64 = 0.1;
    let cpus = program.disturbance.others_s / program.wall_s.max(1e-9);
    (cpus > MUCH * f64::from(program.cpus)).then(|| {
        format!(
            " Other programs had {cpus:.1} of {} CPUs meanwhile, which the replay has for itself: \
             where threads sleep or yield, it is faster than the record for that.",
            program.cpus
        )
    })
}

/// A sentence, with a space before it, if watching the kernel cost the program much: what another
/// lock changes is a smaller part of a program that does more.
pub(crate) fn watched(process: &Process) -> Option<String> {
    /// Seconds that a switch takes longer: `sysbench threads` with 16 threads on one CPU of a Xeon
    /// at 2.3 GHz, beside `--kernel off`.
    const LONGER_S: f64 = 0.6e-6;
    /// Of its CPU time.
    const MUCH: f64 = 0.05;
    let seen = process.scheduling?;
    let switches = (seen.preemptions + seen.sleeps) as f64;
    let part = switches * LONGER_S / process.cpu_s.max(1e-9);
    (part > MUCH).then(|| {
        format!(
            " Watching the kernel took some {:.0} % of the CPU time, as threads were switched \
             {:.0} times a second: a record with --kernel off predicts better.",
            100.0 * part.min(1.0),
            switches / process.seconds.max(1e-9)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Site, Times};
    use convoy_runs::replay::Section;

    #[test]
    fn a_lock_that_nobody_waits_for_does_not_limit() {
        let hold_on = Times { count: 1000, total_s: 1e-3, ..Times::default() };
        let site =
            Site { place: "put (queue.c:7)".to_owned(), count: 1000, hold_on, ..Site::default() };
        let lock =
            Lock { name: "queue".to_owned(), instances: 1, sites: vec![site], ..Lock::default() };
        let section = Section { count: 1000, threads: 2, ..Section::default() };
        let mut behaviour = Behaviour {
            sections: vec![section],
            cpus: 2,
            rate: 1e5,
            cpu_ns: 4000.0,
            ..Behaviour::default()
        };
        let text = limit(&behaviour, &[&lock]);
        assert!(
            text.starts_with("Hardly any thread waits, so no lock limits yet; `queue` in"),
            "{text}"
        );
        assert!(
            text.contains("1000000 acquisitions a second in all, for which 4 CPUs are"),
            "{text}"
        );
        behaviour.wait_ns = 4000.0;
        let text = limit(&behaviour, &[&lock]);
        assert!(text.starts_with("`queue` in put (queue.c:7) limits: "), "{text}");
    }

    #[test]
    fn other_programs_are_named_if_they_had_much() {
        let mut program = Program { wall_s: 2.0, cpus: 2, ..Program::default() };
        program.disturbance.others_s = 0.2;
        assert_eq!(beside(&program), None);
        program.disturbance.others_s = 2.0;
        let said = beside(&program).expect("half of the machine");
        assert!(said.starts_with(" Other programs had 1.0 of 2 CPUs"), "{said}");
    }

    #[test]
    fn a_look_at_the_kernel_is_named_if_it_cost_much() {
        let of = |preemptions| {
            let seen = convoy_record::Scheduling { preemptions, sleeps: 0, ..Default::default() };
            Process { cpu_s: 1.0, seconds: 2.0, scheduling: Some(seen), ..Process::default() }
        };
        assert_eq!(watched(&of(10_000)), None);
        assert_eq!(watched(&Process::default()), None);
        let said = watched(&of(500_000)).expect("a third of its time");
        assert!(said.contains("30 % of the CPU time") && said.contains("250000 times"), "{said}");
    }

    #[test]
    fn wakeups_beside_other_programs_are_left_out_and_named() {
        let prices = |ipi| BTreeMap::from([("price_ns.ipi".to_owned(), ipi)]);
        assert_eq!(disturbed(&prices([18e3, 20e3, 31e3])), None);
        let said = disturbed(&prices([36e3, 3.99e6, 5.0e6])).expect("a tick is no price");
        assert!(said.starts_with(" Other programs had the CPUs") && said.contains("4.0 ms"));
    }
}
