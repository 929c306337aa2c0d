//! Folded stacks as a picture of our own: an icicle, the outermost frame on top.

use crate::format::fixed;
use crate::svg::escape;
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 20.0;
const TOP: f64 = 56.0;
/// Narrower frames are left out, pixels: there would be nothing to zoom into. The caption says so.
const NARROW: f64 = 0.01;
/// Width of a character of the text, pixels.
const CHARACTER: f64 = 6.6;
/// Colours that stay apart for the colour-blind (Okabe and Ito 2008).
const BLUE: &str = "#56b4e9";
const ORANGE: &str = "#e69f00";
const RED: &str = "#d55e00";
const PURPLE: &str = "#cc79a7";
const YELLOW: &str = "#f0e442";
const GREEN: &str = "#009e73";
const GREY: &str = "#cccccc";

/// Zoom and search, without anything from outside the file.
const SCRIPT: &str = include_str!("flame.js");

#[derive(Default)]
struct Frame {
    us: u64,
    inner: BTreeMap<String, Frame>,
}

impl Frame {
    fn add(&mut self, frames: &[String], us: u64) {
        self.us += us;
        if let Some((first, rest)) = frames.split_first() {
            self.inner.entry(first.clone()).or_default().add(rest, us);
        }
    }

    fn depth(&self) -> usize {
        1 + self.inner.values().map(Frame::depth).max().unwrap_or(0)
    }
}

/// A flame graph of `stacks` (frames from the outermost on, microseconds) as SVG. It shows where
/// tasks were blocked, spun or waited for a CPU: task time, so it adds up to more than the run.
pub fn flame_svg(title: &str, stacks: &[(Vec<String>, u64)]) -> String {
    let mut root = Frame::default();
    for (frames, us) in stacks {
        root.add(frames, *us);
    }
    let height = TOP + ROW * root.depth() as f64 + 28.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">{}</text>\n",
        escape(title)
    );
    legend(&mut svg, stacks);
    draw(&mut svg, "all tasks", &root, 0.0, WIDTH, 0, root.us);
    let _ = writeln!(
        svg,
        "<text id=\"search\" x=\"{}\" y=\"20\" text-anchor=\"end\" fill=\"#06c\" \
         style=\"cursor:pointer\">Search</text>\n\
         <text id=\"found\" x=\"{}\" y=\"{}\" text-anchor=\"end\"></text>",
        WIDTH - 8.0,
        WIDTH - 8.0,
        height - 8.0
    );
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{}\" fill=\"#555\">Width: time of tasks, {} s in all. Click a frame to \
         zoom, the first to go back; hover for figures.</text>\n\
         <script><![CDATA[{SCRIPT}]]></script>\n</svg>",
        height - 8.0,
        fixed(root.us as f64 / 1e6, 3)
    );
    svg
}

/// [`flame_svg`] as an HTML page.
pub fn flame_html(title: &str, stacks: &[(Vec<String>, u64)]) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\
         </head><body style=\"margin:0\">\n{}</body></html>\n",
        escape(title),
        flame_svg(title, stacks)
    )
}

/// Colours, each with its leaves and its meaning.
pub(crate) const COLOURS: [(&str, &[&str], &str); 7] = [
    (
        RED,
        &["asleep, owner waits for a CPU", "owns it and waits for a CPU", "owner waits for a CPU"],
        "owner waits for a CPU: a convoy",
    ),
    (PURPLE, &["asleep, owner asleep", "owner asleep"], "owner asleep"),
    (
        YELLOW,
        &["asleep, owner running", "asleep, lock free", "spinning", "owner runs"],
        "owner runs, or spinning",
    ),
    (ORANGE, &["waits for a CPU"], "waits for a CPU"),
    (GREEN, &["owner waits for another lock"], "owner waits for another lock"),
    (
        BLUE,
        &["asleep", "lock free, waiter not yet running"],
        "asleep; the lock is free, or there is none",
    ),
    (GREY, &[], "place, or not known"),
];

/// The colours that occur, with their meaning.
fn legend(svg: &mut String, stacks: &[(Vec<String>, u64)]) {
    let leaves = |names: &[&str]| {
        let mut last = stacks.iter().filter_map(|(frames, _)| frames.last());
        last.any(|leaf| names.contains(&leaf.as_str()))
    };
    let mut x = 8.0;
    for (colour, _, words) in COLOURS.iter().filter(|one| one.0 == GREY || leaves(one.1)) {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"30\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"40\">{words}</text>",
            x + 16.0
        );
        x += 32.0 + CHARACTER * words.chars().count() as f64;
    }
}

/// Returns the colour of a leaf by its state; a lock has the colour of its most expensive state.
fn colour(name: &str, frame: &Frame) -> &'static str {
    if let Some(found) = COLOURS.iter().find(|one| one.1.contains(&name)) {
        return found.0;
    }
    if !frame.inner.is_empty() && frame.inner.values().all(|leaf| leaf.inner.is_empty()) {
        let most = frame.inner.iter().max_by_key(|(_, leaf)| leaf.us);
        return most.map_or(GREY, |(name, leaf)| colour(name, leaf));
    }
    GREY
}

fn draw(svg: &mut String, name: &str, frame: &Frame, x: f64, wide: f64, depth: usize, all: u64) {
    if wide < NARROW {
        return;
    }
    let y = TOP + ROW * depth as f64;
    let seconds = fixed(frame.us as f64 / 1e6, 3);
    let share = fixed(100.0 * frame.us as f64 / all.max(1) as f64, 1);
    let room = ((wide - 6.0) / CHARACTER).max(0.0) as usize;
    let shown: String = if name.chars().count() <= room {
        name.to_owned()
    } else if room >= 4 {
        name.chars().take(room - 1).chain(['…']).collect()
    } else {
        String::new()
    };
    let _ = writeln!(
        svg,
        "<g class=\"f\" data-x=\"{x:.4}\" data-w=\"{wide:.4}\" data-d=\"{depth}\"><title>{}: \
         {seconds} s, {share} %</title><rect x=\"{x:.2}\" y=\"{y}\" \
         width=\"{wide:.2}\" height=\"{}\" fill=\"{}\" stroke=\"white\" stroke-width=\"0.5\"/>\
         <text x=\"{:.2}\" y=\"{}\">{}</text></g>",
        escape(name),
        ROW - 1.0,
        colour(name, frame),
        x + 3.0,
        y + 14.0,
        escape(&shown)
    );
    // The widest first: the order says what matters.
    let mut inner: Vec<(&String, &Frame)> = frame.inner.iter().collect();
    inner.sort_by_key(|(name, frame)| (std::cmp::Reverse(frame.us), (*name).clone()));
    let mut at = x;
    for (name, part) in inner {
        let part_wide = wide * part.us as f64 / frame.us.max(1) as f64;
        draw(svg, name, part, at, part_wide, depth + 1, all);
        at += part_wide;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_nested_and_escaped() {
        let stack = |frames: &[&str]| frames.iter().map(|&f| f.to_owned()).collect::<Vec<_>>();
        let stacks = [
            (stack(&["user", "open", "BKL", "asleep"]), 3_000_000),
            (stack(&["user", "read", "zone->lock", "spinning"]), 1_000_000),
        ];
        let svg = flame_svg("a & b", &stacks);
        assert!(svg.contains("a &amp; b") && svg.contains("zone-&gt;lock: 1.000 s, 25.0 %"));
        assert_eq!(
            svg.matches("<g class=\"f\"").count(),
            8,
            "one root, one user, three below each call"
        );
    }
}
