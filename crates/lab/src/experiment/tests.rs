use super::*;
use crate::job::{Job, Outcome};

const TINY: &str = r#"
title = "two by two"
[inputs]
machine = "quad-2008-two-dies"
users = 40
[[grid]]
name = "g"
target = "sim"
seeds = 2
scale = 4
compare = { axis = "kernel", baseline = "2.6.25", metric = "jobs_per_min" }
[[grid.axis]]
key = "kernel.config.hz"
values = [250, 1000]
[[grid.axis]]
key = "kernel"
values = ["2.6.25", "3.0"]
"#;

fn plan(text: &str, changes: &Changes) -> Result<Plan, String> {
    let loaded = convoy_catalogue::parse::<Experiment>("x.toml", text);
    let loaded = loaded.map_err(|error| error.to_string())?;
    Plan::new(&loaded, changes).map_err(|error| error.to_string())
}

fn sims(plan: &Plan) -> Vec<crate::job::SimJob> {
    let mut found = Vec::new();
    for job in plan.jobs() {
        if let Some(job) = job.sim() {
            found.push(job.clone());
        }
    }
    found
}

#[test]
fn a_plan_is_the_product_of_the_axes_and_the_seeds() {
    let plan = plan(TINY, &Changes::default()).unwrap();
    let cells = sims(&plan);
    assert_eq!(cells.len(), 8);
    let hz: Vec<u32> = cells.iter().map(|job| job.load_point().kernel.config.hz).collect();
    assert_eq!(hz, [250, 250, 250, 250, 1000, 1000, 1000, 1000]);
    let seeds: Vec<u64> = cells.iter().map(|job| job.inputs().seed).collect();
    assert_eq!(seeds, [1, 2, 1, 2, 1, 2, 1, 2]);
    assert!(cells.iter().all(|job| job.inputs().users == 10 && job.inputs().users_full == 40));
    let hashes: std::collections::BTreeSet<String> = plan.jobs().map(Job::hash).collect();
    assert_eq!(hashes.len(), 8, "each cell has a different hash");
    assert_eq!(
        plan.jobs().next().map(Job::hash),
        self::plan(TINY, &Changes::default()).unwrap().jobs().next().map(Job::hash)
    );
}

#[test]
fn each_point_may_be_compared_with_the_one_before_it() {
    let text = TINY
        .replace("baseline = \"2.6.25\"", "baseline = \"2.6.25\", previous = true")
        .replace("[\"2.6.25\", \"3.0\"]", "[\"2.6.24\", \"2.6.25\", \"3.0\", \"3.7\"]");
    let plan = plan(&text, &Changes::default()).unwrap();
    let grid = &plan.grids[0];
    let bases: Vec<usize> = (0..8).filter_map(|index| grid.baseline(index)).collect();
    assert_eq!(bases, [1, 1, 1, 2, 5, 5, 5, 6]);
    let compare = grid.grid.compare.as_ref().unwrap();
    assert_eq!(compare.against(), "the previous kernel");
}

/// Three ranges of users, with a quick and a full form.
fn ranged() -> String {
    let users = r#"key = "users"
[[grid.axis.range]]
label = "few"
values = [1, 2, 3]
run = [1, 3]
quick = [2]
[[grid.axis.range]]
label = "many"
values = [40, 50]"#;
    TINY.replace("key = \"kernel.config.hz\"\nvalues = [250, 1000]", users).replace(
        "scale = 4",
        "first = 2\njobs_together = 9\nfull = { seeds = 3 }\n\
         quick = { seeds = 1, jobs_together = 5, at = { kernel = [\"3.0\"] } }",
    )
}

