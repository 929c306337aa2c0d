//! Reasons to doubt a prediction, and reasons for which a row has no simulation.

use convoy_record::{Process, Program};
use convoy_runs::replay::{Behaviour, Gates};
use serde::Serialize;

use crate::others::others_cpus;
use crate::point::Point;
use crate::target::is_unmeasured;

/// One reason for doubt, about all rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum Doubt {
    /// Other programs used CPUs during the recording. The rows are for the program alone.
    Others {
        /// CPUs that they used.
        others_cpus: f64,
        /// CPUs of the machine.
        cpus: u32,
    },
    /// The program was recorded on one CPU, so that the price of moved data is not known.
    OneCpu,
    /// The price of wakeups was not measured.
    Wakeups,
    /// A thread waited from its first call on, so that its rate of calls is a guess.
    Guess,
    /// Recording kernel events cost the program much.
    Watched {
        /// Share of the CPU time of the program.
        share: f64,
        /// Context switches per second.
        switches_per_s: f64,
    },
    /// Waits of the replay that ended only because no thread could run.
    Slips {
        /// Share of all waits.
        share: f64,
    },
    /// The steps of a class of threads are not known well enough to be replayed in order.
    Steps,
    /// Waits for other threads that occur as often as recorded, because no rule was found.
    Uncounted {
        /// Such waits.
        waits: u64,
        /// All recorded waits for other threads.
        recorded: u64,
    },
    /// Waits for other threads that ended by their time limit.
    TimedOut {
        /// Such waits.
        waits: u64,
        /// All recorded waits for other threads.
        recorded: u64,
    },
    /// No row splits a mutex with which threads wait at a condition.
    Undivided {
        /// The mutex.
        lock: String,
        /// The condition.
        condition: String,
    },
    /// The replay does not follow the recorded order of steps, which could not be replayed.
    Unordered {
        /// Features of the order that are missing.
        order: Vec<Feature>,
        /// Why it could not be replayed.
        reason: Box<Reason>,
    },
    /// The shares of the classes of threads differ between rows, which count the first class.
    Mix {
        /// Classes: the place, and the recorded, least and most acquisitions per second.
        classes: Vec<(String, [f64; 3])>,
    },
}

/// A feature of recorded steps that counts by place do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "feature", content = "count", rename_all = "kebab-case")]
pub enum Feature {
    /// Threads wait for each other.
    Waits,
    /// Barriers.
    Barriers,
    /// Locks are held around others.
    Nesting,
    /// Several classes of threads.
    Classes(usize),
    /// Threads yield.
    Yields,
}

/// Why rows have bounds and no simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// No lock of libc was acquired.
    NoLock,
    /// The mutexes of the program were of several kinds (`record --lock`).
    SeveralLocks,
    /// Only acquisitions that waited were recorded.
    OnlyContended,
    /// Other programs used CPUs, and sleep cannot be distinguished from waits for a CPU.
    Sleep,
    /// The steps of threads are missing because other programs had the CPUs.
    Absent {
        /// Threads without steps.
        threads: u64,
        /// All working threads.
        of: u64,
    },
    /// Threads wait for each other, and for which threads others would wait is not known.
    Threads {
        /// Share of their time.
        share: f64,
    },
    /// The number of units of a semaphore is not known.
    Units {
        /// The semaphore.
        lock: String,
    },
    /// One thread alone works at a place; whether other numbers of threads have one there is not
    /// known.
    Single {
        /// The place.
        place: String,
    },
    /// No thread waited for a condition that threads signal.
    Unwaited {
        /// The condition.
        condition: String,
    },
    /// The replay of the record differs from it.
    Differs {
        /// The figure that differs.
        figure: Figure,
        /// In the replay.
        replayed: f64,
        /// In the record.
        recorded: f64,
    },
    /// The recorded throughput is not between the replays alone and with the other programs;
    /// acquisitions per second.
    Beside {
        /// In the record.
        recorded: f64,
        /// Of the replay alone.
        alone: f64,
        /// Of the replay with the other programs.
        beside: f64,
    },
    /// Waits of the replay mostly ended only because no thread could run.
    Stuck {
        /// Share of the waits.
        share: f64,
    },
    /// The simulation has no steady throughput within its limit of work.
    Unsteady,
    /// The simulation contradicts the bounds.
    Outside {
        /// Its throughput relative to the record.
        times: f64,
    },
}

