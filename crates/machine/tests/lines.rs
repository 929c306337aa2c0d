//! One contended line against published figures: nanoseconds for each pair of lock and unlock when
//! CPUs take a spinlock from each other without a pause, in one package and one CPU of each.
//!
//! `BLESS=1 cargo test -p convoy-machine --test machine lines` writes results/contended-lines.md.

use crate::common::on_each_cpu;
use convoy_machine::{Here, Preset, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform, RawLock, TicketLock};
use std::cell::OnceCell;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Turns of each CPU.
const TURNS: usize = 100;

/// A queue spinlock as that of Linux 4.2: waiters queue as in Mellor-Crummey and Scott (1991), and
/// the first of them looks at the lock word. Nodes are named by CPU + 1.
struct Queue {
    /// Locked, and the last that queued; on one line.
    word: Sim<[Word<u32>; 2]>,
    /// The next in the queue, and whether its CPU is the first.
    nodes: Vec<Sim<[Word<u32>; 2]>>,
}

impl Queue {
    fn new(cpus: usize) -> Self {
        let pair = || Here::place([0, 0].map(Word::new));
        Self { word: pair(), nodes: (0..cpus).map(|_| pair()).collect() }
    }

    fn turn(&self) {
        let [locked, tail] = &*self.word;
        let me = Here::cpu() as u32 + 1;
        let [next, first] = &*self.nodes[me as usize - 1];
        next.store(0, Relaxed);
        first.store(0, Relaxed);
        // AcqRel pairs with itself: the predecessor's node is ready, and so is this one.
        let before = tail.swap(me, AcqRel);
        if before != 0 {
            // Release pairs with the acquire of `next` below.
            self.nodes[before as usize - 1][0].store(me, Release);
            Smp::spin_until(first, |first| first != 0);
        }
        Smp::spin_until(locked, |locked| locked == 0);
        locked.store(1, Acquire);
        if tail.load(Relaxed) != me || tail.compare_exchange(me, 0, Relaxed, Relaxed).is_err() {
            let after = Smp::spin_until(next, |next| next != 0);
            // Release pairs with the acquire of the spinner.
            self.nodes[after as usize - 1][1].store(1, Release);
        }
        // Release pairs with the acquire of the first in the queue.
        locked.store(0, Release);
    }
}

/// Runs `turn` in a loop on each of `cpus`; nanoseconds a turn, of all of them together.
fn pace<T: 'static>(
    preset: &Preset,
    cpus: &[usize],
    make: impl Fn() -> T + 'static,
    turn: impl Fn(&T) + 'static,
) -> f64 {
    const START_PS: u64 = 100_000_000;
    let (object, wanted) = (OnceCell::new(), cpus.to_vec());
    let (_, machine) = on_each_cpu(preset, move || {
        // Every CPU has a task; those that are wanted start together.
        Here::compute(START_PS.saturating_sub(Here::now_ps()));
        if wanted.contains(&Here::cpu()) {
            let object = object.get_or_init(&make);
            for _ in 0..TURNS {
                turn(object);
            }
        }
        0
    });
    (machine.now_ns() as f64 - START_PS as f64 / 1000.0) / (TURNS * cpus.len()) as f64
}

fn ticket(preset: &Preset, cpus: &[usize]) -> f64 {
    let turn = |lock: &Sim<TicketLock<Smp>>| drop(lock.guard());
    pace(preset, cpus, || Here::place(TicketLock::default()), turn)
}

fn queue(preset: &Preset, cpus: &[usize]) -> f64 {
    let all = preset.topology.cpus;
    pace(preset, cpus, move || Queue::new(all), Queue::turn)
}

fn addition(preset: &Preset, cpus: &[usize]) -> f64 {
    let turn = |word: &Sim<Word<u32>>| {
        word.fetch_add(1, SeqCst);
    };
    pace(preset, cpus, || Here::place(Word::new(0)), turn)
}

/// Published nanoseconds for 2, 3, ... CPUs of a Westmere-EX; 0 where there is none. Waiman Long's
/// loop of January 2014, time over turns. The queue columns were read; the ticket columns are from
/// memory, and no stored page has them.
struct Published {
    ticket: &'static [f64],
    queue: &'static [f64],
}

