//! The files of an explained simulation: traces, stacks and flame graphs.

use super::args::{Explain, FLAMES};
use crate::fail::Failure;
use crate::output;
use convoy_explain::{Analysis, Detail, folded};
use convoy_report::{flame_html, flame_svg};
use std::path::Path;

/// Intervals of the run in the curves of a page.
pub(super) const INTERVALS: usize = 300;

/// Writes the files that need every event of a part of the run, which is run `again`; returns a
/// note on each.
pub(super) fn details(
    args: &Explain,
    hash: &str,
    cpus: usize,
    analysis: &Analysis,
    again: impl FnOnce(Detail) -> Result<(String, Detail), Failure>,
) -> Result<Vec<String>, Failure> {
    let (repeated, mut detail) = again(Detail::new(cpus, analysis.window()))?;
    if repeated != hash {
        return Err(Failure::environment(format!(
            "the run did not repeat: schedule hash {hash}, then {repeated}; this is a defect of \
             the model"
        )));
    }
    let mut notes = Vec::new();
    if let Some(path) = &args.trace {
        let bytes = detail.perfetto(args.trace_limit as usize * 1_000_000);
        output::file(path, &bytes)?;
        notes.push(format!(
            "trace {}: {:.1} MB (limit {} MB, --trace-limit); {}; the whole run as counters; open \
             it in ui.perfetto.dev",
            path.display(),
            bytes.len() as f64 / 1e6,
            args.trace_limit,
            detail.sentence()
        ));
    }
    Ok(notes)
}

/// Draws a flame graph in the format of its file name.
pub(super) fn flame(
    path: &Path,
    title: &str,
    stacks: &[(Vec<String>, u64)],
) -> Result<String, Failure> {
    Ok(match output::format_of("--flame", path, &FLAMES)? {
        "html" => flame_html(title, stacks),
        _ => flame_svg(title, stacks),
    })
}

/// Writes the folded stacks and the flame graph; returns a note on each file.
pub(super) fn stacks(
    args: &Explain,
    title: &str,
    analysis: &Analysis,
) -> Result<Vec<String>, Failure> {
    let stacks = analysis.stacks();
    let mut notes = Vec::new();
    if let Some(path) = &args.folded {
        output::file(path, &folded(&stacks))?;
        notes.push(format!("folded stacks {}: {} stacks", path.display(), stacks.len()));
    }
    if let Some(path) = &args.flame {
        output::file(path, &flame(path, title, &stacks)?)?;
        notes.push(format!("flame graph {}", path.display()));
    }
    Ok(notes)
}
