//! The cells of a prediction: the recorded point and each question, first by arithmetic, then
//! simulated in several rounds.

use std::sync::Arc;

use convoy_diagnose::{Diagnosis, Irreplaceable, Problem};
use convoy_kernel::KernelPreset;
use convoy_machine::Preset;
use convoy_record::{Lock, Process, Record, threads};
use convoy_runs::replay::{Anchor, Behaviour, Effort, Kind, Pace, Replay, Step};

use crate::behaviour::{behaviour, busiest, busy_s, waiting_within};
use crate::bounds::{Law, Prices, Setting};
use crate::choice::Change;
use crate::damage::is_damaged;
use crate::demands::{Demand, Named, Station, demands};
use crate::doubt::{Doubt, Reason, of_record};
use crate::edit::{Edit, counted_s, edits};
use crate::limit::{Limit, WEIGHT};
use crate::moving::is_unsized;
use crate::others::others_cpus;
use crate::point::Point;
use crate::prediction::Prediction;
use crate::row::Row;
use crate::run::{Cell, Cells, Known, Outcome, run};
use crate::script::{Pool, Written};
use crate::{Choice, Machines, PredictError, SLEEP, SPIN, single};

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
    /// Whether to add changes of the source at the lock that limits the recorded point.
    pub edits: bool,
    /// Simulations of each row.
    pub rounds: u64,
    /// Limit of the host's time for each simulation.
    pub effort: Effort,
}

/// One row of a question.
#[derive(Clone, Debug)]
struct Ask {
    /// `None`: as recorded.
    cpus: Option<u32>,
    threads: u32,
    choice: Choice,
    split: u32,
    edit: Option<Edit>,
}

/// Returns the prediction that answers `question` for the program of `record`.
///
/// # Errors
/// Returns a [`PredictError`] if the record is damaged or imported, or a preset cannot be loaded.
pub fn predict(
    record: &Record,
    machines: &Machines,
    question: &Question,
) -> Result<Prediction, PredictError> {
    predict_aloud(record, machines, question, &|_| {})
}

/// Like [`predict`], and calls `told` with the bounds of all rows, then after each simulation, from
/// any thread.
///
/// # Errors
/// Returns a [`PredictError`] if the record is damaged or imported, or a preset cannot be loaded.
pub fn predict_aloud(
    record: &Record,
    machines: &Machines,
    question: &Question,
    told: &(dyn Fn(Known) + Sync),
) -> Result<Prediction, PredictError> {
    check(record)?;
    let (process, locks) = busiest(record);
    let process = process.ok_or(PredictError::Empty)?;
    let diagnosis = Diagnosis::new(record);
    let study = Study { record, diagnosis, process, locks, machines, question };
    if let Some(reason) = study.unreplayable() {
        return study.without_replay(reason);
    }
    let (ordered, present) = study.replayed(true, told)?;
    let waits_for_threads =
        ordered.anchor.first().is_some_and(|point| point.idle_mean_us > point.cpu_us);
    let Some(reason) = ordered.reason.clone() else { return Ok(ordered) };
    if ordered.order.is_empty() || waits_for_threads {
        return Ok(ordered);
    }
    // A replay without the order of steps may match the record although this one does not.
    let (mut plain, plain_present) = study.replayed(false, told)?;
    // If classes of threads acquire locks at different places, the number of threads does not
    // follow from counts by place.
    if plain.reason.is_some() || f64::from(plain_present) < PRESENT * f64::from(present) {
        return Ok(ordered);
    }
    plain.doubts.push(Doubt::Unordered { order: ordered.order, reason: Box::new(reason) });
    Ok(plain)
}

/// A record and the question about it.
struct Study<'a> {
    record: &'a Record,
    diagnosis: Diagnosis,
    process: &'a Process,
    /// The relevant locks, the most contended one first.
    locks: Vec<&'a Lock>,
    machines: &'a Machines,
    question: &'a Question,
}

