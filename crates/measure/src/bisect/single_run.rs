//! One run of the command in the work tree of a commit.

use super::builds::interrupted;
use super::confirm::mixed;
use super::settings::Settings;
use crate::{Ending, MeasureError, Metric, MetricError, Program, RunError, run};
use convoy_os::Disturbance;
use convoy_os::Interrupts;
use std::path::Path;
use std::time::Duration;

/// The exit code that says: this commit cannot be tested. As in `git bisect run`.
const SKIP: i32 = 125;
/// Longest value of the variable that changes where the stack of the command begins, bytes. A page:
/// what lies beyond repeats.
const PAD: u64 = 4096;

/// Result of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Gave {
    /// A value, or a bound if it was ended at its limit.
    Value { value: f64, above: bool, seconds: f64, disturbance: Disturbance },
    /// The command asks to skip the commit.
    Skip(String),
    /// Nothing; the cause.
    Failure(String),
}

/// How the command is run.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    program: Program,
    pub(super) metric: Metric,
    seed: u64,
}

impl Runner {
    /// Returns the runs of a search with its files in `state`.
    pub(super) fn new(settings: &Settings, state: &Path) -> Result<Self, MeasureError> {
        let words: Vec<_> = settings.command.iter().map(Into::into).collect();
        let mut program = Program::given(&words);
        program.limit = settings.timeout.map(Duration::from_secs_f64);
        program.cpus.clone_from(&settings.cpus);
        program.marker = Some(state.join("running"));
        Ok(Self { program, metric: settings.metric()?, seed: settings.seed })
    }

    /// Run `number` of the search, in `directory`.
    pub(super) fn run(
        &self,
        directory: &Path,
        commit: &str,
        number: u64,
        interrupts: &Interrupts,
    ) -> Result<Gave, MeasureError> {
        let mut program = self.program.clone();
        program.directory = Some(directory.to_owned());
        program.environment.push(("CONVOY_COMMIT".into(), commit.into()));
        // The size of the environment moves the stack, and that alone can change a time by more
        // than a regression (Mytkowicz et al., ASPLOS 2009). Drawn for each run it is noise.
        let pad = "x".repeat((mixed(self.seed, number) % PAD) as usize);
        program.environment.push(("CONVOY_PAD".into(), pad.into()));
        let finished = match run(&program, interrupts) {
            Ok(finished) => finished,
            Err(RunError::Interrupted) => return Err(interrupted()),
            Err(error @ RunError::Start { .. }) => return Ok(Gave::Failure(error.to_string())),
            Err(error) => return Err(MeasureError::machine(error)),
        };
        let disturbance = finished.disturbance;
        let seconds = finished.wall.as_secs_f64();
        Ok(match finished.ending {
            Ending::Code(0) => match self.metric.value(&finished) {
                Ok(value) => Gave::Value { value, above: false, seconds, disturbance },
                // No commit is at fault when the numbers cannot be compared.
                Err(error @ MetricError::Unit { .. }) => return Err(MeasureError::request(error)),
                Err(error) => Gave::Failure(error.to_string()),
            },
            Ending::Code(SKIP) => Gave::Skip(format!("the command ended with {SKIP}: skip")),
            Ending::Limit if self.metric.is_wall() => {
                let limit = program.limit.unwrap_or(finished.wall).as_secs_f64();
                Gave::Value { value: limit, above: true, seconds, disturbance }
            }
            _ => Gave::Failure(format!("the command {}", finished.describe())),
        })
    }
}
