//! AIM7 on the virtual kernel.

use convoy_catalogue::{Entry as _, KERNELS, Loaded, MACHINES};
use convoy_kernel::sched::IdleCause;
use convoy_kernel::{BufferLocks, DiskRules, KernelPreset, StandardInput};
use convoy_machine::Preset;
use convoy_stats::Sample;
use convoy_workload::mix::Mix;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::outcome::Cell;
use super::{Disks, JobError, Outcome, Part};
use crate::experiment::Inputs;
use crate::virtual_run::{VirtualPoint, VirtualRun};

/// Inputs that determine a load point, except for its presets and its mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimInputs {
    /// Users as they are run.
    pub users: u32,
    /// Users at full size.
    pub users_full: u32,
    /// Divisor of the users and the start delay.
    pub scale: u32,
    /// The seed.
    pub seed: u64,
    /// The start delay as it is run, nanoseconds.
    pub start_delay_ns: u64,
    /// Users that share the pool of files.
    pub pool_users: u32,
    /// Divisor of the loop counts of jobs.
    pub shrink: u32,
    /// Whether `shell_rtns_2` sleeps as re-aim's does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell_sleep: bool,
    /// The file system of the work directory: `tmpfs` or `journal`.
    pub fs: String,
    /// How many there are, and how large.
    #[serde(default, skip_serializing_if = "Disks::is_default")]
    pub disks: Disks,
    /// Nanoseconds from the release to the first count of active tasks, if not as the boot has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_counted_ns: Option<u64>,
    /// The run ends when all users together have finished this many jobs, by default at the end of
    /// the last user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_together: Option<u64>,
    /// CPUs that all tasks are kept to, if not all.
    pub kept_to: Option<u32>,
    /// Whether a person switches the console every second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub console: bool,
    /// Whether the standard input of the users is a pipe, and no terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub piped_input: bool,
}

/// A load point of a kernel on a machine.
#[derive(Clone, Debug)]
pub struct SimJob {
    run: VirtualRun,
    inputs: SimInputs,
    parts: Vec<Part>,
}

impl SimJob {
    pub(super) fn new(inputs: &Inputs) -> Result<Self, JobError> {
        let kernel = inputs.preset::<KernelPreset>(&KERNELS)?;
        let machine = inputs.preset::<Preset>(&MACHINES)?;
        let (mix, text) = inputs.mix()?;
        let full = inputs.whole("users", 1);
        let scale = inputs.scale;
        if scale > full {
            let problem = format!("a scale of {scale} leaves no user of {full}; give 1 to {full}");
            return Err(JobError::input("users", problem));
        }
        let own = SimInputs {
            users: full / scale,
            users_full: full,
            scale,
            seed: inputs.seed,
            start_delay_ns: (inputs.number("start_delay_s", 0.0) * 1e9 / f64::from(scale)) as u64,
            pool_users: inputs.whole("pool_users", full),
            shrink: inputs.whole("shrink", 1),
            shell_sleep: inputs.truth("shell_sleep", false),
            fs: inputs.text("fs", "tmpfs"),
            disks: Disks::of(inputs),
            load_counted_ns: inputs
                .has("load_counted_s")
                .then(|| (inputs.number("load_counted_s", 0.0) * 1e9) as u64),
            jobs_together: inputs
                .has("jobs_together")
                .then(|| u64::from(inputs.whole("jobs_together", 1))),
            kept_to: inputs.kept_to(),
            console: inputs.truth("console", false),
            piped_input: inputs.truth("piped_input", false),
        };
        let parts = vec![Part::of("kernel", &kernel), Part::of("machine", &machine), text];
        Self::build(own, kernel.value, machine.value, mix, parts)
    }

    /// Returns the load point of these presets, with a mix that is not a file.
    ///
    /// # Errors
    /// [`JobError::Input`].
    pub fn of(
        inputs: SimInputs,
        kernel: &Loaded<KernelPreset>,
        machine: &Loaded<Preset>,
        mix: &Mix,
    ) -> Result<Self, JobError> {
        let parts = vec![Part::of("kernel", kernel), Part::of("machine", machine), Part::mix(mix)];
        Self::build(inputs, kernel.value.clone(), machine.value.clone(), mix.clone(), parts)
    }

