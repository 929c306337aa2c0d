//! The results of a load: printed, exported, drawn.

use super::Results;
use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use convoy_report::RunReport;
use std::path::Path;

/// Every file that is to be written can be, asked before the run.
pub(crate) fn check(common: &Common, results: &Results) -> Result<(), Failure> {
    output::ready(common.output.as_deref())?;
    output::ready(results.record.as_deref())?;
    for path in &results.export {
        export_of(path)?;
        output::ready(Some(path))?;
    }
    for path in &results.plot {
        plot_of(path)?;
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
                let text = match export_of(path)? {
                    Export::Suite7 => [before, report.to_suite7(machine, date).as_bytes()].concat(),
                    Export::Reaim => report.to_reaim_csv().into_bytes(),
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
            match export_of(path)? {
                Export::Suite7 => output::append(path, &report.to_suite7(machine, date))?,
                Export::Reaim => output::file(path, &report.to_reaim_csv())?,
            }
        }
        for path in &self.asked.plot {
            let svg = || report.curve(machine).to_svg();
            match plot_of(path)? {
                Picture::Svg => output::file(path, &svg())?,
                Picture::Html => output::file(path, &report.to_html(machine))?,
                Picture::Png => {
                    let picture = convoy_report::png(&svg()).map_err(Failure::environment)?;
                    output::file(path, &picture)?;
                }
            }
        }
        match self.asked.record.as_deref().filter(|path| path.exists() && !path.is_file()) {
            Some(path) => output::file(path, &format!("{record:#}\n")),
            None => Ok(()),
        }
    }
}

enum Export {
    Suite7,
    Reaim,
}

enum Picture {
    Svg,
    Html,
    Png,
}

/// The format that the name of the file says.
fn export_of(path: &Path) -> Result<Export, Failure> {
    match extension(path).as_deref() {
        Some("ss") => Ok(Export::Suite7),
        Some("csv") => Ok(Export::Reaim),
        _ => Err(Failure::usage(format!(
            "--export {}: the name says no format; end it with .ss (AIM7) or .csv (re-aim)",
            path.display()
        ))),
    }
}

fn plot_of(path: &Path) -> Result<Picture, Failure> {
    match extension(path).as_deref() {
        Some("svg") => Ok(Picture::Svg),
        Some("html" | "htm") => Ok(Picture::Html),
        Some("png") => Ok(Picture::Png),
        _ => Err(Failure::usage(format!(
            "--plot {}: the name says no format; end it with .svg, .html or .png",
            path.display()
        ))),
    }
}

fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}