#[test]
fn each_size_runs_its_points_of_a_range() {
    for (size, users, seeds, first, together) in [
        (Size::Usual, &[1, 3, 40, 50][..], 2, Some(2), Some(9)),
        (Size::Quick, &[2, 40, 50], 1, Some(2), Some(5)),
        (Size::Full, &[1, 2, 3, 40, 50], 3, None, None),
    ] {
        let alone = size == Size::Quick;
        let plan = plan(&ranged(), &Changes { size, alone, ..Changes::default() }).unwrap();
        let (cells, grid) = (sims(&plan), &plan.grids[0]);
        let mut found: Vec<u32> = cells.iter().map(|job| job.inputs().users).collect();
        found.dedup();
        let kernels = if size == Size::Quick { 1 } else { 2 };
        assert_eq!((&found[..], grid.seeds.len()), (users, seeds));
        assert_eq!(grid.axes[1].levels.len(), kernels);
        assert!(cells.iter().all(|job| job.load_point().mix.first == first));
        assert!(cells.iter().all(|job| job.load_point().jobs_together == together));
        let few = grid.axes[0].levels.iter().filter(|level| level.is_in("few")).count();
        assert_eq!(few, users.len() - 2);
    }
    let quick = |text: &str, size| plan(text, &Changes { size, ..Changes::default() }).unwrap_err();
    assert!(quick(TINY, Size::Quick).contains("no quick form; drop --quick"));
    let small = TINY.replace("scale = 4", "");
    assert!(quick(&small, Size::Full).contains("always runs at full size; drop --full"));
}

#[test]
fn changes_narrow_and_widen_it() {
    let kernels = vec!["3.0".to_owned(), "2.6.25".to_owned(), "2.6.26-rc1".to_owned()];
    let points = [("kernel".to_owned(), kernels)].into();
    let changes = Changes { points, seeds: Some(1), scale: Some(1), seed: 7, ..Changes::default() };
    let plan = plan(TINY, &changes).unwrap();
    let names: Vec<&str> = plan.grids[0].axes[1].levels.iter().map(|l| l.label.as_str()).collect();
    assert_eq!(names, ["3.0", "2.6.25", "2.6.26-rc1"]);
    assert!(sims(&plan).iter().all(|job| job.inputs().users == 40 && job.inputs().seed == 7));
}

#[test]
fn the_spread_of_the_first_seeds_says_how_many_there_are() {
    let text = TINY.replace("seeds = 2", "seeds = 4\nhalf_width = 1.5\nseeds_at_most = 9");
    let first = plan(&text, &Changes::default()).unwrap();
    // Losses of 39 to 41 % at 250 Hz, sd 0.82: (3.18 x 0.82 / 1.5)^2 is 3. Of 35 to 45 % at 1000
    // Hz, sd 4.1: 75. The baselines do not spread.
    let of = |value: f64| Some(Outcome::of([("jobs_per_min", value)]));
    let outcomes: Vec<_> =
        [[100.0; 4], [60.0, 60.0, 61.0, 59.0], [100.0; 4], [60.0, 60.0, 65.0, 55.0]]
            .into_iter()
            .flatten()
            .map(of)
            .collect();
    let longer = first.longer(&outcomes).unwrap().unwrap();
    let seeds: Vec<usize> = longer.grids[0].points.iter().map(|point| point.jobs.len()).collect();
    assert_eq!(seeds, [4, 4, 4, 9]);
    let last = sims(&longer).last().map(|job| job.inputs().seed);
    assert_eq!(last, Some(9));
    // One look is one look, and a number that is asked for is that number.
    let again: Vec<_> = longer.jobs().map(|_| of(60.0)).collect();
    assert!(longer.longer(&again).unwrap().is_none());
    let fixed = plan(&text, &Changes { seeds: Some(4), ..Changes::default() }).unwrap();
    assert!(fixed.longer(&outcomes).unwrap().is_none());
    assert!(first.longer(&outcomes[1..]).unwrap().is_none());
}

