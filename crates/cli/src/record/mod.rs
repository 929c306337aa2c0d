//! `convoy record`: an unmodified program, and what its locks do meanwhile.

mod attach;
mod execute;
mod keep;
mod recover;
mod unseen;

use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::with::Policies;
use attach::attach;
use clap::{Args, ValueEnum};
use convoy_host::{Surroundings, describe_host};
use convoy_record::bound::Others;
use convoy_record::bpf::Watching;
use convoy_record::place::{Place, programs_lost};
use convoy_record::ready::Ready;
use convoy_record::{
    CONTENDED, DIRECTORY, Looks, ONLY_SAMPLES, Program, Record, RecordError, Sampling, VERSION,
};
use convoy_record::{launch, raw};
use execute::{Beside, Ran, execute};
use keep::keep;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

/// What a shell adds to the number of the signal that ended a program.
const BY_SIGNAL: i32 = 128;

/// `convoy record`.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct RecordArgs {
    /// The program and its arguments, after `--`
    #[arg(
        value_name = "CMD",
        required_unless_present_any = ["pid", "cgroup", "recover"],
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
    /// Look at a running process from outside instead, until it ends or Ctrl-C
    #[arg(long, value_name = "PID", conflicts_with = "words")]
    pid: Option<u32>,
    /// The same for all processes of a control group in /sys/fs/cgroup
    #[arg(long, value_name = "PATH", conflicts_with_all = ["words", "pid"])]
    cgroup: Option<PathBuf>,
    /// Keep what recordings left whose `convoy record` was killed
    #[arg(long, conflicts_with_all = ["words", "pid", "cgroup"])]
    recover: bool,
    /// Directory for the recorder's files [default: memory, then a disk]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pid", "cgroup"])]
    buffer: Option<PathBuf>,
    /// Most that all processes write there, such as 64M [default: all of DIR, or 3/4 elsewhere]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["pid", "cgroup"])]
    #[arg(value_parser = size, hide_short_help = true)]
    buffer_size: Option<u64>,
    /// Leave the arguments of commands out of the record
    #[arg(long, hide_short_help = true)]
    redact: bool,
    /// Stop recording after this many seconds; a program that was started here is ended then
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = seconds)]
    seconds: Option<f64>,
    /// Record only acquisitions that had to wait, which `predict` and `fix` cannot replay
    #[arg(long, conflicts_with_all = ["pid", "cgroup"])]
    contended: bool,
    /// What the kernel sees, too: waits in futex(2), locks of the kernel, lost CPUs; it wants root
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Kernel::Auto)]
    kernel: Kernel,
    /// Write the record to a file instead of the store
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// No messages on standard error
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
    /// Where the record is kept.
    #[command(flatten)]
    store: StoreArgs,
    /// Locks in place of those of libc.
    #[command(flatten)]
    policies: Policies,
}

/// Whether the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kernel {
    /// If it is permitted, and not with `--contended`
    Auto,
    /// Or end with an error
    On,
    /// Not
    Off,
}

impl Kernel {
    /// Whoever wants contended acquisitions alone wants a recording that costs little. Asking the
    /// kernel costs more, so then it is done only by request.
    fn unless(self, contended: bool, unseen: &mut Vec<String>) -> Self {
        if self != Self::Auto || !contended {
            return self;
        }
        unseen.push("What the kernel sees was not recorded; --kernel on adds it.".to_owned());
        Self::Off
    }

    /// Begins to look, if that is wanted; in a sentence why not, if it cannot.
    fn watch(self, unseen: &mut Vec<String>) -> Result<Option<Watching>, Failure> {
        if self == Self::Off {
            return Ok(None);
        }
        match Watching::new() {
            Ok(watching) => Ok(Some(watching)),
            Err(error) if self == Self::On => Err(Failure::environment(error)),
            Err(error) => {
                unseen.push(format!(
                    "What the kernel sees was not recorded (its own locks, futex calls of the \
                     program itself, why owners were off CPU): {error}."
                ));
                Ok(None)
            }
        }
    }
}

/// A number of bytes, with K, M or G.
fn size(text: &str) -> Result<u64, String> {
    /// What a process with some threads takes, and more than any machine has.
    const RANGE: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 10),
        Some(digits) if text.ends_with('M') => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.filter(|bytes| RANGE.contains(bytes));
    bytes.ok_or_else(|| "not a size between 1M and 1024G, such as 64M".to_owned())
}

/// A length of time.
fn seconds(text: &str) -> Result<f64, String> {
    /// A day.
    const MOST: f64 = 86_400.0;
    let value = text.parse().ok().filter(|value| (0.01..=MOST).contains(value));
    value.ok_or_else(|| format!("not a time between 0.01 and {MOST} s"))
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::NoRecord { .. } | RecordError::Version { .. } => Self::usage(error),
            _ => Self::environment(error),
        }
    }
}

