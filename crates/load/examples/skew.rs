//! `cargo xtask skew`, in release: what running ahead changes and what it saves: loads with the
//! shipped skew and with every operation in exact order. Paths of the kernel alone are measured by
//! `cargo bench -p convoy-kernel`.
#![expect(clippy::print_stdout, reason = "a command-line tool talks")]

use std::error::Error;

use convoy_kernel::KernelPreset;
use convoy_load::mix::Mix;
use convoy_load::virtual_run::VirtualRun;
use convoy_machine::Preset;
use convoy_stats::Sample;
use rustix::time::{ClockId, clock_gettime};

/// Seeds of each load. A seed orders the jobs, so runs of one seed are compared with each other.
const SEEDS: u64 = 6;
const ALLOWED: f64 = 0.01;
const FASTER: f64 = 3.0;

/// (what it stresses, mix, kernel, CPUs, users, part of the user-mode work).
type Load = (&'static str, &'static str, &'static str, usize, u32, u32);
const LOADS: [Load; 6] = [
    ("semaphore", "shared", "2.6.25", 4, 100, 1),
    ("semaphore", "shared", "2.6.26-rc1", 4, 100, 1),
    ("mix", "compute", "2.6.25", 4, 40, 1),
    ("spinlock", "shared", "2.6.26-rc1+bkl-spinlock", 32, 100, 10),
    ("mix", "compute", "2.6.25", 32, 200, 10),
    ("mix", "fserver", "2.6.25", 32, 200, 10),
];

/// Jobs per minute of each seed.
struct Measured {
    jobs_per_min: Vec<f64>,
    /// Processor time of the host, because other work may run beside this.
    cpu_s: f64,
    operations: u64,
}

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn measure(load: &Load, skew_ns: Option<f64>) -> Result<Measured, Box<dyn Error>> {
    let &(_, mix, kernel, cpus, users, shrink) = load;
    let mut machine = Preset::named("quad-2008-two-dies")?.with_cpus(cpus);
    machine.skew_ns = skew_ns.unwrap_or(machine.skew_ns);
    let run = VirtualRun::new(Mix::load(mix)?, users, KernelPreset::named(kernel)?, machine);
    let begin = cpu_s();
    let (mut jobs_per_min, mut operations) = (Vec::new(), 0);
    for seed in 1..=SEEDS {
        let point = VirtualRun { seed, shrink, ..run.clone() }.run()?;
        jobs_per_min.push(point.columns.jobs_per_min);
        operations += point.operations;
    }
    Ok(Measured { jobs_per_min, cpu_s: cpu_s() - begin, operations })
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{SEEDS} seeds; differences of jobs/min from exact order in %, with 95 % t intervals");
    println!(
        "{:<10}{:<9}{:<24}{:>5}{:>11}{:>8}{:>17}{:>8}{:>9}",
        "load", "mix", "kernel", "CPUs", "jobs/min", "differ", "95 %", "faster", "M ops/s"
    );
    let mut met = 0;
    for load in &LOADS {
        let (ahead, exact) = (measure(load, None)?, measure(load, Some(0.0))?);
        let pairs = ahead.jobs_per_min.iter().zip(&exact.jobs_per_min);
        let ratios = pairs.map(|(ahead, exact)| ahead / exact).collect::<Vec<_>>();
        let ratios = Sample::new(ratios)?.estimate();
        let faster = exact.cpu_s / ahead.cpu_s;
        met += usize::from((ratios.mean - 1.0).abs() < ALLOWED && faster >= FASTER);
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let &(what, mix, kernel, cpus, ..) = load;
        println!(
            "{what:<10}{mix:<9}{kernel:<24}{cpus:>5}{:>11.0}{:>8.2}{:>8.2} to {:>5.2}{faster:>7.2}x\
             {:>9.1}",
            ahead.jobs_per_min.iter().sum::<f64>() / SEEDS as f64,
            percent(ratios.mean),
            percent(ratios.lo),
            percent(ratios.hi),
            ahead.operations as f64 / ahead.cpu_s / 1e6,
        );
    }
    println!("{met} of {} differ by less than 1 % and are 3 times faster", LOADS.len());
    Ok(())
}
