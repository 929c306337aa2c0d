//! The flags of `convoy run`.

use crate::args::Common;
use crate::keep::StoreArgs;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// `convoy run`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// Native lock experiment, a file such as experiments/semaphore-native.toml
    #[arg(value_name = "EXPERIMENT", conflicts_with_all = ["mix", "kernel"])]
    pub(crate) experiment: Option<PathBuf>,
    /// What to run.
    #[command(flatten)]
    pub(crate) load: Load,
    /// How many users.
    #[command(flatten)]
    pub(crate) points: Points,
    /// How often.
    #[command(flatten)]
    pub(crate) repeats: RepeatArgs,
    /// How on this machine.
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// Run on the virtual machine with this kernel preset instead of on this machine
    #[arg(long, value_name = "PRESET", help_heading = "Virtual machine")]
    pub(crate) kernel: Option<String>,
    /// Machine preset of the virtual machine
    #[arg(long, value_name = "PRESET", default_value = "quad-2008-two-dies", requires = "kernel")]
    #[arg(help_heading = "Virtual machine")]
    pub(crate) machine: String,
    /// Number of CPUs of the virtual machine, instead of the preset's
    #[arg(long, requires = "kernel", help_heading = "Virtual machine")]
    pub(crate) cpus: Option<usize>,
    /// File system of the work directory on the virtual machine
    #[arg(long, value_name = "NAME", default_value = "tmpfs", requires = "kernel")]
    #[arg(help_heading = "Virtual machine")]
    pub(crate) fs: Fs,
    /// Milliseconds of one request to the disk of a file system with a journal; 0 is a RAM disk
    #[arg(long, value_name = "MS", default_value_t = 5.5, requires = "kernel")]
    #[arg(help_heading = "Virtual machine")]
    pub(crate) disk_ms: f64,
    /// Print what the virtual machine did in each interval of this many seconds
    #[arg(long, value_name = "S", requires = "kernel", help_heading = "Virtual machine")]
    pub(crate) timeline: Option<f64>,
    /// What to write.
    #[command(flatten)]
    pub(crate) results: Results,
    /// Where the record goes.
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Flags of every command.
    #[command(flatten)]
    pub(crate) common: Common,
}

/// A file system of the virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fs {
    /// In memory
    Tmpfs,
    /// On a disk, with a journal for its metadata
    Journal,
}

/// What the users run.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Load")]
pub(crate) struct Load {
    /// A shipped mix, or the path of a workfile [default: shared, with --aim9 aim9]
    #[arg(long)]
    pub(crate) mix: Option<String>,
    /// One job only, such as sieve
    #[arg(long, conflicts_with = "mix")]
    pub(crate) job: Option<String>,
    /// Single-user mode: each job alone for a period, in operations per second
    #[arg(long, conflicts_with_all = ["kernel", "users", "start", "end", "repeat", "precise"])]
    pub(crate) aim9: bool,
    /// Period of each job in the single-user mode, seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, requires = "aim9")]
    pub(crate) period: f64,
    /// Jobs per user before rounding [default: 100]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) jobs: Option<u32>,
    /// Whose file sizes: those of the workfile, of 1996, or re-aim's 10K and 1M
    #[arg(long, value_name = "WHOSE")]
    pub(crate) sizes: Option<String>,
    /// Size of a user's file, such as 10K, plus its share of the pool
    #[arg(long, value_name = "SIZE")]
    pub(crate) filesize: Option<String>,
    /// Size that all users' files share, such as 1M
    #[arg(long, value_name = "SIZE")]
    pub(crate) poolsize: Option<String>,
    /// Read a reaim.config (sizes, directories, users, jobs) or AIM7's config; flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// Let the disk jobs call sync where re-aim's do without -y
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) sync: bool,
    /// Let the second shell job sleep for 5 s, as re-aim's does
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) shell_sleep: bool,
    /// Start delay inside Real, seconds
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    pub(crate) start_delay: f64,
    /// Seed of the order of jobs (and of the virtual machine)
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Divide the loop counts of the jobs by this
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) shrink: u32,
}

