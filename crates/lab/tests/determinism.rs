//! Every kernel on every machine repeats to the schedule hash: in two threads that run at the same
//! time, and in another process.

#![expect(clippy::print_stdout, reason = "one process tells another")]

use convoy_catalogue::{KERNELS, MACHINES};
use convoy_kernel::KernelPreset;
use convoy_lab::virtual_run::VirtualRun;
use convoy_machine::Preset;
use convoy_workload::mix::Mix;
use std::process::{Child, Command, Stdio};

/// One line for each pair of presets with a number that has the remainder `part` of 2.
fn lines(parts: &[usize]) -> Vec<String> {
    let mut lines = Vec::new();
    let pairs =
        KERNELS.names().flat_map(|kernel| MACHINES.names().map(move |machine| (kernel, machine)));
    for (number, (kernel, machine)) in pairs.enumerate() {
        if parts.contains(&(number % 2)) {
            let kernel_preset = KernelPreset::named(kernel).expect("a shipped preset");
            let machine_preset = Preset::named(machine).expect("a shipped preset");
            let mix = Mix::load("shared").expect("a shipped mix");
            let run = VirtualRun::new(mix, 3, kernel_preset, machine_preset);
            let point = VirtualRun { shrink: 1000, ..run }.run().expect("the run ends");
            lines.push(format!("{kernel} on {machine}: {:016x}", point.hash));
        }
    }
    lines.sort();
    lines
}

/// Not a separate test: the other process of the next one.
#[test]
#[ignore = "prints for the test below"]
fn print_hashes() {
    for line in lines(&[0, 1]) {
        println!("hash {line}");
    }
}

#[test]
fn every_preset_repeats_in_threads_and_processes() {
    let tests = std::env::current_exe().expect("the tests have a file");
    let arguments = ["--ignored", "--exact", "determinism::print_hashes", "--nocapture"];
    let child = Command::new(tests).args(arguments).stdout(Stdio::piped()).spawn();
    let halves = [0, 1].map(|part| std::thread::spawn(move || lines(&[part])));
    let mut ours: Vec<_> =
        halves.into_iter().flat_map(|half| half.join().expect("the runs end")).collect();
    ours.sort();
    let output = child.and_then(Child::wait_with_output).expect("the tests run");
    let text = String::from_utf8_lossy(&output.stdout);
    let theirs: Vec<_> =
        text.lines().filter_map(|line| line.split_once("hash ")).map(|(_, line)| line).collect();
    assert_eq!(ours, theirs);
    assert!(!ours.is_empty());
}
