//! The budget of kernel events. Where they would cost the program more than a small part of its CPU
//! time, frequent events are recorded in windows of time. Threads with few events are always
//! recorded, so none of their long waits is missed.
//!
//! A window represents the time since the previous one, so what begins in it counts several times,
//! its *weight*. Sums of times are differences of *weighted time*, which advances by the weight in
//! a window and stands still between windows. The end of a wait is known if it is in the same
//! window, or in a later one and the thread has not run in between, by the kernel's count of its
//! switches. Otherwise the wait counts until the end of its window.

use std::time::Duration;

use super::tables::{Tables, bytes, gate, load, words};

/// Part of the CPU time of the program that its kernel events may take.
const SHARE: f64 = 0.01;
/// Time that they may take in addition, in nanoseconds, so that short recordings are complete.
const FREE_NS: f64 = 30e6;
/// Time that a switch or a wakeup takes, in nanoseconds: a pair of them adds 800 to a byte through
/// a pipe between two processes on one CPU (results/record.md). Measured on one machine; elsewhere
/// an estimate, as the next.
const EVENT_NS: f64 = 400.0;
/// Time that a wait in futex(2) takes in addition, in nanoseconds: in Apache 3.5 us of a request
/// with one such wait are programs at switches and wakeups, of which there are four.
const WAIT_NS: f64 = 2000.0;
/// Length of a window.
const WINDOW_NS: u64 = 20_000_000;
/// Maximum weight.
const MOST: f64 = 32.0;
/// Part of a new measurement in the estimate of the cost.
const NEW: f64 = 0.5;

/// What the gate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing until this time has passed.
    Wait(Duration),
    /// The window has ended: detach the probes.
    Close,
    /// Attach the probes, then call [`Gate::open`].
    Open,
}

/// Numbers that the programs have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// Switches and wakeups.
    pub(super) events: u64,
    /// Waits in futex(2).
    pub(super) waits: u64,
    pub(super) probes: u64,
    /// Weighted time on CPUs, in nanoseconds.
    pub(super) cpu_ns: u64,
}

impl Load {
    pub(super) fn read(tables: &Tables) -> Self {
        let values = tables.load.get_of_cpus(&0_u32.to_le_bytes()).unwrap_or_default();
        words(&values).chunks_exact(load::WORDS).fold(Self::default(), |sum, one| Self {
            events: sum.events + one[load::EVENTS],
            waits: sum.waits + one[load::WAITS],
            probes: sum.probes + one[load::PROBES],
            cpu_ns: sum.cpu_ns + one[load::CPU],
        })
    }

    fn cost_ns(self, probe_ns: f64) -> f64 {
        let waits_ns = self.waits as f64 * WAIT_NS;
        self.events as f64 * EVENT_NS + waits_ns + self.probes as f64 * probe_ns
    }
}

#[derive(Debug)]
pub(super) struct Gate {
    /// Its words in the map.
    words: Vec<u64>,
    /// Whether the budget is kept.
    pub(super) is_limited: bool,
    /// Time that a passage of a probe takes, in nanoseconds.
    pub(super) probe_ns: f64,
    /// The numbers when the window began.
    load: Load,
    /// Cost and CPU time of a second in a window; none before the budget was exceeded.
    rates: Option<(f64, f64)>,
    /// Weight of the next window.
    weight: u64,
    begin_ns: u64,
    opened_ns: u64,
}

impl Gate {
    /// Returns a gate that is open since this time.
    pub(super) fn new(now_ns: u64) -> Self {
        let mut words = vec![0; gate::WORDS];
        (words[gate::EPOCH], words[gate::WEIGHT], words[gate::UNTIL]) = (1, 1, u64::MAX);
        Self {
            words,
            is_limited: true,
            probe_ns: 0.0,
            load: Load::default(),
            rates: None,
            weight: 1,
            begin_ns: now_ns,
            opened_ns: 0,
        }
    }

    /// Returns the value for the map of the programs.
    pub(super) fn value(&self) -> Vec<u8> {
        bytes(&self.words)
    }

    /// Returns what to do now, with the numbers that the programs have counted since the beginning.
    pub(super) fn turn(&mut self, now_ns: u64, load: impl FnOnce() -> Load) -> Turn {
        /// Time between two comparisons of the cost with the budget.
        const CHECK_NS: u64 = 20_000_000;
        if !self.is_limited {
            return Turn::Wait(Duration::MAX);
        }
        let until = self.words[gate::UNTIL];
        if self.words[gate::STATE] == gate::BETWEEN {
            let opens = until.saturating_add((self.weight - 1) * WINDOW_NS);
            return match opens.checked_sub(now_ns) {
                None | Some(0) => Turn::Open,
                Some(left) => Turn::Wait(Duration::from_nanos(left)),
            };
        }
        if until == u64::MAX {
            let seconds = now_ns.saturating_sub(self.begin_ns) as f64 / 1e9;
            let load = load();
            let cost = load.cost_ns(self.probe_ns);
            if cost <= FREE_NS + SHARE * load.cpu_ns as f64 {
                return Turn::Wait(Duration::from_nanos(CHECK_NS));
            }
            self.words[gate::UNTIL] = now_ns;
            self.rates = Some((cost / seconds, load.cpu_ns as f64 / seconds));
            self.opened_ns = now_ns - self.begin_ns;
        } else if let Some(left) = until.checked_sub(now_ns).filter(|left| *left > 0) {
            return Turn::Wait(Duration::from_nanos(left));
        } else {
            let window = (until - self.words[gate::OPEN]).max(1);
            let (load, seconds) = (load(), window as f64 / 1e9);
            let cost = load.cost_ns(self.probe_ns) - self.load.cost_ns(self.probe_ns);
            let cpu = load.cpu_ns.saturating_sub(self.load.cpu_ns) as f64;
            let new = (cost / seconds, cpu / self.words[gate::WEIGHT] as f64 / seconds);
            let old = self.rates.unwrap_or(new);
            let mean = |new: f64, old: f64| NEW * new + (1.0 - NEW) * old;
            self.rates = Some((mean(new.0, old.0), mean(new.1, old.1)));
            self.opened_ns += window;
        }
        let (cost, cpu) = self.rates.unwrap_or_default();
        self.weight = (cost / (SHARE * cpu).max(1.0)).ceil().clamp(1.0, MOST) as u64;
        self.words[gate::STATE] = gate::BETWEEN;
        Turn::Close
    }

