//! Which simulation is explained: a cell of an experiment, or one of a stored run.
//!
//! A stored run is made of its record alone, content by content; neither its command line nor the
//! files of today have a say.

use super::args::Explain;
use super::choose::{Candidate, choose, place, push};
use super::simulation::Simulation;
use crate::build::build;
use crate::experiment;
use crate::fail::Failure;
use crate::keep::{default_path, is_stored};
use convoy_catalogue::{EXPERIMENTS, Entry, KERNELS, Loaded, MACHINES, Set, Sheet, Shelf, Source};
use convoy_explain::Analysis;
use convoy_lab::experiment::{Changes, Plan, Setting, Target as Kind, given};
use convoy_lab::inputs::Inputs;
use convoy_lab::job::{Cell as _, JobError, Listener, SimJob};
use convoy_lab::record::Record;
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use convoy_report::{ExplainReport, Explained, RcuThreads};
use convoy_store::{Store, StoreError};
use serde::Deserialize;

/// One simulation and its source.
#[derive(Clone)]
pub(super) struct Target {
    name: String,
    run: VirtualRun,
    inputs: Inputs,
    /// RUN and the flags that select this simulation.
    flags: String,
    /// The schedule hash that the stored run had, and the build that ran it.
    before: Option<(String, String)>,
}

impl Simulation for Target {
    type Point = VirtualPoint;

    fn cpus(&self) -> usize {
        self.run.machine.topology.cpus
    }

    fn run(&self, recorder: Listener) -> Result<VirtualPoint, JobError> {
        Ok(self.run.record(recorder)?)
    }

    fn hash(point: &VirtualPoint) -> String {
        format!("{:016x}", point.hash)
    }

    fn report(&self, point: &VirtualPoint, analysis: &Analysis) -> ExplainReport {
        let run = &self.run;
        let mut notes = Vec::new();
        notes.extend(self.difference(&Self::hash(point)));
        if let Some(failure) = &point.first_failure {
            notes.push(format!("a job failed: {failure}"));
        }
        let summary = analysis.summary();
        ExplainReport {
            rcu_threads: RcuThreads::new(&point.rcu, &summary),
            title: format!(
                "{}: {} users of {}, {} on {} ({} CPUs), seed {}: {:.1} jobs/min",
                self.name,
                run.users,
                run.mix.name,
                run.kernel.name,
                run.machine.name,
                run.machine.topology.cpus,
                run.seed,
                point.columns.jobs_per_min
            ),
            replay: format!("convoy explain {}", self.flags),
            explained: Explained::Load {
                inputs: Box::new(self.inputs.clone()),
                users: u64::from(run.users),
                jobs_per_min: point.columns.jobs_per_min,
            },
            hash: Self::hash(point),
            summary,
            bulk: point.bulk.clone(),
            notes,
        }
    }
}

impl Target {
    pub(super) fn new(args: &Explain) -> Result<Self, Failure> {
        if is_stored(&args.run) { Self::stored(args) } else { Self::experiment(args) }
    }

    /// What must be said if the stored run was another one.
    fn difference(&self, hash: &str) -> Option<String> {
        let (before, then) = self.before.as_ref().filter(|(before, _)| before != hash)?;
        Some(format!(
            "this is not what was stored: schedule hash {before} then (build {then}), {hash} now \
             (build {}); check out that build to explain it",
            build()
        ))
    }

    fn of(name: String, job: &SimJob, flags: String, before: Option<(String, String)>) -> Self {
        let source = |kind: &str| {
            let part = job.parts().iter().find(|part| part.kind == kind);
            part.map_or_else(Source::default, |part| part.source.clone())
        };
        let run = job.load_point().clone();
        let inputs = Inputs::of(&run, &source("kernel"), &source("machine"));
        Self { name, run, inputs, flags, before }
    }

