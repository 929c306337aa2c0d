//! The range of an axis, and the position of a value on it.

/// How an axis is spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, with round ticks; includes zero.
    Linear,
    /// By logarithm, with a tick at each value measured. Values that are not positive are left out.
    Log,
    /// By logarithm, between round numbers. Values that are not positive are left out.
    Decades,
}

/// Powers of ten below which an axis has ticks at 2 and 5, too: nine labels at most.
const CLOSE: f64 = 2.5;

/// Share of the axis left free at its ends, so that markers do not sit on the frame.
const PAD: f64 = 0.04;

/// The values an axis spans.
pub(crate) struct Range {
    scale: Scale,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Distance of two ticks of a linear axis.
    step: f64,
    measured: Vec<f64>,
}

impl Range {
    pub(crate) fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let mut measured: Vec<f64> = values
            .filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0))
            .collect();
        measured.sort_by(f64::total_cmp);
        measured.dedup();
        let smallest = measured.first().copied().unwrap_or(1.0);
        let largest = measured.last().copied().unwrap_or(1.0);
        let (low, high) = match scale {
            Scale::Linear => (smallest.min(0.0), largest.max(0.0)),
            Scale::Log => (smallest, largest),
            Scale::Decades => (round_below(smallest), round_step(largest)),
        };
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / 6.0);
        // A linear axis ends at a tick, so that the largest value can be read off.
        let high = if scale == Scale::Linear { (high / step).ceil() * step } else { high };
        Self { scale, low, high, step, measured }
    }

    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Returns whether an interval extends below and above the axis.
    pub(crate) fn cut(&self, lo: f64, hi: f64) -> [bool; 2] {
        [lo.is_finite() && lo < self.low, hi.is_finite() && hi > self.high]
    }

    /// Position of `value` on the axis, 0 to 1, with the padding inside.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log | Scale::Decades => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        PAD + share * (1.0 - 2.0 * PAD)
    }

    pub(crate) fn ticks(&self) -> Vec<f64> {
        let step = self.step;
        match self.scale {
            Scale::Log => self.measured.clone(),
            Scale::Decades => {
                let ends = [self.low, self.high].map(decade);
                let powers = ends[0].floor() as i32..=ends[1].ceil() as i32;
                // Over few powers of ten there is room for the numbers between them.
                let factors = if ends[1] - ends[0] < CLOSE { &[1.0, 2.0, 5.0][..] } else { &[1.0] };
                let all = powers.flat_map(|power| factors.iter().map(move |f| f * ten(power)));
                let slack = 1e-9;
                let (low, high) = (self.low * (1.0 - slack), self.high * (1.0 + slack));
                all.filter(|tick| (low..=high).contains(tick)).collect()
            }
            Scale::Linear => {
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step).floor() as i64;
                (first..=last).map(|index| index as f64 * step).collect()
            }
        }
    }
}

/// A linear axis around its values. It need not include zero, because their differences matter.
pub(crate) struct Near {
    low: f64,
    high: f64,
    step: f64,
}

impl Near {
    /// With about this many ticks; `None` without a finite value.
    pub(crate) fn new(values: impl Iterator<Item = f64>, ticks: f64) -> Option<Self> {
        let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let least = finite.iter().copied().reduce(f64::min)?;
        let most = finite.iter().copied().reduce(f64::max)?;
        let room = if most > least { 0.05 * (most - least) } else { 0.1 * most.abs().max(1.0) };
        let (low, high) = (least - room, most + room);
        Some(Self { low, high, step: round_step((high - low) / ticks) })
    }

    /// Position of `value` on the axis, 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// The ticks, each with the decimals that distinguish it from its neighbours.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let step = self.step;
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let ticks = (self.low / step).ceil() as i64..=(self.high / step).floor() as i64;
        ticks
            .map(move |tick| tick as f64 * step)
            .map(move |value| (value, crate::format::fixed(value, decimals).replace('-', "−")))
    }
}

/// The power of ten that `value` is; the smallest that are shown are nanoseconds in seconds.
fn decade(value: f64) -> f64 {
    value.max(1e-9).log10()
}

/// The step of 1, 2 or 5 times a power of ten that is at least `rough`.
pub(crate) fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// The largest of 1, 2 and 5 times a power of ten that is at most `value`.
fn round_below(value: f64) -> f64 {
    let power = ten(decade(value).floor() as i32);
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * power <= value);
    factor.unwrap_or(1.0) * power
}

fn ten(power: i32) -> f64 {
    10_f64.powi(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert!((round_step(0.3) - 0.5).abs() < 1e-12);
        assert!((round_step(18.6) - 20.0).abs() < 1e-12);
        assert!((round_below(0.3) - 0.2).abs() < 1e-12);
        assert!((round_below(100.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_of_powers_ends_at_round_numbers() {
        fn ticks(least: f64, most: f64) -> Vec<String> {
            let range = Range::new(Scale::Decades, [least, most].into_iter());
            range.ticks().into_iter().map(|tick| format!("{tick}")).collect()
        }
        assert_eq!(ticks(160.0, 900.0), ["100", "200", "500", "1000"]);
        assert_eq!(ticks(2.0, 3e4), ["10", "100", "1000", "10000"], "no room for 2 and 5");
        assert_eq!(ticks(10.0, 10.0), ["10"]);
    }
}
