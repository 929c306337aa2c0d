//! The search for a culprit has its stated error. The large version of these figures is the example
//! `bisect_simulation`.

#[path = "../examples/bisect_simulation/noise.rs"]
#[expect(dead_code, reason = "the example uses all of it")]
mod noise;
#[path = "../examples/bisect_simulation/simulate.rs"]
#[expect(dead_code, reason = "the example uses all of it")]
mod simulate;

use convoy_stats::bisect::{
    Answer, BisectError, Config, Direction, Ending, History, Layout, Outcome, Search, Step,
};
use noise::{Noise, Random};
use simulate::{Kind, Scenario, bound, summarise};

/// One observation.
type Observed = (usize, u64, Outcome);

/// Searches with the outcomes of `value(node, random)`; `None` is a commit that cannot be built.
fn search(
    history: History,
    config: Config,
    mut value: impl FnMut(usize, &mut Random) -> Option<Outcome>,
) -> (Search, Answer, Vec<Observed>) {
    let mut random = Random::new(7);
    let mut search = Search::new(history, config).unwrap();
    let mut log = Vec::new();
    loop {
        match search.next_step() {
            Step::Measure(wish) => {
                let build = wish.build.unwrap_or(u64::from(search.builds()));
                for _ in 0..wish.runs {
                    if let Some(outcome) = value(wish.node, &mut random) {
                        search.observe(wish.node, build, outcome).unwrap();
                        log.push((wish.node, build, outcome));
                    } else {
                        search.skip(wish.node).unwrap();
                    }
                }
            }
            Step::Done(answer) | Step::GaveUp(answer) => return (search, answer, log),
        }
    }
}

fn linear() -> History {
    History::linear(101).unwrap()
}

#[test]
fn with_nothing_known_a_large_effect_costs_few_runs_over_the_bound() {
    for (noise, over) in [(Noise::Gaussian, 13.0), (Noise::T3, 13.0), (Noise::Outliers, 19.0)] {
        let cell = Scenario::new(0.05, 0.01, noise);
        let summary = summarise(&cell, 40, 12, 2);
        // Ten of them are the runs of the culprit and of its parent that precede every name.
        assert!(summary.runs <= bound(cell.d(), cell.commits, 0.01) + over, "{summary:?}");
        assert!(summary.right >= 0.95, "{noise:?} {summary:?}");
    }
}

/// A search as `convoy bisect` makes it, in noise of 5 %.
fn of_200(effect: f64, noise: Noise) -> Scenario {
    let assumed = Layout::PerCommit;
    Scenario { commits: 200, assumed, max_runs: 1000, ..Scenario::new(effect, 0.05, noise) }
}

#[test]
fn noise_with_modes_or_memory_seldom_gives_wrong_names() {
    for (noise, histories) in [
        (Noise::Modes(0.5), 24),
        (Noise::Modes(0.3), 24),
        (Noise::Modes(0.1), 24),
        (Noise::Lognormal, 24),
        (Noise::Correlated, 24),
        (Noise::Drift, 24),
        (Noise::SlowPhases, 4),
    ] {
        let summary = summarise(&of_200(0.1, noise), histories, 17, 2);
        // Two wrong of 24 are more than chance makes of one in a hundred.
        let wrong = summary.named * (1.0 - summary.named_right) * histories as f64;
        assert!(wrong < 1.5, "{noise:?} {summary:?}");
        assert!(summary.named >= 0.8, "{noise:?} {summary:?}");
    }
}

#[test]
fn the_shift_of_a_build_is_not_taken_for_the_step() {
    let told =
        |effect| Scenario { assumed: Layout::PerCommitAny, ..of_200(effect, Noise::Gaussian) };
    let default = |effect| of_200(effect, Noise::Gaussian);
    for (plain, layout, most) in [
        (told(0.05), 0.5, 300),
        (told(0.1), 1.0, 300),
        (default(0.1), 1.0, 150),
        (default(0.1), 2.0, 150),
        (default(0.25), 5.0, 150),
    ] {
        let cell = Scenario { layout, max_runs: most, ..plain };
        let summary = summarise(&cell, 16, 29, 2);
        let wrong = summary.named * (1.0 - summary.named_right) * 16.0;
        assert!(wrong < 0.5, "{plain:?} {summary:?}");
    }
    let summary = summarise(&told(0.1), 12, 29, 2);
    assert!(summary.named * summary.named_right > 0.9 && summary.runs < 100.0, "{summary:?}");
}