/// The command. Its exit code is that of the program.
pub(crate) fn run(args: &RecordArgs) -> Result<ExitCode, Failure> {
    if args.recover {
        return recover::recover(args);
    }
    keep::ready(args)?;
    if args.pid.is_some() || args.cgroup.is_some() {
        return attach(args);
    }
    keep::limits()?;
    recover::tidy(args);
    let mut unseen = Vec::new();
    let kernel = args.kernel.unless(args.contended, &mut unseen);
    let mut watching = kernel.watch(&mut unseen)?;
    let sampling = Sampling::of_children();
    unseen.extend(sampling.refused.as_ref().map(|reason| {
        format!("Where threads spent CPU time was not sampled: perf_event_open(2): {reason}.")
    }));
    let seen = (watching.is_some(), sampling.refused.is_none());
    let mut place = Place::new(args.buffer.as_deref(), args.buffer_size)?;
    let mut command = command(args, &mut place, seen, &mut unseen)?;
    args.policies.set(&mut command, &args.words[0])?;
    let mut program = program(args);
    let _no_help_later = place.note(&recover::note(&program, args.redact));
    let before = Surroundings::now();
    let mut looks = Looks::at(place.files()).with(sampling);
    let mut ready = Ready::at(place.files());
    let others = Others::at(place.files());
    let mut beside =
        Beside { watching: &mut watching, looks: &mut looks, ready: &mut ready, others };
    let ran = execute(command, args, &mut beside)?;
    // From here on the program has run: whatever fails, its exit code is that of this command.
    let mut processes = raw::read_with(place.files(), &mut looks).unwrap_or_else(|error| {
        unseen.push(format!("What the processes wrote cannot be read: {error}."));
        Vec::new()
    });
    ready.finish(&mut processes);
    describe(&mut program, &ran, &processes);
    program.disturbance = before.since(program.cpu_s);
    program.programs_lost = programs_lost(place.files());
    let seen = (ran.usage.switches, watching.is_some());
    unseen.extend(unseen::not_seen(&processes, program.programs_lost, seen));
    if let Some(watching) = watching {
        unseen.extend(watching.finish(&mut processes));
    }
    looks.finish(&mut processes);
    unseen.extend(unseen::not_chosen(&processes, args.policies.locks()));
    if args.contended {
        unseen.push(
            "Only acquisitions that had to wait were recorded (--contended): the others were not \
             counted, and their holds not timed."
                .to_owned(),
        );
    }
    if ran.background > 0 {
        unseen.push(format!(
            "{} processes in the background went on when the recording ended.",
            ran.background
        ));
    }
    program.prices_ns = unseen::prices(&processes, &mut unseen);
    if args.redact {
        keep::redact(&mut processes);
    }
    if !keep(args, &Record { recorded: VERSION, program, processes, unseen }) {
        keep::nowhere(&place.keep());
    }
    Ok(exit_code(ran.status))
}

/// The exit code of a program, as a shell gives it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let by_signal = || BY_SIGNAL + status.signal().unwrap_or(0);
    ExitCode::from(status.code().unwrap_or_else(by_signal) as u8)
}

/// The command with the object before it; without, if the program would not bear it and the kernel
/// is asked or CPU time is sampled.
fn command(
    args: &RecordArgs,
    place: &mut Place,
    (is_watched, is_sampled): (bool, bool),
    unseen: &mut Vec<String>,
) -> Result<Command, Failure> {
    if let Some(reason) = launch::refusal(&args.words[0]) {
        if !is_watched && !is_sampled {
            return Err(Failure::usage(format!("nothing would be recorded: {reason}")));
        }
        let (what, cure) = reason.split_once(';').unwrap_or((&reason, ""));
        unseen.push(if is_watched {
            format!("Only what the kernel sees was recorded: {what}.")
        } else {
            format!("{ONLY_SAMPLES} {what};{cure}.")
        });
        let mut command = Command::new(&args.words[0]);
        command.args(&args.words[1..]);
        return Ok(command);
    }
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

/// What is known of the program before it starts.
fn program(args: &RecordArgs) -> Program {
    let host = describe_host();
    let words = if args.redact { &args.words[..1] } else { &args.words };
    Program {
        command: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        cpus: host.cpus,
        cpu_model: host.cpu,
        kernel: host.kernel,
        date: host.date,
        mutex: args.policies.mutex(),
        sem: args.policies.sem(),
        locks: args.policies.locks().to_vec(),
        only_contended: args.contended,
        ..Program::default()
    }
}

/// Adds how it ended.
fn describe(program: &mut Program, ran: &Ran, processes: &[convoy_record::Process]) {
    // Nobody waits for those of a daemon.
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
