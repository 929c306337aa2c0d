//! The experiment that holds the virtual machine against this one: what was measured here, and the
//! simulation of each cell of it.

use serde::{Deserialize, Serialize};

use convoy_kernel::KernelPreset;
use convoy_machine::Preset;
use convoy_stats::Sample;

use crate::lock_loop::{Policy, Think};
use crate::native::{self, NativeExperiment};
use crate::virtual_end::VirtualError;
use crate::virtual_locks::VirtualLocks;
use crate::virtual_run::VirtualRun;
use convoy_host::clock::{CpusError, keeping_to};
use convoy_host::{HostRun, run as run_host};
use convoy_workload::mix::Mix;
use convoy_workload::user::Next;

/// What the `kind` of an experiment file says if the file is one of these.
pub const KIND: &str = "host";

/// Where the users' work directories are made: memory, as on the virtual kernel.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// What was measured with one lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockRow {
    /// The lock.
    pub policy: Policy,
    /// CPUs that the threads were kept to.
    pub cpus: u32,
    /// Length of the section, in nanoseconds.
    pub section_ns: u32,
    /// Threads.
    pub threads: u32,
    /// Sections per second, one value for each round.
    pub per_s: Vec<f64>,
    /// A rule of the kernel was fitted to this row, so it is no prediction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fitted: bool,
}

/// What was measured with one mix of AIM7.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixRow {
    /// The mix.
    pub mix: String,
    /// CPUs that the users were kept to.
    pub cpus: u32,
    /// Users.
    pub users: u32,
    /// Jobs/Min, one value for each round.
    pub jobs_per_min: Vec<f64>,
}

