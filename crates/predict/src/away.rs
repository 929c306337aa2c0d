//! Time for which threads were switched away while they worked: sleep, or a wait for a CPU.
//!
//! The recorder sees that a thread was switched away between two calls, and for how long, but not
//! the reason. If other programs used the CPUs, the reason decides how fast the program is alone,
//! so it is derived from the rest of the record: CPU time, kernel events, and waits for CPUs.

use convoy_record::{Lock, Process, Program, Times};
use convoy_runs::replay::{Span, Spread};

use crate::others::others_cpus;

/// Share of the CPU time used by all programs below which a thread that was switched away slept.
const BUSY: f64 = 0.9;
/// Share of the time away that must be sleep according to kernel events for all of it to count as
/// sleep.
const MOSTLY: f64 = 0.5;
/// Largest ratio between the work of threads that lost their CPU and of the others. For exponential
/// times of 2 ms, of which the longer half is switched away, the ratio is 4.
const LONGER: f64 = 8.0;
/// Minimum share of a sleep that remains when the wait for a CPU after it is subtracted.
const LEAST: f64 = 0.1;

/// Interpretation of the time away of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Away {
    /// Whether all of it was sleep, regardless of its share.
    spare: bool,
    /// Wait for a CPU after a sleep, nanoseconds.
    late_ns: f64,
    /// Factor applied to the work of a thread that was switched away during that work.
    work: f64,
    /// The same factor for a thread that lost its CPU, which is more likely during longer work.
    longer: f64,
}

/// Sums of the times that threads spent between calls.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Times with a switch.
    count: f64,
    /// Their length, seconds.
    total_s: f64,
    /// Work in the times without a switch, seconds, and work in the times with a switch if it takes
    /// as long.
    work_s: [f64; 2],
}

impl Sums {
    fn of(locks: &[&Lock]) -> Self {
        let mut sums = Self::default();
        let sites = locks.iter().flat_map(|lock| &lock.sites);
        for site in sites.filter(|site| site.act != "signal") {
            for (on, off) in [(&site.hold_on, &site.hold_off), (&site.think_on, &site.think_off)] {
                let part = share(on, off);
                let [off_count, on_count] = [part, 1.0 - part].map(|part| part * site.count as f64);
                sums.count += off_count;
                sums.total_s += off_count * off.mean_s();
                sums.work_s[0] += on_count * on.mean_s();
                sums.work_s[1] += off_count * on.mean_s();
            }
        }
        sums
    }
}

impl Away {
    pub(crate) fn new(program: &Program, process: &Process, locks: &[&Lock]) -> Self {
        let sums = Sums::of(locks);
        let over = |[certain, more]: [f64; 2]| (process.cpu_s - certain) / more.max(1e-12);
        let longer = if process.cpu_s > 0.0 { over(sums.work_s).clamp(0.0, LONGER) } else { 1.0 };
        let work = longer.min(1.0);
        let cpus = f64::from(program.cpus.max(1));
        let others_s = program.other_cpus() * process.seconds;
        let spare = process.cpu_s + others_s < BUSY * process.seconds * cpus;
        if others_cpus(program).is_none() {
            return Self { spare, late_ns: 0.0, work, longer };
        }
        let all = || process.locks.iter().flat_map(|lock| &lock.sites);
        let waits = all().map(|site| site.wait.count).sum::<u64>() as f64;
        let wait_s: f64 = all().map(|site| site.wait.total_s).sum();
        let handoff_s: f64 = all().map(|site| site.handoff.total_s).sum();
        let late = |seconds: f64, count: f64| (seconds - handoff_s).max(0.0) * 1e9 / count.max(1.0);
        let Some(seen) = process.scheduling else {
            let late_ns = late(process.ready_s.unwrap_or(0.0), waits + sums.count);
            return Self { spare, late_ns, work, longer };
        };
        Self {
            spare: seen.asleep_s - wait_s > MOSTLY * sums.total_s,
            late_ns: late(seen.woken_s, (seen.sleeps as f64 - waits).max(sums.count)),
            work,
            longer,
        }
    }

    /// Returns the time for which threads were switched away while they worked, seconds; `None` if
    /// no time was recorded.
    pub(crate) fn total_s(&self, locks: &[&Lock]) -> Option<f64> {
        let sums = Sums::of(locks);
        let is_timed = sums.count > 0.0 || sums.work_s[0] > 0.0;
        is_timed.then(|| (sums.total_s - self.work * sums.work_s[1]).max(0.0))
    }

