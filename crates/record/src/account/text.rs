//! Formats numbers for sentences.

/// Formats a share in percent.
pub(crate) fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

/// Formats a time with three digits and its unit.
pub fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        _ if !value.is_finite() => return "an unknown time".to_owned(),
        _ if value <= 0.0 => return "0 s".to_owned(),
        _ if value >= 1.0 => (value, "s"),
        _ if value >= 1e-3 => (value * 1e3, "ms"),
        _ if value >= 1e-6 => (value * 1e6, "us"),
        _ => (value * 1e9, "ns"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}
