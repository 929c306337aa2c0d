//! Flags of `convoy runs`, and the store and the runs that they name.

use crate::args::Common;
use crate::fail::Failure;
use crate::keep::{STORE_HELP, default_path};
use clap::{Args, Subcommand};
use convoy_store::{Filter, Store, StoreError};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Runs {
    /// What to do; without it, `list`
    #[command(subcommand)]
    pub(super) what: Option<What>,
    #[command(flatten)]
    pub(super) list: List,
}

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// List the stored runs, newest last
    List(List),
    /// Show a run with its result
    Show(Show),
    /// Add tags to a run, or remove them
    Tag(Tag),
    /// Export the records as JSON (one document) or CSV (one line each)
    Export(List),
    /// Remove runs; those with a tag only with --tagged
    Prune(Prune),
}

#[derive(Clone, Debug, Args)]
pub(super) struct Where {
    /// The store.
    #[arg(long, value_name = "FILE", help = STORE_HELP)]
    pub(super) store: Option<PathBuf>,
}

/// Which runs.
#[derive(Clone, Debug, Args)]
pub(super) struct Which {
    /// Only this kind: run, sim, record, locks, hogs, reproduce, compare, bisect, …
    #[arg(long)]
    pub(super) kind: Option<String>,
    /// Only runs with this tag
    #[arg(long)]
    pub(super) tag: Option<String>,
    /// Only the newest N
    #[arg(long, value_name = "N")]
    pub(super) last: Option<usize>,
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    pub(super) which: Which,
    #[command(flatten)]
    pub(super) place: Where,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// Number or tag of the run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    #[command(flatten)]
    pub(super) place: Where,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Args)]
pub(super) struct Tag {
    /// Number or tag of the run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// The names
    #[arg(value_name = "TAG", required = true)]
    pub(super) tags: Vec<String>,
    /// Remove the tags instead
    #[arg(long)]
    pub(super) remove: bool,
    #[command(flatten)]
    pub(super) place: Where,
}

#[derive(Debug, Args)]
pub(super) struct Prune {
    /// Only these numbers (repeatable)
    #[arg(long, value_name = "RUN")]
    pub(super) id: Vec<i64>,
    /// Only runs that ended more than this many days ago
    #[arg(long, value_name = "DAYS")]
    pub(super) older_than: Option<f64>,
    /// Keep the newest N
    #[arg(long, value_name = "N")]
    pub(super) keep: Option<usize>,
    /// Only this kind: run, reproduce, compare, bisect
    #[arg(long)]
    pub(super) kind: Option<String>,
    /// Runs with a tag, too
    #[arg(long)]
    pub(super) tagged: bool,
    /// Only say what would be removed
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) place: Where,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Where {
    pub(super) fn path(&self) -> Result<PathBuf, Failure> {
        let path = self.store.clone().or_else(default_path);
        path.ok_or_else(|| Failure::from(StoreError::NoPlace))
    }

    pub(super) fn read(&self) -> Result<Store, Failure> {
        Ok(Store::read(self.path()?)?)
    }

    /// To write into a store that is there; a mistyped name makes no new one.
    pub(super) fn write(&self) -> Result<Store, Failure> {
        let store = self.read()?;
        if store.is_writable() {
            return Ok(store);
        }
        let name = store.path().display();
        Err(Failure::environment(format!("{name}: cannot be written; make it writable")))
    }
}

impl Which {
    pub(super) fn filter(&self) -> Filter {
        Filter {
            kind: self.kind.clone(),
            tag: self.tag.clone(),
            newest: self.last,
            ..Filter::default()
        }
    }
}
