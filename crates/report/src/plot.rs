//! A static SVG plot: panels of series with error bars, for print and for a light page.
//!
//! No script, no external font, no colour that carries meaning alone: every series has its own
//! marker. A series keeps its colour and marker in all panels of a plot.

use crate::range::{Range, Scale};
use crate::svg::{BOLD, Drawing, END, FRAME, GRID, MIDDLE};

use crate::format::{distinct, fixed};
use crate::plot_labels::{self, CHARACTER, Head, IDEAL, Label, colour, marker};
use crate::table::{Cell, Column, Table};

/// An axis and its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The plotted quantity, with its unit.
    pub label: String,
    /// Spacing.
    pub scale: Scale,
}

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Position.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Lower end of the interval of `y`; not finite if there is none.
    pub lo: f64,
    /// Upper end of the interval of `y`; not finite if there is none.
    pub hi: f64,
}

/// Points that belong together; drawn in their order and joined by a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend; a name means the same thing in every panel.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
}

/// One coordinate system.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its heading.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The plotted series.
    pub series: Vec<Series>,
}

/// Panels side by side under one title and one legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// One line under the title: machine, mix, seeds, meaning of the bars.
    pub subtitle: String,
    /// From left to right.
    pub panels: Vec<Panel>,
}

/// Width of a panel with its labels, in pixels.
const PANEL_WIDTH: f64 = 370.0;
/// Blank on both sides of the page.
const MARGIN: f64 = 16.0;
/// Width of a panel that is alone.
const ALONE_WIDTH: f64 = 560.0;
/// Height of the coordinate system.
const HEIGHT: f64 = 260.0;
/// Room above it for the heading of the panel.
const PANEL_HEAD: f64 = 30.0;
/// Room left of it for tick labels and the label of the axis.
const LEFT: f64 = 62.0;
/// Room right of it.
const RIGHT: f64 = 18.0;
/// Room under it for tick labels and the label of the axis.
const FOOT: f64 = 58.0;
/// Distance of the points of neighbouring series at one place, and of the last from the place.
const ASIDE: f64 = 5.0;
const ASIDE_MOST: f64 = 8.0;
/// Smallest blank between two tick labels on the horizontal axis.
const LABEL_GAP: f64 = 7.0;

impl Plot {
    /// All points as CSV.
    pub fn to_csv(&self) -> String {
        let columns = ["panel", "x_axis", "y_axis", "series", "x", "y", "lo", "hi"];
        let mut table = Table::new("", columns.map(Column::text).to_vec());
        for panel in &self.panels {
            for series in &panel.series {
                for point in &series.points {
                    let mut row: Vec<Cell> =
                        [&panel.title, &panel.x.label, &panel.y.label, &series.name]
                            .map(Cell::text)
                            .into();
                    let numbers = [point.x, point.y, point.lo, point.hi];
                    row.extend(numbers.map(|number| Cell::shown("", number)));
                    table.row(row);
                }
            }
        }
        table.to_csv()
    }

    /// The plot as a self-contained SVG file.
    pub fn to_svg(&self) -> String {
        let width = self.width();
        let cut = if self.cuts() { "; arrow: the interval ends beyond the axis" } else { "" };
        let names = self.names();
        let above = if self.is_single() { &[][..] } else { &names[..] };
        let subtitle = format!("{}{cut}", self.subtitle);
        let head = Head::new(&self.title, &subtitle, above, width - 2.0 * MARGIN);
        let height = head.height() + PANEL_HEAD + HEIGHT + FOOT + MARGIN;
        let mut svg = Drawing::new(&self.title, width, height);
        head.draw(&mut svg, MARGIN);
        for (index, panel) in self.panels.iter().enumerate() {
            let left = MARGIN + PANEL_WIDTH * index as f64 + LEFT;
            let width = self.panel_width() - LEFT - RIGHT;
            let top = head.height() + PANEL_HEAD;
            let frame = Frame::new(panel, left, top, width, self.heights(&panel.y));
            frame.draw(&mut svg, &names);
            if self.is_single() {
                frame.draw_names(&mut svg, &names);
            }
        }
        svg.finish()
    }