    /// The load point that a record holds.
    ///
    /// # Errors
    /// [`JobError`]: the record is of a version with presets that this version does not read.
    pub fn of_record(inputs: &Value, parts: Vec<Part>) -> Result<Self, JobError> {
        let part = |kind: &str| {
            let found = parts.iter().find(|part| part.kind == kind);
            found.ok_or_else(|| JobError::input(kind, "is not in the record"))
        };
        let own =
            SimInputs::deserialize(inputs).map_err(|error| JobError::input("inputs", error))?;
        let (kernel, machine, mix) = (part("kernel")?, part("machine")?, part("mix")?);
        let mut preset = KernelPreset::parse(kernel.content.clone())
            .map_err(|error| JobError::input("kernel", error))?;
        preset.set_name(kernel.source.label());
        let mut hardware = Preset::parse(machine.content.clone())
            .map_err(|error| JobError::input("machine", error))?;
        hardware.set_name(machine.source.label());
        let content = Mix::deserialize(&mix.content);
        let content = content.map_err(|error| JobError::input("mix", error))?;
        Self::build(own, preset, hardware, Mix { name: mix.source.label(), ..content }, parts)
    }

    fn build(
        inputs: SimInputs,
        kernel: KernelPreset,
        machine: Preset,
        mix: Mix,
        parts: Vec<Part>,
    ) -> Result<Self, JobError> {
        convoy_kernel::costs_ns(&machine).map_err(|error| JobError::input("machine", error))?;
        let vfs = &kernel.vfs;
        let has_cache = vfs.disk == DiskRules::Ext4 && vfs.buffers == BufferLocks::EachTime;
        if inputs.disks.labels && !(has_cache && inputs.fs == "journal") {
            let problem = "are those of ext4 up to 3.14: give fs \"journal\" and kernel 3.7, 3.8, \
                           3.10 or one of theirs";
            return Err(JobError::input("labels", problem));
        }
        let run = VirtualRun {
            seed: inputs.seed,
            start_delay_ns: inputs.start_delay_ns,
            pool_users: inputs.pool_users,
            shrink: inputs.shrink,
            shell_sleep: inputs.shell_sleep,
            file_system: inputs.disks.file_system(&inputs.fs)?,
            directories: inputs.disks.directories as usize,
            fs_mib: inputs.disks.fs_mib,
            load_counted_ns: inputs.load_counted_ns,
            jobs_together: inputs.jobs_together,
            pinned: kept_to_first(inputs.kept_to, machine.topology.cpus)?,
            console: inputs.console,
            input: if inputs.piped_input { StandardInput::Pipe } else { StandardInput::Terminal },
            ..VirtualRun::new(mix, inputs.users, kernel, machine)
        };
        Ok(Self { run, inputs, parts })
    }

    /// The load point.
    pub fn load_point(&self) -> &VirtualRun {
        &self.run
    }

    /// Returns the inputs that determine it, except for its presets and its mix.
    pub fn inputs(&self) -> &SimInputs {
        &self.inputs
    }

    /// How many jobs of all of the mix each user does, if not all.
    pub fn first_jobs(&self) -> Option<(u32, u32)> {
        let mix = &self.run.mix;
        mix.first?;
        let all = Mix { first: None, ..mix.clone() }.jobs_per_user();
        Some((mix.jobs_per_user(), all)).filter(|(first, all)| first < all)
    }

    /// The same with other users, another seed, other loop counts. The start delay per user stays
    /// the same as at full size.
    #[must_use]
    pub fn at(&self, users: Option<u32>, seed: Option<u64>, shrink: Option<u32>) -> Self {
        let mut job = self.clone();
        if let Some(users) = users.filter(|users| *users != job.inputs.users) {
            let delay = job.inputs.start_delay_ns as f64 * f64::from(users);
            job.inputs.start_delay_ns = (delay / f64::from(job.inputs.users)) as u64;
            job.inputs.users = users;
        }
        job.inputs.seed = seed.unwrap_or(job.inputs.seed);
        job.inputs.shrink = shrink.unwrap_or(job.inputs.shrink);
        let SimInputs { users, seed, start_delay_ns, shrink, .. } = job.inputs;
        job.run = VirtualRun { users, seed, start_delay_ns, shrink, ..job.run };
        job
    }

    /// The same on another kernel.
    #[must_use]
    pub fn on_kernel(mut self, kernel: &Loaded<KernelPreset>) -> Self {
        self.parts.retain(|part| part.kind != "kernel");
        self.parts.push(Part::of("kernel", kernel));
        self.run.kernel = kernel.value.clone();
        self
    }

