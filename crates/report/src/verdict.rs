//! The first sentence of a report: the result, derived from its figures alone.

use convoy_explain::{Idle, LockSummary, State, Summary};
use convoy_workload::users::counted;

use crate::format::{capital, fixed, list, significant};
use crate::points::RunPoint;
use crate::share::{of, percent};

/// Time of the CPUs below which idling or spinning limits nothing, percent.
pub(crate) const LOSS: f64 = 5.0;
/// Percentage of the time with an owner on no CPU from which idle CPUs are attributed to a convoy.
const CONVOY: f64 = 50.0;
/// Throughput below this share of its peak has fallen.
const FALLEN: f64 = 0.98;

/// Load points: the peak of the throughput, and the state of the CPUs at the largest load.
pub(crate) fn load(points: &[RunPoint]) -> String {
    let whole: Vec<&RunPoint> = points
        .iter()
        .filter(|point| point.failed.is_none() && point.jobs_per_min.is_finite())
        .collect();
    let mut parts = Vec::new();
    let best = whole.iter().max_by(|a, b| a.jobs_per_min.total_cmp(&b.jobs_per_min));
    let last = whole.iter().max_by_key(|point| point.users);
    if let (Some(best), Some(last)) = (best, last) {
        parts.push(throughput(best, last, whole.len()));
        let cpus = cpus(last.idle_percent, last.owner_not_running_percent);
        let with = |what: &String| format!("with {}, {what}", counted(last.users));
        let at_peak = best.users == last.users;
        parts.extend(if at_peak { cpus } else { cpus.as_ref().map(with) });
    }
    parts.extend(failures(points));
    if parts.is_empty() {
        "No load point ran.".to_owned()
    } else {
        capital(&parts.join("; ")) + "."
    }
}

fn throughput(best: &RunPoint, last: &RunPoint, count: usize) -> String {
    let (peak, at) = (format!("{} jobs/min", fixed(best.jobs_per_min, 1)), counted(best.users));
    if count == 1 {
        return format!("{peak} with {at}");
    }
    let share = last.jobs_per_min / best.jobs_per_min;
    if best.users == last.users {
        format!("throughput is highest with the most users: {peak} with {at}")
    } else if share < FALLEN {
        let lost = fixed(100.0 * (1.0 - share), 1);
        format!("throughput peaks at {peak} with {at} and is {lost} % lower with {}", last.users)
    } else {
        format!("throughput peaks at {peak} with {at} and stays there up to {}", last.users)
    }
}

/// Describes the state of the CPUs, from the percentages of idle time and of the time in which the
/// big kernel lock had an owner on no CPU; `None` if unknown.
pub(crate) fn cpus(idle: Option<f64>, owner_not_running: Option<f64>) -> Option<String> {
    let idle = idle?;
    let off = owner_not_running.filter(|off| *off >= CONVOY);
    Some(match off {
        _ if idle < LOSS => format!("the CPUs are busy {} % of the time", fixed(100.0 - idle, 1)),
        None => format!("the CPUs idle {} % of the time", fixed(idle, 1)),
        Some(off) => format!(
            "the CPUs idle {} % of the time while the owner of the big kernel lock is on no CPU \
             for {} % of it: a lock convoy",
            fixed(idle, 1),
            fixed(off, 1)
        ),
    })
}

fn failures(points: &[RunPoint]) -> Option<String> {
    let failed: Vec<&RunPoint> = points.iter().filter(|point| point.failed.is_some()).collect();
    let jobs: u64 = points.iter().map(|point| point.failed_jobs).sum();
    match failed[..] {
        [] if jobs == 0 => None,
        [] => Some(format!("{jobs} jobs failed")),
        [first, ..] => Some(format!(
            "{} of {} load points failed, the first with {}",
            failed.len(),
            points.len(),
            counted(first.users)
        )),
    }
}

