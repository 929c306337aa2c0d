//! The sentences of a diagnosis. Facts come from `crates/diagnose`; English is written here, last,
//! and no code reads it.

mod cure;
mod gap;
mod phrase;
mod problem;
mod quiet;
mod remark;
#[cfg(test)]
mod tests;

use convoy_diagnose::{Diagnosis, Finding, Verdict};

pub(crate) use gap::text as gap_text;
pub(crate) use problem::{in_call, protected};
pub use remark::remark;

/// Returns the first sentence about a record.
pub fn verdict(diagnosis: &Diagnosis) -> String {
    match &diagnosis.verdict {
        Verdict::Damaged => gap::text(&convoy_diagnose::Gap::Damaged),
        Verdict::Quiet(quiet) => quiet::text(quiet),
        Verdict::Finding(_) => diagnosis.first().map(text).unwrap_or_default(),
    }
}

/// Returns the problem of a finding, its reason, and the cure.
pub fn text(finding: &Finding) -> String {
    format!("{} {}", sentence(finding), cure(finding)).trim_end().to_owned()
}

/// Returns the problem of a finding and its reason.
pub fn sentence(finding: &Finding) -> String {
    problem::sentence(finding)
}

/// Returns what helps against the problem of a finding, and how to see what is not known of it.
pub fn cure(finding: &Finding) -> String {
    let cure = cure::text(finding);
    let gaps = finding.gaps.iter().map(gap::text);
    std::iter::once(cure).chain(gaps).collect::<Vec<_>>().join(" ").trim().to_owned()
}
