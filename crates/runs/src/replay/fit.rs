//! Fits a replay to the record. With the recorded numbers of CPUs and threads and the recorded
//! policy, one parameter is changed until an acquisition takes the recorded CPU time. If the
//! handoff of a lock limited the throughput, the parameter is the cost of switches and wakeups, and
//! the throughput follows. Otherwise it is the work between critical sections, and sleep is added
//! until the replay has the recorded throughput. The waits are not fitted: their agreement shows
//! the quality of the replay.

use super::anchor::Anchor;
use super::behaviour::Behaviour;
use super::request::Replay;
use crate::board::VirtualLocksPoint;
use crate::virtual_end::VirtualError;

/// Sum of the relative errors of throughput and CPU time at which the fit ends.
const CLOSE: f64 = 0.01;
/// Share of the time in which a lock was being handed to its next owner above which that limits the
/// throughput; and the CPU use below which the CPUs do not limit it.
const PASSING: f64 = 0.3;
const BUSY: f64 = 0.9;
/// Share of the CPU time of an acquisition below which the threads' own work does not matter.
const OWN: f64 = 0.5;
/// Weight of an error of CPU time relative to an error of the throughput if CPUs idle.
const IDLE_CPU: f64 = 0.25;
/// Share of a turn below which sleep is noise of the clocks.
const SLEEP_NOISE: f64 = 0.05;
/// Share of a turn up to which such sleep may be an error next to other programs, whose CPU time
/// makes turns long: threads that begin late or end early look the same. Chosen as three times the
/// noise.
const SLEEP_DOUBT: f64 = 0.15;

impl Behaviour {
    /// Returns whether CPUs idle while threads mostly wait for each other.
    fn waits_for_threads(&self) -> bool {
        self.is_waiting() && self.is_idle()
    }

    /// Returns whether CPUs idle. They do not while threads wait for them: then other programs have
    /// them.
    fn is_idle(&self) -> bool {
        let runnable = self.rate * (self.cpu_ns + self.ready_ns.unwrap_or(0.0)) / 1e9;
        runnable < BUSY * f64::from(self.cpus)
    }

    /// Returns whether threads mostly wait for each other.
    fn is_waiting(&self) -> bool {
        let turn_ns = f64::from(self.threads) * 1e9 / self.rate;
        self.script.is_some() && self.idle_ns > PASSING * turn_ns
    }

    /// Returns whether handing locks from owner to owner limits the throughput: a lock is often
    /// being handed over, and either CPUs idle, or most of the CPU time is not the threads' own
    /// work.
    fn is_bound_by_wakeups(&self) -> bool {
        self.passing > PASSING && (self.is_idle() || self.work_ns() < OWN * self.cpu_ns)
    }
}

impl Behaviour {
    /// Returns the mean work per acquisition if each class of threads acquires locks at this rate,
    /// nanoseconds; `None` if the classes are not known.
    fn shared_work_ns(&self, rate: impl Fn(usize) -> f64) -> Option<f64> {
        let classes = self.script.as_ref()?.classes.iter().enumerate();
        let of = classes.filter(|(_, class)| !class.is_rare);
        let (work, all) = of.fold((0.0, 0.0), |(work, all), (at, class)| {
            (work + class.work_ns() * rate(at), all + rate(at))
        });
        Some(work / all).filter(|work_ns| work_ns.is_finite() && *work_ns > 0.0)
    }

    /// Returns the mean work per acquisition with the shares of the record, and with the shares of
    /// `points`, nanoseconds.
    fn shares_work_ns(&self, points: &[VirtualLocksPoint]) -> Option<[f64; 2]> {
        let script = self.script.as_ref()?;
        let acquired = |at: usize| {
            let classes = points.iter().filter_map(|point| point.tally.classes.get(at));
            classes.flat_map(|class| &class.acquisitions).sum::<u64>() as f64
        };
        let recorded = self.shared_work_ns(|at| script.classes[at].acquired_per_s)?;
        Some([recorded, self.shared_work_ns(acquired)?])
    }

