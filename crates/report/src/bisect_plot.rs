//! The picture of a search: every measured value in history order above, the posterior below.

use crate::bisect::{BisectReport, quantity};
use crate::plot_labels::Head;
use crate::range::{Near, round_step};
use crate::svg::{BOLD, Drawing, END, FRAME, GRID, MIDDLE};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 24.0;
/// Width of the coordinate systems.
const WIDE: f64 = WIDTH - LEFT - RIGHT;
/// Top and height of the values, top and height of the posterior.
const VALUES: (f64, f64) = (100.0, 250.0);
const POSTERIOR: (f64, f64) = (390.0, 90.0);
const HEIGHT: f64 = 528.0;
/// Blue for values, vermilion for the culprit, of the palette of the other plots.
const MEASURED: &str = "fill=\"#0072b2\" fill-opacity=\"0.55\"";
const CULPRIT: &str = "#d55e00";

impl BisectReport {
    /// A self-contained SVG file.
    pub fn to_svg(&self) -> String {
        let mut svg = Drawing::new(&self.title(), WIDTH, HEIGHT);
        let subtitle = format!(
            "{} runs, {} builds, {} skipped; {} commits in history order",
            self.runs,
            self.builds,
            self.skipped.len(),
            self.candidates
        );
        Head::new(&self.title(), &subtitle, &[], WIDTH - 32.0).draw(&mut svg, 16.0);
        let values = self.points.iter().flat_map(|point| &point.values).copied();
        if let Some(axis) = Near::new(values, 5.0) {
            self.draw_values(&mut svg, &axis);
        }
        self.draw_posterior(&mut svg);
        svg.finish()
    }

    fn title(&self) -> String {
        match (&self.first_bad, self.credible_set.first()) {
            (Some(_), Some(first)) => {
                let subject: String = first.commit.subject.chars().take(60).collect();
                format!("First bad: {} {subject}", first.commit.short())
            }
            _ => format!("{}: {}", self.metric, self.why),
        }
    }

    fn last(&self) -> f64 {
        let last = self.points.iter().map(|point| point.position).max();
        last.unwrap_or(1).max(self.candidates).max(1) as f64
    }

    fn across(&self, position: usize) -> f64 {
        LEFT + 8.0 + (WIDE - 16.0) * position as f64 / self.last()
    }

    fn draw_values(&self, svg: &mut Drawing, axis: &Near) {
        let (top, height) = VALUES;
        let up = |value: f64| top + height * (1.0 - axis.share(value));
        let crosses = if self.skipped.is_empty() { "" } else { ", each cross a skipped commit" };
        let heading = format!("{}: each dot a run{crosses}", self.metric);
        let ticks = axis.ticks().map(|(value, label)| match self.unit.as_str() {
            unit @ ("s" | "bytes") => (up(value), quantity(value, unit)),
            unit => (up(value), format!("{label} {unit}").trim_end().to_owned()),
        });
        frame(svg, VALUES, &heading, ticks);
        self.draw_levels(svg, &up);
        for point in &self.points {
            for value in &point.values {
                svg.dot(self.across(point.position), up(*value), 3.0, MEASURED);
            }
        }
        for skip in &self.skipped {
            if let Some(point) = self.points.iter().find(|point| point.commit == skip.commit) {
                let (x, y) = (self.across(point.position) - 3.0, top + height - 9.0);
                let grey = "stroke=\"#888\" stroke-width=\"1.5\" fill=\"none\"";
                svg.path(&format!("M{x:.1} {y:.1}l6 6m0 -6l-6 6"), grey);
            }
        }
    }

    /// The two levels: the good one up to the culprit, the bad one from it.
    fn draw_levels(&self, svg: &mut Drawing, up: &dyn Fn(f64) -> f64) {
        let (top, height) = VALUES;
        let culprit = self.first_bad.as_ref().and_then(|id| {
            self.points.iter().find(|point| point.commit == *id).map(|point| point.position)
        });
        let split = culprit.map(|position| self.across(position));
        if let Some(x) = split {
            let dashed =
                format!("stroke=\"{CULPRIT}\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\"");
            svg.path(&format!("M{x:.1} {top}v{height}"), &dashed);
            let (anchor, x) = if x > WIDTH * 0.7 { (END, x - 5.0) } else { ("", x + 5.0) };
            let style = format!("fill=\"{CULPRIT}\" font-size=\"12\" {anchor}");
            svg.text(x, top + 14.0, &style, "first bad commit");
        }
        let (left, right) = (LEFT, LEFT + WIDE);
        // The first name is right of the dots of the good end.
        let levels = [
            (self.good_level.mean, [left, split.unwrap_or(right)], "", "mean of good commits"),
            (self.bad_level.mean, [split.unwrap_or(left), right], END, "mean of bad commits"),
        ];
        for (level, [from, to], anchor, name) in levels {
            let y = up(level);
            if level.is_finite() && (top..=top + height).contains(&y) {
                let black = "stroke=\"#333\" stroke-width=\"1.3\"";
                svg.path(&format!("M{from:.1} {y:.1}H{to:.1}"), black);
                let x = if anchor == END { to - 22.0 } else { from + 22.0 };
                svg.text(x, y - 5.0, &format!("fill=\"#333\" font-size=\"12\" {anchor}"), name);
            }
        }
    }

    fn draw_posterior(&self, svg: &mut Drawing) {
        let (top, height) = POSTERIOR;
        let ticks = [0.0, 0.5, 1.0].map(|share| (top + height * (1.0 - share), share.to_string()));
        frame(svg, POSTERIOR, "probability of being the first bad", ticks.into_iter());
        for point in self.points.iter().filter(|point| point.probability > 0.0005) {
            let (x, bottom) = (self.across(point.position), top + height);
            let bar = format!("M{x:.1} {bottom:.1}v-{:.1}", height * point.probability.min(1.0));
            svg.path(&bar, &format!("stroke=\"{CULPRIT}\" stroke-width=\"4\""));
        }
        let step = round_step(self.last() / 8.0).max(1.0);
        for tick in 0..=(self.last() / step) as usize {
            let position = tick * step as usize;
            svg.text(self.across(position), top + height + 18.0, MIDDLE, &position.to_string());
        }
        let axis = "commits in history order (0 is the good end)";
        svg.text(LEFT + WIDE / 2.0, top + height + 38.0, MIDDLE, axis);
    }
}

/// A coordinate system with a heading, and its vertical ticks with their labels.
fn frame(
    svg: &mut Drawing,
    (top, height): (f64, f64),
    heading: &str,
    ticks: impl Iterator<Item = (f64, String)>,
) {
    svg.text(LEFT, top - 10.0, BOLD, heading);
    for (y, label) in ticks {
        svg.path(&format!("M{LEFT} {y:.1}h{WIDE}"), GRID);
        svg.text(LEFT - 8.0, y + 4.5, END, &label);
    }
    svg.path(&format!("M{LEFT} {top}v{height}h{WIDE}"), FRAME);
}
