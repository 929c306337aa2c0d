//! Which run is explained: a case of an experiment, or what a stored command ran.

use super::Explain;
use crate::args::{Args, Command, Reproduce};
use crate::compare::store_failure;
use crate::fail::Failure;
use crate::keep::default_path;
use crate::reproduce;
use crate::sim::{self, SimArgs};
use clap::Parser;
use convoy_lab::experiment::Experiment;
use convoy_lab::inputs::Inputs;
use convoy_lab::virtual_run::VirtualRun;
use convoy_store::{Store, StoreError};
use convoy_workload::mix::Mix;
use convoy_workload::users;

/// One simulation and where it comes from.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) run: VirtualRun,
    pub(super) inputs: Inputs,
    /// RUN and the flags that give the same simulation.
    flags: String,
}

impl Target {
    pub(super) fn new(args: &Explain) -> Result<Self, Failure> {
        let name = &args.run;
        let stored = name.starts_with('@') || name.chars().all(|c| c.is_ascii_digit());
        if stored { Self::stored(args) } else { Self::experiment(args, name, None) }
    }

    /// The arguments of the command that explains the same simulation.
    pub(super) fn replay(&self) -> String {
        format!("explain {}", self.flags)
    }

    fn stored(args: &Explain) -> Result<Self, Failure> {
        let path = args.store.clone().or_else(default_path).ok_or(StoreError::NoPlace);
        let store = path.and_then(Store::read).map_err(store_failure)?;
        let run = store.find(&args.run).map_err(store_failure)?;
        let words = std::iter::once("convoy".to_owned()).chain(run.entry.command.iter().cloned());
        let parsed = Args::try_parse_from(words).map_err(|_| {
            let command = run.entry.command.join(" ");
            Failure::usage(format!(
                "run {} was made by `convoy {command}`, which this version cannot read; name an \
                 experiment instead",
                run.id
            ))
        })?;
        match parsed.command {
            Command::Sim(stored) => Self::load(args, &stored),
            Command::Reproduce(stored) => {
                Self::experiment(args, &stored.experiment.clone(), Some(&stored))
            }
            Command::Explain(stored) => {
                Err(Failure::usage(format!("explain {} itself", stored.run)))
            }
            _ => Err(Failure::usage(format!(
                "run {} is a {} on this machine; only runs on the virtual machine (sim, reproduce) \
                 repeat and can be explained",
                run.id, run.entry.kind
            ))),
        }
    }

    /// A case of an experiment, at the size of `stored` if that is what is explained.
    fn experiment(args: &Explain, name: &str, stored: Option<&Reproduce>) -> Result<Self, Failure> {
        let experiment = reproduce::load(name)?;
        let sets = stored.map_or_else(|| args.sets.clone(), |stored| stored.sets.with(&args.sets));
        let kernel = Self::kernel(args, &experiment, stored)?;
        let stored_machine = stored.and_then(|stored| stored.machine.as_ref());
        let machine =
            args.machine.as_ref().or(stored_machine).unwrap_or(&experiment.machine).clone();
        let scale = match stored {
            Some(stored) if stored.full => 1,
            Some(stored) => stored.scale.unwrap_or(experiment.scale),
            None => experiment.scale,
        };
        let users = args.users.unwrap_or((experiment.tasks / scale).max(1));
        let seed = args.seed.or(stored.map(|stored| stored.seed)).unwrap_or(1);
        // As `reproduce` scales it: the delay goes with the tasks.
        let delay = experiment.start_delay_s * 1e9 * f64::from(users) / f64::from(experiment.tasks);
        let mix = Mix::load(&experiment.mix).map_err(Failure::usage)?;
        let mut flags = format!("{name} --kernel {kernel} --users {users}");
        push(&mut flags, "machine", Some(&machine));
        let kernel = sets.kernel(&kernel)?;
        let machine = sets.machine(&machine, args.cpus)?;
        let run = VirtualRun {
            seed,
            start_delay_ns: delay as u64,
            pool_users: experiment.tasks,
            shrink: args.shrink.unwrap_or(1),
            ..VirtualRun::new(mix, users, kernel.value.clone(), machine.value.clone())
        };
        push(&mut flags, "seed", Some(seed));
        push(&mut flags, "cpus", args.cpus);
        push(&mut flags, "shrink", args.shrink);
        flags.push_str(&sets.flags());
        let inputs = Inputs::of(&run, &kernel.source, &machine.source);
        Ok(Self { name: experiment.name, run, inputs, flags })
    }

    /// The kernel that is meant.
    fn kernel(
        args: &Explain,
        experiment: &Experiment,
        stored: Option<&Reproduce>,
    ) -> Result<String, Failure> {
        let cases: Vec<&str> = experiment.case.iter().map(|case| case.kernel.as_str()).collect();
        let ran = stored.map_or(&[][..], |stored| &stored.kernel);
        match (&args.kernel, ran, &cases[..]) {
            (Some(name), _, _) | (None, [name], _) => Ok(name.clone()),
            (None, _, [name]) => Ok((*name).to_owned()),
            _ => Err(Failure::usage(format!(
                "experiment {} has several kernels; name one with --kernel: {}",
                experiment.name,
                cases.join(", ")
            ))),
        }
    }

    /// A load point of `convoy sim`.
    fn load(args: &Explain, stored: &SimArgs) -> Result<Self, Failure> {
        let kernel = args.kernel.as_ref().unwrap_or(&stored.place.kernel);
        let sets = stored.place.sets().with(&args.sets);
        let kernel = sets.kernel(kernel)?;
        let list = users::parse(stored.points.users.as_deref().unwrap_or("1,2,10"))
            .map_err(Failure::usage)?;
        let ((Some(users), _) | (None, &[users])) = (args.users, &list[..]) else {
            let known: Vec<String> = list.iter().map(u32::to_string).collect();
            return Err(Failure::usage(format!(
                "run {} has several load points; name one with --users: {}",
                args.run,
                known.join(", ")
            )));
        };
        let machine = args.machine.as_ref().unwrap_or(&stored.place.machine);
        let machine = sets.machine(machine, args.cpus.or(stored.place.cpus))?;
        let run = VirtualRun {
            seed: args.seed.or(stored.load.seed).unwrap_or(1),
            start_delay_ns: (stored.load.start_delay * 1e9) as u64,
            shrink: args.shrink.unwrap_or(stored.load.shrink),
            file_system: stored.place.file_system(),
            ..VirtualRun::new(sim::mix(stored)?, users, kernel.value.clone(), machine.value.clone())
        };
        let mut flags = format!("{} --users {users}", args.run);
        push(&mut flags, "kernel", args.kernel.as_ref());
        push(&mut flags, "machine", args.machine.as_ref());
        push(&mut flags, "cpus", args.cpus);
        push(&mut flags, "seed", args.seed);
        push(&mut flags, "shrink", args.shrink);
        flags.push_str(&args.sets.flags());
        let inputs = Inputs::of(&run, &kernel.source, &machine.source);
        Ok(Self { name: format!("run {}", args.run), run, inputs, flags })
    }
}

fn push(flags: &mut String, name: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        flags.extend([" --", name, " ", &value.to_string()]);
    }
}
