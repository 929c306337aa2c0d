//! Advice about the locks of a program, in sentences.

use convoy_predict::{
    Advice, Edit, FAIR, HANDOFF, Limit, PREFER_WRITERS, Part, Prediction, Remedy, Row, SIGNAL,
};
use convoy_record::Kind;

use super::doubt::reason;
use super::limit::{beyond, of_kernel, verdict};
use super::phrase::in_place;
use super::rows::BOUNDLESS;
use super::units::duration;

/// Change above which a factor is printed instead of a percentage.
const TIMES_PERCENT: f64 = 100.0;

/// Returns advice in sentences.
pub fn advice(advice: &Advice) -> String {
    let mut said: Vec<String> = advice.remedies.iter().map(|remedy| text(remedy, advice)).collect();
    let Prediction { reason: why, beyond: lock, .. } = &advice.prediction;
    said.extend(why.as_ref().map(|why| format!("Nothing was simulated: {}.", reason(why))));
    said.extend(lock.as_ref().map(beyond));
    said.join(" ")
}

fn text(remedy: &Remedy, advice: &Advice) -> String {
    match remedy {
        Remedy::Gain { row, longer_us } => gain(row, *longer_us, advice),
        Remedy::Bounded { row, waited_us, is_worth } => bounded(row, *waited_us, *is_worth, advice),
        Remedy::Starves { waited_us, held_us } => format!(
            "Starvation: a thread waited up to {} for `{}`, which was held for at most {} at a \
             time. `convoy with --mutex {FAIR}` and `--mutex {HANDOFF}` bound how often a waiter \
             is passed; their effect on the throughput is not predicted.",
            duration(*waited_us),
            advice.lock,
            duration(*held_us)
        ),
        Remedy::Nothing { best } => nothing(best.as_ref(), advice),
        Remedy::Untried { rows } => {
            format!("{} {rows} changes were not simulated.", verdict(&advice.prediction))
        }
    }
}

/// Returns a sentence that names the lock that ends starvation, and its cost.
fn bounded(row: &Row, waited_us: f64, is_worth: bool, advice: &Advice) -> String {
    let bound_us = row.simulated.as_ref().map_or(f64::NAN, |figures| figures.wait_max_us);
    let [waited, bound] = [waited_us, bound_us].map(duration);
    let means = means(row, advice);
    let starves = format!("Starvation: a thread waited up to {waited} for `{}`.", advice.lock);
    if is_worth {
        return format!("{starves} {means} bounds the wait to {bound}, with {}.", change(row));
    }
    format!(
        "{starves} {means} would bound the wait to {bound}, but it is not advised, since it gives \
         {}. Shorten the critical section, or release the lock for some time between two of them.",
        change(row)
    )
}

/// Returns the change as the subject of a sentence.
fn means(row: &Row, advice: &Advice) -> String {
    let Advice { lock, kind, recorded, prediction, .. } = advice;
    if let Some(edit) = row.edit {
        return means_of_edit(edit, advice);
    }
    match (row.policy.as_str(), &prediction.limit) {
        (_, Limit::Pool { pool, units, .. }) if row.split > 1 => {
            let more = units * row.split;
            format!("Giving the pool `{}` {more} units instead of {units}", pool.name)
        }
        // Each part has as many units as the whole had.
        _ if row.split > 1 && *kind == Kind::Semaphore => {
            format!("Initialising `{lock}` with {} times as many units", row.split)
        }
        _ if row.split > 1 => format!("Splitting `{lock}` into {} locks", row.split),
        (SIGNAL, _) => "pthread_cond_signal (notify_one) instead of the broadcast".to_owned(),
        (PREFER_WRITERS, _) => "PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP".to_owned(),
        (policy, _) => format!("`{policy}` instead of `{recorded}`"),
    }
}

