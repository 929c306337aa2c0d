//! Laws: replays of programs with a known closed form of the throughput, on two machines with 1 to
//! 128 CPUs. `n` is the smaller of the numbers of threads and CPUs.
//! `crates/predict/tests/laws.rs` has the laws of threads that do not wait for each other.
//!
//! | law | throughput |
//! |---|---|
//! | machine repairman | the result of mean value analysis |
//! | readers and writers | at most `1 / h (w + (1 - w) / n)`, at least as with an exclusive lock |
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

/// Threads that acquire two locks in each cycle, which takes a time without waits and holds the
/// longer or outer lock for 50 us.
fn two_locks(steps: Vec<Step>, cycle: f64) {
    const THREADS: u32 = 32;
    let program = scripted(2, &[(THREADS, vec![steps])], &[]);
    for place in Place::each() {
        let used = place.used_by(THREADS);
        let bound = (used * 1e9 / cycle).min(1e9 / (50.0 * US));
        let least = (used / (cycle + place.wakeup_ns())).min(1.0 / (50.0 * US + place.wakeup_ns()));
        // Each cycle acquires both.
        let cycles = place.rate(&program, 2.0 * bound) / 2.0;
        within(&place, cycles, bound, [0.8 * 1e9 * least / bound, 1.01]);
    }
}

#[test]
fn of_two_locks_in_sequence_the_longer_section_bounds() {
    let [first, second] =
        [(0, 20.0), (1, 50.0)].map(|(at, us)| [lock(at), rest(us * US), unlock(at)]);
    two_locks([&[rest(200.0 * US)], &first[..], &second].concat(), 270.0 * US);
}

#[test]
fn of_nested_locks_the_outer_hold_bounds() {
    let inner = [lock(1), rest(30.0 * US), unlock(1)];
    let outer = [rest(100.0 * US), lock(0), rest(20.0 * US)];
    two_locks([&outer[..], &inner, &[unlock(0)]].concat(), 150.0 * US);
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
