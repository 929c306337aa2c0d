//! JSON on standard output: pretty, stable field order, a line feed at the end.

use serde::Serialize;

/// The JSON of a report. Numbers that are not finite become `null`.
pub(crate) fn to_json<T: Serialize>(report: &T) -> String {
    let mut text =
        serde_json::to_string_pretty(report).expect("a report has string keys and no failing type");
    text.push('\n');
    text
}

/// A report with its first sentence.
#[derive(Serialize)]
pub(crate) struct WithVerdict<'a, T> {
    pub(crate) verdict: &'a str,
    #[serde(flatten)]
    pub(crate) report: &'a T,
}

/// An interval as `[lo, hi]`; an end that is not finite is `null` and reads back as an infinity.
pub(crate) mod interval {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(ends: &[f64; 2], to: S) -> Result<S::Ok, S::Error> {
        ends.map(|end| end.is_finite().then_some(end)).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[f64; 2], D::Error> {
        let [lo, hi] = <[Option<f64>; 2]>::deserialize(from)?;
        Ok([lo.unwrap_or(f64::NEG_INFINITY), hi.unwrap_or(f64::INFINITY)])
    }
}
