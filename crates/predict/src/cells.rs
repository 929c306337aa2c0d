//! The cells of a prediction: the recorded point and each question, each simulated in several
//! rounds.

use std::sync::Arc;

use convoy_diagnose::{Account, Irreplaceable};
use convoy_kernel::KernelPreset;
use convoy_record::{Lock, Process, Record};
use convoy_runs::replay::{Anchor, Behaviour, Effort, Kind, Pace, Replay, Step};

use crate::behaviour::{behaviour, busiest, busy_s, waiting_within};
use crate::choice::Change;
use crate::damage::is_damaged;
use crate::doubt::{Doubt, of_record};
use crate::limit::{WEIGHT, limit};
use crate::moving::is_unsized;
use crate::others::others_cpus;
use crate::prediction::Prediction;
use crate::run::{Cell, Cells, Known, run, unanchored};
use crate::{Choice, Machines, PredictError, SLEEP};

/// Share of the run in which the threads that take locks do no work, above which the speed of the
/// whole program differs from their throughput.
const OUTSIDE: f64 = 0.05;

/// Share of the threads below which a replay no longer represents the program.
const PRESENT: f64 = 2.0 / 3.0;

/// The requested rows. An empty list means the recorded value.
#[derive(Clone, Debug)]
pub struct Question {
    /// Numbers of CPUs.
    pub cpus: Vec<u32>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Policies of the locks.
    pub policies: Vec<Choice>,
    /// Number of locks that replace the first one.
    pub split: Option<u32>,
    /// Simulations of each row.
    pub rounds: u64,
    /// Limit of the host's time for each simulation.
    pub effort: Effort,
}

impl Question {
    /// Returns the number of rows.
    fn rows(&self) -> usize {
        let points = self.cpus.len().max(1) * self.threads.len().max(1);
        points * (self.policies.len() + usize::from(self.split.is_some()))
    }
}

/// Returns the prediction that answers `question` for the program of `record`.
///
/// # Errors
/// Returns a [`PredictError`] if the record cannot be replayed, a preset cannot be loaded, or a
/// simulation fails.
pub fn predict(
    record: &Record,
    machines: &Machines,
    question: &Question,
) -> Result<Prediction, PredictError> {
    predict_aloud(record, machines, question, &|_| {})
}

/// Like [`predict`], and calls `told` after each simulation, from any thread.
///
/// # Errors
/// Returns a [`PredictError`] if the record cannot be replayed, a preset cannot be loaded, or a
/// simulation fails.
pub fn predict_aloud(
    record: &Record,
    machines: &Machines,
    question: &Question,
    told: &(dyn Fn(Known) + Sync),
) -> Result<Prediction, PredictError> {
    check(record)?;
    let (Some(process), locks) = busiest(record) else { return Err(nothing(record)) };
    if locks.is_empty() {
        return Err(nothing(record));
    }
    let (question, whole_lock) = splittable(question, process, locks[0]);
    let question = &question;
    let replayed = |in_order: bool| -> Result<(Prediction, u32), PredictError> {
        let (mut behaviour, written) = behaviour(record, process, &locks, in_order);
        behaviour.transfer_ns = machines.recorded(&record.program, (1, 1))?.price_ns.llc;
        let behaviour = Arc::new(behaviour);
        let (question, unknown) = answerable(question, &behaviour);
        let (question, of_units) = of_known_units(&question, &behaviour, &locks);
        let question = &question;
        let most = question.cpus.iter().copied().max().unwrap_or(behaviour.cpus);
        let complete = |mut prediction: Prediction| {
            prediction.verdict = limit(&behaviour, process, &locks);
            prediction.doubts.splice(0..0, of_record(&record.program, process, &behaviour, most));
            prediction.doubts.extend(absent(&behaviour, written.absent));
            prediction.doubts.extend(unknown.clone());
            prediction.doubts.extend(of_units.clone());
            prediction.doubts.extend(whole_lock.clone());
            prediction.doubts.extend(written.leaves_out.iter().cloned().map(Doubt::note));
            prediction.order.clone_from(&written.has);
            prediction.beyond = beyond(record, process, &behaviour);
            whole(&mut prediction, record, process, busy_s(process, &locks));
            prediction.judged()
        };
        let told =
            |known: Known| told(Known { prediction: known.prediction.map(&complete), ..known });
        if [&unknown, &of_units].into_iter().flatten().any(|doubt| doubt.refuses) {
            return Ok((complete(unanchored(&behaviour, 0)), behaviour.threads));
        }
        let prediction = Some(unanchored(&behaviour, question.rows()));
        told(Known { done: 0, of: 1, prediction });
        let cells = cells(record, machines, question, &behaviour)?;
        Ok((complete(run(&cells, &behaviour, &told)?), behaviour.threads))
    };
    let (ordered, threads) = replayed(true)?;
    if ordered.doubt.is_none() || ordered.order.is_empty() || waits_for_threads(&ordered) {
        return Ok(ordered);
    }
    // A replay without the order of steps may match the record although this one does not.
    let (mut plain, present) = replayed(false)?;
    // If classes of threads acquire locks at different places, the number of threads does not
    // follow from counts by place.
    if plain.doubt.is_some() || f64::from(present) < PRESENT * f64::from(threads) {
        return Ok(ordered);
    }
    plain.doubts.push(Doubt::note(format!(
        "Replayed by places, without the order of steps ({}), since the replay in that order is \
         refused: {}",
        ordered.order.join(", "),
        ordered.doubt.unwrap_or_default()
    )));
    Ok(plain)
}

