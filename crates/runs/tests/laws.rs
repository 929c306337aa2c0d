//! Laws: replays of programs with a known closed form of the throughput, on two machines with 1 to
//! 128 CPUs. `n` is the smaller of the numbers of threads and CPUs.
//!
//! | law | throughput |
//! |---|---|
//! | private locks | grows as `n` |
//! | locks in stripes | grows as `n`: a thread waits for 1 % of the time |
//! | Amdahl | at most `n` cycles in the time of one, and one critical section at a time |
//! | saturated lock | one per critical section and hand-over, at most one per critical section |
//! | machine repairman | the result of mean value analysis |
//! | readers | grows as `n` |
//! | readers and writers | at most `1 / h (w + (1 - w) / n)`, at least as with an exclusive lock |
//! | sleepers | the same on any number of CPUs |
//! | more threads than CPUs | grows as the number of CPUs |
//! | two locks in sequence | at most one per critical section of the longer one |
//! | nested locks | at most one per hold of the outer one |
//! | producers and consumers | the lowest of three rates: producers, consumers, CPUs |
//! | barrier | one round per longest draw of the threads |

use std::sync::Arc;

use convoy_kernel::KernelPreset;
use convoy_machine::Preset;
use convoy_runs::lock_loop::Policy;
use convoy_runs::replay::{
    Anchor, Behaviour, Class, Condition, Effort, Kind, Mode, Replay, Script, Section, Span, Spread,
    Step,
};
use convoy_runs::virtual_locks::VirtualLocksPoint;

/// One machine with small packages and one with large ones; CPUs share no core in either.
const MACHINES: [&str; 2] = ["host", "graviton4-2x96"];
const CPUS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Microseconds, in nanoseconds.
const US: f64 = 1e3;
const MS: f64 = 1e6;

/// Returns times within a fifth of a mean.
fn even(ns: f64) -> Spread {
    Spread::new(&[(ns, 1)], ns)
}

/// Returns exponential times, in buckets of half a power of two.
fn exponential(ns: f64) -> Spread {
    let least = |at: i32| ns * 2f64.powf(f64::from(at) / 2.0 - 10.0);
    let beyond = |ns_from: f64| (-ns_from / ns).exp();
    let bucket = |at| (least(at), (1e6 * (beyond(least(at)) - beyond(least(at + 1)))) as u64);
    Spread::new(&(0..27).map(bucket).collect::<Vec<_>>(), ns)
}

fn work(spread: Spread) -> Span {
    Span { work: spread, ..Span::default() }
}

/// Returns a sleep without work before it.
fn sleep(spread: Spread) -> Span {
    Span { work: Spread::default(), sleeps: 1.0, sleep: spread }
}

/// Returns a program in which each thread thinks and then holds the only lock.
fn program(threads: u32, think: Span, hold: Span) -> Behaviour {
    let section = Section { count: 1, threads, think, hold, ..Section::default() };
    Behaviour { locks: vec![1], sections: vec![section], threads, ..Behaviour::default() }
}

/// Returns a program with classes of threads that repeat their steps.
fn scripted(locks: usize, classes: &[(u32, Vec<Vec<Step>>)], tokens: &[f64]) -> Behaviour {
    let class = |(threads, strips): &(u32, Vec<Vec<Step>>)| Class {
        threads: *threads,
        strips: strips.clone(),
        ..Class::default()
    };
    let condition = |&tokens| Condition { tokens, room: f64::INFINITY };
    let script = Script {
        classes: classes.iter().map(class).collect(),
        conditions: tokens.iter().map(condition).collect(),
    };
    Behaviour {
        locks: vec![1; locks],
        before: vec![1; locks],
        threads: classes.iter().map(|class| class.0).sum(),
        script: Some(Arc::new(script)),
        ..Behaviour::default()
    }
}

fn rest(ns: f64) -> Step {
    Step::Rest { work_ns: ns, sleep_ns: 0.0 }
}

fn lock(lock: usize) -> Step {
    Step::Lock { lock, of: 0 }
}

fn unlock(lock: usize) -> Step {
    Step::Unlock { lock, of: 0 }
}

/// A machine on which a law is tested.
struct Place {
    machine: &'static str,
    cpus: usize,
}

