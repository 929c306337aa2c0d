//! The flags of `convoy run`.

use crate::args::Common;
use crate::keep::StoreArgs;
use crate::load::control::Sweep;
use crate::load::{Load, Points, Results};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) load: Load,
    #[command(flatten)]
    pub(crate) points: Points,
    #[command(flatten)]
    pub(crate) sweep: Sweep,
    #[command(flatten)]
    pub(crate) repeats: RepeatArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) results: HostResults,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// How often a point is executed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repetition")]
pub(crate) struct RepeatArgs {
    /// Runs of each point; their means are shown [default: 1, with --precise 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: Option<u32>,
    /// Number of warm-up runs of each point
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    pub(crate) warmup: u32,
    /// Repeat each point until its Real times add up to this, seconds
    #[arg(long, value_name = "S", default_value_t = 0.0, hide_short_help = true)]
    pub(crate) min_duration: f64,
    /// Repeat each point until Jobs/Min is known to within this, such as 1%
    #[arg(long, value_name = "PERCENT")]
    pub(crate) precise: Option<String>,
    /// Maximum number of runs of a point with --precise
    #[arg(long, value_name = "N", default_value_t = convoy_host::repeat::MOST_REPEATS)]
    #[arg(requires = "precise", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    #[arg(hide_short_help = true)]
    pub(crate) max_repeats: u32,
}

/// Reaction to a load point that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Do not run the remaining points.
    Stop,
    /// Run the remaining points.
    Continue,
}

/// How a load runs on this machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "This machine")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct HostArgs {
    /// Directory for the work directory (repeatable: users are spread over them) [default: a tmpfs]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Vec<PathBuf>,
    /// Let the disk jobs call sync where re-aim's do without -y
    #[arg(long, hide_short_help = true)]
    pub(crate) sync: bool,
    /// Pin each user to a CPU, in turn
    #[arg(long)]
    pub(crate) pin: bool,
    /// Whether to continue after a failed point
    #[arg(long, value_enum, default_value = "stop", hide_short_help = true)]
    pub(crate) on_error: OnError,
    /// Run even if a limit of the system seems too low
    #[arg(long, hide_short_help = true)]
    pub(crate) force: bool,
    /// Do not measure the jobs alone first, for the measured/predicted ratio
    #[arg(long, hide_short_help = true)]
    pub(crate) no_predict: bool,
}

/// The output of a run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct HostResults {
    /// Print JTI as AIM7 computes it, negative where the spread is one to two times the mean
    #[arg(long, hide_short_help = true)]
    pub(crate) compat: bool,
    /// Show the time of each kind of job
    #[arg(long)]
    pub(crate) per_job: bool,
    #[command(flatten)]
    pub(crate) files: Results,
}
