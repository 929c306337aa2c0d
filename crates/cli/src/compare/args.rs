//! Flags of `convoy compare`.

use crate::args::{Common, named};
use crate::keep::StoreArgs;
use crate::metric::{CpuList, MetricArgs};
use clap::Args;
use convoy_measure::compare::{SETTINGS, Warmup};
use convoy_report::CompareLayout;
use convoy_stats::{Correction, Interval};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Compare {
    /// The baseline, then the candidates: commands in quotes, stored runs (@12, @tag) or files; or
    /// two records of programs
    ///
    /// Of two records, the waiting by lock before a change and after it. Otherwise a side is a
    /// command line in quotes; a `convoy run`, `sim` or `reproduce` line; a stored run (@12, @tag,
    /// @12#side); or a file: hyperfine JSON, criterion's sample.json or its folder, Go benchmark
    /// text, reaim.csv, suite7.ss, AIM7's log of jobs, what AIM7 or re-aim prints, a record of
    /// `convoy run` (every execution of a point counts). One file alone may hold several sides.
    #[arg(value_name = "BASELINE CANDIDATE", required = true, num_args = 1..)]
    pub(crate) operands: Vec<String>,
    /// Name of a side in tables, in the order of the sides (repeatable)
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Runs of each side [default: as many as the verdict needs]
    #[arg(long, short = 'r', value_name = "N", conflicts_with = "max_runs")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) runs: Option<u32>,
    /// Maximum number of runs of each side [default: 100, and more if these take less than 10 s]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_runs: Option<u32>,
    /// Maximum duration of the measurement, seconds
    #[arg(long, value_name = "S")]
    #[arg(hide_short_help = true)]
    pub(crate) max_time: Option<f64>,
    /// Warm-up runs of each side; auto: until stable
    #[arg(long, short = 'w', value_name = "N|auto", default_value = "auto", value_parser = warmup)]
    pub(crate) warmup: Warmup,
    /// Command to run before each measured run
    #[arg(long, short = 'p', value_name = "CMD")]
    #[arg(hide_short_help = true)]
    pub(crate) prepare: Option<String>,
    /// Run the commands on these CPUs only: 1 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    #[arg(hide_short_help = true)]
    pub(crate) pin: Option<CpuList>,
    /// Kill a run that takes longer than this, seconds, and count it as failed
    #[arg(long, value_name = "S")]
    #[arg(hide_short_help = true)]
    pub(crate) timeout: Option<f64>,
    /// Run the commands directly, without a shell
    #[arg(long, short = 'N')]
    #[arg(hide_short_help = true)]
    pub(crate) no_shell: bool,
    /// Leave out failed runs, and count them, instead of stopping at the first
    #[arg(long, short = 'i')]
    #[arg(hide_short_help = true)]
    pub(crate) ignore_failure: bool,
    /// Compare records although they differ in these settings
    #[arg(long, value_name = "SETTING", value_delimiter = ',', value_parser = SETTINGS)]
    #[arg(hide_short_help = true)]
    pub(crate) across: Vec<String>,
    /// Also compare the baseline with itself, to show what noise does
    #[arg(long)]
    pub(crate) aa: bool,
    /// Larger values are better (default for rates and jobs/min)
    #[arg(long)]
    pub(crate) higher_is_better: bool,
    #[command(flatten)]
    pub(crate) metric: MetricArgs,
    /// Differences up to this do not matter, percent [default: 1%, up to 10% where 1% is not shown]
    #[arg(long, visible_alias = "threshold", value_name = "PERCENT", value_parser = percent)]
    pub(crate) same_within: Option<f64>,
    /// Before an early end with `faster` or `same`, make enough runs to observe slow outliers that
    /// are at least this share of all runs, percent: 5% takes 59 runs, 50% takes 5
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    #[arg(hide_short_help = true)]
    pub(crate) tail: f64,
    /// Significance level: chance to call equal sides different
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    #[arg(hide_short_help = true)]
    pub(crate) alpha: f64,
    /// Intervals of means and speedups: Student's t, or the normal z that older papers use
    #[arg(long, value_name = "KIND", default_value = "t", value_parser = named(INTERVALS))]
    #[arg(hide_short_help = true)]
    pub(crate) ci: Interval,
    /// Correction of p-values for the number of comparisons in the table: Benjamini and Hochberg's
    /// limits the share of false claims, Holm's the chance of any
    #[arg(long, value_name = "KIND", default_value = "bh", value_parser = named(CORRECTIONS))]
    #[arg(hide_short_help = true)]
    pub(crate) correction: Correction,
    /// A line for each side; the papers' table; or workloads by ranges of users
    #[arg(long, value_name = "FORM", default_value = "list", value_parser = named(LAYOUTS))]
    #[arg(hide_short_help = true)]
    pub(crate) layout: CompareLayout,
    /// Ranges of users of `--layout ranges`
    #[arg(long, value_name = "LIST", default_value = "10-100,200-1000,1100-2000")]
    #[arg(hide_short_help = true)]
    pub(crate) ranges: String,
    /// Exit with 1 only if a candidate is slower by this much: slower:3%
    #[arg(long, value_name = "slower:PERCENT", value_parser = fail_if)]
    pub(crate) fail_if: Option<f64>,
    /// Draw the distributions of all sides, FILE.svg
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Seed of the order of runs [default: random; 1 if all sides are simulations]
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// `auto` or a number of runs.
fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "auto" {
        return Ok(Warmup::Auto);
    }
    let blocks = text.parse::<u32>().ok().filter(|blocks| *blocks <= 10_000);
    blocks.map(Warmup::Blocks).ok_or_else(|| "auto or a number of runs up to 10000".to_owned())
}

const INTERVALS: &[(&str, Interval)] = &[("t", Interval::T), ("z", Interval::Z)];
const CORRECTIONS: &[(&str, Correction)] = &[
    ("bh", Correction::BenjaminiHochberg),
    ("holm", Correction::Holm),
    ("none", Correction::None),
];
const LAYOUTS: &[(&str, CompareLayout)] = &[
    ("list", CompareLayout::List),
    ("document", CompareLayout::Document),
    ("ranges", CompareLayout::Ranges),
];

/// `1%` or `1` as 0.01.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    let good = number.ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
    good.map(|percent| percent / 100.0)
        .ok_or_else(|| "a percentage above 0 and up to 100, such as 1%".to_owned())
}

/// `slower:3%` as 0.03.
fn fail_if(text: &str) -> Result<f64, String> {
    let share = text.strip_prefix("slower:").map(percent);
    share.unwrap_or_else(|| Err("slower: and a percentage, such as slower:3%".to_owned()))
}

/// `10-100,200-1000` as pairs.
pub(crate) fn ranges(text: &str) -> Option<Vec<[u32; 2]>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = [first.trim().parse().ok()?, last.trim().parse().ok()?];
        (range[0] <= range[1]).then_some(range)
    };
    text.split(',').map(range).collect()
}