/// Removes the rows that split a lock if threads wait at a condition with it: all threads that wait
/// at one condition must use the same mutex.
fn splittable(question: &Question, process: &Process, lock: &Lock) -> (Question, Option<Doubt>) {
    let condition = waiting_within(process, lock).filter(|_| question.split.is_some());
    let Some(condition) = condition else { return (question.clone(), None) };
    let doubt = Doubt::note(format!(
        "No row splits `{}`: threads wait at `{}` with it, so they must share it.",
        lock.name, condition.name
    ));
    (Question { split: None, ..question.clone() }, Some(doubt))
}

/// Returns a refusal if working threads are missing from the replay: other programs used the CPUs
/// while their steps should have been recorded, and with fewer threads a program scales to fewer
/// CPUs.
fn absent(behaviour: &Behaviour, [absent, all]: [u64; 2]) -> Option<Doubt> {
    (behaviour.is_disturbed && absent > 0).then(|| {
        Doubt::refusal(format!(
            "Other programs had the CPUs while the steps of {absent} of {all} threads should have \
             been recorded; record the program again, on a quiet machine or for longer."
        ))
    })
}

/// Returns the question without other numbers of threads if threads wait for each other, and a
/// doubt that lists these numbers. A replay with more threads repeats the recorded waits, but a
/// program with more threads waits and wakes in another order: a queue of writers, for example,
/// forms larger groups.
fn answerable(question: &Question, behaviour: &Behaviour) -> (Question, Option<Doubt>) {
    let mut left = question.clone();
    let turn_ns = f64::from(behaviour.threads) * 1e9 / behaviour.rate;
    if behaviour.idle_ns <= WEIGHT * turn_ns {
        return (left, None);
    }
    left.threads.retain(|threads| *threads == behaviour.threads);
    let others = question.threads.iter().filter(|threads| **threads != behaviour.threads);
    let others: Vec<_> = others.map(u32::to_string).collect();
    let text = format!(
        "Threads waited for each other for {:.0} % of their time, and a record does not tell which \
         of them more threads would wait for, so nothing follows for {} threads.",
        100.0 * (behaviour.idle_ns / turn_ns).min(1.0),
        others.join(", ")
    );
    let doubt = if left.threads.is_empty() { Doubt::refusal(text) } else { Doubt::note(text) };
    (left, Some(doubt).filter(|_| !others.is_empty()))
}

/// Leaves out rows with more CPUs or threads than the record has if the units of a semaphore are
/// not known: whether there are enough for them is not known either.
fn of_known_units(
    question: &Question,
    behaviour: &Behaviour,
    locks: &[&Lock],
) -> (Question, Option<Doubt>) {
    let mut left = question.clone();
    let Some(lock) = locks.iter().find(|lock| is_unsized(lock)) else { return (left, None) };
    left.cpus.retain(|cpus| *cpus <= behaviour.cpus);
    left.threads.retain(|threads| *threads <= behaviour.threads);
    let lost = |all: &[u32], left: &[u32]| (all.len() > left.len(), left.is_empty());
    let lost = [lost(&question.cpus, &left.cpus), lost(&question.threads, &left.threads)];
    let text = format!(
        "Fewer than 1 % of the acquisitions of the semaphore `{}` waited, so the number of its \
         units is not known, and nothing follows for more than {} CPUs or {} threads.",
        lock.name, behaviour.cpus, behaviour.threads
    );
    let refuses = lost.iter().any(|(any, all)| *any && *all);
    let doubt = if refuses { Doubt::refusal(text) } else { Doubt::note(text) };
    (left, Some(doubt).filter(|_| lost.iter().any(|(any, _)| *any)))
}