/// A figure of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Acquisitions per second.
    Throughput,
    /// CPU time of an acquisition, microseconds.
    Cpu,
    /// Mean wait for a lock, microseconds.
    Wait,
    /// Mean wait for other threads, microseconds.
    Idle,
}

/// Returns the doubts that follow from the record itself.
pub(crate) fn of_record(
    program: &Program,
    process: &Process,
    behaviour: &Behaviour,
    most_cpus: u32,
) -> Vec<Doubt> {
    let has_guesses = behaviour.script.as_ref().is_some_and(|script| script.has_guesses());
    let others = others_cpus(program);
    let others = others.map(|others_cpus| Doubt::Others { others_cpus, cpus: program.cpus });
    let doubts = [
        others,
        (program.cpus == 1 && most_cpus > 1).then_some(Doubt::OneCpu),
        is_unmeasured(program).then_some(Doubt::Wakeups),
        has_guesses.then_some(Doubt::Guess),
        watched(process),
    ];
    doubts.into_iter().flatten().collect()
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
    let share = (switches * LONGER_S / process.cpu_s.max(1e-9)).min(1.0);
    let switches_per_s = switches / process.seconds.max(1e-9);
    (share > MUCH).then_some(Doubt::Watched { share, switches_per_s })
}

/// Share of all waits above which those that ended because no thread could run matter.
const SLIPS: f64 = 0.01;

/// Returns the share of the waits that ended only because no thread could run, if it matters.
pub(crate) fn slips(gates: &[Gates]) -> Option<f64> {
    let waits = gates.iter().map(|one| one.waits).sum::<u64>() as f64;
    let slips = gates.iter().map(|one| one.slips).sum::<u64>() as f64;
    Some(slips / waits.max(1.0)).filter(|share| *share > SLIPS)
}

/// Returns whether the replay makes no progress by itself.
pub(crate) fn is_stuck(share: f64) -> bool {
    /// Share of all waits.
    const MOSTLY: f64 = 0.2;
    share > MOSTLY
}

/// Largest ratio between the recorded and the replayed throughput.
const RATE: f64 = 1.15;

/// Largest ratio between the recorded and the replayed CPU time of an acquisition, if the replay is
/// fitted to it.
const CPU: f64 = 1.3;
/// Share of the CPUs used by the program below which its CPU time does not matter.
const USED: f64 = 0.2;

/// Returns a reason if the recorded throughput is not between two replays: with other programs that
/// are preferred to this one (`beside`), and `alone`, on all CPUs or on the CPU time that the
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
) -> Option<Reason> {
    let [rate, beside, most] = [recorded, beside, alone].map(|point| point.acquisitions_per_s);
    let cpus_used = most * alone.cpu_us / 1e6;
    let left = most * ((cpus - others_cpus) / cpus_used).clamp(0.0, 1.0);
    let [cpu_us, replayed_us] = [recorded, alone].map(|point| point.cpu_us);
    let is_much = (rate * cpu_us).max(most * replayed_us) / 1e6 > USED * cpus;
    if is_much && cpu_us.max(replayed_us) > CPU * cpu_us.min(replayed_us) {
        let (replayed, recorded) = (replayed_us, cpu_us);
        return Some(Reason::Differs { figure: Figure::Cpu, replayed, recorded });
    }
    (rate * RATE < left.min(beside) || rate > most.max(beside) * RATE).then_some(Reason::Beside {
        recorded: rate,
        alone: most,
        beside,
    })
}

