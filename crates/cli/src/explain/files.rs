//! The files of an explained simulation: traces, stacks and flame graphs.

use super::args::{Explain, FLAMES};
use crate::fail::Failure;
use crate::look::plain;
use crate::output;
use convoy_explain::{Detail, folded, pprof};
use convoy_report::{flame_html, flame_svg};
use std::path::Path;

/// Intervals of the run in the curves of a page.
pub(super) const INTERVALS: usize = 300;

/// Writes the files that need every event of a part of the run, which was repeated with its
/// `detail`; returns a note on each.
pub(super) fn details(
    args: &Explain,
    hash: &str,
    repeated: &str,
    mut detail: Detail,
) -> Result<Vec<String>, Failure> {
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
fn flame(path: &Path, title: &str, stacks: &[(Vec<String>, u64)]) -> Result<String, Failure> {
    Ok(match output::format_of("--flame", path, &FLAMES)? {
        "html" => flame_html(title, stacks),
        _ => flame_svg(title, stacks),
    })
}

/// Writes the stacks of a run of `seconds`: folded, as a profile and as a flame graph.
/// Returns a note on each file.
pub(super) fn stacks(
    args: &Explain,
    title: &str,
    stacks: &[(Vec<String>, u64)],
    seconds: f64,
) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    if let Some(path) = &args.folded {
        output::file(path, plain(&folded(stacks)).as_bytes())?;
        notes.push(format!("folded stacks {}: {} stacks", path.display(), stacks.len()));
    }
    if let Some(path) = &args.pprof {
        output::file(path, &pprof(stacks, seconds))?;
        let path = path.display();
        notes
            .push(format!("profile {path}: {} stacks; go tool pprof -http=: {path}", stacks.len()));
    }
    if let Some(path) = &args.flame {
        output::file(path, plain(&flame(path, title, stacks)?).as_bytes())?;
        notes.push(format!("flame graph {}", path.display()));
    }
    Ok(notes)
}
