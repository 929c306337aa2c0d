//! Doubts about a prediction, and reasons for rows without a simulation.

use convoy_predict::{Doubt, Feature, Figure, Prediction, Reason};
use std::collections::BTreeMap;

use super::phrase::in_place;
use super::rows::named;
use super::units::{duration, rate};

/// Returns the doubts of a prediction, and why rows have bounds alone.
pub fn doubts(prediction: &Prediction) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(why) = &prediction.reason {
        said.push(format!("The intervals are arithmetic alone: {}.", reason(why)));
    } else {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in &prediction.rows {
            if let Some(why) = &row.reason {
                rows.entry(reason(why)).or_default().push(named(row));
            }
        }
        said.extend(
            rows.into_iter()
                .map(|(why, rows)| format!("Arithmetic alone for {}: {why}.", rows.join(", "))),
        );
    }
    said.extend(prediction.doubts.iter().map(|doubt| text(doubt, prediction)));
    said
}

/// Returns a doubt in a sentence.
pub(super) fn text(doubt: &Doubt, prediction: &Prediction) -> String {
    match doubt {
        Doubt::Others { others_cpus, cpus } => format!(
            "Other programs had {others_cpus:.1} of {cpus} CPUs during the recording. The rows are \
             for the program alone."
        ),
        Doubt::OneCpu => "The program was recorded on one CPU, so the cost of data that moves \
                          from another CPU is not known. The lower ends include four cache lines \
                          for each acquisition."
            .to_owned(),
        Doubt::Wakeups => "The cost of wakeups was not measured, since other programs used the \
                           CPUs: the simulations range from the machine alone to a guest of a \
                           hypervisor."
            .to_owned(),
        Doubt::Guess => "A thread waited for a lock from its first call on, so how often it would \
                         call is not known: the simulations range from a thread that calls again \
                         immediately to a thread that calls again after a second."
            .to_owned(),
        Doubt::Watched { share, switches_per_s } => format!(
            "Recording kernel events took about {:.0} % of the CPU time, as threads were switched \
             {switches_per_s:.0} times per second; a record with --kernel off gives a better \
             prediction.",
            100.0 * share
        ),
        Doubt::Slips { share } => format!(
            "In {:.0} % of the waits for other threads all threads of the replay waited, and one \
             was let go: the order of the program's signals was not found.",
            100.0 * share
        ),
        Doubt::Steps => "The steps of a class of threads are not known well enough to be replayed \
                         in order."
            .to_owned(),
        Doubt::Uncounted { waits, recorded } => format!(
            "Of {recorded} recorded waits for other threads, {waits} come as often as recorded, \
             whatever the locks: no rule was found for when they are needed."
        ),
        Doubt::TimedOut { waits, recorded } => format!(
            "{waits} of {recorded} recorded waits ended by their time limit; what a thread then \
             asks of others comes as often as recorded."
        ),
        Doubt::Undivided { lock, condition } => format!(
            "No row splits `{lock}`: threads wait at `{condition}` with it, so they must share it."
        ),
        Doubt::Unordered { order, reason: why } => {
            let order: Vec<String> = order.iter().map(feature).collect();
            format!(
                "Replayed by places, without the order of steps ({}), since in that order {}.",
                order.join(", "),
                reason(why)
            )
        }
        Doubt::Mix { classes } => mix(classes, prediction),
    }
}

fn mix(classes: &[(String, [f64; 3])], prediction: &Prediction) -> String {
    let Some(((first, _), others)) = classes.split_first() else { return String::new() };
    let others = others.iter().map(|(place, [recorded, least, most])| {
        let place = in_place(place);
        if prediction.missing > 0 && least > most {
            return format!("{place} ({recorded:.0} in the record)");
        }
        format!("{place} {least:.0} to {most:.0} per second ({recorded:.0} in the record)")
    });
    format!(
        "Which threads acquire locks how often changes from row to row, so the rows count the \
         threads {} alone, which held locks for longest. The others: {}.",
        in_place(first),
        others.collect::<Vec<_>>().join("; ")
    )
}

/// Returns a feature of recorded steps.
pub(super) fn feature(feature: &Feature) -> String {
    match feature {
        Feature::Waits => "waits of threads for each other".to_owned(),
        Feature::Barriers => "barriers".to_owned(),
        Feature::Nesting => "locks held around others".to_owned(),
        Feature::Classes(count) => format!("{count} classes of threads"),
        Feature::Yields => "yields".to_owned(),
    }
}

/// Returns why a row has no simulation, as a clause.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::NoLock => "no lock of libc was acquired".to_owned(),
        Reason::SeveralLocks => {
            "the program was recorded with --lock, so that its mutexes are of several kinds"
                .to_owned()
        }
        Reason::OnlyContended => {
            "the record has only acquisitions that had to wait (--contended), so the work between \
             them is not known"
                .to_owned()
        }
        Reason::Sleep => "other programs had the CPUs, and the record does not tell sleep from \
                          waiting for a CPU; record as root or on a quiet machine"
            .to_owned(),
        Reason::Absent { threads, of } => format!(
            "other programs had the CPUs while the steps of {threads} of {of} threads should have \
             been recorded; record for longer or on a quiet machine"
        ),
        Reason::Threads { share } => format!(
            "threads waited for each other for {:.0} % of their time, and a record does not tell \
             for which of them more threads would wait",
            100.0 * share
        ),
        Reason::Units { lock } => format!(
            "fewer than 1 % of the acquisitions of the semaphore `{lock}` waited, so the number of \
             its units is not known"
        ),
        Reason::Single { place } => format!(
            "one thread alone works in {place}, and a record does not tell whether more threads \
             include another one that does"
        ),
        Reason::Unwaited { condition } => format!(
            "no thread waited for the condition `{condition}`, which threads signal: it may be a \
             pool that more threads use up"
        ),
        Reason::Differs { figure, replayed, recorded } => {
            let (figure, [replayed, recorded]) = figure_text(*figure, [*replayed, *recorded]);
            format!(
                "the replay of the record differs from it: its {figure} is {replayed} where \
                 {recorded} were recorded"
            )
        }
        Reason::Beside { recorded, alone, beside } => format!(
            "the replay of the record differs from it: {:.0} acquisitions per second were \
             recorded, and the replay has {:.0} alone and {:.0} with the other programs",
            rate(*recorded),
            rate(*alone),
            rate(*beside)
        ),
        Reason::Stuck { share } => format!(
            "in {:.0} % of the waits for other threads all threads of the replay waited: the order \
             of the program's signals was not found",
            100.0 * share
        ),
        Reason::Unsteady => {
            "the simulation has no steady throughput within its limit of work".to_owned()
        }
        Reason::Outside { times } => format!(
            "the simulation gives {} times the throughput, which arithmetic excludes",
            super::rows::times(*times)
        ),
    }
}

fn figure_text(figure: Figure, values: [f64; 2]) -> (&'static str, [String; 2]) {
    match figure {
        Figure::Throughput => {
            ("throughput", values.map(|value| format!("{:.0} per second", rate(value))))
        }
        Figure::Cpu => ("CPU time of an acquisition", values.map(duration)),
        Figure::Wait => ("mean wait", values.map(duration)),
        Figure::Idle => ("mean wait for other threads", values.map(duration)),
    }
}
