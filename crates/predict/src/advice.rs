//! The lock replacement that pays for a recorded program, and the commands that check it.

use convoy_diagnose::Diagnosis;
use convoy_record::trace::What;
use convoy_record::{Kind, LOCK_OF, Lock, Process, Program, Record, Site};
use serde::Serialize;

use crate::behaviour::{busiest, is_alone};
use crate::choice::{PREFER_WRITERS, SIGNAL};
use crate::demands::{Named, total_s};
use crate::edit::Open;
use crate::{Choice, FAIR, HANDOFF, Limit, Prediction, Row, SLEEP, SPIN};

/// Advice about the locks of a recorded program.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Name of the lock that the rows change.
    pub lock: String,
    /// Its kind.
    pub kind: Kind,
    /// Its recorded policy.
    pub recorded: String,
    /// Remedies and reasons, the most important one first.
    pub remedies: Vec<Remedy>,
    /// The command that runs the program with the lock that pays; `None` if no lock pays.
    pub command: Option<String>,
    /// The command that measures its effect.
    pub check: Option<String>,
    /// The best change of the source, unless a lock gains more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceChange>,
    /// Every lock that was tried.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// A change of the source and how to measure it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceChange {
    /// The place to change: the function with the longest critical sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The command that compares the program with a changed build, named after it.
    pub check: String,
}

/// One part of advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "remedy", rename_all = "kebab-case")]
pub enum Remedy {
    /// A change that raises the throughput: certainly by a simulation, or, of the source, by
    /// arithmetic.
    Gain {
        /// Its row.
        row: Row,
        /// Its longest wait, and the longest wait before, microseconds, if it is much longer.
        #[serde(skip_serializing_if = "Option::is_none")]
        longer_us: Option<[f64; 2]>,
    },
    /// A change that ends starvation.
    Bounded {
        /// Its row.
        row: Row,
        /// The longest recorded wait, microseconds.
        waited_us: f64,
        /// Whether it is worth its cost.
        is_worth: bool,
    },
    /// Starvation, for which no row has a simulation.
    Starves {
        /// The longest recorded wait, microseconds.
        waited_us: f64,
        /// The longest recorded critical section, microseconds.
        held_us: f64,
    },
    /// No change certainly pays.
    Nothing {
        /// The change with the largest middle, if there are any.
        #[serde(skip_serializing_if = "Option::is_none")]
        best: Option<Row>,
    },
    /// Changes that were not simulated because of an interrupt.
    Untried {
        /// Their number.
        rows: usize,
    },
}

/// Returns the choices that `convoy fix` tries for the most contended lock of `record`, the
/// recorded lock first.
pub fn policies(record: &Record) -> Vec<Choice> {
    let (process, locks) = busiest(record);
    let kind = locks.first().map(|lock| lock.kind).unwrap_or_default();
    let alone = is_alone(record);
    let steps = process.into_iter().flat_map(|process| &process.trace.strips);
    let broadcasts = steps.flat_map(|strip| &strip.steps).any(|step| step.what == What::Broadcast);
    let signal = broadcasts.then_some(SIGNAL);
    let names = policies_of(kind).iter().copied().chain(signal);
    names.map(|name| Choice::new(name).alone(alone)).collect()
}

fn policies_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Mutex => &[SLEEP, SPIN, FAIR, HANDOFF],
        Kind::Semaphore => &[SLEEP, HANDOFF],
        Kind::Rwlock => &[SLEEP, FAIR, PREFER_WRITERS],
        _ => &[SLEEP],
    }
}

/// Wait, microseconds, above which a waiter starves if another lock shortens the wait.
const STARVES_US: f64 = 50_000.0;
/// Factor by which another lock must shorten the wait.
const SHORTER: f64 = 5.0;
/// Largest share of the throughput that may be lost to end starvation. A lock that costs more is
/// mentioned but not advised.
const PRICE: f64 = 0.1;

/// A lock is advised if the lower end of its gain is at least this: medians of a program against
/// itself differ by as much (results/record.md), and every lock replacement has a cost.
const LEAST_PERCENT: f64 = 1.0;
/// Change of a split above which it is mentioned first.
const TIMES_PERCENT: f64 = 100.0;

