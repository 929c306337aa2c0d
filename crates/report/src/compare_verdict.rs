//! A comparison in one sentence: the deciding verdict, its row, and the numbers of the other
//! verdicts.

use convoy_workload::users::counted;

use crate::compare::{CompareReport, CompareRow};
use crate::compare_text::shorten;
use crate::format::{capital, fixed, list};

/// Characters of a name in the sentence.
const LONGEST_NAME: usize = 40;

/// The verdicts; the first that any row has decides.
pub(crate) const ORDER: [&str; 4] = ["slower", "faster", "unsure", "same"];

/// The sentence of `report`.
pub(crate) fn sentence(report: &CompareReport) -> String {
    let rows = &report.rows;
    let Some(row) = strongest(rows) else {
        return "Nothing was compared.".to_owned();
    };
    let verdict = row.verdict.as_str();
    let metrics = rows.iter().any(|other| other.metric != row.metric);
    let told = told(row, metrics);
    if rows.len() == 1 {
        return format!("{}: {told}.", capital(verdict));
    }
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict == verdict).count();
    let others = ORDER.iter().filter(|other| **other != verdict && count(other) > 0);
    let others: Vec<String> = others.map(|other| format!("{other} in {}", count(other))).collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", list(&others)) };
    let share = match count(verdict) {
        1 => format!("1 of {} comparisons:", rows.len()),
        all if all == rows.len() => format!("all {all} comparisons, most where"),
        some => format!("{some} of {} comparisons, most where", rows.len()),
    };
    format!("{} in {share} {told}{others}.", capital(verdict))
}

/// Returns the row with the largest change among the rows with the deciding verdict.
pub(crate) fn strongest(rows: &[CompareRow]) -> Option<&CompareRow> {
    let far = |row: &CompareRow| row.speedup.map_or(0.0, |speedup| speedup.ln().abs());
    ORDER.iter().find_map(|verdict| {
        let of = rows.iter().filter(|row| row.verdict == *verdict);
        of.min_by(|a, b| far(b).total_cmp(&far(a)))
    })
}

/// Describes the result of a row.
fn told(row: &CompareRow, metrics: bool) -> String {
    let [candidate, baseline] =
        [&row.candidate, &row.baseline].map(|side| shorten(&side.label, LONGEST_NAME));
    let users = row.users.map_or_else(String::new, |users| format!(" with {}", counted(users)));
    let benchmark = match row.benchmark.as_str() {
        "" => String::new(),
        benchmark => format!(" in {}", shorten(benchmark, LONGEST_NAME)),
    };
    let metric = if metrics { format!(" by {}", row.metric) } else { String::new() };
    let place = format!("{benchmark}{users}{metric}");
    if let Some(needs) = row.needs.filter(|_| row.verdict == "unsure") {
        let runs = row.baseline.runs.min(row.candidate.runs);
        let values = if runs == 1 { "value" } else { "values" };
        return format!(
            "{runs} {values} a side cannot tell {candidate} from {baseline}{place}, {needs} are \
             needed"
        );
    }
    let Some(speedup) = row.speedup else {
        let [one, two] = [row.candidate.mean, row.baseline.mean].map(|mean| fixed(mean, 3));
        return format!("{candidate} has {one} {} and {baseline} {two}{place}", row.unit);
    };
    let [lo, hi] = row.ci95;
    let interval = if lo.is_finite() && hi.is_finite() {
        format!(" (95 % interval {} to {})", fixed(lo, 3), fixed(hi, 3))
    } else {
        String::new()
    };
    let why = |doubt| format!(", {}", why(doubt, row.verdict == "slower"));
    let doubt = row.doubt.as_deref().map_or_else(String::new, why);
    let speedup = fixed(speedup, 3);
    format!("{candidate} is {speedup} times as fast as {baseline}{place}{interval}{doubt}")
}

/// Explains `doubt` for a candidate that is slower because of it, or unsure.
fn why(doubt: &str, slower: bool) -> String {
    match doubt {
        "mean" if slower => "but slower on average".to_owned(),
        "mean" => "but perhaps slower on average".to_owned(),
        "tail" if slower => "but collapses more often".to_owned(),
        "tail" => "but may collapse more often".to_owned(),
        "noise floor" => "but the baseline differs from itself by as much".to_owned(),
        other => format!("but the two were {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareRow, CompareSide};

    fn row(verdict: &str, speedup: f64, users: Option<u32>) -> CompareRow {
        let side = |label: &str| CompareSide {
            label: label.to_owned(),
            runs: 6,
            mean: 1.0,
            sd: Some(0.1),
            ci95: [0.9, 1.1],
            collapses: None,
        };
        CompareRow {
            benchmark: String::new(),
            users,
            metric: "jobs/min".to_owned(),
            unit: "jobs/min".to_owned(),
            higher_is_better: true,
            baseline: side("old"),
            candidate: side("new"),
            verdict: verdict.to_owned(),
            doubt: None,
            speedup: Some(speedup),
            ci95: [speedup - 0.01, speedup + 0.01],
            p: 0.01,
            p_raw: 0.01,
            p_floor: 0.002,
            test: "rank-sum".to_owned(),
            stars: 2,
            superiority: 0.5,
            shift: None,
            needs: None,
        }
    }

    fn of(rows: Vec<CompareRow>) -> String {
        sentence(&CompareReport { rows, ..CompareReport::default() })
    }

    #[test]
    fn one_row_is_told_with_its_interval_or_what_is_missing() {
        assert_eq!(
            of(vec![row("faster", 1.2, None)]),
            "Faster: new is 1.200 times as fast as old (95 % interval 1.190 to 1.210)."
        );
        let mut few = row("unsure", 1.2, Some(1));
        few.needs = Some(4);
        few.baseline.runs = 1;
        assert_eq!(
            of(vec![few]),
            "Unsure: 1 value a side cannot tell new from old with 1 user, 4 are needed."
        );
        let mut tail = row("unsure", 1.05, None);
        tail.doubt = Some("tail".to_owned());
        assert!(of(vec![tail]).ends_with("1.060), but may collapse more often."));
        assert_eq!(of(Vec::new()), "Nothing was compared.");
    }

    #[test]
    fn the_worst_verdict_decides_and_the_others_are_counted() {
        let rows = || vec![row("faster", 1.2, Some(1)), row("slower", 0.95, Some(2))];
        assert_eq!(
            of(rows()),
            "Slower in 1 of 2 comparisons: new is 0.950 times as fast as old with 2 users (95 % \
             interval 0.940 to 0.960); faster in 1."
        );
        let mut more = rows();
        more.push(row("slower", 0.5, Some(50)));
        assert!(of(more).starts_with(
            "Slower in 2 of 3 comparisons, most where new is 0.500 times as fast as old with 50"
        ));
        let same = vec![row("same", 1.0, Some(1)), row("same", 1.001, Some(2))];
        assert!(of(same).starts_with("Same in all 2 comparisons, most where new is 1.001 times"));
    }
}
