//! A workload on the virtual kernel.

use convoy_catalogue::{KERNELS, MACHINES, WORKLOADS};
use convoy_kernel::KernelPreset;
use convoy_machine::Preset;
use convoy_workload::workload::Workload;
use serde_json::{Value, json};

use super::outcome::Cell;
use super::{JobError, Listener, Outcome, Part, Recorded};
use crate::experiment::Inputs;
use crate::virtual_work::{VirtualWork, WorkPoint};

/// A workload, a kernel and a machine.
#[derive(Clone, Debug)]
pub struct WorkJob {
    run: VirtualWork,
    parts: Vec<Part>,
}

impl WorkJob {
    pub(super) fn new(inputs: &Inputs) -> Result<Self, JobError> {
        let workload = inputs.preset::<Workload>(&WORKLOADS)?;
        let kernel = inputs.preset::<KernelPreset>(&KERNELS)?;
        let machine = inputs.preset::<Preset>(&MACHINES)?;
        let parts = vec![
            Part::of("workload", &workload),
            Part::of("kernel", &kernel),
            Part::of("machine", &machine),
        ];
        let (cold, volumes) = (inputs.truth("cold", false), workload.value.file_systems());
        if cold && volumes > 1 {
            let problem = format!(
                "{} works on {volumes} memory file systems; cold is for workloads with one, which \
                 is then on the disk",
                workload.value.name
            );
            return Err(JobError::input("cold", problem));
        }
        let run = VirtualWork {
            workload: workload.value,
            kernel: kernel.value,
            machine: machine.value,
            memory_mib: inputs.whole("memory_mib", 1024),
            spread_percent: inputs.whole("work_spread_percent", 0),
            start_spread_ms: inputs.whole("start_spread_ms", 0),
            cold,
            runs_before: inputs.whole("runs_before", 0),
            seed: inputs.seed,
        };
        Ok(Self { run, parts })
    }
}

impl Cell for WorkJob {
    fn kernel(&self) -> Option<&KernelPreset> {
        Some(&self.run.kernel)
    }

    fn cpus(&self) -> Option<usize> {
        Some(self.run.machine.topology.cpus)
    }

    fn seed(&self) -> u64 {
        self.run.seed
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn settings(&self) -> Value {
        let mut settings = json!({ "memory_mib": self.run.memory_mib, "seed": self.run.seed });
        if self.run.spread_percent > 0 {
            settings["work_spread_percent"] = self.run.spread_percent.into();
        }
        if self.run.start_spread_ms > 0 {
            settings["start_spread_ms"] = self.run.start_spread_ms.into();
        }
        if self.run.cold {
            settings["cold"] = true.into();
        }
        if self.run.runs_before > 0 {
            settings["runs_before"] = self.run.runs_before.into();
        }
        settings
    }

    fn run(&self) -> Result<Outcome, JobError> {
        Ok(outcome(&self.run.run()?))
    }

    fn record(&self, recorder: Listener) -> Option<Result<Recorded, JobError>> {
        let recorded = self.run.record(recorder).map_err(JobError::from);
        Some(recorded.map(|point| Recorded { outcome: outcome(&point), bulk: point.bulk }))
    }
}

fn outcome(point: &WorkPoint) -> Outcome {
    let schedule_hash = Some(format!("{:016x}", point.hash));
    Outcome { schedule_hash, ..Outcome::of(point.metrics()) }
}