/// Returns a reason if the replay differs from the record, in which each thread acquires a lock
/// every `turn_us`.
pub(crate) fn differs(recorded: &Point, replayed: &Point, turn_us: f64) -> Option<Reason> {
    /// Largest ratio between the recorded and the replayed mean wait, which is not fitted.
    const WAIT: f64 = 3.0;
    /// Share of a turn below which a difference between waits does not matter.
    const LITTLE: f64 = 0.3;
    let pair = |value: fn(&Point) -> f64| [value(replayed), value(recorded)];
    let figures = [
        (Figure::Throughput, pair(|point| point.acquisitions_per_s), RATE, 0.0),
        (Figure::Wait, pair(|point| point.wait_mean_us), WAIT, LITTLE * turn_us),
        (Figure::Idle, pair(|point| point.idle_mean_us), WAIT, LITTLE * turn_us),
    ];
    let differing = figures.into_iter().find(|(_, [replayed, recorded], ratio, least)| {
        let (low, high) = (replayed.min(*recorded), replayed.max(*recorded));
        high - low > *least && high / low.max(f64::MIN_POSITIVE) > *ratio
    });
    let (figure, [replayed, recorded], ..) = differing?;
    Some(Reason::Differs { figure, replayed, recorded })
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
    fn a_replay_that_misses_its_record_does_not_count() {
        fn beside(rate: f64, least: f64) -> bool {
            let (beside, alone) = (point(least, 0.0), point(1000.0, 0.0));
            differs_beside(&point(rate, 0.0), &beside, &alone, 2.0, 1.0).is_some()
        }
        fn figure(rate: f64, wait_us: f64) -> Option<Figure> {
            match differs(&point(1000.0, 10.0), &point(rate, wait_us), 100.0)? {
                Reason::Differs { figure, .. } => Some(figure),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(figure(1000.0, 10.0), None);
        assert_eq!(figure(1100.0, 35.0), None, "25 us of a turn of 100 do not matter");
        assert_eq!(figure(1200.0, 10.0), Some(Figure::Throughput));
        assert_eq!(figure(1000.0, 45.0), Some(Figure::Wait));
        assert_eq!([500.0, 700.0, 1000.0].map(|rate| beside(rate, 500.0)), [false; 3]);
        assert!(beside(400.0, 500.0) && beside(1200.0, 500.0));
        assert_eq!([950.0, 2000.0].map(|rate| beside(rate, 2000.0)), [false; 2]);
    }

    #[test]
    fn a_program_beside_others_may_have_only_the_cpus_that_they_left() {
        // 1000 per second alone with 2 CPUs, one of which the others used.
        fn of(rate: f64, cpu_us: f64) -> Point {
            Point { cpu_us, ..point(rate, 0.0) }
        }
        fn refuses(rate: f64, cpu_us: f64, beside: &Point, alone: &Point) -> bool {
            differs_beside(&of(rate, cpu_us), beside, alone, 2.0, 1.0).is_some()
        }
        let (beside, alone) = (of(3000.0, 700.0), of(1000.0, 2000.0));
        let rates = [400.0, 480.0, 1000.0];
        let refused = rates.map(|rate| refuses(rate, 2000.0, &beside, &alone));
        assert_eq!(refused, [true, false, false]);
        assert!(refuses(480.0, 5000.0, &beside, &alone), "the CPU time, which is fitted");
        assert!(refuses(480.0, 500.0, &beside, &alone), "busy where the program was not");
        let (beside, alone) = (of(3000.0, 100.0), of(1000.0, 100.0));
        assert!(!refuses(950.0, 300.0, &beside, &alone), "little CPU time");
    }

    #[test]
    fn a_victim_that_starves_more_in_the_replay_is_the_same_program() {
        // A hog with critical sections of 400 us, and its victim with 2000 short ones per second or
        // none.
        fn of(rate: f64, cpu_us: f64) -> Point {
            Point { cpu_us, ..point(rate, 0.0) }
        }
        let (recorded, alone) = (of(4400.0, 213.0), of(2400.0, 390.0));
        assert!(differs_beside(&recorded, &alone, &alone, 2.0, 1.0).is_some());
        let same = alone.of_work(390.0 / 213.0);
        assert_eq!(differs_beside(&recorded, &same, &same, 2.0, 1.0), None);
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
        assert_eq!(of(true), [Doubt::Guess]);
    }

    #[test]
    fn recording_kernel_events_is_a_doubt_if_it_cost_much() {
        fn of(preemptions: u64) -> Process {
            let seen = convoy_record::Scheduling { preemptions, sleeps: 0, ..Default::default() };
            Process { cpu_s: 1.0, seconds: 2.0, scheduling: Some(seen), ..Process::default() }
        }
        assert_eq!(watched(&of(10_000)), None);
        assert_eq!(watched(&Process::default()), None);
        let doubt = watched(&of(500_000)).expect("a third of its time");
        assert_eq!(doubt, Doubt::Watched { share: 0.3, switches_per_s: 250_000.0 });
    }

    #[test]
    fn waits_that_end_by_themselves_are_a_share() {
        let gates = [Gates { waits: 90, slips: 9, ..Gates::default() }, Gates::default()];
        assert_eq!(slips(&gates), Some(0.1));
        assert!(!is_stuck(0.1) && is_stuck(0.3));
        assert_eq!(slips(&[Gates { waits: 1000, slips: 5, ..Gates::default() }]), None);
    }
}
