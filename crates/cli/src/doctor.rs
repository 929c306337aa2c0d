//! `convoy doctor`: tries each requirement of a recording, and names the missing ones with their
//! cures.

use crate::args::Common;
use crate::build::build;
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::output;
use crate::record;
use clap::Args;
use convoy_host::describe_host;
use convoy_os::Surroundings;
use convoy_record::bpf::Watching;
use convoy_record::place::Place;
use convoy_record::{DIRECTORY, Sampling, launch, raw};
use convoy_report::{Cell, Column, Table, page_wrap};
use convoy_store::Store;
use serde_json::json;
use std::ffi::OsString;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also check whether this program can be recorded
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
    #[command(flatten)]
    common: Common,
}

/// The result of a check.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    /// The part of a recording that is lost if the check fails; empty if it cannot fail.
    lost: &'static str,
    works: bool,
    text: String,
}

impl Finding {
    fn new(check: &'static str, lost: &'static str, tried: Result<String, String>) -> Self {
        let works = tried.is_ok();
        let (Ok(text) | Err(text)) = tried;
        Self { check, lost, works, text }
    }
}

pub(crate) fn run(args: &Doctor) -> Result<ExitCode, Failure> {
    let program = args.program.as_ref().map(|program| {
        let name = program.to_string_lossy();
        let tried = match launch::refusal(program) {
            Some(refusal) => Err(refusal.to_string()),
            None if !launch::find(program).is_some_and(|path| path.is_file()) => {
                Err(format!("{name} is not found"))
            }
            None => Ok(format!("{name} can be recorded")),
        };
        Finding::new("program", "the locks of this program", tried)
    });
    let findings: Vec<Finding> = [
        Finding::new("version", "", Ok(version())),
        Finding::new("machine", "", Ok(machine())),
        Finding::new("locks", LOCKS, trial()),
        Finding::new("kernel events", "kernel events", kernel_events()),
        Finding::new("CPU time", "samples of CPU time", samples()),
        Finding::new("kernel names", "names of kernel functions", kernel_names()),
        Finding::new("store", "the store of records", store()),
        Finding::new("quiet machine", "a quiet machine", quiet()),
    ]
    .into_iter()
    .chain(program)
    .collect();
    output::print(
        &args.common,
        || text(&findings),
        || format!("{:#}\n", json(&findings)),
        || table(&findings).to_csv(),
    )?;
    Ok(ExitCode::from(u8::from(!records(&findings))))
}

/// Without it, most programs leave no record.
const LOCKS: &str = "locks of programs";

/// Whether locks of programs, and of the named one, can be recorded.
fn records(findings: &[Finding]) -> bool {
    let needed = |finding: &&Finding| finding.lost == LOCKS || finding.check == "program";
    findings.iter().filter(needed).all(|finding| finding.works)
}

fn verdict(findings: &[Finding]) -> String {
    let missing: Vec<&str> =
        findings.iter().filter(|finding| !finding.works).map(|finding| finding.lost).collect();
    let list = match missing.split_last() {
        None => return "convoy record works here, and nothing is missing.".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    };
    if records(findings) {
        format!("convoy record works here, without {list}.")
    } else {
        format!("convoy record is incomplete here: it lacks {list}.")
    }
}

fn text(findings: &[Finding]) -> String {
    let mut text = page_wrap(&verdict(findings)) + "\n";
    for finding in findings {
        let state = if finding.works { "ok" } else { "missing" };
        text += &page_wrap(&format!("{} ({state}): {}.", finding.check, finding.text));
    }
    text
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new("", ["check", "works", "text"].map(Column::text).to_vec());
    for finding in findings {
        let works = if finding.works { "yes" } else { "no" };
        table.row([finding.check, works, finding.text.as_str()].map(Cell::text).to_vec());
    }
    table
}