    /// Returns the work of an acquisition in `points` relative to a recorded one; it differs
    /// because the classes of threads have other shares there.
    pub fn other_work(&self, points: &[VirtualLocksPoint]) -> f64 {
        self.shares_work_ns(points).map_or(1.0, |[before, now]| now / before)
    }

    /// Returns the CPU time per acquisition that `points` should have according to the record,
    /// nanoseconds. While other programs ran, the classes of threads had other shares, and another
    /// number of wakeups were futile: the work of a thread follows its class, and the rest of the
    /// CPU time follows the number of returns from waits.
    pub fn expected_cpu_ns(&self, points: &[VirtualLocksPoint]) -> f64 {
        let Some([before, now]) = self.shares_work_ns(points) else { return self.cpu_ns };
        if before >= self.cpu_ns {
            return self.cpu_ns * now / before;
        }
        let all: f64 =
            points.iter().flat_map(|point| &point.result.acquisitions).sum::<u64>() as f64;
        let returns = points.iter().map(|point| point.gates.returns).sum::<u64>() as f64 / all;
        let times = returns / self.returns;
        let times = if times.is_finite() && times > 0.0 { times } else { 1.0 };
        now + (self.cpu_ns - before) * times
    }
}

impl Behaviour {
    /// Returns the recorded sleep per acquisition, nanoseconds.
    fn slept_ns(&self) -> f64 {
        match &self.script {
            Some(script) => script.slept_ns(),
            None => self.mean(|one| one.think.slept_ns() + one.hold.slept_ns(), |_| true),
        }
    }

    /// Returns the time per acquisition in which a thread may have slept without a record of it,
    /// nanoseconds: the thread neither ran, nor waited for a CPU, a lock or another thread, nor was
    /// recorded as asleep. If other programs ran, it is at most the time for which threads were
    /// switched away: threads may also have been absent because they began late or ended early.
    fn sleep_ns_max(&self, threads: u32) -> f64 {
        let turn_ns = f64::from(threads) * 1e9 / self.rate;
        let ready_ns = self.ready_ns.map_or(0.0, |ready_ns| ready_ns + self.cpu_ns);
        let sleep_ns = turn_ns - self.wait_ns - self.idle_ns - self.slept_ns() - ready_ns;
        let away_ns = self.away_ns.filter(|_| self.is_disturbed).unwrap_or(f64::INFINITY);
        let sleep_ns = sleep_ns.min(away_ns - self.slept_ns() - self.ready_ns.unwrap_or(0.0));
        if sleep_ns > SLEEP_NOISE * turn_ns { sleep_ns } else { 0.0 }
    }
}

impl Replay {
    /// Returns one of the runs that fit the anchor.
    fn fitting(&self) -> Self {
        Self { whole: false, effort: self.effort.of_fit(), ..self.clone() }
    }

    /// Returns the anchor if other programs used CPUs, so that the throughput is not the program's
    /// alone: threads sleep for the otherwise unexplained time. The CPU time of an acquisition
    /// determines the price of wakeups if threads mostly wait for each other or a lock is often
    /// being handed over, and otherwise the work.
    fn anchored_by_cpu(&self, sleep_ns: f64) -> Result<Anchor, VirtualError> {
        let known = &self.behaviour;
        let by_wakeups = known.is_waiting() || known.passing > PASSING;
        let mut replay = self.fitting();
        replay.anchor.sleep_ns = sleep_ns;
        let mut best = (f64::INFINITY, replay.anchor);
        for _ in 0..self.effort.steps {
            let (point, tried) = (replay.run()?, replay.anchor);
            let rate = point.result.acquisitions_per_s();
            if rate <= 0.0 {
                break;
            }
            let cpu_ns = point.result.cpus_used * 1e9 / rate;
            let expected = known.expected_cpu_ns(std::slice::from_ref(&point));
            let more = expected - cpu_ns;
            let wrong = more.abs() / expected.max(1.0);
            if wrong < best.0 {
                best = (wrong, replay.anchor);
            }
            if wrong < CLOSE {
                break;
            }
            if by_wakeups {
                let rest = |cpu_ns: f64| (cpu_ns - known.work_ns()).max(1.0);
                replay.anchor.wakeups_times(libm::sqrt(rest(expected) / rest(cpu_ns)));
            } else {
                replay.anchor.work_more(more, known);
            }
            if replay.anchor == tried {
                break;
            }
        }
        Ok(best.1)
    }

