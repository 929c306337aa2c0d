//! `convoy report`: one page that a person reads and sends on.

use crate::args::Common;
use crate::build::build;
use crate::explain::{self, Explain};
use crate::fail::Failure;
use crate::keep::{STORE_HELP, default_path, is_stored};
use crate::output;
use crate::predict::forecast;
use clap::Args;
use convoy_diagnose::Cure;
use convoy_record::Record;
use convoy_report::{Block, Origin, Page, RecordedReport, Table};
use convoy_store::{Entry, LAST, Store};
use serde::Deserialize as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArgs {
    /// A record, an experiment, the number of a stored run, or `@TAG`; two records: before a change
    /// and after it
    #[arg(value_name = "RUN", num_args = 1..=2, default_value = LAST)]
    runs: Vec<String>,
    /// The page
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Also predict the program with other CPUs and locks, and recommend a lock (takes longer)
    #[arg(long)]
    predict: bool,
    /// As of convoy predict
    #[arg(long, hide = true)]
    least: bool,
    /// Of an experiment: the kernel preset
    #[arg(long, value_name = "PRESET")]
    kernel: Option<String>,
    /// Of an experiment: the number of users
    #[arg(long, value_name = "N")]
    users: Option<u32>,
    /// Of an experiment: the grid
    #[arg(long, value_name = "GRID")]
    only: Option<String>,
    /// Of an experiment: the cells with this label on this axis (repeatable)
    #[arg(long, value_name = "AXIS=LABEL")]
    at: Vec<String>,
    /// The store of a stored run.
    #[arg(long, value_name = "FILE", help = STORE_HELP, hide_short_help = true)]
    store: Option<PathBuf>,
    /// No messages on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    output::ready(Some(&args.output))?;
    let store = args.store.as_deref();
    let runs =
        args.runs.iter().map(|name| explain::numbered(name, store)).collect::<Result<_, _>>();
    let args = &ReportArgs { runs: runs?, ..args.clone() };
    let page = page(args)?.to_html();
    output::file(&args.output, &page)?;
    let kilobytes = page.len().div_ceil(1000);
    let common = Common::plain(None, args.quiet);
    let name = args.output.display();
    output::message(&common, &format!("wrote {name} ({kilobytes} kB); open it in a browser"));
    Ok(ExitCode::SUCCESS)
}

impl ReportArgs {
    /// The simulated run, as `convoy explain` takes it.
    fn simulated(&self) -> Explain {
        Explain {
            run: self.runs[0].clone(),
            kernel: self.kernel.clone(),
            users: self.users,
            only: self.only.clone(),
            at: self.at.clone(),
            store: self.store.clone(),
            common: Common::plain(None, self.quiet),
            ..Explain::default()
        }
    }
}

fn page(args: &ReportArgs) -> Result<Page, Failure> {
    let find = |name: &String| explain::find(name, args.store.as_deref());
    let first = &args.runs[0];
    let Some(record) = find(first)? else {
        if let [_, second] = args.runs.as_slice() {
            return Err(Failure::usage(format!(
                "{first} is not a record of a program; name two records, or leave {second} out"
            )));
        }
        if args.predict {
            return Err(Failure::usage(format!(
                "--predict belongs to records of programs, and {first} is none: leave it out"
            )));
        }
        return match stored(first, args.store.as_deref())? {
            Some(entry) => Ok(of_stored(first, &entry)),
            None => explain::page(&args.simulated()),
        };
    };
    let report = RecordedReport::new(&record);
    let origin = origin(args, first, &record, &report);
    let (mut page, last, report, origin) = match args.runs.get(1) {
        None => (Page::recorded(&record, &report, &origin), record, report, origin),
        Some(second) => {
            let after = find(second)?.ok_or_else(|| {
                Failure::usage(format!(
                    "{second} is not a record of a program: name a second record"
                ))
            })?;
            let reports = [report, RecordedReport::new(&after)];
            let mut second = self::origin(args, second, &after, &reports[1]);
            second.test = test_of_pair([&record, &after]);
            let page = Page::pair([&record, &after], &reports, [&origin, &second]);
            let [_, report] = reports;
            (page, after, report, second)
        }
    };
    predicted(args, &mut page, &last, &origin.name)?;
    page.end(&last, &report, &origin);
    Ok(page)
}

