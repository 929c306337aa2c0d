//! A lock loop, on this machine or on a virtual one.

use convoy_catalogue::{KERNELS, MACHINES};
use convoy_kernel::KernelPreset;
use convoy_machine::Preset;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::sim::kept_to_first;
use super::{JobError, Outcome, Part};
use crate::experiment::Inputs;
use crate::native::{self, Loop, Policy};
use crate::virtual_locks::VirtualLocks;

/// A lock, threads, a section, and where.
#[derive(Clone, Debug)]
pub struct LocksJob {
    measured: Loop,
    /// Kernel, machine, and whether it has more CPUs than the one that the threads are kept to.
    virtual_machine: Option<(KernelPreset, Preset, bool)>,
    parts: Vec<Part>,
}

impl LocksJob {
    pub(super) fn new(inputs: &Inputs) -> Result<Self, JobError> {
        let lock = inputs.required("lock")?;
        let policy = Policy::named(&lock).ok_or_else(|| JobError::Input {
            key: "lock".to_owned(),
            problem: format!("there is no lock `{lock}`; known: {}", Policy::NAMES.join(", ")),
        })?;
        let mut measured = Loop {
            policy,
            cpus: None,
            seed: inputs.seed,
            threads: inputs.whole("threads", 2),
            section_ns: inputs.whole("section_ns", 100),
            outside_ns: inputs.whole("outside_ns", 1000),
            think: of_name("think", inputs.text("think", "fixed"))?,
            spin_limit: inputs.has("spin_limit").then(|| inputs.whole("spin_limit", 1)),
            warmup_ms: inputs.whole("warmup_ms", 150),
            window_ms: inputs.whole("window_ms", 300),
        };
        measured.cpus = inputs.kept_to();
        if !inputs.has("machine") {
            let parts = Vec::new();
            return Ok(Self { measured, virtual_machine: None, parts });
        }
        let kernel = inputs.preset::<KernelPreset>(&KERNELS)?;
        let machine = inputs.preset::<Preset>(&MACHINES)?;
        let pinned = kept_to_first(measured.cpus, machine.topology.cpus)?;
        let parts = vec![Part::of("kernel", &kernel), Part::of("machine", &machine)];
        let virtual_machine = Some((kernel.value, machine.value, pinned));
        Ok(Self { measured, virtual_machine, parts })
    }

    pub(super) fn seed(&self) -> u64 {
        self.measured.seed
    }

    pub(super) fn measures(&self) -> bool {
        self.virtual_machine.is_none()
    }

    pub(super) fn native(&self) -> Self {
        Self { virtual_machine: None, parts: Vec::new(), ..self.clone() }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn settings(&self) -> Value {
        let own = &self.measured;
        json!({
            "lock": own.policy.name(),
            "threads": own.threads,
            "section_ns": own.section_ns,
            "outside_ns": own.outside_ns,
            "think": own.think,
            "spin_limit": own.spin_limit,
            "warmup_ms": own.warmup_ms,
            "window_ms": own.window_ms,
            "kept_to": own.cpus,
            "seed": own.seed,
        })
    }

    pub(super) fn run(&self) -> Result<Outcome, JobError> {
        let own = &self.measured;
        let Some((kernel, machine, pinned)) = &self.virtual_machine else {
            let run = native::once(own)?;
            return Ok(Outcome::of([
                ("acquisitions_per_s", run.acquisitions_per_s),
                ("jain", run.jain.unwrap_or(f64::NAN)),
                ("cpus_used", run.cpus_used),
                ("others_cpus", run.others_cpus.unwrap_or(f64::NAN)),
                ("voluntary_switches_per_s", run.voluntary_switches_per_s),
                ("starved_threads", f64::from(run.starved_threads)),
                ("wait_p50_us", run.wait_p50_us),
                ("wait_p99_us", run.wait_p99_us),
                ("wait_max_us", run.wait_max_us),
            ]));
        };
        let cell = VirtualLocks {
            policy: own.policy,
            threads: own.threads,
            pinned: *pinned,
            section_ns: own.section_ns,
            outside_ns: own.outside_ns,
            think: own.think,
            spin_limit: own.spin_limit,
            warmup_ms: own.warmup_ms,
            window_ms: own.window_ms,
            kernel: kernel.clone(),
            machine: machine.clone(),
            seed: own.seed,
        };
        let point = cell.run()?;
        let us = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64 / 1e3);
        let outcome = Outcome::of([
            ("acquisitions_per_s", point.acquisitions_per_s),
            ("jain", point.jain.unwrap_or(f64::NAN)),
            ("cpus_used", point.cpus_used),
            ("voluntary_switches_per_s", point.voluntary_switches_per_s),
            ("wait_p50_us", us(point.waits.percentile(50.0))),
            ("wait_p99_us", us(point.waits.percentile(99.0))),
            ("wait_max_us", us(point.waits.max())),
        ]);
        Ok(Outcome { schedule_hash: Some(format!("{:016x}", point.hash)), ..outcome })
    }
}

/// The value that a file calls `name`.
fn of_name<T: DeserializeOwned>(key: &str, name: String) -> Result<T, JobError> {
    serde_json::from_value(Value::String(name))
        .map_err(|error| JobError::Input { key: key.to_owned(), problem: error.to_string() })
}