/// Returns whether threads waited for each other for longer than they ran, so that a replay without
/// these waits does not represent the program.
fn waits_for_threads(prediction: &Prediction) -> bool {
    prediction.anchor.first().is_some_and(|point| point.idle_mean_us > point.cpu_us)
}

/// Returns a sentence if threads waited mostly for locks that no other lock can replace.
fn beyond(record: &Record, process: &Process, behaviour: &Behaviour) -> Option<String> {
    let locks = process.kernel_locks.iter().chain(&process.runtime_locks).chain(&process.futexes);
    let wait_s: f64 = locks.map(Lock::wait_s).sum();
    let time_s = f64::from(behaviour.threads) * process.seconds;
    irreplaceable(record).filter(|_| wait_s > WEIGHT * time_s)
}

/// Returns a sentence on the lock that most waiting was for, if no other lock can replace it.
fn irreplaceable(record: &Record) -> Option<String> {
    let Irreplaceable { share, lock, is_named, place, kernel, runtime } =
        Account::new(record).irreplaceable()?;
    let reason = match (&kernel, &runtime) {
        (Some(_), _) => "it is the kernel's",
        (None, Some(_)) => "the program's runtime builds it",
        (None, None) => "the program calls futex(2) for it itself",
    };
    let name = match (&kernel, is_named) {
        (Some(kernel), true) => format!("the kernel's {kernel} `{lock}`"),
        (Some(kernel), false) => format!("the kernel's {kernel}"),
        (None, true) => format!("`{lock}`"),
        (None, false) => "a lock".to_owned(),
    };
    let place = place.map_or(String::new(), |place| format!(" in {place}"));
    Some(format!(
        "{:.0} % of the time that threads waited for locks was for {name}{place}; {reason}, so no \
         replacement of libc's locks can help there.",
        100.0 * share
    ))
}

/// Returns an error for records without the work between acquisitions, and for damaged ones.
fn check(record: &Record) -> Result<(), PredictError> {
    let program = &record.program;
    match program.source.as_str() {
        "" if !program.locks.is_empty() => Err(PredictError::SeveralLocks),
        "" if program.only_contended => Err(PredictError::OnlyContended),
        "" if is_damaged(record) => Err(PredictError::Damaged),
        "" => Ok(()),
        tool => Err(PredictError::Imported { tool: tool.to_owned() }),
    }
}

fn nothing(record: &Record) -> PredictError {
    PredictError::NoLock { beyond: irreplaceable(record) }
}

/// Adds the speed of the whole program to each row.
fn whole(prediction: &mut Prediction, record: &Record, process: &Process, busy_s: f64) {
    let all_s = record.program.wall_s;
    if process.pid == record.processes[0].pid && all_s - busy_s > OUTSIDE * all_s {
        prediction.rows.iter_mut().for_each(|row| row.whole(all_s, busy_s));
    }
}

