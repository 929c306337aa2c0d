//! `convoy record`: an unmodified program, and what its locks do meanwhile.

use crate::args::Common;
use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::output;
use crate::with::{Policies, cannot_start};
use clap::{Args, ValueEnum};
use convoy_calibrate::hour::Quartiles;
use convoy_host::{ChildUsage, Interrupts, Surroundings, describe_host, wait_with_usage};
use convoy_record::attach::{AttachError, Attached, SOURCE};
use convoy_record::bpf::Watching;
use convoy_record::ready::Ready;
use convoy_record::{
    CONTENDED, DIRECTORY, JAVA, Looks, Process, Program, Record, RecordError, Sampling, UNNAMED,
    VERSION,
};
use convoy_record::{launch, raw};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// How long the program may take to end by itself after a signal to end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the program is left alone, with new processes to be looked at and without.
const LOOK: Duration = Duration::from_millis(10);
const SLOW_LOOK: Duration = Duration::from_millis(100);
/// What a shell adds to the number of the signal that ended a program.
const BY_SIGNAL: i32 = 128;

/// `convoy record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The program and its arguments, after `--`
    #[arg(
        value_name = "CMD",
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
    /// Look at a running process from outside instead, until it ends or Ctrl-C
    #[arg(long, value_name = "PID", conflicts_with = "words")]
    pid: Option<u32>,
    /// Stop recording after this many seconds; a program that was started here is ended then
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = seconds)]
    seconds: Option<f64>,
    /// Record only acquisitions that had to wait, which `predict` and `fix` cannot replay
    #[arg(long, conflicts_with = "pid")]
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

/// A program that ran to its end.
struct Ran {
    status: ExitStatus,
    usage: ChildUsage,
    wall: Duration,
}

/// The command. Its exit code is that of the program.
pub(crate) fn run(args: &RecordArgs) -> Result<ExitCode, Failure> {
    output::ready(args.output.as_deref())?;
    if let Some(pid) = args.pid {
        return attach(args, pid);
    }
    let mut unseen = Vec::new();
    let kernel = args.kernel.unless(args.contended, &mut unseen);
    let mut watching = kernel.watch(&mut unseen)?;
    let sampling = sample(args, watching.is_some(), &mut unseen)?;
    let place = Place::new()?;
    let mut command = launch::command(&args.words, &launch::object()?);
    command.env(DIRECTORY, &place.0);
    if args.contended {
        command.env(CONTENDED, "1");
    }
    args.policies.set(&mut command, &args.words[0])?;
    let before = Surroundings::now();
    let mut looks = Looks::at(&place.0).with(sampling);
    let mut ready = Ready::at(&place.0);
    let mut beside = Beside { watching: &mut watching, looks: &mut looks, ready: &mut ready };
    let ran = execute(command, args, &mut beside)?;
    let cpu_s = (ran.usage.user + ran.usage.system).as_secs_f64();
    let disturbance = before.since(cpu_s);
    let mut processes = raw::read_with(&place.0, &mut looks)?;
    ready.finish(&mut processes);
    let host = describe_host();
    unseen.extend(not_seen(&processes, ran.usage.switches, watching.is_some()));
    if let Some(watching) = watching {
        unseen.extend(watching.finish(&mut processes));
    }
    looks.finish(&mut processes);
    unseen.extend(not_chosen(&processes, args.policies.locks()));
    if args.contended {
        unseen.push(
            "Only acquisitions that had to wait were recorded (--contended): the others were not \
             counted, and their holds not timed."
                .to_owned(),
        );
    }
    let prices_ns = prices(&processes, &mut unseen);
    let program = Program {
        command: args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        ending: ending(ran.status),
        wall_s: ran.wall.as_secs_f64(),
        cpu_s,
        cpus: host.cpus,
        cpu_model: host.cpu,
        kernel: host.kernel,
        date: host.date,
        disturbance,
        mutex: args.policies.mutex(),
        sem: args.policies.sem(),
        locks: args.policies.locks().to_vec(),
        only_contended: args.contended,
        source: String::new(),
        prices_ns,
    };
    keep(args, &Record { recorded: VERSION, program, processes, unseen })?;
    Ok(exit_code(ran.status))
}

