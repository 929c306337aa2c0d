//! Flags that choose the metric of a command and its CPUs.

use crate::args::named;
use clap::Args;
use convoy_measure::{MetricChoice, Resource, cpus};
use std::str::FromStr;

/// Flags that choose the metric.
#[derive(Clone, Debug, Args)]
pub(crate) struct MetricArgs {
    /// The measured value: seconds, bytes (rss) or a count (switches)
    #[arg(long, default_value = "wall", value_name = "NAME")]
    #[arg(value_parser = named(Resource::NAMES))]
    metric: Resource,
    /// Last number on standard output that matches this pattern: group 1, or all
    #[arg(long, value_name = "RE", conflicts_with = "metric")]
    metric_regex: Option<String>,
    /// Number in the last JSON document on standard output, such as jobs.0.real
    #[arg(long, value_name = "PATH", conflicts_with_all = ["metric", "metric_regex"])]
    metric_json: Option<String>,
    /// Unit of a number that the command prints, for tables and plots
    #[arg(long, value_name = "UNIT")]
    #[arg(hide_short_help = true)]
    unit: Option<String>,
}

impl MetricArgs {
    /// The metric that the flags select.
    pub(crate) fn choice(&self) -> MetricChoice {
        MetricChoice {
            resource: self.metric,
            regex: self.metric_regex.clone(),
            json: self.metric_json.clone(),
            unit: self.unit.clone(),
        }
    }

    /// Whether the command prints the number.
    pub(crate) fn is_printed(&self) -> bool {
        self.metric_regex.is_some() || self.metric_json.is_some()
    }
}

/// A list of CPUs such as `0,2-3`.
#[derive(Clone, Debug)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        cpus(list).map(Self)
    }
}
