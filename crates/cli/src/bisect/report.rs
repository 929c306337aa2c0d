//! From the answer of a search to its report.

use convoy_measure::bisect::{Layout, Session};
use convoy_report::{
    BisectConfirmation, BisectInterval, BisectPoint, BisectReport, BisectSkip, BisectSuspect,
    BisectVerdict,
};
use convoy_stats::bisect::{Answer, Ending, Interval};

fn interval(of: Interval) -> BisectInterval {
    BisectInterval { mean: of.mean, ci95: [of.lo, of.hi] }
}

/// The report of `answer`.
pub(crate) fn report(session: &mut Session<'_>, answer: &Answer) -> BisectReport {
    let confirmation = confirmed(session, answer);
    let disturbed = !session.disturbance().reasons().is_empty();
    let failed = confirmation.as_ref().is_some_and(|made| !made.confirmed);
    let verdict = match answer.ending {
        // Under other load, a commit that its own pairs do not confirm is not named.
        Ending::Found if disturbed && failed => BisectVerdict::Set,
        Ending::Found => BisectVerdict::Found,
        Ending::NoRegression => BisectVerdict::NoRegression,
        Ending::Ramp => BisectVerdict::Ramp,
        Ending::TwoSteps => BisectVerdict::TwoSteps,
        Ending::TakenBack => BisectVerdict::FixedAgain,
        Ending::WrongDirection => BisectVerdict::Improvement,
        _ if answer.no_regression > 0.5 => BisectVerdict::NoRegression,
        _ => BisectVerdict::Set,
    };
    let estimates = &answer.estimates;
    let level = estimates.good.mean.abs();
    let percent = |value: f64| 100.0 * value / level;
    let effect = estimates.effect;
    let list = &session.commits.list;
    let [good, bad] = session.commits.ends();
    let suspects = answer.credible_set.iter();
    BisectReport {
        verdict,
        first_bad: answer
            .culprit
            .filter(|_| verdict == BisectVerdict::Found)
            .map(|node| list[node].id.clone()),
        confidence: confidence(answer, confirmation.as_ref()),
        runs: session.search.runs(),
        builds: session.builds(),
        failed_runs: session.failed,
        why: why(session, answer),
        candidates: session.search.history().candidates().len(),
        metric: session.metric_name(),
        unit: session.unit(),
        good: list[good].clone(),
        bad: list[bad].clone(),
        credible_set: suspects
            .map(|&(node, probability)| BisectSuspect { commit: list[node].clone(), probability })
            .collect(),
        good_level: interval(estimates.good),
        bad_level: interval(estimates.bad),
        effect: interval(effect),
        effect_percent: BisectInterval {
            mean: percent(effect.mean),
            ci95: [percent(effect.lo), percent(effect.hi)],
        },
        noise: estimates.noise.mean,
        confirmation,
        skipped: skips(session),
        notes: notes(session, answer),
        log: session.journal().display().to_string(),
        points: points(session, answer),
    }
}

/// Why the search ended, and how large a difference it leaves open if it found none.
fn why(session: &Session<'_>, answer: &Answer) -> String {
    let why = answer.ending.to_string();
    if !answer.steps.is_empty() {
        let steps: Vec<String> = answer.steps.iter().map(|set| step(session, set)).collect();
        return format!("{why}: {}", steps.join(", then "));
    }
    if answer.ending == Ending::BuildsShift {
        return of_shifts(answer);
    }
    if answer.ending != Ending::NoRegression || !answer.largest.is_finite() {
        return why;
    }
    let percent = 100.0 * answer.largest / answer.estimates.good.mean.abs();
    let unit = session.unit();
    let space = if unit.is_empty() { "" } else { " " };
    format!("{why}: they differ by at most {:.3}{space}{unit} ({percent:.2} %)", answer.largest)
}

/// From this probability on it is said that builds differ, not that they may.
const SURE: f64 = 0.95;

/// The size of the differences between builds relative to the change, and the remedy.
fn of_shifts(answer: &Answer) -> String {
    let level = answer.estimates.good.mean.abs();
    let percent = |value: f64| 100.0 * value.abs() / level;
    let (shift, effect) = (&answer.estimates.layout, &answer.estimates.effect);
    let differ = if answer.builds_shift >= SURE {
        format!("builds differ among themselves by about {:.2} %", percent(shift.mean))
    } else {
        format!("builds may differ among themselves by up to {:.2} %", percent(shift.hi))
    };
    format!(
        "{differ} though the code does not, and the change is {:.2} %, so more runs would not tell \
         its commit from its neighbours; make a second build of a commit differ (a random link \
         order, say) and search again with --layout new, which builds commits several times",
        percent(effect.mean)
    )
}