const INSIDE: Published = Published {
    ticket: &[89.0, 129.0, 141.0, 153.0, 165.0, 180.0, 192.0],
    queue: &[0.0, 155.0, 145.0, 144.0, 143.0, 143.0, 144.0],
};
const BETWEEN: Published =
    Published { ticket: &[460.0, 729.0, 1078.0], queue: &[0.0, 816.0, 534.0] };

fn cell(simulated: f64, published: Option<&f64>) -> String {
    match published {
        Some(&published) if published > 0.0 => {
            let error = (simulated / published - 1.0) * 100.0;
            format!("{simulated:.0} | {published:.0} | {error:+.0} %")
        }
        _ => format!("{simulated:.0} | – | –"),
    }
}

fn table(preset: &Preset, cpus: &[usize], published: &Published) -> String {
    let mut text = String::from(
        "| CPUs | ticket lock, ns | published | error | queue spinlock, ns | published | error | \
         fetch and add, ns |\n|---|---|---|---|---|---|---|---|\n",
    );
    for count in 2..=cpus.len() {
        let cpus = &cpus[..count];
        let ticket = cell(ticket(preset, cpus), published.ticket.get(count - 2));
        let queue = cell(queue(preset, cpus), published.queue.get(count - 2));
        let add = addition(preset, cpus);
        writeln!(text, "| {count} | {ticket} | {queue} | {add:.0} |").expect("a string");
    }
    text
}

/// CPUs of the first package, and the first CPU of each package.
fn places(preset: &Preset) -> (Vec<usize>, Vec<usize>) {
    let package = preset.topology.cpus_per_package;
    ((0..package).collect(), (0..preset.topology.cpus).step_by(package).collect())
}

fn machine() -> Preset {
    Preset::named("westmere-ex-80-2013").unwrap()
}

/// The machine if each store waited for its line.
fn unbuffered() -> Preset {
    Preset { store_buffer: false, ..machine() }
}

#[test]
fn a_queue_spinlock_takes_what_was_published() {
    let preset = machine();
    let (inside, between) = places(&preset);
    for (cpus, published) in [(inside, INSIDE.queue), (between, BETWEEN.queue)] {
        for (count, &published) in (2..).zip(published).filter(|(_, published)| **published > 0.0) {
            let error = queue(&preset, &cpus[..count]) / published - 1.0;
            assert!(error.abs() < 0.2, "{count} CPUs: {error}");
        }
    }
}

#[test]
fn a_buffered_store_does_not_wait_and_a_locked_instruction_waits_for_it() {
    let took = |locked: bool, preset: &Preset| {
        let turn = move |words: &Sim<[Word<u32>; 32]>| {
            // One line for each CPU to take from the other, and one of its own, 16 words on.
            words[0].store(1, Relaxed);
            if locked {
                words[16 * (1 - Here::cpu() / 10)].fetch_add(1, Relaxed);
            }
        };
        pace(preset, &[0, 10], || Here::place(std::array::from_fn(|_| Word::new(0))), turn)
    };
    let (buffered, plain) = (machine(), unbuffered());
    assert!(took(false, &buffered) < 0.1 * took(false, &plain));
    assert!(took(true, &buffered) > 0.4 * took(true, &plain));
}

#[test]
fn the_table_in_the_docs_is_that_of_this_build() {
    let preset = machine();
    let (inside, between) = places(&preset);
    let text = format!(
        "# A contended line\n\n\
         Nanoseconds for each pair of lock and unlock, or for each addition, when CPUs of the \
         machine\n`westmere-ex-80-2013` contend for one line without a pause, compared with \
         published figures of such\nmachines ([machine](../docs/machine.md#cache-lines)). Written \
         by `BLESS=1 cargo test -p\nconvoy-machine --test machine lines`.\n\n\
         Published: Waiman Long's loop on a machine of four packages, January 2014. The queue \
         columns were\nread; the ticket columns are from memory. Prices of transfers were \
         published for another machine of\nthe family. One price is derived from these columns: \
         `read_service`, the slope of the ticket lock\ninside a package.\n\n\
         ## CPUs of one package\n\n{}\n\
         ## One CPU of each package\n\n{}",
        table(&preset, &inside, &INSIDE),
        table(&preset, &between, &BETWEEN),
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/contended-lines.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == text, "results/contended-lines.md is of another build: see the top");
}

