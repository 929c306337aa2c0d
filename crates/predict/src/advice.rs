//! The lock replacement that pays for a recorded program, and the commands that check it.

use convoy_record::trace::What;
use convoy_record::{Kind, LOCK_OF, Lock, Process, Program, Record};
use serde::Serialize;

use crate::behaviour::{busiest, is_alone};
use crate::choice::{PREFER_WRITERS, SIGNAL};
use crate::mix::in_place;
use crate::row::Part;
use crate::units::duration;
use crate::{Choice, FAIR, HANDOFF, Prediction, Row, SLEEP, SPIN};

/// Advice about the locks of a recorded program.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The advice, in sentences.
    #[serde(rename = "advice")]
    pub text: String,
    /// The command that runs the program with the lock that pays; `None` if no lock pays.
    pub command: Option<String>,
    /// The command that measures its effect.
    pub check: Option<String>,
    /// Every lock that was tried.
    #[serde(flatten)]
    pub prediction: Prediction,
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
/// Change above which a factor is printed instead of a percentage.
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
    let quoted = |site: &String| {
        let lock = format!("{site}={mutex}");
        ("lock", shell_words::quote(&lock).into_owned(), mutex)
    };
    let mutexes: Vec<_> = match sites {
        [] => vec![("mutex", mutex.to_owned(), mutex)],
        sites => sites.iter().map(quoted).collect(),
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
        let first = busiest(record).1.first().copied();
        let kind = first.map(|lock| lock.kind).unwrap_or_default();
        let name = first.map_or("the lock", |lock| lock.name.as_str());
        let sites = first.filter(|_| is_alone(record)).map(sites).unwrap_or_default();
        let recorded = match program.policy(kind) {
            "" => SLEEP,
            policy => policy,
        };
        let now = prediction.rows.iter().find(|row| row.split == 1 && row.policy == recorded);
        let others: Vec<&Row> =
            prediction.rows.iter().filter(|row| row.split > 1 || row.policy != recorded).collect();
        let mut gains: Vec<&Row> =
            others.iter().copied().filter(|row| row.low_percent >= LEAST_PERCENT).collect();
        gains.sort_by(|a, b| b.change_percent.total_cmp(&a.change_percent));
        // If a program can be several times as fast, that gain is mentioned before unfairness.
        let (large, small): (Vec<&Row>, Vec<&Row>) =
            gains.iter().partition(|row| row.split > 1 && row.change_percent >= TIMES_PERCENT);
        let lock = Subject { name, recorded, kind };
        let gain = |row: &&Row| gain(row, &lock, now);
        let mut said: Vec<String> = large.iter().map(gain).collect();
        let waited_us = first.map_or(0.0, |lock| 1e6 * lock.all(|site| &site.wait).max_s);
        let starves = waited_us > STARVES_US;
        let fairest = now.filter(|_| starves).and_then(|now| {
            fairest(waited_us, starved(busiest(record).0?, first?).is_some(), now, &others)
        });
        said.extend(fairest.map(|row| bounded(row, &lock, waited_us)));
        let fairest = fairest.filter(|row| is_worth(row));
        let starvation = prediction.doubt.as_ref().filter(|_| starves);
        said.extend(starvation.and_then(|_| starved(busiest(record).0?, first?)));
        let said_already = fairest.map(|row| &row.policy);
        let is_new = |row: &&&Row| row.split > 1 || Some(&row.policy) != said_already;
        said.extend(small.iter().filter(is_new).map(gain));
        match &prediction.doubt {
            Some(doubt) => {
                let no = if said.is_empty() { "No advice." } else { "No prediction." };
                said.push(format!("{no} {doubt}"));
            }
            None if prediction.missing > 0 => said.push(untried(&prediction)),
            None if said.is_empty() => said.push(nothing(&others, kind)),
            None => {}
        }
        said.extend(prediction.beyond.clone());
        let put = |policy: &str| match kind {
            Kind::Semaphore => command(program, &[], &program.mutex, policy),
            _ => command(program, &sites, policy, &program.sem),
        };
        let is_lock =
            |row: &&Row| row.split == 1 && [SLEEP, SPIN, FAIR, HANDOFF].contains(&&*row.policy);
        let pays = fairest.into_iter().chain(gains.iter().copied()).find(is_lock);
        let pays = pays.filter(|_| matches!(kind, Kind::Mutex | Kind::Semaphore));
        let command = pays.map(|row| put(&row.policy));
        let check = command.as_ref().map(|after| {
            let before = put(recorded);
            let [before, after] = [&before, after].map(|text| shell_words::quote(text));
            format!("convoy compare {before} {after}")
        });
        Self { text: said.join(" "), command, check, prediction }
    }
}

