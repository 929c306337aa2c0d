//! Reasons to doubt a prediction. A doubt that refuses removes the rows; other doubts are printed
//! with them.

use convoy_record::{Process, Program};
use convoy_runs::replay::{Behaviour, Gates};
use serde::Serialize;

use crate::others::others_cpus;
use crate::point::Point;
use crate::target::is_unmeasured;
use crate::units::{self, duration};

/// One reason for doubt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Doubt {
    /// The reason, as a sentence.
    pub text: String,
    /// Whether the replay is refused, so that there are no rows.
    pub refuses: bool,
}

impl Doubt {
    pub(crate) fn note(text: impl Into<String>) -> Self {
        Self { text: text.into(), refuses: false }
    }

    pub(crate) fn refusal(text: impl Into<String>) -> Self {
        Self { text: text.into(), refuses: true }
    }
}

/// Returns the doubts that follow from the record itself.
pub(crate) fn of_record(
    program: &Program,
    process: &Process,
    behaviour: &Behaviour,
    most_cpus: u32,
) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if let Some(cpus) = others_cpus(program) {
        let had =
            format!("Other programs had {cpus:.1} of {} CPUs during the recording", program.cpus);
        doubts.push(match behaviour.ready_ns {
            Some(_) => Doubt::note(format!(
                "{had}. The rows are for the program alone; the replay of the record has the other \
                 programs, too."
            )),
            None => Doubt::refusal(format!(
                "{had}, and the record does not tell sleep from waiting for a CPU; record the \
                 program again, on a quiet machine or as root."
            )),
        });
    }
    if program.cpus == 1 && most_cpus > 1 {
        doubts.push(Doubt::note(
            "The program was recorded on one CPU, so what a critical section costs after its data \
             moved from another CPU is not known. With more CPUs the throughput may be lower than \
             predicted.",
        ));
    }
    if is_unmeasured(program) {
        doubts.push(Doubt::note(
            "What wakeups took was not measured, since other programs used the CPUs: the \
             simulations range from the machine alone to a guest of a hypervisor.",
        ));
    }
    if behaviour.script.as_ref().is_some_and(|script| script.has_guesses()) {
        doubts.push(Doubt::note(
            "A thread waited for a lock from its first call on, so how often it would call is not \
             known: the simulations range from a thread that calls it again immediately to a \
             thread that calls it again after a second.",
        ));
    }
    doubts.extend(watched(process));
    doubts
}

/// Returns a doubt if recording kernel events cost the program much: the effect of another lock is
/// then a smaller part of the recorded times.
fn watched(process: &Process) -> Option<Doubt> {
    /// Seconds by which recording prolongs a switch: `sysbench threads` with 16 threads on one CPU
    /// of a Xeon at 2.3 GHz, compared with `--kernel off`.
    const LONGER_S: f64 = 0.6e-6;
    /// Share of the CPU time of the program.
    const MUCH: f64 = 0.05;
    let seen = process.scheduling?;
    let switches = (seen.preemptions + seen.sleeps) as f64;
    let part = switches * LONGER_S / process.cpu_s.max(1e-9);
    (part > MUCH).then(|| {
        Doubt::note(format!(
            "Recording kernel events took about {:.0} % of the CPU time, as threads were switched \
             {:.0} times per second; a record with --kernel off gives a better prediction.",
            100.0 * part.min(1.0),
            switches / process.seconds.max(1e-9)
        ))
    })
}

/// Returns a doubt if waits often ended only because no thread could run.
pub(crate) fn slips(gates: &[Gates]) -> Option<Doubt> {
    /// Share of all waits.
    const OFTEN: f64 = 0.01;
    /// Share of all waits above which the replay makes no progress by itself.
    const MOSTLY: f64 = 0.2;
    let sum = |of: fn(&Gates) -> u64| gates.iter().map(of).sum::<u64>() as f64;
    let share = sum(|one| one.slips) / sum(|one| one.waits).max(1.0);
    (share > OFTEN).then(|| Doubt {
        text: format!(
            "In {:.0} % of the waits for other threads all threads of the replay waited, and one \
             was let go: the order of the program's signals was not found.",
            100.0 * share
        ),
        refuses: share > MOSTLY,
    })
}

/// Largest ratio between the recorded and the replayed throughput.
const RATE: f64 = 1.15;