/// A second stage runs only for points that the first leaves too uncertain; the number of seeds
/// follows from its spread, not from the first stage's.
#[test]
fn a_second_look_is_taken_where_the_first_is_not_enough() {
    fn counts(plan: &Plan) -> Vec<usize> {
        plan.grids[0].points.iter().map(|point| point.jobs.len()).collect()
    }
    let staged = "seeds = 3\nsecond_look = 6\nhalf_width = 1.5\nseeds_at_most = 40";
    let mut now = plan(&TINY.replace("seeds = 2", staged), &Changes::default()).unwrap();
    // Baseline, quiet, baseline, noisy: what seed `at` of each gives.
    let outcomes = |plan: &Plan| -> Vec<Option<Outcome>> {
        let quiet = |at: usize| if at.is_multiple_of(2) { 0.01 } else { -0.01 };
        let values = counts(plan).into_iter().enumerate().flat_map(|(point, count)| {
            (0..count).map(move |at| match point {
                0 | 2 => 100.0 + quiet(at),
                1 => 60.0 + quiet(at),
                _ => 60.0 + [2.0, -2.0, 0.0][at % 3],
            })
        });
        values.map(|value| Some(Outcome::of([("jobs_per_min", value)]))).collect()
    };
    assert_eq!(counts(&now), [3; 4]);
    now = now.longer(&outcomes(&now)).unwrap().unwrap();
    assert_eq!(counts(&now), [3, 3, 3, 6]);
    // The spread of six is 1.79, and (2.757 x 1.79 / 1.5)^2 is 10.8.
    now = now.longer(&outcomes(&now)).unwrap().unwrap();
    assert_eq!(counts(&now), [3, 3, 3, 11]);
    assert!(now.longer(&outcomes(&now)).unwrap().is_none());
    let grid = &now.grids[0].grid;
    let values: Vec<f64> = (0..11).map(|at| 60.0 + [2.0, -2.0, 0.0][at % 3]).collect();
    let found = grid.staged_change(Change::Loss, &[100.0, 100.01, 99.99], &values).unwrap();
    assert!(found.half_width() <= 1.5 && found.contains(40.0), "{found:?}");
}

#[test]
fn what_makes_no_sense_names_its_line() {
    for (text, from, to, told) in [
        ("run = [1, 3]", "run = [1, 4]", "x.toml:20: grid[0].axis[0].range[0].run: 4 is not among"),
        ("values = [40, 50]", "values = [40, 0]", "0 is out of range"),
        ("at = { kernel = [\"3.0\"] }", "at = { kernel = [\"3.1\"] }", "there is no point 3.1"),
        ("first = 2", "columns = \"kernel\"", "needs the view table, and no axis across"),
    ]
    .map(|(from, to, told)| (ranged(), from, to, told))
    {
        assert!(text.contains(from), "{from}");
        let error = plan(&text.replace(from, to), &Changes::default()).unwrap_err();
        assert!(error.contains(told), "{to}: {error}");
    }
    for (from, to, told) in [
        (
            "users = 40",
            "usres = 40",
            "x.toml:5: inputs.usres: no input of target sim; did you mean users?",
        ),
        ("users = 40", "users = 0", "0 is out of range (1 to 1000000)"),
        ("values = [250, 1000]", "values = [250, 250]", "\"250\" is listed twice"),
        ("baseline = \"2.6.25\"", "baseline = \"2.6.24\"", "no point is \"2.6.24\""),
        ("[250, 1000]", "[250, 999]", "999"),
        ("axis = \"kernel\"", "axis = \"kernle\"", "there is no axis \"kernle\""),
        ("scale = 4", "scale = 400", "leaves no user of 40"),
        ("seeds = 2", "seeds = 1\nhalf_width = 1.0", "two seeds to see their spread"),
        ("seeds = 2", "seeds = 4\nsecond_look = 8", "second_look: needs a half_width"),
    ] {
        let error = plan(&TINY.replace(from, to), &Changes::default()).unwrap_err();
        assert!(error.contains(told), "{to}: {error}");
    }
}

#[test]
fn every_shipped_experiment_has_a_plan() {
    for name in convoy_catalogue::EXPERIMENTS.names() {
        let loaded = convoy_catalogue::load::<Experiment>(name, &[]).unwrap();
        let plan = Plan::new(&loaded, &Changes::default()).unwrap();
        for grid in &plan.grids {
            for row in &grid.grid.published {
                let of = |point: &&Point| grid.published(&point.at) == Some(row);
                assert!(grid.points.iter().any(|point| of(&point)), "{name}: {:?}", row.at);
            }
        }
    }
}