/// The exit code of a program, as a shell gives it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let by_signal = || BY_SIGNAL + status.signal().unwrap_or(0);
    ExitCode::from(status.code().unwrap_or_else(by_signal) as u8)
}

/// Begins to sample CPU time, which is all that is left of a program that nothing can be loaded
/// into, unless the kernel is asked.
fn sample(
    args: &RecordArgs,
    is_watched: bool,
    unseen: &mut Vec<String>,
) -> Result<Sampling, Failure> {
    let sampling = Sampling::of_children();
    unseen.extend(sampling.refused.as_ref().map(|reason| {
        format!("Where threads spent CPU time was not sampled: perf_event_open(2): {reason}.")
    }));
    if let Some(reason) = launch::refusal(&args.words[0]) {
        if !is_watched && sampling.refused.is_some() {
            return Err(Failure::usage(format!("nothing would be recorded: {reason}")));
        }
        let (what, cure) = reason.split_once(';').unwrap_or((&reason, ""));
        unseen.push(if is_watched {
            format!("Only what the kernel sees was recorded: {what}.")
        } else {
            format!("Only samples of CPU time were recorded: {what};{cure}.")
        });
    }
    Ok(sampling)
}

/// Looks at a running process.
fn attach(args: &RecordArgs, pid: u32) -> Result<ExitCode, Failure> {
    let refused = |error: AttachError| match error {
        AttachError::None(_) => Failure::usage(error),
        _ => Failure::environment(error),
    };
    let (mut attached, interrupts) = (Attached::new(pid).map_err(refused)?, Interrupts::catch());
    let mut more = Vec::new();
    let mut watching = args.kernel.watch(&mut more)?;
    if let Some(watching) = &watching {
        watching.follow(pid);
    }
    let (before, begin) = (Surroundings::now(), Instant::now());
    let ending = loop {
        let Some(wait) = attached.look() else { break "ended" };
        if let Some(watching) = &mut watching {
            watching.look();
        }
        let left = args.seconds.map(|seconds| seconds - begin.elapsed().as_secs_f64());
        if interrupts.pending() || left.is_some_and(|left| left <= 0.0) {
            break "still running";
        }
        std::thread::sleep(wait.min(Duration::from_millis(200)));
    };
    let (process, mut unseen) = attached.finish();
    unseen.extend(more);
    let mut processes = vec![process];
    if let Some(watching) = watching {
        // It has counted every wait that the look from outside has seen, and the others.
        processes[0].locks.clear();
        processes[0].phases_wait_s.clear();
        unseen = watching.finish(&mut processes);
    }
    let process = &processes[0];
    let host = describe_host();
    let program = Program {
        command: process.command.clone(),
        ending: ending.to_owned(),
        wall_s: process.seconds,
        cpus: host.cpus,
        cpu_model: host.cpu,
        kernel: host.kernel,
        date: host.date,
        disturbance: before.since(0.0),
        source: SOURCE.to_owned(),
        ..Program::default()
    };
    keep(args, &Record { recorded: VERSION, program, processes, unseen })?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps the record and says its first sentence.
fn keep(args: &RecordArgs, record: &Record) -> Result<(), Failure> {
    let common = Common::plain(None, args.quiet);
    let body = serde_json::to_value(record).expect("a record has string keys");
    output::message(&common, &format!("convoy: {}", convoy_explain::verdict(record)));
    for sentence in &record.unseen {
        output::message(&common, &format!("convoy: {sentence}"));
    }
    if let Some(sentence) = record.program.disturbance.sentence() {
        output::message(&common, &format!("convoy: {sentence}"));
    }
    if let Some(path) = &args.output {
        output::file(path, &format!("{body:#}\n"))?;
        output::message(&common, &format!("convoy: more: convoy explain {}", path.display()));
    } else if let Some(mut keeper) = args.store.keeper("record", None) {
        let id = keeper.update(body)?;
        output::message(&common, &format!("convoy: more: convoy explain {id}"));
    }
    Ok(())
}

/// Runs the command to its end. It gets the signals of the terminal itself; one that comes to this
/// process alone is passed on.
fn execute(
    mut command: Command,
    args: &RecordArgs,
    beside: &mut Beside<'_>,
) -> Result<Ran, Failure> {
    let interrupts = Interrupts::catch();
    let begin = Instant::now();
    let child = match beside.watching {
        Some(watching) => watching.with(|| command.spawn()),
        None => command.spawn(),
    };
    let child = child.map_err(|error| cannot_start(&args.words[0], &error))?;
    let seconds = args.seconds.map(Duration::from_secs_f64);
    attend(&child, &interrupts, seconds, beside);
    let waited = wait_with_usage(&child);
    let (status, usage) = waited
        .map_err(|error| Failure::environment(format!("cannot wait for the program: {error}")))?;
    Ok(Ran { status, usage, wall: begin.elapsed() })
}

/// What looks at the program while it runs.
struct Beside<'a> {
    watching: &'a mut Option<Watching>,
    looks: &'a mut Looks,
    ready: &'a mut Ready,
}

