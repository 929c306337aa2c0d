//! `convoy runs`: the stored records.

mod args;
mod prune;
mod show;
mod table;

use crate::args::Format;
use crate::fail::Failure;
use crate::keep::warn;
use crate::output;
use args::{List, Tag, What};
use convoy_store::{Store, StoreError, Stored};
use std::process::ExitCode;
use table::table;

pub(crate) use args::Runs;

pub(crate) fn run(args: &Runs) -> Result<ExitCode, Failure> {
    match &args.what {
        None => list(&args.list)?,
        Some(What::List(args)) => list(args)?,
        Some(What::Export(args)) => export(args)?,
        Some(What::Show(args)) => show::run(args)?,
        Some(What::Tag(args)) => tag(args)?,
        Some(What::Prune(args)) => prune::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn found(args: &List) -> Result<Vec<Stored>, Failure> {
    match Store::read(args.place.path()?) {
        // Nothing has been stored yet: that is an empty list, not an error.
        Err(StoreError::Missing { .. }) => Ok(Vec::new()),
        store => {
            let (runs, damaged) = store?.list(&args.which.filter())?;
            for error in &damaged {
                warn(&error.to_string());
            }
            Ok(runs)
        }
    }
}

fn list(args: &List) -> Result<(), Failure> {
    let runs = found(args)?;
    let table = table(&runs, args.common.format == Format::Table);
    output::print(
        &args.common,
        || match runs.len() {
            0 => "no stored runs\n".to_owned(),
            1 => format!("1 stored run\n\n{}", table.to_text_of_names()),
            count => format!("{count} stored runs, newest last\n\n{}", table.to_text_of_names()),
        },
        || format!("{:#}\n", table.to_json()),
        || table.to_csv(),
    )
}

fn export(args: &List) -> Result<(), Failure> {
    let runs = found(args)?;
    let text = match args.common.format {
        Format::Csv => table(&runs, false).to_csv(),
        Format::Table | Format::Markdown | Format::Json => {
            serde_json::to_string_pretty(&runs).map_err(Failure::environment)?
        }
    };
    output::result(&args.common, &text)
}

fn tag(args: &Tag) -> Result<(), Failure> {
    let mut store = args.place.write()?;
    let id = store.find(&args.run)?.id;
    for tag in &args.tags {
        store.tag(id, tag, !args.remove)?;
    }
    Ok(())
}
