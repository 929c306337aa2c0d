//! A comparison for programs: JSON and CSV.

use serde::Serialize;

use crate::compare::CompareReport;
use crate::json;
use crate::table::Table;

/// The JSON: the fields of the row that decides, then everything.
#[derive(Serialize)]
struct Envelope<'a> {
    verdict: &'a str,
    sentence: String,
    speedup: Option<f64>,
    #[serde(with = "json::interval")]
    ci95: [f64; 2],
    p: Option<f64>,
    #[serde(flatten)]
    report: &'a CompareReport,
}

impl CompareReport {
    /// JSON: every field by its name, numbers with their units in it.
    pub fn to_json(&self) -> String {
        let row = self.deciding();
        json::to_json(&Envelope {
            verdict: self.verdict(),
            sentence: self.sentence(),
            speedup: row.and_then(|row| row.speedup),
            ci95: row.map_or([f64::NAN; 2], |row| row.ci95),
            p: row.map(|row| row.p),
            report: self,
        })
    }

    /// One line for each comparison, unrounded.
    pub fn to_csv(&self) -> String {
        let columns = [
            ("benchmark", "/benchmark"),
            ("users", "/users"),
            ("metric", "/metric"),
            ("unit", "/unit"),
            ("baseline", "/baseline/label"),
            ("candidate", "/candidate/label"),
            ("baseline_runs", "/baseline/runs"),
            ("baseline_mean", "/baseline/mean"),
            ("baseline_sd", "/baseline/sd"),
            ("baseline_ci95_lo", "/baseline/ci95/0"),
            ("baseline_ci95_hi", "/baseline/ci95/1"),
            ("candidate_runs", "/candidate/runs"),
            ("candidate_mean", "/candidate/mean"),
            ("candidate_sd", "/candidate/sd"),
            ("candidate_ci95_lo", "/candidate/ci95/0"),
            ("candidate_ci95_hi", "/candidate/ci95/1"),
            ("speedup", "/speedup"),
            ("speedup_lo", "/ci95/0"),
            ("speedup_hi", "/ci95/1"),
            ("p", "/p"),
            ("p_raw", "/p_raw"),
            ("p_floor", "/p_floor"),
            ("stars", "/stars"),
            ("test", "/test"),
            ("verdict", "/verdict"),
            ("same_within_percent", "/same_within_percent"),
        ];
        Table::of_json(&self.rows, &columns).to_csv()
    }
}
