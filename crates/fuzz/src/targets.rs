//! The readers, each with its corpus.

use crate::commands;
use crate::scratch::in_file;
use convoy_catalogue::{Entry, Set, parse};
use convoy_diagnose::Account;
use convoy_host::inject::Fault;
use convoy_kernel::KernelPreset;
use convoy_lab::experiment::{Changes, Experiment, Plan};
use convoy_lab::record::Record;
use convoy_lab::sweep::Shard;
use convoy_machine::Preset;
use convoy_measure::bisect::Plan as Search;
use convoy_measure::compare::{Operands, resolve};
use convoy_predict::{Advice, Effort, Machines, Question, policies, predict};
use convoy_record::{Record as Program, import, layout, raw};
use convoy_report::RecordedReport;
use convoy_store::{Entry as Stored, Filter, Store};
use convoy_workload::calibration::Calibration;
use convoy_workload::dialect::Dialect;
use convoy_workload::workload::Workload;
use convoy_workload::{sizes, users, workfile};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// One reader.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Files and folders of sound inputs, from the root of the workspace.
    pub corpus: &'static [&'static str],
    /// Reads the bytes. That they are refused is as good as any other answer.
    pub fuzz: fn(&[u8]),
}

/// All of them.
pub const ALL: &[Target] = &[
    Target { name: "workfile", corpus: &["mixes"], fuzz: read_workfile },
    Target { name: "flags", corpus: &["fuzz/corpus/flags"], fuzz: read_flags },
    Target { name: "results", corpus: &["fuzz/corpus/results"], fuzz: read_results },
    Target { name: "machine", corpus: &["machines"], fuzz: read_preset::<Preset> },
    Target { name: "kernel", corpus: &["kernels"], fuzz: read_preset::<KernelPreset> },
    Target { name: "experiment", corpus: &["experiments"], fuzz: read_experiment },
    Target { name: "calibration", corpus: &["machines/calibration.toml"], fuzz: read_calibration },
    Target { name: "schedule", corpus: &["fuzz/corpus/schedule"], fuzz: read_schedule },
    Target { name: "store", corpus: &["fuzz/corpus/store"], fuzz: read_store },
    Target { name: "bisect", corpus: &["fuzz/corpus/bisect"], fuzz: read_search },
    Target { name: "record", corpus: &["fuzz/corpus/record"], fuzz: read_record },
    Target { name: "workload", corpus: &["workloads"], fuzz: read_preset::<Workload> },
    Target { name: "program", corpus: &["fuzz/corpus/program"], fuzz: read_program },
    Target { name: "import", corpus: &["crates/record/tests/imports"], fuzz: read_import },
    Target { name: "predict", corpus: &["fuzz/corpus/program"], fuzz: read_prediction },
    Target { name: "raw", corpus: &["fuzz/corpus/raw"], fuzz: read_raw },
    Target {
        name: "commands",
        // Records twice: more of their fields matter.
        corpus: &["fuzz/corpus/program", "fuzz/corpus/program", "crates/record/tests/imports"],
        fuzz: commands::run,
    },
];

/// The target called `name`.
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

/// Returns the input of a text reader: files that are not text are rejected before.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read_workfile(bytes: &[u8]) {
    let _refused = workfile::parse("fuzz.mix", &text(bytes));
}

fn read_flags(bytes: &[u8]) {
    let text = &text(bytes);
    let text = text.trim();
    let _refused = users::parse(text);
    let _refused = sizes::parse(text);
    let _refused = text.parse::<Set>();
    let _refused = text.parse::<Shard>();
    let _refused = text.parse::<Dialect>();
    let _refused = Fault::parse(text);
}

fn read_results(bytes: &[u8]) {
    in_file("results.csv", bytes, |directory| {
        let file = directory.join("results.csv").display().to_string();
        for given in [vec![file.clone()], vec![file.clone(), file]] {
            let experiment = convoy_lab::comparable::experiment;
            let operands =
                Operands { given, store: None, no_shell: false, program: None, experiment };
            let _refused = resolve(&operands);
        }
    });
}

/// A preset in a directory that does not exist: its base is a shipped preset or missing.
fn read_preset<T: Entry>(bytes: &[u8]) {
    let _refused = parse::<T>("nowhere/fuzz.toml", &text(bytes));
}