#[test]
fn copies_to_packages_follow_one_another_and_a_package_serves_its_own() {
    let preset = machine();
    let (inside, between) = places(&preset);
    // Each further package costs the copies after the release and after a newcomer's ticket.
    let slope = (ticket(&preset, &between[..8]) - ticket(&preset, &between[..4])) / 4.0;
    assert!((230.0..330.0).contains(&slope), "{slope} ns for each further package");
    let slope = (ticket(&preset, &inside[..8]) - ticket(&preset, &inside[..4])) / 4.0;
    assert!((10.0..15.0).contains(&slope), "{slope} ns for each further CPU");
    // 72 more pollers in eight packages cost less than eight packages do.
    let all: Vec<usize> = (0..80).collect();
    let (eighty, eight) = (ticket(&preset, &all), ticket(&preset, &between));
    assert!(eighty < 2.0 * eight, "{eighty} ns at 80 CPUs, {eight} ns at 8 in 8 packages");
}

/// Nanoseconds of a second write of a line soon after a first one, while one CPU of each of the
/// other packages waits for a third.
fn second_write(preset: &Preset) -> f64 {
    let (_, between) = places(preset);
    let word = OnceCell::new();
    let (took, _) = on_each_cpu(preset, move || {
        // So that every CPU gets a task.
        Here::compute(100_000_000);
        if !between.contains(&Here::cpu()) {
            return 0;
        }
        let word = word.get_or_init(|| Here::place(Word::new(0)));
        if Here::cpu() != 0 {
            Smp::spin_until(word, |seen| seen == 3);
            return 0;
        }
        Here::compute(100_000_000);
        word.store(1, Release);
        Here::compute(10_000);
        let before = Here::now_ps();
        word.store(2, Release);
        let took = Here::now_ps() - before;
        word.store(3, Release);
        took
    });
    took[0] as f64 / 1000.0
}

#[test]
fn a_line_that_others_want_is_kept_until_its_home_sends_for_it() {
    // A store that waits for its line shows when the CPU has it.
    let mut preset = unbuffered();
    let hit = preset.price_ns.hit;
    let kept = second_write(&preset);
    assert!(kept <= 2.0 * hit, "{kept} ns");
    preset.price_ns.kept = 0.0;
    let lost = second_write(&preset);
    assert!(lost > 7.0 * preset.price_ns.remote, "{lost} ns: all packages read in between");
}

/// Two packages of two CPUs; requests between them `travel` or take no time to arrive.
fn two_packages(travel: bool) -> Preset {
    let mut preset = unbuffered();
    preset.topology.cpus = 4;
    (preset.topology.cpus_per_llc, preset.topology.cpus_per_package) = (2, 2);
    (preset.numa, preset.controllers, preset.cache) = (None, None, None);
    (preset.requests_travel, preset.perturbation, preset.price_ns.kept) = (travel, 0.0, 0.0);
    preset
}

#[test]
fn an_owner_uses_its_line_until_a_request_has_reached_it() {
    let between = |travel| addition(&two_packages(travel), &[0, 2]);
    let price = two_packages(true).price_ns;
    let add = price.hit + price.atomic;
    // The line moves once in a transfer, for half of which its owner adds.
    let visit = price.remote / (price.remote / 2.0 / add - 1.0).floor();
    let (kept, lost) = (between(true), between(false));
    assert!(lost > price.remote, "{lost} ns: the line moves for each addition");
    assert!(kept < visit && kept > add, "{kept} ns, at most {visit} ns");
    // Inside a package nothing changes.
    let inside = |travel| addition(&two_packages(travel), &[0, 1]);
    assert_eq!(inside(true).to_bits(), inside(false).to_bits());
}

#[test]
fn a_package_serves_all_its_cpus_when_a_line_arrives() {
    // Every CPU makes all of its additions, or the run would not end; four take less for each than
    // two in different packages, since a visit serves both CPUs of a package.
    let all = addition(&two_packages(true), &[0, 1, 2, 3]);
    let price = two_packages(true).price_ns;
    assert!(all < price.llc + price.atomic, "{all} ns");
    assert!(all > price.hit + price.atomic, "{all} ns");
}