    /// Whether the names of lines are at their ends.
    fn is_single(&self) -> bool {
        self.panels.len() == 1 && self.names().len() as f64 <= HEIGHT / 16.0
    }

    fn panel_width(&self) -> f64 {
        if self.panels.len() == 1 { ALONE_WIDTH } else { PANEL_WIDTH }
    }

    fn width(&self) -> f64 {
        let names = if self.is_single() { plot_labels::room(&self.names()) } else { 0.0 };
        2.0 * MARGIN + self.panel_width() * self.panels.len().max(1) as f64 + names
    }

    /// Names of the series in the order in which they first appear; the position is the style.
    fn names(&self) -> Vec<&str> {
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        distinct(series.map(|series| series.name.as_str()))
    }

    /// The range of a vertical axis: panels with the same one share it, so that they can be
    /// compared by eye. Intervals may extend the axis by a quarter of the points' range at each
    /// end; wider intervals are cut, since the interval of two seeds would flatten all others.
    fn heights(&self, axis: &Axis) -> Range {
        let panels = self.panels.iter().filter(|panel| panel.y == *axis);
        let points = panels.flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        let span = Range::new(axis.scale, points.clone().map(|point| point.y));
        let ends = |point: &Point| [point.y, point.lo, point.hi];
        let [least, most] = match axis.scale {
            Scale::Linear => {
                let room = (span.high - span.low) / 4.0;
                // An interval of a quantity that is never negative need not show that it might be.
                [if span.low >= 0.0 { 0.0 } else { span.low - room }, span.high + room]
            }
            Scale::Log | Scale::Decades => {
                let factor = (span.high / span.low).powf(0.25);
                [span.low / factor, span.high * factor]
            }
        };
        let within = |value: f64| value.clamp(least, most);
        Range::new(axis.scale, points.flat_map(ends).filter(|end| end.is_finite()).map(within))
    }

    /// Whether an interval is cut.
    fn cuts(&self) -> bool {
        self.panels.iter().any(|panel| {
            let y = self.heights(&panel.y);
            let mut points = panel.series.iter().flat_map(|series| &series.points);
            points.any(|point| y.shows(point.y) && y.cut(point.lo, point.hi).contains(&true))
        })
    }
}

/// A panel with its place on the page and its ranges.
struct Frame<'a> {
    panel: &'a Panel,
    left: f64,
    top: f64,
    width: f64,
    x: Range,
    y: Range,
}

impl<'a> Frame<'a> {
    fn new(panel: &'a Panel, left: f64, top: f64, width: f64, y: Range) -> Self {
        // Ticks are where values are, not where an ideal line bends.
        let series = panel.series.iter().filter(|series| series.name != IDEAL);
        let points = series.flat_map(|series| &series.points);
        let x = Range::new(panel.x.scale, points.map(|point| point.x));
        Self { panel, left, top, width, x, y }
    }

    /// Where `x` is on the page.
    fn across(&self, x: f64) -> f64 {
        self.left + self.width * self.x.share(x)
    }

    /// Where `y` is on the page.
    fn up(&self, y: f64) -> f64 {
        self.top + HEIGHT * (1.0 - self.y.share(y))
    }

    fn draw(&self, svg: &mut Drawing, names: &[&str]) {
        let (left, top, width) = (self.left, self.top, self.width);
        svg.text(left, top - 11.0, BOLD, &self.panel.title);
        self.draw_ticks(svg);
        svg.path(&format!("M{left:.1} {top:.1}v{HEIGHT}h{width:.1}"), FRAME);
        svg.text(left + width / 2.0, top + HEIGHT + 42.0, MIDDLE, &self.panel.x.label);
        let (x, y) = (left - 46.0, top + HEIGHT / 2.0);
        let turned = format!("{MIDDLE} transform=\"rotate(-90 {x:.1} {y:.1})\"");
        svg.text(x, y, &turned, &self.panel.y.label);
        for series in &self.panel.series {
            let style = names.iter().position(|name| *name == series.name).unwrap_or(0);
            self.draw_series(svg, series, style);
        }
    }

