//! The engine seen from its tasks: exclusion, coherence prices, interrupts, determinism.

use crate::common::quad;
use convoy_machine::{Fifo, Here, Machine, Outcome, Preset, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform, RawLock, Sleep, TasLock, TicketLock, Wake};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

type Body = Box<dyn FnOnce()>;

fn run(preset: &Preset, seed: u64, bodies: Vec<Body>) -> Machine {
    let (outcome, machine) =
        Fifo::run(preset, seed, 1_000_000_000_000, bodies).expect("address space");
    assert_eq!(outcome, Outcome::Stopped);
    machine
}

/// An object that the first task to use it places in simulated memory.
struct Shared<T>(Rc<OnceCell<Sim<T>>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    fn new() -> Self {
        Self(Rc::default())
    }

    fn get(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(|| Here::place(make()))
    }
}

fn exclusion<L: RawLock<Smp> + Default>(cpus: usize, tasks: u64) -> Machine {
    let lock = Shared::<L>::new();
    let (inside, total) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let bodies = (0..tasks)
        .map(|task| {
            let (lock, inside, total) = (lock.clone(), Rc::clone(&inside), Rc::clone(&total));
            Box::new(move || {
                let lock = lock.get(L::default);
                for turn in 0..50 {
                    lock.lock();
                    assert!(!inside.replace(true), "two owners");
                    Here::compute(Here::draw(task << 8 | turn) % 300_000);
                    assert!(inside.replace(false));
                    lock.unlock();
                    Here::compute(Here::draw(task << 8 | turn | 1 << 40) % 1_000_000);
                    total.set(total.get() + 1);
                }
            }) as Body
        })
        .collect();
    let machine = run(&quad().with_cpus(cpus), 3, bodies);
    assert_eq!(total.get(), tasks * 50);
    machine
}

#[test]
fn spinlocks_exclude_on_any_number_of_cpus() {
    for cpus in [1, 2, 4, 65, 200] {
        exclusion::<TicketLock<Smp>>(cpus, 200);
        exclusion::<TasLock<Smp>>(cpus, 200);
    }
}

/// Nanoseconds in which each of four tasks increments its word 1000 times.
fn increments(words_share_a_line: bool) -> u64 {
    #[repr(C)]
    struct Words([Word<u32>; 64]);
    let words = Shared::<Words>::new();
    let bodies = (0..4)
        .map(|task| {
            let words = words.clone();
            Box::new(move || {
                let words = words.get(|| Words(std::array::from_fn(|_| Word::new(0))));
                let at = if words_share_a_line { task } else { task * 16 };
                for _ in 0..1000 {
                    words.0[at].fetch_add(1, SeqCst);
                }
            }) as Body
        })
        .collect();
    run(&quad(), 1, bodies).now_ns()
}

#[test]
fn false_sharing_costs_what_the_layout_says() {
    let (apart, together) = (increments(false), increments(true));
    // 9.3 ns for each owned increment; a transfer of 25 ns for most of the shared ones.
    assert!((9_000..12_000).contains(&apart), "{apart} ns");
    assert!(together > 8 * apart, "{together} ns against {apart} ns");
}

#[test]
fn a_deadline_ends_a_wait_and_a_wake_comes_first() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let gate = Shared::<Word<u32>>::new();
    let (ours, theirs) = (Rc::clone(&log), gate.clone());
    let sleeper = move || {
        let word = gate.get(|| Word::new(0));
        let wait = |ns| Smp::wait(word, 0, Sleep::Uninterruptible, Some(Smp::now() + ns));
        ours.borrow_mut().push(wait(50_000));
        ours.borrow_mut().push(wait(10_000_000));
    };
    let waker = move || {
        Here::compute(200_000_000);
        Smp::wake(theirs.get(|| Word::new(0)), 1);
    };
    run(&quad(), 1, vec![Box::new(sleeper), Box::new(waker)]);
    assert_eq!(*log.borrow(), [Wake::TimedOut, Wake::Woken]);
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let hash = |seed: u64| {
        let machine = exclusion::<TicketLock<Smp>>(4, 20);
        let first = machine.hash();
        drop(machine);
        let mut preset = quad();
        preset.perturbation = 0.1;
        let lock = Shared::<TicketLock<Smp>>::new();
        let bodies = (0..8)
            .map(|_| {
                let lock = lock.clone();
                Box::new(move || {
                    let lock = lock.get(Default::default);
                    for _ in 0..50 {
                        drop(lock.guard());
                        Here::compute(100_000);
                    }
                }) as Body
            })
            .collect();
        (first, run(&preset, seed, bodies).hash())
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1).1, hash(2).1);
}