    /// Returns the work and sleep of a span of a program. Work that was switched away counts as
    /// sleep if CPUs were available, or if this happened more often than it can have lost its CPU.
    /// Otherwise it was preempted, and the virtual machine preempts it, too.
    pub(crate) fn span(&self, on: &Times, off: &Times) -> Span {
        let [work_ns, sleeps] = self.work_and_sleeps(on, off);
        Span { work: spread(on).with_mean(work_ns), sleeps, sleep: self.sleep(off) }
    }

    /// Returns the mean work and the mean sleep of a span, nanoseconds.
    pub(crate) fn parts_ns(&self, on: &Times, off: &Times) -> [f64; 2] {
        let [work_ns, sleeps] = self.work_and_sleeps(on, off);
        let slept_ns = if sleeps > 0.0 { self.sleep(off).mean() - work_ns } else { 0.0 };
        [work_ns, sleeps * slept_ns.max(0.0)]
    }

    /// Returns the mean work of a span, nanoseconds, and the share of the spans with a sleep.
    fn work_and_sleeps(&self, on: &Times, off: &Times) -> [f64; 2] {
        let part = share(on, off);
        let slept = self.is_sleep(on.count, off.count, on.mean_s() * 1e9);
        // The work of a thread that was switched away is bounded by the CPU time of all threads.
        let factor = if slept { self.work } else { self.longer };
        let work_ns = on.mean_s() * 1e9 * (1.0 - part + part * factor);
        [work_ns, if slept { part } else { 0.0 }]
    }

    /// Returns the sleeps of spans with a switch: a few of many end much too late.
    fn sleep(&self, off: &Times) -> Spread {
        spread(off).capped(self.sleep_ns(off.mean_s() * 1e9))
    }

    /// Returns the part of a time away that was sleep, nanoseconds.
    pub(crate) fn sleep_ns(&self, away_ns: f64) -> f64 {
        (away_ns - self.late_ns).max(LEAST * away_ns)
    }

    /// Returns the work of a thread that was switched away, nanoseconds, if `work_ns` is the work
    /// of the other threads.
    pub(crate) fn work_ns(&self, work_ns: f64) -> f64 {
        self.work * work_ns
    }

    /// Returns whether work that takes `work_ns` of CPU time sleeps, given how often it kept the
    /// CPU and how often it was switched away.
    pub(crate) fn is_sleep(&self, on: u64, off: u64, work_ns: f64) -> bool {
        self.spare || gives_up(on, off, work_ns * self.work)
    }
}

fn spread(times: &Times) -> Spread {
    Spread::new(&times.buckets, times.mean_s() * 1e9)
}

/// Returns the share of the times in which a thread was switched away.
fn share(on: &Times, off: &Times) -> f64 {
    off.count as f64 / (on.count + off.count).max(1) as f64
}