/// Returns the verdict and the number of rows that were not simulated because of an interrupt.
fn untried(prediction: &Prediction) -> String {
    format!("{} {} changes were not simulated.", prediction.verdict, prediction.missing)
}

/// Returns whether a lock that ends starvation is worth its cost.
fn is_worth(row: &Row) -> bool {
    row.change_percent > -100.0 * PRICE
}

/// Returns a sentence that names the lock that ends starvation, and its cost.
fn bounded(row: &Row, lock: &Subject<'_>, waited_us: f64) -> String {
    let [waited, bound] = [waited_us, row.wait_max_us].map(duration);
    let means = means(row, lock);
    let starves = format!("Starvation: a thread waited up to {waited} for `{}`.", lock.name);
    if is_worth(row) {
        return format!("{starves} {means} bounds the wait to {bound}, with {}.", change(row));
    }
    format!(
        "{starves} {means} would bound the wait to {bound}, but it is not advised, since it gives \
         {}. Shorten the critical section, or release the lock for some time between two of them.",
        change(row)
    )
}

/// Returns the row that ends starvation at the lowest cost.
fn fairest<'a>(waited_us: f64, is_passed: bool, now: &Row, others: &[&'a Row]) -> Option<&'a Row> {
    let ends = |row: &&&Row| {
        // How long a passed waiter starves is chance, and a replay may have less of it, so the
        // recorded wait is used.
        let is_bounded = is_passed && [FAIR, HANDOFF].contains(&&*row.policy);
        let waited_us = if is_bounded { waited_us } else { now.wait_max_us.min(waited_us) };
        row.wait_max_us * SHORTER < waited_us
    };
    let fair = others.iter().filter(|row| row.split == 1).filter(ends);
    let best = fair.max_by(|a, b| a.change_percent.total_cmp(&b.change_percent));
    best.copied()
}

/// Returns a sentence about starvation that the record itself shows: a thread waited for much
/// longer than the other threads take if each of them holds the mutex once.
fn starved(process: &Process, lock: &Lock) -> Option<String> {
    let holds = lock.sites.iter().flat_map(|site| [site.hold_on.max_s, site.hold_off.max_s]);
    let held_s = holds.fold(0.0, f64::max);
    let turn_s = held_s * process.threads.saturating_sub(1) as f64;
    let waited_s = lock.all(|site| &site.wait).max_s;
    let is_passed = lock.kind == Kind::Mutex && held_s > 0.0 && waited_s > SHORTER * turn_s;
    is_passed.then(|| {
        format!(
            "Starvation: a thread waited up to {} for `{}`, which was held for at most {} at a \
             time. `convoy with --mutex {FAIR}` and `--mutex {HANDOFF}` bound how often a waiter \
             is passed; their effect on the throughput is not predicted.",
            duration(1e6 * waited_s),
            lock.name,
            duration(1e6 * held_s)
        )
    })
}

/// The lock that rows change.
struct Subject<'a> {
    name: &'a str,
    recorded: &'a str,
    kind: Kind,
}

/// Returns the change as the subject of a sentence.
fn means(row: &Row, lock: &Subject<'_>) -> String {
    let Subject { name, recorded, kind } = lock;
    match row.policy.as_str() {
        // Each part has as many units as the whole had.
        _ if row.split > 1 && *kind == Kind::Semaphore => {
            format!("Initialising `{name}` with {} times as many units", row.split)
        }
        _ if row.split > 1 => format!("Splitting `{name}` into {} locks", row.split),
        SIGNAL => "pthread_cond_signal (notify_one) instead of the broadcast".to_owned(),
        PREFER_WRITERS => "PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP".to_owned(),
        policy => format!("`{policy}` instead of `{recorded}`"),
    }
}

