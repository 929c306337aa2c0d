//! A baseline and candidates: their sides ([`resolve`]), measured or read numbers, and verdicts
//! ([`Case`]).

mod judge;
mod live;
mod operand;
mod read;
mod series;
mod settings;

use crate::measure::{MeasureError, MetricChoice};
use convoy_host::Interrupts;
use convoy_stats::{Correction, Interval};

pub use judge::{Case, Floor, RangeChange, Row};
pub use live::{Failures, Measured, WarmedUp};
pub use operand::{Command, Operand, Operands, resolve};
pub use read::ReadError;
pub use series::{Series, Side, partner};
pub use settings::{Difference, NAMES as SETTINGS, Settings, differing};

/// Runs of commands that are compared with stored numbers, so that there is nothing to watch.
const UNWATCHED: u32 = 20;

/// Blocks before the first evaluation: with fewer, even ranks cannot distinguish two sides.
const FIRST_LOOK: usize = 6;

/// Runs that do not count because the program or the machine is still warming up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// Until a block is like those before.
    Auto,
    /// A fixed number of blocks.
    Blocks(u32),
}

/// How sides are measured and judged.
#[derive(Clone, Debug)]
pub struct Request {
    /// The metric.
    pub metric: MetricChoice,
    /// Runs of each side; `None`: as many as the verdict needs, up to `max_runs`.
    pub runs: Option<u32>,
    /// The most runs of each side.
    pub max_runs: u32,
    /// The longest time of measuring, seconds.
    pub max_time: Option<f64>,
    /// Runs that do not count.
    pub warmup: Warmup,
    /// A shell command before each run.
    pub prepare: Option<String>,
    /// The CPUs that the commands may use; `None`: all.
    pub cpus: Option<Vec<usize>>,
    /// A run that takes longer failed, seconds.
    pub timeout: Option<f64>,
    /// Whether failed runs are left out instead of ending it.
    pub ignore_failure: bool,
    /// Settings that the records of the sides may have differently.
    pub across: Vec<String>,
    /// Whether the baseline is compared with itself as well.
    pub aa: bool,
    /// Whether more is better, where the numbers themselves do not say so.
    pub higher_is_better: bool,
    /// Relative difference that does not matter, 0.01 for 1 %.
    pub same_within: f64,
    /// Share of collapsing runs of the candidate that must have shown before it is called faster or
    /// the same early, 0.05 for 5 %.
    pub tail: f64,
    /// Chance to call equal sides different.
    pub alpha: f64,
    /// The kind of intervals of means.
    pub interval: Interval,
    /// The correction over a table.
    pub correction: Correction,
    /// Of the order of runs.
    pub seed: u64,
}

impl Request {
    fn check(&self) -> Result<(), MeasureError> {
        for (name, seconds) in [("timeout", self.timeout), ("max-time", self.max_time)] {
            if let Some(s) = seconds.filter(|s| !(*s > 0.0 && *s <= 1e7)) {
                let problem = format!("{s} s is not above 0 and up to 1e7 seconds");
                return Err(MeasureError::Setting { name, problem });
            }
        }
        if self.alpha > 0.0 && self.alpha < 0.5 {
            return Ok(());
        }
        let problem = format!("{} must lie between 0 and 0.5", self.alpha);
        Err(MeasureError::Setting { name: "alpha", problem })
    }

    /// Whether the sides that are there already are of one thing.
    fn check_settings(&self, operands: &[(String, Operand)]) -> Result<(), MeasureError> {
        let stored = operands.iter().filter_map(|(label, operand)| match operand {
            Operand::Numbers(side) => Some(Side { label: label.clone(), ..side.clone() }),
            Operand::Command(_) => None,
        });
        let mut all = differing(&stored.collect::<Vec<_>>());
        all.retain(|difference| !self.across.contains(&difference.name));
        if all.is_empty() { Ok(()) } else { Err(MeasureError::Different(all)) }
    }

    /// Returns the sides with their numbers: read from files and records, measured for commands.
    /// `progress` receives the finished blocks, their maximum, and a description of other steps.
    pub fn sides(
        &self,
        operands: &[(String, Operand)],
        interrupts: &Interrupts,
        progress: &mut dyn FnMut(usize, u32, &str),
    ) -> Result<(Vec<Side>, Measured), MeasureError> {
        self.check()?;
        self.check_settings(operands)?;
        let commands = operands.iter().filter_map(|(label, operand)| match operand {
            Operand::Command(command) => Some((label.clone(), command)),
            Operand::Numbers(_) => None,
        });
        let mut commands: Vec<_> = commands.collect();
        let mut measured = Measured::default();
        if !commands.is_empty() {
            if self.aa {
                let (label, Operand::Command(baseline)) = &operands[0] else {
                    let problem = "the baseline is no command that could run again".to_owned();
                    return Err(MeasureError::Setting { name: "aa", problem });
                };
                commands.push((format!("{label} (again)"), baseline));
            }
            measured = self.measure(commands, operands.len(), interrupts, progress)?;
        }
        let mut live = std::mem::take(&mut measured.sides).into_iter();
        let numbers = |(label, operand): &(String, Operand)| match operand {
            Operand::Command(_) => live.next().expect("a side for each command"),
            Operand::Numbers(side) => Side { label: label.clone(), ..side.clone() },
        };
        let mut sides: Vec<Side> = operands.iter().map(numbers).collect();
        sides.extend(live);
        Ok((sides, measured))
    }

    fn measure(
        &self,
        commands: Vec<(String, &Command)>,
        sides: usize,
        interrupts: &Interrupts,
        progress: &mut dyn FnMut(usize, u32, &str),
    ) -> Result<Measured, MeasureError> {
        let watched = commands.len() == sides + usize::from(self.aa);
        let most = if watched { self.max_runs } else { self.max_runs.min(UNWATCHED) };
        let plan = live::Plan::new(self, commands, self.runs.unwrap_or(most))?;
        let mut measured = plan.measure(interrupts, progress, &mut |all| {
            watched.then(|| self.enough(&all[..sides])).flatten()
        });
        if measured.blocks == 0 {
            return Err(measured.broken.take().unwrap_or_else(|| nothing(&measured)));
        }
        Ok(measured)
    }

    /// Why there are enough runs, if there are. It may be asked after every block: the test bounds
    /// the error over all looks together.
    fn enough(&self, sides: &[Side]) -> Option<String> {
        let blocks = sides.first()?.series.first()?.values.len();
        if blocks < FIRST_LOOK {
            return None;
        }
        let live = vec![true; sides.len()];
        let case = Case { request: self, live: &live, sequential: true };
        let rows = case.rows(sides, None).ok()?;
        let sure = rows.iter().all(|row| row.is_settled(self.tail));
        sure.then(|| format!("sure after {blocks} runs of each side"))
    }
}

fn nothing(measured: &Measured) -> MeasureError {
    let all = measured.failures.iter().filter(|failure| failure.failed > 0);
    let all: Vec<String> = all
        .map(|f| format!("{} failed in {} of {} runs ({})", f.label, f.failed, f.tried, f.first))
        .collect();
    let text = format!("no block of runs in which nothing failed: {}", all.join("; "));
    MeasureError::Machine(text)
}
