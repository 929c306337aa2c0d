//! `convoy explain`: where a run on the virtual machine spent its time, and why.
//!
//! A simulation repeats to the byte, so nothing is kept for this: the run is executed again with a
//! recorder, which costs no virtual time.

mod args;
mod cell;
mod choose;
mod files;
mod find;
mod recorded;
mod simulation;
mod target;

use crate::fail::Failure;
use convoy_report::Page;
use find::known;
use simulation::{explain, page_of};
use std::process::ExitCode;
use target::Target;

pub(crate) use args::Explain;
pub(crate) use find::{find, numbered, parser};

pub(crate) fn run(args: &Explain) -> Result<ExitCode, Failure> {
    args.ready()?;
    if let Some(mut record) = find(&args.run, args.store.as_deref())? {
        if let Some(directory) = &args.symbols {
            find::name(&mut record, directory)?;
        }
        return recorded::explain(args, &record);
    }
    known(&args.run)?;
    args.fits_simulations()?;
    match cell::Cell::find(args)? {
        Some(cell) => explain(args, &cell),
        None => explain(args, &Target::new(args)?),
    }
}

/// The page of a simulated run.
pub(crate) fn page(args: &Explain) -> Result<Page, Failure> {
    known(&args.run)?;
    match cell::Cell::find(args)? {
        Some(cell) => page_of(args, &cell),
        None => page_of(args, &Target::new(args)?),
    }
}