/// Returns the names of a lock for `--lock`: its variable, or all call sites that acquire it, since
/// the first acquisition decides.
fn sites(lock: &Lock) -> Vec<String> {
    let by_place = lock.name.starts_with(LOCK_OF);
    let places = lock.sites.iter().map(|site| site.place.clone());
    if by_place { places.collect() } else { vec![lock.name.clone()] }
}

/// Returns the command line that runs the program with these policies; `mutex` applies only to
/// `sites` if there are any. `sleep` is libc's policy.
fn command(program: &Program, sites: &[String], mutex: &str, sem: &str) -> String {
    let mutexes: Vec<_> = match sites {
        [] => vec![("mutex", mutex.to_owned(), mutex)],
        sites => {
            let locks = sites.iter().map(|site| format!("{site}={mutex}"));
            locks.map(|lock| ("lock", shell_words::quote(&lock).into_owned(), mutex)).collect()
        }
    };
    let flags = mutexes.into_iter().chain([("sem", sem.to_owned(), sem)]);
    let flags = flags.filter(|(.., policy)| !["", SLEEP].contains(policy));
    let flags = flags.map(|(flag, value, _)| format!("--{flag} {value} "));
    let flags = flags.collect::<Vec<_>>().concat();
    let words = shell_words::join(&program.command);
    if flags.is_empty() { words } else { format!("convoy with {flags}-- {words}") }
}

impl Advice {
    /// Returns the advice that follows from the prediction of a record.
    pub fn new(record: &Record, prediction: Prediction) -> Self {
        let program = &record.program;
        let (process, locks) = busiest(record);
        let first = locks.first().copied();
        let kind = first.map(|lock| lock.kind).unwrap_or_default();
        let sites = first.filter(|_| is_alone(record)).map(sites).unwrap_or_default();
        let recorded = match program.policy(kind) {
            "" => SLEEP,
            policy => policy,
        };
        let open = Open::new(&Diagnosis::new(record));
        let remedies = remedies(process, first, recorded, open, &prediction);
        let source = remedies.iter().find_map(|remedy| match remedy {
            Remedy::Gain { row, .. } => {
                (!is_lock(row)).then(|| source(program, process, &prediction))
            }
            _ => None,
        });
        let pays = remedies.iter().find_map(|remedy| match remedy {
            Remedy::Gain { row, .. } | Remedy::Bounded { row, is_worth: true, .. } => {
                is_lock(row).then_some(row)
            }
            _ => None,
        });
        let pays = pays.filter(|_| matches!(kind, Kind::Mutex | Kind::Semaphore));
        let run = |policy: &str| match kind {
            Kind::Semaphore => command(program, &[], &program.mutex, policy),
            _ => command(program, &sites, policy, &program.sem),
        };
        let command = pays.map(|row| run(&row.policy));
        let check = command.as_ref().map(|after| {
            let before = run(recorded);
            let [before, after] = [&before, after].map(|text| shell_words::quote(text));
            format!("convoy compare {before} {after}")
        });
        let lock = first.map_or_else(String::new, |lock| Named::new(lock).name);
        let recorded = recorded.to_owned();
        Self { lock, kind, recorded, remedies, command, check, source, prediction }
    }
}

/// Returns whether a row only has another lock, which `convoy with` offers.
fn is_lock(row: &Row) -> bool {
    !is_source(row) && [SLEEP, SPIN, FAIR, HANDOFF].contains(&&*row.policy)
}

/// Returns whether a row changes the source at the lock that limits the program.
fn is_source(row: &Row) -> bool {
    row.split > 1 || row.edit.is_some()
}

/// Returns where to change the source, and the command that measures the change.
fn source(program: &Program, process: Option<&Process>, prediction: &Prediction) -> SourceChange {
    let place = match &prediction.limit {
        Limit::Lock { lock, .. } | Limit::Pool { pool: lock, .. } => {
            let locks = process.into_iter().flat_map(|process| &process.locks);
            let own = locks.filter(|recorded| Named::new(recorded).name == lock.name);
            let held_s = |site: &Site| total_s(site.count, &site.hold_on, &site.hold_off);
            let longest = own
                .flat_map(|recorded| &recorded.sites)
                .max_by(|a, b| held_s(a).total_cmp(&held_s(b)));
            longest.map(|site| site.place.clone())
        }
        Limit::Kernel { lock, .. } => Some(lock.place.clone()),
        Limit::Unknown { .. } | Limit::Nothing { .. } => None,
    };
    let mut changed = program.command.clone();
    if let Some(name) = changed.first_mut() {
        name.push_str(".changed");
    }
    let [before, after] = [&program.command, &changed].map(shell_words::join);
    let [before, after] = [&before, &after].map(|text| shell_words::quote(text));
    SourceChange {
        place: place.filter(|place| !place.is_empty()),
        check: format!("convoy compare {before} {after}"),
    }
}

