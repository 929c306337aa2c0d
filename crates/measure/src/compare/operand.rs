//! Interpretation of an operand: a command, a stored run or a file.

use super::read::{self, aim};
use super::series::{Series, Settings, Side};
use super::settings;
use crate::{MeasureError, Program};
use convoy_store::{Store, StoreError, Stored};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A side before it is measured.
#[derive(Clone, Debug)]
pub enum Operand {
    /// To be run.
    Command(Command),
    /// Numbers that are there.
    Numbers(Side),
}

/// The numbers and the settings of an experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Every metric of every point, seed by seed.
    pub series: Vec<Series>,
    /// Settings of its cells.
    pub settings: Settings,
}

/// Reads the record of an experiment; returns `None` for other records.
pub type ReadExperiment = fn(&Value) -> Option<Experiment>;

/// A command to be run again and again.
#[derive(Clone, Debug)]
pub struct Command {
    /// As it was given.
    pub text: String,
    /// Whether it is a line of this program, which gets seeds and gives its result as JSON.
    pub ours: bool,
    /// The program to run.
    program: Program,
    experiment: ReadExperiment,
}

/// Context for looking up the operands of a comparison.
#[derive(Clone, Debug)]
pub struct Operands {
    /// As they were given, the baseline first.
    pub given: Vec<String>,
    /// The store of runs, if there is one.
    pub store: Option<PathBuf>,
    /// Whether commands go without a shell.
    pub no_shell: bool,
    /// This program, which runs its own lines again; `None` if they are commands as any other.
    pub program: Option<PathBuf>,
    /// Reads records of experiments.
    pub experiment: ReadExperiment,
}

impl Command {
    /// Returns the program of block `block`. Both sides get the same seed in the same block.
    pub(super) fn program(&self, seed: u64, block: u64) -> Program {
        let mut program = self.program.clone();
        if self.ours && !has(&program, "--seed") {
            let seed = seed.wrapping_add(block) % u64::from(u32::MAX);
            program.words.extend(["--seed".into(), seed.to_string().into()]);
        }
        program
    }

    /// Returns the numbers in a line that this program printed.
    pub(super) fn printed(&self, body: &Value) -> Result<Vec<Series>, String> {
        printed(body, self.experiment)
    }

    fn new(operands: &Operands, text: &str) -> Result<Self, MeasureError> {
        let mut first = text.split_whitespace();
        let is_convoy = first.next() == Some("convoy");
        let command =
            first.next().map(|word| if word == "lab" { first.next() } else { Some(word) });
        let is_load = matches!(command.flatten(), Some("run" | "sim" | "reproduce"));
        let ours = is_convoy && is_load;
        let own = operands.program.as_ref().filter(|_| ours);
        let experiment = operands.experiment;
        let ours = own.is_some();
        if !ours && !operands.no_shell {
            let program = Program::shell(text);
            return Ok(Self { text: text.to_owned(), ours, program, experiment });
        }
        let words = shell_words::split(text).map_err(|error| {
            MeasureError::Request(format!("{text:?}: {error}; close the quote"))
        })?;
        let mut program = Program::words(words.into_iter().map(Into::into).collect());
        if let Some(own) = own {
            program.words[0] = own.into();
            if !has(&program, "--format") {
                program.words.extend(["--format".into(), "json".into()]);
            }
            if !has(&program, "--quiet") && !program.words.iter().any(|word| word == "-q") {
                program.words.push("--quiet".into());
            }
            // The record of the comparison holds the numbers; one for each run would only be noise.
            program.environment.push(("CONVOY_STORE".to_owned(), "none".into()));
        }
        Ok(Self { text: text.to_owned(), ours, program, experiment })
    }
}

fn has(program: &Program, flag: &str) -> bool {
    program.words.iter().any(|word| word.as_encoded_bytes().starts_with(flag.as_bytes()))
}

/// The sides that the operands mean, the baseline first.
pub fn resolve(args: &Operands) -> Result<Vec<Operand>, MeasureError> {
    if let [only] = args.given.as_slice() {
        let path = Path::new(only);
        let sides = if path.exists() { read::read(path)? } else { Vec::new() };
        let stored = if sides.is_empty() { sides_of_record(args, only)? } else { sides };
        if stored.len() < 2 {
            let text = "one operand, and it holds no two sides: name a baseline and a candidate";
            return Err(MeasureError::request(text));
        }
        return Ok(stored.into_iter().map(Operand::Numbers).collect());
    }
    args.given.iter().map(|text| operand(args, text)).collect()
}

fn operand(args: &Operands, text: &str) -> Result<Operand, MeasureError> {
    if text.trim().is_empty() {
        return Err(MeasureError::request(
            "an empty operand: give a command line, a run or a file",
        ));
    }
    let path = Path::new(text);
    if let Some(numbers) = stored(args, text)? {
        return Ok(Operand::Numbers(numbers));
    }
    if is_data(path) {
        let mut sides = read::read(path)?;
        if sides.len() > 1 && sides[0].label != "base" {
            let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
            return Err(MeasureError::request(format!(
                "{text} holds {} sides ({}): give it alone to compare them with each other",
                labels.len(),
                labels.join(", ")
            )));
        }
        // Of a folder of criterion, the newest.
        return Ok(Operand::Numbers(sides.pop().expect("a side")));
    }
    Command::new(args, text).map(Operand::Command)
}