/// Largest ratio between the recorded and the replayed CPU time of an acquisition, if the replay is
/// fitted to it.
const CPU: f64 = 1.3;
/// Share of the CPUs used by the program below which its CPU time does not matter.
const USED: f64 = 0.2;

/// Returns a refusal if the recorded throughput is not between two replays: with other programs
/// that are preferred to this one (`beside`), and `alone`, on all CPUs or on the CPU time that the
/// others left. The record does not contain when other programs used which CPUs, so their effect is
/// bounded and not fitted. With others a program may also be faster, if late threads are not woken
/// unnecessarily. The CPU time of `recorded` assumes the same shares of the classes of threads as
/// in `alone`.
pub(crate) fn differs_beside(
    recorded: &Point,
    beside: &Point,
    alone: &Point,
    cpus: f64,
    others_cpus: f64,
) -> Option<Doubt> {
    let [rate, beside, all] = [recorded, beside, alone].map(|point| point.acquisitions_per_s);
    let cpus_used = all * alone.cpu_us / 1e6;
    let left = all * ((cpus - others_cpus) / cpus_used).clamp(0.0, 1.0);
    let [cpu_us, found_us] = [recorded, alone].map(|point| point.cpu_us);
    let is_much = (rate * cpu_us).max(all * found_us) / 1e6 > USED * cpus;
    if is_much && cpu_us.max(found_us) > CPU * cpu_us.min(found_us) {
        return Some(Doubt::refusal(format!(
            "The replay is not this program: an acquisition takes {} of CPU time where {} were \
             recorded, and other programs had too much of the CPUs for the throughput to tell \
             more.",
            duration(found_us),
            duration(cpu_us)
        )));
    }
    (rate * RATE < left.min(beside) || rate > all.max(beside) * RATE).then(|| {
        Doubt::refusal(format!(
            "The replay is not this program: {:.0} acquisitions per second were recorded, and the \
             replay has {:.0} alone and {:.0} with the other programs.",
            units::rate(rate),
            units::rate(all),
            units::rate(beside)
        ))
    })
}

