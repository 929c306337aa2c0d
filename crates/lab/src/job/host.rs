//! AIM7 on this machine.

use std::path::Path;
use std::time::Duration;

use convoy_host::{HostRun, run};
use convoy_os::clock::keeping_to;
use convoy_workload::mix::Mix;
use serde_json::{Value, json};

use super::outcome::Cell;
use super::{JobError, Outcome, Part, SimJob};
use crate::experiment::Inputs;

/// Where the users' work directories are made: memory, as on the virtual kernel.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// A load point of this machine.
#[derive(Clone, Debug)]
pub struct HostJob {
    run: HostRun,
    users: u32,
    cpus: Option<u32>,
    parts: Vec<Part>,
}

impl HostJob {
    pub(super) fn new(inputs: &Inputs) -> Result<Self, JobError> {
        let (mix, text) = inputs.mix()?;
        let full = inputs.whole("users", 1);
        let users = full / inputs.scale.min(full);
        let delay = inputs.number("start_delay_s", 0.0) / f64::from(inputs.scale);
        let run = HostRun {
            seed: inputs.seed,
            shrink: inputs.whole("shrink", 1),
            shell_sleep: inputs.truth("shell_sleep", false),
            start_delay: Duration::from_secs_f64(delay),
            ..load_point(mix, users)
        };
        Ok(Self { run, users, cpus: inputs.kept_to(), parts: vec![text] })
    }

    /// The same load as on the virtual kernel.
    pub(super) fn of(job: &SimJob) -> Self {
        let (inputs, load) = (job.inputs(), job.load_point());
        let run = HostRun {
            seed: inputs.seed,
            shrink: inputs.shrink,
            shell_sleep: inputs.shell_sleep,
            start_delay: Duration::from_nanos(inputs.start_delay_ns),
            ..load_point(load.mix.clone(), inputs.users)
        };
        let parts = job.parts().iter().filter(|part| part.kind == "mix").cloned().collect();
        Self { run, users: inputs.users, cpus: inputs.kept_to, parts }
    }
}

impl Cell for HostJob {
    fn seed(&self) -> u64 {
        self.run.seed
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn settings(&self) -> Value {
        json!({
            "users": self.users,
            "seed": self.run.seed,
            "start_delay_ns": self.run.start_delay.as_nanos() as u64,
            "shell_sleep": self.run.shell_sleep,
            "shrink": self.run.shrink,
            "kept_to": self.cpus,
        })
    }

    fn run(&self) -> Result<Outcome, JobError> {
        let load = || run::run(&self.run, |_| ()).into_result();
        let record = match self.cpus {
            Some(cpus) => keeping_to(cpus, load)??,
            None => load()?,
        };
        let Some(point) = record.points.first() else { return Ok(Outcome::default()) };
        let jobs = f64::from(self.users) * f64::from(self.run.mix.jobs_per_user());
        Ok(Outcome::of([
            ("jobs_per_min", point.jobs_per_min),
            ("jti", f64::from(point.jti)),
            ("real_s", point.real_s),
            ("cpu_s", point.cpu_s),
            ("jobs_per_sec_per_task", point.jobs_per_sec_per_task),
            ("cpu_ms_per_job", 1e3 * point.cpu_s / jobs),
        ]))
    }
}

fn load_point(mix: Mix, users: u32) -> HostRun {
    let memory = Path::new(MEMORY_DIRECTORY);
    let directories = if memory.is_dir() { vec![memory.to_owned()] } else { Vec::new() };
    HostRun { predict: false, directories, ..HostRun::new(mix, vec![users]) }
}
