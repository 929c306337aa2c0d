//! Formats numbers with significant digits only.

/// Returns a duration, given in microseconds, in the unit that has one to three digits before the
/// decimal point, with at most two after it.
pub(super) fn duration(us: f64) -> String {
    match us {
        999_500.0.. => format!("{} s", short(us / 1e6)),
        999.5.. => format!("{} ms", short(us / 1e3)),
        _ => format!("{} us", short(us)),
    }
}

/// Returns a rate rounded to three digits: replays differ by more than the fourth.
pub(super) fn rate(per_s: f64) -> f64 {
    let unit = 10_f64.powf(per_s.abs().log10().floor() - 2.0);
    if per_s.abs() > 100.0 { (per_s / unit).round() * unit } else { per_s.round() }
}

fn short(value: f64) -> String {
    match value {
        9.95.. | 0.0 => format!("{value:.0}"),
        0.995.. => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_digits_that_are_not_known() {
        let shown = [14_191.5, 6268.6, 30.15, 0.58, 0.0, 1.2e6, 999.9].map(duration);
        assert_eq!(shown, ["14 ms", "6.3 ms", "30 us", "0.58 us", "0 us", "1.2 s", "1 ms"]);
        let rates = [1_697_214.0, 1634.0, 99.4, 0.0].map(|one| format!("{:.0}", rate(one)));
        assert_eq!(rates, ["1700000", "1630", "99", "0"]);
    }
}
