//! Locks that are handed over in order: one at saturation, and the ticket lock of Boyd-Wickizer,
//! Kaashoek, Morris and Zeldovich (Linux Symposium 2012) between the two ends.

use crate::{Draws, Row, bare};
use convoy_machine::{Fifo, Here, Outcome, Preset, Smp, Word};
use convoy_sync::{Atomic, Platform, RawLock, TicketLock};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

type Body = Box<dyn FnOnce()>;

/// Runs `section` again and again on each CPU of `preset` for `us` microseconds; how many ended in
/// a microsecond, the first tenth of the time left out.
fn rate(preset: &Preset, us: f64, section: &Rc<dyn Fn(&mut Draws)>) -> f64 {
    let count = Rc::new(Cell::new(0_u64));
    let (from, to) = ((us * 1e5) as u64, (us * 1e6) as u64);
    let bodies = (0..preset.topology.cpus)
        .map(|cpu| {
            let (section, count) = (Rc::clone(section), Rc::clone(&count));
            Box::new(move || {
                let mut draws = Draws(cpu as u64 + 1);
                while Here::now_ps() < to {
                    section(&mut draws);
                    let counts = (from..to).contains(&Here::now_ps());
                    count.set(count.get() + u64::from(counts));
                }
            }) as Body
        })
        .collect();
    let (outcome, _machine) = Fifo::run(preset, 1, u64::MAX / 1000, bodies).expect("memory");
    assert_eq!(outcome, Outcome::Stopped);
    count.get() as f64 / ((to - from) as f64 / 1e6)
}

const HIT_NS: f64 = 1.0;
const TRANSFER_NS: f64 = 50.0;
const READ_SERVICE_NS: f64 = 10.0;

/// Mean time from the end of one critical section to the start of the next when all of `cpus` wait:
/// the owner reads and writes `serving` (a hit, an invalidation, a hit); the waiters then fetch the
/// line in the order of their numbers, the first from the owner and the others behind it, one per
/// `read_service`; the next owner is the next number, wrapping around.
fn handover(cpus: usize) -> f64 {
    let fetch = |place: usize| {
        TRANSFER_NS
            + if place == 0 { 0.0 } else { TRANSFER_NS + (place - 1) as f64 * READ_SERVICE_NS }
    };
    let places = (0..cpus - 1).chain([0]);
    3.0 * HIT_NS + TRANSFER_NS + places.map(fetch).sum::<f64>() / cpus as f64
}

/// Sections in a microsecond of a ticket lock that all of `cpus` always want.
fn saturated(cpus: usize, hold_ns: f64, sections: u64) -> f64 {
    let mut preset = bare(cpus);
    preset.price_ns.hit = HIT_NS;
    preset.price_ns.llc = TRANSFER_NS;
    preset.price_ns.read_service = READ_SERVICE_NS;
    let lock = Rc::new(OnceCell::new());
    let section: Rc<dyn Fn(&mut Draws)> = Rc::new(move |_| {
        let lock = lock.get_or_init(|| Here::place(TicketLock::<Smp>::default()));
        let guard = lock.guard();
        Here::compute((hold_ns * 1000.0) as u64);
        drop(guard);
    });
    rate(&preset, sections as f64 * hold_ns / 1000.0, &section)
}

/// The model: `n` CPUs, each away from the lock for `away` on average and in it for `serial`; the
/// home of the line serves a request in `service`. Returns CPUs that are away, on average.
fn speedup(n: usize, away: f64, time_in_state: impl Fn(usize) -> f64) -> f64 {
    let mut weight = 1.0;
    let (mut sum, mut waiting) = (1.0, 0.0);
    for k in 1..=n {
        weight *= (n - (k - 1)) as f64 / away * time_in_state(k);
        sum += weight;
        waiting += weight * k as f64;
    }
    n as f64 - waiting / sum
}

/// Mean time of a state with `k` CPUs at the lock when a release also queues behind the fetches
/// that the previous release caused: with k - 1 waiters, the next owner's fetch is the j-th of them
/// with equal probability, and a newcomer fetches once.
fn with_queued_release(k: usize, serial: f64, service: f64) -> f64 {
    let waiters = (k - 1).max(1);
    let all = k as f64 * service;
    let mean = |j: usize| {
        // E[max(j c + S, all)] for exponential S.
        let left = (all - j as f64 * service).max(0.0);
        j as f64 * service + left + serial * (-left / serial).exp()
    };
    (1..=waiters).map(mean).sum::<f64>() / waiters as f64
}