/// The account of a run: what took the CPUs from the work, and which lock.
pub(crate) fn account(summary: &Summary) -> String {
    let all = summary.window_s * summary.cpus as f64;
    let share = |state: State| percent(of(&summary.states, state.name()), all);
    let (idle, spun) = (share(State::Idle), share(State::Spin));
    let mut parts = Vec::new();
    if idle >= LOSS {
        parts.push(idling(summary, idle));
    }
    if spun >= LOSS {
        let lock = summary.spinning.first().map_or("locks", |share| share.name.as_str());
        parts.push(format!("spin {} % of the time, most for {lock}", fixed(spun, 1)));
    }
    if parts.is_empty() {
        return format!(
            "The CPUs are busy {} % of the time and spin {} %: no lock limits this run.",
            fixed(100.0 - idle, 1),
            fixed(spun, 1)
        );
    }
    format!("The CPUs {}.", list(&parts))
}

fn idling(summary: &Summary, idle: f64) -> String {
    let all: f64 = summary.idle.iter().map(|share| share.seconds).sum();
    let main = main_cause(summary);
    let lock = blamed(summary, main).map(|lock| lock.name.as_str());
    let part = fixed(percent(of(&summary.idle, main.name()), all), 1);
    let idle = fixed(idle, 1);
    match (main, lock) {
        (Idle::OwnerQueued, Some(lock)) => format!(
            "idle {idle} % of the time, {part} % of it while the owner of {lock} waits for another \
             CPU: a lock convoy"
        ),
        (Idle::Locks, Some(lock)) => format!(
            "idle {idle} % of the time, {part} % of it while tasks sleep for locks, most for {lock}"
        ),
        _ => format!("idle {idle} % of the time, {part} % of it while {}", main.name()),
    }
}

/// Returns the main cause of idle time.
pub(crate) fn main_cause(summary: &Summary) -> Idle {
    let seconds = |cause: Idle| of(&summary.idle, cause.name());
    let more = |best: Idle, cause: Idle| if seconds(cause) > seconds(best) { cause } else { best };
    Idle::ALL.into_iter().fold(Idle::Nothing, more)
}

/// The lock behind that, if there is one.
pub(crate) fn blamed(summary: &Summary, cause: Idle) -> Option<&LockSummary> {
    let time = |lock: &&LockSummary| match cause {
        Idle::OwnerQueued => lock.convoy_s,
        Idle::Locks => lock.wait_s,
        Idle::Queued | Idle::Nothing => 0.0,
    };
    let most = summary.locks.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
    most.filter(|lock| time(lock) > 0.0)
}

/// A lock loop as a verdict sees it.
#[derive(Clone, Debug)]
pub(crate) struct LockCell {
    pub(crate) lock: String,
    /// What else varies in the grid; empty if nothing does.
    pub(crate) place: String,
    pub(crate) threads: u32,
    pub(crate) per_s: f64,
    /// Critical sections relative to the baseline; `None` without a baseline, and for the baseline
    /// itself.
    pub(crate) ratio: Option<f64>,
    /// Whether the interval of the ratio contains 1; one round has no interval.
    pub(crate) unsure: bool,
    /// Threads without a section in the window.
    pub(crate) starved: Option<f64>,
}

impl LockCell {
    fn starves(&self) -> Option<String> {
        let starved = self.starved.filter(|starved| *starved >= 0.5)?;
        Some(format!("starves {} of {} threads", fixed(starved, 0), self.threads))
    }

    /// Compares the lock with the baseline, in one clause.
    fn sentence(&self, baseline: &str) -> String {
        if self.unsure {
            return format!("no lock is shown to be faster or slower than {baseline}");
        }
        let speed = match self.ratio {
            None => format!("does {} sections a second", fixed(self.per_s, 0)),
            Some(ratio) if ratio >= 1.005 => {
                format!("is {} times as fast as {baseline}", significant(ratio))
            }
            Some(ratio) if ratio > 0.995 => format!("is as fast as {baseline}"),
            Some(ratio) => {
                format!("does {} % fewer sections than {baseline}", fixed(100.0 * (1.0 - ratio), 1))
            }
        };
        let both = [Some(speed), self.starves()].into_iter().flatten().collect::<Vec<_>>();
        format!("{} {}{}", self.lock, both.join(" and "), self.place())
    }

