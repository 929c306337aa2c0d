//! The results of a load: printed, recorded, drawn.

use super::Results;
use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use convoy_report::RunReport;

const PLOTS: [&str; 2] = ["svg", "html"];

impl Results {
    /// Every file that is to be written can be, asked before the run.
    pub(crate) fn check(&self, common: &Common) -> Result<(), Failure> {
        output::ready(common.output.as_deref())?;
        output::ready(self.record.as_deref())?;
        for path in &self.plot {
            output::format_of("--plot", path, &PLOTS)?;
            output::ready(Some(path))?;
        }
        Ok(())
    }

    /// Writes the record of the points so far, if it goes to an ordinary file.
    pub(crate) fn write(&self, record: &serde_json::Value) -> Result<(), Failure> {
        match self.record.as_deref().filter(|path| !path.exists() || path.is_file()) {
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
        for path in &self.plot {
            match output::format_of("--plot", path, &PLOTS)? {
                "html" => output::file(path, &report.to_html(machine))?,
                _ => output::draw(path, &report.curve(machine).to_svg())?,
            }
        }
        match self.record.as_deref().filter(|path| path.exists() && !path.is_file()) {
            Some(path) => output::file(path, &output::versioned(&format!("{record:#}\n"))),
            None => Ok(()),
        }
    }
}
