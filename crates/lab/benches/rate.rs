//! Host time for each simulated memory operation under whole loads of AIM7, on 4 and on 80 CPUs:
//! what a large machine costs beside a small one. `cargo bench -p convoy-lab --bench rate`.
#![expect(clippy::print_stdout, reason = "a benchmark talks")]

use convoy_kernel::KernelPreset;
use convoy_lab::virtual_run::VirtualRun;
use convoy_machine::Preset;
use convoy_workload::mix::Mix;
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;

const KERNEL: &str = "3.7";
const USERS: u32 = 400;
/// Small and large, in turn, so that a slow minute of the host meets both.
const ROUNDS: usize = 3;
const MACHINES: [&str; 2] = ["quad-2008-two-dies", "westmere-ex-80-2013"];
/// Mixes, and how many jobs each user does.
const MIXES: [(&str, u32); 2] = [("fserver", 4), ("shared", 24)];

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds for each operation, operations, schedule hash.
fn measure(machine: &str, mix: &str, first: u32) -> Result<(f64, u64, u64), Box<dyn Error>> {
    let machine = Preset::named(machine)?;
    let mix = Mix { first: Some(first), ..Mix::load(mix)? };
    let run = VirtualRun::new(mix, USERS, KernelPreset::named(KERNEL)?, machine);
    let begin = cpu_ns();
    let point = run.run()?;
    Ok(((cpu_ns() - begin) / point.operations as f64, point.operations, point.hash))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{USERS} users under {KERNEL}, least of {ROUNDS}");
    println!("{:<10}{:<22}{:>12}{:>8}  hash", "mix", "machine", "operations", "ns/op");
    for (mix, first) in MIXES {
        let mut least = [f64::INFINITY; 2];
        let mut rows = [(0, 0); 2];
        for _ in 0..ROUNDS {
            for (at, machine) in MACHINES.iter().enumerate() {
                let (ns, operations, hash) = measure(machine, mix, first)?;
                least[at] = least[at].min(ns);
                rows[at] = (operations, hash);
            }
        }
        for ((machine, ns), (operations, hash)) in MACHINES.iter().zip(least).zip(rows) {
            println!("{mix:<10}{machine:<22}{operations:>12}{ns:>8.1}  {hash:016x}");
        }
        println!("{mix:<10}80 CPUs cost {:.2} times what 4 cost", least[1] / least[0]);
    }
    Ok(())
}
