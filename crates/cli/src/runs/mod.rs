//! `convoy runs`: the stored records.

mod prune;
mod show;

use crate::args::{Common, Format};
use crate::fail::Failure;
use crate::keep::{STORE_HELP, default_path, warn};
use crate::output;
use clap::{Args, Subcommand};
use convoy_report::{Cell, Column, Table};
use convoy_store::{Filter, Store, StoreError, Stored};
use std::path::PathBuf;
use std::process::ExitCode;

/// `convoy runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Runs {
    /// What to do; without it, `list`
    #[command(subcommand)]
    what: Option<What>,
    /// Which records.
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The stored runs, newest last
    List(List),
    /// One run with its result
    Show(Show),
    /// Give a run names, or take them away
    Tag(Tag),
    /// The records themselves, as JSON (one document) or CSV (one line each)
    Export(List),
    /// Remove runs; those with a tag only with --tagged
    Prune(prune::Prune),
}

/// The store.
#[derive(Clone, Debug, Args)]
struct Where {
    /// The store.
    #[arg(long, value_name = "FILE", help = STORE_HELP)]
    store: Option<PathBuf>,
}

/// Which runs.
#[derive(Clone, Debug, Args)]
struct Which {
    /// Only this kind: run, sim, record, locks, hogs, reproduce, compare, bisect, …
    #[arg(long)]
    kind: Option<String>,
    /// Only those with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only the newest so many
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Show {
    /// Its number or tag
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Tag {
    /// Its number, or a tag it has
    #[arg(value_name = "RUN")]
    run: String,
    /// The names
    #[arg(value_name = "TAG", required = true)]
    tags: Vec<String>,
    /// Take them away
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    place: Where,
}

impl Where {
    fn path(&self) -> Result<PathBuf, Failure> {
        let path = self.store.clone().or_else(default_path);
        path.ok_or_else(|| Failure::from(StoreError::NoPlace))
    }

    fn read(&self) -> Result<Store, Failure> {
        Ok(Store::read(self.path()?)?)
    }

    /// To write into a store that is there; a mistyped name makes no new one.
    fn write(&self) -> Result<Store, Failure> {
        let store = self.read()?;
        if store.is_writable() {
            return Ok(store);
        }
        let name = store.path().display();
        Err(Failure::environment(format!("{name}: cannot be written; make it writable")))
    }
}

impl Which {
    fn filter(&self) -> Filter {
        Filter {
            kind: self.kind.clone(),
            tag: self.tag.clone(),
            newest: self.last,
            ..Filter::default()
        }
    }
}

/// The command.
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
        || if runs.is_empty() { "no stored runs\n".to_owned() } else { table.to_text_of_names() },
        || format!("{:#}\n", table.to_json()),
        || table.to_csv(),
    )
}

/// The records in a table; for people a long command is cut.
fn table(runs: &[Stored], for_people: bool) -> Table {
    let columns = vec![
        Column::number("Run", "").key("id"),
        Column::text("When (UTC)").key("time"),
        Column::text("Kind").key("kind"),
        Column::text("Result").key("result"),
        Column::text("Tags").key("tags"),
        Column::text("Command").key("command"),
    ];
    let mut table = Table::new("", columns);
    for run in runs {
        let entry = &run.entry;
        let command = entry.command.join(" ").replace('\n', " ");
        let room = if for_people { 60 } else { usize::MAX };
        let short: String = command.chars().take(room).collect();
        let more = if short.len() < command.len() { "…" } else { "" };
        table.row(vec![
            Cell::count(run.id.unsigned_abs()),
            Cell::text(time(entry.time_ms)),
            Cell::text(&entry.kind),
            Cell::text(show::result(entry)),
            Cell::text(entry.tags.join(" ")),
            Cell::text(short + more),
        ]);
    }
    table
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

/// Milliseconds since 1970 as `2026-01-31 23:59:59`, by the civil calendar (H. Hinnant, 2013).
fn time(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let rest = day - (365 * year + year / 4 - year / 100);
    let month = (5 * rest + 2) / 153;
    let day = rest - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(super::time(0), "1970-01-01 00:00:00");
        assert_eq!(super::time(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(super::time(1_767_225_599_999), "2025-12-31 23:59:59");
        assert_eq!(super::time(-1), "1969-12-31 23:59:59");
    }
}
