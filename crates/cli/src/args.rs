//! Flags that commands share.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use convoy_workload::list::{ListError, list};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A list of whole numbers: `1,2,10`, ranges `10-100/10`, or both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(pub(crate) Vec<u32>);

/// The parser of a list of numbers in `range`.
pub(crate) fn numbers(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<Numbers, ListError> + Clone + Send + Sync + 'static {
    move |text| list("list", text, &range).map(Numbers)
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For pull requests.
    Markdown,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Common {
    /// Format of results
    #[arg(long, value_enum, default_value = "table", hide_default_value = true)]
    #[arg(help_heading = "Output")]
    pub(crate) format: Format,
    /// Write results to a file instead of standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

impl Common {
    /// The flags of a command that has no table.
    pub(crate) fn plain(output: Option<PathBuf>, quiet: bool) -> Self {
        Self { format: Format::Table, output, quiet }
    }
}

/// The parser of a name that stands for a value.
pub(crate) fn named<T: Copy + Send + Sync + 'static>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.iter().map(|(name, _)| *name));
    names.map(|text| {
        let value = values.iter().find(|(name, _)| *name == text);
        value.expect("the parser lets only these through").1
    })
}
