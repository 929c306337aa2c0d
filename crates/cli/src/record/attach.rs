//! Recording of running processes from outside.

use super::args::RecordArgs;
use super::keep::{keep, redact};
use crate::fail::Failure;
use convoy_host::describe_host;
use convoy_os::{Interrupts, Surroundings, cpus::threads_per_core};
use convoy_record::attach::{AttachError, SOURCE};
use convoy_record::bpf::Watching;
use convoy_record::outside::Outside;
use convoy_record::{Process, Program, Record, VERSION};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Samples a process, or all processes of a control group, until they exit, the time is over, or an
/// interrupt arrives.
pub(super) fn attach(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let refused = |error: AttachError| match error {
        AttachError::None(_) | AttachError::NoMemory(_) | AttachError::NoGroup(_) => {
            Failure::usage(error)
        }
        _ => Failure::environment(error),
    };
    let outside = match (args.pid, &args.cgroup) {
        (Some(pid), _) => Outside::process(pid),
        (None, path) => Outside::group(path.as_deref().unwrap_or("".as_ref())),
    };
    let (mut outside, interrupts) = (outside.map_err(refused)?, Interrupts::catch());
    let mut more = Vec::new();
    outside = outside.with_dumps(args.java.start(&mut more));
    let mut watching = args.kernel.watch(&mut more)?;
    let (before, begin) = (Surroundings::now(), Instant::now());
    let ending = loop {
        if let Some(watching) = &mut watching {
            outside.arrived().into_iter().for_each(|pid| watching.follow(pid));
            watching.look();
        }
        let Some(wait) = outside.look() else { break "ended" };
        let left = args.seconds.map(|seconds| seconds - begin.elapsed().as_secs_f64());
        if interrupts.pending() || left.is_some_and(|left| left <= 0.0) {
            break "still running";
        }
        std::thread::sleep(wait.min(Duration::from_millis(200)));
    };
    let (mut processes, mut unseen) = outside.finish();
    unseen.extend(more);
    if let Some(watching) = watching {
        unseen = add_waits(watching, &mut processes, unseen);
    }
    if args.redact {
        redact(&mut processes);
    }
    let host = describe_host();
    let program = Program {
        command: match &args.cgroup {
            Some(path) => vec!["--cgroup".to_owned(), path.display().to_string()],
            None => processes[0].command.clone(),
        },
        ending: ending.to_owned(),
        wall_s: processes.iter().map(|process| process.seconds).fold(0.0, f64::max),
        cpus: host.cpus,
        cpu_model: host.cpu,
        threads_per_core: threads_per_core(),
        kernel: host.kernel,
        date: host.date,
        disturbance: before.since(0.0),
        source: SOURCE.to_owned(),
        ..Program::default()
    };
    if keep(args, &Record { recorded: VERSION, program, processes, unseen }) {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::environment("the record could be written nowhere; name a place: --output FILE"))
}

/// Replaces the sampled waits by the waits that the kernel counted, which are complete.
fn add_waits(
    watching: Watching,
    processes: &mut Vec<Process>,
    mut unseen: Vec<String>,
) -> Vec<String> {
    // The first sentence is about samples.
    unseen.drain(..unseen.len().min(1));
    for process in &mut *processes {
        process.locks.clear();
        process.phases_wait_s.clear();
    }
    unseen.extend(watching.finish(processes));
    unseen
}