    /// The same on another machine.
    ///
    /// # Errors
    /// [`JobError::Input`]: the machine makes no sense.
    pub fn on_machine(mut self, machine: &Loaded<Preset>) -> Result<Self, JobError> {
        convoy_kernel::costs_ns(machine).map_err(|error| JobError::input("machine", error))?;
        self.parts.retain(|part| part.kind != "machine");
        self.parts.push(Part::of("machine", machine));
        self.run.pinned = kept_to_first(self.inputs.kept_to, machine.topology.cpus)?;
        self.run.machine = machine.value.clone();
        Ok(self)
    }

    /// Executes it; with what happened in each interval of `sample_ns` nanoseconds, if not 0.
    ///
    /// # Errors
    /// [`JobError::Virtual`].
    pub fn sampled(&self, sample_ns: u64) -> Result<VirtualPoint, JobError> {
        Ok(VirtualRun { sample_ns, ..self.run.clone() }.run()?)
    }

    /// Numbers of a point at the full size: Real and CPU are multiplied by the scale.
    pub fn outcome(&self, point: &VirtualPoint) -> Outcome {
        let scale = f64::from(self.inputs.scale);
        let bkl = |value: fn(&crate::virtual_run::BklUse) -> f64| {
            point.bkl.as_ref().map_or(f64::NAN, value)
        };
        let rate = |count: u64| count as f64 / point.busy_s;
        let rules = &point.idle_rules;
        let idle = IdleCause::ALL.map(|cause| (cause.key(), rules.percent(cause)));
        let numbers = [
            ("jobs_per_min", point.columns.jobs_per_min),
            ("jti", f64::from(point.columns.jti)),
            ("real_s", point.columns.real_s * scale),
            ("cpu_s", point.cpu_s * scale),
            ("jobs_per_sec_per_task", point.columns.jobs_per_sec_per_task / scale),
            ("cpu_ms_per_job", 1e3 * point.cpu_s / point.jobs_done as f64),
            ("idle_percent", point.idle_percent),
            ("context_switches_per_s", point.context_switches_per_s),
            ("owner_not_running_percent", bkl(|bkl| bkl.owner_not_running_percent)),
            ("owner_change_ms", bkl(|bkl| bkl.owner_change_ms)),
            ("pulled_newidle_per_s", rate(point.sched.pulled_newidle)),
            ("newidle_failed_per_s", rate(point.sched.newidle_failed)),
            ("jobs_failed", point.jobs_failed as f64),
            ("idle_beside_percent", rules.total()),
            ("idle_usable_percent", point.idle_usable_percent),
            ("spin_percent", point.spin_percent),
            ("spin_beside_percent", point.spin_beside_percent),
        ];
        let console = Sample::new(point.console_ms.clone()).ok();
        let console = console.iter().flat_map(|latency| {
            [
                ("console_p50_ms", latency.percentile(50.0)),
                ("console_p99_ms", latency.percentile(99.0)),
                ("console_max_ms", latency.percentile(100.0)),
            ]
        });
        let outcome = Outcome::of(numbers.into_iter().chain(idle).chain(console));
        Outcome {
            schedule_hash: Some(format!("{:016x}", point.hash)),
            failure: point.first_failure.clone(),
            ..outcome
        }
    }
}

impl Cell for SimJob {
    fn run(&self) -> Result<Outcome, JobError> {
        Ok(self.outcome(&self.run.run()?))
    }

    fn seed(&self) -> u64 {
        self.inputs.seed
    }

    fn settings(&self) -> Value {
        json!(self.inputs)
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn cpus(&self) -> Option<usize> {
        Some(self.run.machine.topology.cpus)
    }

    fn kernel(&self) -> Option<&KernelPreset> {
        Some(&self.run.kernel)
    }
}

/// Whether all tasks of a machine of `cpus` CPUs are kept to the first.
///
/// # Errors
/// [`JobError::Input`]: they can be kept to one, or to none in particular.
pub(super) fn kept_to_first(kept: Option<u32>, cpus: usize) -> Result<bool, JobError> {
    match kept {
        None => Ok(false),
        Some(kept) if kept as usize >= cpus => Ok(false),
        Some(1) => Ok(true),
        Some(kept) => {
            let problem = format!("{kept} of {cpus} CPUs; a virtual machine keeps to 1 or to all");
            Err(JobError::input("kept_to", problem))
        }
    }
}
