//! Experiments on the virtual machine, and the system calls of their jobs.

mod convoy_2008;
mod determinism;
mod jobs;
mod one_user;
mod presets;
mod published;
mod virtual_jobs;

use convoy_kernel::KernelPreset;
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use convoy_machine::Preset;
use convoy_workload::mix::Mix;

/// The mix `shared` with a number of users on shipped presets.
fn shared(kernel: &str, machine: &str, users: u32) -> VirtualRun {
    let kernel = KernelPreset::named(kernel).expect("a shipped preset");
    let machine = Preset::named(machine).expect("a shipped preset");
    VirtualRun::new(Mix::load("shared").expect("a shipped mix"), users, kernel, machine)
}

/// Runs to the end.
fn point(run: &VirtualRun) -> VirtualPoint {
    run.run().expect("the run comes to an end")
}
