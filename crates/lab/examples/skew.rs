//! `cargo xtask skew`, in release: what running ahead changes and what it saves: loads with the
//! shipped skew and with every operation in exact order. Paths of the kernel alone are measured by
//! `cargo bench -p convoy-kernel`. Arguments name machines, and select their rows.
//!
//! The rows were chosen before they were run: the quad of 2008, also with 32 CPUs, and the machines
//! of 2011, 2013 and today with the mixes and some of the users that were published for them. What
//! the larger ones do is divided, so that a pair of runs takes at most half a minute, and the seeds
//! are as many as ten minutes on two CPUs allow.
#![expect(clippy::print_stdout, reason = "a command-line tool talks")]

use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use convoy_kernel::KernelPreset;
use convoy_lab::virtual_run::VirtualRun;
use convoy_machine::Preset;
use convoy_stats::{Estimate, Sample};
use convoy_workload::mix::Mix;
use rustix::time::{ClockId, clock_gettime};

const ALLOWED: f64 = 0.01;
const FASTER: f64 = 3.0;
/// Simulations at a time.
const THREADS: usize = 2;

/// A machine, with how many CPUs if not its own, and a kernel.
type System = (&'static str, Option<usize>, &'static str);
const QUAD: &str = "quad-2008-two-dies";
const SEMAPHORE: System = (QUAD, None, "2.6.25");
const CONVOY: System = (QUAD, None, "2.6.26-rc1");
const SPINLOCK: System = (QUAD, Some(32), "2.6.26-rc1+bkl-spinlock");
const LARGE: System = (QUAD, Some(32), "2.6.25");
const SOFTIRQ: System = ("xeon-64-2011", None, "2.6.39");
const THREAD: System = ("xeon-64-2011", None, "3.0-rc");
const SPINNING: System = ("westmere-ex-80-2013", None, "3.7");
const TODAY: System = ("server-2x64", None, "6.18");

/// (system, mix, users, part of what the jobs do, seeds). A seed orders the jobs, so runs of one
/// seed are compared with each other.
type Load = (System, &'static str, u32, u32, u64);
const LOADS: [Load; 25] = [
    (SEMAPHORE, "shared", 100, 1, 12),
    (CONVOY, "shared", 100, 1, 24),
    (SEMAPHORE, "compute", 40, 1, 6),
    (SPINLOCK, "shared", 100, 10, 12),
    (LARGE, "compute", 200, 10, 6),
    (LARGE, "fserver", 200, 10, 6),
    (SOFTIRQ, "shared", 320, 1, 6),
    (THREAD, "shared", 320, 4, 6),
    (SPINNING, "alltests", 50, 10, 8),
    (SPINNING, "five_sec", 50, 10, 8),
    (SPINNING, "fserver", 50, 20, 8),
    (SPINNING, "high_systime", 50, 50, 8),
    (SPINNING, "new_fserver", 50, 20, 8),
    (SPINNING, "shared", 50, 10, 8),
    (SPINNING, "short", 50, 1, 8),
    (SPINNING, "alltests", 400, 20, 8),
    (SPINNING, "five_sec", 400, 20, 8),
    (SPINNING, "fserver", 400, 100, 8),
    (SPINNING, "high_systime", 400, 100, 8),
    (SPINNING, "new_fserver", 400, 50, 8),
    (SPINNING, "shared", 400, 20, 8),
    (SPINNING, "short", 400, 1, 8),
    (SPINNING, "shared", 1200, 50, 8),
    (SPINNING, "short", 1200, 2, 8),
    (TODAY, "shared", 320, 10, 12),
];

/// One run.
#[derive(Clone, Copy)]
struct Measured {
    jobs_per_min: f64,
    /// Processor time of the host, because other programs may run at the same time.
    cpu_s: f64,
    operations: u64,
}

/// The two runs of a seed.
struct Pair {
    ahead: Measured,
    exact: Measured,
}

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn measure(load: &Load, seed: u64, skew_ns: Option<f64>) -> Result<Measured, Box<dyn Error>> {
    let &((machine, cpus, kernel), mix, users, shrink, _) = load;
    let mut machine = Preset::named(machine)?;
    machine = cpus.map_or(machine.clone(), |cpus| machine.with_cpus(cpus));
    machine.skew_ns = skew_ns.unwrap_or(machine.skew_ns);
    let run = VirtualRun::new(Mix::load(mix)?, users, KernelPreset::named(kernel)?, machine);
    let begin = cpu_s();
    let point = VirtualRun { seed, shrink, ..run }.run()?;
    let jobs_per_min = point.columns.jobs_per_min;
    Ok(Measured { jobs_per_min, cpu_s: cpu_s() - begin, operations: point.operations })
}

/// One run after the other, in the order that the seed says.
fn pair(load: &Load, seed: u64) -> Result<Pair, Box<dyn Error>> {
    let exact = |seed| measure(load, seed, Some(0.0));
    if seed.is_multiple_of(2) {
        let exact = exact(seed)?;
        return Ok(Pair { ahead: measure(load, seed, None)?, exact });
    }
    Ok(Pair { ahead: measure(load, seed, None)?, exact: exact(seed)? })
}

/// Runs all seeds of `load`.
fn pairs(load: &Load) -> Result<Vec<Pair>, String> {
    let (seeds, next) = (load.4 as usize, AtomicUsize::new(1));
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(seeds) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        return;
                    }
                    let pair = pair(load, seed as u64).map_err(|error| error.to_string());
                    send.send((seed, pair)).expect("the receiver outlives the threads");
                }
            });
        }
    });
    drop(send);
    let mut pairs = receive.into_iter().collect::<Vec<_>>();
    pairs.sort_by_key(|&(seed, _)| seed);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// Returns whether an interval of ratios lies within the allowed difference.