/// Waits until the child has ended, and ends it if a signal or the time asks for that.
fn attend(
    child: &Child,
    interrupts: &Interrupts,
    seconds: Option<Duration>,
    beside: &mut Beside<'_>,
) {
    let pid = Pid::from_child(child);
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let mut asked: Option<Instant> = None;
    let (mut over, mut how) = (seconds.map(|most| Instant::now() + most), Signal::TERM);
    loop {
        let mut ends = [PollFd::new(&descriptor, PollFlags::IN)];
        let slow = if beside.watching.is_some() { LOOK } else { SLOW_LOOK };
        let next = beside.looks.look().min(slow);
        beside.ready.look();
        let look = Timespec { tv_sec: 0, tv_nsec: next.subsec_nanos().into() };
        if poll(&mut ends, Some(&look)).is_ok_and(|count| count > 0) {
            return;
        }
        if let Some(watching) = beside.watching.as_mut() {
            watching.look();
        }
        if interrupts.pending() && asked.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            let _gone_already = kill_process(pid, Signal::TERM);
            asked = Some(Instant::now());
        }
        if let Some(end) = over.filter(|end| *end <= Instant::now()) {
            let _gone_already = kill_process(pid, how);
            // Threads that wait for each other hear no signal.
            (over, how) = (Some(end + PATIENCE), Signal::KILL);
        }
    }
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// What switches and wakeups take in this hour, for predictions.
fn prices(processes: &[Process], unseen: &mut Vec<String>) -> BTreeMap<String, Quartiles> {
    if processes.iter().all(|process| process.locks.is_empty()) {
        return BTreeMap::new();
    }
    if is_real_time() {
        // Threads that wait for each other would keep the CPUs from all others, themselves
        // included.
        unseen.push(
            "What wakeups take here is not known: convoy has a priority of real time. Give one to \
             the program alone: convoy record -- chrt -f 1 CMD."
                .to_owned(),
        );
        return BTreeMap::new();
    }
    convoy_calibrate::hour::prices().unwrap_or_else(|error| {
        unseen.push(format!("What wakeups take here is not known: {error}."));
        BTreeMap::new()
    })
}

/// Whether this process runs before all that have no such priority.
fn is_real_time() -> bool {
    /// The policy behind the name of the program, and its numbers: FIFO, round robin, deadline.
    const FIELD: usize = 38;
    const POLICIES: [&str; 3] = ["1", "2", "6"];
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let policy = text.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(FIELD));
    policy.is_some_and(|policy| POLICIES.contains(&policy))
}