/// Returns whether work was switched away more often than it can have lost its CPU, and not by
/// chance: otherwise a place that was timed ten times and preempted in three of them would sleep in
/// every replay.
fn gives_up(on: u64, off: u64, work_ns: f64) -> bool {
    /// Minimum time for which a thread keeps its CPU among others: the least time slice of kernels
    /// from 2.6.23 on (`sched_min_granularity_ns`, 0.75 ms; 0.7 ms of `base_slice_ns`).
    const SLICE_NS: f64 = 700_000.0;
    /// Share of switches that are not evidence of sleep: preemptions by wakeups of other threads.
    const SOME: f64 = 0.1;
    /// Probability of mistaking chance for sleep: the usual level of a strict test.
    const CHANCE: f64 = 0.01;
    let lost = SOME + work_ns / SLICE_NS;
    let all = (on + off) as f64;
    let share = off as f64 / all.max(1.0);
    // Chernoff bound on the probability that this share of all loses its CPU.
    let term = |share: f64, lost: f64| if share > 0.0 { share * (share / lost).ln() } else { 0.0 };
    share > lost && all * (term(share, lost) + term(1.0 - share, 1.0 - lost)) > -CHANCE.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_record::{Scheduling, Site};

    fn times(count: u64, us: f64) -> Times {
        let buckets = if count > 0 { vec![(us * 1e3, count)] } else { Vec::new() };
        Times { count, total_s: count as f64 * us / 1e6, buckets, ..Times::default() }
    }

    /// Twelve threads with work of 10 us while other programs run; `off` of 1000 holds were
    /// switched away, for `us` each.
    fn away(off: u64, us: f64, process: &Process) -> (Away, Site) {
        let site = Site {
            count: 1000,
            hold_on: times(1000 - off, 10.0),
            hold_off: times(off, us),
            ..Site::default()
        };
        let mut program = Program { wall_s: 1.0, cpus: 2, ..Program::default() };
        (program.disturbance.others_s, program.disturbance.seconds) = (1.8, 1.0);
        let lock = Lock { sites: vec![site.clone()], ..Lock::default() };
        (Away::new(&program, process, &[&lock]), site)
    }

    fn process(asleep_s: f64, woken_s: f64) -> Process {
        let seen = Scheduling { asleep_s, woken_s, sleeps: 100, ..Default::default() };
        Process { seconds: 1.0, cpu_s: 0.02, scheduling: Some(seen), ..Process::default() }
    }

    #[test]
    fn short_work_that_is_always_switched_away_sleeps() {
        assert!(gives_up(10, 90, 300.0), "usleep after 0.3 us of work");
        assert!(gives_up(0, 3, 300.0), "always");
        assert!(!gives_up(998, 2, 5000.0), "5 us with other programs");
        assert!(!gives_up(10, 90, 800_000.0), "a time slice of work");
        assert!(!gives_up(7, 3, 34_000.0), "by chance");
        assert!(!gives_up(0, 2, 300.0) && !gives_up(0, 0, 0.0), "by chance");
    }

    #[test]
    fn kernel_events_tell_sleep_from_waits_for_a_cpu() {
        // In 50 of 1000 holds the thread is away for 10 ms.
        let (slept, site) = away(50, 10_000.0, &process(0.5, 0.0));
        assert!((slept.span(&site.hold_on, &site.hold_off).sleeps - 0.05).abs() < 1e-9);
        let (preempted, site) = away(50, 10_000.0, &process(0.01, 0.0));
        assert!(preempted.span(&site.hold_on, &site.hold_off).sleeps.abs() < 1e-9);
    }

    #[test]
    fn a_wait_for_a_cpu_after_a_sleep_is_no_sleep() {
        let (late, site) = away(1000, 750.0, &process(0.55, 0.2));
        let span = late.span(&site.hold_on, &site.hold_off);
        assert!((span.slept_ns() - 550_000.0).abs() < 1.0, "{}", span.slept_ns());
    }

    #[test]
    fn a_single_time_without_a_switch_does_not_tell_the_work_of_all() {
        let process = Process { cpu_s: 0.05, ..process(0.0, 0.0) };
        let site = Site {
            count: 1000,
            hold_on: times(1, 1800.0),
            hold_off: times(999, 680.0),
            ..Site::default()
        };
        let lock = Lock { sites: vec![site.clone()], ..Lock::default() };
        let away = Away::new(&Program { cpus: 2, ..Program::default() }, &process, &[&lock]);
        let span = away.span(&site.hold_on, &site.hold_off);
        assert!((span.work.mean() - 50_000.0).abs() < 1000.0, "{}", span.work.mean());
        assert!((span.sleeps - 0.999).abs() < 1e-9);
    }

    #[test]
    fn work_that_lost_its_cpu_was_longer_by_the_cpu_time() {
        // 500 holds of 1 ms, and 500 holds in which the thread lost its CPU, within 2 s of CPU time
        // in total.
        let site = Site {
            count: 1000,
            hold_on: times(500, 1000.0),
            hold_off: times(500, 9000.0),
            ..Site::default()
        };
        let mut program = Program { wall_s: 1.0, cpus: 2, ..Program::default() };
        (program.disturbance.others_s, program.disturbance.seconds) = (1.8, 1.0);
        let lock = Lock { sites: vec![site.clone()], ..Lock::default() };
        let process = Process { cpu_s: 2.0, ..process(0.0, 0.0) };
        let span = Away::new(&program, &process, &[&lock]).span(&site.hold_on, &site.hold_off);
        assert!((span.work.mean() - 2e6).abs() < 1e4, "{}", span.work.mean());
        assert!(span.sleeps.abs() < 1e-9);
    }
}
