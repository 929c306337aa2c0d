//! Simulates searches for a culprit and prints how many runs they need and how often they are
//! right.
//!
//! `cargo run --release -p convoy-stats --example bisect_simulation -- --histories 2000`
//!
//! `--part noise|hard|shifts|nothing` prints one table only, `--seed N` takes other histories,
//! `--noise gaussian,t3` and `--cells 5,2,1` (effects over noise, rounded as printed) print some of
//! the rows. The same seed produces the same table with any number of `--threads`. Every row is one
//! of Markdown; `--write results/bisect.md` puts it in the place of the row there that begins with
//! the same cells, with the commit it was measured at.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints tables")]

mod noise;
mod rows;
mod simulate;

use std::process::ExitCode;

use convoy_stats::bisect::Layout;
use noise::{NOISES, Noise};
use rows::Rows;
use simulate::{Kind, Scenario, Summary, bound, summarise};

/// Standard deviations of the shifts of builds, as parts of the change.
const SHIFTS: [f64; 5] = [0.0, 0.1, 0.25, 0.5, 1.0];

const PARTS: [&str; 4] = ["hard", "noise", "shifts", "nothing"];

/// The most histories for each of the many cells of the tables of noise and of nothing to find.
const NOISE_HISTORIES: u64 = 300;

/// Head of the tables that [`line`] fills.
const OF_LINES: &str = "| what | runs | p95 | builds | right | named one | right | set | commit |";

struct Options {
    histories: u64,
    threads: usize,
    seed: u64,
    part: Option<String>,
    /// Shapes of noise; empty for each table's own.
    noises: Vec<Noise>,
    /// Effects over noise as they are printed; empty for all.
    cells: Vec<String>,
    rows: Rows,
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
    if wanted("hard") {
        hard(&options);
    }
    if wanted("noise") {
        noises(&options);
    }
    if wanted("shifts") {
        shifts(&options);
    }
    if wanted("nothing") {
        nothing(&options);
    }
    ExitCode::SUCCESS
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        histories: 2000,
        threads,
        seed: 1,
        part: None,
        noises: Vec::new(),
        cells: Vec::new(),
        rows: Rows::default(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: not a number"));
        match name.as_str() {
            "--histories" => options.histories = number()?.max(1),
            "--threads" => options.threads = number()?.max(1) as usize,
            "--seed" => options.seed = number()?,
            "--part" if PARTS.contains(&value.as_str()) => {
                options.part = Some(value);
            }
            "--noise" => {
                options.noises = value.split(',').map(noise).collect::<Result<_, _>>()?;
            }
            "--write" => options.rows = Rows::into_file(&value),
            "--cells" => options.cells = value.split(',').map(String::from).collect(),
            _ => {
                return Err(format!(
                    "{name} {value}: take --histories, --threads, --seed, --part, --noise, \
                     --cells, --write"
                ));
            }
        }
    }
    Ok(options)
}

fn noise(name: &str) -> Result<Noise, String> {
    let named = NOISES.iter().find(|(known, _)| *known == name);
    named.map(|(_, noise)| *noise).ok_or_else(|| {
        let names: Vec<&str> = NOISES.iter().map(|(name, _)| *name).collect();
        format!("--noise {name}: take one of {}", names.join(", "))
    })
}

/// Every shape of noise at four effects, as `convoy bisect` searches by default: at most 1000 runs,
/// one build for each commit.
fn noises(options: &Options) {
    let histories = options.histories.min(NOISE_HISTORIES);
    println!("\nNothing known, {histories} histories, 99 % stated, 1000 runs");
    println!("| noise | d | histories | named | right | runs | p95 | ratio | pairs | commit |");
    for (name, noise) in NOISES {
        if !options.noises.is_empty() && !options.noises.contains(&noise) {
            continue;
        }
        for d in ["0.5", "1", "2", "5"] {
            if !options.cells.is_empty() && !options.cells.iter().any(|cell| cell == d) {
                continue;
            }
            let effect: f64 = 0.05 * d.parse::<f64>().unwrap_or(1.0);
            let scenario = default_search(effect, noise);
            let of = summarise(&scenario, histories, options.seed, options.threads);
            let floor = bound(scenario.d(), scenario.commits, 0.01);
            options.rows.put(
                &format!("{name} | {d}"),
                &format!(
                    "{histories} | {:.3} | {:.4} | {:.1} | {} | {:.2} | {:.2}",
                    of.named,
                    of.named_right,
                    of.runs,
                    of.runs_p95,
                    of.runs / floor,
                    of.pairs
                ),
            );
        }
    }
}

