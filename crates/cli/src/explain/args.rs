//! Flags of `convoy explain`, and the files that they ask for.

use super::find::parser;
use crate::args::Common;
use crate::fail::Failure;
use crate::keep::STORE_HELP;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use convoy_report::ExplainReport;
use convoy_store::LAST;
use std::path::PathBuf;
use std::process::ExitCode;

/// The formats of a flame graph.
pub(super) const FLAMES: [&str; 2] = ["svg", "html"];

#[derive(Debug, Default, Args)]
pub(crate) struct Explain {
    /// A file of convoy record or of perf, an experiment, the number of a stored run, or `@TAG`
    #[arg(value_name = "RUN", value_parser = parser(), default_value = LAST)]
    pub(crate) run: String,
    /// Every lock, call site, cause and table, not the first screen alone
    #[arg(long)]
    pub(crate) all: bool,
    /// Only this grid of the experiment
    #[arg(long, value_name = "GRID")]
    pub(crate) only: Option<String>,
    /// Only the cells with this label on this axis (repeatable)
    #[arg(long, value_name = "AXIS=LABEL")]
    pub(crate) at: Vec<String>,
    /// Changes of the presets, in addition to the changes of the run.
    #[command(flatten)]
    pub(crate) sets: Sets,
    /// Kernel preset; of a stored run only if it has several
    #[arg(long, value_name = "PRESET")]
    pub(crate) kernel: Option<String>,
    /// Number of users [default: as in the experiment or the stored run]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) users: Option<u32>,
    /// Number of CPUs instead of the machine preset's
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<usize>,
    /// Machine preset instead of the run's
    #[arg(long, value_name = "PRESET")]
    pub(crate) machine: Option<String>,
    /// Seed instead of the run's
    #[arg(long, hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// Divide the loop counts of the jobs by this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    #[arg(hide_short_help = true)]
    pub(crate) shrink: Option<u32>,
    /// Write a Perfetto trace: threads, releases and the waits that they ended
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(crate) trace: Option<PathBuf>,
    /// Largest size of the trace
    #[arg(long, value_name = "MB", default_value_t = 50, help_heading = "Files")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4000))]
    #[arg(hide_short_help = true)]
    pub(crate) trace_limit: u32,
    /// Of a record: write a profile for the Firefox Profiler
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(crate) firefox: Option<PathBuf>,
    /// Write the waiting time of tasks as folded stacks, in microseconds
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(crate) folded: Option<PathBuf>,
    /// Write them as a profile for `go tool pprof`
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(crate) pprof: Option<PathBuf>,
    /// Write them as a flame graph, FILE.svg or FILE.html
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pub(crate) flame: Option<PathBuf>,
    /// Resolve symbols of files that no longer existed from copies or debug data: in this
    /// directory, or `debuginfod` for the servers in `DEBUGINFOD_URLS` (calls debuginfod-find)
    #[arg(long, value_name = "DIR", help_heading = "Files", hide_short_help = true)]
    pub(crate) symbols: Option<PathBuf>,
    /// The store of a stored run.
    #[arg(long, value_name = "FILE", help = STORE_HELP)]
    #[arg(hide_short_help = true)]
    pub(crate) store: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Explain {
    /// Only records of programs have a profile.
    pub(super) fn fits_simulations(&self) -> Result<(), Failure> {
        let Some(path) = &self.firefox else { return Ok(()) };
        Err(Failure::usage(format!(
            "--firefox {}: only records of programs have a profile; use --trace or --flame",
            path.display()
        )))
    }

    /// Prints one screen of the report of a simulation, or all of it.
    pub(super) fn print(&self, report: &ExplainReport) -> Result<ExitCode, Failure> {
        let text = || if self.all { report.to_text() } else { report.to_screen() };
        output::print(&self.common, text, || report.to_json(), || report.to_csv())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Every file that is to be written can be, asked before the run.
    pub(super) fn ready(&self) -> Result<(), Failure> {
        output::ready(self.common.output.as_deref())?;
        if let Some(path) = &self.flame {
            output::format_of("--flame", path, &FLAMES)?;
        }
        for path in [&self.trace, &self.firefox, &self.folded, &self.pprof, &self.flame] {
            output::ready(path.as_deref())?;
        }
        Ok(())
    }
}
