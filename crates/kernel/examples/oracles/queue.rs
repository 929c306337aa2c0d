//! M/M/c: tasks that arrive at random and need a CPU for a random time, first come, first served.

use crate::{Draws, Row, bare};
use convoy_machine::{Fifo, Here, Outcome, Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep};
use std::cell::Cell;
use std::rc::Rc;

/// Mean service in nanoseconds: long against the microsecond in which an idle CPU notices work.
const SERVICE_NS: f64 = 10_000_000.0;
/// Tasks that share the arrivals; more than ever wait.
const TASKS: usize = 256;

/// Mean wait in an M/M/c queue in units of the mean service (Erlang's C formula).
fn erlang_wait(cpus: usize, load: f64) -> f64 {
    let offered = load * cpus as f64;
    // Erlang B by its recursion, then C.
    let blocked = (1..=cpus).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits / (cpus as f64 * (1.0 - load))
}

/// `count` exponential draws, scaled so that their mean is exactly `mean`: the load then equals the
/// closed form's, and only the order is random.
fn exponentials(mean: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut draws = Draws(seed);
    let values: Vec<f64> = (0..count).map(|_| draws.exponential(mean)).collect();
    let scale = mean * count as f64 / values.iter().sum::<f64>();
    values.into_iter().map(|value| value * scale).collect()
}

/// Arrival times and services in picoseconds.
fn customers(cpus: usize, load: f64, count: usize) -> Vec<(u64, u64)> {
    let seed = (cpus as u64) << 32 ^ (load * 100.0) as u64;
    let gaps = exponentials(SERVICE_NS / (load * cpus as f64), count, seed);
    let services = exponentials(SERVICE_NS, count, !seed);
    let mut at = 0.0;
    gaps.into_iter()
        .zip(services)
        .map(|(gap, service)| {
            at += gap;
            (at as u64 * 1000, (service * 1000.0) as u64)
        })
        .collect()
}

/// Mean wait of `customers` by the recursion of Kiefer and Wolfowitz (1955): each takes the server
/// that is free first.
fn recursion(cpus: usize, customers: &[(u64, u64)]) -> f64 {
    let mut free = vec![0_u64; cpus];
    let mut waits = 0.0;
    for &(arrival, service) in customers {
        let first = free.iter_mut().min().expect("a server");
        let start = arrival.max(*first);
        waits += (start - arrival) as f64;
        *first = start + service;
    }
    waits / customers.len() as f64 / (SERVICE_NS * 1000.0)
}

/// Mean wait of `customers` on a machine.
fn machine(cpus: usize, customers: &[(u64, u64)]) -> f64 {
    let waits = Rc::new(Cell::new(0.0));
    let customers: Rc<[(u64, u64)]> = customers.into();
    let bodies = (0..TASKS)
        .map(|task| {
            let (waits, customers) = (Rc::clone(&waits), Rc::clone(&customers));
            Box::new(move || {
                let word = Here::place(Word::<u32>::new(0));
                for &(arrival, service) in customers.iter().skip(task).step_by(TASKS) {
                    Smp::wait(&word, 0, Sleep::Uninterruptible, Some(arrival / 1000));
                    waits.set(waits.get() + (Here::now_ps() - arrival) as f64);
                    Here::compute(service);
                }
            }) as Box<dyn FnOnce()>
        })
        .collect();
    let (outcome, _machine) = Fifo::run(&bare(cpus), 1, u64::MAX / 1000, bodies).expect("memory");
    assert_eq!(outcome, Outcome::Stopped);
    waits.get() / customers.len() as f64 / (SERVICE_NS * 1000.0)
}

/// The oracles with `scale` times 10,000 customers.
pub(crate) fn rows(scale: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (cpus, load) in [(1, 0.5), (1, 0.7), (4, 0.5), (4, 0.8), (16, 0.8), (16, 0.9)] {
        let customers = customers(cpus, load, scale * 10_000);
        let measured = machine(cpus, &customers);
        let name = format!("M/M/{cpus} at load {load}: mean wait");
        let unit = "services";
        let exact = recursion(cpus, &customers);
        rows.push(Row::new(format!("{name}, same draws"), unit, exact, measured));
        rows.push(Row::new(format!("{name}, Erlang C"), unit, erlang_wait(cpus, load), measured));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_cpu_is_that_of_the_recursion() {
        // A short run is far from the mean over all runs, and exactly what its own draws say.
        let rows = rows(1);
        for row in rows.iter().filter(|row| row.what.ends_with("same draws")) {
            assert!(row.error().abs() < 0.005, "{}: {}", row.what, row.error());
        }
    }

    #[test]
    fn erlang_c_has_its_known_values() {
        // One server: load / (1 - load).
        assert!((erlang_wait(1, 0.8) - 4.0).abs() < 1e-12);
        // Two servers: load^2 / (1 - load^2).
        assert!((erlang_wait(2, 0.5) - 1.0 / 3.0).abs() < 1e-12);
    }
}