/// Returns the remedies that follow from a prediction for the lock `first`.
fn remedies(
    process: Option<&Process>,
    first: Option<&Lock>,
    recorded: &str,
    open: Open,
    prediction: &Prediction,
) -> Vec<Remedy> {
    let rows = &prediction.rows;
    let now = rows.iter().find(|row| !is_source(row) && row.policy == recorded);
    let waited_us = first.map_or(0.0, |lock| 1e6 * lock.all(|site| &site.wait).max_s);
    let starved = process.zip(first).filter(|_| waited_us > STARVES_US);
    let starved = starved.and_then(|(process, lock)| starved_us(process, lock));
    // What cannot help according to the diagnosis is not proposed. But a thread that waits for far
    // longer than others hold the lock is passed by them, whatever they do: another lock lets it
    // have its turn.
    let may_replace = open.lock || starved.is_some();
    let is_open = |row: &&Row| match (row.edit, row.split, row.policy.as_str()) {
        (Some(_), ..) => true,
        (None, 1, policy) => policy != recorded && (may_replace || !is_lock(row)),
        (None, ..) => open.split,
    };
    let changed: Vec<&Row> = rows.iter().filter(is_open).collect();
    let gains = gains(&changed);
    // If a program can be several times as fast, that gain is mentioned before unfairness.
    let (large, small): (Vec<&Row>, Vec<&Row>) =
        gains.iter().partition(|row| is_source(row) && row.change_percent >= TIMES_PERCENT);
    let fairest = now
        .filter(|_| waited_us > STARVES_US)
        .and_then(|now| fairest(waited_us, starved.is_some(), now, &changed));
    let gain = |row: &&Row| Remedy::Gain { row: (*row).clone(), longer_us: longer_us(row, now) };
    let mut remedies: Vec<Remedy> = large.iter().map(gain).collect();
    remedies.extend(fairest.map(|row| {
        let is_worth = row.change_percent > -100.0 * PRICE;
        Remedy::Bounded { row: row.clone(), waited_us, is_worth }
    }));
    let is_simulated = rows.iter().any(|row| row.simulated.is_some());
    let [waited_us, held_us] = starved.unwrap_or_default();
    let starves = starved.filter(|_| !is_simulated);
    remedies.extend(starves.map(|_| Remedy::Starves { waited_us, held_us }));
    let is_told = |row: &&&Row| {
        !is_source(row)
            && fairest.is_some_and(|fairest| fairest.policy == row.policy)
            && fairest.is_some_and(|fairest| fairest.change_percent > -100.0 * PRICE)
    };
    remedies.extend(small.iter().filter(|row| !is_told(row)).map(gain));
    if prediction.missing > 0 {
        remedies.push(Remedy::Untried { rows: prediction.missing });
    } else if remedies.is_empty() {
        let best = changed.iter().filter(|row| !is_source(row));
        let best = best.max_by(|a, b| a.change_percent.total_cmp(&b.change_percent));
        remedies.push(Remedy::Nothing { best: best.map(|row| (*row).clone()) });
    }
    remedies
}

/// Returns the changes that gain, the largest first: locks whose gain is certain, and the best
/// changes of the source, for which arithmetic is enough.
fn gains<'a>(changed: &[&'a Row]) -> Vec<&'a Row> {
    /// Number of changes of the source that are mentioned; the table has all.
    const SOURCES: usize = 2;
    let gains_by = |row: &Row| if is_source(row) { row.change_percent } else { row.low_percent };
    let mut gains: Vec<&Row> =
        changed.iter().copied().filter(|row| gains_by(row) >= LEAST_PERCENT).collect();
    gains.sort_by(|a, b| b.change_percent.total_cmp(&a.change_percent));
    let mut sources = 0;
    gains.retain(|row| {
        sources += usize::from(is_source(row));
        !is_source(row) || sources <= SOURCES
    });
    gains
}