impl Place {
    fn each() -> impl Iterator<Item = Self> {
        let of = |machine| CPUS.iter().map(move |&cpus| Self { machine, cpus });
        MACHINES.into_iter().flat_map(of)
    }

    fn preset(&self) -> Preset {
        Preset::load_with_cpus(self.machine, &[], self.cpus).expect("shipped").value
    }

    /// Returns the smaller of the numbers of threads and CPUs.
    fn used_by(&self, threads: u32) -> f64 {
        f64::from(threads).min(self.cpus as f64)
    }

    /// Returns the longest hand-over by the prices of the machine, nanoseconds, if the next owner
    /// sleeps on an idle CPU.
    fn wakeup_ns(&self) -> f64 {
        let preset = self.preset();
        let prices = &preset.price_ns;
        let guest = preset.guest_ns.as_ref().map_or(0.0, |guest| guest.send + guest.halted_exit);
        prices.ipi + prices.idle_exit + 2.0 * prices.switch + guest + 10.0 * US
    }

    /// Runs a program with libc's locks; about `rate` acquisitions per second are expected.
    fn run(&self, behaviour: &Behaviour, rate: f64) -> VirtualLocksPoint {
        let behaviour = Behaviour { rate, ..behaviour.clone() };
        let threads = behaviour.threads;
        let replay = Replay {
            behaviour: Arc::new(behaviour),
            anchor: Anchor::NONE,
            threads,
            policy: Policy::Adaptive,
            alone: false,
            looks: Some(0),
            whole: false,
            others_cpus: 0.0,
            effort: Effort::FULL,
            seed: 1,
            kernel: KernelPreset::named("6.18").expect("shipped"),
            machine: self.preset(),
        };
        let point = replay.run().expect("it ends");
        let used = point.result.cpus_used;
        assert!(used < 1.01 * self.cpus as f64, "{self}: {used} CPUs in use");
        assert_eq!(point.gates.slips, 0, "{self}");
        point
    }

    fn rate(&self, behaviour: &Behaviour, rate: f64) -> f64 {
        self.run(behaviour, rate).result.acquisitions_per_s()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with {} CPUs", self.machine, self.cpus)
    }
}

/// Panics unless `found` is between `least` and `most`, both relative to `known`.
fn within(place: &Place, found: f64, known: f64, [least, most]: [f64; 2]) {
    let part = found / known;
    assert!((least..most).contains(&part), "{place}: {found:.0}/s is {part:.3} of {known:.0}");
}

#[test]
fn private_locks_scale_to_the_cpus_that_threads_can_use() {
    for threads in [8, 64] {
        let mut program = program(threads, work(even(95.0 * US)), work(even(5.0 * US)));
        program.private.insert(0);
        for place in Place::each() {
            let known = place.used_by(threads) * 1e9 / (100.0 * US);
            within(&place, place.rate(&program, known), known, [0.97, 1.01]);
        }
    }
}

#[test]
fn locks_in_stripes_are_seldom_waited_for() {
    const STRIPES: usize = 64;
    let mut program = program(16, work(even(20.0 * US)), work(even(1.0 * US)));
    program.sections =
        (0..STRIPES).map(|lock| Section { lock, ..program.sections[0].clone() }).collect();
    program.locks = vec![1; STRIPES];
    for place in Place::each() {
        let known = place.used_by(16) * 1e9 / (21.0 * US);
        within(&place, place.rate(&program, known), known, [0.9, 1.01]);
    }
}

#[test]
fn one_short_lock_bounds_as_amdahl_says() {
    const THREADS: u32 = 64;
    let program = program(THREADS, work(even(95.0 * US)), work(even(5.0 * US)));
    for place in Place::each() {
        let used = place.used_by(THREADS);
        let bound = (used * 1e9 / (100.0 * US)).min(1e9 / (5.0 * US));
        // With more CPUs, sleeping waiters form a convoy, and its throughput has no closed form.
        // On two CPUs under Linux 6.18 this program has 0.93 to 0.98 of the bound: a waiter's CPU
        // may idle.
        let least = if used <= 2.0 { 0.92 } else { 0.1 };
        within(&place, place.rate(&program, bound), bound, [least, 1.01]);
    }
}

