//! Simulated memory operations per second of the host, one core.
//!
//! `private`: each task increments a word on a line of its own (run-ahead applies). `exact`: the
//!   same with zero skew. `cached`: as `private`, on a machine whose caches have a geometry.
//!   `shared`: each task increments one of eight shared words (every operation is ordered and most
//!   are transfers). `machines`: creating and dropping a machine with this many almost empty tasks:
//!   the fixed cost of a short replication. `ticket`: a ticket lock whose two words share a line;
//!   every release makes every waiter fetch it again, so the cost of one acquisition grows with the
//!   CPUs on the simulated machine and on the host.

use convoy_machine::{Fifo, Here, Preset, Smp, Word};
use convoy_sync::{Atomic, Platform};
use divan::counter::ItemsCount;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

const CPUS: [usize; 3] = [4, 64, 1024];
const OPERATIONS: u64 = 2_000_000;
/// Run-ahead needs lines that have settled, so its rate shows only after the first microseconds.
const PRIVATE_OPERATIONS: u64 = 16 * OPERATIONS;

fn preset(cpus: usize, skew_ns: f64) -> Preset {
    let mut preset =
        Preset::named("quad-2008-shared-llc").expect("the shipped preset").with_cpus(cpus);
    preset.skew_ns = skew_ns;
    preset
}

fn run(preset: &Preset, bodies: Vec<Box<dyn FnOnce()>>) -> u64 {
    let (_, machine) = Fifo::run(preset, 1, u64::MAX / 1000, bodies).expect("address space");
    machine.operations()
}

fn private(preset: &Preset, cpus: usize, operations: u64) -> u64 {
    let each = operations / cpus as u64;
    let bodies = (0..cpus)
        .map(|_| {
            Box::new(move || {
                let word = Here::place(Word::<u32>::new(0));
                for _ in 0..each {
                    word.fetch_add(1, Relaxed);
                }
            }) as Box<dyn FnOnce()>
        })
        .collect();
    run(preset, bodies)
}

#[divan::bench(args = CPUS, sample_count = 9)]
fn private_lines(bencher: divan::Bencher, cpus: usize) {
    let preset = preset(cpus, 1000.0);
    bencher
        .counter(ItemsCount::new(PRIVATE_OPERATIONS))
        .bench_local(|| private(&preset, cpus, PRIVATE_OPERATIONS));
}

#[divan::bench(args = [4, 64], sample_count = 9)]
fn private_lines_cached(bencher: divan::Bencher, cpus: usize) {
    let mut preset = preset(cpus, 1000.0);
    preset.cache = Preset::named("xeon-64-2011").expect("the shipped preset").cache;
    bencher
        .counter(ItemsCount::new(PRIVATE_OPERATIONS))
        .bench_local(|| private(&preset, cpus, PRIVATE_OPERATIONS));
}

#[divan::bench(args = CPUS, sample_count = 9)]
fn private_lines_exact(bencher: divan::Bencher, cpus: usize) {
    let preset = preset(cpus, 0.0);
    bencher.counter(ItemsCount::new(OPERATIONS)).bench_local(|| private(&preset, cpus, OPERATIONS));
}

#[divan::bench(args = CPUS, sample_count = 9)]
fn shared_lines(bencher: divan::Bencher, cpus: usize) {
    let preset = preset(cpus, 1000.0);
    let each = OPERATIONS / cpus as u64;
    bencher.counter(ItemsCount::new(OPERATIONS)).bench_local(|| {
        let words = Rc::new(std::cell::OnceCell::new());
        let bodies = (0..cpus)
            .map(|cpu| {
                let words = Rc::clone(&words);
                Box::new(move || {
                    let words = words.get_or_init(|| {
                        (0..8).map(|_| Here::place(Word::<u32>::new(0))).collect::<Vec<_>>()
                    });
                    for i in 0..each {
                        words[(cpu as u64 + i) as usize % 8].fetch_add(1, Relaxed);
                    }
                }) as Box<dyn FnOnce()>
            })
            .collect();
        run(&preset, bodies)
    });
}

#[divan::bench(args = [16, 2000], sample_count = 25)]
fn machines(bencher: divan::Bencher, tasks: usize) {
    let preset = preset(4, 1000.0);
    bencher.bench_local(|| private(&preset, tasks, tasks as u64));
}

#[divan::bench(args = [4, 64], sample_count = 5)]
fn ticket(bencher: divan::Bencher, cpus: usize) {
    let preset = preset(cpus, 1000.0);
    let each = OPERATIONS / 8 / cpus as u64;
    bencher.counter(ItemsCount::new(OPERATIONS / 8)).bench_local(|| {
        let lock = Rc::new(std::cell::OnceCell::new());
        let bodies = (0..cpus)
            .map(|_| {
                let lock = Rc::clone(&lock);
                Box::new(move || {
                    let (next, owner) = &**lock
                        .get_or_init(|| Here::place((Word::<u32>::new(0), Word::<u32>::new(0))));
                    for _ in 0..each {
                        let mine = next.fetch_add(1, SeqCst);
                        Smp::spin_until_is(owner, mine);
                        owner.store(mine + 1, SeqCst);
                        Here::pass(500_000);
                    }
                }) as Box<dyn FnOnce()>
            })
            .collect();
        run(&preset, bodies)
    });
}

fn main() {
    divan::main();
}
