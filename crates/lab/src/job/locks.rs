//! A lock loop, on this machine or on a virtual one.

use convoy_catalogue::{KERNELS, MACHINES};
use convoy_kernel::KernelPreset;
use convoy_machine::Preset;
use convoy_sync::Promise;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::outcome::Cell;
use super::sim::kept_to_first;
use super::{JobError, Outcome, Part};
use crate::experiment::Inputs;
use crate::lock_loop::{Loop, Measured, Policy, Vary};
use crate::native;
use crate::virtual_locks::VirtualLocks;

/// A lock, threads, a section, and where.
#[derive(Clone, Debug)]
pub struct LocksJob {
    measured: Loop,
    /// Kernel, machine, and whether it has more CPUs than the single one to which the threads are
    /// pinned.
    virtual_machine: Option<(KernelPreset, Preset, bool)>,
    parts: Vec<Part>,
}

impl LocksJob {
    pub(super) fn new(inputs: &Inputs) -> Result<Self, JobError> {
        let lock = inputs.required("lock")?;
        let lock = Measured::named(&lock).ok_or_else(|| {
            let names = Measured::names().collect::<Vec<_>>().join(", ");
            JobError::input("lock", format!("there is no lock `{lock}`; known: {names}"))
        })?;
        if let (Measured::Library(lock), true) = (lock, inputs.has("machine")) {
            let names = Policy::NAMES.join(", ");
            let name = lock.name();
            let problem =
                format!("`{name}` is a lock of this machine only; known on others: {names}");
            return Err(JobError::input("lock", problem));
        }
        let mut measured = Loop {
            lock,
            cpus: None,
            seed: inputs.seed,
            threads: inputs.whole("threads", 2),
            locks: inputs.whole("locks", 1),
            bound: inputs.truth("bound", false),
            busy: inputs.whole("busy_threads", 0),
            lines: inputs.whole("lines", 1),
            readers_percent: inputs.whole("readers_percent", 0),
            section_ns: inputs.whole("section_ns", 100),
            outside_ns: inputs.whole("outside_ns", 1000),
            section: of_name("section", inputs.text("section", "fixed"))?,
            think: of_name("think", inputs.text("think", "fixed"))?,
            // Only locks that spin for a while and then sleep have such a limit.
            spin_limit: (lock.promises_to(Promise::SpinLimit) && inputs.has("spin_limit"))
                .then(|| inputs.whole("spin_limit", 1)),
            warmup_ms: inputs.whole("warmup_ms", 150),
            from_start: inputs.truth("from_start", false),
            window_ms: inputs.whole("window_ms", 300),
        };
        measured.cpus = inputs.kept_to();
        if let Some((key, problem)) = refused(&measured, inputs) {
            return Err(JobError::input(key, problem));
        }
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

    /// Threads of the loop.
    pub fn threads(&self) -> u32 {
        self.measured.threads
    }

    pub(super) fn native(&self) -> Self {
        Self { virtual_machine: None, parts: Vec::new(), ..self.clone() }
    }
}

impl Cell for LocksJob {
    fn kernel(&self) -> Option<&KernelPreset> {
        self.virtual_machine.as_ref().map(|(kernel, ..)| kernel)
    }

    fn seed(&self) -> u64 {
        self.measured.seed
    }

    fn cpus(&self) -> Option<usize> {
        self.virtual_machine.as_ref().map(|(_, machine, _)| machine.topology.cpus)
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn settings(&self) -> Value {
        let cell = &self.measured;
        let mut settings = json!({
            "lock": cell.lock.name(),
            "threads": cell.threads,
            "section_ns": cell.section_ns,
            "outside_ns": cell.outside_ns,
            "think": cell.think,
            "spin_limit": cell.spin_limit,
            "warmup_ms": cell.warmup_ms,
            "window_ms": cell.window_ms,
            "kept_to": cell.cpus,
            "seed": cell.seed,
        });
        // Cells of before there was a choice keep their hash.
        if cell.locks != 1 {
            settings["locks"] = json!(cell.locks);
        }
        if cell.bound {
            settings["bound"] = json!(true);
        }
        if cell.busy != 0 {
            settings["busy_threads"] = json!(cell.busy);
        }
        if cell.lines != 1 {
            settings["lines"] = json!(cell.lines);
        }
        if cell.readers_percent != 0 {
            settings["readers_percent"] = json!(cell.readers_percent);
        }
        if cell.section != Vary::Fixed {
            settings["section"] = json!(cell.section);
        }
        if cell.from_start {
            settings["from_start"] = json!(true);
        }
        settings
    }

    fn run(&self) -> Result<Outcome, JobError> {
        let Some((kernel, machine, pinned)) = &self.virtual_machine else {
            return Ok(Outcome::of(native::once(&self.measured)?.metrics()));
        };
        let cell = VirtualLocks {
            measured: self.measured.clone(),
            pinned: *pinned,
            kernel: kernel.clone(),
            machine: machine.clone(),
        };
        let point = cell.run()?;
        let outcome = Outcome::of(point.result.metrics());
        Ok(Outcome { schedule_hash: Some(format!("{:016x}", point.hash)), ..outcome })
    }
}

/// Returns the first input that the others do not admit, with the reason.
fn refused(measured: &Loop, inputs: &Inputs) -> Option<(&'static str, String)> {
    let (lock, is_virtual) = (measured.lock, inputs.has("machine"));
    if measured.readers_percent > 0 && !lock.promises_to(Promise::Shared) {
        let problem = format!("`{lock}` has no readers: it is always taken alone");
        return Some(("readers_percent", problem));
    }
    let needs = if lock.promises_to(Promise::Monitored) {
        Some("counts preempted critical sections")
    } else if lock.promises_to(Promise::Extended) {
        Some("grants longer time slices")
    } else {
        None
    };
    if let Some(needs) = needs.filter(|_| !is_virtual) {
        let problem = format!(
            "`{lock}` needs a scheduler that {needs}, so it runs on virtual machines only: name a \
             kernel preset, such as 6.18"
        );
        return Some(("lock", problem));
    }
    if measured.busy > 0 && measured.bound {
        let problem = "threads that are bound to their CPUs share them with no others".to_owned();
        return Some(("busy_threads", problem));
    }
    let busy = ("busy_threads", measured.busy > 0);
    let here = [("locks", measured.locks > 1), ("bound", measured.bound), busy];
    let (key, _) = here.into_iter().find(|(_, asked)| *asked && !is_virtual)?;
    Some((key, "this takes a virtual machine, and the cell names none".to_owned()))
}

/// The value that a file calls `name`.
pub(super) fn of_name<T: DeserializeOwned>(key: &str, name: String) -> Result<T, JobError> {
    serde_json::from_value(Value::String(name)).map_err(|error| JobError::input(key, error))
}