    fn stored(args: &Explain) -> Result<Self, Failure> {
        let path = args.store.clone().or_else(default_path).ok_or(StoreError::NoPlace);
        let stored = path.and_then(Store::read)?.find(&args.run)?;
        let record = Record::deserialize(&stored.entry.body).map_err(|_| {
            Failure::usage(format!(
                "run {} is a {} without the content of a simulation; only runs on the virtual \
                 machine (sim, reproduce) repeat and can be explained",
                stored.id, stored.entry.kind
            ))
        })?;
        let mut candidates = Vec::new();
        for (_, cell) in record.simulations() {
            let job = record.simulation(cell).map_err(|error| {
                Failure::environment(format!(
                    "run {} was made by build {}, whose presets this version cannot read: {error}",
                    stored.id, record.build
                ))
            })?;
            let hash = cell.outcome.as_ref().and_then(|outcome| outcome.schedule_hash.clone());
            let (users, seed) = (Some(job.inputs().users), job.inputs().seed);
            let (at, ranges) = (cell.at.clone(), std::collections::BTreeMap::new());
            candidates.push(Candidate { at, ranges, job, users, seed, hash });
        }
        let found = choose(args, &format!("run {}", args.run), candidates)?;
        let kernel = args.kernel.as_ref().filter(|name| {
            found.at.get("kernel").is_none_or(|own| own != *name)
                && found.job.load_point().kernel.name != **name
        });
        let parts = [kernel.is_some(), args.machine.is_some(), args.cpus.is_some()];
        let changed = parts.contains(&true) || !args.sets.is_empty();
        let plain = !changed && args.users.is_none() && args.shrink.is_none();
        let own_seed = args.seed.is_none_or(|seed| seed == found.job.inputs().seed);
        let before = found.hash.clone().filter(|_| plain && own_seed);
        let mut flags = args.run.clone();
        for (axis, label) in &found.at {
            flags.extend([" --at '", axis, "=", label, "'"]);
        }
        push(&mut flags, "kernel", kernel);
        push(&mut flags, "machine", args.machine.as_ref());
        push(&mut flags, "cpus", args.cpus);
        push(&mut flags, "users", args.users);
        push(&mut flags, "shrink", args.shrink);
        let mut job = found.job.at(args.users, args.seed, args.shrink);
        push(&mut flags, "seed", Some(job.inputs().seed));
        flags.push_str(&args.sets.flags());
        if kernel.is_some() || args.sets.iter().any(|set| set.kind == KERNELS.kind) {
            let kernel = changed_part(&job, &KERNELS, kernel, args, None)?;
            job = job.on_kernel(&kernel);
        }
        let sets_machine = args.sets.iter().any(|set| set.kind == MACHINES.kind);
        if args.machine.is_some() || args.cpus.is_some() || sets_machine {
            let name = args.machine.as_ref();
            let machine = changed_part(&job, &MACHINES, name, args, args.cpus)?;
            job = job.on_machine(&machine).map_err(Failure::usage)?;
        }
        let before = before.map(|hash| (hash, record.build.clone()));
        Ok(Self::of(format!("run {}", args.run), &job, flags, before))
    }

    /// A cell of an experiment.
    fn experiment(args: &Explain) -> Result<Self, Failure> {
        let name = &args.run;
        let plan = plan_of(args)?;
        let grid = plan
            .grids
            .iter()
            .find(|grid| grid.grid.target == Kind::Sim)
            .ok_or_else(|| nothing_to_explain(name, &plan))?;
        let candidates = grid.points.iter().filter_map(|point| {
            let (at, ranges) = place(grid, point);
            let job = point.jobs.first()?.sim()?;
            let (users, seed) = (Some(job.inputs().users), job.inputs().seed);
            Some(Candidate { at, ranges, job: job.clone(), users, seed, hash: None })
        });
        let found = choose(args, &format!("experiment {name}"), candidates.collect())?;
        let full = found.job.inputs().users_full;
        let scale = grid.grid.scale.max(grid.grid.scale_at_least);
        let users = args.users.unwrap_or((full / scale).max(1));
        let job = found.job.at(Some(users), None, args.shrink);
        let flags = flags(args, &plan, &found, users);
        Ok(Self::of(plan.name.clone(), &job, flags, None))
    }
}

