//! The generated part of docs/predictions.md.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::peers::output;

const PAGE: &str = "docs/predictions.md";
const BEGIN: &str = "<!-- generated: cargo xtask predictions --real --write -->\n";
const END: &str = "<!-- end -->\n";

/// The printed rows.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    /// Prints a line, and keeps it for the page.
    pub(super) fn say(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        println!("{line}");
        self.0 += line.trim_end();
        self.0 += "\n";
    }

    /// Writes the lines into the page, with the commit, the date and the command.
    pub(super) fn write(&self, root: &Path) -> anyhow::Result<()> {
        let git = |words: &[&str]| output(Command::new("git").current_dir(root).args(words));
        let commit = git(&["rev-parse", "--short", "HEAD"])?;
        let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
        let date = output(Command::new("date").args(["-u", "+%-d %B %Y, %H:%M UTC"]))?;
        let words: Vec<String> = std::env::args().skip(1).collect();
        let head = format!(
            "`cargo xtask {}`\n\nBuild of {}{}, {}.\n",
            words.join(" "),
            commit.trim(),
            if changed.trim().is_empty() { "" } else { " with changes" },
            date.trim()
        );
        let path = root.join(PAGE);
        let page = std::fs::read_to_string(&path)?;
        let page = replaced(&page, &format!("{head}\n```text\n{}```\n", self.0));
        Ok(std::fs::write(path, page.with_context(|| format!("{PAGE} has no generated part"))?)?)
    }
}

/// Returns the page with another generated part.
fn replaced(page: &str, part: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{part}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_generated_part_is_replaced() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        let expected = format!("a\n{BEGIN}\nnew\n\n{END}b\n");
        assert_eq!(replaced(&page, "new\n").as_deref(), Some(expected.as_str()));
        assert_eq!(replaced("a\n", "new\n"), None);
    }

    #[test]
    fn the_page_has_a_generated_part() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
        let page = std::fs::read_to_string(root.join(PAGE)).expect("the page");
        assert!(replaced(&page, "").is_some());
    }
}