/// Returns whether it is a directory, a file that is not executable, or has the name of a
/// measurement file.
fn is_data(path: &Path) -> bool {
    let called = ["json", "csv", "ss"].iter().any(|e| path.extension().is_some_and(|p| p == *e));
    let word = path.to_str().is_some_and(|text| !text.contains(char::is_whitespace));
    match std::fs::metadata(path) {
        Ok(data) => data.is_dir() || called || data.permissions().mode() & 0o111 == 0,
        Err(_) => called && word,
    }
}

/// Returns the stored run named by `text`: `@12`, `@tag`, a bare number, or the bare tag of a run
/// if there is no program or file of that name.
fn stored(args: &Operands, text: &str) -> Result<Option<Side>, MeasureError> {
    let explicit = text.starts_with('@');
    let number = text.chars().all(|c| c.is_ascii_digit());
    let word = !text.contains(|c: char| c.is_whitespace() || "|&;<>()$`'\"".contains(c));
    if !word || !(explicit || number) && (Path::new(text).exists() || on_path(text)) {
        return Ok(None);
    }
    let (name, label) = text.split_once('#').map_or((text, None), |(n, l)| (n, Some(l)));
    let found = match find(args, name) {
        Err(StoreError::Unknown { .. } | StoreError::Missing { .. }) if !explicit && !number => {
            return Ok(None);
        }
        found => found?,
    };
    let sides = sides_of(args, &found)?;
    let labels: Vec<String> = sides.iter().map(|side| side.label.clone()).collect();
    let chosen = match label {
        Some(label) => sides.into_iter().find(|side| side.label == label),
        None if sides.len() == 1 => sides.into_iter().next(),
        None => None,
    };
    chosen.map(Some).ok_or_else(|| {
        MeasureError::request(format!(
            "run {} has the sides {}: say which one, such as @{}#{}",
            found.id,
            labels.join(", "),
            found.id,
            labels[0]
        ))
    })
}

fn find(args: &Operands, name: &str) -> Result<Stored, StoreError> {
    Store::read(args.store.clone().ok_or(StoreError::NoPlace)?)?.find(name)
}

impl From<StoreError> for MeasureError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unknown { .. } | StoreError::Tag { .. } => Self::request(error),
            _ => Self::machine(error),
        }
    }
}

fn sides_of_record(args: &Operands, text: &str) -> Result<Vec<Side>, MeasureError> {
    let known = text.starts_with('@') || text.chars().all(|c| c.is_ascii_digit());
    if !known {
        return Ok(Vec::new());
    }
    sides_of(args, &find(args, text)?)
}

fn sides_of(args: &Operands, stored: &Stored) -> Result<Vec<Side>, MeasureError> {
    let body = &stored.entry.body;
    let unusable = |why: String| {
        MeasureError::request(format!(
            "run {} has nothing to compare: {why}; name another",
            stored.id
        ))
    };
    let tag = stored.entry.tags.first().cloned();
    let label = tag.unwrap_or_else(|| format!("run {}", stored.id));
    let source = format!("run {}: convoy {}", stored.id, stored.entry.command.join(" "));
    if let Some(sides) = body.get("sides") {
        return serde_json::from_value(sides.clone()).map_err(|e| unusable(e.to_string()));
    }
    let series = printed(body, args.experiment).map_err(unusable)?;
    let experiment = (args.experiment)(body);
    let settings = experiment.map_or_else(|| settings::of_run(body), |of| of.settings);
    let disturbance = aim::disturbance(body);
    Ok(vec![Side { label, source, series, settings, disturbance, ..Side::default() }])
}

/// The numbers in what `convoy run`, `sim` and `convoy reproduce` print or keep.
fn printed(body: &Value, experiment: ReadExperiment) -> Result<Vec<Series>, String> {
    let body = body.get("results").unwrap_or(body);
    if body.get("points").is_some() {
        return aim::points(Path::new("the record"), body).map_err(|error| error.to_string());
    }
    if let Some(experiment) = experiment(body) {
        return Ok(experiment.series);
    }
    let rows = body["rows"].as_array().ok_or("it has neither points nor rows nor sides")?;
    let mut series = Vec::new();
    for row in rows {
        let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let Some(value) = row["reproduced"].as_f64() else { continue };
        let metric = word("metric");
        let higher = metric.starts_with("jobs_") || metric == "jti";
        let mut one = Series::new(&word("case"), &metric, &word("unit"), higher);
        one.values.push(value);
        series.push(one);
    }
    Ok(series)
}

fn on_path(name: &str) -> bool {
    let list = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&list).any(|directory| directory.join(name).is_file())
}