    /// Returns the anchor of `self`, which must have the machine and the number of threads of the
    /// record.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if the run cannot be set up or does not end.
    pub fn anchored(&self) -> Result<Anchor, VirtualError> {
        let (known, mut replay) = (&*self.behaviour, self.fitting());
        let cycle = |rate: f64| f64::from(self.threads) * 1e9 / rate;
        let longest = known.sleep_ns_max(self.threads);
        if known.is_disturbed {
            // Every other simulation has no such sleep, so that the interval covers both.
            let is_doubtful = longest < SLEEP_DOUBT * cycle(known.rate);
            let sleeps = !(is_doubtful && self.seed % 2 == 1);
            return self.anchored_by_cpu(if sleeps { longest } else { 0.0 });
        }
        let (bound, service_ns) = (known.is_bound_by_wakeups(), known.work_ns());
        let waits = known.waits_for_threads();
        let bound = bound && !waits;
        let mut best = (f64::INFINITY, self.anchor);
        let (mut gain, mut late) = (1.0_f64, 0.0_f64);
        for _ in 0..self.effort.steps {
            let (found, anchor) = (replay.run()?.result, replay.anchor);
            let rate = found.acquisitions_per_s();
            if rate <= 0.0 {
                break;
            }
            let cpu_ns = found.cpus_used * 1e9 / rate;
            // If threads wait for each other and CPUs idle, CPU time does not limit the throughput.
            let share = if waits { IDLE_CPU } else { 1.0 };
            let wrong = libm::log(rate / known.rate).abs()
                + share * libm::log(cpu_ns / known.cpu_ns.max(1.0)).abs();
            if wrong < best.0 {
                best = (wrong, anchor);
            }
            if wrong < CLOSE {
                break;
            }
            let more = known.cpu_ns - cpu_ns;
            // Time that is missing because of work is not missing because of sleep.
            let before = std::mem::replace(&mut late, cycle(known.rate) - cycle(rate) - more);
            // Threads that wait for a lock hide sleep: while more of it is missing, increase the
            // gain.
            gain = (gain * if before * late > 0.0 { 2.0 } else { 0.5 }).clamp(0.125, 4.0);
            let next = &mut replay.anchor;
            if bound {
                let beside = |cpu_ns: f64| (cpu_ns - service_ns).max(1.0);
                // Both follow the price: a higher price increases the CPU time and decreases the
                // throughput.
                let factor = beside(known.cpu_ns) / beside(cpu_ns) * rate / known.rate;
                next.wakeups_times(libm::pow(factor, 0.25));
            } else if waits {
                // Threads wait for each other: the delay follows from the cost of wakeups. If the
                // throughput is too low, missing CPU time was not spent on wakeups.
                let is_beside = more > 0.0 && rate < known.rate;
                if is_beside {
                    next.work = 1.0 + (anchor.work - 1.0) / 2.0;
                } else {
                    next.work_more(more, known);
                }
                next.wakeups_times(libm::sqrt(rate / known.rate));
            } else {
                next.work_more(more, known);
                next.sleep_ns = (anchor.sleep_ns + gain * late).clamp(0.0, longest);
            }
            // All fitted parameters are at their limits: the next run would be the same.
            if *next == anchor {
                break;
            }
        }
        Ok(best.1)
    }
}