/// An experiment file of this kind. `experiments/host.toml` explains every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostExperiment {
    /// [`KIND`].
    pub kind: String,
    /// Name in titles.
    pub name: String,
    /// Where and when it was measured.
    pub measured: String,
    /// Kernel preset of the simulations.
    pub kernel: String,
    /// Machine preset of the simulations.
    pub machine: String,
    /// Simulations of each cell.
    pub seeds: u32,
    /// A cell whose largest round is this many times its smallest is called bistable.
    pub bistable_factor: f64,
    /// How often everything is measured.
    pub rounds: u32,
    /// CPUs that the threads or users are kept to.
    pub cpus: Vec<u32>,
    /// The locks.
    pub policies: Vec<Policy>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Lengths of the section, in nanoseconds.
    pub section_ns: Vec<u32>,
    /// Work between two sections, in nanoseconds.
    pub outside_ns: u32,
    /// Time before the window, in milliseconds.
    pub warmup_ms: u32,
    /// Length of the window, in milliseconds.
    pub window_ms: u32,
    /// The mixes of AIM7.
    pub mixes: Vec<String>,
    /// Numbers of users.
    pub users: Vec<u32>,
    /// The loop counts of the jobs are divided by this, measured and simulated.
    pub shrink: u32,
    /// What was measured with locks.
    #[serde(default)]
    pub lock: Vec<LockRow>,
    /// What was measured with AIM7.
    #[serde(default)]
    pub aim7: Vec<MixRow>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum HostExperimentError {
    /// The file is not one of this kind, or a value makes no sense.
    #[error("not a {KIND} experiment: {0}")]
    Invalid(String),
    /// A lock cannot be measured.
    #[error(transparent)]
    Native(#[from] native::NativeError),
    /// A mix cannot be measured.
    #[error(transparent)]
    Host(#[from] convoy_host::HostError),
    /// The CPUs cannot be chosen.
    #[error(transparent)]
    Cpus(#[from] CpusError),
}

/// One simulation.
#[derive(Clone, Debug)]
pub enum HostCell {
    /// Of a lock.
    Lock(Box<VirtualLocks>),
    /// Of a mix.
    Mix(Box<VirtualRun>),
}

impl HostCell {
    /// Sections per second, or Jobs/Min.
    ///
    /// # Errors
    /// [`VirtualError`].
    pub fn run(&self) -> Result<f64, VirtualError> {
        match self {
            Self::Lock(cell) => Ok(cell.run()?.acquisitions_per_s),
            Self::Mix(run) => Ok(run.run()?.columns.jobs_per_min),
        }
    }
}

impl HostExperiment {
    /// The shipped one, measured on the host of `machines/host.toml`.
    ///
    /// # Errors
    /// None: the tests parse it.
    pub fn shipped() -> Result<Self, HostExperimentError> {
        Self::parse(include_str!("../../../experiments/host.toml"))
    }

    /// Reads and checks an experiment file.
    ///
    /// # Errors
    /// [`HostExperimentError::Invalid`].
    pub fn parse(text: &str) -> Result<Self, HostExperimentError> {
        let invalid = |what: String| Err(HostExperimentError::Invalid(what));
        let experiment: Self = match toml::from_str(text) {
            Ok(experiment) => experiment,
            Err(error) => return invalid(error.message().to_owned()),
        };
        if experiment.kind != KIND {
            return invalid(format!("kind is {:?}; it must be {KIND:?}", experiment.kind));
        }
        let rounds = experiment.lock.iter().map(|row| &row.per_s);
        let rounds = rounds.chain(experiment.aim7.iter().map(|row| &row.jobs_per_min));
        for values in rounds {
            if !Sample::new(values.clone()).is_ok_and(|sample| sample.min() > 0.0) {
                return invalid("a row without rounds, or one that is not above 0".to_owned());
            }
        }
        if !(1.0..=1e3).contains(&experiment.bistable_factor) || experiment.seeds == 0 {
            return invalid("bistable_factor must be 1 to 1000, seeds at least 1".to_owned());
        }
        let most = experiment.lock.iter().map(|row| row.threads).max().unwrap_or(1);
        if !(1..=16_384).contains(&most) || experiment.shrink == 0 {
            return invalid("threads must be 1 to 16384, shrink at least 1".to_owned());
        }
        Ok(experiment)
    }

    /// The simulations of `row`, one for each of `seeds`. With fewer CPUs than the machine has the
    /// threads are kept to the first.
    pub fn lock_cells(
        &self,
        row: &LockRow,
        kernel: &KernelPreset,
        machine: &Preset,
        seeds: &[u64],
    ) -> Vec<HostCell> {
        let cell = |seed: &u64| {
            HostCell::Lock(Box::new(VirtualLocks {
                policy: row.policy,
                threads: row.threads,
                pinned: (row.cpus as usize) < machine.topology.cpus,
                section_ns: row.section_ns,
                outside_ns: self.outside_ns,
                think: Think::Fixed,
                spin_limit: None,
                warmup_ms: self.warmup_ms,
                window_ms: self.window_ms,
                kernel: kernel.clone(),
                machine: machine.clone(),
                seed: *seed,
            }))
        };
        seeds.iter().map(cell).collect()
    }

    /// The same for a mix.
    pub fn mix_cells(
        &self,
        row: &MixRow,
        mix: &Mix,
        kernel: &KernelPreset,
        machine: &Preset,
        seeds: &[u64],
    ) -> Vec<HostCell> {
        let run = |seed: &u64| {
            HostCell::Mix(Box::new(VirtualRun {
                seed: *seed,
                shrink: self.shrink,
                pinned: (row.cpus as usize) < machine.topology.cpus,
                ..VirtualRun::new(mix.clone(), row.users, kernel.clone(), machine.clone())
            }))
        };
        seeds.iter().map(run).collect()
    }

    /// Measures every cell on this machine, in place of the rows. `progress` hears what comes next.
    ///
    /// # Errors
    /// [`HostExperimentError`].
    pub fn measure(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), HostExperimentError> {
        self.lock.clear();
        self.aim7.clear();
        let host = convoy_host::describe_host();
        self.measured =
            format!("{}, {} CPUs, Linux {}, {}", host.cpu, host.cpus, host.kernel, host.date);
        for round in 1..=u64::from(self.rounds) {
            for cpus in self.cpus.clone() {
                self.measure_locks(round, cpus, progress)?;
                for mix in self.mixes.clone() {
                    progress(&format!("round {round}: {mix}, {cpus} CPUs"));
                    self.measure_mix(round, cpus, &mix)?;
                }
            }
        }
        Ok(())
    }

    fn measure_locks(
        &mut self,
        round: u64,
        cpus: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), HostExperimentError> {
        if self.policies.is_empty() {
            return Ok(());
        }
        let experiment = NativeExperiment {
            kind: native::KIND.to_owned(),
            name: self.name.clone(),
            policies: self.policies.clone(),
            cpus: Some(cpus),
            threads: self.threads.clone(),
            section_ns: self.section_ns.clone(),
            outside_ns: self.outside_ns,
            think: Think::Fixed,
            spin_limit: None,
            warmup_ms: self.warmup_ms,
            window_ms: self.window_ms,
            rounds: 1,
            seed: round,
        };
        let record = native::run(&experiment, &mut |_, what| {
            progress(&format!("round {round}: {what}, {cpus} CPUs"));
            Next::Continue
        })?;
        for cell in record.cells {
            let value = cell.acquisitions_per_s.median.round();
            let (policy, section_ns, threads) = (cell.policy, cell.section_ns, cell.threads);
            let same = |row: &&mut LockRow| {
                (row.policy, row.cpus, row.section_ns, row.threads)
                    == (policy, cpus, section_ns, threads)
            };
            if let Some(row) = self.lock.iter_mut().find(same) {
                row.per_s.push(value);
            } else {
                let per_s = vec![value];
                self.lock.push(LockRow { policy, cpus, section_ns, threads, per_s, fitted: false });
            }
        }
        Ok(())
    }

    fn measure_mix(
        &mut self,
        round: u64,
        cpus: u32,
        name: &str,
    ) -> Result<(), HostExperimentError> {
        let mix =
            Mix::load(name).map_err(|error| HostExperimentError::Invalid(error.to_string()))?;
        let memory = std::path::Path::new(MEMORY_DIRECTORY);
        let options = HostRun {
            seed: round,
            shrink: self.shrink,
            predict: false,
            directories: if memory.is_dir() { vec![memory.to_owned()] } else { Vec::new() },
            ..HostRun::new(mix, self.users.clone())
        };
        let record = keeping_to(cpus, || run_host::run(&options, |_| ()).into_result())??;
        for point in record.points {
            let value = (point.jobs_per_min * 10.0).round() / 10.0;
            let same = |row: &&mut MixRow| {
                (row.mix.as_str(), row.cpus, row.users) == (name, cpus, point.users)
            };
            if let Some(row) = self.aim7.iter_mut().find(same) {
                row.jobs_per_min.push(value);
            } else {
                let (mix, users) = (name.to_owned(), point.users);
                self.aim7.push(MixRow { mix, cpus, users, jobs_per_min: vec![value] });
            }
        }
        Ok(())
    }

    /// The file.
    ///
    /// # Errors
    /// None: every experiment can be written.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let body = toml::to_string(self)?;
        Ok(format!(
            "# The virtual machine against a real one, which measured itself: `convoy reproduce` \
             with this file.\n# Written by `convoy reproduce --measure`; experiments/host.toml \
             explains the fields.\n{body}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> HostExperiment {
        let mut experiment = HostExperiment::shipped().unwrap();
        experiment.rounds = 2;
        experiment.cpus = vec![1];
        experiment.policies = vec![Policy::Mutex];
        experiment.threads = vec![2];
        experiment.section_ns = vec![100];
        (experiment.warmup_ms, experiment.window_ms) = (1, 10);
        experiment.mixes = Vec::new();
        experiment
    }

    #[test]
    fn the_shipped_file_has_every_cell_that_it_names() {
        let experiment = HostExperiment::shipped().unwrap();
        assert!(!experiment.lock.is_empty() && !experiment.aim7.is_empty());
        let mixes = experiment.mixes.len() * experiment.cpus.len() * experiment.users.len();
        assert_eq!(experiment.aim7.len(), mixes);
        KernelPreset::named(&experiment.kernel).unwrap();
        Preset::named(&experiment.machine).unwrap();
    }

    #[test]
    fn what_is_measured_can_be_read_back() {
        let mut experiment = small();
        experiment.measure(&mut |_| ()).unwrap();
        assert_eq!(experiment.lock.len(), 1);
        assert_eq!(experiment.lock[0].per_s.len(), 2, "one value for each round");
        let back = HostExperiment::parse(&experiment.to_toml().unwrap()).unwrap();
        assert_eq!(back, experiment);
    }

    #[test]
    fn a_row_without_rounds_is_refused() {
        let mut experiment = small();
        experiment.lock[0].per_s.clear();
        let text = experiment.to_toml().unwrap();
        let error = HostExperiment::parse(&text).unwrap_err().to_string();
        assert!(error.contains("without rounds"), "{error}");
    }
}
