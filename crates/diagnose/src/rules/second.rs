//! A second cause of the waits for a lock. The first rule that matches names one cause. The part of
//! another one may be as large, or its interval may contain the limit of its rule, so that the next
//! record would name that one alone.

use crate::evidence::{Evidence, Holder};
use crate::interval::{Z, wilson};
use crate::problem::{Lost, Problem};

use super::wait::{LONG_S, REASON, always, hog_if, long, short};

/// Returns another cause of the waits than `first`, if it may explain them as well.
pub(crate) fn second(evidence: &Evidence<'_>, first: &Problem) -> Option<Problem> {
    let holder = evidence.seen_holder()?;
    match first {
        Problem::OwnerPreempted { lost: Lost::Cpu(_) | Lost::Free(_), inversion: None, .. } => {
            let (_, [low, _]) = lost(evidence, holder)?;
            let may_compute = 1.0 - low >= REASON;
            may_compute.then(|| computes(evidence, holder)).flatten()
        }
        Problem::LongSection { interpreter: None, hold_s: Some(_), .. } => {
            let [_, high] = again(holder);
            let hog = hog_if(evidence, high).or_else(|| always(evidence));
            hog.or_else(|| preempted(evidence, holder))
        }
        Problem::ShortSections { .. } => preempted(evidence, holder),
        Problem::Hog { .. } => {
            let [low, _] = again(holder);
            let is_hog = hog_if(evidence, low).is_some();
            if is_hog { None } else { long(evidence) }
        }
        _ => None,
    }
}

/// The owner computes: its critical sections take much CPU time, or they are frequent.
fn computes(evidence: &Evidence<'_>, holder: &Holder<'_>) -> Option<Problem> {
    let service_s = evidence.service_s(holder);
    if service_s < LONG_S {
        return short(evidence);
    }
    Some(Problem::LongSection {
        owner: evidence.owner(),
        hold_s: Some(service_s),
        wait_s: None,
        off_unexplained: None,
        interpreter: None,
    })
}

/// The owner may be preempted for a part of the waiting that is a reason.
fn preempted(evidence: &Evidence<'_>, holder: &Holder<'_>) -> Option<Problem> {
    let (lost, [_, high]) = lost(evidence, holder)?;
    (high >= REASON).then(|| Problem::OwnerPreempted {
        owner: evidence.owner(),
        lost,
        queued: evidence.queued(),
        inversion: None,
    })
}

/// Returns how a thread that was to hold the lock had no CPU for most of the waiting, with the 95 %
/// interval of that part. `None` if it is not known, or did not happen.
fn lost(evidence: &Evidence<'_>, holder: &Holder<'_>) -> Option<(Lost, [f64; 2])> {
    let preempted = holder.preempted.unwrap_or(0.0);
    if holder.free > preempted {
        return Some((Lost::Free(holder.free), wilson(holder.free, holder.samples)));
    }
    let sites = evidence.lock.sites.iter().filter(|site| site.place == holder.place);
    let switched: u64 = sites.map(|site| site.hold_off.count).sum();
    if switched == 0 {
        let interval = wilson(preempted, holder.samples);
        return (preempted > 0.0).then_some((Lost::Cpu(preempted), interval));
    }
    // The time is exact, and the number of preemptions and the length of each vary: with an
    // exponential length, the variance of their sum is twice its mean square over their number.
    let error = Z * preempted * (2.0 / switched as f64).sqrt();
    let interval = [(preempted - error).max(0.0), (preempted + error).min(1.0)];
    Some((Lost::Cpu(preempted), interval))
}

/// Returns the 95 % interval of how often the owner has acquired the lock again by the end of a
/// wait. If it does so with one probability each time, that number has a geometric distribution.
fn again(holder: &Holder<'_>) -> [f64; 2] {
    let mean = holder.again;
    let error = Z * (mean * (1.0 + mean) / holder.count.max(1) as f64).sqrt();
    [(mean - error).max(0.0), mean + error]
}
