//! A report as one page for a browser that needs nothing else: no network, no other file.
//!
//! The page is data and a script that draws them. Names are untrusted: they are JSON in the
//! page, and the script makes text of them, never markup. A content-security policy lets only this
//! script run, and nothing be loaded or sent.

mod pair;
mod recorded;
mod simulated;
mod strip;

use core::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::flame::COLOURS;
use crate::format::plain;
use crate::plot::Plot;
use crate::range::Scale;
use crate::svg::escape;
use crate::table::Table;

pub use pair::RecordPair;
pub use recorded::Origin;

const STYLE: &str =
    concat!(include_str!("../../assets/uPlot.min.css"), include_str!("../../assets/page.css"));
const SCRIPT: &str =
    concat!(include_str!("../../assets/uPlot.iife.min.js"), include_str!("../../assets/page.js"));

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its subject: a command, an experiment.
    pub title: String,
    /// The diagnosis: the problem and its cause.
    pub lead: String,
    /// What to do about it; empty: nothing is known.
    pub cure: String,
    /// The command that tests the cure; empty: there is none.
    pub test: String,
    sections: Vec<Value>,
}

impl Page {
    /// A page without sections.
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { title: title.into(), lead: lead.into(), ..Self::default() }
    }

    /// Adds a section; one without blocks is left out.
    pub fn section(&mut self, title: &str, blocks: Vec<Block>) {
        let blocks: Vec<Value> = blocks.into_iter().map(|block| block.0).collect();
        if !blocks.is_empty() {
            self.sections.push(json!({ "title": title, "blocks": blocks }));
        }
    }

    /// The whole page.
    pub fn to_html(&self) -> String {
        let mut data = json!({ "version": 1, "title": self.title, "sections": self.sections });
        make_plain(&mut data);
        // In a script element only `<` could end the data.
        let data = data.to_string().replace('<', "\\u003c");
        let text = |text: &str| escape(&plain(text));
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; \
             form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#sections\">Skip to the figures</a>\n<main>\n\
             <header>\n<p class=\"what\">{}</p>\n<h1>{}</h1>\n",
            base64(&Sha256::digest(SCRIPT)),
            text(&self.title),
            text(&self.title),
            prose(&self.lead),
        );
        if !self.cure.is_empty() {
            let _ = writeln!(page, "<p class=\"cure\">{}</p>", prose(&self.cure));
        }
        if !self.test.is_empty() {
            let _ = writeln!(page, "<pre class=\"command\">{}</pre>", text(&self.test));
        }
        let _ = write!(
            page,
            "</header>\n<noscript><p>The figures below need JavaScript; the diagnosis does not.\
             </p></noscript>\n<div id=\"sections\"></div>\n</main>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script>{SCRIPT}</script>\n</body>\n</html>\n"
        );
        page
    }
}

/// A text as HTML, in which words between backticks are code.
fn prose(text: &str) -> String {
    let text = escape(&plain(text));
    let parts: Vec<&str> = text.split('`').collect();
    // Names of others may have a single backtick.
    if parts.len().is_multiple_of(2) {
        return text;
    }
    let mut html = String::with_capacity(text.len());
    for (at, part) in parts.into_iter().enumerate() {
        html.push_str(match at {
            0 => "",
            at if at.is_multiple_of(2) => "</code>",
            _ => "<code>",
        });
        html.push_str(part);
    }
    html
}

/// A part of a section.
#[derive(Clone, Debug)]
pub struct Block(Value);

impl Block {
    /// A paragraph.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({ "kind": "text", "text": text.into() }))
    }

    /// What a reader can do on a screen; it is not printed.
    pub(super) fn hint(text: impl Into<String>) -> Self {
        Self(json!({ "kind": "hint", "text": text.into() }))
    }

    /// A command to copy.
    pub fn command(text: impl Into<String>) -> Self {
        Self(json!({ "kind": "command", "text": text.into() }))
    }

    /// A table.
    pub fn table(table: &Table) -> Self {
        Self(table.web(&[]))
    }

    /// A table with rows that are linked with the strip.
    pub(crate) fn linked(table: &Table, links: &[Option<[String; 3]>]) -> Self {
        Self(table.web(links))
    }

    /// Blocks below one line, which a reader opens.
    pub(super) fn folded(title: impl Into<String>, blocks: Vec<Self>) -> Self {
        let blocks: Vec<Value> = blocks.into_iter().map(|block| block.0).collect();
        Self(json!({ "kind": "folded", "title": title.into(), "blocks": blocks }))
    }

    /// Curves with their intervals.
    pub fn plot(plot: &Plot) -> Self {
        let panels = plot.panels.iter().map(|panel| {
            let series = panel.series.iter().map(|series| {
                let points = series.points.iter().map(|one| json!([one.x, one.y, one.lo, one.hi]));
                json!({ "name": series.name, "points": points.collect::<Vec<_>>() })
            });
            json!({
                "title": panel.title,
                "x": panel.x.label,
                "y": panel.y.label,
                "x_log": panel.x.scale != Scale::Linear,
                "y_log": panel.y.scale != Scale::Linear,
                "series": series.collect::<Vec<_>>(),
            })
        });
        Self(json!({
            "kind": "plot",
            "title": plot.title,
            "subtitle": plot.subtitle,
            "panels": panels.collect::<Vec<_>>(),
        }))
    }

    /// A table of a stored run; `None` if it is not a table.
    pub fn stored(value: &Value) -> Option<Self> {
        value["kind"].is_string().then(|| Self(value.clone()))
    }

    /// Its content, to be kept with a run.
    pub fn into_value(self) -> Value {
        self.0
    }

    /// Stacks of frames from the outermost on, each with microseconds, as a flame graph.
    pub fn flame(stacks: &[(Vec<String>, u64)]) -> Self {
        let stacks = stacks.iter().map(|(frames, us)| json!([frames, us]));
        let colours = COLOURS.iter().map(
            |(colour, names, words)| json!({ "colour": colour, "names": names, "words": words }),
        );
        Self(json!({
            "kind": "flame",
            "stacks": stacks.collect::<Vec<_>>(),
            "colours": colours.collect::<Vec<_>>(),
        }))
    }
}

/// Makes what would control a terminal or turn the direction of writing visible in all texts.
fn make_plain(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(changed) = plain(text) {
                *text = changed;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(make_plain),
        Value::Object(all) => all.values_mut().for_each(make_plain),
        _ => {}
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let part = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for digit in 0..4 {
            let at = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit > chunk.len() { '=' } else { char::from(DIGITS[at as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod browser;
#[cfg(test)]
mod tests;
