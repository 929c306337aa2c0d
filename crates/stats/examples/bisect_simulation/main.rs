//! Simulates searches for a culprit and prints how many runs they need and how often they are
//! right.
//!
//! `cargo run --release -p convoy-stats --example bisect_simulation -- --histories 2000`
//!
//! `--part known|unknown|shiftless|builds|hard` prints one table only, `--seed N` takes other
//! histories. `--noise gaussian|t3|outliers` and `--cells 5,2,1` (effects over noise, rounded as
//! printed) print some rows of the tables of nine cells.
//! `told` is `git bisect` with the fewest repeats that reach 99 %, told levels and noise; `untold`
//! measures both ends itself to place its threshold and choose its repeats.
//! The same seed gives the same table with any number of `--threads`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints tables")]

mod simulate;

use std::process::ExitCode;

use simulate::{
    Noise, Scenario, Summary, bound, git_bisect, git_measured_runs, repeats_for_99, summarise,
};

/// Effects and noise of the nine cells, as parts of the level.
const CELLS: [(f64, f64); 9] = [
    (0.40, 0.01),
    (0.40, 0.03),
    (0.40, 0.05),
    (0.05, 0.01),
    (0.02, 0.01),
    (0.05, 0.03),
    (0.05, 0.05),
    (0.02, 0.03),
    (0.02, 0.05),
];

/// Histories from which the repeats of `git bisect` are found.
const GIT_HISTORIES: u64 = 1000;

struct Options {
    histories: u64,
    threads: usize,
    seed: u64,
    part: Option<String>,
    noises: Vec<Noise>,
    /// Effects over noise as they are printed; empty for all.
    cells: Vec<String>,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("bisect_simulation: {error}");
            return ExitCode::from(2);
        }
    };
    let wanted = |part: &str| options.part.as_deref().is_none_or(|only| only == part);
    if wanted("known") {
        cells(&options, "Levels and noise known, builds free", |cell| {
            (cell.known, cell.build_cost) = (true, 0.0);
        });
    }
    if wanted("unknown") {
        cells(&options, "Nothing known", |_| ());
    }
    if wanted("shiftless") {
        cells(&options, "Nothing known but that builds bring no shifts", |cell| {
            cell.shiftless = true;
        });
    }
    if wanted("builds") {
        builds(&options);
    }
    if wanted("hard") {
        hard(&options);
    }
    ExitCode::SUCCESS
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let noises = vec![Noise::Gaussian, Noise::T3, Noise::Outliers];
    let cells = Vec::new();
    let mut options = Options { histories: 2000, threads, seed: 1, part: None, noises, cells };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
        match name.as_str() {
            "--histories" => options.histories = number()?.max(1),
            "--threads" => options.threads = number()?.max(1) as usize,
            "--seed" => options.seed = number()?,
            "--part"
                if ["known", "unknown", "shiftless", "builds", "hard"]
                    .contains(&value.as_str()) =>
            {
                options.part = Some(value);
            }
            "--noise" => options.noises = vec![noise(&value)?],
            "--cells" => options.cells = value.split(',').map(String::from).collect(),
            _ => {
                return Err(format!(
                    "{name} {value}: take --histories, --threads, --seed, --part, --noise, --cells"
                ));
            }
        }
    }
    Ok(options)
}

fn noise(name: &str) -> Result<Noise, String> {
    match name {
        "gaussian" => Ok(Noise::Gaussian),
        "t3" => Ok(Noise::T3),
        "outliers" => Ok(Noise::Outliers),
        _ => Err(format!("--noise {name}: take gaussian, t3 or outliers")),
    }
}

