//! A command on this machine.

use std::time::Duration;

use convoy_measure::{Ending, Metric, MetricChoice, Program, Resource, run};
use convoy_os::Interrupts;
use convoy_os::clock::keeping_to;
use serde_json::{Value, json};

use super::outcome::Cell;
use super::{JobError, Outcome};
use crate::experiment::Inputs;

/// Inputs that the command finds in its environment, as `CONVOY_` and their name in capitals.
const PASSED: [&str; 2] = ["users", "threads"];

/// One execution of a command line.
#[derive(Clone, Debug)]
pub struct CommandJob {
    line: String,
    program: Program,
    value_regex: Option<String>,
    kept_to: Option<u32>,
    round: u64,
    passed: Vec<(String, String)>,
}

impl CommandJob {
    pub(super) fn new(inputs: &Inputs) -> Result<Self, JobError> {
        let line = inputs.required("command")?;
        let set = PASSED.into_iter().filter(|key| inputs.has(key));
        let mut passed: Vec<(String, String)> = set
            .map(|key| (format!("CONVOY_{}", key.to_uppercase()), inputs.text(key, "")))
            .collect();
        passed.push(("CONVOY_SEED".to_owned(), inputs.seed.to_string()));
        let limit = inputs.has("limit_s").then(|| inputs.number("limit_s", 0.0));
        let program = Program {
            directory: inputs.directory.clone().filter(|path| !path.as_os_str().is_empty()),
            environment: passed.iter().map(|(k, v)| (k.clone(), v.into())).collect(),
            limit: limit.map(Duration::from_secs_f64),
            ..Program::shell(&line)
        };
        let value_regex = inputs.has("value_regex").then(|| inputs.text("value_regex", ""));
        let job = Self {
            line,
            program,
            value_regex,
            kept_to: inputs.kept_to(),
            round: inputs.seed,
            passed,
        };
        job.printed()?;
        Ok(job)
    }

    /// The number that the command prints, if one is asked for.
    fn printed(&self) -> Result<Option<Metric>, JobError> {
        let Some(regex) = self.value_regex.clone() else { return Ok(None) };
        let choice = MetricChoice { regex: Some(regex), ..MetricChoice::default() };
        choice.metric().map(Some).map_err(|error| JobError::input("value_regex", error))
    }
}

impl Cell for CommandJob {
    fn seed(&self) -> u64 {
        self.round
    }

    fn settings(&self) -> Value {
        json!({
            "command": self.line,
            "environment": self.passed,
            "value_regex": self.value_regex,
            "kept_to": self.kept_to,
            "limit_s": self.program.limit.map(|limit| limit.as_secs_f64()),
            "seed": self.round,
        })
    }

    fn run(&self) -> Result<Outcome, JobError> {
        let execute = || run(&self.program, &Interrupts::catch());
        let finished = match self.kept_to {
            Some(cpus) => keeping_to(cpus, execute)?,
            None => execute(),
        };
        let failed = |error: &dyn std::fmt::Display| JobError::Command {
            line: self.line.clone(),
            problem: error.to_string(),
        };
        let finished = finished.map_err(|error| failed(&error))?;
        if finished.ending != Ending::Code(0) {
            return Err(failed(&finished.describe()));
        }
        let number = |metric: &Metric| metric.value(&finished).map_err(|error| failed(&error));
        let resource = |resource| {
            let choice = MetricChoice { resource, ..MetricChoice::default() };
            choice.metric().map_err(|error| failed(&error)).and_then(|metric| number(&metric))
        };
        let mut metrics = vec![
            ("wall_s", finished.wall.as_secs_f64()),
            ("cpu_s", resource(Resource::Cpu)?),
            ("user_s", resource(Resource::User)?),
            ("system_s", resource(Resource::System)?),
            ("rss_bytes", resource(Resource::Rss)?),
            ("switches", resource(Resource::Switches)?),
        ];
        if let Some(printed) = self.printed()? {
            metrics.push(("value", number(&printed)?));
        }
        Ok(Outcome::of(metrics))
    }
}
