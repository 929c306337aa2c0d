//! Results to standard output or a file, messages and progress to standard error.

use crate::args::{Common, Format};
use crate::fail::Failure;
use crate::look;
use convoy_report::Table;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The format of drawings: every browser shows it, and other programs turn it into pixels.
const DRAWING: &[&str] = &["svg"];

/// Writes a result to the output of `common`. A reader that has closed it is not a failure.
pub(crate) fn result(common: &Common, text: &str) -> Result<(), Failure> {
    place(common, look::plain(text).into_owned())
}

/// Writes text that may contain escape sequences of a terminal.
fn place(common: &Common, mut text: String) -> Result<(), Failure> {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(path) = &common.output {
        return file(path, &text);
    }
    bytes(text.as_bytes())
}

/// Whether `path` can be a drawing to write, asked before the work is done.
/// `numbers`: whether a CSV file of the same name is written, too.
pub(crate) fn ready_to_draw(path: Option<&Path>, numbers: bool) -> Result<(), Failure> {
    path.map(|path| format_of("--plot", path, DRAWING)).transpose()?;
    ready(path)?;
    let csv = path.filter(|_| numbers).map(|path| path.with_extension("csv"));
    ready(csv.as_deref())
}

/// Writes a plot, and its numbers if there are any to a CSV file of the same name; prints both
/// paths.
pub(crate) fn plot(
    common: &Common,
    path: &Path,
    svg: &str,
    numbers: Option<&str>,
) -> Result<(), Failure> {
    draw(path, svg)?;
    let mut written = path.display().to_string();
    if let Some(numbers) = numbers {
        let csv = path.with_extension("csv");
        file(&csv, numbers)?;
        written = format!("{written} and {}", csv.display());
    }
    message(common, &format!("wrote {written}"));
    Ok(())
}

/// Writes a drawing.
pub(crate) fn draw(path: &Path, svg: &str) -> Result<(), Failure> {
    file(path, &*look::plain(svg))
}

/// The format, one of `known`, that the name of the file of a flag says.
pub(crate) fn format_of<'a>(
    flag: &str,
    path: &Path,
    known: &[&'a str],
) -> Result<&'a str, Failure> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let format = known.iter().find(|format| extension.eq_ignore_ascii_case(format));
    format.copied().ok_or_else(|| {
        Failure::usage(format!(
            "{flag} {}: not the name of a format; end it with .{}",
            path.display(),
            known.join(" or .")
        ))
    })
}

/// Writes to standard output. A reader that has closed it is not a failure.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::environment(format!(
            "cannot write the result to standard output: {error}; free space or use --output"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Whether `path` can be a file to write, asked before the work is done that shall go there.
pub(crate) fn ready(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let name = path.display();
    if path.is_dir() {
        let text = format!("cannot write {name}: it is a directory; name a file in it");
        return Err(Failure::environment(text));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        Some(parent) if !parent.is_dir() => Err(Failure::environment(format!(
            "cannot write {name}: there is no directory {}; make it or name another file",
            parent.display()
        ))),
        _ => can_write(path),
    }
}

/// Whether `path` could be written now; it is left as it is.
pub(crate) fn can_write(path: &Path) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let found = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
        return found.map_err(|error| cannot_write(path, &error.into()));
    }
    let part = beside(path);
    let made = create(&part, 0o600);
    made.and_then(|_| std::fs::remove_file(&part)).map_err(|error| cannot_write(path, &error))
}

/// Returns the path of the temporary file that becomes `path`.
fn beside(path: &Path) -> std::path::PathBuf {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut part = path.into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    part.into()
}

/// Creates a new file. Fails if the path exists, so that no symbolic link is followed.
fn create(path: &Path, mode: u32) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// As [`file`], for the eyes of its owner alone: command lines and names of programs are in it.
pub(crate) fn private(path: &Path, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Failure> {
    write(path, content.as_ref(), 0o600)
}

/// Writes `content` to `path` completely or not at all: to a temporary file, which is then renamed.
/// A device or a pipe is written to, never replaced.
pub(crate) fn file(path: &Path, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Failure> {
    write(path, content.as_ref(), 0o666)
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let opened = std::fs::OpenOptions::new().write(true).open(path);
        return match opened.and_then(|mut file| file.write_all(content)) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(cannot_write(path, &error))
            }
            _ => Ok(()),
        };
    }
    // The file that a symbolic link names is replaced, not the link.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let part = beside(path);
    let made = create(&part, mode);
    made.and_then(|mut part| part.write_all(content))
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| {
            let _nothing_left = std::fs::remove_file(&part);
            cannot_write(path, &error)
        })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let name = path.display();
    Failure::environment(format!("cannot write {name}: {error}; free space or name another file"))
}

/// Writes a result in the format and to the place that `common` says.
pub(crate) fn print(
    common: &Common,
    table: impl FnOnce() -> String,
    json: impl FnOnce() -> String,
    csv: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if common.output.is_some() {
        look::set_file_width();
    }
    let text = match common.format {
        Format::Table if common.output.is_some() => look::plain(&table()).into_owned(),
        Format::Table => look::dress(&look::ended(table(), look::rows())),
        Format::Markdown => look::plain(&convoy_report::in_markdown(table)).into_owned(),
        Format::Json => versioned(&look::plain(&json())),
        Format::Csv => look::plain(&csv()).into_owned(),
    };
    place(common, text)
}

/// Writes one table, in JSON as the list of its `values`.
pub(crate) fn print_table(
    common: &Common,
    table: &Table,
    values: Vec<serde_json::Value>,
) -> Result<ExitCode, Failure> {
    print(
        common,
        || table.to_text(),
        || format!("{:#}\n", serde_json::Value::Array(values)),
        || table.to_csv(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Version of the documents in JSON, as in the schema: a field that changes makes a new one.
const VERSION: u32 = 1;

/// A document with its version as the first field. Lists have no field.
pub(crate) fn versioned(json: &str) -> String {
    match json.strip_prefix('{') {
        Some(fields) => format!("{{\n  \"output_version\": {VERSION},{fields}"),
        None => json.to_owned(),
    }
}

/// Prints the first part of a result before the rest is known, if people read it on standard
/// output. Returns whether it was printed.
pub(crate) fn early(common: &Common, text: &str) -> bool {
    let is_read = matches!(common.format, Format::Table) && common.output.is_none();
    is_read && place(common, look::dress(text)).is_ok()
}

/// A progress bar of `length` steps on standard error; hidden without a terminal, or by `--quiet`.
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

/// Prints why a command failed and returns its exit code.
pub(crate) fn failure(failure: &Failure) -> ExitCode {
    say(&failure.line());
    ExitCode::from(failure.code())
}

/// A message for people.
pub(crate) fn message(common: &Common, text: &str) {
    if !common.quiet {
        say(text);
    }
}

/// Prints a line on standard error. If its reader has closed it, as after `2>&1 | head -1`, the
/// line is lost; `eprintln!` would end the program without its result, its record and its cleanup.
pub(crate) fn say(text: &str) {
    let _reader_has_closed_it =
        writeln!(std::io::stderr(), "{}", look::message(&look::plain(text)));
}