#[test]
fn where_builds_shift_by_as_much_as_the_change_the_search_ends_soon() {
    for (effect, layout) in [(0.1, 1.0), (0.1, 2.0), (0.25, 2.5)] {
        let cell = Scenario { layout, ..of_200(effect, Noise::Gaussian) };
        let summary = summarise(&cell, 8, 31, 2);
        assert!(summary.runs < 300.0, "{summary:?}");
        assert!(summary.named < 0.3, "{summary:?}");
    }
}

#[test]
fn a_search_that_ends_because_builds_shift_says_by_how_much() {
    let config = Config { layout: Layout::PerCommit, max_runs: Some(1000), ..Config::default() };
    // Each commit is off by a fixed -20, 0 or 20; the change is 30 and a run varies by 5.
    let (done, answer, _) = search(linear(), config, |node, random| {
        let shift = [0.0, 20.0, -20.0, 20.0, 0.0, -20.0, -20.0][node % 7];
        let level = if node >= 40 { 130.0 } else { 100.0 };
        Some(Outcome::Value(level + shift + 5.0 * random.normal()))
    });
    assert_eq!(answer.ending, Ending::BuildsShift, "{answer:?}");
    assert!(done.runs() < 300 && answer.builds_shift > 0.99, "{} {answer:?}", done.runs());
    let shift = answer.estimates.layout;
    assert!(shift.lo < 16.5 && 16.5 < shift.hi && shift.mean > 8.0, "{answer:?}");
    assert!(answer.credible_set.iter().any(|(node, _)| *node == 40), "{answer:?}");
}

#[test]
fn modes_that_are_seen_are_no_noise() {
    for (noise, effect, most) in [
        (Noise::Modes(0.5), 0.025, 60.0),
        (Noise::Modes(0.3), 0.05, 60.0),
        (Noise::SlowPhases, 0.05, 300.0),
    ] {
        let summary = summarise(&of_200(effect, noise), 12, 23, 2);
        assert!(summary.runs <= most, "{noise:?} {summary:?}");
        assert!(summary.named * summary.named_right > 0.9, "{noise:?} {summary:?}");
    }
}

#[test]
fn nothing_to_find_ends_early() {
    for (kind, effect) in [(Kind::Nothing, 0.0), (Kind::Ramp, 0.25)] {
        let cell = Scenario { kind, ..of_200(effect, Noise::Gaussian) };
        let summary = summarise(&cell, 12, 18, 2);
        assert!(summary.runs <= 600.0, "{summary:?}");
        assert!(summary.named < 0.01, "{summary:?}");
    }
}

#[test]
fn a_ramp_is_called_one() {
    let (_, answer, _) = search(linear(), Config::default(), |node, random| {
        Some(Outcome::Value(100.0 + 0.3 * node as f64 + random.normal()))
    });
    assert_eq!((answer.culprit, answer.ending), (None, Ending::Ramp), "{answer:?}");
    assert!(answer.ramp >= 0.99);
}

/// Returns the most probable commit for each of the two steps of a history of 101 commits with
/// noise 1 and the levels `level(node)`.
fn steps_of(level: impl Fn(usize) -> f64) -> (Answer, Vec<usize>) {
    let config = Config { max_runs: Some(1000), ..Config::default() };
    let (_, answer, _) = search(linear(), config, |node, random| {
        Some(Outcome::Value(level(node) + random.normal()))
    });
    let steps = answer.steps.iter().map(|set| set[0].0).collect();
    (answer, steps)
}