/// Returns a refusal if the replay differs from the record, in which each thread acquires a lock
/// every `turn_us`.
pub(crate) fn differs(recorded: &Point, replayed: &Point, turn_us: f64) -> Option<Doubt> {
    /// Largest ratio between the recorded and the replayed mean wait, which is not fitted.
    const WAIT: f64 = 3.0;
    /// Share of a turn below which a difference between waits does not matter.
    const LITTLE: f64 = 0.3;
    let off = |of: fn(&Point) -> f64| {
        let (one, other) = (of(recorded), of(replayed));
        one.max(other) / one.min(other).max(f64::MIN_POSITIVE)
    };
    let other = |of: fn(&Point) -> f64| {
        (of(recorded) - of(replayed)).abs() > LITTLE * turn_us && off(of) > WAIT
    };
    let times = |of: fn(&Point) -> f64| [duration(of(recorded)), duration(of(replayed))];
    let (what, [one, two]) = match () {
        () if off(|one| one.acquisitions_per_s) > RATE => {
            let [one, two] = [recorded, replayed]
                .map(|point| format!("{:.0}", units::rate(point.acquisitions_per_s)));
            ("throughput", [one, two + " acquisitions per second"])
        }
        () if other(|one| one.wait_mean_us) => ("mean wait", times(|one| one.wait_mean_us)),
        () if other(|one| one.idle_mean_us) => {
            ("mean wait for other threads", times(|one| one.idle_mean_us))
        }
        () => return None,
    };
    Some(Doubt::refusal(format!(
        "The replay is not this program: its {what} is {two} where {one} were recorded, so nothing \
         follows from it."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rate: f64, wait_us: f64) -> Point {
        Point {
            what: "recorded",
            acquisitions_per_s: rate,
            cpu_us: 1.0,
            wait_mean_us: wait_us,
            idle_mean_us: 0.0,
        }
    }

    #[test]
    fn a_replay_that_misses_its_record_is_refused() {
        fn beside(rate: f64, least: f64) -> Option<Doubt> {
            let (beside, alone) = (point(least, 0.0), point(1000.0, 0.0));
            differs_beside(&point(rate, 0.0), &beside, &alone, 2.0, 1.0)
        }
        let found = |rate, wait_us| differs(&point(1000.0, 10.0), &point(rate, wait_us), 100.0);
        assert_eq!(found(1000.0, 10.0), None);
        assert_eq!(found(1100.0, 35.0), None, "25 us of a turn of 100 do not matter");
        assert!(found(1200.0, 10.0).is_some_and(|doubt| doubt.refuses));
        assert!(found(1000.0, 45.0).is_some());
        assert_eq!([500.0, 700.0, 1000.0].map(|rate| beside(rate, 500.0).is_some()), [false; 3]);
        assert!(beside(400.0, 500.0).is_some_and(|doubt| doubt.refuses));
        assert!(beside(1200.0, 500.0).is_some());
        assert_eq!([950.0, 2000.0].map(|rate| beside(rate, 2000.0).is_some()), [false; 2]);
    }

    #[test]
    fn a_program_beside_others_may_have_only_the_cpus_that_they_left() {
        // 1000 per second alone with 2 CPUs, one of which the others used.
        let of = |rate, cpu_us| Point { cpu_us, ..point(rate, 0.0) };
        let (beside, alone) = (of(3000.0, 700.0), of(1000.0, 2000.0));
        let found =
            |rate, cpu_us| differs_beside(&of(rate, cpu_us), &beside, &alone, 2.0, 1.0).is_some();
        assert_eq!([400.0, 480.0, 1000.0].map(|rate| found(rate, 2000.0)), [true, false, false]);
        assert!(found(480.0, 5000.0), "the CPU time, which is fitted");
        assert!(found(480.0, 500.0), "a replay that is busy where the program was not");
        let (beside, alone) = (of(3000.0, 100.0), of(1000.0, 100.0));
        let found = differs_beside(&of(950.0, 300.0), &beside, &alone, 2.0, 1.0);
        assert!(found.is_none(), "little CPU time");
    }

    #[test]
    fn a_victim_that_starves_more_in_the_replay_is_the_same_program() {
        // A hog with critical sections of 400 us, and its victim with 2000 short ones per second or
        // none.
        let of = |rate, cpu_us| Point { cpu_us, ..point(rate, 0.0) };
        let (recorded, alone) = (of(4400.0, 213.0), of(2400.0, 390.0));
        let differs = |alone: &Point| differs_beside(&recorded, alone, alone, 2.0, 1.0);
        assert!(differs(&alone).is_some());
        assert_eq!(differs(&alone.of_work(390.0 / 213.0)), None);
    }

    #[test]
    fn other_programs_refuse_where_sleep_is_not_known() {
        let mut program = Program { wall_s: 2.0, cpus: 2, ..Program::default() };
        program.disturbance.others_s = 0.2;
        assert_eq!(others_cpus(&program), None);
        program.disturbance.others_s = 2.0;
        assert_eq!(others_cpus(&program), Some(1.0));
        let of = |ready_ns| {
            let behaviour = Behaviour { ready_ns, ..Behaviour::default() };
            of_record(&program, &Process::default(), &behaviour, 2)
        };
        assert!(of(None)[0].refuses);
        assert!(!of(Some(10.0))[0].refuses);
    }

    #[test]
    fn a_thread_that_came_once_is_a_doubt() {
        fn of(is_guessed: bool) -> Vec<Doubt> {
            let class = convoy_runs::replay::Class { is_guessed, ..Default::default() };
            let script = convoy_runs::replay::Script { classes: vec![class], conditions: vec![] };
            let behaviour = Behaviour { script: Some(script.into()), ..Behaviour::default() };
            of_record(&Program::default(), &Process::default(), &behaviour, 1)
        }
        assert_eq!(of(false), []);
        assert!(of(true)[0].text.starts_with("A thread waited") && !of(true)[0].refuses);
    }

    #[test]
    fn recording_kernel_events_is_named_if_it_cost_much() {
        fn of(preemptions: u64) -> Process {
            let seen = convoy_record::Scheduling { preemptions, sleeps: 0, ..Default::default() };
            Process { cpu_s: 1.0, seconds: 2.0, scheduling: Some(seen), ..Process::default() }
        }
        assert_eq!(watched(&of(10_000)), None);
        assert_eq!(watched(&Process::default()), None);
        let said = watched(&of(500_000)).expect("a third of its time").text;
        assert!(said.contains("30 % of the CPU time") && said.contains("250000 times"), "{said}");
    }
}
