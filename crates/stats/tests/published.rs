//! Published intervals follow from the published standard deviations by `1.96 sd / sqrt(n)`.

use convoy_stats::{Estimate, Interval};

const TABLE: &str = include_str!("data/published.csv");

/// Rows that the source prints inconsistently: the printed value, the formula's value, and the
/// reason.
const MISPRINTS: [(&str, &str, &str); 4] = [
    // The interval repeats the standard deviation: 0.096 for 0.094.
    ("zone-lock-2007/8 CPUs", "config", "unmod"),
    // The same: 0.466 for 0.457.
    ("zone-lock-2007/8 CPUs", "config", "opt"),
    // 0.180 for 0.129; a standard deviation of 0.355 would fit.
    ("zone-lock-2007/hardware", "objdump", "unmod"),
    // 3.963 for 3.935: the standard deviation repeats the column before.
    ("ticket-lock-2008", "kernel_compile", "ts+opt+cl"),
];

/// Half a unit of the last of three printed digits.
const ROUNDING: f64 = 0.0005 + 1e-9;

#[test]
fn every_published_interval_but_four_follows_from_its_spread() {
    let mut rows = 0;
    let mut misses = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split(',').collect();
        let number = |column: usize| columns[column].parse::<f64>().unwrap();
        let (n, mean, sd, printed) = (number(3) as usize, number(4), number(5), number(6));
        let estimate = Estimate::of_summary(mean, sd, n, 0.95, Interval::Z).unwrap();
        // The printed spread is itself rounded, which moves the interval in proportion.
        let slack = ROUNDING + ROUNDING * 1.96 / (n as f64).sqrt();
        if (estimate.half_width() - printed).abs() > slack {
            misses.push((columns[0], columns[1], columns[2]));
        }
        rows += 1;
    }
    assert_eq!(rows, 68);
    assert_eq!(misses, MISPRINTS);
}

#[test]
fn student_intervals_would_not_reproduce_them() {
    // Not a matter of taste: 0.213 of 4 values gives the printed 0.209 by z and 0.339 by t.
    let half = |kind| Estimate::of_summary(1.647, 0.213, 4, 0.95, kind).unwrap().half_width();
    assert!((half(Interval::Z) - 0.209).abs() < ROUNDING);
    assert!((half(Interval::T) - 0.339).abs() < ROUNDING);
}