/// What the record does not hold, in sentences.
fn not_seen(processes: &[Process], switches: u64, is_watched: bool) -> Vec<String> {
    /// Switches that need no explanation: those of starting and of output.
    const FEW: u64 = 1000;
    let mut all = Vec::new();
    if processes.is_empty() && !is_watched {
        all.push(
            "No process took the recorder in: a script without programs of its own, a program \
             with more rights than its user, or one that clears its environment."
                .to_owned(),
        );
    }
    let sum = |of: fn(&Process) -> u64| processes.iter().map(of).sum::<u64>();
    let (threads, lost) = (sum(|one| one.threads_lost), sum(|one| one.acquisitions_lost));
    if threads > 0 {
        all.push(format!("{threads} threads were not recorded: too many lived at once."));
    }
    if lost > 0 {
        all.push(format!(
            "{lost} acquisitions were not counted: one thread used more than 768 locks and places."
        ));
    }
    if processes.iter().any(|one| one.threads > 0 && !one.sees_switches) {
        all.push("Whether owners were off CPU is not known: libc registers no rseq.".to_owned());
    }
    let links: BTreeSet<_> = processes.iter().flat_map(|one| &one.debug_links).collect();
    all.extend(links.into_iter().map(|(file, link)| {
        format!(
            "{file} has no symbols for places that wait, so they are offsets; its debug data, the \
             file {link}, would name them (in Debian a package that ends in -dbgsym)."
        )
    }));
    let runtimes = processes.iter().flat_map(|one| &one.runtime_locks);
    let unnamed = runtimes.filter(|lock| lock.sites.iter().any(|site| site.place == UNNAMED));
    let conditions = processes.iter().flat_map(|one| &one.locks).flat_map(|lock| &lock.sites);
    // What java.util.concurrent waits for is known by the names of its methods alone.
    let parked =
        conditions.filter(|site| site.wait.count > 0 && site.place.starts_with("Parker::"));
    if unnamed.into_iter().any(|lock| lock.runtime == JAVA) || parked.count() > 0 {
        all.push(
            "Some methods of Java that waited have no names: run java with \
             -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit (17 or later), or `jcmd PID \
             Compiler.perfmap` before it ends. Methods that were interpreted then stay without."
                .to_owned(),
        );
    }
    let waits = |process: &Process| -> u64 {
        let locks = process.locks.iter().chain(&process.runtime_locks);
        locks.flat_map(|lock| &lock.sites).map(|site| site.wait.count).sum()
    };
    let waits: u64 = processes.iter().map(waits).sum();
    if !is_watched && switches > FEW && switches > 4 * waits {
        all.push(format!(
            "The program was switched {switches} times, but waited only {waits} times for what was \
             recorded: the others are input and output, timers, a full machine, or locks that \
             bypass pthread (futex calls of its own)."
        ));
    }
    all
}

/// That no mutex was what `--lock` names.
fn not_chosen(processes: &[Process], locks: &[(String, String)]) -> Option<String> {
    let none = processes.iter().all(|process| process.chosen == 0);
    (none && !locks.is_empty()).then(|| {
        let sites: Vec<&str> = locks.iter().map(|(site, _)| site.as_str()).collect();
        format!(
            "No mutex was made or first taken at {}: all kept their lock. A mutex counts where it \
             is made or first taken; name that place, or all that explain lists for it.",
            sites.join(", ")
        )
    })
}

/// The directory in which processes leave their files; gone when this is dropped.
struct Place(PathBuf);

impl Place {
    /// In memory where that is possible: pages of a disk are written back while the program runs.
    fn new() -> Result<Self, Failure> {
        let name = format!("convoy-record-{}", std::process::id());
        let memory = Path::new("/dev/shm").join(&name);
        let disk = std::env::temp_dir().join(&name);
        let made = std::fs::create_dir(&memory)
            .map(|()| memory)
            .or_else(|_| std::fs::create_dir(&disk).map(|()| disk.clone()));
        let refused = |error| {
            let path = disk.display();
            Failure::environment(format!("cannot make {path}: {error}; set TMPDIR"))
        };
        made.map(Self).map_err(refused)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}
