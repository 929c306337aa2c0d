//! The results of a load: printed, recorded, drawn.

use super::Results;
use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use convoy_report::RunReport;

const PLOTS: [&str; 2] = ["svg", "html"];

/// Every file that is to be written can be, asked before the run.
pub(crate) fn check(common: &Common, results: &Results) -> Result<(), Failure> {
    output::ready(common.output.as_deref())?;
    output::ready(results.record.as_deref())?;
    for path in &results.plot {
        output::format_of("--plot", path, &PLOTS)?;
        output::ready(Some(path))?;
    }
    Ok(())
}

/// The files that a load writes.
pub(crate) struct Files<'a> {
    asked: &'a Results,
}

impl<'a> Files<'a> {
    pub(crate) fn new(asked: &'a Results) -> Self {
        Self { asked }
    }

    /// Writes the record of the points so far, if it goes to an ordinary file.
    pub(crate) fn write(&self, record: &serde_json::Value) -> Result<(), Failure> {
        match self.asked.record.as_deref().filter(|path| !path.exists() || path.is_file()) {
            Some(path) => output::file(path, &output::versioned(&format!("{record:#}\n"))),
            None => Ok(()),
        }
    }

    /// Prints `report` and writes the files that were asked for. `machine` says where it ran;
    /// `record` is what `--record` gets.
    pub(crate) fn finish(
        &self,
        common: &Common,
        report: &RunReport,
        machine: &str,
        record: &serde_json::Value,
    ) -> Result<(), Failure> {
        output::print(common, || report.to_text(), || report.to_json(), || report.to_csv())?;
        self.write(record)?;
        for path in &self.asked.plot {
            match output::format_of("--plot", path, &PLOTS)? {
                "html" => output::file(path, &report.to_html(machine))?,
                _ => output::draw(path, &report.curve(machine).to_svg())?,
            }
        }
        match self.asked.record.as_deref().filter(|path| path.exists() && !path.is_file()) {
            Some(path) => output::file(path, &output::versioned(&format!("{record:#}\n"))),
            None => Ok(()),
        }
    }
}
