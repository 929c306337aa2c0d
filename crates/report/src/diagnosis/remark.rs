//! The sentences of further facts on a record.

use convoy_diagnose::Remark;

use super::phrase::{percent, seconds};

/// Returns a remark as a sentence.
pub fn remark(remark: &Remark) -> String {
    match remark {
        Remark::Waits { locks_s, conditions_s, wall_s, cpus } => {
            let span = match (*wall_s > 0.0, cpus) {
                (false, _) => String::new(),
                (true, 0) => format!(", in {}", seconds(*wall_s)),
                (true, cpus) => format!(", in {} of {cpus} CPUs", seconds(*wall_s)),
            };
            format!(
                "Threads waited {} for locks and {} for conditions and barriers{span}.",
                seconds(*locks_s),
                seconds(*conditions_s)
            )
        }
        Remark::Built { lock, by_owner, signals, inner_share, mutex } => format!(
            "`{lock}` is a condition variable that the program uses as a lock: {by_owner} of \
             {signals} signals came from the thread that had waited for it last. {} of the waiting \
             was for its mutex, `{mutex}`.",
            percent(*inner_share)
        ),
        Remark::LongestConvoy { lock, length_s, begin_s, waiters, run_share } => format!(
            "The longest convoy at `{lock}` lasted {}, from {} on; up to {waiters} threads waited \
             at a time, and at least one waited during {} of the run.",
            seconds(*length_s),
            seconds(*begin_s),
            percent(*run_share)
        ),
        Remark::OffCpu { lock, holds, held_s, off_s, preempted, asleep, woken } => format!(
            "In {holds} holds of `{lock}` after a wait, {} in all, its owner was off CPU for {}: \
             {} of that preempted, {} asleep, {} woken and waiting for a CPU.",
            seconds(*held_s),
            seconds(*off_s),
            percent(*preempted),
            percent(*asleep),
            percent(*woken)
        ),
        Remark::Handover(handover) => {
            let held = handover.hold_s.map_or(String::new(), |hold_s| {
                format!(", held for {} on the CPU (mean)", seconds(hold_s))
            });
            format!(
                "From its release to the next owner that had waited: {} (median){held}.",
                seconds(handover.median_s)
            )
        }
        Remark::Scheduling(scheduling) => format!(
            "Threads were preempted {} times and waited {} on run queues; they slept {} times, for \
             {}, and waited {} for a CPU after wakeups.",
            scheduling.preemptions,
            seconds(scheduling.preempted_s),
            scheduling.sleeps,
            seconds(scheduling.asleep_s),
            seconds(scheduling.woken_s)
        ),
        Remark::Uneven { share, begin_s, end_s, run_s, run_share } => format!(
            "Waiting was uneven: {} of it ended between {} and {} of {}, in {} of the run.",
            percent(*share),
            seconds(*begin_s),
            seconds(*end_s),
            seconds(*run_s),
            percent(*run_share)
        ),
    }
}
