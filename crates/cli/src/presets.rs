//! Presets: the kernels and machines of the virtual machine, with what `--set` changes.

use crate::fail::Failure;
use clap::Args;
use convoy_catalogue::{KERNELS, Loaded, MACHINES, Set};
use convoy_kernel::KernelPreset;
use convoy_machine::Preset;

/// `--set`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sets {
    /// Change a preset: kernel.config.hz=1000, machine.speed=2 (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Virtual machine")]
    set: Vec<Set>,
}

impl Sets {
    /// What `--disk-ms` changes.
    pub(crate) fn disk(ms: Option<f64>) -> Self {
        fn set(ms: f64) -> Set {
            let ns = (ms * 1e6).to_string();
            Set::machine(&["disk", "latency_ns"], ns, format!("--disk-ms {ms}"))
        }
        Self { set: ms.map(set).into_iter().collect() }
    }

    /// These changes, then the changes of `over`.
    pub(crate) fn with(&self, over: &Self) -> Self {
        Self { set: self.set.iter().chain(&over.set).cloned().collect() }
    }

    /// The flags for the same changes, quoted for a shell.
    pub(crate) fn flags(&self) -> String {
        fn flag(set: &Set) -> String {
            let text = set.to_string();
            format!(" --set {}", shell_words::quote(&text))
        }
        self.set.iter().map(flag).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Set> {
        self.set.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The kernel `name`, a preset or a file.
    pub(crate) fn kernel(&self, name: &str) -> Result<Loaded<KernelPreset>, Failure> {
        self.check()?;
        convoy_catalogue::load(name, &self.set).map_err(Failure::usage)
    }

    /// Returns the machine `name`, a preset or a file, with `cpus` CPUs if given. Fails if a key is
    /// wrong, also in `[kernel_ns]`, whose names belong to the kernel and not to the machine.
    pub(crate) fn machine(
        &self,
        name: &str,
        cpus: Option<usize>,
    ) -> Result<Loaded<Preset>, Failure> {
        self.check()?;
        let machine = match cpus {
            Some(cpus) => Preset::load_with_cpus(name, &self.set, cpus),
            None => convoy_catalogue::load::<Preset>(name, &self.set),
        };
        let machine = machine.map_err(Failure::usage)?;
        let wrong = |error| Failure::usage(format!("{name}: {error}"));
        convoy_kernel::costs_ns(&machine).map(|_| machine).map_err(wrong)
    }

    /// A change that nothing would follow is refused.
    fn check(&self) -> Result<(), Failure> {
        let known = [KERNELS.kind, MACHINES.kind];
        match self.set.iter().find(|set| !known.contains(&set.kind)) {
            None => Ok(()),
            Some(set) => Err(Failure::usage(format!(
                "--set {set}: nothing here is made from that; this command takes {}",
                known.map(|kind| format!("{kind}.KEY=VALUE")).join(" and ")
            ))),
        }
    }
}
