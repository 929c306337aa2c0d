//! Flags of `convoy bisect`.

use crate::args::{Common, named};
use crate::keep::StoreArgs;
use crate::metric::{CpuList, MetricArgs};
use clap::{Args, Subcommand};
use convoy_measure::bisect::Layout;
use std::ffi::OsString;
use std::path::PathBuf;

/// Ends that git has marked.
#[derive(Debug, Subcommand)]
pub(crate) enum Marked {
    /// Measure this command between the commits that `git bisect` has marked
    // An example of the short help has it.
    #[command(hide = true)]
    Run {
        /// Command to measure, with its arguments
        #[arg(required = true, trailing_var_arg = true)]
        #[arg(value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, disable_help_subcommand = true)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Bisect {
    /// Where the ends come from, if not from flags.
    #[command(subcommand)]
    pub(crate) marked: Option<Marked>,
    /// Command to measure, run in the work tree of a commit
    #[arg(value_name = "COMMAND", last = true, required_unless_present_any = ["resume", "dry_run"])]
    pub(crate) command: Vec<OsString>,
    /// A good revision
    #[arg(long, value_name = "REV", required_unless_present = "resume")]
    pub(crate) good: Option<String>,
    /// A bad revision
    #[arg(long, value_name = "REV", required_unless_present = "resume")]
    pub(crate) bad: Option<String>,
    /// The repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) repo: PathBuf,
    /// Shell command that builds a commit in its work tree; a non-zero exit status skips it
    #[arg(long, value_name = "CMD")]
    pub(crate) build: Option<String>,
    #[command(flatten)]
    pub(crate) metric: MetricArgs,
    /// Probability of the answer at which the search ends
    #[arg(long, value_name = "P", default_value_t = 0.99)]
    #[arg(hide_short_help = true)]
    pub(crate) confidence: f64,
    /// Only a decrease of the metric is a regression, as of jobs per minute
    #[arg(long, conflicts_with = "lower_is_better")]
    pub(crate) higher_is_better: bool,
    /// Only an increase of the metric is a regression, for example of time (the default for time
    /// and usage)
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub(crate) lower_is_better: bool,
    /// Smallest difference between the two ends that counts as a regression, percent of the good
    /// end
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    #[arg(hide_short_help = true)]
    pub(crate) min_effect: f64,
    /// Kill a run after this many seconds; it counts as slower than this for wall time, and as
    /// failed for other metrics
    #[arg(long, value_name = "S")]
    pub(crate) timeout: Option<f64>,
    /// Kill a build after this many seconds and skip its commit
    #[arg(long, value_name = "S")]
    #[arg(hide_short_help = true)]
    pub(crate) build_timeout: Option<f64>,
    /// Number of retries of a failed run before its commit is skipped
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(hide_short_help = true)]
    pub(crate) retries: u32,
    /// Maximum number of runs [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_runs: Option<u32>,
    /// Maximum number of builds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    #[arg(hide_short_help = true)]
    pub(crate) max_builds: Option<u32>,
    /// Follow only the first parent of merges: the answer may be a merge
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub(crate) first_parent: bool,
    /// Suspect only commits that change this path (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<String>,
    /// Suspect all commits, and commits that change a --path this many times as strongly
    #[arg(long, value_name = "W", requires = "path")]
    #[arg(hide_short_help = true)]
    pub(crate) path_weight: Option<f64>,
    /// Cost of a build in runs; default measured at the ends
    #[arg(long, value_name = "RUNS")]
    #[arg(hide_short_help = true)]
    pub(crate) build_cost: Option<f64>,
    /// How the memory layout of a program shifts its measurements. same: each commit has one shift,
    /// however often it is built, and its neighbours are run where that shift could pass for the
    /// change; shifts: the same for programs with frequent shifts (more runs); new: each build has
    /// a new shift, as after a boot; none: no shifts
    #[arg(long, value_name = "KIND", default_value = "same")]
    #[arg(value_parser = named(Layout::NAMES), hide_short_help = true)]
    pub(crate) layout: Layout,
    /// Maximum number of builds kept on disk
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    #[arg(hide_short_help = true)]
    pub(crate) keep_builds: u32,
    /// Keep untracked files of the previous build in a work tree: faster, at the risk of stale
    /// files
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub(crate) incremental: bool,
    /// Number of parallel jobs of a build; sets the environment variables of make, cargo and cmake
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    #[arg(hide_short_help = true)]
    pub(crate) jobs: Option<u32>,
    /// Pin runs to these CPUs: 2,3 or 4-7
    #[arg(long, value_name = "LIST")]
    #[arg(hide_short_help = true)]
    pub(crate) cpus: Option<CpuList>,
    /// Number of pairs of runs that confirm the answer, each the first bad commit and its parent in
    /// random order; 0: no confirmation, even if other programs used the machine
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(hide_short_help = true)]
    pub(crate) confirm: u32,
    /// Directory of the log and the builds [default: named after the repository, in the user's
    /// cache]
    #[arg(long, value_name = "DIR")]
    #[arg(hide_short_help = true)]
    pub(crate) state: Option<PathBuf>,
    /// Continue the search in the state directory, with its settings
    #[arg(long, conflicts_with_all = ["good", "bad", "build", "command", "restart", "dry_run"])]
    pub(crate) resume: bool,
    /// Discard an unfinished search in the state directory
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub(crate) restart: bool,
    /// Only print the number of commits and the expected number of runs
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seed of the order of confirming runs and of the random environment size of each run
    #[arg(long, default_value_t = 1)]
    #[arg(hide_short_help = true)]
    pub(crate) seed: u64,
    /// Write the measured values and the posterior over the history to this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
