//! Results to standard output or a file, messages and progress to standard error.

use crate::args::{Common, Format};
use crate::fail::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Writes a result where `common` says. A reader that has gone away is no failure.
pub(crate) fn result(common: &Common, text: &str) -> Result<(), Failure> {
    let mut text = text.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(path) = &common.output {
        return file(path, &text);
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::environment(format!(
            "cannot write the result to standard output: {error}; free space or use --output"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Writes `text` to `path` completely or not at all: beside it first, then renamed.
pub(crate) fn file(path: &Path, text: &str) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    std::fs::write(part, text).and_then(|()| std::fs::rename(part, path)).map_err(|error| {
        let _nothing_left = std::fs::remove_file(part);
        Failure::environment(format!(
            "cannot write {}: {error}; free space or name another file",
            path.display()
        ))
    })
}

/// The text of `format`.
pub(crate) fn choose(
    format: Format,
    table: impl FnOnce() -> String,
    json: impl FnOnce() -> String,
    csv: impl FnOnce() -> String,
) -> String {
    match format {
        Format::Table => table(),
        Format::Json => json(),
        Format::Csv => csv(),
    }
}

/// A progress bar of `length` steps on standard error; hidden when that is no terminal, or by
/// `--quiet`.
pub(crate) fn progress(common: &Common, length: u64) -> ProgressBar {
    let target = if common.quiet {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(10)
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = "{spinner} [{bar:30}] {pos}/{len} {elapsed_precise} (left {eta}) {msg}";
    bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A message for people.
#[expect(clippy::print_stderr, reason = "messages go to standard error")]
pub(crate) fn message(common: &Common, text: &str) {
    if !common.quiet {
        eprintln!("{text}");
    }
}
