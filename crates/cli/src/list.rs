//! `convoy list`: the names that other commands accept.

use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use clap::{Args, ValueEnum};
use convoy_catalogue::{EXPERIMENTS, KERNELS, MACHINES, MIXES, Shelf, WORKLOADS};
use convoy_kernel::KernelPreset;
use convoy_lab::lock_loop::{Library, Policy};
use convoy_report::{Cell, Column, Table, page_wrap};
use convoy_workload::jobs::Job;
use serde_json::{Value, json};
use std::process::ExitCode;

/// `convoy list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// What to list, with a description of each; without it, all names
    #[arg(value_enum, value_name = "KIND")]
    kind: Option<Kind>,
    /// Flags of every command.
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
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Names with one line each.
    fn entries(self) -> Vec<(&'static str, String)> {
        let shelf = |shelf: &Shelf| shelf.described().collect();
        match self {
            Self::Machines => shelf(&MACHINES),
            Self::Kernels => shelf(&KERNELS),
            Self::Mixes => shelf(&MIXES),
            Self::Workloads => shelf(&WORKLOADS),
            Self::Experiments => shelf(&EXPERIMENTS),
            Self::Jobs => Job::ALL.iter().map(|job| (job.name(), job.about().to_owned())).collect(),
            Self::Locks => {
                let generic = Policy::ALL.iter().map(|lock| (lock.name(), lock.about()));
                let libraries = Library::ALL.iter().map(|lock| (lock.name(), lock.about()));
                generic.chain(libraries).map(|(name, about)| (name, about.to_owned())).collect()
            }
        }
    }
}

/// The mechanisms of a kernel that are older than its name says; empty for everything else.
fn older(kind: Kind, name: &str) -> Vec<&'static str> {
    let kernel = (kind == Kind::Kernels).then(|| KernelPreset::named(name).ok()).flatten();
    kernel.map(|kernel| kernel.older()).unwrap_or_default()
}

/// The command.
pub(crate) fn run(args: &List) -> Result<ExitCode, Failure> {
    let kinds = args.kind.map_or_else(|| Kind::value_variants().to_vec(), |kind| vec![kind]);
    let mut table = Table::new("", ["kind", "name", "description"].map(Column::text).to_vec());
    let mut plain = Table::new("", ["name", "description"].map(Column::text).to_vec());
    let (mut brief, mut entries) = (String::new(), Vec::<Value>::new());
    for kind in kinds {
        let listed = kind.entries();
        let names: Vec<&str> = listed.iter().map(|(name, _)| *name).collect();
        brief += &page_wrap(&format!("{}: {}", kind.name(), names.join(", ")));
        for (name, about) in &listed {
            let mut entry = json!({ "kind": kind.name(), "name": name, "description": about });
            let older = older(kind, name);
            if !older.is_empty() {
                plain.note(format!("{name} has older mechanisms: {}", older.join("; ")));
                entry["older"] = older.into();
            }
            entries.push(entry);
            table.row([&kind.name(), *name, about].map(Cell::text).to_vec());
            plain.row([*name, about].map(Cell::text).to_vec());
        }
    }
    output::print(
        &args.common,
        || if args.kind.is_some() { plain.to_text() } else { brief },
        || format!("{:#}\n", Value::Array(entries)),
        || table.to_csv(),
    )?;
    Ok(ExitCode::SUCCESS)
}
