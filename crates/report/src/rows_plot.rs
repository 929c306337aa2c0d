//! Rows on one axis: each with its values as dots, or with an estimate and its interval. For
//! distributions of measurements, and for changes.

use crate::format::{middle, width};
use crate::plot_labels::{CHARACTER, Head, colour};
use crate::range::Near;
use crate::svg::{Drawing, END, FRAME, GRID, MIDDLE};

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsLine {
    /// Its name, left of it.
    pub name: String,
    /// Values, each drawn as a dot; with their quartiles and their median.
    pub values: Vec<f64>,
    /// An estimate with the ends of its interval.
    pub estimate: Option<[f64; 3]>,
    /// Text right of it.
    pub said: String,
}

/// Rows that share an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsPanel {
    /// The quantity on the axis, with its unit.
    pub label: String,
    /// A value that is marked by a line through all rows.
    pub reference: Option<f64>,
    /// The rows, the first on top.
    pub lines: Vec<RowsLine>,
}

/// Panels of rows, one below the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsPlot {
    /// The result.
    pub title: String,
    /// How the values were made.
    pub subtitle: String,
    /// The panels.
    pub panels: Vec<RowsPanel>,
}

/// Width of the axis, in pixels.
const WIDTH: f64 = 520.0;
const MARGIN: f64 = 16.0;
const ROW: f64 = 46.0;
/// Room below the rows, for ticks and the label of the axis.
const FOOT: f64 = 52.0;
const LONGEST_NAME: usize = 34;
/// Half the height within which dots are spread.
const SPREAD: f64 = 11.0;

impl RowsPlot {
    /// A self-contained SVG file.
    pub fn to_svg(&self) -> String {
        let left = MARGIN + 12.0 + self.room(|line| &line.name);
        let right = 12.0 + self.room(|line| &line.said);
        let whole = left + WIDTH + right + MARGIN;
        let head = Head::new(&self.title, &self.subtitle, &[], whole - 2.0 * MARGIN);
        let rows: f64 = self.panels.iter().map(height).sum();
        let all = head.height() + rows + MARGIN;
        let mut svg = Drawing::new(&self.title, whole, all);
        head.draw(&mut svg, MARGIN);
        let mut top = head.height();
        for panel in &self.panels {
            panel.draw(&mut svg, left, top);
            top += height(panel);
        }
        svg.finish()
    }

    /// Room for the longest of some texts.
    fn room(&self, of: impl Fn(&RowsLine) -> &String) -> f64 {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let longest = lines.map(|line| width(of(line)).min(LONGEST_NAME)).max().unwrap_or(0);
        CHARACTER * longest as f64
    }
}

fn height(panel: &RowsPanel) -> f64 {
    ROW * panel.lines.len() as f64 + FOOT
}

impl RowsPanel {
    fn draw(&self, svg: &mut Drawing, left: f64, top: f64) {
        fn ends(line: &RowsLine) -> Vec<f64> {
            let estimate = line.estimate.into_iter().flatten();
            line.values.iter().copied().chain(estimate).collect::<Vec<f64>>()
        }
        let values = self.lines.iter().flat_map(ends).chain(self.reference);
        let Some(axis) = Near::new(values, 6.0) else { return };
        let across = |value: f64| left + WIDTH * axis.share(value);
        let bottom = top + ROW * self.lines.len() as f64;
        for (value, label) in axis.ticks() {
            let x = across(value);
            svg.path(&format!("M{x:.1} {top:.1}V{bottom:.1}"), GRID);
            svg.text(x, bottom + 18.0, MIDDLE, &label);
        }
        if let Some(x) = self.reference.map(across) {
            let dashed = "stroke=\"#666\" stroke-dasharray=\"5 4\"";
            svg.path(&format!("M{x:.1} {top:.1}V{bottom:.1}"), dashed);
        }
        svg.path(&format!("M{left:.1} {bottom:.1}h{WIDTH}"), FRAME);
        svg.text(left + WIDTH / 2.0, bottom + 38.0, MIDDLE, &self.label);
        for (style, line) in self.lines.iter().enumerate() {
            let y = top + ROW * (style as f64 + 0.5);
            line.draw(svg, &across, y, style);
            let name = middle(&line.name, LONGEST_NAME);
            svg.text(left - 10.0, y + 4.5, END, &name);
            let said = middle(&line.said, LONGEST_NAME);
            svg.text(left + WIDTH + 10.0, y + 4.5, "", &said);
        }
    }
}