#[test]
fn two_steps_are_both_named() {
    let step = |node: usize, from: usize| if node >= from { 6.0 } else { 0.0 };
    let (answer, steps) = steps_of(|node| 100.0 + step(node, 20) + step(node, 71));
    assert_eq!((answer.ending, answer.culprit), (Ending::TwoSteps, None), "{answer:?}");
    assert_eq!(steps, [20, 71], "{answer:?}");
}

#[test]
fn a_step_that_is_taken_back_in_part_is_called_so() {
    let (answer, steps) = steps_of(|node| match node {
        0..30 => 100.0,
        30..62 => 112.0,
        _ => 105.0,
    });
    assert_eq!((answer.ending, answer.culprit), (Ending::TakenBack, None), "{answer:?}");
    assert_eq!(steps, [30, 62], "{answer:?}");
}

#[test]
fn a_change_that_was_wholly_taken_back_is_seen_between_equal_ends() {
    let (answer, steps) = steps_of(|node| if (38..71).contains(&node) { 106.0 } else { 100.0 });
    assert_eq!((answer.ending, answer.culprit), (Ending::TakenBack, None), "{answer:?}");
    assert_eq!(steps, [38, 71], "{answer:?}");
}

#[test]
fn two_steps_are_found_along_first_parents() {
    // Every fifth commit is a merge of a side branch of one commit, which the one before it is.
    let parents = |node: usize| match node {
        0 => vec![],
        _ if node % 5 == 4 => vec![node - 2],
        _ if node.is_multiple_of(5) => vec![node - 2, node - 1],
        _ => vec![node - 1],
    };
    let parents: Vec<Vec<usize>> = (0..101).map(parents).collect();
    for (second, ending) in [(106.0, Ending::TwoSteps), (94.0, Ending::TakenBack)] {
        let history = History::dag(&parents, 0, 100).unwrap();
        let config = Config { max_runs: Some(1000), ..Config::default() };
        let (_, answer, _) = search(history, config, |node, random| {
            // Side branches leave the line before their merge; 26 and 72 are on the line.
            let level = match node {
                0..26 => 100.0,
                26..72 => 106.0,
                _ => 106.0 + second - 100.0,
            };
            Some(Outcome::Value(level + random.normal()))
        });
        assert_eq!((answer.ending, answer.culprit), (ending, None), "{answer:?}");
        let steps: Vec<usize> = answer.steps.iter().map(|set| set[0].0).collect();
        assert_eq!(steps, [26, 72], "{answer:?}");
    }
}

/// The answer of the search for noise outside its shapes.
#[test]
fn noise_like_none_that_is_considered_costs_pairs_and_other_noise_does_not() {
    fn bought(noise: Noise, effect: f64) -> f64 {
        let summary = summarise(&of_200(effect, noise), 12, 29, 2);
        let wrong = summary.named * (1.0 - summary.named_right) * 12.0;
        assert!(wrong < 1.5 && summary.named > 0.8, "{noise:?} {summary:?}");
        summary.pairs
    }
    for (noise, effect) in [
        (Noise::Gaussian, 0.05),
        (Noise::T3, 0.05),
        (Noise::Outliers, 0.05),
        (Noise::Modes(0.5), 0.1),
        (Noise::Modes(0.1), 0.1),
        (Noise::Correlated, 0.05),
        (Noise::Drift, 0.05),
    ] {
        let share = bought(noise, effect);
        assert!(share < 0.1, "{noise:?}: {share}");
    }
    assert!(bought(Noise::ThreeModes, 0.05) > 0.3);
    // Near enough to what is considered: heavy tails, and a machine that remembers.
    assert!(bought(Noise::Cauchy, 0.1) + bought(Noise::Walk, 0.1) < 0.5);
}

#[test]
fn where_builds_may_shift_no_name_rests_on_one_build() {
    let (_, answer, log) = search(linear(), Config::default(), |node, random| {
        Some(Outcome::Value(100.0 + random.normal() + if node >= 40 { 6.0 } else { 0.0 }))
    });
    assert_eq!(answer.culprit, Some(40), "{answer:?}");
    for of in [39, 40] {
        let builds = log.iter().filter(|(node, ..)| *node == of).map(|(_, build, _)| *build);
        let builds: std::collections::BTreeSet<u64> = builds.collect();
        assert!(builds.len() >= 3, "{of}: {builds:?}");
    }
}

