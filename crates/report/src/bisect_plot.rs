//! The picture of a search: every measured value in history order above, the posterior below.

use core::fmt::Write;

use crate::bisect::{BisectReport, quantity};
use crate::range::round_step;
use crate::rows_plot::tick_label;
use crate::svg::{escape, text};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 24.0;
/// Top and height of the values, top and height of the posterior.
const VALUES: (f64, f64) = (84.0, 250.0);
const POSTERIOR: (f64, f64) = (374.0, 90.0);
const HEIGHT: f64 = 512.0;
/// Blue for values, vermilion for the culprit, of the palette of the other plots.
const MEASURED: &str = "#0072b2";
const CULPRIT: &str = "#d55e00";

impl BisectReport {
    /// A self-contained SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" font-family=\"Helvetica, Arial, \
             'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"#222\">\n<title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            escape(&self.title())
        );
        text(&mut svg, 16.0, 28.0, "font-size=\"18\" font-weight=\"bold\"", &self.title());
        let subtitle = format!(
            "{} runs, {} builds, {} skipped; {} commits in history order",
            self.runs,
            self.builds,
            self.skipped.len(),
            self.candidates
        );
        text(&mut svg, 16.0, 49.0, "fill=\"#555\"", &subtitle);
        self.draw_values(&mut svg);
        self.draw_posterior(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn title(&self) -> String {
        match (&self.first_bad, self.credible_set.first()) {
            (Some(_), Some(first)) => {
                let subject: String = first.commit.subject.chars().take(60).collect();
                format!("First bad: {} {subject}", &first.commit.commit[..12])
            }
            _ => format!("{}: {}", self.metric, self.why),
        }
    }

    fn last(&self) -> f64 {
        let last = self.points.iter().map(|point| point.position).max();
        last.unwrap_or(1).max(self.candidates).max(1) as f64
    }

    fn across(&self, position: usize) -> f64 {
        LEFT + 8.0 + (WIDTH - LEFT - RIGHT - 16.0) * position as f64 / self.last()
    }

    fn draw_values(&self, svg: &mut String) {
        let (top, height) = VALUES;
        let all = || self.points.iter().flat_map(|point| &point.values).copied();
        let least = all().fold(f64::INFINITY, f64::min);
        let most = all().fold(f64::NEG_INFINITY, f64::max);
        if !(least.is_finite() && most.is_finite()) {
            return;
        }
        let room = if most > least { 0.06 * (most - least) } else { 0.1 * most.abs().max(1.0) };
        let (low, high) = (least - room, most + room);
        let up = |value: f64| top + height * (1.0 - (value - low) / (high - low));
        let step = round_step((high - low) / 5.0);
        let ticks = (low / step).ceil() as i64..=(high / step).floor() as i64;
        for tick in ticks {
            let value = tick as f64 * step;
            let y = up(value);
            let width = WIDTH - LEFT - RIGHT;
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}h{width}\" stroke=\"#e4e4e4\"/>");
            let label = at_tick(value, step, &self.unit);
            text(svg, LEFT - 8.0, y + 4.5, "text-anchor=\"end\"", &label);
        }
        self.draw_levels(svg, &up);
        for point in &self.points {
            let x = self.across(point.position);
            for value in &point.values {
                let y = up(*value);
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{MEASURED}\" \
                     fill-opacity=\"0.55\"/>"
                );
            }
        }
        for skip in &self.skipped {
            if let Some(point) = self.points.iter().find(|point| point.commit == skip.commit) {
                let (x, y) = (self.across(point.position) - 3.0, top + height - 9.0);
                let _ = writeln!(
                    svg,
                    "<path d=\"M{x:.1} {y:.1}l6 6m0 -6l-6 6\" stroke=\"#888\" stroke-width=\"1.5\" \
                     fill=\"none\"/>"
                );
            }
        }
        frame(svg, top, height);
        let crosses = if self.skipped.is_empty() { "" } else { ", each cross a skipped commit" };
        let name = format!("{}: each dot a run{crosses}", self.metric);
        text(svg, LEFT, top - 10.0, "font-weight=\"bold\"", &name);
    }

    /// The two levels: the good one up to the culprit, the bad one from it.
    fn draw_levels(&self, svg: &mut String, up: &dyn Fn(f64) -> f64) {
        let (top, height) = VALUES;
        let culprit = self.first_bad.as_ref().and_then(|id| {
            self.points.iter().find(|point| point.commit == *id).map(|point| point.position)
        });
        let ends = (LEFT, WIDTH - RIGHT);
        let split = culprit.map(|position| self.across(position));
        if let Some(x) = split {
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {top}v{height}\" stroke=\"{CULPRIT}\" stroke-width=\"1.5\" \
                 stroke-dasharray=\"4 3\"/>"
            );
            let style = format!("fill=\"{CULPRIT}\" font-size=\"12\"");
            let anchor = if x > WIDTH * 0.7 { " text-anchor=\"end\"" } else { "" };
            let at = if anchor.is_empty() { x + 5.0 } else { x - 5.0 };
            text(svg, at, top + 14.0, &(style + anchor), "first bad commit");
        }
        let levels = [
            ("good", self.good_level.mean, ends.0, split.unwrap_or(ends.1)),
            ("bad", self.bad_level.mean, split.unwrap_or(ends.0), ends.1),
        ];
        for (name, level, from, to) in levels {
            let y = up(level);
            if level.is_finite() && (top..=top + height).contains(&y) {
                let _ = writeln!(
                    svg,
                    "<path d=\"M{from:.1} {y:.1}H{to:.1}\" stroke=\"#333\" stroke-width=\"1.3\"/>"
                );
                let (said, anchor, x) = match name {
                    // Right of the dots of the good end.
                    "good" => ("mean of good commits", "", from + 22.0),
                    _ => ("mean of bad commits", "text-anchor=\"end\"", to - 22.0),
                };
                let style = format!("fill=\"#333\" font-size=\"12\" {anchor}");
                text(svg, x, y - 5.0, &style, said);
            }
        }
    }

    fn draw_posterior(&self, svg: &mut String) {
        let (top, height) = POSTERIOR;
        text(svg, LEFT, top - 10.0, "font-weight=\"bold\"", "probability of being the first bad");
        for share in [0.0, 0.5, 1.0] {
            let y = top + height * (1.0 - share);
            let width = WIDTH - LEFT - RIGHT;
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}h{width}\" stroke=\"#e4e4e4\"/>");
            text(svg, LEFT - 8.0, y + 4.5, "text-anchor=\"end\"", &format!("{share}"));
        }
        for point in self.points.iter().filter(|point| point.probability > 0.0005) {
            let tall = height * point.probability.min(1.0);
            let (x, y) = (self.across(point.position) - 2.0, top + height - tall);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"4\" height=\"{tall:.1}\" \
                 fill=\"{CULPRIT}\"/>"
            );
        }
        frame(svg, top, height);
        let step = round_step(self.last() / 8.0).max(1.0);
        for tick in 0..=(self.last() / step) as usize {
            let position = tick * step as usize;
            let label = position.to_string();
            let (x, y) = (self.across(position), top + height + 18.0);
            text(svg, x, y, "text-anchor=\"middle\"", &label);
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let axis = "commits in history order (0 is the good end)";
        text(svg, middle, top + height + 38.0, "text-anchor=\"middle\"", axis);
    }
}

/// A value at a tick: with the unit of the table, or with the decimals that distinguish it from its
/// neighbours.
fn at_tick(value: f64, step: f64, unit: &str) -> String {
    if ["s", "bytes"].contains(&unit) {
        return quantity(value, unit);
    }
    let text = tick_label(value, step);
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}

fn frame(svg: &mut String, top: f64, height: f64) {
    let width = WIDTH - LEFT - RIGHT;
    let _ =
        writeln!(svg, "<path d=\"M{LEFT} {top}v{height}h{width}\" fill=\"none\" stroke=\"#444\"/>");
}