/// Returns the longest waits of a row and before, microseconds, if the row's is many times as long:
/// the longest wait is a single one.
fn longer_us(row: &Row, now: Option<&Row>) -> Option<[f64; 2]> {
    let after = row.simulated.as_ref()?.wait_max_us;
    let before = now?.simulated.as_ref()?.wait_max_us;
    (after > SHORTER * before.max(1000.0)).then_some([after, before])
}

/// Returns the row that ends starvation at the lowest cost.
fn fairest<'a>(waited_us: f64, is_passed: bool, now: &Row, changed: &[&'a Row]) -> Option<&'a Row> {
    let now_us = now.simulated.as_ref()?.wait_max_us;
    let ends = |row: &&&Row| {
        // How long a passed waiter starves is chance, and a replay may have less of it, so the
        // recorded wait is used.
        let is_bounded = is_passed && [FAIR, HANDOFF].contains(&&*row.policy);
        let waited_us = if is_bounded { waited_us } else { now_us.min(waited_us) };
        row.simulated.as_ref().is_some_and(|figures| figures.wait_max_us * SHORTER < waited_us)
    };
    let fair = changed.iter().filter(|row| !is_source(row)).filter(ends);
    let best = fair.max_by(|a, b| a.change_percent.total_cmp(&b.change_percent));
    best.copied()
}

