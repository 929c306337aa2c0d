//! The machine and the load of 2013 before many users meet: what one user costs, and what one
//! package of ten CPUs does where nothing is contended.

use convoy_kernel::{FileSystem, JournalOptions, KernelPreset};
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use convoy_machine::Preset;
use convoy_workload::dialect::Dialect;
use convoy_workload::jobs::Job;
use convoy_workload::mix::Mix;
use std::collections::BTreeMap;

/// The mixes of `experiments/mutex-spin-2013.toml`.
const MIXES: [&str; 7] =
    ["alltests", "five_sec", "fserver", "high_systime", "new_fserver", "shared", "short"];

/// Files have the sizes of a run of `files_of` users.
fn run(mut mix: Mix, users: u32, files_of: u32, cpus: usize) -> VirtualPoint {
    mix.set_dialect(Dialect::Reaim);
    let mut machine = Preset::named("dl980-80-2013").expect("shipped").with_cpus(cpus);
    machine.disk.latency_ns = 0.0;
    let kernel = KernelPreset::named("3.7.10+patch1").expect("shipped");
    let journal =
        JournalOptions { blocks: 1024, async_commit: true, labels: true, ..Default::default() };
    let run = VirtualRun {
        file_system: FileSystem::Journal(journal),
        directories: 16,
        fs_mib: Some(128),
        pool_users: files_of,
        ..VirtualRun::new(mix, users, kernel, machine)
    };
    run.run().expect("the run comes to an end")
}

fn load(mix: &str) -> Mix {
    Mix::load(mix).expect("shipped")
}

/// CPU seconds of one of four jobs of a kind that one user does on an idle machine.
fn alone(job: Job) -> f64 {
    run(Mix { first: Some(4), ..Mix::of_job(job) }, 1, 1, 80).cpu_s / 4.0
}

#[test]
fn one_user_costs_what_its_jobs_cost_alone() {
    let mut known = BTreeMap::new();
    for mix in MIXES {
        let mix = load(mix);
        let mut cost = |job: Job| *known.entry(job).or_insert_with(|| alone(job));
        let jobs: f64 =
            mix.counts().iter().map(|(job, count)| cost(*job) * f64::from(*count)).sum();
        let user = run(mix.clone(), 1, 1, 80).cpu_s;
        // A job of `short` takes 0.13 ms, and finds what it used last time out of the caches.
        let most = if mix.name == "short" { 0.3 } else { 0.1 };
        assert!((user / jobs - 1.0).abs() < most, "{}: {user} s for {jobs} s", mix.name);
    }
}

#[test]
fn one_package_does_what_its_cpus_allow() {
    for mix in ["fserver", "new_fserver", "shared"] {
        let user = run(load(mix), 1, 60, 10).cpu_s;
        let point = run(load(mix), 60, 60, 10);
        let allowed = 60.0 * user / 10.0;
        let took = point.busy_s;
        assert!((allowed / took - 1.0).abs() < 0.05, "{mix}: {took} s for {allowed} s");
    }
}
