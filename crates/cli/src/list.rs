//! `convoy list`: the names that other commands accept, and the keys of preset files.

use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use clap::{Args, ValueEnum};
use convoy_catalogue::{EXPERIMENTS, KERNELS, Key, MACHINES, MIXES, Shelf, WORKLOADS, keys};
use convoy_kernel::KernelPreset;
use convoy_lab::experiment::{Experiment, input_keys};
use convoy_lab::lock_loop::{Library, Policy};
use convoy_machine::Preset;
use convoy_report::{Cell, Column, Table, page_wrap};
use convoy_workload::counting::{Counting, job::run_of};
use convoy_workload::jobs::{Job, JobEnv};
use convoy_workload::units::UNITS;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Size of the file of each disk job for `job-calls`, in KB: AIM7's for 2000 users.
const FILE_KB: u64 = 1029;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// What to list, with a description of each; without it, the names that commands accept
    #[arg(value_enum, value_name = "KIND")]
    kind: Option<Kind>,
    /// Of locks: bytes of their code on this machine
    #[arg(long)]
    sizes: bool,
    #[command(flatten)]
    common: Common,
}

/// Kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Virtual machines, for --machine
    Machines,
    /// Kernels of the virtual machine, for --kernel
    Kernels,
    /// Mixes of jobs, for --mix
    Mixes,
    /// Workloads that are not AIM7, for experiments of target work
    Workloads,
    /// Jobs of AIM7, for --job
    Jobs,
    /// Locks, for `convoy locks` and `convoy check`
    Locks,
    /// Experiments, for `convoy reproduce`
    Experiments,
    /// Every key of a machine preset, with its range
    MachineKeys,
    /// Every key of a kernel preset, with its range
    KernelKeys,
    /// Every key of an experiment, with its range
    ExperimentKeys,
    /// System calls and units of user-mode work of each job
    JobCalls,
    /// Units of user-mode work of the jobs
    Units,
}

/// One line of a list.
struct Entry {
    name: String,
    about: String,
    /// More properties, in the order of [`Kind::properties`].
    properties: Vec<String>,
}

impl Entry {
    fn new(name: &str, about: &str) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), properties: Vec::new() }
    }
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether other commands accept its names.
    fn is_accepted(self) -> bool {
        self.properties().is_empty() && self != Self::Units
    }

    /// Titles of the properties that an entry has in addition to its name and description.
    fn properties(self) -> &'static [&'static str] {
        match self {
            Self::MachineKeys | Self::KernelKeys | Self::ExperimentKeys => &["takes", "presence"],
            Self::JobCalls => &["calls", "units"],
            _ => &[],
        }
    }

    fn entries(self) -> Vec<Entry> {
        match self {
            Self::Machines => shelf(&MACHINES),
            Self::Kernels => shelf(&KERNELS),
            Self::Mixes => shelf(&MIXES),
            Self::Workloads => shelf(&WORKLOADS),
            Self::Experiments => shelf(&EXPERIMENTS),
            Self::Jobs => Job::ALL.iter().map(|job| Entry::new(job.name(), job.about())).collect(),
            Self::Locks => {
                let generic = Policy::ALL.iter().map(|lock| (lock.name(), lock.about()));
                let libraries = Library::ALL.iter().map(|lock| (lock.name(), lock.about()));
                generic.chain(libraries).map(|(name, about)| Entry::new(name, about)).collect()
            }
            Self::MachineKeys => keys::<Preset>().into_iter().map(key).collect(),
            Self::KernelKeys => keys::<KernelPreset>().into_iter().map(key).collect(),
            Self::ExperimentKeys => {
                keys::<Experiment>().into_iter().chain(input_keys()).map(key).collect()
            }
            Self::JobCalls => Job::ALL.iter().map(|job| job_calls(*job)).collect(),
            Self::Units => UNITS.iter().map(|unit| Entry::new(unit.name, unit.about)).collect(),
        }
    }
}

fn shelf(shelf: &Shelf) -> Vec<Entry> {
    shelf.described().map(|(name, about)| Entry::new(name, &about)).collect()
}

