//! Measures this machine and describes it as a machine preset.
//!
//! Every figure is the least of many short batches: on a shared machine a batch can only be
//! disturbed, never helped. What user mode cannot measure is written as an estimate, and the preset
//! says so.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::calls::{self, CallsError, Cost, KERNEL};
use crate::probe::{least, pin, read, start};
use crate::sched;
use crate::units::speed_beside;
use crate::wakeups::{self, Threads, WAKEUPS, Wakeups};
use convoy_host::describe_host;
use convoy_os::clock;
use convoy_os::cpus::parse_list;
use convoy_workload::calibration::Calibration;

pub use crate::probe::MachineError;

/// Batches of one measurement.
const BATCHES: usize = 400;
/// Line transfers, or loads of a chain, in one batch: a few microseconds, shorter than a time
/// slice.
const BATCH: u64 = 64;
/// Entry and return of an interrupt, which user mode cannot measure, in nanoseconds: an estimate.
pub(crate) const INTERRUPT_NS: f64 = 700.0;
/// What getppid took on the host of `kernels/costs.toml`, in nanoseconds.
const GETPPID_NS: f64 = 103.0;
/// Sending an interrupt takes hardware less than this, in nanoseconds.
const GUEST_SEND_NS: f64 = 1000.0;
/// The largest chain of loads that is built, in bytes.
const CHAIN_MAX: usize = 1 << 30;

/// Returns the nanoseconds of a load that depends on the previous load, in a random cycle of
/// `bytes`.
fn load(bytes: usize) -> f64 {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line(u32);
    let count = (bytes / 64).max(2);
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut draw = 0x9e37_79b9_u64;
    for i in (1..count).rev() {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(i, (draw >> 33) as usize % (i + 1));
    }
    let mut lines = vec![Line(0); count];
    for (at, &line) in order.iter().enumerate() {
        lines[line as usize] = Line(order[(at + 1) % count]);
    }
    drop(order);
    let mut at = 0;
    // Small chains are gone through once before they are timed; large ones are met cold.
    for _ in 0..count.min(1 << 20) {
        at = lines[at as usize].0;
    }
    let each = BATCH * 16;
    least(BATCHES, each, || {
        for _ in 0..each {
            at = lines[at as usize].0;
        }
        black_box(at);
    })
}

/// Returns the cost of a locked addition in excess of a load and a store of an owned line.
fn atomic() -> f64 {
    let word = AtomicU64::new(0);
    let each = BATCH * 16;
    let locked = least(BATCHES, each, || {
        for _ in 0..each {
            word.fetch_add(1, Ordering::SeqCst);
        }
    });
    let plain = least(BATCHES, each, || {
        for _ in 0..each {
            word.store(black_box(word.load(Ordering::Relaxed)) + 1, Ordering::Relaxed);
        }
    });
    (locked - plain).max(0.0)
}

/// Nanoseconds in which a line goes from CPU `a` to CPU `b`, with the load that sees it.
fn transfer(a: usize, b: usize) -> Result<f64, MachineError> {
    let (word, end) = (AtomicU64::new(0), AtomicBool::new(false));
    pin(a)?;
    std::thread::scope(|scope| {
        let answer = start(scope, || -> Result<(), MachineError> {
            pin(b)?;
            while !end.load(Ordering::Relaxed) {
                let value = word.load(Ordering::Acquire);
                if value % 2 == 1 {
                    word.store(value + 1, Ordering::Release);
                }
            }
            Ok(())
        })?;
        let ns = least(BATCHES * 10, 2 * BATCH, || {
            for _ in 0..BATCH {
                let value = word.load(Ordering::Relaxed);
                word.store(value + 1, Ordering::Release);
                while word.load(Ordering::Acquire) == value + 1 && !answer.is_finished() {
                    std::hint::spin_loop();
                }
            }
        });
        end.store(true, Ordering::Relaxed);
        answer.join().expect("the answering thread does not panic")?;
        Ok(ns)
    })
}

fn system_call() -> f64 {
    least(BATCHES, BATCH, || {
        for _ in 0..BATCH {
            black_box(rustix::process::getppid());
        }
    })
}

/// A cache as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cache {
    level: u32,
    bytes: usize,
    ways: usize,
    cpus: usize,
}