/// CPUs away from a ticket lock with its halves on two lines, according to the model: newcomers do
/// not disturb the waiters.
fn measured_speedup(cpus: usize, away: f64, serial: f64, service: f64, us: f64) -> f64 {
    let mut preset = bare(cpus);
    preset.price_ns.llc = service;
    preset.price_ns.read_service = service;
    let words = Rc::new(OnceCell::new());
    let section: Rc<dyn Fn(&mut Draws)> = Rc::new(move |draws| {
        let [next, serving] =
            words.get_or_init(|| [0, 0].map(|zero| Here::place(Word::<u32>::new(zero))));
        Here::compute((draws.exponential(away) * 1000.0) as u64);
        let ticket = next.fetch_add(1, SeqCst);
        Smp::spin_until(serving, |serving| serving == ticket);
        Here::compute((draws.exponential(serial) * 1000.0) as u64);
        serving.store(ticket + 1, SeqCst);
    });
    // Sections per time, times the mean time away: Little's law.
    rate(&preset, us, &section) * (away + service) / 1000.0
}

/// The ticket lock for 2 % serial work, as in the paper.
fn model_rows(
    scale: u64,
    (serial, service): (f64, f64),
    cpus: &[usize],
    knee: Option<usize>,
) -> Vec<Row> {
    let away = serial / 0.02;
    let mut rows = Vec::new();
    for &n in cpus {
        let us = scale as f64 * 20_000.0 * (serial + service) / 1000.0;
        let measured = measured_speedup(n, away, serial, service, us);
        // The release invalidates the waiters' copies before they fetch the line again, and a
        // newcomer draws its ticket: one service each, beside the model's times.
        let (hold, away) = (serial + service, away + service);
        let published = speedup(n, away, |k| hold + service * k as f64 / 2.0);
        let name = format!("ticket lock, {n} CPUs, s {serial} ns, c {service} ns: speedup");
        let mut row = Row::new(format!("{name}, s + c k/2"), "CPUs", published, measured);
        if service * n as f64 > serial / 3.0 {
            row.leaves_out = Some("leaves out that a release queues behind fetches");
        }
        rows.push(row);
        let queued = speedup(n, away, |k| service + with_queued_release(k, serial, service));
        let mut row = Row::new(format!("{name}, queued release"), "CPUs", queued, measured);
        if knee == Some(n) {
            row.leaves_out = Some("at the knee: leaves out that times are not exponential");
        }
        rows.push(row);
    }
    rows
}

/// The oracles over `scale` times 20,000 sections of an idle lock each.
pub(crate) fn rows(scale: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for cpus in [2, 4, 16, 64] {
        for hold in [2_000.0, 10_000.0] {
            let expected = 1000.0 / (hold + handover(cpus));
            let measured = saturated(cpus, hold, scale * 1000);
            let name = format!("FIFO lock, {cpus} CPUs, hold {hold} ns: 1/(hold + handover)");
            rows.push(Row::new(name, "sections/us", expected, measured));
        }
    }
    rows.extend(model_rows(scale, (3200.0, 12.0), &[8, 32, 48, 64, 80], None));
    rows.extend(model_rows(scale, (1600.0, 120.0), &[8, 24, 32, 48, 80], Some(48)));
    rows.extend(model_rows(scale, (400.0, 120.0), &[8, 16, 32, 64], None));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_at_saturation_and_between_the_ends_does_what_the_closed_forms_say() {
        crate::assert_all(&rows(2));
    }

    #[test]
    fn the_published_model_has_its_known_values() {
        // Evaluated elsewhere: 27 CPUs' worth at the peak for s 400, c 120; 4.0 at 80.
        let at = |n| speedup(n, 20_000.0, |k| 400.0 + 60.0 * k as f64);
        assert!((at(8) - 7.8).abs() < 0.05, "{}", at(8));
        assert!((at(80) - 4.0).abs() < 0.05, "{}", at(80));
    }
}