struct Count(Rc<Cell<u32>>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_task_that_ends_frees_what_it_owns() {
    let dropped = Rc::new(Cell::new(0));
    let bodies = (0..100)
        .map(|_| {
            let count = Count(Rc::clone(&dropped));
            Box::new(move || {
                let _count = count;
                Here::compute(1_000_000);
            }) as Body
        })
        .collect();
    run(&quad(), 1, bodies);
    assert_eq!(dropped.get(), 100);
}

#[test]
fn a_hundred_thousand_tasks_run_on_1024_cpus() {
    const TASKS: u32 = 100_000;
    let total = Shared::<Word<u32>>::new();
    let bodies = (0..TASKS)
        .map(|task| {
            let total = total.clone();
            Box::new(move || {
                Here::compute(Here::draw(u64::from(task)) % 1_000_000_000);
                total.get(|| Word::new(0)).fetch_add(1, SeqCst);
            }) as Body
        })
        .collect();
    run(&quad().with_cpus(1024), 1, bodies);
    assert_eq!(total.get(|| Word::new(0)).peek(), TASKS);
}

#[test]
fn a_disk_serves_one_request_after_the_other() {
    let done = Rc::new(RefCell::new(Vec::new()));
    let bodies = (0..3)
        .map(|_| {
            let done = Rc::clone(&done);
            Box::new(move || {
                let word = Here::place(Word::<u32>::new(0));
                let until = Here::disk_request() / 1000;
                Smp::wait(&word, 0, Sleep::Uninterruptible, Some(until));
                done.borrow_mut().push(Here::now_ns() / 100_000);
            }) as Body
        })
        .collect();
    run(&Preset::named("smp8-2007").expect("a shipped preset"), 1, bodies);
    assert_eq!(*done.borrow(), [55, 110, 165]);
}

#[test]
fn a_working_set_beyond_the_first_level_costs_what_the_second_takes() {
    let time = |lines: usize| {
        let spent = Rc::new(Cell::new(0));
        let result = Rc::clone(&spent);
        let body = move || {
            let words = (0..lines).map(|_| Here::place(Word::<u32>::new(0))).collect::<Vec<_>>();
            let mut start = 0;
            for round in 0..6 {
                if round == 2 {
                    start = Here::now_ps();
                }
                for word in &words {
                    word.store(round, SeqCst);
                }
            }
            result.set((Here::now_ps() - start) / 4 / lines as u64);
        };
        let mut preset = Preset::named("smp8-2007").expect("a shipped preset");
        preset.perturbation = 0.0;
        run(&preset, 1, vec![Box::new(body)]);
        spent.get()
    };
    // 256 lines in the first level, 65,536 in the second; 1 ns for the instruction.
    assert_eq!(time(256), 1000);
    assert_eq!(time(1024), 17_000);
    assert_eq!(time(131_072), 201_000);
}

/// All CPUs store to one line at the same time: when each of them but its owner is done after the
/// one before it, nanoseconds.
fn steps_of_stores(machine: &str) -> Vec<u64> {
    const START_NS: u64 = 100_000;
    let word = Shared::<Word<u32>>::new();
    let done = Rc::new(RefCell::new(Vec::new()));
    let mut preset = Preset::named(machine).expect("a shipped preset");
    preset.perturbation = 0.0;
    let bodies = (0..preset.topology.cpus)
        .map(|_| {
            let (word, done) = (word.clone(), Rc::clone(&done));
            Box::new(move || {
                let word = word.get(|| Word::new(0));
                if Here::cpu() == 0 {
                    word.store(0, SeqCst);
                }
                Here::compute(START_NS * 1000 - Here::now_ps());
                if Here::cpu() > 0 {
                    word.store(1, SeqCst);
                    done.borrow_mut().push(Here::now_ns() - START_NS);
                }
            }) as Body
        })
        .collect();
    run(&preset, 1, bodies);
    done.borrow_mut().sort_unstable();
    let done = done.borrow();
    assert_eq!((done.len(), done[0]), (7, 201), "{machine}");
    done.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_line_goes_from_owner_to_owner_or_each_miss_takes_its_price() {
    assert_eq!(steps_of_stores("bus8-2007"), [200; 6]);
    assert_eq!(steps_of_stores("smp8-2007"), [0; 6]);
}

/// The CPU works until this time.
fn work_until_us(us: u64) {
    Here::compute((us * 1_000_000).saturating_sub(Here::now_ps()));
}

/// How long a CPU takes to read a line that another one has written, and then to write it,
/// nanoseconds.
fn steps_of_an_upgrade(upgrade: Option<f64>) -> [u64; 2] {
    let mut preset = Preset::named("smp8-2007").expect("a shipped preset");
    (preset.perturbation, preset.price_ns.upgrade) = (0.0, upgrade);
    let word = Shared::<Word<u32>>::new();
    let steps = Rc::new(Cell::new([0; 2]));
    let bodies = (0..preset.topology.cpus).map(|_| {
        let (word, steps) = (word.clone(), Rc::clone(&steps));
        Box::new(move || {
            let word = word.get(|| Word::new(0));
            // The tasks start one after the other.
            match Here::cpu() {
                0 => {
                    work_until_us(100);
                    word.store(1, SeqCst);
                }
                1 => {
                    work_until_us(200);
                    let start = Here::now_ps();
                    word.load(SeqCst);
                    let read = Here::now_ps();
                    word.store(2, SeqCst);
                    steps.set([read - start, Here::now_ps() - read].map(|ps| ps / 1000));
                }
                _ => work_until_us(300),
            }
        }) as Body
    });
    run(&preset, 1, bodies.collect());
    steps.get()
}

#[test]
fn a_write_to_a_copy_costs_a_transfer_or_the_price_of_an_upgrade() {
    assert_eq!(steps_of_an_upgrade(None), [201, 201]);
    assert_eq!(steps_of_an_upgrade(Some(16.0)), [201, 17]);
}

/// A CPU fetches independent lines of another one at once, as far as its fill buffers allow.
#[test]
fn independent_lines_are_fetched_as_many_at_once_as_there_are_buffers() {
    const LINES: usize = 12;
    #[repr(align(64))]
    struct Line(Word<usize>);
    let taken_ps = |buffers| {
        let mut preset = Preset::named("xeon-e5-2680v4-2x14").expect("shipped");
        (preset.fill_buffers, preset.perturbation) = (buffers, 0.0);
        let lines = Shared::<[Line; LINES]>::new();
        let taken = Rc::new(Cell::new(0));
        let bodies = (0..preset.topology.cpus).map(|_| {
            let (lines, taken) = (lines.clone(), Rc::clone(&taken));
            Box::new(move || {
                work_until_us(500);
                let lines = lines.get(|| std::array::from_fn(|_| Line(Word::new(0))));
                if Here::cpu() == 0 {
                    for line in lines {
                        line.0.store(1, SeqCst);
                    }
                } else if Here::cpu() == 2 {
                    work_until_us(600);
                    let start = Here::now_ps();
                    Here::fetch_together(lines.iter().map(|line| &line.0));
                    for line in lines {
                        assert_eq!(line.0.load(SeqCst), 1);
                    }
                    taken.set(Here::now_ps() - start);
                }
            }) as Body
        });
        run(&preset, 1, bodies.collect());
        taken.get() as f64
    };
    let (one, all) = (taken_ps(1), taken_ps(64));
    assert!(one > 3.0 * all, "{one} and {all} ps");
    let round = (one - all) / 11.0;
    for (buffers, rounds) in [(2, 6.0), (4, 3.0), (6, 2.0), (12, 1.0)] {
        let expected = all + (rounds - 1.0) * round;
        let taken = taken_ps(buffers);
        assert!((taken / expected - 1.0).abs() < 0.05, "{buffers}: {taken} for {expected} ps");
    }
}