fn key(key: Key) -> Entry {
    let optional = !key.required && !key.path.contains("<name>");
    let presence = if optional { "optional" } else { "required" };
    Entry { name: key.path, about: key.meaning, properties: vec![key.takes, presence.to_owned()] }
}

/// Counts the system calls and units of one run of `job`.
fn job_calls(job: Job) -> Entry {
    let properties = match run_of(job, &JobEnv::new("/mix", FILE_KB)) {
        Ok(kernel) => vec![counts(Counting::calls(&kernel)), counts(Counting::units(&kernel))],
        Err(error) => vec![error.to_string(), String::new()],
    };
    Entry { properties, ..Entry::new(job.name(), job.about()) }
}

fn counts(counts: &BTreeMap<&'static str, u64>) -> String {
    let items: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// The mechanisms of a kernel that are older than its name says; empty for everything else.
fn older(kind: Kind, name: &str) -> Vec<&'static str> {
    let kernel = (kind == Kind::Kernels).then(|| KernelPreset::named(name).ok()).flatten();
    kernel.map(|kernel| kernel.older()).unwrap_or_default()
}

/// The code of the locks.
fn sizes(args: &List) -> Result<ExitCode, Failure> {
    let titles = ["text", "data", "bss"];
    let columns =
        titles.iter().map(|title| Column::number(title, "B").key(&format!("{title}_bytes")));
    let columns = [Column::text("name")].into_iter().chain(columns).collect();
    let mut table = Table::new("code of the locks, compiled for threads of this machine", columns);
    let mut values = Vec::new();
    for (lock, size) in convoy_footprint::footprints().map_err(Failure::environment)? {
        let cells = [size.text, size.data, size.bss].map(|bytes| Cell::number(bytes as f64, 0));
        table.row([Cell::text(lock.name())].into_iter().chain(cells).collect());
        values.push(json!({
            "name": lock.name(), "text_bytes": size.text,
            "data_bytes": size.data, "bss_bytes": size.bss,
        }));
    }
    table.note(
        "with generic code that a lock calls, such as the lock inside of it; without the futex \
         calls and messages that all locks share",
    );
    output::print_table(&args.common, &table, values)
}

pub(crate) fn run(args: &List) -> Result<ExitCode, Failure> {
    if args.sizes {
        return match args.kind {
            Some(Kind::Locks) => sizes(args),
            _ => Err(Failure::usage("only locks have sizes: convoy lab list locks --sizes")),
        };
    }
    let accepted = Kind::value_variants().iter().copied().filter(|kind| kind.is_accepted());
    let kinds = args.kind.map_or_else(|| accepted.collect(), |kind| vec![kind]);
    let properties = args.kind.map_or(&[][..], Kind::properties);
    let titles = ["kind", "name"].iter().chain(properties).chain(&["description"]);
    let mut table = Table::new("", titles.map(|title| Column::text(title)).collect());
    let mut plain = Table::new("", ["name", "description"].map(Column::text).to_vec());
    let (mut names, mut paragraphs, mut values) = (String::new(), String::new(), Vec::new());
    for kind in kinds {
        let entries = kind.entries();
        let listed: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        names += &page_wrap(&format!("{}: {}", kind.name(), listed.join(", ")));
        for Entry { name, about, properties } in entries {
            let mut value = json!({ "kind": kind.name(), "name": name, "description": about });
            for (title, property) in kind.properties().iter().zip(&properties) {
                value[title] = property.as_str().into();
            }
            let older = older(kind, &name);
            if !older.is_empty() {
                plain.note(format!("{name} has older mechanisms: {}", older.join("; ")));
                value["older"] = older.into();
            }
            values.push(value);
            plain.row([&name, &about].map(Cell::text).to_vec());
            paragraphs += &page_wrap(&format!("{name}: {}. {about}", properties.join("; ")));
            let cells = [kind.name(), name].into_iter().chain(properties).chain([about]);
            table.row(cells.map(Cell::text).collect());
        }
    }
    output::print(
        &args.common,
        || match args.kind {
            None => names,
            Some(_) if properties.is_empty() => plain.to_text(),
            Some(_) => paragraphs,
        },
        || format!("{:#}\n", Value::Array(values)),
        || table.to_csv(),
    )?;
    Ok(ExitCode::SUCCESS)
}