/// The nine cells under the three kinds of noise, and `git bisect` with repeats.
fn cells(options: &Options, title: &str, change: impl Fn(&mut Scenario)) {
    println!("\n{title}: {} histories of 1000 commits, 99 % stated", options.histories);
    println!(
        "{:<9} {:>5} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>7} {:>15} {:>6} {:>7} {:>6} \
         {:>7} {:>6}",
        "noise",
        "d",
        "bound",
        "runs",
        "+-",
        "ratio",
        "p95",
        "builds",
        "right",
        "95 %",
        "named",
        "told",
        "/us",
        "untold",
        "/us"
    );
    for &noise in &options.noises {
        for (effect, cv) in CELLS {
            let mut scenario = Scenario::new(effect, cv, noise);
            let d = format!("{:.2}", scenario.d());
            let d = d.trim_end_matches('0').trim_end_matches('.');
            if !options.cells.is_empty() && !options.cells.iter().any(|cell| cell == d) {
                continue;
            }
            change(&mut scenario);
            let summary = summarise(&scenario, options.histories, options.seed, options.threads);
            let floor = bound(scenario.d(), scenario.commits, 0.01);
            let told = git_runs(&scenario);
            let untold = git_measured_runs(&scenario, GIT_HISTORIES);
            println!(
                "{:<9} {:>5.2} {floor:>7.1} {:>7.1} {:>6.1} {:>6.2} {:>6} {:>6.1} {:>7.4} \
                 {:>7.4}-{:>7.4} {:>6.3} {told:>7.1} {:>6.2} {untold:>7.1} {:>6.2}",
                format!("{noise:?}"),
                scenario.d(),
                summary.runs,
                1.96 * summary.runs_se,
                summary.runs / floor,
                summary.runs_p95,
                summary.builds,
                summary.right,
                summary.right_ci[0],
                summary.right_ci[1],
                summary.named,
                told / summary.runs,
                untold / summary.runs,
            );
        }
    }
}

/// Runs of `git bisect` with as many repeats as 99 % take.
fn git_runs(scenario: &Scenario) -> f64 {
    let repeats = repeats_for_99(scenario, GIT_HISTORIES);
    let runs: u32 = (0..GIT_HISTORIES).map(|seed| git_bisect(scenario, repeats, seed).0).sum();
    f64::from(runs) / GIT_HISTORIES as f64
}

/// Builds that cost ten runs each, at effect/cv 0.4.
fn builds(options: &Options) {
    println!("\nA build costs ten runs, effect/cv 0.4");
    for (name, known, shiftless) in
        [("all known", true, true), ("no shifts", false, true), ("nothing known", false, false)]
    {
        let mut scenario = Scenario::new(0.02, 0.05, Noise::Gaussian);
        (scenario.known, scenario.shiftless, scenario.build_cost) = (known, shiftless, 10.0);
        scenario.max_runs = 6000;
        line(name, &summarise(&scenario, options.histories, options.seed, options.threads));
    }
}

/// What the nine cells leave out, at effect/cv 5 and 2.
fn hard(options: &Options) {
    println!("\nHarder histories, nothing known, at most 3000 runs");
    for (effect, cv) in [(0.05, 0.01), (0.02, 0.01)] {
        let plain = Scenario { max_runs: 3000, ..Scenario::new(effect, cv, Noise::Gaussian) };
        for (name, scenario) in [
            ("plain", plain),
            ("layout 0.5 sd", Scenario { layout: 0.5, ..plain }),
            ("layout 0.5 sd, ignored", Scenario { layout: 0.5, shiftless: true, ..plain }),
            ("layout 1 sd", Scenario { layout: 1.0, ..plain }),
            ("merges", Scenario { merges: true, ..plain }),
            ("10 % unbuildable", Scenario { broken: 0.1, ..plain }),
            ("merges, 10 % unbuildable", Scenario { merges: true, broken: 0.1, ..plain }),
            ("drift 1 % in 100 runs", Scenario { drift: 0.01, ..plain }),
        ] {
            let name = format!("d {:.0}, {name}", scenario.d());
            line(&name, &summarise(&scenario, options.histories, options.seed, options.threads));
        }
    }
}

fn line(name: &str, summary: &Summary) {
    println!(
        "{name:<32} runs {:>6.1} (p95 {:>5})  builds {:>5.1}  right {:.4} ({:.4} to {:.4})  \
         named one {:.3}  (right {:.4})  set {:.2}",
        summary.runs,
        summary.runs_p95,
        summary.builds,
        summary.right,
        summary.right_ci[0],
        summary.right_ci[1],
        summary.named,
        summary.named_right,
        summary.set,
    );
}
