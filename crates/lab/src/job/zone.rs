//! Pages in a loop, on a virtual machine.

use std::num::NonZeroU32;

use convoy_catalogue::MACHINES;
use convoy_kernel::{Moves, costs_ns};
use convoy_machine::Preset;
use convoy_sync::LockName;
use serde_json::{Value, json};

use super::locks::of_name;
use super::outcome::Cell;
use super::{JobError, Listener, Outcome, Part, Recorded};
use crate::experiment::Inputs;
use crate::zone_loop::{ZoneLoop, ZonePoint};

/// A batch, a policy, a lock, and CPUs.
#[derive(Clone, Debug)]
pub struct ZoneJob {
    measured: ZoneLoop,
    policy: String,
    parts: Vec<Part>,
}

impl ZoneJob {
    pub(super) fn new(inputs: &Inputs) -> Result<Self, JobError> {
        let machine = inputs.preset::<Preset>(&MACHINES)?;
        let costs = costs_ns(&machine.value).map_err(|error| JobError::input("machine", error))?;
        let name = inputs.text("lock", "ticket");
        let lock = LockName::named(&name).filter(|lock| ZoneLoop::LOCKS.contains(lock));
        let lock = lock.ok_or_else(|| {
            let names = ZoneLoop::LOCKS.map(LockName::name).join(", ");
            JobError::input("lock", format!("no zone lock can be `{name}`; known: {names}"))
        })?;
        let policy = inputs.text("policy", "hold-all");
        let moves = Moves {
            policy: of_name("policy", policy.clone())?,
            every: NonZeroU32::new(inputs.whole("every", 1)).unwrap_or(NonZeroU32::MIN),
            page_ps: (costs["bulk_page"] * 1e3).round() as u64,
        };
        let measured = ZoneLoop {
            lock,
            moves,
            batch: inputs.whole("batch", 31),
            own_line: inputs.truth("own_line", false),
            nested: inputs.truth("nested", false),
            outside_ns: inputs.whole("outside_ns", 1000),
            think: of_name("think", inputs.text("think", "fixed"))?,
            seed: inputs.seed,
            warmup_ms: inputs.whole("warmup_ms", 150),
            window_ms: inputs.whole("window_ms", 300),
            machine: machine.value.clone(),
        };
        Ok(Self { measured, policy, parts: vec![Part::of("machine", &machine)] })
    }
}

impl Cell for ZoneJob {
    fn cpus(&self) -> Option<usize> {
        Some(self.measured.machine.topology.cpus)
    }

    fn seed(&self) -> u64 {
        self.measured.seed
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn settings(&self) -> Value {
        let cell = &self.measured;
        json!({
            "lock": cell.lock.name(),
            "policy": self.policy,
            "every": cell.moves.every,
            "page_ps": cell.moves.page_ps,
            "batch": cell.batch,
            "own_line": cell.own_line,
            "nested": cell.nested,
            "outside_ns": cell.outside_ns,
            "think": cell.think,
            "warmup_ms": cell.warmup_ms,
            "window_ms": cell.window_ms,
            "seed": cell.seed,
        })
    }

    fn run(&self) -> Result<Outcome, JobError> {
        Ok(outcome(&self.measured.run()?))
    }

    fn record(&self, recorder: Listener) -> Option<Result<Recorded, JobError>> {
        let recorded = self.measured.record(recorder).map_err(JobError::from);
        Some(recorded.map(|point| Recorded { outcome: outcome(&point), bulk: Vec::new() }))
    }
}

fn outcome(point: &ZonePoint) -> Outcome {
    let schedule_hash = Some(format!("{:016x}", point.hash));
    Outcome { schedule_hash, ..Outcome::of(point.metrics()) }
}