/// How many users.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Load points")]
pub(crate) struct Points {
    /// Numbers of users: 1,2,10 or 10-100/10 or both [default: 1,2,10]
    #[arg(long, conflicts_with_all = ["start", "end", "increment", "adaptive", "until"])]
    pub(crate) users: Option<String>,
    /// First number of users of a sweep [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) start: Option<u32>,
    /// Last number of users of a sweep [default: 5, or 10000 for a sweep that ends by itself]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) end: Option<u32>,
    /// From one number of users to the next [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) increment: Option<u32>,
    /// Let the increment follow the measurements, by AIM7's rules
    #[arg(long)]
    pub(crate) adaptive: bool,
    /// End the sweep when jobs/min/task has fallen to this [1 if no number is given]
    #[arg(long, value_name = "LIMIT", num_args = 0..=1, default_missing_value = "1")]
    #[arg(group = "until")]
    pub(crate) crossover: Option<f64>,
    /// End the sweep when jobs/min/task has fallen to 60
    #[arg(long, group = "until")]
    pub(crate) quick_crossover: bool,
    /// End the sweep once the peak of Jobs/Min has been passed
    #[arg(long, group = "until")]
    pub(crate) peak: bool,
}

/// How often a point is executed.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Repetition")]
pub(crate) struct RepeatArgs {
    /// Execute each point so often; the columns are means [default: 1, with --precise 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    #[arg(conflicts_with = "kernel")]
    pub(crate) repeat: Option<u32>,
    /// Execute each point so often before, without counting it
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "kernel")]
    pub(crate) warmup: u32,
    /// Execute each point again until its Real adds up to this, seconds
    #[arg(long, value_name = "S", default_value_t = 0.0, conflicts_with = "kernel")]
    pub(crate) min_duration: f64,
    /// Execute each point again until its 95 % interval of Jobs/Min is so narrow: 1% to either side
    #[arg(long, value_name = "PERCENT", conflicts_with = "kernel")]
    pub(crate) precise: Option<String>,
    /// Executions of a point after which --precise gives up
    #[arg(long, value_name = "N", default_value_t = convoy_host::repeat::MOST_REPEATS)]
    #[arg(requires = "precise", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) max_repeats: u32,
}

/// What a run does when a load point fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// The points after it do not run.
    Stop,
    /// The points after it run.
    Continue,
}

/// How a load runs on this machine.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "This machine")]
pub(crate) struct HostArgs {
    /// Directory under which a work directory is made (repeatable: users take them in turn);
    /// default a tmpfs
    #[arg(long, value_name = "DIR", conflicts_with = "kernel")]
    pub(crate) dir: Vec<PathBuf>,
    /// Bind the users to the CPUs, in turn
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) pin: bool,
    /// Whether the points after a failed one run
    #[arg(long, value_enum, default_value = "stop", conflicts_with = "kernel")]
    pub(crate) on_error: OnError,
    /// Run although a limit looks too low
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) force: bool,
    /// Do not measure the jobs alone first, for the measured/predicted ratio
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) no_predict: bool,
}

/// Whose columns the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColumnsOf {
    /// AIM7's.
    Aim7,
    /// re-aim's.
    Reaim,
}

/// What a run writes.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Results")]
pub(crate) struct Results {
    /// Whose columns the table has; JSON and CSV have all
    #[arg(long, value_enum, default_value = "aim7", conflicts_with = "kernel")]
    pub(crate) columns: ColumnsOf,
    /// JTI as AIM7 computes it, negative where the spread is one to two times the mean
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) compat: bool,
    /// Show what each kind of job took
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) per_job: bool,
    /// Write the results as AIM7 (FILE.ss, appended) or re-aim (FILE.csv) does (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) export: Vec<PathBuf>,
    /// Write the curve of Jobs/Min and JTI over the users to FILE.svg, .html or .png (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Vec<PathBuf>,
    /// Write the whole record (jobs, order, host) to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}
