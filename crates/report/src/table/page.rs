//! The page: how wide it is, and whether it is Markdown.

use crate::format::{width, wrap};
use core::cell::Cell as Flag;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Widest line a table has where nothing says how wide the page is, in characters.
pub const MAX_WIDTH: usize = 120;

/// Narrowest page: a key and one more column must fit.
const MIN_WIDTH: usize = 40;

static PAGE_WIDTH: AtomicUsize = AtomicUsize::new(MAX_WIDTH);
static TABLE_WIDTH: AtomicUsize = AtomicUsize::new(MAX_WIDTH);

/// Sets the width of the page for which this process prints, in characters: the only input of a
/// report that is not in its record. At least 40.
pub fn set_page_width(width: usize) {
    PAGE_WIDTH.store(width.max(MIN_WIDTH), Relaxed);
    set_table_width(width);
}

/// Sets the width of tables alone: a file has room for every column.
pub fn set_table_width(width: usize) {
    TABLE_WIDTH.store(width.max(MIN_WIDTH), Relaxed);
}

/// The width of tables, in characters.
pub(crate) fn table_width() -> usize {
    TABLE_WIDTH.load(Relaxed)
}

/// The width of the page, in characters.
pub(crate) fn page_width() -> usize {
    PAGE_WIDTH.load(Relaxed)
}

std::thread_local! {
    /// Whether texts are made as Markdown.
    static MARKDOWN: Flag<bool> = const { Flag::new(false) };
}

/// Makes a text for people as GitHub's Markdown: tables as pipe tables, paragraphs on one line.
pub fn in_markdown(text: impl FnOnce() -> String) -> String {
    MARKDOWN.set(true);
    let text = text();
    MARKDOWN.set(false);
    text
}

/// Whether this thread makes Markdown.
pub(crate) fn is_markdown() -> bool {
    MARKDOWN.get()
}

/// A line as it is, or broken if it is too long.
pub(super) fn fit(line: &str, page: usize) -> Vec<String> {
    if width(line) <= page { vec![line.to_owned()] } else { wrap(line, page) }
}

/// `text` in lines as wide as the page, with a line feed at the end of each.
pub fn page_wrap(text: &str) -> String {
    if is_markdown() {
        return text.to_owned() + "\n\n";
    }
    wrap(text, page_width()).join("\n") + "\n"
}
