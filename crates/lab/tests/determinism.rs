//! Every kernel and every machine repeats to the schedule hash: in two threads that run at the same
//! time, and in another process.

#![expect(clippy::print_stdout, reason = "one process tells another")]

use convoy_catalogue::{KERNELS, MACHINES};
use convoy_lab::virtual_run::VirtualRun;
use std::process::{Child, Command, Stdio};

/// A kernel and a machine.
type Pair = (&'static str, &'static str);

/// Each kernel and each machine at least once.
fn some_pairs() -> Vec<Pair> {
    let most = KERNELS.names().count().max(MACHINES.names().count());
    let (kernels, machines): (Vec<_>, Vec<_>) =
        (KERNELS.names().collect(), MACHINES.names().collect());
    kernels.into_iter().cycle().zip(machines.into_iter().cycle()).take(most).collect()
}

/// Each kernel on each machine.
fn all_pairs() -> Vec<Pair> {
    KERNELS
        .names()
        .flat_map(|kernel| MACHINES.names().map(move |machine| (kernel, machine)))
        .collect()
}

/// The schedule hash of a small run of a pair.
fn hash_line((kernel, machine): Pair) -> String {
    let run = VirtualRun { shrink: 1000, ..crate::shared(kernel, machine, 3) };
    let point = crate::point(&run);
    assert_eq!(point.jobs_failed, 0, "{kernel} on {machine}: {:?}", point.first_failure);
    format!("{kernel} on {machine}: {:016x}", point.hash)
}

fn print(pairs: Vec<Pair>) {
    for pair in pairs {
        println!("hash {}", hash_line(pair));
    }
}

#[test]
#[ignore = "runs as the process of another test"]
fn print_some() {
    print(some_pairs());
}

#[test]
#[ignore = "runs as the process of another test"]
fn print_all() {
    print(all_pairs());
}

/// Compares the hashes of `pairs` with those that the test called `printer` prints in a process.
fn repeats(pairs: &[Pair], printer: &str) {
    let tests = std::env::current_exe().expect("the tests have a file");
    let arguments = ["--ignored", "--exact", printer, "--nocapture"];
    let child = Command::new(tests).args(arguments).stdout(Stdio::piped()).spawn();
    let ours: Vec<String> = std::thread::scope(|scope| {
        let halves = pairs.split_at(pairs.len() / 2);
        let halves = [halves.0, halves.1].map(|half| {
            scope.spawn(move || half.iter().copied().map(hash_line).collect::<Vec<_>>())
        });
        halves.into_iter().flat_map(|half| half.join().expect("the runs end")).collect()
    });
    let output = child.and_then(Child::wait_with_output).expect("the tests run");
    let text = String::from_utf8_lossy(&output.stdout);
    let theirs: Vec<_> =
        text.lines().filter_map(|line| line.split_once("hash ")).map(|(_, line)| line).collect();
    assert_eq!(ours, theirs);
    assert!(!ours.is_empty());
}

#[test]
fn every_preset_repeats_in_threads_and_processes() {
    repeats(&some_pairs(), "determinism::print_some");
}

#[test]
#[ignore = "1,200 runs: cargo xtask nightly"]
fn every_pair_of_presets_repeats() {
    repeats(&all_pairs(), "determinism::print_all");
}
