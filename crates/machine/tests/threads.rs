//! Hardware threads: what they share and what that costs.

use crate::common::{on_each_cpu, quad};
use convoy_machine::{Here, Preset, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform, RawLock, TicketLock};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

const SPEED: f64 = 0.62;

/// Four CPUs, two cores of two threads or four cores of one.
fn machine(threads_per_core: usize) -> Preset {
    let mut preset = quad();
    preset.topology.threads_per_core = threads_per_core;
    preset.thread_speed = SPEED;
    preset
}

const MS: u64 = 1_000_000_000;

/// Milliseconds after which each CPU has done its work of so many.
fn times(threads_per_core: usize, work: [u64; 4]) -> Vec<f64> {
    let (times, _) = on_each_cpu(&machine(threads_per_core), move || {
        Here::compute(work[Here::cpu()] * MS);
        Here::now_ps()
    });
    times.iter().map(|&ps| ps as f64 / MS as f64).collect()
}

fn close(times: &[f64], expected: [f64; 4]) {
    for (time, expected) in times.iter().zip(expected) {
        assert!((time - expected).abs() < 0.1, "{times:?}, not {expected:?}");
    }
}

#[test]
fn two_threads_of_a_core_slow_each_other_down_while_both_work() {
    close(&times(1, [6, 6, 3, 6]), [6.0, 6.0, 3.0, 6.0]);
    // On the second core 3 ms of work take 3 / 0.62 = 4.84 ms; 3 ms are left for the other.
    close(&times(2, [6, 6, 3, 6]), [6.0 / SPEED, 6.0 / SPEED, 3.0 / SPEED, 3.0 / SPEED + 3.0]);
}

#[test]
fn a_thread_that_spins_takes_nothing_and_lines_stay_in_the_core() {
    let handover = |threads_per_core: usize| {
        let lock: Rc<OnceCell<Sim<TicketLock<Smp>>>> = Rc::default();
        let turns: Rc<OnceCell<Sim<Word<u32>>>> = Rc::default();
        let (times, _) = on_each_cpu(&machine(threads_per_core), move || {
            let lock = lock.get_or_init(|| Here::place(TicketLock::default()));
            let turns = turns.get_or_init(|| Here::place(Word::new(0)));
            if Here::cpu() < 2 {
                for _ in 0..100 {
                    let guard = lock.guard();
                    turns.fetch_add(1, SeqCst);
                    Here::compute(10_000_000);
                    drop(guard);
                }
                assert!(turns.load(SeqCst) >= 100);
            }
            Here::now_ps()
        });
        times.into_iter().max().expect("four CPUs")
    };
    let (cores, threads) = (handover(1), handover(2));
    // 200 sections of 10 us at full speed either way; a hand-over between cores moves lines.
    assert!((2000..2030).contains(&(threads / 1_000_000)), "{threads} ps");
    assert!(threads + 200 * 25_000 < cores, "{threads} ps in a core, {cores} between cores");
}

#[test]
fn a_thread_that_has_spun_takes_its_share_again() {
    let word: Rc<OnceCell<Sim<Word<u32>>>> = Rc::default();
    let (times, _) = on_each_cpu(&machine(2), move || {
        let word = word.get_or_init(|| Here::place(Word::new(0)));
        match Here::cpu() {
            0 => _ = Smp::spin_until(word, |value| value == 1),
            2 => {
                Here::compute(MS);
                word.store(1, SeqCst);
            }
            _ => {}
        }
        if Here::cpu() < 2 {
            Here::compute(6 * MS);
        }
        Here::now_ps()
    });
    let times: Vec<f64> = times.iter().map(|&ps| ps as f64 / MS as f64).collect();
    // CPU 1 is alone with its core for 1 ms; then both have 5 ms to do together.
    close(&times, [1.0 + 5.0 / SPEED + 1.0, 1.0 + 5.0 / SPEED, 1.0, 0.0]);
}