fn read_experiment(bytes: &[u8]) {
    if let Ok(experiment) = parse::<Experiment>("nowhere/fuzz.toml", &text(bytes)) {
        let _refused = Plan::new(&experiment, &Changes::default());
    }
}

fn read_calibration(bytes: &[u8]) {
    in_file("fuzz.toml", bytes, |directory| {
        let _refused = Calibration::load(&directory.join("fuzz.toml"));
    });
}

fn read_schedule(bytes: &[u8]) {
    let _refused = convoy_checker::replay(&text(bytes));
}

/// Records of a store, one a line: kept, listed, looked up.
fn read_store(bytes: &[u8]) {
    in_file("records.jsonl", bytes, |directory| {
        let Ok(mut store) = Store::open(directory.join("runs.sqlite3")) else { return };
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok(entry) = serde_json::from_slice::<Stored>(line) else { continue };
            let _refused = store.append(&entry);
        }
        let _refused = store.list(&Filter::default());
        let _refused = store.find("1");
    });
}

/// The log of a search without its repository.
fn read_search(bytes: &[u8]) {
    in_file("log.jsonl", bytes, |directory| {
        let _refused = Search::resume(directory);
    });
}

/// The record of an experiment, and the simulations that it describes.
fn read_record(bytes: &[u8]) {
    let Ok(record) = serde_json::from_slice::<Record>(bytes) else { return };
    for (_, cell) in record.simulations() {
        let _refused = record.simulation(cell);
    }
}

/// The record of a program, and its explanation.
fn read_program(bytes: &[u8]) {
    if let Ok(record) = Program::parse(&text(bytes), Path::new("fuzz.json")) {
        report(&record);
    }
}

/// What another tool printed about a program.
fn read_import(bytes: &[u8]) {
    if let Some(Ok(record)) = import::read(Path::new("fuzz.txt"), &text(bytes)) {
        report(&record.with_short_names());
    }
}

/// The record of a program, its prediction and the advice of `fix`.
fn read_prediction(bytes: &[u8]) {
    static KERNEL: OnceLock<KernelPreset> = OnceLock::new();
    let kernel = KERNEL.get_or_init(|| {
        convoy_catalogue::load("6.18", &[]).expect("a preset that is shipped").value
    });
    let Ok(record) = Program::parse(&text(bytes), Path::new("fuzz.json")) else { return };
    let record = Arc::new(record);
    let machines = Machines { kernel: kernel.clone(), machine: None, sets: Vec::new() };
    let question = Question {
        cpus: Vec::new(),
        threads: Vec::new(),
        policies: policies(&record),
        split: Some(2),
        edits: false,
        rounds: 1,
        // A prediction of full length takes a third of a second.
        effort: Effort::LEAST,
    };
    if let Ok(prediction) = predict(&record, &machines, &question) {
        let advice = Advice::new(&record, prediction);
        assert_plain(&serde_json::to_string(&advice).expect("numbers and text"));
    }
}

/// Checks that JSON has no control characters except DEL and the Latin-1 ones, which the command
/// line escapes.
fn assert_plain(text: &str) {
    let command = text.chars().find(|c| *c < ' ' && !"\n\t".contains(*c));
    assert_eq!(command, None, "the output has a control character");
}

/// All that is made of a record: its account and its report in each format.
fn report(record: &Program) {
    let _account = Account::new(record);
    let report = RecordedReport::new(record);
    let _stacks = report.stacks();
    // The command line escapes text where it prints it.
    let _text = (report.to_text(), report.to_csv());
    assert_plain(&report.to_json());
}

/// The files of a recorded program, with any word changed: the program can write them, too. Each
/// line is a number of a word and its value.
fn read_raw(bytes: &[u8]) {
    in_file("1", &[], |directory| {
        let file = File::create(directory.join("1")).expect("ours");
        file.set_len(size_of::<layout::File>() as u64).expect("nothing is stored");
        for line in text(bytes).lines() {
            let mut words = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
            let (Some(word), Some(value)) = (words.next(), words.next()) else { continue };
            let place = word % (size_of::<layout::File>() as u64 / 8) * 8;
            file.write_all_at(&value.to_le_bytes(), place).expect("room for a page");
        }
        for process in raw::read(directory).into_iter().flatten() {
            report(&Program { processes: vec![process], ..Program::default() });
        }
    });
}
