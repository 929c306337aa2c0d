//! One stored run: its source, and its result as it was printed.

use super::args::Show;
use super::table::{time, typed};
use crate::args::Format;
use crate::fail::Failure;
use crate::output;
use convoy_report::{BisectReport, CompareLayout, CompareReport, Table, page_wrap};
use convoy_store::{Entry, Stored};
use serde_json::Value;

pub(super) fn run(args: &Show) -> Result<(), Failure> {
    let run = args.place.read()?.find(&args.run)?;
    let text = match args.common.format {
        Format::Table => head(&run) + &body(&run.entry),
        Format::Markdown => convoy_report::in_markdown(|| head(&run) + &body(&run.entry)),
        Format::Json => serde_json::to_string_pretty(&run).map_err(Failure::environment)?,
        Format::Csv => csv(&run)?,
    };
    output::result(&args.common, &text)
}

fn head(run: &Stored) -> String {
    let entry = &run.entry;
    let mut lines = vec![format!("run {}: convoy {}", run.id, entry.command.join(" "))];
    let host = &entry.host;
    let seed = entry.seed.map_or("no seed".to_owned(), |seed| format!("seed {seed}"));
    lines.push(format!("{} UTC, {}, {seed}", time(entry.time_ms), entry.build));
    lines.push(format!("{}: {}, {} CPUs ({})", host.name, host.system, host.cpus, host.cpu));
    if !entry.tags.is_empty() {
        lines.push(format!("tags: {}", entry.tags.join(" ")));
    }
    lines.iter().map(|line| page_wrap(line)).collect::<String>() + "\n"
}

/// The result as its command prints it; of a kind that cannot be printed, the JSON.
fn body(entry: &Entry) -> String {
    let body = &entry.body;
    let report = || typed::<CompareReport>(&body["report"]);
    match entry.kind.as_str() {
        "compare" => report().map(|report| report.to_text(CompareLayout::List)),
        "bisect" => typed::<BisectReport>(body).map(|report| report.to_text()),
        _ => tables(body).map(|tables| {
            let verdict = body["report"]["verdict"].as_str().unwrap_or_default();
            let texts = [page_wrap(verdict)].into_iter();
            texts.chain(tables.iter().map(Table::to_text)).collect::<Vec<_>>().join("\n")
        }),
    }
    .unwrap_or_else(|| format!("{body:#}\n"))
}

/// The tables of an experiment as they were printed.
fn tables(body: &Value) -> Option<Vec<Table>> {
    typed(&body["report"]["tables"])
}

fn csv(run: &Stored) -> Result<String, Failure> {
    let body = &run.entry.body;
    let text = match run.entry.kind.as_str() {
        "compare" => typed::<CompareReport>(&body["report"]).map(|report| report.to_csv()),
        "bisect" => typed::<BisectReport>(body).map(|report| report.to_csv()),
        _ => tables(body)
            .map(|tables| tables.iter().map(Table::to_csv).collect::<Vec<_>>().join("\n")),
    };
    text.ok_or_else(|| {
        let kind = &run.entry.kind;
        Failure::usage(format!("run {} is a {kind} record; use --format json", run.id))
    })
}
