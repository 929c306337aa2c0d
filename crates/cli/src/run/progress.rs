//! Progress of a run on this machine: a bar on a terminal, lines elsewhere.

use crate::args::Common;
use crate::output;
use convoy_host::{HostRun, Progress};
use convoy_workload::users::counted;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Time between two lines within a load point.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of a run.
pub(super) struct Live<'a> {
    common: &'a Common,
    bar: ProgressBar,
    /// Load points: ended, and planned.
    points: (usize, usize),
    jobs_per_user: u64,
    /// Jobs of the executions that have ended.
    before: u64,
    /// Jobs of the execution under way.
    current: u64,
    began: Instant,
    line: Instant,
}

impl<'a> Live<'a> {
    pub(super) fn new(common: &'a Common, options: &HostRun) -> Self {
        let jobs_per_user = u64::from(options.mix.jobs_per_user());
        let planned = options.schedule.planned();
        let users: u64 = planned.iter().map(|users| u64::from(*users)).sum();
        let executions = u64::from(options.repeats.warmup + options.repeats.least);
        let bar = output::progress(common, users * jobs_per_user * executions);
        let style = "{spinner} [{bar:24}] {pos}/{len} jobs, {per_sec}, {eta} left: {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        let now = Instant::now();
        Self {
            common,
            bar,
            points: (0, planned.len()),
            jobs_per_user,
            before: 0,
            current: 0,
            began: now,
            line: now,
        }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        let (ended, planned) = self.points;
        match progress {
            Progress::Measuring { users } => {
                self.bar.set_message(format!("jobs alone, sized for {}", counted(*users)));
            }
            Progress::Running { users, before } => {
                self.before += std::mem::take(&mut self.current);
                self.current = u64::from(*users) * self.jobs_per_user;
                self.at(self.before);
                self.began = Instant::now();
                let point = (ended + 1).min(planned);
                let execution = before + 1;
                self.bar.set_message(format!(
                    "{} (point {point} of {planned}, execution {execution})",
                    counted(*users)
                ));
            }
            Progress::Working { users, done, of } => {
                self.at(self.before + done);
                self.working(*users, *done, *of);
            }
            Progress::Finished { record } => {
                let Some(point) = record.points.last() else { return };
                self.points.0 += 1;
                let result = if point.failed.is_some() {
                    "failed".to_owned()
                } else {
                    format!("{:.1} Jobs/Min, Real {:.2} s", point.jobs_per_min, point.real_s)
                };
                self.line(&format!(
                    "{}: {result} (point {} of {planned})",
                    counted(point.users),
                    self.points.0
                ));
            }
        }
    }

    fn at(&self, jobs: u64) {
        if self.bar.length().is_some_and(|length| length < jobs) {
            // More executions than were planned for.
            self.bar.set_length(jobs);
        }
        self.bar.set_position(jobs);
    }

    /// Prints a line now and then if there is no progress bar.
    fn working(&mut self, users: u32, done: u64, of: u64) {
        if self.line.elapsed() < LINE_EVERY || done == 0 {
            return;
        }
        let rate = done as f64 / self.began.elapsed().as_secs_f64();
        let left_s = of.saturating_sub(done) as f64 / rate;
        let text = if of == 0 {
            format!("{done} jobs, {rate:.0}/s")
        } else {
            let users = counted(users);
            format!("{users}: {done} of {of} jobs, {rate:.0}/s, {left_s:.0} s left")
        };
        self.line(&text);
    }

    fn line(&mut self, text: &str) {
        self.line = Instant::now();
        if self.bar.is_hidden() {
            output::message(self.common, text);
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