#[test]
fn merges_and_unbuildable_commits_do_not_mislead() {
    let mut cell = Scenario::new(0.40, 0.03, Noise::Gaussian);
    (cell.commits, cell.merges, cell.broken) = (200, true, 0.1);
    let summary = summarise(&cell, 40, 13, 2);
    assert!(summary.right >= 0.95, "{summary:?}");
}

#[test]
fn the_threads_do_not_change_the_result() {
    let cell = Scenario::new(0.40, 0.05, Noise::T3);
    let texts = [1, 2].map(|threads| format!("{:?}", summarise(&cell, 8, 3, threads)));
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn repeating_the_observations_resumes_to_the_bit() {
    fn bits(search: &mut Search) -> Vec<u64> {
        search.posterior().iter().map(|p| p.to_bits()).collect()
    }
    let (mut first, answer, log) = search(linear(), Config::default(), |node, random| {
        Some(Outcome::Value(10.0 + random.normal() + if node >= 60 { 3.0 } else { 0.0 }))
    });
    let mut second = Search::new(linear(), Config::default()).unwrap();
    for (node, build, outcome) in log {
        second.observe(node, build, outcome).unwrap();
    }
    let (Step::Done(again) | Step::GaveUp(again)) = second.next_step() else {
        panic!("the repeated search goes on");
    };
    assert_eq!(format!("{answer:?}"), format!("{again:?}"));
    assert_eq!(bits(&mut first), bits(&mut second));
}

#[test]
fn without_a_difference_it_names_nobody() {
    let config = Config { max_runs: Some(400), ..Config::default() };
    let (_, answer, _) =
        search(linear(), config, |_, random| Some(Outcome::Value(100.0 + random.normal())));
    assert_eq!((answer.culprit, answer.ending), (None, Ending::NoRegression), "{answer:?}");
}

#[test]
fn a_change_for_the_better_is_no_regression() {
    let config = Config { direction: Direction::HigherIsWorse, ..Config::default() };
    let (_, answer, _) = search(linear(), config, |node, random| {
        Some(Outcome::Value(100.0 + random.normal() - if node >= 50 { 20.0 } else { 0.0 }))
    });
    assert_eq!((answer.culprit, answer.ending), (None, Ending::WrongDirection), "{answer:?}");
}

#[test]
fn two_modes_without_a_change_are_no_improvement() {
    for mut own in (500..540).map(Random::new) {
        let direction = Direction::HigherIsWorse;
        let config = Config { direction, max_runs: Some(1000), ..Config::default() };
        let mut value = || 100.0 + 5.0 * (own.normal().signum() + own.normal());
        let (_, answer, _) = search(linear(), config, |_, _| Some(Outcome::Value(value())));
        assert_eq!((answer.culprit, answer.ending), (None, Ending::NoRegression), "{answer:?}");
    }
}

#[test]
fn a_skipped_culprit_gives_a_set() {
    let (_, answer, _) = search(linear(), Config::default(), |node, random| {
        let level = if node >= 50 { 20.0 } else { 0.0 };
        (!(50..53).contains(&node)).then(|| Outcome::Value(100.0 + random.normal() + level))
    });
    assert_eq!((answer.culprit, answer.ending), (None, Ending::SkippedRemain), "{answer:?}");
    let mut set: Vec<usize> = answer.credible_set.iter().map(|(node, _)| *node).collect();
    set.sort_unstable();
    assert_eq!(set, [50, 51, 52, 53]);
}

#[test]
fn timeouts_are_values() {
    let (_, answer, _) = search(linear(), Config::default(), |node, random| {
        Some(if node >= 33 { Outcome::Above(60.0) } else { Outcome::Value(10.0 + random.normal()) })
    });
    assert_eq!(answer.culprit, Some(33), "{answer:?}");
}

/// A search of 29 commits for a step at 18; the parent is `off` in its first four runs, as on a
/// machine that is busy for a while.
fn busy_beside_the_culprit(bad: Outcome, noise: f64, off: f64) -> (Answer, usize) {
    let history = History::linear(30).unwrap();
    let mut seen = 0;
    let (_, answer, log) = search(history, Config::default(), |node, random| {
        let quiet = 1.0 + noise * random.normal();
        seen += usize::from(node == 17);
        Some(match (node, bad) {
            (17, _) if seen <= 4 => Outcome::Value(quiet + off),
            (0..=17, _) => Outcome::Value(quiet),
            (_, Outcome::Value(level)) => Outcome::Value(level + noise * random.normal()),
            (_, above) => above,
        })
    });
    (answer, log.len())
}

#[test]
fn a_second_step_of_no_weight_is_none() {
    let (answer, runs) = busy_beside_the_culprit(Outcome::Above(1000.0), 0.03, 0.15);
    assert_eq!(answer.culprit, Some(18), "{answer:?}");
    assert!(runs <= 30, "{runs} runs");
}

#[test]
fn a_gap_of_a_thousand_times_is_named_or_buys_runs() {
    let mut search = Search::new(History::linear(30).unwrap(), Config::default()).unwrap();
    let quick = |values: &[f64]| values.iter().map(|v| Outcome::Value(*v)).collect::<Vec<_>>();
    let limit = |runs: usize| vec![Outcome::Above(3.0); runs];
    for (node, outcomes) in [
        (0, quick(&[0.0032, 0.0031])),
        (29, limit(2)),
        (13, quick(&[0.0031])),
        (21, limit(1)),
        (17, quick(&[0.0033, 0.0032, 0.0037])),
        (19, limit(1)),
        (18, limit(3)),
        (0, quick(&[0.0031])),
        (17, quick(&[0.0036])),
    ] {
        for outcome in outcomes {
            search.observe(node, node as u64, outcome).unwrap();
        }
    }
    match search.next_step() {
        Step::Measure(_) => {}
        Step::Done(answer) | Step::GaveUp(answer) => assert_eq!(answer.culprit, Some(18)),
    }
}

#[test]
fn a_doubt_that_tells_no_commits_apart_buys_runs() {
    for off in [0.08, 0.09, 0.1, 0.11] {
        let (answer, _) = busy_beside_the_culprit(Outcome::Value(1.5), 0.01, off);
        assert_ne!(answer.ending, Ending::Indistinguishable, "{off}: {answer:?}");
    }
}

#[test]
fn values_without_noise_are_values() {
    let (_, answer, _) = search(linear(), Config::default(), |node, _| {
        Some(Outcome::Value(if node >= 33 { 5.0 } else { 4.0 }))
    });
    assert_eq!(answer.culprit, Some(33), "{answer:?}");
}

#[test]
fn bad_input_is_refused() {
    let history = || History::linear(10).unwrap();
    assert_eq!(History::linear(1).unwrap_err(), BisectError::NoCandidates);
    let order = History::dag(&[vec![], vec![2], vec![0]], 0, 2).unwrap_err();
    assert_eq!(order, BisectError::Order { node: 1, parent: 2 });
    assert!(History::dag(&[vec![], vec![0]], 1, 0).is_err());
    let mut search = Search::new(history(), Config::default()).unwrap();
    assert!(search.observe(0, 0, Outcome::Value(f64::NAN)).is_err());
    assert!(search.observe(10, 0, Outcome::Value(1.0)).is_err());
    search.observe(0, 0, Outcome::Value(1.0)).unwrap();
    let error = search.observe(9, 0, Outcome::Value(1.0)).unwrap_err();
    assert_eq!(error, BisectError::Build { build: 0, node: 0 });
    assert_eq!(search.runs(), 1);
    for config in [
        Config { confidence: 1.0, ..Config::default() },
        Config { run_cost: 0.0, ..Config::default() },
        Config { prior: Some(vec![1.0; 3]), ..Config::default() },
        Config { prior: Some(vec![0.0; 10]), ..Config::default() },
    ] {
        assert!(Search::new(history(), config).is_err());
    }
}
