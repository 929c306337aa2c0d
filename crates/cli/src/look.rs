//! The format of printed tables: width of the terminal, alphabet, colour.

use clap::ValueEnum;
pub(crate) use convoy_report::plain;
use convoy_report::{set_page_width, set_table_width, wrap};
use std::io::IsTerminal as _;
use std::sync::OnceLock;

/// When results are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Columns where nothing says how wide the page is.
const WIDTH: usize = 80;

#[derive(Clone, Copy, Debug, Default)]
struct Look {
    colour: bool,
    ascii: bool,
}

static LOOK: OnceLock<Look> = OnceLock::new();

/// Detects the properties of standard output, once, before anything is printed.
pub(crate) fn set(color: Color) {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let terminal = std::io::stdout().is_terminal();
    let colour = match color {
        Color::Auto => terminal && set("NO_COLOR").is_none(),
        Color::Always => true,
        Color::Never => false,
    };
    // As in the C library: the first of these that is set. Where none is, nothing is known.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name));
    let locale = locale.map(|name| name.to_ascii_lowercase());
    let ascii = locale.is_some_and(|name| !name.contains("utf-8") && !name.contains("utf8"));
    let _set_twice = LOOK.set(Look { colour, ascii });
    let columns = set("COLUMNS").and_then(|columns| columns.parse().ok());
    let size = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let width = || size().map(|size| usize::from(size.ws_col)).filter(|_| terminal);
    match columns.or_else(width).filter(|&width| width > 0) {
        Some(width) => set_page_width(width),
        None => set_file_width(),
    }
}

/// Sets the widths of a file: all columns of a table, and sentences that are easy to read.
pub(crate) fn set_file_width() {
    set_page_width(WIDTH);
    set_table_width(usize::MAX);
}

/// A text with its first paragraph again at the end, if it is longer than a terminal with `rows`
/// lines: the verdict must not scroll away.
pub(crate) fn ended(mut text: String, rows: Option<usize>) -> String {
    let first = text.split("\n\n").next().unwrap_or_default();
    let is_sentence = first.len() < text.len() && !first.contains('─');
    if is_sentence && rows.is_some_and(|rows| text.lines().count() >= rows) {
        text = format!("{}\n\n{first}\n", text.trim_end());
    }
    text
}

/// Lines of the terminal on standard output, if it is one.
pub(crate) fn rows() -> Option<usize> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
    size.map(|size| usize::from(size.ws_row)).filter(|&rows| rows > 0)
}

/// A message as it is printed on standard error: broken between words if that is a terminal.
pub(crate) fn message(text: &str) -> String {
    let error = std::io::stderr();
    let size = error.is_terminal().then(|| rustix::termios::tcgetwinsize(&error).ok()).flatten();
    match size.map(|size| usize::from(size.ws_col)).filter(|&width| width > 0) {
        Some(width) => {
            let lines = text.lines().flat_map(|line| wrap(line, width));
            lines.collect::<Vec<_>>().join("\n")
        }
        None => text.to_owned(),
    }
}

/// A text for people as it is printed: in the alphabet of the locale, with colour if wanted.
pub(crate) fn dress(text: &str) -> String {
    let Look { colour, .. } = LOOK.get().copied().unwrap_or_default();
    let text = alphabet(&plain(text));
    if colour { paint(&text) } else { text }
}

/// A text in the alphabet of the locale.
pub(crate) fn alphabet(text: &str) -> String {
    let Look { ascii, .. } = LOOK.get().copied().unwrap_or_default();
    if ascii { transliterate(text) } else { text.to_owned() }
}

/// The few characters of the reports that ASCII does not have.
fn transliterate(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '─' | '–' => out.push('-'),
            '│' => out.push('|'),
            '┬' | '┼' | '┴' => out.push('+'),
            '±' => out.push_str("+-"),
            'µ' => out.push('u'),
            '…' => out.push('~'),
            '×' => out.push('x'),
            c if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

/// The first line bold, because it says most; rules dim, because they say nothing.
fn paint(text: &str) -> String {
    let rule = |line: &str| line.chars().all(|c| "─│┬┼┴-|+".contains(c)) && line.len() > 3;
    let paint = |(at, line): (usize, &str)| match line {
        "" => "\n".to_owned(),
        line if rule(line) => format!("\x1b[2m{line}\x1b[0m\n"),
        line if at == 0 => format!("\x1b[1m{line}\x1b[0m\n"),
        line => format!("{line}\n"),
    };
    text.lines().enumerate().map(paint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_has_a_sign_for_each_of_ours() {
        assert_eq!(transliterate("─┬│┼┴ ± 5 µs, – …"), "-+|++ +- 5 us, - ~");
    }

    #[test]
    fn the_verdict_is_last_as_well_if_the_text_is_longer_than_the_screen() {
        let text = || "faster\nby far\n\n────\na  1\n".to_owned();
        assert_eq!(ended(text(), Some(6)), text());
        assert_eq!(ended(text(), None), text());
        assert_eq!(ended(text(), Some(5)), "faster\nby far\n\n────\na  1\n\nfaster\nby far\n");
        let table = || "────\na  1\n\nb\n".to_owned();
        assert_eq!(ended(table(), Some(2)), table());
    }

    #[test]
    fn the_first_line_is_bold_and_rules_are_dim() {
        let painted = paint("faster\n────┬──\na  1\n");
        assert_eq!(painted, "\x1b[1mfaster\x1b[0m\n\x1b[2m────┬──\x1b[0m\na  1\n");
    }
}
