//! Why a change is as it is, in a sentence from what two runs did: nothing here knows which kernels
//! ran.

use std::collections::BTreeMap;

use convoy_explain::Summary;
use convoy_lab::virtual_run::VirtualPoint;

use crate::experiment::LargeChange;
use crate::format::{fixed, significant};
use crate::share::percent;

/// A shorter wait for a lock, in milliseconds per job, is not a reason.
const WAIT_MS: f64 = 0.001;

/// One of the two runs.
#[derive(Clone, Debug)]
pub struct Side {
    /// Jobs that were done.
    pub jobs: f64,
    /// CPU time of each, milliseconds.
    pub cpu_ms: f64,
    /// Percent of all CPU time: idle, spinning, and spinning that tasks which waited for a CPU
    /// could have had.
    pub idle: f64,
    /// See `idle`.
    pub spin: f64,
    /// See `idle`.
    pub spin_beside: f64,
    /// The account of the run.
    pub summary: Summary,
    /// Its stacks, with microseconds.
    pub stacks: Vec<(Vec<String>, u64)>,
}

impl Side {
    /// The run that gave `point`.
    pub fn new(point: &VirtualPoint, summary: Summary, stacks: Vec<(Vec<String>, u64)>) -> Self {
        let jobs = point.jobs_done as f64;
        Self {
            jobs,
            cpu_ms: 1e3 * point.cpu_s / jobs,
            idle: point.idle_percent,
            spin: point.spin_percent,
            spin_beside: point.spin_beside_percent,
            summary,
            stacks,
        }
    }

    /// Milliseconds that a job waits for the locks of this name.
    fn wait_ms(&self, lock: &str) -> f64 {
        let found = self.summary.locks.iter().find(|own| own.name == lock);
        found.map_or(0.0, |own| 1e3 * own.wait_s / self.jobs)
    }

    /// Milliseconds that a job spins for locks.
    fn spin_ms(&self) -> f64 {
        let spun = self.summary.spinning.iter().map(|share| share.seconds).sum::<f64>();
        1e3 * spun / self.jobs
    }

    /// Returns the main waiter for a lock: its job and system call, and their share in percent.
    fn waits_most(&self, lock: &str) -> Option<(String, f64)> {
        let mut by_call: BTreeMap<String, u64> = BTreeMap::new();
        for (frames, us) in &self.stacks {
            let [.., call, class, _] = &frames[..] else { continue };
            if class == lock {
                let job = frames.len().checked_sub(4).filter(|at| *at > 0);
                let job = job.map_or(String::new(), |at| format!(" of {}", frames[at]));
                *by_call.entry(format!("{call}{job}")).or_default() += us;
            }
        }
        let all: u64 = by_call.values().sum();
        let most = by_call.into_iter().max_by_key(|(_, us)| *us)?;
        Some((most.0, percent(most.1 as f64, all as f64)))
    }
}

/// Returns the lock with the largest change of the wait per job.
fn lock<'a>(before: &'a Side, after: &'a Side) -> Option<&'a str> {
    let names = before.summary.locks.iter().chain(&after.summary.locks);
    let change = |name: &str| (after.wait_ms(name) - before.wait_ms(name)).abs();
    let most = names.max_by(|a, b| change(&a.name).total_cmp(&change(&b.name)))?;
    Some(most.name.as_str()).filter(|name| change(name) >= WAIT_MS)
}

/// The sentence of a change between two runs.
pub fn why(change: &LargeChange, before: &Side, after: &Side) -> String {
    let half = change.gain.half_width();
    let spread = if half.is_finite() { format!(" ± {}", fixed(half, 1)) } else { String::new() };
    let verb = if change.gain.mean < 0.0 { "loses" } else { "gains" };
    let here = change.point.as_ref().map_or(String::new(), |point| {
        let sign = if change.here < 0.0 { "" } else { "+" };
        format!(" (with {point} {sign}{} %)", fixed(change.here, 1))
    });
    let waiting = lock(before, after).map_or(String::new(), |lock| waiting(lock, before, after));
    format!(
        "{} {verb} {}{spread} %{here} {}{waiting}.",
        change.case,
        fixed(change.gain.mean.abs(), 1),
        reasons(before, after)
    )
}

/// Describes the wait for a lock, and its main waiter on the side with the longer wait.
fn waiting(lock: &str, before: &Side, after: &Side) -> String {
    let (was, is) = (before.wait_ms(lock), after.wait_ms(lock));
    let longer = if was > is { before } else { after };
    let most = longer
        .waits_most(lock)
        .map_or(String::new(), |(who, part)| format!(", {} % of it in {who}", fixed(part, 0)));
    format!(
        "; the wait that changed most is for {lock}, {} ms of a job before and {} after{most}",
        significant(was),
        significant(is)
    )
}