/// Returns a change of the source as the subject of a sentence.
fn means_of_edit(edit: Edit, advice: &Advice) -> String {
    let (name, units) = match &advice.prediction.limit {
        Limit::Lock { lock, .. } => (format!("`{}`", lock.name), 1),
        Limit::Pool { pool, units, .. } => (format!("the pool `{}`", pool.name), *units),
        Limit::Kernel { lock, .. } => (of_kernel(lock), 1),
        Limit::Unknown { .. } | Limit::Nothing { .. } => (format!("`{}`", advice.lock), 1),
    };
    let place = advice.source.as_ref().and_then(|source| source.place.as_ref());
    let place = place.map_or(String::new(), |place| format!(" in {place}"));
    match edit {
        Edit::Units { units: more } => format!("Giving {name} {more} units instead of {units}"),
        Edit::Half if matches!(advice.prediction.limit, Limit::Kernel { .. }) => {
            format!("Needing {name} half as often")
        }
        Edit::Half if units > 1 => format!("Keeping a unit of {name} for half as long"),
        Edit::Half => format!("Doing half of the work under {name}{place} after its release"),
        Edit::Sleep => format!("Sleeping outside of {name}{place}"),
        Edit::Readers => format!("Reading without {name}"),
        Edit::Thread => "One thread less".to_owned(),
    }
}

/// Returns a sentence about a row that pays.
fn gain(row: &Row, longer_us: Option<[f64; 2]>, advice: &Advice) -> String {
    let mut text = format!("{} gives {}", means(row, advice), change(row));
    if let Some([times, low, high]) = row.program_times {
        let whole = format!(
            "; the whole program runs {times:.2} times as fast ({low:.2} to {high:.2}), its start \
             and end included"
        );
        text += &whole;
    }
    text += &longer_us.map_or(String::new(), |waits_us| {
        let [after, before] = waits_us.map(duration);
        format!(", at the price of waits of up to {after} instead of {before}")
    });
    if row.simulated.is_none() {
        text += ", by arithmetic";
    }
    text + "."
}

/// Returns a sentence for the case that no change certainly pays.
fn nothing(best: Option<&Row>, advice: &Advice) -> String {
    match best {
        None if advice.lock.is_empty() || matches!(advice.kind, Kind::Mutex | Kind::Semaphore) => {
            verdict(&advice.prediction)
        }
        None => format!("`convoy with` has no replacement for a {}.", advice.kind.name()),
        Some(row) if row.simulated.is_some() => format!(
            "No lock replacement gives a significant gain: the best, `{}`, gives {}.",
            row.policy,
            change(row)
        ),
        Some(row) => format!(
            "No lock replacement gives a certain gain: arithmetic allows {} with `{}`.",
            change(row),
            row.policy
        ),
    }
}

/// Returns the change of the throughput: of the leading class of threads, then of the others.
fn change(row: &Row) -> String {
    let parts = row.simulated.iter().flat_map(|figures| &figures.parts).collect::<Vec<_>>();
    let Some((first, others)) = parts.split_first() else { return change_of(row) };
    let mut text = format!("{} {}", change_of(row), in_place(&first.place));
    for Part { place, acquisitions_per_s: now, recorded_per_s } in others {
        let place = in_place(place);
        let class = format!(", and {now:.0} per second instead of {recorded_per_s:.0} {place}");
        text += &class;
    }
    text
}

/// Returns `12 % more acquisitions per second (+10 to +15 %)`, or the factor for large changes.
fn change_of(row: &Row) -> String {
    let Row { change_percent, low_percent, high_percent, .. } = *row;
    if change_percent >= TIMES_PERCENT {
        let [times, low, high] =
            [change_percent, low_percent, high_percent].map(|percent| 1.0 + percent / 100.0);
        let interval = if high <= BOUNDLESS {
            format!("{low:.1} to {high:.1}")
        } else {
            format!("at least {low:.1}")
        };
        return format!("{times:.1} times as many acquisitions per second ({interval})");
    }
    let sign = if change_percent < 0.0 { "fewer" } else { "more" };
    format!(
        "{:.0} % {sign} acquisitions per second ({low_percent:+.0} to {high_percent:+.0} %)",
        change_percent.abs()
    )
}