impl Study<'_> {
    /// Returns why the program of the record cannot be replayed, if it cannot.
    fn unreplayable(&self) -> Option<Reason> {
        let program = &self.record.program;
        match () {
            () if !program.locks.is_empty() => Some(Reason::SeveralLocks),
            () if program.only_contended => Some(Reason::OnlyContended),
            () if self.locks.is_empty() => Some(Reason::NoLock),
            () => None,
        }
    }

    /// Returns the prediction from arithmetic alone.
    fn without_replay(&self, reason: Reason) -> Result<Prediction, PredictError> {
        let present = threads(self.process).round().clamp(1.0, 1e4) as u32;
        let count: u64 = self.locks.iter().map(|lock| lock.count()).sum();
        let behaviour = Behaviour {
            threads: present,
            cpus: self.record.program.cpus.max(1),
            rate: count as f64 / self.process.seconds.max(1e-9),
            cpu_ns: self.process.cpu_s * 1e9 / count.max(1) as f64,
            ..Behaviour::default()
        };
        let bounded = self.bounded(&behaviour, &Written::default())?;
        Ok(Prediction { reason: Some(reason), ..bounded })
    }

    /// Returns the prediction with replays, in the order of steps or by places, and its number of
    /// threads.
    fn replayed(
        &self,
        in_order: bool,
        told: &(dyn Fn(Known) + Sync),
    ) -> Result<(Prediction, u32), PredictError> {
        let Self { record, process, locks, machines, .. } = self;
        let (mut behaviour, written) = behaviour(record, process, locks, in_order);
        behaviour.transfer_ns = machines.recorded(&record.program, (1, 1))?.price_ns.llc;
        let behaviour = Arc::new(behaviour);
        let bounded = self.bounded(&behaviour, &written)?;
        let present = behaviour.threads;
        if let Some(reason) = unfounded(&behaviour, &written) {
            return Ok((Prediction { reason: Some(reason), ..bounded }, present));
        }
        let widened = self.widened(&written);
        let edits = self.edits(&bounded.limit, behaviour.threads);
        let asks = self.asks(behaviour.threads, widened, &edits);
        let reasons: Vec<Option<Reason>> =
            asks.iter().map(|ask| self.unanswerable(ask, &behaviour)).collect();
        let is_replayed = |ask: &Ask| match ask.edit {
            Some(Edit::Units { .. }) => widened.is_some(),
            edit => edit.is_none_or(Edit::is_replayed),
        };
        let numbers: Vec<usize> = (0..asks.len())
            .filter(|&number| reasons[number].is_none() && is_replayed(&asks[number]))
            .collect();
        let merged = |outcome: &Outcome| {
            let mut prediction = bounded.clone();
            for (row, reason) in prediction.rows.iter_mut().zip(&reasons) {
                row.reason.clone_from(reason);
            }
            outcome.merge(&mut prediction, &numbers);
            self.whole(&mut prediction);
            prediction
        };
        if numbers.is_empty() {
            let reason = reasons.into_iter().flatten().next();
            return Ok((Prediction { reason, ..bounded }, present));
        }
        let unknown = Outcome::unknown(numbers.len());
        told(Known { done: 0, of: 1, prediction: Some(merged(&unknown)) });
        let asked: Vec<&Ask> = numbers.iter().map(|&number| &asks[number]).collect();
        let cells = self.cells(&asked, &behaviour, widened)?;
        let progress = |done, of, outcome: Option<&Outcome>| {
            told(Known { done, of, prediction: outcome.map(merged) });
        };
        let outcome = run(&cells, &behaviour, &progress)?;
        Ok((merged(&outcome), present))
    }

    /// Returns the rows of the question.
    fn asks(&self, recorded: u32, widened: Option<&Pool>, edits: &[Edit]) -> Vec<Ask> {
        fn or<T: Copy>(list: &[u32], known: impl Fn(u32) -> T, absent: T) -> Vec<T> {
            let given = list.iter().map(|number| known(*number)).collect::<Vec<_>>();
            if given.is_empty() { vec![absent] } else { given }
        }
        let question = self.question;
        let now = self.recorded_choice();
        let is_divisible = self.undivided().is_none() && !self.locks.is_empty();
        let split = question.split.filter(|_| is_divisible || widened.is_some());
        let mut asks = Vec::new();
        let own = self.record.program.cpus.max(1);
        for cpus in or(&question.cpus, Some, Some(own)) {
            for threads in or(&question.threads, |threads| threads, recorded) {
                let policies = question.policies.iter().map(|choice| (choice.clone(), 1));
                let divided = split.map(|split| (now.clone(), split));
                asks.extend(policies.chain(divided).map(|(choice, split)| {
                    // The recorded machine also answers for the recorded number of CPUs.
                    let is_recorded = cpus == Some(own) && self.machines.machine.is_none();
                    let cpus = cpus.filter(|_| !is_recorded);
                    Ask { cpus, threads, choice, split, edit: None }
                }));
                asks.extend(edits.iter().map(|&edit| {
                    let is_recorded = cpus == Some(own) && self.machines.machine.is_none();
                    let fewer = u32::from(edit == Edit::Thread);
                    Ask {
                        cpus: cpus.filter(|_| !is_recorded),
                        threads: threads - fewer,
                        choice: now.clone(),
                        split: 1,
                        edit: Some(edit),
                    }
                }));
            }
        }
        asks
    }

    /// Returns the changes of the source that are asked for.
    fn edits(&self, limit: &Limit, threads: u32) -> Vec<Edit> {
        if self.question.edits { edits(&self.diagnosis, limit, threads) } else { Vec::new() }
    }

    /// Returns the locks that the program was recorded with.
    fn recorded_choice(&self) -> Choice {
        let kind = self.locks.first().map(|lock| lock.kind).unwrap_or_default();
        match self.record.program.policy(kind) {
            "" => Choice::new(SLEEP),
            policy => Choice::new(policy),
        }
    }

    /// Returns the pool that a split gives more units, if threads waited longer for it than for
    /// locks.
    fn widened<'w>(&self, written: &'w Written) -> Option<&'w Pool> {
        let waited_s: f64 = self.locks.iter().map(|lock| lock.wait_s()).sum();
        let known = written.pools.iter().filter(|pool| pool.units.is_some());
        let timed = known.map(|pool| (pool, self.process.locks[pool.lock].wait_s()));
        let longest = timed.max_by(|a, b| a.1.total_cmp(&b.1));
        longest.filter(|(_, wait_s)| *wait_s > waited_s).map(|(pool, _)| pool)
    }

    /// Returns a doubt if the first lock cannot be split: all threads that wait at one condition
    /// must use the same mutex.
    fn undivided(&self) -> Option<Doubt> {
        let lock = self.locks.first().filter(|_| self.question.split.is_some())?;
        let condition = waiting_within(self.process, lock)?;
        Some(Doubt::Undivided { lock: lock.name.clone(), condition: condition.name.clone() })
    }

    fn bounded(
        &self,
        behaviour: &Behaviour,
        written: &Written,
    ) -> Result<Prediction, PredictError> {
        let Self { record, diagnosis, process, locks, machines, question } = self;
        let seconds = busy_s(process, locks).max(1e-9);
        let mut demands = demands(&record.program, process, written, behaviour.threads, seconds);
        if let Some(Problem::Java { monitor: Some(monitor), .. }) =
            diagnosis.first().map(|first| &first.problem)
        {
            let waiting = monitor.waiting as f64 / monitor.dumps.max(1) as f64;
            let units = monitor.units.map_or(1.0, |units| units.round().max(1.0));
            let station = Station::Lock { lock: Named::of_java(monitor) };
            demands.stations.push(Demand::queued(station, waiting, units));
        }
        let limit = Limit::new(&demands, diagnosis, process, locks, seconds);
        let widened = self.widened(written);
        let first = process
            .locks
            .iter()
            .position(|lock| locks.first().is_some_and(|first| std::ptr::eq(*first, lock)));
        let first = widened.map(|pool| pool.lock).or(first);
        let recorded = machines.recorded(&record.program, (1, 1))?;
        let (first, counted) = (first.unwrap_or(usize::MAX), counted_s(diagnosis) / seconds);
        let law = Law::new(demands, first, limit.station(), counted, &recorded);
        let is_disturbed = others_cpus(&record.program).is_some();
        let base = if is_disturbed { behaviour.rate * law.alone() } else { behaviour.rate };
        let edits = self.edits(&limit, behaviour.threads);
        let rows = self.asks(behaviour.threads, widened, &edits).into_iter().map(|ask| {
            let (machine, says) = self.machine(&ask, (1, 1))?;
            let bounds = law.bounds(&self.setting(&ask, &machine), is_disturbed);
            let [low_percent, change_percent, high_percent] =
                [bounds.low, bounds.middle, bounds.high].map(|times| 100.0 * (times - 1.0));
            Ok(Row {
                cpus: machine.topology.cpus as u32,
                threads: ask.threads,
                policy: ask.choice.name,
                split: ask.split,
                edit: ask.edit,
                machine: says,
                acquisitions_per_s: base * bounds.middle,
                change_percent,
                low_percent,
                high_percent,
                limit: bounds.limit,
                ..Row::default()
            })
        });
        let rows = rows.collect::<Result<Vec<Row>, PredictError>>()?;
        let most = question.cpus.iter().copied().max().unwrap_or(behaviour.cpus);
        let mut doubts = of_record(&record.program, process, behaviour, most);
        doubts.extend(written.leaves_out.iter().cloned());
        doubts.extend(self.undivided().filter(|_| widened.is_none()));
        let mut prediction = Prediction {
            beyond: self.beyond(behaviour),
            limit,
            anchor: vec![Point::recorded(behaviour)],
            anchor_wakeups: 1.0,
            anchor_work: 1.0,
            order: written.has.clone(),
            doubts,
            rows,
            ..Prediction::default()
        };
        self.whole(&mut prediction);
        Ok(prediction)
    }

    /// Returns the setting of a row for the laws.
    fn setting(&self, ask: &Ask, machine: &Preset) -> Setting {
        let Choice { name, change, .. } = &ask.choice;
        let is_changed = *name != self.recorded_choice().name;
        Setting {
            cpus: machine.topology.cpus as u32,
            threads: ask.threads,
            others: 0.0,
            split: ask.split,
            edit: ask.edit,
            is_changed,
            hands_over: is_changed && change.is_none() && ![SLEEP, SPIN].contains(&name.as_str()),
            prices: Prices::new(machine),
        }
    }

    /// Returns the machine of a row in a round, and a description of it unless it is the recorded
    /// one.
    fn machine(&self, ask: &Ask, round: (u64, u64)) -> Result<(Preset, String), PredictError> {
        let program = &self.record.program;
        match ask.cpus {
            Some(cpus) => self.machines.asked(program, cpus, round),
            None => Ok((self.machines.recorded(program, round)?, String::new())),
        }
    }

    /// Returns why a row does not follow from a replay, if it does not. If threads wait for each
    /// other, a replay with more threads repeats the recorded waits, but a program with more
    /// threads waits and wakes in another order: a queue of writers, for example, forms larger
    /// groups. If the units of a semaphore are not known, it is not known whether they suffice for
    /// more threads or CPUs.
    fn unanswerable(&self, ask: &Ask, behaviour: &Behaviour) -> Option<Reason> {
        let turn_ns = f64::from(behaviour.threads) * 1e9 / behaviour.rate;
        let waits = behaviour.idle_ns > WEIGHT * turn_ns;
        if waits && ask.threads != behaviour.threads {
            return Some(Reason::Threads { share: (behaviour.idle_ns / turn_ns).min(1.0) });
        }
        if ask.threads != behaviour.threads
            && let Some(site) = single::sites(&self.locks).first()
        {
            return Some(Reason::Single { place: site.place.clone() });
        }
        if ask.threads > behaviour.threads
            && let Some(condition) = single::unwaited(self.process)
        {
            return Some(Reason::Unwaited { condition: condition.name.clone() });
        }
        let unsized_lock = self.locks.iter().find(|lock| is_unsized(lock))?;
        let cpus = ask.cpus.unwrap_or(behaviour.cpus);
        let is_more = cpus > behaviour.cpus || ask.threads > behaviour.threads;
        is_more.then(|| Reason::Units { lock: unsized_lock.name.clone() })
    }

    /// Returns the lock that threads mostly waited for, if no other lock can replace it.
    fn beyond(&self, behaviour: &Behaviour) -> Option<Irreplaceable> {
        let process = self.process;
        let locks =
            process.kernel_locks.iter().chain(&process.runtime_locks).chain(&process.futexes);
        let wait_s: f64 = locks.map(Lock::wait_s).sum();
        let time_s = f64::from(behaviour.threads) * process.seconds;
        self.diagnosis.account.irreplaceable().filter(|_| wait_s > WEIGHT * time_s)
    }

    /// Adds the speed of the whole program to each row.
    fn whole(&self, prediction: &mut Prediction) {
        let whole_s = self.record.program.wall_s;
        let busy_s = busy_s(self.process, &self.locks);
        let is_first = self.record.processes.first().is_some_and(|p| p.pid == self.process.pid);
        if is_first && whole_s - busy_s > OUTSIDE * whole_s {
            prediction.rows.iter_mut().for_each(|row| row.whole(whole_s, busy_s));
        }
    }

    /// Returns the recorded point and one cell per row.
    fn cells(
        &self,
        asks: &[&Ask],
        behaviour: &Arc<Behaviour>,
        widened: Option<&Pool>,
    ) -> Result<Cells, PredictError> {
        let now = self.recorded_choice();
        let recorded =
            Ask { cpus: None, threads: behaviour.threads, choice: now, split: 1, edit: None };
        let base = self.cell(&recorded, behaviour, widened)?;
        let rows = asks.iter().map(|ask| self.cell(ask, behaviour, widened));
        let rows = rows.collect::<Result<_, _>>()?;
        Ok(Cells { base, others_cpus: others_cpus(&self.record.program), rows })
    }

    /// Returns the simulations of a row.
    fn cell(
        &self,
        ask: &Ask,
        behaviour: &Arc<Behaviour>,
        widened: Option<&Pool>,
    ) -> Result<Cell, PredictError> {
        let Ask { choice, split, threads, edit, .. } = ask;
        let mut behaviour = Arc::clone(behaviour);
        if *split > 1 {
            divide(Arc::make_mut(&mut behaviour), *split, widened);
        }
        if let (Some(Edit::Units { units }), Some(pool)) = (edit, widened) {
            widen(Arc::make_mut(&mut behaviour), *units, pool);
        }
        if let Some(change) = choice.change {
            apply(change, Arc::make_mut(&mut behaviour));
        }
        let rounds = (1..=self.question.rounds).map(|seed| {
            let (machine, _) = self.machine(ask, (seed, self.question.rounds))?;
            Ok(Replay {
                behaviour: paced(&behaviour, seed),
                anchor: Anchor::NONE,
                threads: *threads,
                policy: choice.policy,
                alone: choice.alone,
                // `convoy with` never lets a thread spin on one CPU.
                looks: if machine.topology.cpus == 1 { Some(0) } else { choice.looks },
                whole: false,
                others_cpus: 0.0,
                effort: self.question.effort,
                seed,
                kernel: placing(&self.machines.kernel, &behaviour, seed),
                machine,
            })
        });
        let rounds = rounds.collect::<Result<_, PredictError>>()?;
        let (_, says) = self.machine(ask, (1, 1))?;
        Ok(Cell { choice: choice.clone(), split: *split, edit: *edit, says, rounds })
    }
}