/// What `predict` and `fix` say, or which command says it.
fn predicted(
    args: &ReportArgs,
    page: &mut Page,
    record: &Record,
    name: &str,
) -> Result<(), Failure> {
    if !args.predict {
        let text = "Not in this page. To add how the program would run with other CPUs and \
                    locks, and which lock to take:";
        let runs = shell_words::join(&args.runs);
        let again = format!("convoy report {runs} --predict");
        page.section("Prediction", vec![Block::text(text), Block::command(again)]);
        return Ok(());
    }
    for (title, blocks) in forecast::sections(record, name, args.store.as_deref(), args.least)? {
        page.section(title, blocks);
    }
    Ok(())
}

/// The command line of a record, and with which locks it ran.
fn shell(record: &Record) -> String {
    let program = &record.program;
    let words = shell_words::join(&program.command);
    let named = program.locks.iter().map(|(site, policy)| {
        format!("--lock {} ", shell_words::quote(&format!("{site}={policy}")))
    });
    let of =
        |flag: &str, policy: &String| (!policy.is_empty()).then(|| format!("--{flag} {policy} "));
    let all = of("mutex", &program.mutex).into_iter().chain(of("sem", &program.sem));
    let flags: String = all.chain(named).collect();
    if flags.is_empty() { words } else { format!("convoy with {flags}-- {words}") }
}

/// The command that measures the programs of two records.
pub(crate) fn test_of_pair([before, after]: [&Record; 2]) -> String {
    compare(&shell(before), &shell(after))
}

fn compare(before: &str, after: &str) -> String {
    let [before, after] = [before, after].map(|text| shell_words::quote(text).into_owned());
    format!("convoy compare {before} {after}")
}

/// Where a record comes from, and the command that tests the cure of its diagnosis.
fn origin(args: &ReportArgs, name: &str, record: &Record, report: &RecordedReport) -> Origin {
    let program = &record.program;
    let file =
        if is_stored(name) { String::new() } else { format!("-o {} ", shell_words::quote(name)) };
    let flags = if args.predict { " --predict" } else { "" };
    let mut again = Vec::new();
    if program.source.is_empty() {
        again.push(format!("convoy record {file}-- {}", shell_words::join(&program.command)));
    }
    again.push(format!("convoy report {}{flags}", shell_words::join(&args.runs)));
    Origin { name: name.to_owned(), build: build(), again, test: test(name, record, report) }
}

/// The command that tests the cure of the first finding, or nothing.
fn test(name: &str, record: &Record, report: &RecordedReport) -> String {
    let Some(first) = report.first().filter(|_| record.program.source.is_empty()) else {
        return String::new();
    };
    let now = shell(record);
    match first.finding.cure() {
        Cure::HandOver => compare(&now, &format!("convoy with --mutex fair -- {now}")),
        Cure::AnotherLock | Cure::LessOften => {
            format!("convoy fix {}", shell_words::quote(name))
        }
        _ => format!("convoy compare {} CHANGED", shell_words::quote(&now)),
    }
}

/// A stored run that has tables.
fn stored(name: &str, store: Option<&Path>) -> Result<Option<Entry>, Failure> {
    if !is_stored(name) {
        return Ok(None);
    }
    let Some(path) = store.map(Path::to_owned).or_else(default_path) else { return Ok(None) };
    let entry = Store::read(path)?.find(name)?.entry;
    Ok(Some(entry).filter(|entry| entry.body["report"]["tables"].is_array()))
}

fn of_stored(name: &str, entry: &Entry) -> Page {
    let report = &entry.body["report"];
    let tables = Vec::<Table>::deserialize(&report["tables"]).unwrap_or_default();
    let plot = Block::stored(&report["plot"]);
    let title = entry.body["name"].as_str().unwrap_or(&entry.kind);
    let verdict = report["verdict"].as_str().unwrap_or_default();
    let mut page = Page::stored(title, verdict, plot, &tables);
    let host = &entry.host;
    page.section(
        "Where this comes from",
        vec![
            Block::text(format!("Run {name} of the store, made by {}.", entry.build)),
            Block::text(format!("{}: {} CPUs ({})", host.system, host.cpus, host.cpu)),
            Block::text("To do it again:"),
            Block::command(format!("convoy {}", shell_words::join(&entry.command))),
            Block::command(format!("convoy report {name}")),
        ],
    );
    page
}
