//! A comparison in one sentence: the deciding verdict, its row, and the numbers of the other
//! verdicts.

use convoy_workload::users::counted;

use crate::compare::{CompareReport, CompareRow};
use crate::format::{capital, fixed, list, middle};

/// Characters of a name in the sentence.
const LONGEST_NAME: usize = 40;

/// The verdicts; the first that any row has decides.
const ORDER: [&str; 4] = ["slower", "faster", "unsure", "same"];

impl CompareReport {
    /// The verdict on the whole table: *slower* if any row is; else *faster* if any row is; *same*
    /// if all rows are; else *unsure*.
    pub fn verdict(&self) -> &str {
        self.deciding().map_or("unsure", |row| row.verdict.as_str())
    }

    /// Returns the verdict in one sentence, with the deciding row.
    pub fn sentence(&self) -> String {
        let rows = &self.rows;
        let Some(row) = self.deciding() else {
            return "Nothing was compared.".to_owned();
        };
        let verdict = row.verdict.as_str();
        let told = told(row, rows.iter().any(|other| other.metric != row.metric));
        let of = rows.iter().filter(|row| row.verdict == verdict);
        let widest = of.filter_map(|row| row.same_within_percent).max_by(f64::total_cmp);
        let title = capital(&row.verdict_within(widest));
        if rows.len() == 1 {
            return format!("{title}: {told}.");
        }
        let count = |verdict: &str| rows.iter().filter(|row| row.verdict == verdict).count();
        let others = ORDER.iter().filter(|other| **other != verdict && count(other) > 0);
        let others: Vec<String> =
            others.map(|other| format!("{other} in {}", count(other))).collect();
        let others = if others.is_empty() { String::new() } else { format!("; {}", list(&others)) };
        let share = match count(verdict) {
            1 => format!("1 of {} comparisons:", rows.len()),
            all if all == rows.len() => format!("all {all} comparisons, most where"),
            some => format!("{some} of {} comparisons, most where", rows.len()),
        };
        format!("{title} in {share} {told}{others}.")
    }

    /// Returns the row that decides the verdict on the whole table: the row with
    /// the largest change among those with this verdict.
    pub fn deciding(&self) -> Option<&CompareRow> {
        let far = |row: &CompareRow| row.speedup.map_or(0.0, |speedup| speedup.ln().abs());
        ORDER.iter().find_map(|verdict| {
            let of = self.rows.iter().filter(|row| row.verdict == *verdict);
            of.min_by(|a, b| far(b).total_cmp(&far(a)))
        })
    }
}

/// Describes the result of a row.
fn told(row: &CompareRow, metrics: bool) -> String {
    let [candidate, baseline] =
        [&row.candidate, &row.baseline].map(|side| middle(&side.label, LONGEST_NAME));
    let users = row.users.map_or_else(String::new, |users| format!(" with {}", counted(users)));
    let benchmark = match row.benchmark.as_str() {
        "" => String::new(),
        benchmark => format!(" in {}", middle(benchmark, LONGEST_NAME)),
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
    let why = |doubt| format!(", {}", why(doubt, row.verdict == "slower"));
    let doubt = row.doubt.as_deref().map_or_else(String::new, why);
    format!(
        "{candidate} {}{place}{}{doubt}",
        difference(row, speedup, &baseline),
        interval(row, speedup)
    )
}

/// From this speedup on it is told as a factor, not in percent.
const MANY: f64 = 2.0;

/// `is 17 % slower than old`, as people say it.
fn difference(row: &CompareRow, speedup: f64, baseline: &str) -> String {
    let percent = row.percent(speedup);
    if speedup >= MANY {
        return format!("is {} times as fast as {baseline}", fixed(speedup, 1));
    }
    if percent <= -100.0 {
        return format!("takes {} times as long as {baseline}", fixed(1.0 / speedup, 1));
    }
    let word = if percent < 0.0 { "slower" } else { "faster" };
    format!("is {} % {word} than {baseline}", rounded(percent.abs()))
}

/// The interval in the unit of the difference.
fn interval(row: &CompareRow, speedup: f64) -> String {
    let [lo, hi] = row.ci95;
    if !(lo.is_finite() && hi.is_finite()) {
        return String::new();
    }
    let percent = row.percent(speedup);
    let [lo, hi, unit] = if speedup >= MANY {
        [fixed(lo, 1), fixed(hi, 1), String::new()]
    } else if percent <= -100.0 {
        [fixed(1.0 / hi, 1), fixed(1.0 / lo, 1), String::new()]
    } else if percent < 0.0 {
        [rounded(-row.percent(hi)), rounded(-row.percent(lo)), " %".to_owned()]
    } else {
        [rounded(row.percent(lo)), rounded(row.percent(hi)), " %".to_owned()]
    };
    format!(" (95 % interval {lo} to {hi}{unit})")
}

/// Percent with two digits, as far as they say something.
fn rounded(percent: f64) -> String {
    match percent.abs() {
        9.95.. => fixed(percent, 0),
        0.995.. => fixed(percent, 1),
        _ => fixed(percent, 2),
    }
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
    use crate::compare::CompareSide;

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
            same_within_percent: (verdict == "same").then_some(5.0),
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
        CompareReport { rows, ..CompareReport::default() }.sentence()
    }

    #[test]
    fn one_row_is_told_with_its_interval_or_what_is_missing() {
        assert_eq!(
            of(vec![row("faster", 1.2, None)]),
            "Faster: new is 20 % faster than old (95 % interval 19 to 21 %)."
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
        assert!(of(vec![tail]).ends_with("6.0 %), but may collapse more often."));
        assert_eq!(of(Vec::new()), "Nothing was compared.");
    }

    #[test]
    fn changes_are_told_as_people_say_them() {
        let mut one = row("slower", 0.851, None);
        one.higher_is_better = false;
        assert!(of(vec![one.clone()]).starts_with("Slower: new is 18 % slower than old"));
        assert!(one.is_slower_by(Some(0.17)) && !one.is_slower_by(Some(0.18)));
        one.speedup = Some(0.4);
        assert!(of(vec![one.clone()]).starts_with("Slower: new takes 2.5 times as long as old"));
        one.higher_is_better = true;
        assert!(of(vec![one.clone()]).starts_with("Slower: new is 60 % slower than old"));
        one.speedup = Some(4.76);
        assert!(of(vec![one]).starts_with("Slower: new is 4.8 times as fast as old"));
    }

    #[test]
    fn the_worst_verdict_decides_and_the_others_are_counted() {
        let rows = || vec![row("faster", 1.2, Some(1)), row("slower", 0.95, Some(2))];
        assert_eq!(
            of(rows()),
            "Slower in 1 of 2 comparisons: new is 5.0 % slower than old with 2 users (95 % \
             interval 4.0 to 6.0 %); faster in 1."
        );
        let mut more = rows();
        more.push(row("slower", 0.5, Some(50)));
        assert!(of(more).starts_with(
            "Slower in 2 of 3 comparisons, most where new is 50 % slower than old with 50"
        ));
        let same = vec![row("same", 1.0, Some(1)), row("same", 1.001, Some(2))];
        assert!(of(same).starts_with("Same within 5 % in all 2 comparisons, most where new is 0."));
        let one = of(vec![row("same", 1.001, None)]);
        assert!(one.starts_with("Same within 5 %: new is 0.10 % faster than old (95"), "{one}");
    }
}
