//! Workloads on this machine and the programs that they model: CPU time in user mode and
//! in the kernel. `cargo bench -p convoy-lab --bench shapes -- rounds=5` prints the
//! medians. The calls themselves are compared by a test, `crates/workload/tests/shape.rs`.
//!
//! A workload does its calls and its work here, with the amounts of its file; a process that
//! becomes a program keeps the image that it has, so that what `execve` and the loader cost is in
//! the programs' figures only.
#![expect(clippy::print_stdout, reason = "a benchmark talks")]

use convoy_catalogue::{Sheet, WORKLOADS};
use convoy_host::Host;
use convoy_os::{ChildUsage, wait_with_usage};
use convoy_workload::workload::{Place, Workload};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

type Bench<T> = Result<T, Box<dyn Error>>;

/// A workload, and a shell line that does the same with programs.
struct Pair {
    workload: &'static str,
    line: &'static str,
    /// Input of the line, made before.
    before: &'static str,
}

const PAIRS: [Pair; 4] = [
    Pair {
        workload: "find",
        line: "find t -type f -size +0 | xargs grep -e nothing",
        before: "for d in $(seq 100); do mkdir -p t/d$d; for f in $(seq 20); do \
                 head -c 9000 /dev/zero >t/d$d/f$f; done; done",
    },
    Pair { workload: "dd", line: "dd if=/dev/zero of=foo bs=16k count=2048; rm foo", before: "" },
    Pair {
        workload: "mab",
        line: "for i in $(seq 70); do cp src/f$i c$i; ls -l c$i; cat c$i; done",
        before: "mkdir -p src; for i in $(seq 70); do head -c 2900 /dev/zero >src/f$i; done",
    },
    Pair {
        workload: "objdump",
        line: "objdump -d -l big | grep mov",
        before: "cp /usr/lib/x86_64-linux-gnu/libc.so.6 big || cp /bin/sh big",
    },
];

fn shipped(name: &str) -> Bench<Workload> {
    let mut workload: Workload = Sheet::open(&WORKLOADS, name, None)?.read(&[])?.value;
    if let Some(find) = &mut workload.find {
        (find.instances, find.files, find.directories) = (1, [2000; 2], [100; 2]);
        find.bytes = [2000 * 9000; 2];
    }
    if let Some(script) = &mut workload.script {
        (script.per_cpu, script.fixed) = (0, 1);
    }
    Ok(workload)
}

fn place(directory: &Path) -> Place {
    let directory = directory.display().to_string();
    Place { volumes: vec![directory.clone()], directory }
}

/// One phase of a workload in this process.
fn phase(name: &str, directory: &Path, run: bool) -> Bench<()> {
    let (workload, place) = (shipped(name)?, place(directory));
    let mut host = Host::new(&place.directory);
    if run {
        workload.run(&mut host, &place, 1)?;
    } else {
        workload.prepare(&mut host, &place)?;
    }
    Ok(())
}

fn fresh(directory: &Path) -> Bench<()> {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    Ok(std::fs::create_dir_all(directory)?)
}

fn measured(command: &mut Command) -> Bench<ChildUsage> {
    let null = std::process::Stdio::null;
    let child = command.stdout(null()).stderr(null()).spawn()?;
    Ok(wait_with_usage(&child)?.1)
}

/// The median of one figure.
fn median(rounds: &[ChildUsage], of: fn(&ChildUsage) -> Duration) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(|usage| of(usage).as_secs_f64()).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn row(name: &str, rounds: &[ChildUsage]) {
    let user = median(rounds, |usage| usage.user);
    let system = median(rounds, |usage| usage.system);
    let share = 100.0 * user / (user + system);
    println!("{name:<24} {user:>9.3} {system:>9.3} {share:>7.1} %");
}

fn main() -> Bench<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, name, directory, phase_name] = &arguments[..]
        && ["prepare", "run"].contains(&phase_name.as_str())
    {
        return phase(name, Path::new(directory), phase_name == "run");
    }
    let asked = arguments.iter().find_map(|word| word.strip_prefix("rounds="));
    let rounds: usize = asked.map_or(Ok(3), str::parse)?;
    let own = std::env::current_exe()?;
    let root: PathBuf = std::env::temp_dir().join("convoy-shapes");
    println!("{:<24} {:>9} {:>9} {:>9}", "", "user s", "system s", "user");
    for Pair { workload, line, before } in PAIRS {
        let mut theirs = Vec::new();
        let mut ours = Vec::new();
        for _ in 0..rounds {
            fresh(&root)?;
            measured(Command::new("sh").args(["-c", before]).current_dir(&root))?;
            theirs.push(measured(Command::new("sh").args(["-c", line]).current_dir(&root))?);
            fresh(&root)?;
            phase(workload, &root, false)?;
            ours.push(measured(Command::new(&own).arg(workload).arg(&root).arg("run"))?);
        }
        row(&format!("{workload}: programs"), &theirs);
        row(&format!("{workload}: workload"), &ours);
    }
    fresh(&root)?;
    Ok(())
}
