//! The limit of a program, in sentences.

use convoy_diagnose::Irreplaceable;
use convoy_predict::{Holders, KernelLock, Limit, Named, Prediction, Station};

use super::units::{duration, rate};
use crate::diagnosis::{in_call, protected};
use crate::format::capital;

/// Returns a sentence that names the lock that limits a program at its recorded point.
pub fn verdict(prediction: &Prediction) -> String {
    sentence(&prediction.limit)
}

pub(super) fn sentence(limit: &Limit) -> String {
    match limit {
        Limit::Lock { lock, waited, holders: Holders::One, hold_us, per_s } => {
            let allows = hold_us.zip(*per_s).map(|(hold_us, per_s)| {
                format!(
                    " Held for {} at a time on average, it allows at most {:.0} acquisitions per \
                     second.",
                    duration(hold_us),
                    rate(per_s)
                )
            });
            format!(
                "{} limits the program: threads spent {:.0} % of their time waiting for it.{}",
                name(lock),
                100.0 * waited,
                allows.unwrap_or_default()
            )
        }
        Limit::Lock { lock, waited, holders, .. } => format!(
            "Threads spent {:.0} % of their time waiting for {}. {} hold it together, so only the \
             rows below show whether it limits the program.",
            100.0 * waited,
            name(lock),
            if *holders == Holders::Readers { "Readers" } else { "Several threads" }
        ),
        Limit::Pool { pool, units, waited, hold_us, per_s } => format!(
            "The pool {} of {units} limits the program: threads spent {:.0} % of their time \
             waiting for it. Each unit is kept for {} on average, which allows at most {:.0} \
             passes per second.",
            name(pool),
            100.0 * waited,
            duration(*hold_us),
            rate(*per_s)
        ),
        Limit::Kernel { lock, waited } => format!(
            "{} limits the program: threads spent {:.0} % of their time waiting for it.",
            capital(&of_kernel(lock)),
            100.0 * waited
        ),
        Limit::Unknown { gap } => crate::diagnosis::gap_text(gap),
        Limit::Nothing { cpus, waited, first } => {
            let first = first.as_ref().map(|(lock, cpus)| {
                format!(" {} would be the first to, from about {cpus} CPUs on.", name(lock))
            });
            format!(
                "No lock limits this program on {cpus} {}: threads spent {} % of their time \
                 waiting for locks.{}",
                if *cpus == 1 { "CPU" } else { "CPUs" },
                match 100.0 * waited {
                    ..0.05 => "less than 0.1".to_owned(),
                    share => format!("{share:.1}"),
                },
                first.unwrap_or_default()
            )
        }
    }
}

fn name(lock: &Named) -> String {
    let place = lock.place.as_ref().map_or(String::new(), |place| format!(" in {place}"));
    format!("`{}`{place}", lock.name)
}

/// Returns the name of a lock of the kernel.
pub(super) fn of_kernel(lock: &KernelLock) -> String {
    let KernelLock { object, primitive, place } = lock;
    match object {
        Some(object) => {
            format!("the kernel's lock of {} in {}", protected(*object), in_call(place))
        }
        None => format!("the kernel's {primitive} in {place}"),
    }
}

/// Returns a sentence about the lock that threads mostly waited for, which no other lock can
/// replace.
pub(super) fn beyond(lock: &Irreplaceable) -> String {
    let Irreplaceable { share, lock, is_named, place, kernel, runtime } = lock;
    let reason = match (kernel, runtime) {
        (Some(_), _) => "it is the kernel's",
        (None, Some(_)) => "the program's runtime builds it",
        (None, None) => "the program calls futex(2) for it itself",
    };
    let name = match (kernel, is_named) {
        (Some(kernel), true) => format!("the kernel's {kernel} `{lock}`"),
        (Some(kernel), false) => format!("the kernel's {kernel}"),
        (None, true) => format!("`{lock}`"),
        (None, false) => "a lock".to_owned(),
    };
    let place = place.as_ref().map_or(String::new(), |place| format!(" in {place}"));
    format!(
        "{:.0} % of the time that threads waited for locks was for {name}{place}; {reason}, so no \
         replacement of libc's locks can help there.",
        100.0 * share
    )
}

/// Returns a station as the subject of "limits" or "limit", with the verb.
pub(super) fn limits(station: &Station) -> String {
    match station {
        Station::Cpus => "the CPUs limit".to_owned(),
        Station::Threads => "the number of threads limits".to_owned(),
        Station::ThreadsAt { place } => format!("the threads in {place} limit"),
        Station::Lock { lock } => format!("`{}` limits", lock.name),
        Station::Kernel { lock } => format!("{} limits", of_kernel(lock)),
        Station::Pool { pool, units: u32::MAX } => format!("the pool `{}` limits", pool.name),
        Station::Pool { pool, units } => format!("the pool `{}` of {units} limits", pool.name),
    }
}
