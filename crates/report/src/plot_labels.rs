//! The colours and names of the series of a plot: at the ends of their lines where there is one
//! panel, otherwise in rows above the panels.

use crate::format::{middle, width, wrap};
use crate::svg::Drawing;

/// The name of a line that shows what would be ideal; it is drawn in grey, without markers.
pub(crate) const IDEAL: &str = "ideal";

/// Width of a character of 13-pixel Helvetica, on the safe side.
pub(crate) const CHARACTER: f64 = 7.2;
/// Width of one of the bold 18-pixel title.
const TITLE_CHARACTER: f64 = 10.4;
/// Maximum length of a name at the end of a line, characters.
const LONGEST_NAME: usize = 30;
/// Height of a line of names.
const LINE: f64 = 16.0;

/// Colours that colour-blind readers can distinguish (Okabe and Ito, without yellow, which is too
/// faint on white), then two darker ones.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#333333", "#8a6500", "#6a3d9a"];

/// The colour of a style; no two styles have the same one.
pub(crate) fn colour(style: usize) -> String {
    if let Some(colour) = COLOURS.get(style) {
        return (*colour).to_owned();
    }
    // The golden angle keeps neighbours apart, however many there are.
    let turn = (style as f64 * 137.508) % 360.0;
    let light = [36, 48, 58][style % 3];
    format!("hsl({turn:.0}, 62%, {light}%)")
}

/// The texts above the panels, in lines that fit the width.
pub(crate) struct Head {
    title: Vec<String>,
    subtitle: Vec<String>,
    /// Rows of names, each with its style.
    legend: Vec<Vec<(usize, String)>>,
}

impl Head {
    /// In a page of `room` pixels; without names that are at the ends of their lines.
    pub(crate) fn new(title: &str, subtitle: &str, names: &[&str], room: f64) -> Self {
        let mut legend: Vec<Vec<(usize, String)>> = Vec::new();
        let mut used = f64::INFINITY;
        for (style, name) in names.iter().enumerate() {
            let name = middle(name, 60);
            let needs = legend_width(&name);
            if used + needs > room {
                legend.push(Vec::new());
                used = 0.0;
            }
            used += needs;
            if let Some(row) = legend.last_mut() {
                row.push((style, name));
            }
        }
        Self {
            title: wrap(title, (room / TITLE_CHARACTER) as usize),
            subtitle: wrap(subtitle, (room / CHARACTER) as usize),
            legend,
        }
    }

    pub(crate) fn height(&self) -> f64 {
        let legend = if self.legend.is_empty() { 0.0 } else { 6.0 };
        8.0 + 22.0 * self.title.len() as f64
            + 17.0 * self.subtitle.len() as f64
            + 20.0 * self.legend.len() as f64
            + legend
            + 14.0
    }

    pub(crate) fn draw(&self, svg: &mut Drawing, left: f64) {
        let mut y = 6.0;
        for line in &self.title {
            y += 22.0;
            svg.text(left, y, "font-size=\"18\" font-weight=\"bold\"", line);
        }
        y += 3.0;
        for line in &self.subtitle {
            y += 17.0;
            svg.text(left, y, "fill=\"#555\"", line);
        }
        y += 6.0;
        for row in &self.legend {
            y += 20.0;
            let mut x = left;
            for (style, name) in row {
                let (colour, line) = (colour(*style), y - 4.5);
                let stroke = format!("stroke=\"{colour}\" stroke-width=\"2\"");
                svg.path(&format!("M{x:.1} {line:.1}h26"), &stroke);
                marker(svg, x + 13.0, line, *style);
                svg.text(x + 33.0, y, "", name);
                x += legend_width(name);
            }
        }
    }
}

fn legend_width(name: &str) -> f64 {
    33.0 + CHARACTER * width(name) as f64 + 22.0
}

/// The name of a line at its end.
pub(crate) struct Label {
    /// Where the line ends.
    pub(crate) end: (f64, f64),
    /// The style of the line.
    pub(crate) style: usize,
    pub(crate) name: String,
}