    /// Begins a window. Its length times its weight is the time since the previous one ended.
    pub(super) fn open(&mut self, now_ns: u64, load: Load) {
        let closed = self.words[gate::UNTIL];
        let gap = now_ns.saturating_sub(closed);
        let window = gap.checked_div(self.weight - 1).map_or(WINDOW_NS, |part| part.max(1));
        self.words[gate::BASE] = self.weighted(now_ns);
        self.words[gate::EPOCH] += 1;
        self.words[gate::WEIGHT] = self.weight;
        self.words[gate::OPEN] = now_ns;
        self.words[gate::UNTIL] = now_ns + window;
        self.words[gate::PREVIOUS] = closed;
        self.words[gate::STATE] = gate::WINDOW;
        self.load = load;
    }

    /// Returns the weighted time at this time.
    fn weighted(&self, now_ns: u64) -> u64 {
        let words = &self.words;
        let passed = now_ns.min(words[gate::UNTIL]).saturating_sub(words[gate::OPEN]);
        words[gate::BASE].saturating_add(passed.saturating_mul(words[gate::WEIGHT]))
    }

    /// Returns the part of the time in which frequent events were recorded, if it was not all of
    /// it.
    pub(super) fn share(&self, now_ns: u64) -> Option<f64> {
        self.rates?;
        let is_open = self.words[gate::STATE] == gate::WINDOW;
        let end_ns = if is_open { now_ns.min(self.words[gate::UNTIL]) } else { 0 };
        let open_ns = self.opened_ns + end_ns.saturating_sub(self.words[gate::OPEN]);
        let all = now_ns.saturating_sub(self.begin_ns).max(1);
        Some((open_ns as f64 / all as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Runs the gate for some seconds with a program that causes events at a rate for each second
    /// on one CPU. Returns the recorded events, and their weighted sum.
    fn run(gate: &mut Gate, per_s: f64, seconds: u64) -> (f64, f64) {
        let (mut load, mut weighted, mut is_open) = (Load::default(), 0.0, true);
        let begin = 100 * SECOND;
        let (mut events, mut now, step) = (0.0, begin, 500_000);
        while now < begin + seconds * SECOND {
            now += step;
            let words = &gate.words;
            if is_open && now <= words[gate::UNTIL] {
                events += per_s * step as f64 / 1e9;
                weighted += per_s * step as f64 / 1e9 * words[gate::WEIGHT] as f64;
                load.cpu_ns += step * words[gate::WEIGHT];
            }
            load.events = events as u64;
            match gate.turn(now, || load) {
                Turn::Wait(_) => {}
                Turn::Close => is_open = false,
                Turn::Open => {
                    gate.open(now, load);
                    is_open = true;
                }
            }
        }
        (events, weighted)
    }

    #[test]
    fn rare_events_are_all_recorded() {
        let mut gate = Gate::new(100 * SECOND);
        let (events, _) = run(&mut gate, 20_000.0, 10);
        assert!((events - 200_000.0).abs() < 10.0, "{events}");
        assert_eq!(gate.share(110 * SECOND), None);
    }

    #[test]
    fn frequent_events_keep_the_budget_and_their_number() {
        for per_s in [50_000.0, 200_000.0, 800_000.0] {
            let mut gate = Gate::new(100 * SECOND);
            let (events, weighted) = run(&mut gate, per_s, 20);
            let budget = FREE_NS + SHARE * 20e9;
            assert!(events * EVENT_NS < 1.1 * budget, "{per_s}: {}", events * EVENT_NS / budget);
            assert!(events * EVENT_NS > 0.4 * budget, "{per_s}: {}", events * EVENT_NS / budget);
            let error = weighted / (20.0 * per_s) - 1.0;
            assert!(error.abs() < 0.05, "{per_s}: {error}");
            let share = gate.share(120 * SECOND).expect("it is limited");
            assert!((share - events / (20.0 * per_s)).abs() < 0.05, "{share}");
        }
    }

    #[test]
    fn weighted_time_passes_in_windows_only() {
        let mut gate = Gate::new(0);
        assert_eq!(gate.weighted(7), 7);
        (gate.words[gate::UNTIL], gate.words[gate::STATE], gate.weight) = (100, gate::BETWEEN, 4);
        assert_eq!(gate.weighted(1000), 100);
        gate.open(400, Load::default());
        // A window of 100 after a gap of 300.
        assert_eq!([400, 450, 500, 900].map(|now| gate.weighted(now)), [100, 300, 500, 500]);
        assert_eq!(gate.words[gate::PREVIOUS], 100);
    }
}