    fn place(&self) -> String {
        if self.place.is_empty() { String::new() } else { format!(" ({})", self.place) }
    }
}

/// Lock loops: the largest difference from the baseline with its starved threads, the fastest lock
/// if that was a slower one, and locks that starve more threads; `None` without loops.
pub(crate) fn locks(cells: &[LockCell], baseline: &str) -> Option<String> {
    // Any ratio that is shown counts more than one that is not.
    let far = |cell: &&LockCell| match cell.ratio {
        Some(_) if cell.unsure => f64::MIN_POSITIVE,
        ratio => ratio.map_or(0.0, |ratio| ratio.ln().abs()),
    };
    let main = cells.iter().max_by(|a, b| far(a).total_cmp(&far(b)))?;
    let mut told = vec![main];
    // A lock that is slower says nothing about the locks that are faster.
    if !main.unsure && main.ratio.is_some_and(|ratio| ratio < 1.0) {
        let sure = cells.iter().filter(|cell| !cell.unsure && cell.ratio > Some(1.005));
        told.extend(sure.max_by(|a, b| far(a).total_cmp(&far(b))));
    }
    let share = |cell: &LockCell| cell.starved.unwrap_or(0.0) / f64::from(cell.threads.max(1));
    let worst = cells.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let said = told.iter().map(|cell| if cell.unsure { 0.0 } else { share(cell) });
    let worse = worst.starves().filter(|_| share(worst) > said.fold(0.0, f64::max));
    let mut parts: Vec<_> = told.iter().map(|cell| cell.sentence(baseline)).collect();
    parts.extend(worse.map(|starves| format!("{} {starves}{}", worst.lock, worst.place())));
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_explain::Share;
    use convoy_workload::record::Cause;

    fn point(users: u64, jobs_per_min: f64) -> RunPoint {
        RunPoint { users, jobs_per_min, ..RunPoint::default() }
    }

    #[test]
    fn a_convoy_is_named_and_needs_both_idle_cpus_and_an_owner_on_none() {
        fn seen(idle: f64, off: Option<f64>) -> String {
            let seen = RunPoint {
                idle_percent: Some(idle),
                owner_not_running_percent: off,
                ..point(500, 32_597.4)
            };
            load(&[seen])
        }
        assert_eq!(
            seen(42.9, Some(96.9)),
            "32597.4 jobs/min with 500 users; the CPUs idle 42.9 % of the time while the owner of \
             the big kernel lock is on no CPU for 96.9 % of it: a lock convoy."
        );
        assert!(seen(42.9, Some(3.0)).ends_with("; the CPUs idle 42.9 % of the time."));
        assert!(seen(42.9, None).ends_with("; the CPUs idle 42.9 % of the time."));
        assert!(seen(0.1, Some(96.9)).ends_with("; the CPUs are busy 99.9 % of the time."));
    }

    #[test]
    fn a_curve_has_a_peak_and_an_end() {
        let fell = [point(1, 500.0), point(10, 1000.0), point(50, 800.0)];
        assert_eq!(
            load(&fell),
            "Throughput peaks at 1000.0 jobs/min with 10 users and is 20.0 % lower with 50."
        );
        let rose = load(&[point(1, 500.0), point(2, 990.0)]);
        assert_eq!(rose, "Throughput is highest with the most users: 990.0 jobs/min with 2 users.");
        let held = load(&[point(1, 500.0), point(2, 1000.0), point(3, 995.0)]);
        assert!(held.ends_with("with 2 users and stays there up to 3."), "{held}");
    }

    #[test]
    fn a_failed_point_is_no_peak() {
        let failed = RunPoint { failed: Some(Cause::default()), ..point(20, 9e9) };
        assert_eq!(
            load(&[point(10, 1000.0), failed.clone()]),
            "1000.0 jobs/min with 10 users; 1 of 2 load points failed, the first with 20 users."
        );
        assert_eq!(load(&[failed]), "1 of 1 load points failed, the first with 20 users.");
        assert_eq!(load(&[]), "No load point ran.");
    }

    #[test]
    fn a_lock_is_as_fast_as_it_is_fair() {
        let cell = |lock: &str, ratio, starved| LockCell {
            lock: lock.to_owned(),
            place: String::new(),
            threads: 2000,
            per_s: 1e5,
            ratio,
            unsure: false,
            starved,
        };
        let base = cell("handoff", None, Some(0.0));
        let of = |more: &[LockCell]| {
            locks(&[std::slice::from_ref(&base), more].concat(), "handoff").unwrap_or_default()
        };
        assert_eq!(
            of(&[cell("opportunistic", Some(6.8), Some(1992.0)), cell("fifo", Some(0.9), None)]),
            "opportunistic is 6.80 times as fast as handoff and starves 1992 of 2000 threads"
        );
        let two = of(&[cell("mutex", Some(0.25), Some(0.0)), cell("ticket", Some(1.1), Some(5.0))]);
        assert_eq!(
            two,
            "mutex does 75.0 % fewer sections than handoff; ticket is 1.10 times as fast as \
             handoff and starves 5 of 2000 threads"
        );
        let unsure = |lock, ratio, starved| LockCell { unsure: true, ..cell(lock, ratio, starved) };
        assert_eq!(
            of(&[unsure("mutex", Some(9.0), None), cell("ticket", Some(1.1), None)]),
            "ticket is 1.10 times as fast as handoff"
        );
        assert_eq!(
            of(&[unsure("mutex", Some(9.0), Some(5.0))]),
            "no lock is shown to be faster or slower than handoff; mutex starves 5 of 2000 threads"
        );
        let placed = LockCell { place: "threads 2000".to_owned(), ..base.clone() };
        assert_eq!(
            locks(&[placed], "").as_deref(),
            Some("handoff does 100000 sections a second (threads 2000)")
        );
        assert_eq!(locks(&[], "handoff"), None);
    }

    fn shares(pairs: &[(&str, f64)]) -> Vec<Share> {
        pairs.iter().map(|&(name, seconds)| Share { name: name.to_owned(), seconds }).collect()
    }

    #[test]
    fn an_account_says_what_took_the_cpus() {
        fn of(idle: f64, spun: f64, cause: Idle) -> String {
            let states = [("user mode", 40.0 - idle - spun)];
            let states =
                [&states[..], &[(State::Idle.name(), idle), (State::Spin.name(), spun)]].concat();
            account(&Summary {
                window_s: 10.0,
                cpus: 4,
                states: shares(&states),
                idle: shares(&[(cause.name(), idle * 0.75), (Idle::Nothing.name(), idle / 4.0)]),
                spinning: shares(&[("dcache_lock", spun)]),
                ..Summary::default()
            })
        }
        assert_eq!(
            of(0.4, 0.4, Idle::Queued),
            "The CPUs are busy 99.0 % of the time and spin 1.0 %: no lock limits this run."
        );
        assert_eq!(
            of(20.0, 0.0, Idle::Queued),
            "The CPUs idle 50.0 % of the time, 75.0 % of it while tasks wait for another CPU."
        );
        assert_eq!(
            of(4.0, 8.0, Idle::Queued),
            "The CPUs idle 10.0 % of the time, 75.0 % of it while tasks wait for another CPU and \
             spin 20.0 % of the time, most for dcache_lock."
        );
    }
}