/// Splits the first lock, or multiplies the units of a pool.
fn divide(behaviour: &mut Behaviour, split: u32, widened: Option<&Pool>) {
    match widened {
        None => behaviour.locks[0] *= split,
        Some(pool) => widen(behaviour, pool.units.unwrap_or(0) * split, pool),
    }
}

/// Gives a pool this number of units.
fn widen(behaviour: &mut Behaviour, units: u32, pool: &Pool) {
    if let Some(script) = &mut behaviour.script {
        let more = f64::from(units) - f64::from(pool.units.unwrap_or(0));
        Arc::make_mut(script).conditions[pool.condition].tokens += more;
    }
}

/// Returns why no row follows from a replay, if none does: other programs ran, and the record does
/// not tell sleep from waiting for a CPU, or does not have the steps of working threads.
fn unfounded(behaviour: &Behaviour, written: &Written) -> Option<Reason> {
    let [threads, of] = written.absent;
    match () {
        () if !behaviour.is_disturbed => None,
        () if behaviour.ready_ns.is_none() => Some(Reason::Sleep),
        () if threads > 0 => Some(Reason::Absent { threads, of }),
        () => None,
    }
}

/// Returns an error for damaged records, and for imported ones, which do not contain CPU time.
fn check(record: &Record) -> Result<(), PredictError> {
    match record.program.source.as_str() {
        "" if is_damaged(record) => Err(PredictError::Damaged),
        "" => Ok(()),
        tool => Err(PredictError::Imported { tool: tool.to_owned() }),
    }
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
    use convoy_runs::replay::{Condition, Script};

    #[test]
    fn a_split_divides_a_lock_or_widens_a_pool() {
        let conditions = vec![Condition { tokens: -14.0, room: f64::INFINITY }];
        let script = Arc::new(Script { classes: Vec::new(), conditions });
        let recorded = Behaviour { locks: vec![1], script: Some(script), ..Behaviour::default() };
        let mut divided = recorded.clone();
        divide(&mut divided, 4, None);
        assert_eq!((divided.locks, divided.script), (vec![4], recorded.script.clone()));
        let mut widened = recorded;
        let pool = Pool { lock: 0, condition: 0, units: Some(2), taken: [2.0; 2] };
        divide(&mut widened, 4, Some(&pool));
        // Two units that sixteen threads hold at the start become eight.
        let tokens = widened.script.expect("a script").conditions[0].tokens;
        assert!((tokens + 8.0).abs() < 1e-9 && widened.locks == [1], "{tokens}");
    }
}