/// Throughput is the busy time of the CPUs divided by the CPU time per job: names the factor that
/// changed more, and then the other, unless its printed value is the same before and after.
fn reasons(before: &Side, after: &Side) -> String {
    let busy = ((100.0 - after.idle) / (100.0 - before.idle)).ln();
    let cost = -(after.cpu_ms / before.cpu_ms).ln();
    let [idle_before, idle_after] = [before, after].map(|side| fixed(side.idle, 1));
    let [cpu_before, cpu_after] = [before, after].map(|side| significant(side.cpu_ms));
    let idle = format!(
        "CPUs idle {} ({idle_before} % of the time before, {idle_after} % after)",
        if busy > 0.0 { "less" } else { "more" },
    );
    let cpu = format!(
        "a job takes {} CPU time ({cpu_before} ms before, {cpu_after} after; spinning {} and {}, \
         with {} and {} % of all CPU time spun while tasks waited for a CPU)",
        if cost > 0.0 { "less" } else { "more" },
        significant(before.spin_ms()),
        significant(after.spin_ms()),
        fixed(before.spin_beside, 1),
        fixed(after.spin_beside, 1)
    );
    match (idle_before == idle_after, cpu_before == cpu_after) {
        (true, false) => return format!("because {cpu}"),
        (false, true) => return format!("because {idle}"),
        _ => {}
    }
    let along = if (busy > 0.0) == (cost > 0.0) { "and" } else { "although" };
    let up = busy + cost > 0.0;
    // A difference in the other direction does not explain the change.
    let first_is_idle =
        if (busy > 0.0) == (cost > 0.0) { busy.abs() >= cost.abs() } else { (busy > 0.0) == up };
    let (first, second) = if first_is_idle { (idle, cpu) } else { (cpu, idle) };
    format!("because {first}, {along} {second}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(cpu_ms: f64, idle: f64) -> Side {
        let summary = Summary::default();
        let stacks = vec![
            (["users", "dir_rtns_1", "getdents", "i_mutex", "asleep"].map(str::to_owned).into(), 3),
            (
                ["users", "dir_rtns_1", "getdents", "i_mutex", "spinning"]
                    .map(str::to_owned)
                    .into(),
                4,
            ),
            (["users", "link_test", "link", "i_mutex", "asleep"].map(str::to_owned).into(), 1),
            (["users", "link_test", "link", "other", "asleep"].map(str::to_owned).into(), 50),
        ];
        Side { jobs: 10.0, cpu_ms, idle, spin: 0.0, spin_beside: 0.0, summary, stacks }
    }

    #[test]
    fn the_larger_reason_comes_first_and_what_goes_against_it_is_no_reason() {
        let sentence = |a, b, c, d| reasons(&side(a, b), &side(c, d));
        assert!(sentence(10.0, 50.0, 10.0, 40.0).starts_with("because CPUs idle less (50.0 %"));
        assert!(sentence(10.0, 50.0, 5.0, 49.0).starts_with("because a job takes less CPU time"));
        let against = sentence(10.0, 50.0, 9.0, 52.0);
        assert!(against.contains(", although CPUs idle more"), "{against}");
        let worse = sentence(10.0, 0.0, 11.0, 0.0);
        assert!(
            worse.starts_with("because a job takes more CPU time (10.0 ms before, 11.0 after"),
            "{worse}"
        );
    }

    #[test]
    fn what_is_equal_as_printed_is_left_out() {
        let sentence = |a, b, c, d| reasons(&side(a, b), &side(c, d));
        let cpu = sentence(3.291, 58.82, 3.103, 58.84);
        assert!(cpu.starts_with("because a job takes less CPU time"), "{cpu}");
        assert!(!cpu.contains("CPUs idle"), "{cpu}");
        let idle = sentence(3.2911, 58.8, 3.2909, 52.0);
        assert_eq!(idle, "because CPUs idle less (58.8 % of the time before, 52.0 % after)");
        let neither = sentence(3.0, 50.0, 3.0, 50.0);
        assert!(neither.contains("CPUs idle") && neither.contains("CPU time"), "{neither}");
    }

    #[test]
    fn who_waits_for_a_lock_is_the_call_with_the_most_of_its_time() {
        let most = side(1.0, 1.0).waits_most("i_mutex");
        assert_eq!(most, Some(("getdents of dir_rtns_1".to_owned(), 87.5)));
        assert_eq!(side(1.0, 1.0).waits_most("none"), None);
    }
}
