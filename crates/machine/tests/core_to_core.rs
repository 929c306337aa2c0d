//! The machines of today against published measurements from CPU to CPU: two CPUs take one word
//! from each other by compare-and-swap, each as soon as it finds the value of the other, and what
//! is published is half of a round trip. The prices of the presets are such that the virtual
//! machine takes the same for the same loop.

use crate::common::on_each_cpu;
use convoy_machine::{Here, Preset, Sim, Word};
use convoy_sync::Atomic;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Round trips.
const TRIPS: u32 = 200;

/// Nanoseconds of half a round trip between two CPUs, the word in the memory of `home`'s package.
fn half_trip(preset: &Preset, home: usize, pair: [usize; 2]) -> f64 {
    /// Until when every CPU has its task, the word is placed, and all others are gone: siblings
    /// would slow the pair down.
    const ALL_PS: u64 = 500_000_000;
    const PLACE_PS: u64 = 2 * ALL_PS;
    const START_PS: u64 = 4 * ALL_PS;
    let until = |ps: u64| Here::compute(ps.saturating_sub(Here::now_ps()));
    let word: OnceCell<Sim<Word<u32>>> = OnceCell::new();
    let times: Rc<RefCell<Vec<u64>>> = Rc::default();
    let seen = Rc::clone(&times);
    on_each_cpu(preset, move || {
        until(ALL_PS);
        if Here::cpu() == home {
            until(PLACE_PS);
            word.get_or_init(|| Here::place(Word::new(0))).store(0, Relaxed);
        }
        let Some(me) = pair.iter().position(|&cpu| cpu == Here::cpu()) else { return 0 };
        until(START_PS);
        let (word, me) = (word.get().expect("the home has placed it"), me as u32);
        for _ in 0..TRIPS {
            while word.compare_exchange(me, 1 - me, SeqCst, Relaxed).is_err() {}
            seen.borrow_mut().push(Here::now_ps());
        }
        0
    });
    let times = times.borrow();
    // The first trips find the word in other caches.
    let counted = &times[times.len() / 10..];
    (counted[counted.len() - 1] - counted[0]) as f64 / 1000.0 / (counted.len() - 1) as f64
}

/// Medians of published matrices (KCORES/core-to-core-latency-plus at 264ea0a); where there is no
/// such pair, 0.
struct Published {
    machine: &'static str,
    same_cache: f64,
    same_package: f64,
    /// The same with the word in the memory of another package.
    away: f64,
    other_package: f64,
}

const PUBLISHED: [Published; 12] = {
    const fn of(machine: &'static str, ns: [f64; 4]) -> Published {
        let [same_cache, same_package, away, other_package] = ns;
        Published { machine, same_cache, same_package, away, other_package }
    }
    [
        of("epyc-7r13-2x48", [22.7, 107.6, 200.5, 197.2]),
        of("epyc-9654-2x96", [27.1, 99.3, 0.0, 191.6]),
        of("epyc-9754-2x128", [32.5, 109.7, 205.6, 203.6]),
        of("xeon-8375c-2x32", [51.3, 0.0, 0.0, 107.8]),
        of("xeon-w9-3475x-36", [55.3, 0.0, 0.0, 0.0]),
        of("xeon-e5-2680v4-2x14", [45.2, 0.0, 0.0, 127.5]),
        of("xeon-e5-2660-2x8", [32.4, 0.0, 0.0, 114.3]),
        of("graviton3-64", [46.4, 0.0, 0.0, 0.0]),
        // No matrix: 30 to 60 inside, 138.6 between packages (Chips and Cheese, July 2024).
        of("graviton4-2x96", [45.0, 0.0, 0.0, 138.6]),
        of("altra-q80-80", [156.3, 0.0, 0.0, 0.0]),
        of("ryzen-7950x-16", [15.7, 72.7, 0.0, 0.0]),
        of("xeon-x5650-2x6", [37.2, 0.0, 0.0, 73.7]),
    ]
};

#[test]
fn machines_of_today_take_what_was_measured_from_cpu_to_cpu() {
    for published in &PUBLISHED {
        let preset = Preset::named(published.machine).expect("a shipped preset");
        let topology = &preset.topology;
        let (threads, llc) = (topology.threads_per_core, topology.cpus_per_llc);
        let package = topology.cpus_per_package;
        for (published_ns, home, pair) in [
            (published.same_cache, 0, [0, threads]),
            (published.same_package, 0, [0, llc]),
            (published.away, package, [0, llc]),
            (published.other_package, 0, [0, package]),
        ] {
            if published_ns == 0.0 {
                continue;
            }
            let ns = half_trip(&preset, home, pair);
            let error = ns / published_ns - 1.0;
            let what = format!("{}: {pair:?}, home {home}", published.machine);
            assert!(error.abs() < 0.03, "{what}: {ns:.1} ns, published {published_ns}");
        }
    }
}

#[test]
fn the_home_of_a_line_matters_where_the_machine_shows_it_and_only_there() {
    for (machine, matters) in [("epyc-7r13-2x48", true), ("xeon-8375c-2x32", false)] {
        let preset = Preset::named(machine).expect("a shipped preset");
        let package = preset.topology.cpus_per_package;
        // The last pair of the first package that does not share a cache, or else not a core.
        let other = package - preset.topology.threads_per_core;
        let (home, away) =
            (half_trip(&preset, 0, [0, other]), half_trip(&preset, package, [0, other]));
        assert_eq!(away > 1.5 * home, matters, "{machine}: {home} and {away}");
        // Inside a last-level cache the home is not asked.
        let inside = [0, preset.topology.threads_per_core];
        let same = half_trip(&preset, 0, inside) / half_trip(&preset, package, inside);
        assert!((same - 1.0).abs() < 0.02, "{machine}: {same}");
    }
}
