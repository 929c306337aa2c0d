//! The results of a load: printed, exported, drawn.

use super::Results;
use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use convoy_report::RunReport;

/// AIM7's format of an export; the other one is re-aim's.
const SUITE7: &str = "ss";
const EXPORTS: [&str; 2] = [SUITE7, "csv"];
const PLOTS: [&str; 3] = ["svg", "html", "png"];

/// Every file that is to be written can be, asked before the run.
pub(crate) fn check(common: &Common, results: &Results) -> Result<(), Failure> {
    output::ready(common.output.as_deref())?;
    output::ready(results.record.as_deref())?;
    for path in &results.export {
        output::format_of("--export", path, &EXPORTS)?;
        output::ready(Some(path))?;
    }
    for path in &results.plot {
        output::format_of("--plot", path, &PLOTS)?;
        output::ready(Some(path))?;
    }
    Ok(())
}

/// The files that a load writes.
pub(crate) struct Files<'a> {
    asked: &'a Results,
    /// What stood in each exported file before, which AIM7 appends to; `None`: a device or a pipe,
    /// which is written to once.
    before: Vec<Option<Vec<u8>>>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(asked: &'a Results) -> Self {
        let before = |path: &std::path::PathBuf| match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => None,
            Ok(_) => std::fs::read(path).ok(),
            Err(_) => Some(Vec::new()),
        };
        Self { asked, before: asked.export.iter().map(before).collect() }
    }

    /// Writes the record and the exports of the points so far, where they are ordinary files.
    pub(crate) fn write(
        &self,
        report: &RunReport,
        machine: &str,
        date: &str,
        record: &serde_json::Value,
    ) -> Result<(), Failure> {
        for (path, before) in self.asked.export.iter().zip(&self.before) {
            if let Some(before) = before {
                let text = match output::format_of("--export", path, &EXPORTS)? {
                    SUITE7 => [before, report.to_suite7(machine, date).as_bytes()].concat(),
                    _ => report.to_reaim_csv().into_bytes(),
                };
                output::file(path, &text)?;
            }
        }
        match self.asked.record.as_deref().filter(|path| !path.exists() || path.is_file()) {
            Some(path) => output::file(path, &format!("{record:#}\n")),
            None => Ok(()),
        }
    }

    /// Prints `report` (to people as `text`) and writes the files that were asked for. `machine`
    /// and `date` say where and when it ran; `record` is what `--record` gets.
    pub(crate) fn finish(
        &self,
        common: &Common,
        report: &RunReport,
        text: impl FnOnce() -> String,
        machine: &str,
        date: &str,
        record: &serde_json::Value,
    ) -> Result<(), Failure> {
        output::print(common, text, || report.to_json(), || report.to_csv())?;
        self.write(report, machine, date, record)?;
        for (path, _) in self.asked.export.iter().zip(&self.before).filter(|(_, b)| b.is_none()) {
            match output::format_of("--export", path, &EXPORTS)? {
                SUITE7 => output::append(path, &report.to_suite7(machine, date))?,
                _ => output::file(path, &report.to_reaim_csv())?,
            }
        }
        for path in &self.asked.plot {
            match output::format_of("--plot", path, &PLOTS)? {
                "html" => output::file(path, &report.to_html(machine))?,
                _ => output::draw(path, &report.curve(machine).to_svg())?,
            }
        }
        match self.asked.record.as_deref().filter(|path| path.exists() && !path.is_file()) {
            Some(path) => output::file(path, &format!("{record:#}\n")),
            None => Ok(()),
        }
    }
}