/// The experiment with one seed of each cell and the changes of the flags.
pub(super) fn plan_of(args: &Explain) -> Result<Plan, Failure> {
    let mut changes = Changes {
        scale: Some(1),
        seeds: Some(1),
        seed: args.seed.unwrap_or(1),
        only: args.only.iter().cloned().collect(),
        ..Changes::default()
    };
    let text = |text: &String| Setting::Text(given(text));
    changes.settings.extend(args.machine.as_ref().map(|name| ("machine".to_owned(), text(name))));
    let count = |count: usize| Setting::Whole(i64::try_from(count).unwrap_or(i64::MAX));
    changes.settings.extend(args.cpus.map(|cpus| ("cpus".to_owned(), count(cpus))));
    if let Some(kernel) = &args.kernel {
        changes.points.insert("kernel".to_owned(), vec![given(kernel)]);
    }
    changes.alone = true;
    for set in args.sets.iter().filter(|set| set.kind != EXPERIMENTS.kind) {
        changes.set(set);
    }
    let sets: Vec<Set> = args.sets.iter().cloned().collect();
    experiment::plan(&args.run, &sets, &changes)
}

/// Says which grids of the experiment can be explained, if one can.
fn nothing_to_explain(name: &str, plan: &Plan) -> Failure {
    let all = plan.experiment.value.grid.iter();
    let kinds = [Kind::Sim, Kind::Work, Kind::Zone];
    let simulated: Vec<String> = all
        .filter(|grid| kinds.contains(&grid.target))
        .map(|grid| format!("--only {}", grid.name))
        .collect();
    let cure = if simulated.is_empty() {
        "only simulations of a kernel can be explained: name another experiment or a stored run"
            .to_owned()
    } else {
        format!("it has some in other grids; say {}", simulated.join(" or "))
    };
    let asked = plan.grids.iter().map(|grid| grid.grid.name.as_str()).collect::<Vec<_>>();
    Failure::usage(format!(
        "experiment {name}, {}: measurements and lock loops have no kernel to explain; {cure}",
        asked.join(", ")
    ))
}

/// What names the run and the point of `found` again: its grid, its labels, its kernel.
pub(super) fn flags_of_point<J>(args: &Explain, found: &Candidate<J>) -> String {
    let mut flags = args.run.clone();
    push(&mut flags, "only", args.only.as_ref());
    for (axis, label) in found.at.iter().filter(|(axis, _)| *axis != "kernel") {
        flags.extend([" --at '", axis, "=", label, "'"]);
    }
    let kernel = args.kernel.as_deref().or_else(|| found.at.get("kernel").map(String::as_str));
    push(&mut flags, "kernel", kernel);
    flags
}

/// The flags that name the cell again.
fn flags(args: &Explain, plan: &Plan, found: &Candidate<SimJob>, users: u32) -> String {
    let run = found.job.load_point();
    let mut flags = flags_of_point(args, found);
    push(&mut flags, "users", Some(users));
    let machine = args.machine.clone().or_else(|| {
        let inputs = &plan.experiment.value.inputs;
        inputs.get("machine").map(ToString::to_string)
    });
    push(&mut flags, "machine", machine);
    push(&mut flags, "seed", Some(run.seed));
    push(&mut flags, "cpus", args.cpus);
    push(&mut flags, "shrink", args.shrink);
    flags + &args.sets.flags()
}

/// A preset of a stored run, or another one, with the changes of the flags.
fn changed_part<T: Entry>(
    job: &SimJob,
    shelf: &'static Shelf,
    name: Option<&String>,
    args: &Explain,
    cpus: Option<usize>,
) -> Result<Loaded<T>, Failure> {
    let sheet = if let Some(name) = name {
        Sheet::open(shelf, name, None)
    } else {
        let part = job.parts().iter().find(|part| part.kind == shelf.kind);
        let label = part.map_or_else(String::new, |part| part.source.label());
        let text = part.and_then(|part| toml::to_string(&part.content).ok());
        Sheet::of_text(shelf, &label, &text.unwrap_or_default())
    };
    let sets: Vec<Set> = args.sets.iter().cloned().chain(cpus.map(Set::cpus)).collect();
    sheet.and_then(|sheet| sheet.read::<T>(&sets)).map_err(Failure::usage)
}