/// Returns the longest wait for a mutex and its longest critical section, microseconds, if a thread
/// waited for much longer than the other threads take if each of them holds the mutex once.
fn starved_us(process: &Process, lock: &Lock) -> Option<[f64; 2]> {
    let holds = lock.sites.iter().flat_map(|site| [site.hold_on.max_s, site.hold_off.max_s]);
    let held_s = holds.fold(0.0, f64::max);
    let turn_s = held_s * process.threads.saturating_sub(1) as f64;
    let waited_s = lock.all(|site| &site.wait).max_s;
    let is_passed = lock.kind == Kind::Mutex && held_s > 0.0 && waited_s > SHORTER * turn_s;
    is_passed.then(|| [waited_s, held_s].map(|seconds| 1e6 * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulated;

    fn row(policy: &str, change_percent: f64, wait_max_us: f64) -> Row {
        let simulated = Simulated { wait_max_us, ..Simulated::default() };
        Row {
            policy: policy.to_owned(),
            split: 1,
            change_percent,
            low_percent: change_percent - 2.0,
            high_percent: change_percent + 2.0,
            simulated: Some(simulated),
            ..Row::default()
        }
    }

    #[test]
    fn starvation_is_named_before_throughput() {
        fn best(waited_us: f64, is_passed: bool, now: &Row, rows: &[&Row]) -> Option<String> {
            fairest(waited_us, is_passed, now, rows).map(|row| row.policy.clone())
        }
        let (now, fair) = (row(SLEEP, 0.0, 650_000.0), row(FAIR, -3.0, 4000.0));
        let spin = row(SPIN, 5.0, 700_000.0);
        assert_eq!(best(5e5, false, &now, &[&spin, &fair]).as_deref(), Some(FAIR));
        assert_eq!(best(5e5, false, &now, &[&row(FAIR, 0.0, 400_000.0)]), None, "no shorter");
        // The replay does not starve the waiter that was passed in the record.
        let lucky = row(SLEEP, 0.0, 300.0);
        assert_eq!(best(5e5, true, &lucky, &[&spin, &fair]).as_deref(), Some(FAIR));
        assert_eq!(best(5e5, false, &lucky, &[&spin, &fair]), None);
    }

    #[test]
    fn starvation_is_known_from_the_record_where_no_simulation_counts() {
        fn of(wait_s: f64, hold_s: f64, threads: u64) -> Option<[f64; 2]> {
            let [wait, hold_on] = [wait_s, hold_s].map(|max_s| Times { max_s, ..Times::default() });
            let site = Site { wait, hold_on, ..Site::default() };
            let lock = Lock { name: "world".to_owned(), sites: vec![site], ..Lock::default() };
            starved_us(&Process { threads, ..Process::default() }, &lock)
        }
        use convoy_record::{Site, Times};
        assert_eq!(of(0.25, 0.0625 / 8.0, 2), Some([250_000.0, 7812.5]));
        assert_eq!(of(0.243, 0.007, 8), None, "as long as a queue of seven may take");
        assert_eq!(of(0.243, 0.1, 2), None, "a long critical section");
        assert_eq!(of(0.243, 0.0, 2), None, "not known");
    }

    #[test]
    fn only_a_change_that_certainly_gains_pays() {
        fn kinds(rows: &[Row]) -> Vec<&'static str> {
            let prediction = Prediction { rows: rows.to_vec(), ..Prediction::default() };
            let open = Open { lock: true, split: true };
            let remedies = remedies(None, None, SLEEP, open, &prediction);
            let name = |remedy: &Remedy| match remedy {
                Remedy::Gain { .. } => "gain",
                Remedy::Nothing { best: Some(_) } => "nothing",
                other => panic!("{other:?}"),
            };
            remedies.iter().map(name).collect()
        }
        let now = row(SLEEP, 0.0, 10.0);
        assert_eq!(kinds(&[now.clone(), row(SPIN, 9.0, 10.0), row(FAIR, 2.0, 10.0)]), ["gain"]);
        assert_eq!(kinds(&[now, row(FAIR, 2.0, 10.0)]), ["nothing"]);
    }

    /// `explain` says that another lock will not help, and to split what the lock guards. A record
    /// of such a program made `fix` find that four locks give 4.7 times, and print commands that
    /// test `handoff`, which loses 5 %.
    #[test]
    fn fix_proposes_nothing_that_explain_rules_out() {
        fn times(each_s: f64) -> Times {
            let buckets = vec![(each_s * 1e9, 200)];
            Times { count: 200, total_s: 200.0 * each_s, max_s: each_s, buckets }
        }
        use convoy_record::{Site, Times};
        let site = Site {
            place: "tick (world.c:9)".to_owned(),
            act: "lock".to_owned(),
            count: 200,
            contended: 190,
            threads: 8,
            hold_on: times(0.004),
            wait: times(0.02),
            ..Site::default()
        };
        let lock =
            Lock { name: "world".to_owned(), instances: 1, sites: vec![site], ..Lock::default() };
        let process = Process {
            seconds: 1.0,
            cpu_s: 0.9,
            threads: 8,
            locks: vec![lock],
            ..Process::default()
        };
        let program =
            Program { cpus: 2, wall_s: 1.0, command: vec!["./world".into()], ..Program::default() };
        let record = Record { program, processes: vec![process], ..Record::default() };
        let cure = Diagnosis::new(&record).first().expect("threads wait").cure();
        assert_eq!(cure, convoy_diagnose::Cure::Shorten);
        let split = Row { split: 4, ..row(SLEEP, 370.0, 5.0) };
        // Handoff ends starvation at a price, and would be advised.
        let handoff = Row { low_percent: 2.0, ..row(HANDOFF, 4.0, 5.0) };
        let rows = vec![row(SLEEP, 0.0, 900_000.0), split.clone(), handoff];
        let prediction = Prediction { rows, ..Prediction::default() };
        let advice = Advice::new(&record, prediction);
        assert_eq!((advice.command, advice.check), (None, None));
        let [Remedy::Gain { row, .. }] = &advice.remedies[..] else {
            panic!("{:?}", advice.remedies)
        };
        assert_eq!(*row, split);
        let check = "convoy compare ./world ./world.changed".to_owned();
        assert_eq!(advice.source.map(|source| source.check), Some(check));
    }

    #[test]
    fn a_lock_that_changes_alone_is_named_in_the_command() {
        let program =
            Program { command: vec!["./db".into(), "--fast".into()], ..Program::default() };
        let sites = ["note (orders.c:36)".to_owned(), "journals".to_owned()];
        let with = |sites, mutex| command(&program, sites, mutex, "");
        assert_eq!(with(&[], FAIR), "convoy with --mutex fair -- ./db --fast");
        assert_eq!(
            with(&sites, FAIR),
            "convoy with --lock 'note (orders.c:36)=fair' --lock 'journals=fair' -- ./db --fast"
        );
        assert_eq!(with(&sites, SLEEP), "./db --fast");
    }
}
