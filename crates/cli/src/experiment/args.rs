//! Flags of the commands that run experiments.

use crate::args::Common;
use crate::keep::StoreArgs;
use crate::presets::Sets;
use clap::Args;
use convoy_lab::sweep::Shard;
use std::path::PathBuf;

/// Which cells of an experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// A shipped experiment, or the path of an experiment file
    #[arg(value_name = "EXPERIMENT", default_value = "semaphore-2008")]
    pub(crate) experiment: String,
    /// Only this grid of the experiment (repeatable)
    #[arg(long, value_name = "GRID")]
    pub(crate) only: Vec<String>,
    /// Run the published size: every point, with all users and all jobs
    #[arg(long, conflicts_with = "scale")]
    pub(crate) full: bool,
    /// Run the quick form that the experiment defines
    #[arg(long, conflicts_with_all = ["scale", "full"])]
    pub(crate) quick: bool,
    /// Divide users and start delay by this instead of the experiment's scale
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) scale: Option<u32>,
    /// Number of seeds, or of rounds of a measurement, instead of the experiment's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: Option<u32>,
    /// First seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only these kernels, presets or files (repeatable)
    #[arg(long, value_name = "PRESET")]
    pub(crate) kernel: Vec<String>,
    /// Machine preset or file instead of the experiment's
    #[arg(long, value_name = "PRESET")]
    pub(crate) machine: Option<String>,
    /// Changes of the presets and of the experiment.
    #[command(flatten)]
    pub(crate) sets: Sets,
    /// Number of parallel simulations [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Write the plot of an experiment that has one to FILE.svg; also writes FILE.csv
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Measure the published rows of `host` on this machine, into an experiment file
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) measure: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) parts: Parts,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// A directory of cells, for experiments that run in parts.
#[derive(Debug, Args)]
pub(crate) struct Parts {
    /// Keep each cell in this directory, and run only those that are missing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["measure", "store", "no_store", "tag"])]
    pub(crate) dir: Option<PathBuf>,
    /// Run only the I-th of N parts of the cells
    #[arg(long, value_name = "I/N", requires = "dir", hide_short_help = true)]
    pub(crate) shard: Option<Shard>,
    /// Copy the cells of another directory, and run only those that are still missing (repeatable)
    #[arg(long, value_name = "DIR", requires = "dir", conflicts_with = "shard")]
    #[arg(hide_short_help = true)]
    pub(crate) merge: Vec<PathBuf>,
}
