//! Simulated memory operations per second of the host's CPU on whole paths of the kernel: locks,
//! structures, scheduler and ticks included; and what running ahead changes and saves there.
//!
//! One process on each CPU repeats one path. `data` seeks, writes and reads in a private file,
//! `pipe` writes and reads a private pipe: apart from fork and exit, only private lines. `names`
//! opens, stats and closes a private file: with more than one CPU the global locks of path lookup
//! are contended. Ends with code 1 unless three rows differ from exact order by less than 1 % and
//! are three times as fast.
#![expect(clippy::print_stdout, reason = "a benchmark talks")]

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Machine, Outcome, Preset};
use convoy_workload::api::{Kernel, Open};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// A path of the kernel: process, name of its file, repetitions.
type Path = fn(&mut Process, &str, usize);

/// Runs of each row, one for each seed.
const SEEDS: u64 = 5;
/// Repetitions of a path, of all processes together.
const WORK: usize = 200_000;

const ROWS: [(&str, Path, usize); 10] = [
    ("data", data, 1),
    ("data", data, 4),
    ("data", data, 32),
    ("data", data, 1024),
    ("pipe", pipe, 1),
    ("pipe", pipe, 4),
    ("pipe", pipe, 32),
    ("names", names, 1),
    ("names", names, 4),
    ("names", names, 32),
];

fn data(k: &mut Process, name: &str, rounds: usize) {
    let fd = k.open(name, Open { read: true, ..Open::CREAT }).expect("a new file");
    let mut buffer = [1; 64];
    for _ in 0..rounds {
        k.seek(fd, 0).expect("a file");
        k.write(fd, &buffer).expect("room");
        k.seek(fd, 0).expect("a file");
        k.read(fd, &mut buffer).expect("a file");
    }
    k.close(fd).expect("open");
}

fn pipe(k: &mut Process, _: &str, rounds: usize) {
    let (from, to) = k.pipe().expect("two descriptors");
    let mut buffer = [1; 64];
    for _ in 0..rounds {
        k.write(to, &buffer).expect("room");
        k.read(from, &mut buffer).expect("a pipe with bytes");
    }
}

fn names(k: &mut Process, name: &str, rounds: usize) {
    let fd = k.open(name, Open::CREAT).expect("a new file");
    k.close(fd).expect("open");
    for _ in 0..rounds {
        let fd = k.open(name, Open::READ).expect("the file");
        k.stat(name).expect("the file");
        k.close(fd).expect("open");
    }
}

/// Seconds for which this thread has had a CPU.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN) / 1e9
}

/// The cost of a run.
struct Run {
    operations: u64,
    virtual_ns: u64,
    cpu_s: f64,
}

fn run(path: Path, cpus: usize, skew_ns: Option<f64>, seed: u64) -> Run {
    let preset = Preset::named("quad-2008-shared-llc").expect("a shipped preset");
    let mut preset = preset.with_cpus(cpus);
    preset.skew_ns = skew_ns.unwrap_or(preset.skew_ns);
    let kernel = KernelPreset::named("2.6.25").expect("a shipped preset");
    let units = [("shell_start", 400_000.0), ("list_program", 500_000.0)];
    let units: BTreeMap<_, _> = units.map(|(name, ns)| (name.to_owned(), ns)).into();
    let machine = Machine::new(&preset, seed, 3 * cpus + 100).expect("address space");
    let world = World::new(&kernel, &preset, &units, Options::default()).expect("units");
    world.boot(&machine, move |k| {
        for number in 0..cpus {
            let child = k.fork(move |k| {
                path(k, &format!("/tmp/{number}"), WORK / cpus);
                0
            });
            child.expect("room for a process");
        }
        while k.wait().is_ok() {}
    });
    let begin = cpu_seconds();
    let outcome = machine.run(600_000_000_000);
    assert_eq!(outcome, Outcome::Stopped, "the first process has not come to its end");
    let cpu_s = cpu_seconds() - begin;
    Run { operations: machine.operations(), virtual_ns: machine.now_ns(), cpu_s }
}

fn main() -> ExitCode {
    let mut met = 0;
    println!("{SEEDS} seeds; differences of virtual time from exact order: mean and largest");
    println!(
        "{:<8}{:>6}{:>14}{:>12}{:>10}{:>10}{:>9}",
        "path", "CPUs", "operations", "M ops/CPU s", "differs", "most", "faster"
    );
    for (name, path, cpus) in ROWS {
        let (mut operations, mut ahead_s, mut exact_s) = (0, 0.0, 0.0);
        let mut differences = Vec::new();
        for seed in 1..=SEEDS {
            let (ahead, exact) = (run(path, cpus, None, seed), run(path, cpus, Some(0.0), seed));
            operations += ahead.operations;
            ahead_s += ahead.cpu_s;
            exact_s += exact.cpu_s;
            differences.push(100.0 * (ahead.virtual_ns as f64 / exact.virtual_ns as f64 - 1.0));
        }
        let mean = differences.iter().sum::<f64>() / SEEDS as f64;
        let most = differences.iter().fold(0.0, |most: f64, d| most.max(d.abs()));
        let (rate, faster) = (operations as f64 / ahead_s / 1e6, exact_s / ahead_s);
        met += usize::from(most < 1.0 && faster >= 3.0);
        println!(
            "{name:<8}{cpus:>6}{operations:>14}{rate:>12.1}{mean:>8.2} %{most:>8.2} %{faster:>8.2}x"
        );
    }
    println!("{met} of {} differ by less than 1 % and are 3 times as fast", ROWS.len());
    ExitCode::from(u8::from(met < 3))
}
