//! The curve of a run: Jobs/Min and JTI over the users, as SVG and as an HTML page.

use crate::page::{Block, Page};
use crate::plot::{Axis, Panel, Plot, Point, Series};
use crate::points::{RunPoint, RunReport};
use crate::range::Scale;

impl RunReport {
    /// Returns the curve without failed points. `machine` names the machine of the measurement.
    pub fn curve(&self, machine: &str) -> Plot {
        let axis = |label: &str, scale| Axis { label: label.to_owned(), scale };
        let points: Vec<&RunPoint> =
            self.points.iter().filter(|point| point.failed.is_none()).collect();
        let series = |name: &str, value: &dyn Fn(&RunPoint) -> (f64, [f64; 2])| Series {
            name: name.to_owned(),
            points: points
                .iter()
                .map(|point| {
                    let (y, [lo, hi]) = value(point);
                    Point { x: point.users as f64, y, lo, hi }
                })
                .collect(),
        };
        let none = [f64::NAN; 2];
        let interval = |point: &RunPoint| point.jobs_per_min_ci95.unwrap_or(none);
        let rate = series("Jobs/Min", &|point| (point.jobs_per_min, interval(point)));
        let jti = series("JTI", &|point| (point.jti, none));
        let panel = |title: &str, label: &str, series| Panel {
            title: title.to_owned(),
            x: axis("users", Scale::Log),
            y: axis(label, Scale::Linear),
            series: vec![series],
        };
        let bars = if points.iter().any(|point| interval(point)[0].is_finite()) {
            "; bars: 95 % interval"
        } else {
            ""
        };
        Plot {
            title: self.title.clone(),
            subtitle: format!("{machine}{bars}"),
            panels: vec![panel("Throughput", "Jobs/Min", rate), panel("Evenness", "JTI, %", jti)],
        }
    }

    /// The curve and the tables as one page that needs nothing else.
    pub fn to_html(&self, machine: &str) -> String {
        let plot = Block::plot(&self.curve(machine));
        Page::stored(&self.title, &self.verdict(), Some(plot), &self.tables()).to_html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> RunReport {
        let point = |users: u64, rate: f64, jti: f64| RunPoint {
            users,
            jobs_per_min: rate,
            jti,
            real_s: 5820.0 * users as f64 / rate,
            jobs_per_min_ci95: Some([rate * 0.97, rate * 1.03]),
            ..RunPoint::default()
        };
        RunReport {
            title: "shared: 97 jobs per user, this machine".to_owned(),
            inputs: None,
            points: vec![
                point(1, 9_400.0, 100.0),
                point(2, 18_800.0, 97.0),
                point(10, 20_400.0, 98.0),
                point(50, 18_500.0, 96.0),
                point(200, 20_700.0, 93.0),
            ],
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_curve_has_both_panels() {
        let svg = example().curve("2 CPUs, Linux 6.1").to_svg();
        assert!(svg.contains("Jobs/Min") && svg.contains("JTI, %") && svg.contains("95 %"));
        assert!(!svg.contains("NaN"));
    }
}