/// Room that the names at the ends of lines need.
pub(crate) fn room(names: &[&str]) -> f64 {
    let longest = names.iter().map(|name| width(name).min(LONGEST_NAME)).max().unwrap_or(0);
    14.0 + CHARACTER * longest as f64
}

/// Draws names right of `edge`, moved apart where lines end close to each other.
pub(crate) fn draw(svg: &mut Drawing, mut labels: Vec<Label>, edge: f64, top: f64, bottom: f64) {
    labels.sort_by(|a, b| a.end.1.total_cmp(&b.end.1));
    let mut places: Vec<f64> = Vec::new();
    for label in &labels {
        places.push(label.end.1.max(places.last().map_or(top, |last| last + LINE)));
    }
    // Those that are below the frame now push the others up.
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LINE;
    }
    for (label, place) in labels.iter().zip(places) {
        let (x, y) = label.end;
        let colour = colour(label.style);
        let x = x + 6.0;
        if x < edge - 8.0 || (place - y).abs() > 3.0 {
            let steps = format!("M{x:.1} {y:.1}L{:.1} {place:.1}", edge + 6.0);
            let thin = "stroke-width=\"0.7\" stroke-opacity=\"0.6\"";
            svg.path(&steps, &format!("stroke=\"{colour}\" {thin}"));
        }
        let fill = format!("fill=\"{colour}\"");
        svg.text(edge + 9.0, place + 4.5, &fill, &middle(&label.name, LONGEST_NAME));
    }
}

/// The marker of a style: one of six shapes, in its colour.
pub(crate) fn marker(svg: &mut Drawing, x: f64, y: f64, style: usize) {
    let look = format!("fill=\"{}\" stroke=\"#fff\" stroke-width=\"1\"", colour(style));
    let (left, top, steps) = match style % 6 {
        0 => return svg.dot(x, y, 4.0, &look),
        1 => (3.7, 3.7, "h7.4v7.4h-7.4z"),
        2 => (0.0, 5.2, "l4.8 8.2h-9.6z"),
        3 => (0.0, 5.0, "l5 5l-5 5l-5 -5z"),
        4 => (0.0, -5.2, "l4.8 -8.2h-9.6z"),
        _ => (4.5, 1.5, "h9v3h-9z"),
    };
    svg.path(&format!("M{:.1} {:.1}{steps}", x - left, y - top), &look);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_colour_comes_twice() {
        let colours: BTreeSet<String> = (0..60).map(colour).collect();
        assert_eq!(colours.len(), 60);
    }

    #[test]
    fn names_are_apart_and_within_the_frame() {
        let label = |y: f64| Label { end: (10.0, y), style: 0, name: "x".to_owned() };
        let mut svg = Drawing::new("", 100.0, 100.0);
        draw(&mut svg, [95.0, 96.0, 20.0, 97.0].map(label).into(), 10.0, 0.0, 100.0);
        let svg = svg.finish();
        let texts = svg.lines().filter_map(|line| line.strip_prefix("<text x=\"19.0\" y=\""));
        let places: Vec<f64> = texts
            .map(|rest| rest.split('"').next().unwrap_or("").parse().expect("a place"))
            .collect();
        assert_eq!(places.len(), 4);
        assert!(places.windows(2).all(|two| two[1] - two[0] >= LINE - 0.1), "{places:?}");
        assert!(places.iter().all(|place| (0.0..=105.0).contains(place)), "{places:?}");
    }

    #[test]
    fn a_legend_is_never_cut() {
        let names = ["a-very-long-name-of-a-lock-that-is-shown"; 5];
        let head = Head::new("title", "subtitle", &names, 400.0);
        assert_eq!(head.legend.iter().map(Vec::len).collect::<Vec<_>>(), [1; 5]);
        let few = Head::new("title", "subtitle", &["a", "b"], 400.0);
        assert_eq!(few.legend.len(), 1);
    }
}
