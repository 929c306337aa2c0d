//! Which published effects survive many runs, and which were noise.

use convoy_stats::Estimate;

use crate::format::{fixed, list};

/// Pairs of runs from which a grid may say so: with fewer the intervals are too wide.
const PAIRS: usize = 20;
/// An effect smaller than this is none.
const SMALL: f64 = 0.003;

/// A published speedup, and the reproduced one.
pub(super) struct Effect {
    pub(super) labels: String,
    /// The published speedup and half its interval.
    pub(super) published: (f64, f64),
    pub(super) found: Estimate,
}

/// What became of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is there, with the published sign.
    Survives,
    /// There is one, with the other sign.
    Reversed,
    /// Smaller than [`SMALL`].
    None,
    /// The interval has both signs and is wider than that.
    Unknown,
}

impl Effect {
    fn fate(&self) -> Fate {
        let Estimate { lo, hi, .. } = self.found;
        if lo > 1.0 - SMALL && hi < 1.0 + SMALL {
            Fate::None
        } else if lo <= 1.0 && hi >= 1.0 {
            Fate::Unknown
        } else if (self.found.mean > 1.0) == (self.published.0 > 1.0) {
            Fate::Survives
        } else {
            Fate::Reversed
        }
    }

    /// Whether the published runs themselves show an effect.
    fn was_shown(&self) -> bool {
        let (ratio, half) = self.published;
        (ratio - 1.0).abs() > half
    }

    fn said(&self) -> String {
        format!(
            "{} (published {} \u{b1} {}, here {} \u{b1} {})",
            self.labels,
            fixed(self.published.0, 3),
            fixed(self.published.1, 3),
            fixed(self.found.mean, 3),
            fixed(self.found.half_width(), 3)
        )
    }
}

/// What many runs say of the published effects; nothing where there are few.
pub(super) fn powerful(effects: &[Effect]) -> Option<String> {
    let enough = effects.iter().all(|effect| effect.found.n >= PAIRS);
    if !enough || effects.is_empty() {
        return None;
    }
    let shown = effects.iter().filter(|effect| effect.was_shown()).count();
    let kinds = [
        (Fate::Survives, "survive", "survives"),
        (Fate::Reversed, "have the other sign here", "has the other sign here"),
        (Fate::None, "are none: below 0.3 %", "is none: below 0.3 %"),
        (Fate::Unknown, "may be none", "may be none"),
    ];
    let parts = kinds.iter().filter_map(|(fate, many, one)| {
        let of: Vec<String> =
            effects.iter().filter(|effect| effect.fate() == *fate).map(Effect::said).collect();
        let verb = if of.len() == 1 { one } else { many };
        (!of.is_empty()).then(|| format!("{} {verb}: {}", of.len(), of.join("; ")))
    });
    Some(format!(
        "of {} published effects, {shown} {} a speedup of 1 by the published deviations; by the \
         runs here {}",
        effects.len(),
        if shown == 1 { "excludes" } else { "exclude" },
        list(&parts.collect::<Vec<_>>())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(published: (f64, f64), found: (f64, f64), n: usize) -> Effect {
        let (mean, half) = found;
        let found = Estimate { mean, sd: Some(0.01), n, lo: mean - half, hi: mean + half };
        Effect { labels: "pmake".to_owned(), published, found }
    }

    #[test]
    fn an_effect_survives_with_its_sign_only() {
        let fate = |theirs, ours| effect((theirs, 0.05), ours, 40).fate();
        assert_eq!(fate(1.04, (1.02, 0.01)), Fate::Survives);
        assert_eq!(fate(1.04, (0.98, 0.01)), Fate::Reversed);
        assert_eq!(fate(1.04, (1.001, 0.001)), Fate::None);
        assert_eq!(fate(1.04, (1.01, 0.02)), Fate::Unknown);
    }

    #[test]
    fn few_runs_say_nothing() {
        let many = [effect((1.04, 0.05), (0.98, 0.01), 40), effect((1.04, 0.03), (1.0, 0.001), 40)];
        let text = powerful(&many).unwrap();
        assert!(text.starts_with("of 2 published effects, 1 excludes a speedup of 1 by"), "{text}");
        assert!(text.contains("1 has the other sign here: pmake (published 1.040"), "{text}");
        assert!(text.contains("1 is none: below 0.3 %: pmake"), "{text}");
        assert_eq!(powerful(&[effect((1.04, 0.05), (0.98, 0.01), 4)]), None);
        assert_eq!(powerful(&[]), None);
    }
}
