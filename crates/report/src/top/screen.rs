//! The screen of the live view, as lines.

use core::cmp::Ordering;

use super::{TopLock, TopReport, WIDE, table};
use crate::format::{middle, plain, wrap};

/// What a line of the screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenPart {
    /// The observed command and the times.
    Title,
    /// The first sentence.
    Verdict,
    /// The threads by activity.
    Threads,
    /// The table of locks.
    Table,
    /// Sentences about what could not be observed.
    Unseen,
    /// The keys.
    Keys,
}

/// One line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLine {
    /// What it is.
    pub part: ScreenPart,
    /// Its text, no wider than the screen.
    pub text: String,
}

/// Order of the locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sorting {
    /// By wait time, longest first.
    #[default]
    Waiting,
    /// By number of waits, most first.
    Waits,
    /// By threads that wait now, most first.
    Now,
    /// By name.
    Name,
}

impl Sorting {
    /// Returns the order after this one.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Waiting => Self::Waits,
            Self::Waits => Self::Now,
            Self::Now => Self::Name,
            Self::Name => Self::Waiting,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Waiting => "wait time",
            Self::Waits => "waits",
            Self::Now => "waiting now",
            Self::Name => "name",
        }
    }

    pub(super) fn compare(self, a: &TopLock, b: &TopLock) -> Ordering {
        let by_owner = b.is_owned.cmp(&a.is_owned);
        by_owner.then(match self {
            Self::Waiting => b.waiting_threads.total_cmp(&a.waiting_threads),
            Self::Waits => b.waits_per_s.total_cmp(&a.waits_per_s),
            Self::Now => b.waiting_now.cmp(&a.waiting_now),
            Self::Name => a.lock.cmp(&b.lock),
        })
    }
}

/// What the user chose to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate choice")]
pub struct ScreenView {
    /// Order of the locks.
    pub sorting: Sorting,
    /// Only locks with this text in their name, program, place, owner or activity.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether conditions and barriers are shown.
    pub shows_conditions: bool,
    /// Whether the window is the whole observation.
    pub is_whole: bool,
    /// Whether the screen is not refreshed.
    pub is_paused: bool,
    /// Number of rows above the first row that is shown.
    pub skipped: usize,
}

impl ScreenView {
    fn has(&self, row: &TopLock) -> bool {
        let filter = self.filter.to_lowercase();
        let texts = [
            row.lock.clone(),
            row.kind.clone(),
            row.program.clone(),
            row.place.clone().unwrap_or_default(),
            row.owner_text(),
            row.doing_text(),
        ];
        let is_shown = row.is_owned || self.shows_conditions;
        is_shown && !row.is_trifle && texts.iter().any(|text| text.to_lowercase().contains(&filter))
    }

    fn keys(&self, width: usize) -> String {
        if self.is_typing {
            return middle(&format!("Filter: {}_  (Enter: done, Esc: none)", self.filter), width);
        }
        let filter = match self.filter.as_str() {
            "" => "/ filter".to_owned(),
            text => format!("/ filter: {text}"),
        };
        let keys = [
            "q quit".to_owned(),
            format!("s sort: {}", self.sorting.name()),
            filter,
            (if self.shows_conditions { "c locks only" } else { "c conditions" }).to_owned(),
            (if self.is_whole { "a window" } else { "a all the time" }).to_owned(),
            (if self.is_paused { "p continue" } else { "p pause" }).to_owned(),
        ];
        let mut text = String::new();
        for key in keys {
            let more = if text.is_empty() { key } else { format!("{text}  {key}") };
            if more.chars().count() > width {
                break;
            }
            text = more;
        }
        text
    }
}

impl TopReport {
    /// Returns the lines of a screen of this size.
    pub fn to_screen(&self, view: &ScreenView, [width, height]: [usize; 2]) -> Vec<ScreenLine> {
        let mut lines = Vec::new();
        let mut add = |part: ScreenPart, texts: Vec<String>| {
            lines.extend(texts.into_iter().map(|text| ScreenLine { part, text }));
        };
        add(ScreenPart::Title, vec![plain(&self.title()).chars().take(width).collect()]);
        // A screen with few lines shows the beginning of a long sentence.
        let verdict = wrap(&plain(&self.verdict), width);
        let most = (height / 3).max(2);
        add(ScreenPart::Verdict, verdict.into_iter().take(most).collect());
        add(
            ScreenPart::Threads,
            wrap(&plain(&self.threads_line()), width).into_iter().take(3).collect(),
        );
        let mut rows: Vec<&TopLock> = self.locks.iter().filter(|row| view.has(row)).collect();
        rows.sort_by(|a, b| view.sorting.compare(a, b));
        let skipped = view.skipped.min(rows.len().saturating_sub(1));
        let rows = rows.get(skipped..).unwrap_or_default();
        add(ScreenPart::Table, table_lines(rows, width, !view.filter.is_empty()));
        let room = height.saturating_sub(1);
        for sentence in &self.unseen {
            let texts = wrap(&plain(sentence), width);
            if lines.len() + texts.len() < room {
                let unseen = texts.into_iter();
                lines.extend(unseen.map(|text| ScreenLine { part: ScreenPart::Unseen, text }));
            }
        }
        lines.truncate(room);
        let blank = ScreenLine { part: ScreenPart::Table, text: String::new() };
        lines.resize(room, blank);
        lines.push(ScreenLine { part: ScreenPart::Keys, text: view.keys(width) });
        lines
    }
}

/// Returns the lines of the table of locks.
fn table_lines(rows: &[&TopLock], width: usize, is_filtered: bool) -> Vec<String> {
    if rows.is_empty() {
        let reason =
            if is_filtered { "No lock matches the filter." } else { "No thread waits for a lock." };
        return vec![String::new(), reason.to_owned()];
    }
    let text = table(rows, usize::MAX, width >= WIDE).to_text_of_names();
    text.lines().map(|line| plain(line).into_owned()).collect()
}