/// Returns a sentence about a row that pays.
fn gain(row: &Row, lock: &Subject<'_>, now: Option<&Row>) -> String {
    let mut text = format!("{} gives {}", means(row, lock), change(row));
    if let Some([times, low, high]) = row.program_times {
        let whole = format!(
            "; the whole program runs {times:.2} times as fast ({low:.2} to {high:.2}), its start \
             and end included"
        );
        text += &whole;
    }
    // The longest wait is a single one, so it is mentioned only if it is many times as long.
    let longer = now.filter(|now| row.wait_max_us > SHORTER * now.wait_max_us.max(1000.0));
    text += &longer.map_or(String::new(), |now| {
        let [after, before] = [row, now].map(|row| duration(row.wait_max_us));
        format!(", at the price of waits of up to {after} instead of {before}")
    });
    text + "."
}

/// Returns a sentence for the case that no change pays.
fn nothing(others: &[&Row], kind: Kind) -> String {
    let locks = others.iter().filter(|row| row.split == 1);
    let best = locks.max_by(|a, b| a.change_percent.total_cmp(&b.change_percent));
    best.map_or_else(
        || {
            if policies_of(kind).len() > 1 {
                return "No simulation of another lock has a steady throughput.".to_owned();
            }
            format!("`convoy with` has no replacement for a {}.", kind.name())
        },
        |row| {
            format!(
                "No lock replacement gives a significant gain: the best, `{}`, gives {}.",
                row.policy,
                change(row)
            )
        },
    )
}

/// Returns the change of the throughput: of the leading class of threads, then of the others.
fn change(row: &Row) -> String {
    let Some((first, others)) = row.parts.split_first() else { return change_of(row) };
    let mut text = format!("{} {}", change_of(row), in_place(&first.place));
    for part in others {
        let Part { acquisitions_per_s: now, recorded_per_s, .. } = *part;
        let place = in_place(&part.place);
        let more = format!(", and {now:.0} per second instead of {recorded_per_s:.0} {place}");
        text += &more;
    }
    text
}