#[test]
fn a_saturated_lock_passes_one_thread_for_each_section_and_hand_over() {
    let program = program(16, work(even(2.0 * US)), work(even(50.0 * US)));
    for place in Place::each() {
        let (bound, least) = (1e9 / (50.0 * US), 1e9 / (52.0 * US + place.wakeup_ns()));
        within(&place, place.rate(&program, bound), bound, [0.9 * least / bound, 1.01]);
    }
}

/// Returns the throughput of `customers` that sleep for `think` and are served one at a time for
/// `service`, by mean value analysis.
fn mean_value_analysis(customers: u32, think: f64, service: f64) -> f64 {
    let (mut queue, mut rate) = (0.0, 0.0);
    for customer in 1..=customers {
        let response = service * (1.0 + queue);
        rate = f64::from(customer) / (think + response);
        queue = rate * response;
    }
    rate * 1e9
}

#[test]
fn exponential_times_give_the_throughput_of_the_machine_repairman() {
    const THREADS: u32 = 12;
    let program = program(THREADS, sleep(exponential(20.0 * MS)), work(exponential(2.0 * MS)));
    let known = mean_value_analysis(THREADS, 20.0 * MS, 2.0 * MS);
    for place in Place::each() {
        within(&place, place.rate(&program, known), known, [0.95, 1.05]);
    }
}

/// Returns such a program with a reader/writer lock and a percentage of writing critical sections.
fn sharing(threads: u32, think_ns: f64, hold_ns: f64, writes: u64) -> Behaviour {
    let mut program = program(threads, work(even(think_ns)), work(even(hold_ns)));
    let section = program.sections[0].clone();
    let write = Section { mode: Mode::Write, count: writes, ..section.clone() };
    let read = Section { mode: Mode::Read, count: 100 - writes, ..section };
    program.sections = vec![read, write].into_iter().filter(|one| one.count > 0).collect();
    program.kinds = vec![Kind::RwLock { prefers_writers: false }];
    program
}

#[test]
fn readers_scale_to_the_cpus_that_threads_can_use() {
    const THREADS: u32 = 64;
    let program = sharing(THREADS, 50.0 * US, 50.0 * US, 0);
    for place in Place::each() {
        let known = place.used_by(THREADS) * 1e9 / (100.0 * US);
        within(&place, place.rate(&program, known), known, [0.95, 1.01]);
    }
}

#[test]
fn writers_are_bounded_by_the_time_in_which_they_exclude_others() {
    const THREADS: u32 = 32;
    let (think, hold) = (50.0 * US, 50.0 * US);
    for writes in [1, 10, 50] {
        let program = sharing(THREADS, think, hold, writes);
        let part = writes as f64 / 100.0;
        for place in Place::each() {
            let used = place.used_by(THREADS);
            let excluded = 1e9 / (hold * (part + (1.0 - part) / used));
            let bound = excluded.min(used * 1e9 / (think + hold));
            let least = used * 1e9 / (think + used * (hold + place.wakeup_ns()));
            within(&place, place.rate(&program, bound), bound, [0.9 * least / bound, 1.01]);
        }
    }
}

#[test]
fn sleepers_do_as_much_on_any_number_of_cpus() {
    const THREADS: u32 = 16;
    let mut program = program(THREADS, sleep(even(2.0 * MS)), work(even(2.0 * US)));
    program.private.insert(0);
    let known = f64::from(THREADS) * 1e9 / (2.0 * MS + 2.0 * US);
    for place in Place::each() {
        within(&place, place.rate(&program, known), known, [0.95, 1.01]);
    }
}

#[test]
fn four_threads_for_each_cpu_do_as_much_as_the_cpus() {
    for place in Place::each() {
        let threads = 4 * place.cpus as u32;
        let mut program = program(threads, work(even(95.0 * US)), work(even(5.0 * US)));
        program.private.insert(0);
        let known = place.cpus as f64 * 1e9 / (100.0 * US);
        within(&place, place.rate(&program, known), known, [0.97, 1.01]);
    }
}