    /// The names of the lines, right of the frame.
    fn draw_names(&self, svg: &mut Drawing, names: &[&str]) {
        let label = |series: &Series| {
            if series.name == IDEAL {
                return None;
            }
            let shown = |point: &&Point| self.x.shows(point.x) && self.y.shows(point.y);
            let last = series.points.iter().filter(shown).max_by(|a, b| a.x.total_cmp(&b.x))?;
            let style = names.iter().position(|name| *name == series.name).unwrap_or(0);
            let end = (self.across(last.x) + self.aside(series), self.up(last.y));
            Some(Label { end, style, name: series.name.clone() })
        };
        let labels = self.panel.series.iter().filter_map(label).collect();
        plot_labels::draw(svg, labels, self.left + self.width, self.top, self.top + HEIGHT);
    }

    fn draw_ticks(&self, svg: &mut Drawing) {
        for value in self.y.ticks() {
            let y = self.up(value);
            svg.path(&format!("M{:.1} {y:.1}h{:.1}", self.left, self.width), GRID);
            svg.text(self.left - 8.0, y + 4.5, END, &label(value));
        }
        // From the right, because a reader looks for the end of a sweep.
        let mut free = f64::INFINITY;
        for value in self.x.ticks().into_iter().rev() {
            let (x, y) = (self.across(value), self.top + HEIGHT);
            svg.path(&format!("M{x:.1} {y:.1}v5"), FRAME);
            let words = label(value);
            let half = CHARACTER * words.chars().count() as f64 / 2.0;
            if x + half + LABEL_GAP <= free {
                svg.text(x, y + 20.0, MIDDLE, &words);
                free = x - half;
            }
        }
    }

    /// Returns the offset of the points of a series from their position, so that intervals at one
    /// position do not hide each other.
    fn aside(&self, series: &Series) -> f64 {
        let all = self.panel.series.iter().filter(|series| series.name != IDEAL);
        let all: Vec<&str> = all.map(|series| series.name.as_str()).collect();
        let has_bar = |point: &Point| point.lo < point.hi;
        let bars = self.panel.series.iter().flat_map(|series| &series.points).any(has_bar);
        let Some(at) = all.iter().position(|name| *name == series.name).filter(|_| bars) else {
            return 0.0;
        };
        let middle = (all.len() - 1) as f64 / 2.0;
        (at as f64 - middle) * ASIDE.min(ASIDE_MOST / middle.max(1.0))
    }

    fn draw_series(&self, svg: &mut Drawing, series: &Series, style: usize) {
        let is_ideal = series.name == IDEAL;
        let aside = self.aside(series);
        let colour = if is_ideal { "#999".to_owned() } else { colour(style) };
        let shown: Vec<&Point> = series
            .points
            .iter()
            .filter(|point| self.x.shows(point.x) && self.y.shows(point.y))
            .collect();
        let corners: Vec<String> = shown
            .iter()
            .map(|point| format!("{:.1},{:.1}", self.across(point.x) + aside, self.up(point.y)))
            .collect();
        let line = format!(
            "polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"{}",
            corners.join(" "),
            if is_ideal { " stroke-dasharray=\"5 4\"" } else { "" }
        );
        svg.add(&line, None);
        if is_ideal {
            if let Some(end) = shown.last() {
                let (x, y) = (self.across(end.x) + 6.0, self.up(end.y) + 4.5);
                svg.text(x, y, "fill=\"#777\"", IDEAL);
            }
            return;
        }
        for point in shown {
            let (x, y) = (self.across(point.x) + aside, self.up(point.y));
            if point.lo.is_finite() && point.hi.is_finite() {
                let [below, above] = self.y.cut(point.lo, point.hi);
                let low = self.up(point.lo.max(self.y.low));
                let high = self.up(point.hi.min(self.y.high));
                let from = x - 3.5;
                // An end of the interval has a bar across it; a clipped end has an arrow.
                let end = |cut: bool, y: f64, back: f64| {
                    if cut {
                        format!("M{from:.1} {:.1}L{x:.1} {y:.1}l3.5 {back:.1}", y + back)
                    } else {
                        format!("M{from:.1} {y:.1}h7")
                    }
                };
                let ends = end(below, low, -5.0) + &end(above, high, 5.0);
                let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\"");
                svg.path(&format!("M{x:.1} {low:.1}V{high:.1}{ends}"), &stroke);
            }
            marker(svg, x, y, style);
        }
    }
}

