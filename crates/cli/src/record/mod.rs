//! `convoy record`: runs an unmodified program and records its locks.

mod args;
mod attach;
mod execute;
mod keep;
mod prices;
mod recover;
mod unseen;

use crate::fail::{BY_SIGNAL, Failure};
use attach::attach;
pub(crate) use attach::{observed, raise_descriptors, refused, seen};
use convoy_os::Surroundings;
use convoy_record::bound::Others;
use convoy_record::launch::{self, Refusal};
use convoy_record::place::{Place, programs_lost};
use convoy_record::raw;
use convoy_record::ready::Ready;
use convoy_record::{CONTENDED, DIRECTORY, Looks, Program, Record, RecordError, Sampling, VERSION};
use execute::{Beside, Ran, execute};
pub(crate) use keep::{Destination, keep, limits, ready};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};

pub(crate) use args::{Java, Kernel, RecordArgs};

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::NoRecord { .. } | RecordError::Version { .. } => Self::usage(error),
            _ => Self::environment(error),
        }
    }
}

/// The command. It exits with the code of the program.
pub(crate) fn run(args: &RecordArgs) -> Result<ExitCode, Failure> {
    if args.recover {
        return recover::recover(args);
    }
    keep::ready(args.destination())?;
    if args.pid.is_some() || args.cgroup.is_some() {
        return attach(args);
    }
    limits()?;
    recover::mention(args);
    let mut unseen = Vec::new();
    let kernel = args.kernel.unless(args.contended, &mut unseen);
    let mut watching = kernel.watch(&mut unseen)?;
    // Its thread must not be sampled itself.
    let dumps = args.java.start(&mut unseen);
    let sampling = Sampling::of_children();
    unseen.extend(sampling.refused.as_ref().map(|reason| {
        format!("Where threads spent CPU time was not sampled: perf_event_open(2): {reason}.")
    }));
    let (is_watched, is_sampled) = (watching.is_some(), sampling.refused.is_none());
    let mut place = Place::new(args.buffer.as_deref(), args.buffer_size)?;
    let refusal = launch::refusal(&args.words[0]);
    let mut command = match &refusal {
        Some(refusal) => plain(args, refusal, is_watched || is_sampled)?,
        None => preloaded(args, &mut place)?,
    };
    args.policies.set(&mut command, &args.words[0])?;
    let mut program = program(args);
    if let Some(refusal) = &refusal {
        unseen.push(unrecorded(refusal, is_watched));
        program.only_samples = (!is_watched).then(|| format!("{refusal}."));
    }
    let _no_help_later = place.note(&recover::note(args, &program));
    let before = Surroundings::now();
    let (mut ready, others) = (Ready::at(place.files()), Others::at(place.files()));
    let mut looks = Looks::at(place.files()).with(sampling).with_dumps(dumps);
    let mut beside =
        Beside { watching: &mut watching, looks: &mut looks, ready: &mut ready, others };
    // When this returns, the program has run: whatever fails, this command exits with its code.
    let ran = execute(command, args, &mut beside)?;
    let mut processes = raw::read_with(place.files(), &mut looks).unwrap_or_else(|error| {
        unseen.push(format!("The files of the processes cannot be read: {error}."));
        Vec::new()
    });
    ready.finish(&mut processes);
    describe(&mut program, &ran, &processes);
    program.disturbance = before.since(program.cpu_s);
    program.programs_lost = programs_lost(place.files());
    // A program that cannot load the object needs no other reason for what is missing.
    if program.only_samples.is_none() {
        unseen.extend(unseen::not_seen(
            &processes,
            program.programs_lost,
            ran.usage.switches,
            watching.is_some(),
        ));
    }
    if let Some(watching) = watching {
        unseen.extend(watching.finish(&mut processes));
    }
    looks.finish(&mut processes);
    unseen.extend(unseen::not_chosen(&processes, args.policies.locks()));
    unseen.extend(unseen::left_out(args.contended, ran.background));
    program.prices_ns = prices::prices(&ran.relay, &args.store, &processes, &mut unseen);
    if args.redact {
        keep::redact(&mut processes);
    }
    let record = Record { recorded: VERSION, program, processes, unseen };
    if !keep(args.destination(), &record, crate::keep::arguments()) {
        keep::nowhere(&place.keep());
    }
    Ok(exit_code(ran.status))
}

/// The exit code of a program, as a shell returns it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or(0)) as u8)
}

/// The command without the object, which the program cannot load. Fails unless something else
/// `is_recorded`.
fn plain(args: &RecordArgs, refusal: &Refusal, is_recorded: bool) -> Result<Command, Failure> {
    if !is_recorded {
        return Err(Failure::usage(format!("nothing would be recorded: {refusal}")));
    }
    let mut command = Command::new(&args.words[0]);
    command.args(&args.words[1..]);
    Ok(command)
}

/// What a record without the object lacks, as a sentence.
fn unrecorded(refusal: &Refusal, is_watched: bool) -> String {
    if is_watched {
        format!("Only kernel events were recorded: {}.", refusal.problem)
    } else {
        format!("Only samples of CPU time were recorded: {refusal}.")
    }
}

/// The command with the object preloaded.
fn preloaded(args: &RecordArgs, place: &mut Place) -> Result<Command, Failure> {
    let object = place.object()?;
    if let Some(reason) = launch::forbidden(&object, place.files()) {
        return Err(Failure::environment(reason));
    }
    let mut command = launch::command(&args.words, &object);
    command.env(DIRECTORY, place.files());
    if args.contended {
        command.env(CONTENDED, "1");
    }
    Ok(command)
}

/// The description of the program before it starts.
fn program(args: &RecordArgs) -> Program {
    let words = if args.redact { &args.words[..1] } else { &args.words };
    let command = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Program {
        source: String::new(),
        mutex: args.policies.mutex(),
        sem: args.policies.sem(),
        locks: args.policies.locks().to_vec(),
        only_contended: args.contended,
        ..observed(command)
    }
}

/// Adds the result of the program.
fn describe(program: &mut Program, ran: &Ran, processes: &[convoy_record::Process]) {
    // Children of a daemon are not waited for.
    let known: f64 = processes.iter().map(|process| process.cpu_s).sum();
    program.cpu_s = (ran.usage.user + ran.usage.system).as_secs_f64().max(known);
    program.ending = ending(ran.status);
    program.wall_s = ran.wall.as_secs_f64();
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
