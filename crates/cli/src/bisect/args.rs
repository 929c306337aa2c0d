//! Flags of `convoy bisect`.

use crate::args::Common;
use crate::keep::StoreArgs;
use crate::metric::{CpuList, MetricArgs};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
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
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        #[arg(value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

/// `convoy bisect`.
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
    /// A revision that is good
    #[arg(long, value_name = "REV", required_unless_present = "resume")]
    pub(crate) good: Option<String>,
    /// A revision that is bad
    #[arg(long, value_name = "REV", required_unless_present = "resume")]
    pub(crate) bad: Option<String>,
    /// The repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) repo: PathBuf,
    /// Shell command that builds a commit in its work tree; a non-zero exit status skips it
    #[arg(long, value_name = "CMD")]
    pub(crate) build: Option<String>,
    /// The measured value.
    #[command(flatten)]
    pub(crate) metric: MetricArgs,
    /// Probability of the answer at which the search ends
    #[arg(long, value_name = "P", default_value_t = 0.99)]
    #[arg(hide_short_help = true)]
    pub(crate) confidence: f64,
    /// Only a fall of the metric is a regression, as of jobs per minute
    #[arg(long, conflicts_with = "lower_is_better")]
    pub(crate) higher_is_better: bool,
    /// Only a rise of the metric is a regression, as of time (the default for time and usage)
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub(crate) lower_is_better: bool,
    /// Smallest difference of the ends that counts as a regression, percent of the good end
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    #[arg(hide_short_help = true)]
    pub(crate) min_effect: f64,
    /// Kill a run after this many seconds: a wall time above it, of other metrics a failed run
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
    /// Largest number of runs [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_runs: Option<u32>,
    /// Largest number of builds
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
    /// Suspect all commits, those that change a --path this many times as much
    #[arg(long, value_name = "W", requires = "path")]
    #[arg(hide_short_help = true)]
    pub(crate) path_weight: Option<f64>,
    /// Cost of a build in runs; default measured at the ends
    #[arg(long, value_name = "RUNS")]
    #[arg(hide_short_help = true)]
    pub(crate) build_cost: Option<f64>,
    /// Effect of rebuilding a commit. same: the same program; its layout may set it apart
    /// from the commits around it, which are run where that may pass for the change; shifts: the
    /// same where that is likely (more runs); new: a new layout, as a boot does; none: no shifts
    #[arg(long, value_name = "KIND", default_value = "same")]
    #[arg(value_parser = PossibleValuesParser::new(Layout::NAMES.map(|(name, _)| name))
        .map(|name| Layout::named(&name).unwrap_or(Layout::Same)))]
    #[arg(hide_short_help = true)]
    pub(crate) layout: Layout,
    /// Builds kept on disk at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    #[arg(hide_short_help = true)]
    pub(crate) keep_builds: u32,
    /// Keep untracked files of the build before in a work tree: faster, at the risk of stale files
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub(crate) incremental: bool,
    /// Jobs at a time within a build, for make, cargo and cmake, by their environment variables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    #[arg(hide_short_help = true)]
    pub(crate) jobs: Option<u32>,
    /// CPUs that runs are pinned to: 2,3 or 4-7
    #[arg(long, value_name = "LIST")]
    #[arg(hide_short_help = true)]
    pub(crate) cpus: Option<CpuList>,
    /// Pairs of runs, first bad commit against its parent in random order, that confirm the answer;
    /// 0: none, also where other programs used the machine
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(hide_short_help = true)]
    pub(crate) confirm: u32,
    /// Where log and builds are; default a directory of the repository's name in the user's cache
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
    /// Only say how many commits there are and how many runs to expect
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seed of the order of confirming runs and of the random environment size of each run
    #[arg(long, default_value_t = 1)]
    #[arg(hide_short_help = true)]
    pub(crate) seed: u64,
    /// Write the measured values and the posterior over the history to this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Flags of every command.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Where the record goes.
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
