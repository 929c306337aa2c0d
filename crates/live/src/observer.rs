//! Observes running processes and diagnoses the last seconds, again and again.

use std::time::{Duration, Instant};

use convoy_os::clock::{process_cpu_ns, thread_cpu_ns};
use convoy_record::outside::Outside;
use convoy_record::{Lately, Moments, Past, Process, Program, Record, VERSION, Window};
use convoy_report::{TopReport, TopTimes};

use crate::endpoint::Endpoint;
use crate::screen::Screen;

/// Maximum share of a CPU for refreshes, within the limit of [`LATEST`].
const SHARE: f64 = 0.002;
/// Maximum number of intervals between two refreshes.
const LATEST: u32 = 5;
/// Maximum time between two checks for the end of the observation.
const CHECK: Duration = Duration::from_millis(200);

/// Maximum time between two samples, so that the end of the processes is seen.
const LONGEST: Duration = Duration::from_secs(2);
/// Minimum time between two checks.
const SHORTEST: Duration = Duration::from_millis(1);

/// Why an observation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All observed processes have exited.
    Exited,
    /// The user, a signal or the time limit ended it.
    Asked,
}

/// Lengths of an observation.
#[derive(Clone, Copy, Debug)]
pub struct Refreshes {
    /// Time between two refreshes.
    pub interval: Duration,
    /// Length of the window that is diagnosed.
    pub window: Duration,
    /// Time limit, if there is one.
    pub limit: Option<Duration>,
    /// Whether the whole observation is kept as a record.
    pub is_kept: bool,
}

/// Running processes that are observed.
pub struct Observer {
    outside: Outside,
    /// The description of the program, as in a record.
    program: Program,
    /// Sentences about gaps that exist from the beginning.
    missing: Vec<String>,
    begin: Instant,
    /// CPU time of this process at the beginning, in nanoseconds.
    begin_ns: u64,
    first: Moments,
    past: Past,
    refreshes: Refreshes,
}

impl Observer {
    /// Starts to observe processes. `program` describes them in a record, and `missing` is what
    /// cannot be observed.
    pub fn new(
        outside: Outside,
        program: Program,
        missing: Vec<String>,
        refreshes: Refreshes,
    ) -> Self {
        let outside = outside.gently(refreshes.is_kept);
        let (first, begin) = (outside.moment(), Instant::now());
        let past = Past::new(outside.moment(), refreshes.window);
        Self {
            outside,
            program,
            missing,
            begin,
            begin_ns: process_cpu_ns(),
            first,
            past,
            refreshes,
        }
    }

    /// Observes until the end, and shows the last seconds on a screen and at an endpoint, if there
    /// are any. `is_asked` returns whether the observation shall end.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    pub fn run(
        &mut self,
        mut screen: Option<&mut Screen>,
        endpoint: Option<&Endpoint>,
        is_asked: impl Fn() -> bool,
    ) -> std::io::Result<Ending> {
        let mut sample = Instant::now();
        let mut refresh = sample + self.refreshes.interval.min(Duration::from_secs(1));
        loop {
            let now = Instant::now();
            if now >= sample {
                let Some(pause) = self.outside.look() else { return Ok(Ending::Exited) };
                sample = now + pause.min(LONGEST);
            }
            if is_asked() || self.is_over() {
                return Ok(Ending::Asked);
            }
            let is_shown = screen.is_some() || endpoint.is_some();
            let is_paused = screen.as_ref().is_some_and(|screen| screen.is_paused());
            let is_due = now >= refresh && is_shown && !is_paused;
            if is_due {
                let before = thread_cpu_ns();
                let is_whole = screen.as_ref().is_some_and(|screen| screen.is_whole());
                let report = self.report(is_whole);
                if let Some(endpoint) = endpoint {
                    endpoint.show(report.to_metrics());
                }
                if let Some(screen) = &mut screen {
                    screen.show(report)?;
                }
                let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
                let interval = self.refreshes.interval;
                refresh = now + took.mul_f64(1.0 / SHARE).clamp(interval, LATEST * interval);
            }
            let next = if is_shown && !is_paused { sample.min(refresh) } else { sample };
            let pause = next.saturating_duration_since(Instant::now()).clamp(SHORTEST, CHECK);
            let is_over = if let Some(screen) = &mut screen {
                screen.wait(pause)?
            } else {
                std::thread::sleep(pause);
                false
            };
            if is_over {
                return Ok(Ending::Asked);
            }
        }
    }

    /// Returns whether the time limit has passed.
    fn is_over(&self) -> bool {
        self.refreshes.limit.is_some_and(|limit| self.begin.elapsed() >= limit)
    }

    /// Diagnoses the last seconds, or the whole observation.
    pub fn report(&mut self, is_whole: bool) -> TopReport {
        let (then, now) = self.past.add(self.outside.moment());
        let then = if is_whole { &self.first } else { then };
        let mut window = self.outside.window(then, now);
        window.unseen.extend(self.missing.iter().cloned());
        let times = TopTimes {
            window_s: window.seconds,
            elapsed_s: self.begin.elapsed().as_secs_f64(),
            cost_s: window.cost_s,
        };
        let (record, lately) = record(&self.program, window);
        TopReport::new(&record, &lately, times)
    }

    /// Ends the observation, and diagnoses all of it.
    pub fn into_report(self) -> TopReport {
        let (seconds, cost_s) = (self.begin.elapsed().as_secs_f64(), self.cost_s());
        let mut program = self.program.clone();
        program.wall_s = seconds;
        let (processes, unseen) = self.finish();
        program.cpu_s = processes.iter().map(|process| process.cpu_s).sum();
        let times = TopTimes { window_s: seconds, elapsed_s: seconds, cost_s };
        TopReport::new(&Record { recorded: VERSION, program, processes, unseen }, &[], times)
    }

    /// Returns the CPU time of this process since the observation began, in seconds.
    fn cost_s(&self) -> f64 {
        process_cpu_ns().saturating_sub(self.begin_ns) as f64 / 1e9
    }

    /// Ends the observation. Returns the processes as a record has them, and sentences about
    /// missing data.
    pub fn finish(self) -> (Vec<Process>, Vec<String>) {
        let (processes, mut unseen) = self.outside.finish();
        unseen.extend(self.missing);
        (processes, unseen)
    }
}

fn record(program: &Program, window: Window) -> (Record, Vec<Lately>) {
    let processes: Vec<Process> =
        window.processes.iter().map(|lately| lately.process.clone()).collect();
    let mut program = program.clone();
    program.wall_s = window.seconds;
    program.cpu_s = processes.iter().map(|process| process.cpu_s).sum();
    (Record { recorded: VERSION, program, processes, unseen: window.unseen }, window.processes)
}