/// A search as `convoy bisect` makes it, with noise of 5 %.
fn default_search(effect: f64, noise: Noise) -> Scenario {
    Scenario {
        commits: 200,
        assumed: Layout::PerCommit,
        max_runs: 1000,
        ..Scenario::new(effect, 0.05, noise)
    }
}

/// Builds that shift in Gaussian noise, by the default and by a search that is told; *set* is the
/// mean number of commits where none is named.
fn shifts(options: &Options) {
    let histories = options.histories.min(NOISE_HISTORIES);
    println!("\nBuilds shift, {histories} histories, 99 % stated, 1000 runs");
    println!("| layout | d | shift | histories | named | right | runs | p95 | set | commit |");
    let searches = [("same", Layout::PerCommit), ("shifts", Layout::PerCommitAny)];
    for (name, assumed) in searches {
        for (d, shift) in ["1", "2", "5"].into_iter().flat_map(|d| SHIFTS.map(|s| (d, s))) {
            if !options.cells.is_empty() && !options.cells.iter().any(|cell| cell == d) {
                continue;
            }
            let effect = 0.05 * d.parse::<f64>().unwrap_or(1.0);
            let plain = default_search(effect, Noise::Gaussian);
            let scenario = Scenario { layout: shift * plain.d(), assumed, ..plain };
            let of = summarise(&scenario, histories, options.seed, options.threads);
            let cells = format!(
                "{histories} | {:.3} | {:.4} | {:.1} | {} | {:.2}",
                of.named, of.named_right, of.runs, of.runs_p95, of.set
            );
            options.rows.put(&format!("{name} | {d} | {shift}"), &cells);
        }
    }
}

/// Histories without a culprit.
fn nothing(options: &Options) {
    println!("\nNo culprit, at most 1000 runs, noise 5 %\n{OF_LINES}");
    for (name, kind, effect) in [
        ("nothing", Kind::Nothing, 0.0),
        ("ramp of 2 sd", Kind::Ramp, 0.1),
        ("ramp of 5 sd", Kind::Ramp, 0.25),
    ] {
        let scenario = Scenario { kind, ..default_search(effect, Noise::Gaussian) };
        let histories = options.histories.min(NOISE_HISTORIES);
        line(options, name, &summarise(&scenario, histories, options.seed, options.threads));
    }
}

/// Histories with merges, unbuildable commits, drift and shifts of builds, at effect/cv 5 and 2.
fn hard(options: &Options) {
    println!("\nHarder histories, nothing known, at most 3000 runs\n{OF_LINES}");
    for (effect, cv) in [(0.05, 0.01), (0.02, 0.01)] {
        let plain = Scenario { max_runs: 3000, ..Scenario::new(effect, cv, Noise::Gaussian) };
        for (name, scenario) in [
            ("plain", plain),
            ("layout 0.5 sd", Scenario { layout: 0.5, ..plain }),
            ("layout 0.5 sd, ignored", Scenario { layout: 0.5, assumed: Layout::None, ..plain }),
            ("layout 1 sd", Scenario { layout: 1.0, ..plain }),
            ("merges", Scenario { merges: true, ..plain }),
            ("10 % unbuildable", Scenario { broken: 0.1, ..plain }),
            ("merges, 10 % unbuildable", Scenario { merges: true, broken: 0.1, ..plain }),
            ("drift 1 % in 100 runs", Scenario { drift: 0.01, ..plain }),
        ] {
            let name = format!("d {:.0}, {name}", scenario.d());
            line(
                options,
                &name,
                &summarise(&scenario, options.histories, options.seed, options.threads),
            );
        }
    }
}

fn line(options: &Options, name: &str, summary: &Summary) {
    options.rows.put(
        name,
        &format!(
            "{:.1} | {} | {:.1} | {:.4} ({:.4} to {:.4}) | {:.3} | {:.4} | {:.2}",
            summary.runs,
            summary.runs_p95,
            summary.builds,
            summary.right,
            summary.right_ci[0],
            summary.right_ci[1],
            summary.named,
            summary.named_right,
            summary.set,
        ),
    );
}
