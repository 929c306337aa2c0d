//! From the answer of a search to its report.

use super::git::Commit;
use super::session::Session;
use convoy_report::{
    BisectCommit, BisectConfirmation, BisectInterval, BisectPoint, BisectReport, BisectSkip,
    BisectSuspect, BisectVerdict,
};
use convoy_stats::bisect::{Answer, Ending, Interval};
use convoy_stats::{Alternative, Sample, Zeros, paired_difference, signed_rank};

/// Beyond this many standard errors the slope of the ends over the search is a drift.
const DRIFT: f64 = 3.5;

fn commit(commit: &Commit) -> BisectCommit {
    let Commit { id, author, date, subject } = commit.clone();
    BisectCommit { commit: id, author, date, subject }
}

fn interval(of: Interval) -> BisectInterval {
    BisectInterval { mean: of.mean, ci95: [of.lo, of.hi] }
}

impl Session<'_> {
    /// The report of `answer`.
    pub(crate) fn report(&mut self, answer: &Answer) -> BisectReport {
        let verdict = match answer.ending {
            Ending::Found => BisectVerdict::Found,
            Ending::NoRegression => BisectVerdict::NoRegression,
            Ending::WrongDirection => BisectVerdict::Improvement,
            _ if answer.no_regression > 0.5 => BisectVerdict::NoRegression,
            _ => BisectVerdict::Set,
        };
        let estimates = &answer.estimates;
        let level = estimates.good.mean.abs();
        let percent = |value: f64| 100.0 * value / level;
        let effect = estimates.effect;
        let list = &self.commits.list;
        let [good, bad] = self.commits.ends();
        let suspects = answer.credible_set.iter();
        BisectReport {
            verdict,
            first_bad: answer.culprit.map(|node| list[node].id.clone()),
            confidence: answer.confidence,
            runs: self.search.runs(),
            builds: self.builds.made,
            failed_runs: self.failed,
            why: answer.ending.to_string(),
            candidates: self.search.history().candidates().len(),
            metric: self.metric_name(),
            unit: self.unit(),
            good: commit(&list[good]),
            bad: commit(&list[bad]),
            credible_set: suspects
                .map(|&(node, probability)| BisectSuspect {
                    commit: commit(&list[node]),
                    probability,
                })
                .collect(),
            good_level: interval(estimates.good),
            bad_level: interval(estimates.bad),
            effect: interval(effect),
            effect_percent: BisectInterval {
                mean: percent(effect.mean),
                ci95: [percent(effect.lo), percent(effect.hi)],
            },
            noise: estimates.noise.mean,
            confirmation: self.confirmed(answer),
            skipped: self.skips(),
            notes: self.notes(answer),
            log: self.journal.path().display().to_string(),
            points: self.points(answer),
        }
    }

    fn confirmed(&self, answer: &Answer) -> Option<BisectConfirmation> {
        let made = self.confirmation.as_ref();
        let made = made.filter(|made| Some(made.culprit) == answer.culprit)?;
        let [parent, culprit] = made.pairs();
        let pairs = parent.len();
        let (parent, culprit) = (Sample::new(parent).ok()?, Sample::new(culprit).ok()?);
        let difference = paired_difference(&parent, &culprit).ok()?;
        let test = signed_rank(&parent, &culprit, Zeros::default(), Alternative::TwoSided).ok()?;
        let side = answer.estimates.effect.mean.signum();
        let outer = if side > 0.0 { difference.lo } else { difference.hi };
        Some(BisectConfirmation {
            parent: self.commits.list[made.parent].id.clone(),
            pairs,
            difference: BisectInterval {
                mean: difference.mean,
                ci95: [difference.lo, difference.hi],
            },
            p: test.p,
            confirmed: pairs > 1 && outer * side > 0.0,
        })
    }

    fn skips(&self) -> Vec<BisectSkip> {
        let list = &self.commits.list;
        let skip = |(node, cause): (&usize, &String)| BisectSkip {
            commit: list[*node].id.clone(),
            cause: cause.clone(),
        };
        self.skipped.iter().map(skip).collect()
    }

    fn points(&mut self, answer: &Answer) -> Vec<BisectPoint> {
        let posterior = self.search.posterior().to_vec();
        let in_set = |node: usize| answer.credible_set.iter().any(|&(of, _)| of == node);
        let mut points: Vec<BisectPoint> = Vec::new();
        for (node, commit) in self.commits.list.iter().enumerate() {
            let values: Vec<f64> =
                self.observed.iter().filter(|run| run.node == node).map(|run| run.value).collect();
            if values.is_empty() && !in_set(node) && !self.skipped.contains_key(&node) {
                continue;
            }
            let (commit, probability) = (commit.id.clone(), posterior[node]);
            points.push(BisectPoint { position: node, commit, probability, values });
        }
        points
    }

    fn notes(&self, answer: &Answer) -> Vec<String> {
        let mut notes: Vec<String> = self.settings.note.iter().cloned().collect();
        let above = self.observed.iter().filter(|run| run.above).count();
        if above > 0 {
            notes.push(format!("{above} runs took longer than --timeout and count as slower"));
        }
        if let Some(percent) = self.drift() {
            notes.push(format!(
                "the ends drifted by {percent:+.1} % during the search: quiet the machine, or \
                 trust the confirmation, which is interleaved"
            ));
        }
        let parents = answer.culprit.map_or(0, |node| self.commits.parents[node].len());
        if parents > 1 && !self.settings.first_parent {
            notes.push(
                "the first bad commit is a merge: its parents are good, together they are not"
                    .to_owned(),
            );
        }
        notes
    }

    /// The change of the ends over the whole search, percent, if their slope is no accident.
    fn drift(&self) -> Option<f64> {
        let ends = self.commits.ends();
        let mut rows: Vec<(f64, f64)> = Vec::new();
        for end in ends {
            let of: Vec<(usize, f64)> = self
                .observed
                .iter()
                .enumerate()
                .filter(|(_, run)| run.node == end && !run.above)
                .map(|(index, run)| (index, run.value))
                .collect();
            let n = of.len() as f64;
            let time = of.iter().map(|(at, _)| *at as f64).sum::<f64>() / n;
            let level = of.iter().map(|(_, value)| value).sum::<f64>() / n;
            rows.extend(of.iter().map(|(at, value)| (*at as f64 - time, value / level - 1.0)));
        }
        let n = rows.len() as f64;
        let spread: f64 = rows.iter().map(|(x, _)| x * x).sum();
        let slope = rows.iter().map(|(x, y)| x * y).sum::<f64>() / spread;
        let rest: f64 = rows.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
        let error = (rest / (n - 3.0) / spread).sqrt();
        let significant = n >= 8.0 && slope.abs() > DRIFT * error;
        significant.then_some(100.0 * slope * self.observed.len() as f64)
    }
}