#[test]
fn of_two_locks_in_sequence_the_longer_section_bounds() {
    const THREADS: u32 = 32;
    let steps = vec![
        rest(200.0 * US),
        lock(0),
        rest(20.0 * US),
        unlock(0),
        lock(1),
        rest(50.0 * US),
        unlock(1),
    ];
    let program = scripted(2, &[(THREADS, vec![steps])], &[]);
    for place in Place::each() {
        let used = place.used_by(THREADS);
        let bound = (used * 1e9 / (270.0 * US)).min(1e9 / (50.0 * US));
        let least =
            (used / (270.0 * US + place.wakeup_ns())).min(1.0 / (50.0 * US + place.wakeup_ns()));
        // Each cycle acquires both.
        let cycles = place.rate(&program, 2.0 * bound) / 2.0;
        within(&place, cycles, bound, [0.8 * 1e9 * least / bound, 1.01]);
    }
}

#[test]
fn of_nested_locks_the_outer_hold_bounds() {
    const THREADS: u32 = 32;
    let steps = vec![
        rest(100.0 * US),
        lock(0),
        rest(20.0 * US),
        lock(1),
        rest(30.0 * US),
        unlock(1),
        unlock(0),
    ];
    let program = scripted(2, &[(THREADS, vec![steps])], &[]);
    for place in Place::each() {
        let used = place.used_by(THREADS);
        let bound = (used * 1e9 / (150.0 * US)).min(1e9 / (50.0 * US));
        let least =
            (used / (150.0 * US + place.wakeup_ns())).min(1.0 / (50.0 * US + place.wakeup_ns()));
        let point = place.run(&program, 2.0 * bound);
        let cycles = point.result.acquisitions_per_s() / 2.0;
        within(&place, cycles, bound, [0.8 * 1e9 * least / bound, 1.01]);
        // No thread waits for the inner lock, because the outer one protects it.
        let inner = &point.tally.places[2];
        assert!(inner.lock == 1 && inner.longest_ns < 10_000, "{place}: {} ns", inner.longest_ns);
    }
}

#[test]
fn the_slower_side_of_a_buffer_bounds_the_other() {
    let wait = |condition| Step::Wait { condition, tokens: 1.0, is_within: true, limit_ns: 0 };
    let signal = |condition| Step::Signal { condition, all: false };
    // The second lock is acquired once per item, by the producers alone.
    let put = vec![rest(1.0 * MS), lock(0), wait(0), signal(1), unlock(0), lock(1), unlock(1)];
    let take = vec![rest(1.5 * MS), lock(0), wait(1), signal(0), unlock(0)];
    let program = scripted(2, &[(2, vec![put]), (4, vec![take])], &[8.0, 0.0]);
    for place in Place::each() {
        // Two producers, four consumers, and 2.5 ms of CPU time per item.
        let known = (2.0 / MS).min(4.0 / (1.5 * MS)).min(place.cpus as f64 / (2.5 * MS)) * 1e9;
        let point = place.run(&program, 2.0 * known);
        let items = point.tally.places[2].acquisitions as f64 / point.result.window_s;
        within(&place, items, known, [0.9, 1.02]);
    }
}

#[test]
fn a_barrier_waits_for_the_longest_of_the_threads() {
    // Each thread draws 0.2 ms to 2 ms.
    fn strip(tenth: u32) -> Vec<Step> {
        let length = 0.2 * MS * f64::from(tenth);
        vec![rest(length), lock(0), unlock(0), Step::Barrier { barrier: 0, places: THREADS }]
    }
    const THREADS: u32 = 8;
    const LENGTHS: u32 = 10;
    let program = scripted(1, &[(THREADS, (1..=LENGTHS).map(strip).collect())], &[]);
    let below = |tenth: u32| (f64::from(tenth) / f64::from(LENGTHS)).powi(THREADS as i32);
    let longest: f64 =
        (1..=LENGTHS).map(|at| 0.2 * MS * f64::from(at) * (below(at) - below(at - 1))).sum();
    let mean = 0.2 * MS * f64::from(LENGTHS + 1) / 2.0;
    for place in Place::each() {
        let used = place.used_by(THREADS);
        let bound = (1.0 / longest).min(used / (f64::from(THREADS) * mean)) * 1e9;
        let rounds = place.rate(&program, 8.0 * bound) / 8.0;
        // With fewer CPUs than threads, a round also waits for threads that had to wait for a CPU.
        let least = if used < f64::from(THREADS) { 0.5 } else { 0.9 };
        within(&place, rounds, bound, [least, 1.03]);
    }
}