/// Returns the recorded point and one cell per row.
fn cells(
    record: &Record,
    machines: &Machines,
    question: &Question,
    behaviour: &Arc<Behaviour>,
) -> Result<Cells, PredictError> {
    let program = &record.program;
    let first = busiest(record).1.first().map(|lock| lock.kind).unwrap_or_default();
    let recorded = match program.policy(first) {
        "" => Choice::new(SLEEP),
        policy => Choice::new(policy),
    };
    let or = |list: &[u32], one: u32| if list.is_empty() { vec![one] } else { list.to_vec() };
    let cell = |choice: &Choice, split: u32, cpus: Option<u32>, threads: u32| {
        let mut behaviour = Arc::clone(behaviour);
        if split > 1 {
            Arc::make_mut(&mut behaviour).locks[0] *= split;
        }
        if let Some(change) = choice.change {
            apply(change, Arc::make_mut(&mut behaviour));
        }
        let mut says = String::new();
        let mut round = |seed| -> Result<Replay, PredictError> {
            let round = (seed, question.rounds);
            let machine = match cpus {
                // The recorded machine also answers for the recorded number of CPUs.
                Some(cpus) if cpus != program.cpus || machines.machine.is_some() => {
                    let asked = machines.asked(program, cpus, round)?;
                    says = asked.1;
                    asked.0
                }
                _ => machines.recorded(program, round)?,
            };
            Ok(Replay {
                behaviour: paced(&behaviour, seed),
                anchor: Anchor::NONE,
                threads,
                policy: choice.policy,
                alone: choice.alone,
                // `convoy with` never lets a thread spin on one CPU.
                looks: if machine.topology.cpus == 1 { Some(0) } else { choice.looks },
                whole: false,
                others_cpus: 0.0,
                effort: question.effort,
                seed,
                kernel: placing(&machines.kernel, &behaviour, seed),
                machine,
            })
        };
        let rounds = (1..=question.rounds).map(&mut round).collect::<Result<_, _>>()?;
        Ok::<_, PredictError>(Cell { choice: choice.clone(), split, says, rounds })
    };
    let base = cell(&recorded, 1, None, behaviour.threads)?;
    let mut rows = Vec::new();
    for cpus in or(&question.cpus, behaviour.cpus) {
        for threads in or(&question.threads, behaviour.threads) {
            for choice in &question.policies {
                rows.push(cell(choice, 1, Some(cpus), threads)?);
            }
            if let Some(split) = question.split {
                rows.push(cell(&recorded, split, Some(cpus), threads)?);
            }
        }
    }
    Ok(Cells { base, others_cpus: others_cpus(program), rows })
}

/// Returns the behaviour of a round. If a thread waited from its first call on, its rate of calls
/// is unknown: in one round of three it calls again immediately, and in another after one second.
fn paced(behaviour: &Arc<Behaviour>, round: u64) -> Arc<Behaviour> {
    const SELDOM_NS: f64 = 1e9;
    let mut behaviour = Arc::clone(behaviour);
    let pace = match round % 3 {
        2 => Pace::AtOnce,
        0 => Pace::After(SELDOM_NS),
        _ => return behaviour,
    };
    if behaviour.script.as_ref().is_some_and(|script| script.has_guesses())
        && let Some(script) = &mut Arc::make_mut(&mut behaviour).script
    {
        Arc::make_mut(script).guess(pace);
    }
    behaviour
}

/// Returns the kernel of a round. The record does not contain whether a guest knows which of its
/// idle CPUs the hypervisor has halted, and avoids wakeups there. If threads mostly wait for each
/// other, this decides whether they gather on one CPU, so one round of three assumes the opposite.
fn placing(kernel: &KernelPreset, behaviour: &Behaviour, round: u64) -> KernelPreset {
    let mut kernel = kernel.clone();
    let waits = behaviour.script.is_some() && behaviour.idle_ns > behaviour.cpu_ns;
    if waits && round.is_multiple_of(3) {
        kernel.sched.wake.avoid_halted = !kernel.sched.wake.avoid_halted;
    }
    kernel
}

/// Applies a change to the program.
fn apply(change: Change, behaviour: &mut Behaviour) {
    match change {
        Change::PreferWriters => {
            for kind in &mut behaviour.kinds {
                if let Kind::RwLock { prefers_writers } = kind {
                    *prefers_writers = true;
                }
            }
        }
        Change::Signal => {
            let Some(script) = &mut behaviour.script else { return };
            let classes = Arc::make_mut(script).classes.iter_mut();
            for step in classes.flat_map(|class| &mut class.strips).flatten() {
                if let Step::Signal { all, .. } = step {
                    *all = false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_that_wait_for_each_other_are_refused() {
        fn of(threads: &[u32], idle_ns: f64) -> (Vec<u32>, Option<bool>) {
            let question = Question {
                cpus: vec![2],
                threads: threads.to_vec(),
                policies: vec![Choice::new(SLEEP)],
                split: None,
                rounds: 1,
                effort: Effort::LEAST,
            };
            // Each thread acquires a lock every 40 us.
            let behaviour = Behaviour { threads: 4, rate: 1e5, idle_ns, ..Behaviour::default() };
            let (left, doubt) = answerable(&question, &behaviour);
            (left.threads, doubt.map(|doubt| doubt.refuses))
        }
        assert_eq!(of(&[4, 64], 100.0), (vec![4, 64], None));
        assert_eq!(of(&[4, 64], 20_000.0), (vec![4], Some(false)));
        assert_eq!(of(&[64], 20_000.0), (vec![], Some(true)));
        assert_eq!(of(&[], 20_000.0), (vec![], None));
    }
}
