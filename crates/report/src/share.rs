//! Shares of a whole.

use convoy_explain::Share;

/// `part` of `all` in percent.
pub(crate) fn percent(part: f64, all: f64) -> f64 {
    if all > 0.0 { 100.0 * part / all } else { 0.0 }
}

/// Seconds of the part called `name`.
pub(crate) fn of(shares: &[Share], name: &str) -> f64 {
    shares.iter().find(|share| share.name == name).map_or(0.0, |share| share.seconds)
}