fn json(findings: &[Finding]) -> serde_json::Value {
    let checks = findings.iter().map(|Finding { check, works, text, .. }| {
        json!({ "check": check, "works": works, "text": text })
    });
    json!({
        "verdict": verdict(findings),
        "records": records(findings),
        "checks": checks.collect::<Vec<_>>(),
    })
}

fn version() -> String {
    format!("convoy {}, build {}", env!("CARGO_PKG_VERSION"), build())
}

fn machine() -> String {
    let host = describe_host();
    let user = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    format!("Linux {}, {} CPUs for this command ({}), {user}", host.kernel, host.cpus, host.cpu)
}

/// Records this program, as `convoy record` would.
fn trial() -> Result<String, String> {
    record::limits().map_err(|failure| failure.message().to_owned())?;
    let mut place = Place::new(None, None).map_err(|error| error.to_string())?;
    let object = place.object().map_err(|error| error.to_string())?;
    if let Some(reason) = launch::forbidden(&object, place.files()) {
        return Err(reason);
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = launch::command(&[own.into(), "--version".into()], &object);
    command.env(DIRECTORY, place.files());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("a recorded program ended with {status}"));
    }
    let processes = raw::read(place.files()).map_err(|error| error.to_string())?;
    let base = place.base().display();
    if processes.is_empty() {
        return Err(format!("a recorded program left no data in {base}"));
    }
    Ok(format!("a trial was recorded in {base}"))
}

fn kernel_events() -> Result<String, String> {
    let seen = "recorded: locks of the kernel, the program's own futexes, owners that sleep";
    Watching::new().map(|_| seen.to_owned()).map_err(|error| error.to_string())
}

fn samples() -> Result<String, String> {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level = level.map_or_else(|_| "unknown".to_owned(), |level| level.trim().to_owned());
    match Sampling::of_children().refused {
        None => Ok("sampled, so loops that spin are found".to_owned()),
        Some(reason) => Err(format!(
            "perf_event_open(2): {reason}; kernel.perf_event_paranoid is {level}, 2 or less \
             permits it"
        )),
    }
}

fn kernel_names() -> Result<String, String> {
    let all = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_named = all.lines().take(100).any(|line| !line.starts_with("0000000000000000"));
    if is_named {
        Ok("/proc/kallsyms shows addresses".to_owned())
    } else {
        Err("/proc/kallsyms shows no addresses; run as root, or set kernel.kptr_restrict to 0 or 1 \
             with CAP_SYSLOG"
            .to_owned())
    }
}

fn store() -> Result<String, String> {
    let store = StoreArgs { store: None, no_store: false, tag: Vec::new() };
    if store.is_off() {
        return Ok("off, by CONVOY_STORE".to_owned());
    }
    let Some(path) = store.path() else {
        return Err("HOME is not set; name a file with --output or --store".to_owned());
    };
    match Store::read(&path) {
        Ok(store) if !store.is_writable() => {
            Err(format!("{} cannot be written; use --output or --store", path.display()))
        }
        Ok(_) => Ok(path.display().to_string()),
        Err(convoy_store::StoreError::Missing { path }) => {
            Ok(format!("{}, which the first record creates", path.display()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Watches the machine for a moment: predictions of records that were taken next to other programs
/// are wide or refused.
fn quiet() -> Result<String, String> {
    /// Long enough for two digits: the kernel counts in ticks of 10 ms.
    const MOMENT: Duration = Duration::from_millis(500);
    /// CPUs; a shell and a terminal take less.
    const MOST: f64 = 0.1;
    let before = Surroundings::now();
    std::thread::sleep(MOMENT);
    let change = before.since(0.0);
    let cpus = (change.others_s / change.seconds).max(0.0);
    let stolen = change.stolen_s / change.seconds;
    let text = if stolen > MOST / 2.0 {
        format!("other programs use {cpus:.1} CPUs, and the hypervisor takes {stolen:.1} away")
    } else {
        format!("other programs use {cpus:.1} CPUs")
    };
    if cpus + stolen > MOST { Err(text + "; wait before you measure") } else { Ok(text) }
}
