//! The lock that pays for a recorded program, and the commands that check it.

use convoy_record::{Kind, LOCK_OF, Lock, Program, Record};
use serde::Serialize;

use crate::behaviour::{busiest, is_alone};
use crate::{Choice, FAIR, HANDOFF, Prediction, Row, SLEEP, SPIN};

/// What to do about the locks of a recorded program.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// What to do, in sentences.
    #[serde(rename = "advice")]
    pub text: String,
    /// The program under the lock that pays; none if none does.
    pub command: Option<String>,
    /// The command that measures it.
    pub check: Option<String>,
    /// Every lock that was tried.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// Returns the policies that `convoy with` has for the most contended lock of `record`, libc's own
/// first.
pub fn policies(record: &Record) -> Vec<Choice> {
    let kind = busiest(record).1.first().map(|lock| lock.kind).unwrap_or_default();
    let alone = is_alone(record);
    policies_of(kind).iter().map(|name| Choice::new(name).alone(alone)).collect()
}

fn policies_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Mutex => &[SLEEP, SPIN, FAIR, HANDOFF],
        Kind::Semaphore => &[SLEEP, HANDOFF],
        _ => &[SLEEP],
    }
}

/// A lock is advised if it is sure to gain this: medians of a program against itself differ by as
/// much (docs/record.md), and every lock has a price.
const LEAST_PERCENT: f64 = 1.0;

/// What `--lock` calls a lock: its variable, or all places that take it, since what counts is the
/// one that does so first.
fn sites(lock: &Lock) -> Vec<String> {
    let by_place = lock.name.starts_with(LOCK_OF);
    let places = lock.sites.iter().map(|site| site.place.clone());
    if by_place { places.collect() } else { vec![lock.name.clone()] }
}

/// The command line that runs the program under these locks, the mutex at some places alone if
/// there are any; `sleep` is what libc does.
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
        let sites = first.filter(|_| is_alone(record)).map(sites).unwrap_or_default();
        let recorded = match program.policy(kind) {
            "" => SLEEP,
            policy => policy,
        };
        let (split, whole): (Vec<&Row>, Vec<&Row>) =
            prediction.rows.iter().partition(|row| row.split > 1);
        let now = whole.iter().copied().find(|row| row.policy == recorded);
        let others = whole.iter().copied().filter(|row| row.policy != recorded);
        let best = others.max_by(|a, b| a.change_percent.total_cmp(&b.change_percent));
        let known = prediction.doubt.is_none();
        let pays = best.filter(|row| known && row.low_percent >= LEAST_PERCENT);
        let mut advice = match (best, pays) {
            _ if !known => "Nothing is advised: the replay is not this program.".to_owned(),
            (_, Some(row)) => {
                format!("`{}` in place of `{recorded}` pays: {}", row.policy, gain(row))
            }
            (Some(row), None) => format!(
                "No other lock is sure to pay. `{}`, the best, would give {}",
                row.policy,
                gain(row)
            ),
            (None, None) => {
                format!("`convoy with` has nothing in place of a {} yet.", kind.name())
            }
        };
        if let Some([times, low, high]) = pays.and_then(|row| row.program_times) {
            let whole = format!(
                " The whole program would run {times:.2} times as fast ({low:.2} to {high:.2}), \
                 its start and end included."
            );
            advice += &whole;
        }
        if let (Some(now), Some(row)) = (now, pays) {
            // What both round to is no price.
            let is_dearer = row.wait_p99_us > 1.1 * now.wait_p99_us || row.jain < now.jain - 0.02;
            let word = if is_dearer { "Its price" } else { "It is no less fair" };
            let price = format!(
                " {word}: 99 % of waits end within {:.0} us instead of {:.0}, and Jain's index \
                 of fairness is {:.2} instead of {:.2}.",
                row.wait_p99_us, now.wait_p99_us, row.jain, now.jain
            );
            advice += &price;
        }
        for row in split.into_iter().filter(|_| known) {
            let parts = format!(" The lock in {} parts would give {}", row.split, gain(row));
            advice += &parts;
        }
        let put = |policy: &str| match kind {
            Kind::Semaphore => command(program, &[], &program.mutex, policy),
            _ => command(program, &sites, policy, &program.sem),
        };
        if let Some(beyond) = &prediction.beyond {
            advice = format!("{beyond} Of the other locks: {advice}");
        }
        let (before, command) = (put(recorded), pays.map(|row| put(&row.policy)));
        let check = command.as_ref().map(|after| {
            let [before, after] = [&before, after].map(|text| shell_words::quote(text));
            format!("convoy compare {before} {after}")
        });
        Self { text: advice, command, check, prediction }
    }
}

/// `12 % more acquisitions a second (10 to 15 %).`
fn gain(row: &Row) -> String {
    let more = if row.change_percent < 0.0 { "fewer" } else { "more" };
    format!(
        "{:.0} % {more} acquisitions a second (from {:+.0} to {:+.0} %).",
        row.change_percent.abs(),
        row.low_percent,
        row.high_percent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
