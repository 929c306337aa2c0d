//! The first sentences about a program whose locks cost little, or whose waits are not known.

use convoy_diagnose::{
    Activity, BusyPool, Clients, ConditionWaits, CpusInUse, EndedBy, FewWakers, Gap, PipeWaits,
    Quiet, Spread,
};

use super::gap;
use super::phrase::{at, count, list, percent, seconds};

/// Returns the first sentences.
pub(super) fn text(quiet: &Quiet) -> String {
    let first = match &quiet.gap {
        Some(
            gap @ (Gap::OnlySamples { .. } | Gap::StaticProgram { .. } | Gap::ProcessWaits { .. }),
        ) => {
            return gap::text(gap);
        }
        Some(gap) => gap::text(gap),
        None => waits(quiet),
    };
    let first = match &quiet.busy_pool {
        Some(pool) => format!("{} {first}", busy_pool(pool)),
        None => first,
    };
    let first = match &quiet.pipe {
        Some(pipe) => format!("{first} {}", self::pipe(pipe)),
        None => first,
    };
    match &quiet.activity {
        Some(activity) => format!("{first} {}", self::activity(activity)),
        None => first,
    }
}

/// Returns the possible reasons of waits at a pipe.
fn pipe(waits: &PipeWaits) -> String {
    let PipeWaits { place, waiting } = waits;
    format!(
        "On average {waiting:.1} threads waited in read(2){} for data that other threads of the \
         process write: for work, or for a unit of a pool. If each thread writes its unit back, \
         more units admit more threads.",
        at(place.as_ref())
    )
}

/// Returns that work waits for the threads of a pool, and how to get more of them.
pub(super) fn busy_pool(pool: &BusyPool) -> String {
    let (threads, busy) = (pool.threads, percent(pool.busy));
    match &pool.clients {
        None => format!(
            "The {threads} threads of libuv's pool had work during {busy} of their time, so short \
             requests (files, names of hosts, compression, keys) wait behind long ones. Give it \
             more threads: UV_THREADPOOL_SIZE={}.",
            4 * threads
        ),
        Some(Clients { place, waiting }) => {
            let (pool, its, it) = match threads {
                1 => ("only thread".to_owned(), "its", "it"),
                _ => (count(threads, "thread"), "their", "them"),
            };
            format!(
                "The {pool} of a pool had work during {busy} of {its} time, while {waiting:.1} \
                 threads on average waited for {it} in {place}: work waits for a thread. Give the \
                 pool more threads, if several can do this work at a time."
            )
        }
    }
}

/// Mean number of CPUs that is not mentioned.
const LITTLE_CPU: f64 = 0.05;

/// Returns how long threads waited.
fn waits(quiet: &Quiet) -> String {
    if !quiet.has_locks {
        return match quiet.activity {
            Some(_) => "Locks cost little: no thread was seen waiting for one.".to_owned(),
            None => "No lock was seen: only samples of CPU time were recorded, and they show no \
                     waiting in a loop."
                .to_owned(),
        };
    }
    let condition = quiet.condition.as_ref().map(condition);
    let waited = format!("Locks cost little: threads waited {} for them", seconds(quiet.wait_s));
    match (&quiet.spread, condition, quiet.in_use) {
        (_, condition, Some(CpusInUse { program, others, cpus })) => {
            let condition = condition.map_or_else(String::new, |text| format!(" {text}"));
            let by_others = if others < LITTLE_CPU {
                String::new()
            } else {
                format!(", other programs {others:.1}")
            };
            format!(
                "{waited}, mostly while the CPUs were in use: the program used {program:.1} of \
                 {cpus:.0}{by_others}.{condition}"
            )
        }
        (Some(spread), Some(condition), None) => format!("{} {condition}", self::spread(spread)),
        (Some(spread), None, None) => self::spread(spread),
        (None, Some(condition), None) => format!("{waited}. {condition}"),
        (None, None, None) => format!("{waited} in {}.", count(quiet.calls, "acquisition")),
    }
}

fn spread(spread: &Spread) -> String {
    format!(
        "Threads spent {} of their time waiting for locks, {} in all, at many places; most for \
         `{}`{}, {}.",
        percent(spread.share),
        seconds(spread.wait_s),
        spread.lock,
        at(spread.place.as_ref()),
        seconds(spread.first_s)
    )
}

fn condition(waits: &ConditionWaits) -> String {
    let ended = waits.ended_by.as_ref().map_or_else(String::new, |EndedBy { place, call }| {
        let doing = call.as_ref().map_or("ran".to_owned(), |call| format!("slept in {call}"));
        format!("; the thread in {place} that woke them {doing}")
    });
    let few = waits.wakers.as_ref().map(few).unwrap_or_default();
    let full = waits.for_room.map(full).unwrap_or_default();
    format!(
        "They waited longer for work or for each other, {} on `{}`{}, {}{ended}.{few}{full}",
        seconds(waits.wait_s),
        waits.lock,
        at(waits.place.as_ref()),
        count(waits.count, "time")
    )
}

fn full(waiting: f64) -> String {
    format!(
        " The queue was full: {waiting:.1} threads on average waited for room in it, so the \
         threads that take from it limit the program. If these have more to do, let more threads \
         take from it, or do less for each element."
    )
}

fn few(wakers: &FewWakers) -> String {
    let FewWakers { place, threads, waiting } = wakers;
    let threads = match threads {
        1 => "one thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    format!(
        " The {threads} in {place} that woke them seldom waited, while {waiting:.1} threads on \
         average waited for them: if these have more to do, give the work in {place} more threads."
    )
}

fn activity(activity: &Activity) -> String {
    let mut words = vec![format!("ran or waited for a CPU during {}", percent(activity.runs))];
    words.extend(
        activity
            .sleeps
            .iter()
            .map(|(call, share)| format!("slept in {call} during {}", percent(*share))),
    );
    if activity.idles > 0.0 {
        words.push(format!("waited for conditions during {}", percent(activity.idles)));
    }
    let full = activity.runnable.map_or(String::new(), |threads| {
        format!(
            " On average {threads:.1} threads could run on {}: they wait for CPUs.",
            count(u64::from(activity.cpus), "CPU")
        )
    });
    format!("Threads {} of their time.{full}", list(words))
}