/// A tick label without superfluous zeros; thousands as k so that 2000 and 1500 stay apart.
fn label(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = fixed(value, 3);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    // A true minus sign is as wide as a digit.
    format!("{}{suffix}", text.replace('-', "−"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(title: &str, label: &str, xs: &[f64], losses: &[f64]) -> Panel {
        let series = |name: &str, factor: f64| Series {
            name: name.to_owned(),
            points: xs
                .iter()
                .zip(losses)
                .map(|(x, loss)| {
                    let y = loss * factor;
                    Point { x: *x, y, lo: y - 0.6 - y * 0.05, hi: y + 0.6 + y * 0.05 }
                })
                .collect(),
        };
        Panel {
            title: title.to_owned(),
            x: Axis { label: label.to_owned(), scale: Scale::Log },
            y: Axis { label: "loss of Jobs/Min, %".to_owned(), scale: Scale::Linear },
            series: vec![series("2.6.26-rc1 (handoff)", 1.0), series("+semaphore-speedup", 0.02)],
        }
    }

    /// Three panels in the shape of the sensitivity sweep; the numbers are made up for this test.
    fn example() -> Plot {
        let cpus = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        let tasks = [4.0, 16.0, 64.0, 250.0, 1_000.0, 2_000.0];
        let hold = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
        Plot {
            title: "What handoff costs, against 2.6.25".to_owned(),
            subtitle: "4 CPUs, 2000 tasks unless swept, mix shared; bars: 95 % interval, 4 seeds"
                .to_owned(),
            panels: vec![
                panel("CPUs", "CPUs", &cpus, &[0.2, 16.0, 41.8, 63.0, 78.1, 87.5, 93.2]),
                panel("Tasks", "tasks", &tasks, &[-0.4, 1.2, 8.8, 24.0, 37.9, 41.8]),
                panel(
                    "Hold time",
                    "hold time, µs",
                    &hold,
                    &[5.0, 9.4, 22.0, 41.8, 55.2, 71.0, 80.3],
                ),
            ],
        }
    }

    #[test]
    fn svg() {
        insta::assert_snapshot!(example().to_svg());
    }

    #[test]
    fn csv() {
        let csv = example().to_csv();
        assert_eq!(csv.lines().next(), Some("panel,x_axis,y_axis,series,x,y,lo,hi"));
        assert_eq!(csv.lines().count(), 1 + 2 * (7 + 6 + 7));
        assert!(csv.contains("CPUs,CPUs,\"loss of Jobs/Min, %\",2.6.26-rc1 (handoff),2,16,"));
    }

    #[test]
    fn hostile_values_do_not_reach_the_page() {
        let mut plot = example();
        let bad = [f64::NAN, f64::INFINITY, -1.0, 0.0].map(|x| Point { x, y: x, lo: x, hi: x });
        plot.panels[0].series[0].points.extend(bad);
        plot.panels[1].series.clear();
        plot.panels[2].series[0].points[0].lo = f64::NEG_INFINITY;
        plot.title = "<a> & \"b\"".to_owned();
        let svg = plot.to_svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("&lt;a&gt; &amp; &quot;b&quot;"));
    }

    #[test]
    fn an_interval_that_would_flatten_the_others_is_cut() {
        let mut plot = example();
        assert!(!plot.to_svg().contains("beyond the axis"));
        let high = |plot: &Plot| plot.heights(&plot.panels[0].y).high;
        let before = high(&plot);
        plot.panels[1].series[0].points[1].hi = 1e4;
        assert!(high(&plot) < before * 2.0);
        let svg = plot.to_svg();
        assert!(svg.contains("beyond the axis") && svg.matches("l3.5 5.0").count() == 1, "{svg}");
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(
            [0.0, 0.5, 2000.0, 20_000.0, 1_500_000.0, -5.0].map(label),
            ["0", "0.5", "2000", "20k", "1.5M", "−5"]
        );
    }
}
