//! A probe of the scheduler and the big kernel lock without system calls: tasks compute and take
//! the lock.
//!
//! `cargo run --release -p convoy-kernel --example probe -- KERNEL TASKS BURSTS THINK_US HOLD_NS
//!   CLUSTER GAP_US`
#![expect(clippy::print_stdout, reason = "an example prints")]

use convoy_kernel::KernelPreset;
use convoy_kernel::sched::Sched;
use convoy_machine::{Here, Machine, Mode, Preset};
use std::cell::Cell;
use std::rc::Rc;

fn exponential(key: u64, mean_ps: f64) -> u64 {
    let uniform = (Here::draw(key) >> 11) as f64 / (1_u64 << 53) as f64;
    (-mean_ps * (1.0 - uniform).ln()) as u64
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: f64| args.get(i).map_or(default, |a| a.parse().unwrap());
    let kernel =
        KernelPreset::named(args.first().map_or("2.6.26-rc1", String::as_str)).expect("a kernel");
    let (tasks, bursts) = (number(1, 2000.0) as u64, number(2, 10.0) as u64);
    let (think, hold) = (number(3, 8000.0) * 1e6, number(4, 1000.0) * 1e3);
    let (cluster, gap) = (number(5, 4.0) as u64, number(6, 250.0) * 1e6);
    let text = match args.get(7).map(String::as_str) {
        Some(path) => std::fs::read_to_string(path).expect("a machine file"),
        None => include_str!("../../../machines/quad-2008-shared-llc.toml").to_owned(),
    };
    let preset = Preset::parse("machine", &text).expect("a machine");
    let started = std::time::Instant::now();
    let machine = Machine::new(&preset, 1, tasks as usize + 64).expect("address space");
    let sched = Sched::new(&kernel, &preset);
    let left = Rc::new(Cell::new(tasks));
    let boot = Rc::clone(&sched);
    sched.boot(
        &machine,
        Box::new(move || {
            for task in 0..tasks {
                let sched = Rc::clone(&boot);
                let left = Rc::clone(&left);
                let body = move || {
                    for burst in 0..bursts {
                        let key = task << 20 | burst << 8;
                        Here::user(exponential(key, think));
                        sched.syscall_return();
                        for turn in 0..cluster {
                            sched.lock_kernel();
                            Here::pass(hold as u64);
                            sched.unlock_kernel();
                            Here::user(exponential(key | (turn + 1), gap));
                            sched.syscall_return();
                        }
                    }
                    left.set(left.get() - 1);
                    if left.get() == 0 {
                        Here::stop();
                    }
                };
                boot.fork(Box::new(body)).expect("room");
            }
        }),
    );
    let outcome = machine.run(u64::MAX / 2000);
    let seconds = machine.now_ns() as f64 / 1e9;
    let wall = started.elapsed().as_secs_f64();
    let mut sums = [0_u64; 5];
    for cpu in 0..machine.cpus() {
        for (sum, time) in sums.iter_mut().zip(Here::times(cpu)) {
            *sum += time;
        }
    }
    let total: u64 = sums.iter().sum();
    println!("{outcome:?} {} : {seconds:.2} virtual s, {wall:.2} s", kernel.name);
    for (mode, time) in Mode::ALL.iter().zip(sums) {
        println!("  {mode:?}: {:.2} %", time as f64 * 100.0 / total as f64);
    }
    let stats = sched.stats();
    println!("  {stats:?}");
    println!("  switches/s {:.0}", stats.switches as f64 / seconds);
    for watch in Here::watched() {
        println!(
            "  {}: {} acquisitions, owner change each {:.2} ms, owner not running {:.1} %, contended {}, handoffs {}, stolen {}",
            watch.name,
            watch.acquisitions,
            seconds * 1e3 / watch.owner_changes as f64,
            watch.owner_not_running as f64 / 1e10 / seconds,
            watch.contended,
            watch.handoffs,
            watch.stolen
        );
    }
    println!(
        "  ops {:.1} M, {:.1} M/s, resumes {:.1} M, hash {:016x}",
        machine.operations() as f64 / 1e6,
        machine.operations() as f64 / 1e6 / wall,
        machine.resumes() as f64 / 1e6,
        machine.hash()
    );
}