fn verdict(ratios: &Estimate) -> &'static str {
    let (least, most) = (1.0 - ALLOWED, 1.0 + ALLOWED);
    if ratios.lo > least && ratios.hi < most {
        "within"
    } else if ratios.hi < least || ratios.lo > most {
        "beyond"
    } else {
        "unsure"
    }
}

/// Prints the row of `load`; whether it meets both conditions.
fn row(load: &Load, pairs: &[Pair]) -> Result<bool, Box<dyn Error>> {
    let &((machine, cpus, kernel), mix, users, shrink, seeds) = load;
    let ratios = pairs.iter().map(|pair| pair.ahead.jobs_per_min / pair.exact.jobs_per_min);
    let ratios = Sample::new(ratios.collect::<Vec<_>>())?.estimate();
    let sum = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>();
    let (ahead_s, exact_s) = (sum(|pair| pair.ahead.cpu_s), sum(|pair| pair.exact.cpu_s));
    let (verdict, faster) = (verdict(&ratios), exact_s / ahead_s);
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let cpus = Preset::named(machine).map(|machine| cpus.unwrap_or(machine.topology.cpus))?;
    println!(
        "{machine:<21}{cpus:>4} {kernel:<25}{:<19}{seeds:>5}{:>10.0}{:>8.2}{:>8.2} to {:>6.2} \
         {verdict:<7}{faster:>6.2}x{:>9.1}",
        format!("{mix} {users}/{shrink}"),
        sum(|pair| pair.exact.jobs_per_min) / seeds as f64,
        percent(ratios.mean),
        percent(ratios.lo),
        percent(ratios.hi),
        sum(|pair| pair.ahead.operations as f64) / ahead_s / 1e6,
    );
    std::io::stdout().flush()?;
    Ok(verdict == "within" && faster >= FASTER)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("differences of jobs/min from exact order in %, with 95 % t intervals");
    println!(
        "{:<21}{:>4} {:<25}{:<19}{:>5}{:>10}{:>8}{:>18} {:<7}{:>7}{:>9}",
        "machine",
        "CPUs",
        "kernel",
        "mix users/part",
        "seeds",
        "jobs/min",
        "differ",
        "95 %",
        "1 %",
        "faster",
        "M ops/s"
    );
    let only = std::env::args().skip(1).collect::<Vec<_>>();
    let wanted = |load: &&Load| only.is_empty() || only.iter().any(|name| name == load.0.0);
    let (mut met, mut rows) = (0, 0);
    for load in LOADS.iter().filter(wanted) {
        met += usize::from(row(load, &pairs(load)?)?);
        rows += 1;
    }
    println!("{met} of {rows} differ by less than 1 % and are 3 times faster");
    Ok(())
}