/// Data caches of CPU 0, the first level first.
fn caches() -> Vec<Cache> {
    fn cache(index: usize) -> Option<Cache> {
        let field =
            |name: &str| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"));
        (field("type")? != "Instruction").then_some(())?;
        let size = field("size")?;
        Some(Cache {
            level: field("level")?.parse().ok()?,
            bytes: size.strip_suffix('K')?.parse::<usize>().ok()? << 10,
            ways: field("ways_of_associativity")?.parse().ok()?,
            cpus: parse_list(&field("shared_cpu_list")?)?.len(),
        })
    }
    let mut caches: Vec<Cache> = (0..8).filter_map(cache).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// CPUs of the package of CPU 0.
fn package_cpus() -> usize {
    read("/sys/devices/system/cpu/cpu0/topology/package_cpus_list")
        .and_then(|list| parse_list(&list))
        .map_or(1, |cpus| cpus.len())
}

/// Measures this machine, its file calls in `directory`, which should be in memory; the text is a
/// machine preset of the name `host`.
///
/// # Errors
/// [`MachineError`] if a system call fails or a unit of user-mode work is wrong.
pub fn describe(
    calibration: &Calibration,
    directory: &Path,
    mut progress: impl FnMut(&str, f64),
) -> Result<String, MachineError> {
    let usable = clock::usable_cpus();
    let first = usable.first().copied().unwrap_or(0);
    let second = usable.get(1).copied();
    let mut text = Preset::default();
    let mut take = |what: &str, ns: f64| {
        progress(what, ns);
        ns
    };
    let caches = caches();
    let last = caches.last().copied();
    let (llc, package) = (last.map_or(1, |cache| cache.cpus), package_cpus());
    let call = take("system call", system_call());
    let speeds = [take("speed", speed_beside(calibration)?), GETPPID_NS / call];
    text.head(usable.len(), llc, package, speeds);
    pin(first)?;
    let l1 = caches.first().map_or(32 << 10, |cache| cache.bytes);
    let hit = take("hit", load(l1 / 2));
    text.price("hit", hit, "Measured: a dependent load in half of the first level.");
    let locked = take("atomic", atomic());
    text.price("atomic", locked, "Measured: a locked addition beyond a load and a store.");
    let line = match second {
        Some(second) => (take("transfer", transfer(first, second)?) - hit).max(0.0),
        None => 0.0,
    };
    text.transfers(line, second.is_some(), usable.len().min(llc), usable.len().min(package));
    pin(first)?;
    let chain = last.map_or(256 << 20, |cache| cache.bytes * 4).min(CHAIN_MAX);
    text.memory(take("memory", load(chain)) - hit, chain, last);
    text.price("read_service", 5.0, "Not measured; estimate.");
    let threads = wakeups::threads(first, hit)?;
    let wakeups = second.map(|to| wakeups::wakeups(first, to, WAKEUPS)).transpose()?;
    text.wakeups(&threads, wakeups.as_ref(), &mut take);
    let _ = writeln!(
        text.0,
        "# For the reader: a system call takes {call:.0} ns here, sched_yield of the only thread \
         {:.0}, and a thread passes on to another of its CPU by a futex in {:.0}.",
        threads.yield_alone, threads.pass_on
    );
    text.programs(&threads, &mut take);
    text.0 += &sched::steps(call, &threads, &mut take);
    text.0 += &sched::cold_switch(first, &mut take)?;
    if let Some(wakeups) = &wakeups {
        text.guest(&threads, wakeups, &mut take);
    }
    text.caches(&caches, hit, &mut take);
    let so_far = convoy_catalogue::parse("host.toml", &text.0).map_err(CallsError::from)?;
    text.calls(&calls::measure(&so_far, directory)?, &mut take);
    Ok(text.0)
}

/// The preset that is being written.
#[derive(Default)]
struct Preset(String);

impl Preset {
    fn head(&mut self, cpus: usize, llc: usize, package: usize, [speed, kernel_speed]: [f64; 2]) {
        let host = describe_host();
        let llc = llc.min(package);
        let _ = writeln!(
            self.0,
            "# The machine on which `convoy calibrate` ran: {cpu}, {cpus} CPUs, \
             Linux {kernel}, {date}.\n\
             # Measured figures are the least of {BATCHES} batches or more; estimates say so.\n\
             description = \"{cpus} CPUs, {cpu}, measured\"\n\
             # Measured: median of the units of user-mode work against machines/calibration.toml.\n\
             speed = {speed:.3}\n\
             # Measured: getppid, {GETPPID_NS} on the host of kernels/costs.toml, against here.\n\
             kernel_speed = {kernel_speed:.3}\n\
             # Up to 2 % more for each miss, as in Alameldeen and Wood (HPCA 2003).\n\
             perturbation = 0.02\n\
             # Running ahead, see docs/machine.md; 0 switches it off.\nskew_ns = 1000.0\n\n\
             # Read from the kernel.\n[topology]\ncpus = {cpus}\ncpus_per_llc = {llc}\n\
             cpus_per_package = {package}\n\n[price_ns]",
            cpu = host.cpu,
            kernel = host.kernel,
            date = host.date,
            package = package.div_ceil(llc) * llc,
        );
    }

    fn price(&mut self, key: &str, ns: f64, why: &str) {
        let _ = writeln!(self.0, "# {why}\n{key} = {ns:.1}");
    }

    fn transfers(&mut self, line: f64, measured: bool, in_llc: usize, in_package: usize) {
        let how = "Measured: a line goes to another CPU and back, half of it, less a hit.";
        let none = "Not measured: no such pair of CPUs was looked at; as the pair that was.";
        let pair = |here: bool| if measured && here { how } else { none };
        self.price("llc", line, pair(in_llc > 1));
        self.price("package", line, pair(in_llc == 1 && in_package > 1));
        self.price("remote", line, pair(in_llc == 1 && in_package == 1));
    }

    fn memory(&mut self, ns: f64, chain: usize, last: Option<Cache>) {
        let mib = chain >> 20;
        let mut why =
            format!("Measured: a dependent load in {mib} MiB, misses of translation included");
        if let Some(last) = last
            && last.bytes * 4 > chain
        {
            let _ =
                write!(why, "; the last level says {} MiB, so a part may hit", last.bytes >> 20);
        }
        self.price("memory", ns, &format!("{why}."));
    }

    fn wakeups(
        &mut self,
        threads: &Threads,
        wakeups: Option<&Wakeups>,
        take: &mut impl FnMut(&str, f64) -> f64,
    ) {
        let rest = threads.pass_on + INTERRUPT_NS;
        if let Some(wakeups) = wakeups {
            let ipi = take("ipi", (wakeups.busy[1] - rest).max(0.0));
            let why = "Measured: a wakeup by a futex on another CPU that ran a thread, median, \
                           less one on this CPU and `interrupt`.";
            self.price("ipi", ipi, why);
            let exit = take("idle_exit", (wakeups.idle[1] - rest).max(0.0));
            let why = "Measured: the same on a CPU that had idled for 50 us.";
            self.price("idle_exit", exit, why);
        } else {
            self.price("ipi", 1500.0, "Not measured (one CPU); estimate.");
            self.price("idle_exit", 2000.0, "Not measured (one CPU); estimate.");
        }
        self.price("interrupt", INTERRUPT_NS, "Not measured (needs the kernel); estimate.");
        let why = "Measured: sched_yield between two threads less sched_yield alone.";
        self.price("switch", take("switch", threads.switch), why);
        let why = "Not measured; estimate: half of the first level from the second.";
        self.price("refill", 500.0, why);
        let why = "Estimate: sched_yield between two processes, measured once, was 100 more than \
                   between two threads.";
        self.price("address_space", 100.0, why);
    }

    fn programs(&mut self, threads: &Threads, take: &mut impl FnMut(&str, f64) -> f64) {
        let _ = writeln!(self.0, "\n[user_ns]");
        let why = "Measured: a look of a spinning loop beyond the load.";
        self.price("pause", take("pause", threads.pause), why);
        let why = "Measured: a look at the monotonic clock.";
        self.price("clock", take("clock", threads.clock), why);
    }

    /// If senders of interrupts are off their CPU for at least this long, the machine is a guest.
    fn guest(
        &mut self,
        threads: &Threads,
        wakeups: &Wakeups,
        take: &mut impl FnMut(&str, f64) -> f64,
    ) {
        let send = take("send", (wakeups.call[1] - threads.pass_on).max(0.0));
        if send < GUEST_SEND_NS {
            return;
        }
        let _ = writeln!(self.0, "\n# What the hypervisor adds.\n[guest_ns]");
        let why = "Measured: the call that wakes a thread on another CPU, less passing on here.";
        self.price("send", send, why);
        let (poll, why) = sched::halt_poll();
        self.price("halt_poll", poll, why);
        let why = "Wakeups took longer from 100 to 200 us on, on two machines.";
        self.price("long_idle", 200_000.0, why);
        let halted = (wakeups.halted[1] - threads.pass_on - INTERRUPT_NS).max(0.0);
        let why = "Measured: as idle_exit, on a CPU that had idled for 3 ms.";
        self.price("halted_exit", take("halted_exit", halted), why);
    }

    fn caches(&mut self, caches: &[Cache], hit: f64, take: &mut impl FnMut(&str, f64) -> f64) {
        let whole = |cache: &Cache| cache.ways > 0 && (cache.bytes / 64).is_multiple_of(cache.ways);
        if caches.len() < 2 || !caches.iter().all(whole) {
            let _ =
                writeln!(self.0, "# The kernel describes no caches here: lines are not evicted.");
            return;
        }
        for (cache, name) in caches.iter().take(3).zip(["l1", "l2", "l3"]) {
            let (lines, ways) = (cache.bytes / 64, cache.ways);
            let _ = writeln!(
                self.0,
                "\n# Size and associativity as reported by the kernel.\n[cache.{name}]"
            );
            let _ = writeln!(self.0, "lines = {lines}\nways = {ways}");
            if name != "l1" {
                let below = caches[cache.level as usize - 2].bytes;
                // Well outside the level before, well inside this one.
                let ns = (take(name, load((below * 2).min(cache.bytes / 2))) - hit).max(0.0);
                self.price("ns", ns, "Measured: a dependent load, less a hit.");
            }
            if name == "l3" {
                let _ = writeln!(self.0, "# Not measured; estimate.\ninclusive = false");
            }
        }
    }
}

impl Preset {
    /// Steps of kernel paths.
    fn calls(&mut self, costs: &[Cost], take: &mut impl FnMut(&str, f64) -> f64) {
        let _ = writeln!(
            self.0,
            "\n# Steps of kernel paths: what a program of calls takes here, less what the virtual \
             kernel {KERNEL}\n# takes for the rest of it. In place of kernels/costs.toml.\n\
             [kernel_ns]"
        );
        for cost in costs {
            self.price(cost.key, take(cost.key, cost.ns), &cost.why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_a_preset() {
        let mut text = Preset::default();
        text.head(4, 2, 4, [1.0, 1.1]);
        for key in ["hit", "atomic"] {
            text.price(key, 1.25, "Test.");
        }
        text.transfers(60.0, true, 2, 4);
        text.memory(90.0, 64 << 20, None);
        text.price("read_service", 5.0, "Test.");
        let threads =
            Threads { pause: 9.0, clock: 20.0, yield_alone: 170.0, switch: 250.0, pass_on: 700.0 };
        let wakeups =
            Wakeups { idle: [1e4; 3], call: [7e3; 3], halted: [2e4; 3], busy: [1.5e4; 3] };
        text.wakeups(&threads, Some(&wakeups), &mut |_, ns| ns);
        text.programs(&threads, &mut |_, ns| ns);
        text.guest(&threads, &wakeups, &mut |_, ns| ns);
        let cache = |level, bytes, cpus| Cache { level, bytes, ways: 8, cpus };
        let levels = [cache(1, 32 << 10, 1), cache(2, 256 << 10, 1), cache(3, 4 << 20, 2)];
        text.caches(&levels, 1.0, &mut |_, ns| ns);
        text.calls(&[Cost { key: "write", ns: 290.5, why: "Test.".into() }], &mut |_, ns| ns);
        let preset = convoy_catalogue::parse("host.toml", &text.0).expect("a preset");
        let preset: convoy_machine::Preset = preset.value;
        assert!((preset.kernel_ns["write"] - 290.5).abs() < 1e-9);
        assert_eq!(preset.topology.cpus_per_llc, 2);
        assert_eq!(preset.cache.expect("stated").l2.lines, 4096);
        assert!((preset.price_ns.idle_exit - 8600.0).abs() < 1e-9);
        assert!((preset.guest_ns.expect("a guest").send - 6300.0).abs() < 1e-9);
    }
}
