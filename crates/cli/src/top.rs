//! `convoy top`: the locks of running processes, live.

use crate::args::{Common, Format};
use crate::fail::Failure;
use crate::keep::{StoreArgs, arguments};
use crate::look;
use crate::output;
use crate::record::{
    Destination, Java, Kernel, keep, observed, raise_descriptors, ready, refused, seen,
};
use clap::Args;
use convoy_live::{Ending, Endpoint, Observer, Refreshes, Screen, is_loopback};
use convoy_os::{Interrupts, Surroundings};
use convoy_record::Program;
use convoy_record::outside::Outside;
use convoy_report::TopReport;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub(crate) struct Top {
    /// A program to start and watch, and its arguments, after `--`
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    words: Vec<OsString>,
    /// Watch a running process and its children [default: all processes]
    #[arg(long, short, value_name = "PID", conflicts_with = "words")]
    pid: Option<u32>,
    /// Watch all processes of a control group in /sys/fs/cgroup
    #[arg(long, value_name = "PATH", conflicts_with_all = ["words", "pid"])]
    cgroup: Option<PathBuf>,
    /// Time between two refreshes
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: f64,
    /// Length of the time that is shown and diagnosed
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    window: f64,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Print one window and end, as without a terminal
    #[arg(long, conflicts_with = "seconds")]
    once: bool,
    /// Answer dashboards under /metrics at an address of this machine alone
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once", value_parser = loopback)]
    serve: Option<SocketAddr>,
    /// Store what was seen at the end, for `convoy explain`
    #[arg(long, conflicts_with = "once")]
    record: bool,
    /// Also count kernel events (needs root); auto: not for all processes of the machine
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Kernel::Auto)]
    #[arg(hide_possible_values = true)]
    kernel: Kernel,
    /// Take thread dumps of Java processes (auto or off)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Java::Auto)]
    #[arg(hide_possible_values = true)]
    java: Java,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    store: StoreArgs,
}

impl Top {
    fn destination(&self) -> Destination<'_> {
        Destination { output: None, quiet: self.common.quiet, store: &self.store, left_out: 0 }
    }

    /// The observed command, as the record has it.
    fn command(&self) -> Vec<String> {
        match (self.pid, &self.cgroup) {
            (Some(pid), _) => convoy_os::process::command(pid),
            (None, Some(path)) => vec!["--cgroup".to_owned(), path.display().to_string()],
            (None, None) if self.words.is_empty() => vec!["all processes".to_owned()],
            (None, None) => {
                self.words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
            }
        }
    }
}

pub(crate) fn run(args: &Top) -> Result<ExitCode, Failure> {
    if args.record {
        ready(args.destination())?;
    }
    let has_screen = std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal()
        && args.common.output.is_none()
        && args.common.format == Format::Table
        && !args.once;
    let is_once = !has_screen && args.serve.is_none() && !args.record;
    let endpoint = args.serve.map(Endpoint::open).transpose().map_err(|error| {
        Failure::environment(format!("cannot listen: {error}; name another port with --serve"))
    })?;
    let interrupts = Interrupts::catch();
    let mut started = start(args, has_screen)?;
    raise_descriptors();
    let outside = match (started.as_ref().map(Started::id).or(args.pid), &args.cgroup) {
        (Some(pid), _) => Outside::process(pid),
        (None, Some(path)) => Outside::group(path),
        (None, None) => Outside::machine(),
    };
    let (outside, missing) = backends(args, outside.map_err(refused)?)?;
    let window = Duration::from_secs_f64(args.window);
    let refreshes = Refreshes {
        interval: if is_once { window } else { Duration::from_secs_f64(args.interval) },
        window,
        limit: if is_once { Some(window) } else { args.seconds.map(Duration::from_secs_f64) },
        is_kept: args.record || is_once,
    };
    let before = Surroundings::now();
    let program = observed(args.command());
    let mut observer = Observer::new(outside, program.clone(), missing, refreshes);
    if let Some(endpoint) = &endpoint {
        output::message(&args.common, &format!("convoy: http://{}/metrics", endpoint.address()));
    }
    let screen = has_screen.then(|| Screen::open(look::alphabet)).transpose();
    let mut screen = screen.map_err(|error| terminal(&error))?;
    let ending = observer.run(screen.as_mut(), endpoint.as_ref(), || interrupts.pending());
    drop(screen);
    let ending = ending.map_err(|error| terminal(&error))?;
    if args.record {
        record(args, observer, program, ending, &before)?;
    } else if is_once && !interrupts.pending() {
        let report = match ending {
            Ending::Exited => observer.into_report(),
            Ending::Asked => observer.report(false),
        };
        let [text, json, csv] = [TopReport::to_text, TopReport::to_json, TopReport::to_csv];
        output::print(&args.common, || text(&report), || json(&report), || csv(&report))?;
    }
    Ok(match (ending, started.as_mut()) {
        (Ending::Exited, Some(Started(child))) => {
            child.wait().map_or(ExitCode::SUCCESS, crate::record::exit_code)
        }
        _ => ExitCode::SUCCESS,
    })
}

/// A program that this command started, and ends.
struct Started(Child);

impl Started {
    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ended_already = kill_process(Pid::from_child(&self.0), Signal::TERM);
            let _ended_already = self.0.wait();
        }
    }
}

/// Adds kernel events and thread dumps to the samples. Returns sentences about what is missing.
fn backends(args: &Top, outside: Outside) -> Result<(Outside, Vec<String>), Failure> {
    let mut missing = Vec::new();
    // Events of all processes would cost more than samples of them.
    let is_machine = args.words.is_empty() && args.pid.is_none() && args.cgroup.is_none();
    let kernel = match args.kernel {
        Kernel::Auto if is_machine => Kernel::Off,
        kernel => kernel,
    };
    let java = if is_machine { Java::Off } else { args.java };
    let outside = outside.with_dumps(java.start_lasting(&mut missing));
    let outside = outside.with_kernel(kernel.watch(&mut missing)?);
    Ok((outside, missing))
}

fn terminal(error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot use the terminal: {error}; use --once"))
}

/// Starts the program of the command line, if there is one. The screen has the terminal, so the
/// output of the program is not shown there.
fn start(args: &Top, has_screen: bool) -> Result<Option<Started>, Failure> {
    let Some((program, words)) = args.words.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    command.args(words);
    if has_screen {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    } else {
        command.stdout(std::io::stderr());
    }
    let child = command.spawn().map_err(|error| Failure::start(program, &error))?;
    Ok(Some(Started(child)))
}

/// Keeps what was seen as a record.
fn record(
    args: &Top,
    observer: Observer,
    program: Program,
    ending: Ending,
    before: &Surroundings,
) -> Result<(), Failure> {
    let ending = if ending == Ending::Exited { "ended" } else { "still running" };
    let record = seen(program, ending, observer.finish(), before);
    if keep(args.destination(), &record, arguments()) {
        return Ok(());
    }
    Err(Failure::environment("the record could be written nowhere; name a place: --store FILE"))
}

/// A length of time.
fn seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 86_400.0;
    let value = text.parse().ok().filter(|value| (0.1..=MOST).contains(value));
    value.ok_or_else(|| format!("not a time between 0.1 and {MOST} s"))
}

/// An address that only this machine can reach.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok().filter(|address| is_loopback(*address));
    address.ok_or_else(|| "not an address of this machine alone, such as 127.0.0.1:9184".to_owned())
}
