//! From flags to how often a point runs, and to the fault that is injected.

use super::args::RepeatArgs;
use crate::fail::Failure;
use convoy_host::inject::{self, Fault};
use convoy_host::repeat::Repeats;
use std::time::Duration;

/// Runs before the interval of `--precise` is first computed: two are too few.
const LEAST_FOR_PRECISION: u32 = 3;
/// Longest time that a flag may ask for, seconds.
const LONGEST_S: f64 = 1e6;

/// How often each point is executed.
pub(super) fn repeats(args: &RepeatArgs) -> Result<Repeats, Failure> {
    let precision = args.precise.as_deref().map(precision).transpose()?;
    let least = args.repeat.unwrap_or(if precision.is_some() { LEAST_FOR_PRECISION } else { 1 });
    let min_duration = seconds("--min-duration", args.min_duration)?;
    let most = args.max_repeats.max(least);
    Ok(Repeats { warmup: args.warmup, least, most, min_duration, precision })
}

/// `1%` or `1` as 0.01.
fn precision(text: &str) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    let percent = number.filter(|percent| (0.001..=100.0).contains(percent)).ok_or_else(|| {
        let cure = "give percent from 0.001 to 100, such as 1%";
        Failure::usage(format!("--precise {text} is no precision; {cure}"))
    })?;
    Ok(percent / 100.0)
}

/// A time that a flag gives.
pub(super) fn seconds(flag: &str, seconds: f64) -> Result<Duration, Failure> {
    if (0.0..=LONGEST_S).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(Failure::usage(format!("{flag} must be 0 to {LONGEST_S} seconds")))
    }
}

/// The fault that the environment asks for.
pub(super) fn fault() -> Result<Option<Fault>, Failure> {
    let text = std::env::var(inject::VARIABLE).ok().filter(|text| !text.is_empty());
    text.map(|text| Fault::parse(&text)).transpose().map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_are_percent() {
        assert_eq!(precision("1%").ok(), Some(0.01));
        assert_eq!(precision(" 2.5 % ").ok(), Some(0.025));
        for wrong in ["", "%", "0", "-1", "101%", "nan", "inf", "x"] {
            assert!(precision(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_not_negative_or_endless() {
        assert!(seconds("--x", 0.5).is_ok());
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert!(seconds("--x", wrong).is_err(), "{wrong}");
        }
    }
}
