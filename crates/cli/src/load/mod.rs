//! Parts of a load that are common to all targets: flags, mix, results.

pub(crate) mod control;
mod results;

use clap::Args;
use std::path::PathBuf;

/// The load of the users.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct Load {
    /// A shipped mix, or the path of a workfile [default: shared]
    #[arg(long)]
    pub(crate) mix: Option<String>,
    /// Run only this job, such as sieve
    #[arg(long, conflicts_with = "mix")]
    pub(crate) job: Option<String>,
    /// Jobs per user before rounding [default: 100]
    #[arg(long, value_name = "N", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) jobs: Option<u32>,
    /// Jobs and sizes of 1996 (AIM7) or of re-aim [default: 1996]
    #[arg(long, value_name = "WHOSE")]
    pub(crate) dialect: Option<String>,
    /// File sizes of the workfile, of 1996, or of re-aim (10K and 1M)
    #[arg(long, value_name = "WHOSE", hide_short_help = true)]
    pub(crate) sizes: Option<String>,
    /// Size of a user's file, such as 10K, plus its share of the pool
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) filesize: Option<String>,
    /// Size that all users' files share, such as 1M
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) poolsize: Option<String>,
    /// Start delay inside Real, seconds
    #[arg(long, value_name = "S", default_value_t = 0.0, hide_short_help = true)]
    pub(crate) start_delay: f64,
    /// Seed of the order of jobs (and of the virtual machine)
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Run only the first N jobs of each user: the same mix, shorter
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) first: Option<u32>,
    /// Divide the loop counts of the jobs by this. The mix changes, because work without a loop
    /// (processes, names) stays
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) shrink: u32,
    /// Let the second shell job sleep for 5 s, as re-aim's does
    #[arg(long, hide_short_help = true)]
    pub(crate) shell_sleep: bool,
}

/// How many users.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load points")]
pub(crate) struct Points {
    /// Numbers of users: 1,2,10 or 10-100/10 or both [default: 1,2,10]
    #[arg(long, value_name = "LIST", conflicts_with_all = ["start", "end", "increment"])]
    pub(crate) users: Option<String>,
    /// First number of users of a sweep [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(hide_short_help = true)]
    pub(crate) start: Option<u32>,
    /// Last number of users of a sweep [default: 5, or 10000 for a sweep that ends by itself]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(hide_short_help = true)]
    pub(crate) end: Option<u32>,
    /// Increment of the number of users [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(hide_short_help = true)]
    pub(crate) increment: Option<u32>,
}

/// Files that a load writes in addition to its output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct Results {
    /// Write the curve over the users to FILE.svg or .html (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Vec<PathBuf>,
    /// Write the whole record, inputs and results, to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}