/// Returns `12 % more acquisitions per second (+10 to +15 %)`, or the factor for large changes.
fn change_of(row: &Row) -> String {
    let times = |percent: f64| 1.0 + percent / 100.0;
    let Row { change_percent, low_percent, high_percent, .. } = *row;
    if change_percent >= TIMES_PERCENT {
        return format!(
            "{:.1} times as many acquisitions per second ({:.1} to {:.1})",
            times(change_percent),
            times(low_percent),
            times(high_percent)
        );
    }
    let more = if change_percent < 0.0 { "fewer" } else { "more" };
    format!(
        "{:.0} % {more} acquisitions per second ({low_percent:+.0} to {high_percent:+.0} %)",
        change_percent.abs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, change_percent: f64, wait_max_us: f64) -> Row {
        Row {
            cpus: 2,
            threads: 2,
            policy: policy.to_owned(),
            split: 1,
            machine: String::new(),
            acquisitions_per_s: 1e4,
            change_percent,
            low_percent: change_percent - 2.0,
            high_percent: change_percent + 2.0,
            program_times: None,
            cpus_used: 2.0,
            wait_p99_us: 10.0,
            wait_max_us,
            jain: 1.0,
            parts: Vec::new(),
        }
    }

    #[test]
    fn starvation_is_named_before_throughput() {
        let (now, fair) = (row(SLEEP, 0.0, 650_000.0), row(FAIR, -3.0, 4000.0));
        let spin = row(SPIN, 5.0, 700_000.0);
        assert_eq!(
            fairest(5e5, false, &now, &[&spin, &fair]).map(|row| row.policy.as_str()),
            Some(FAIR)
        );
        let dear = row(HANDOFF, -50.0, 4000.0);
        assert!(fairest(5e5, false, &now, &[&dear]).is_some_and(|row| !is_worth(row)));
        assert!(fairest(5e5, false, &now, &[&row(FAIR, 0.0, 400_000.0)]).is_none(), "no shorter");
        // The replay does not starve the waiter that was passed in the record.
        let lucky = row(SLEEP, 0.0, 300.0);
        let found = |is_passed| fairest(5e5, is_passed, &lucky, &[&spin, &fair]);
        assert_eq!(found(true).map(|row| row.policy.as_str()), Some(FAIR));
        assert!(found(false).is_none());
    }

    #[test]
    fn starvation_is_named_from_the_record_where_no_prediction_follows() {
        fn of(wait_s: f64, hold_s: f64, threads: u64) -> Option<String> {
            let [wait, hold_on] = [wait_s, hold_s].map(|max_s| Times { max_s, ..Times::default() });
            let site = Site { wait, hold_on, ..Site::default() };
            let lock = Lock { name: "world".to_owned(), sites: vec![site], ..Lock::default() };
            starved(&Process { threads, ..Process::default() }, &lock)
        }
        use convoy_record::{Site, Times};
        let said = of(0.243, 0.007, 2).expect("35 critical sections");
        assert!(
            said.starts_with("Starvation: a thread waited up to 243 ms for `world`, which was")
        );
        assert!(said.contains("at most 7 ms at a time"), "{said}");
        assert_eq!(of(0.243, 0.007, 8), None, "as long as a queue of seven may take");
        assert_eq!(of(0.243, 0.1, 2), None, "a long critical section");
        assert_eq!(of(0.243, 0.0, 2), None, "not known");
    }

    #[test]
    fn a_lock_that_costs_more_than_a_tenth_is_named_and_not_advised() {
        let lock = Subject { name: "m", recorded: SLEEP, kind: Kind::Mutex };
        let of = |percent| bounded(&row(FAIR, percent, 900.0), &lock, 200_000.0);
        assert_eq!(
            of(-9.0),
            "Starvation: a thread waited up to 200 ms for `m`. `fair` instead of `sleep` bounds \
             the wait to 900 us, with 9 % fewer acquisitions per second (-11 to -7 %)."
        );
        let dear = of(-12.0);
        assert!(dear.contains("would bound the wait to 900 us, but it is not advised"), "{dear}");
        assert!(dear.contains("12 % fewer acquisitions per second (-14 to -10 %)"), "{dear}");
    }

    #[test]
    fn a_change_of_shares_names_each_class() {
        fn part(place: &str, acquisitions_per_s: f64, recorded_per_s: f64) -> Part {
            Part { place: place.to_owned(), acquisitions_per_s, recorded_per_s }
        }
        let parts = vec![part("tick", 2300.0, 2500.0), part("read", 2200.0, 80.0)];
        assert_eq!(
            change(&Row { parts, ..row(FAIR, -9.0, 900.0) }),
            "9 % fewer acquisitions per second (-11 to -7 %) in tick, and 2200 per second instead \
             of 80 in read"
        );
    }

    #[test]
    fn gains_are_said_as_people_say_them() {
        let lock = |name, kind| Subject { name, recorded: SLEEP, kind };
        let mut split = row(SLEEP, 360.0, 10.0);
        split.split = 6;
        assert_eq!(
            gain(&split, &lock("journals", Kind::Mutex), None),
            "Splitting `journals` into 6 locks gives 4.6 times as many acquisitions per second \
             (4.6 to 4.6)."
        );
        let pool = gain(&split, &lock("connections", Kind::Semaphore), None);
        assert!(pool.starts_with("Initialising `connections` with 6 times as many"), "{pool}");
        let now = row(SLEEP, 0.0, 2000.0);
        let text = gain(&row(SPIN, 12.0, 900_000.0), &lock("m", Kind::Mutex), Some(&now));
        assert_eq!(
            text,
            "`spin` instead of `sleep` gives 12 % more acquisitions per second (+10 to +14 %), at \
             the price of waits of up to 900 ms instead of 2 ms."
        );
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