impl RowsLine {
    fn draw(&self, svg: &mut Drawing, across: &dyn Fn(f64) -> f64, y: f64, style: usize) {
        let colour = colour(style);
        let mut sorted: Vec<f64> =
            self.values.iter().copied().filter(|value| value.is_finite()).collect();
        for (number, value) in sorted.iter().enumerate() {
            // The fractional parts of multiples of the golden ratio are spread evenly.
            let at = (number as f64 * 0.618_034).fract() * 2.0 - 1.0;
            let (x, y) = (across(*value), y + SPREAD * at);
            svg.dot(x, y, 3.0, &format!("fill=\"{colour}\" fill-opacity=\"0.45\""));
        }
        sorted.sort_by(f64::total_cmp);
        if let [first, .., last] = sorted[..] {
            let quantile = |share: f64| {
                let at = share * (sorted.len() - 1) as f64;
                let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
                across(below + (above - below) * at.fract())
            };
            let [from, lower, middle, upper, to] =
                [across(first), quantile(0.25), quantile(0.5), quantile(0.75), across(last)];
            let (top, tall, wide) = (y - SPREAD - 3.0, 2.0 * SPREAD + 6.0, upper - lower);
            let whiskers = format!("M{from:.1} {y:.1}H{lower:.1}M{upper:.1} {y:.1}H{to:.1}");
            let quartiles = format!("M{lower:.1} {top:.1}h{wide:.1}v{tall:.1}h-{wide:.1}z");
            let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width");
            svg.path(&(whiskers + &quartiles), &format!("{stroke}=\"1.2\""));
            svg.path(&format!("M{middle:.1} {top:.1}v{tall:.1}"), &format!("{stroke}=\"3\""));
        }
        let Some([value, lo, hi]) = self.estimate.filter(|ends| ends[0].is_finite()) else {
            return;
        };
        let x = across(value);
        if lo.is_finite() && hi.is_finite() {
            let (from, to, up) = (across(lo), across(hi), y - 5.0);
            let ends = format!("M{from:.1} {up:.1}v10M{to:.1} {up:.1}v10");
            let stroke = format!("stroke=\"{colour}\" stroke-width=\"1.5\"");
            svg.path(&format!("M{from:.1} {y:.1}H{to:.1}{ends}"), &stroke);
        }
        svg.dot(x, y, 4.5, &format!("fill=\"{colour}\""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_drawn_and_nothing_hostile_is() {
        let line = RowsLine {
            name: "<old>".to_owned(),
            values: vec![1.0, 2.0, f64::NAN, 4.0, f64::INFINITY],
            said: "± 1".to_owned(),
            estimate: None,
        };
        let other = RowsLine { estimate: Some([1.5, 1.0, f64::NAN]), ..RowsLine::default() };
        let empty = RowsPanel { label: "nothing".to_owned(), ..RowsPanel::default() };
        let panel = RowsPanel { label: "s".into(), reference: Some(0.0), lines: vec![line, other] };
        let plot =
            RowsPlot { title: "a & b".into(), panels: vec![panel, empty], ..RowsPlot::default() };
        let svg = plot.to_svg();
        assert_eq!(svg.matches("r=\"3\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("r=\"4.5\"").count(), 1, "{svg}");
        assert!(
            svg.contains("&lt;old&gt;") && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
    }
}