/// One of two steps: its commit, or how many it may be and the first and last of them.
fn step(session: &Session<'_>, set: &[(usize, f64)]) -> String {
    let name = |node: usize| {
        let commit = &session.commits.list[node];
        format!("{} ({})", commit.short(), commit.subject)
    };
    let nodes = || set.iter().map(|(node, _)| *node);
    match (nodes().min(), nodes().max()) {
        (Some(first), Some(last)) if first < last => {
            format!("one of {} from {} to {}", set.len(), name(first), name(last))
        }
        (Some(only), _) => name(only),
        _ => "a commit that was not found".to_owned(),
    }
}

/// The confidence of the search, or of the comparison with the parent if the comparison failed: of
/// two probabilities a reader believes the smaller one.
fn confidence(answer: &Answer, confirmation: Option<&BisectConfirmation>) -> f64 {
    let failed = confirmation.filter(|made| !made.confirmed);
    failed.map_or(answer.confidence, |made| answer.confidence.min(1.0 - made.p))
}

fn confirmed(session: &Session<'_>, answer: &Answer) -> Option<BisectConfirmation> {
    let made = session.confirmed(answer)?;
    let difference = made.difference;
    Some(BisectConfirmation {
        parent: session.commits.list[made.parent].id.clone(),
        pairs: made.pairs,
        difference: BisectInterval { mean: difference.mean, ci95: [difference.lo, difference.hi] },
        p: made.p,
        confirmed: made.sure,
    })
}

fn skips(session: &Session<'_>) -> Vec<BisectSkip> {
    let list = &session.commits.list;
    session
        .skipped
        .iter()
        .map(|(node, cause)| BisectSkip { commit: list[*node].id.clone(), cause: cause.clone() })
        .collect()
}

fn points(session: &mut Session<'_>, answer: &Answer) -> Vec<BisectPoint> {
    let posterior = session.search.posterior().to_vec();
    let in_set = |node: usize| answer.credible_set.iter().any(|&(of, _)| of == node);
    let mut points: Vec<BisectPoint> = Vec::new();
    for (node, commit) in session.commits.list.iter().enumerate() {
        let values: Vec<f64> =
            session.observed.iter().filter(|run| run.node == node).map(|run| run.value).collect();
        if values.is_empty() && !in_set(node) && !session.skipped.contains_key(&node) {
            continue;
        }
        let (commit, probability) = (commit.id.clone(), posterior[node]);
        points.push(BisectPoint { position: node, commit, probability, values });
    }
    points
}

fn notes(session: &Session<'_>, answer: &Answer) -> Vec<String> {
    let mut notes: Vec<String> = session.settings.note.iter().cloned().collect();
    notes.extend(session.disturbance().sentence());
    let above = session.observed.iter().filter(|run| run.above).count();
    if above > 0 {
        notes.push(format!("{above} runs took longer than --timeout and count as slower"));
    }
    if let Some(percent) = session.drift() {
        notes.push(format!(
            "the ends drifted by {percent:+.1} % during the search: quiet the machine, or \
             trust the confirmation, which is interleaved"
        ));
    }
    if answer.culprit.is_some() && session.settings.layout == Layout::Same {
        notes.push(
            "the commits around it show no shifts of builds that could pass for the change; where \
             you expect such shifts, search again with --layout shifts, and where a second build \
             of a commit may differ (link order, a boot) with --layout new"
                .to_owned(),
        );
    }
    let parents = answer.culprit.map_or(0, |node| session.commits.parents[node].len());
    if parents > 1 && !session.settings.first_parent {
        notes.push(
            "the first bad commit is a merge: its parents are good, together they are not"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_stats::bisect::{Config, History, Search, Step};

    #[test]
    fn builds_that_shift_are_told_in_percent_with_the_cure() {
        let history = History::linear(3).expect("two suspects");
        let config = Config { max_runs: Some(1), ..Config::default() };
        let mut search = Search::new(history, config).expect("settings with a meaning");
        search.observe(0, 0, convoy_stats::bisect::Outcome::Value(200.0)).expect("a number");
        let Step::GaveUp(mut answer) = search.next_step() else {
            panic!("one run is the limit");
        };
        let at = |mean: f64| Interval { mean, lo: 0.5 * mean, hi: 2.0 * mean };
        answer.estimates.good = at(200.0);
        answer.estimates.effect = at(-12.0);
        answer.estimates.layout = at(6.0);
        answer.builds_shift = 0.99;
        let sure = of_shifts(&answer);
        let begin = "builds differ among themselves by about 3.00 % though the code does not, and \
                     the change is 6.00 %";
        assert!(sure.starts_with(begin) && sure.contains("--layout new"), "{sure}");
        answer.builds_shift = 0.5;
        let unsure = of_shifts(&answer);
        assert!(unsure.starts_with("builds may differ among themselves by up to 6.00 %"));
    }
}
