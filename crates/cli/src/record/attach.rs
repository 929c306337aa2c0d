//! Recording of running processes from outside.

use super::args::RecordArgs;
use super::keep::{keep, redact};
use crate::fail::Failure;
use crate::output;
use convoy_host::describe_host;
use convoy_os::{Interrupts, Surroundings, cpus::threads_per_core};
use convoy_record::attach::{AttachError, SOURCE};
use convoy_record::outside::Outside;
use convoy_record::{Process, Program, Record, VERSION};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Samples a process with its children, or all processes of a control group, until they exit, the
/// time is over, or an interrupt arrives.
pub(super) fn attach(args: &RecordArgs) -> Result<ExitCode, Failure> {
    raise_descriptors();
    let outside = match (args.pid, &args.cgroup) {
        (Some(pid), _) => Outside::process(pid),
        (None, path) => Outside::group(path.as_deref().unwrap_or("".as_ref())),
    };
    let (mut outside, interrupts) = (outside.map_err(refused)?, Interrupts::catch());
    let mut more = Vec::new();
    outside = outside.with_dumps(args.java.start(&mut more));
    outside = outside.with_kernel(args.kernel.watch(&mut more)?);
    if !args.quiet {
        output::say(&format!("convoy: recorded from outside: {}", listed(outside.members())));
    }
    let (before, begin) = (Surroundings::now(), Instant::now());
    let ending = loop {
        let Some(wait) = outside.look() else { break "ended" };
        let left = args.seconds.map(|seconds| seconds - begin.elapsed().as_secs_f64());
        if interrupts.pending() || left.is_some_and(|left| left <= 0.0) {
            break "still running";
        }
        std::thread::sleep(wait.min(Duration::from_millis(200)));
    };
    let (mut processes, mut unseen) = outside.finish();
    unseen.extend(more);
    if args.redact {
        redact(&mut processes);
    }
    let command = match &args.cgroup {
        Some(path) => vec!["--cgroup".to_owned(), path.display().to_string()],
        None => processes[0].command.clone(),
    };
    let record = seen(observed(command), ending, (processes, unseen), &before);
    if keep(args.destination(), &record, crate::keep::arguments()) {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::environment("the record could be written nowhere; name a place: --output FILE"))
}

/// Raises the limit of descriptors: a sampled thread needs one for each CPU.
pub(crate) fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _the_hard_limit_suffices =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the failure of an attempt to observe a process.
pub(crate) fn refused(error: AttachError) -> Failure {
    match error {
        AttachError::None(_) | AttachError::NoMemory(_) | AttachError::NoGroup(_) => {
            Failure::usage(error)
        }
        _ => Failure::environment(error),
    }
}

/// Returns the description of running processes that are observed from outside.
pub(crate) fn observed(command: Vec<String>) -> Program {
    let host = describe_host();
    Program {
        command,
        cpus: host.cpus,
        cpu_model: host.cpu,
        threads_per_core: threads_per_core(),
        kernel: host.kernel,
        date: host.date,
        source: SOURCE.to_owned(),
        ..Program::default()
    }
}

/// Returns the record of what was observed since `before`.
pub(crate) fn seen(
    program: Program,
    ending: &str,
    (processes, unseen): (Vec<Process>, Vec<String>),
    before: &Surroundings,
) -> Record {
    let cpu_s = processes.iter().map(|process| process.cpu_s).sum();
    let program = Program {
        ending: ending.to_owned(),
        wall_s: processes.iter().map(|process| process.seconds).fold(0.0, f64::max),
        cpu_s,
        disturbance: before.since(cpu_s),
        ..program
    };
    Record { recorded: VERSION, program, processes, unseen }
}

/// Names of programs with the IDs of their processes, in the order of the IDs.
fn listed<'a>(members: impl Iterator<Item = (u32, &'a [String])>) -> String {
    let mut programs: Vec<(String, Vec<String>)> = Vec::new();
    for (pid, command) in members {
        let words = command.first().map_or("", String::as_str);
        let file = words.split([' ', ':']).next().unwrap_or(words);
        let name = file.rsplit('/').next().unwrap_or(file);
        match programs.iter_mut().find(|(known, _)| known == name) {
            Some((_, pids)) => pids.push(pid.to_string()),
            None => programs.push((name.to_owned(), vec![pid.to_string()])),
        }
    }
    let texts = programs.into_iter().map(|(name, pids)| format!("{name} ({})", pids.join(", ")));
    texts.collect::<Vec<_>>().join(", ")
}
