//! Convoy's primitives other than the mutex and the same primitives of other libraries, in turns: a
//! table of ratios. Arguments: the number of rounds, and words that the names of the cells contain,
//! as in `3 semaphore`.

mod library;
mod work;

use library::{Barrier, Beside, Counted, Monitor, Notice, Once, RwLock, Semaphore};
use std::sync::Arc;
use work::{Run, Spin, WINDOW};

/// Between two critical sections.
const BETWEEN_NS: u64 = 1_000;
/// Columns of the table. The first is compared with the others.
const LIBRARIES: [&str; 9] = [
    "convoy",
    "std",
    "parking_lot",
    "usync",
    "glibc",
    "libstdc++",
    "abseil",
    "tokio",
    "async-lock",
];

/// A shape of work: threads (or tasks), length of the work, and steps of each thread if it may not
/// stop alone.
#[derive(Clone, Copy)]
struct Cell {
    threads: u32,
    section_ns: u64,
    steps: Option<u64>,
}

/// How a library's type runs a cell.
type Subject = (&'static str, fn(Cell) -> Run);
/// A primitive, whether its threads depend on each other, and the libraries that have it.
type Primitive = (&'static str, bool, Vec<Subject>);

fn rwlock<L: RwLock>(cell: Cell, writes_of_16: u64) -> Run {
    let (lock, inside, outside) = (L::new(), Spin::new(cell.section_ns), cell.between());
    work::run(cell.threads, cell.steps, &|number, step| {
        if (step + u64::from(number)) % 16 < writes_of_16 {
            lock.write(|| inside.run());
        } else {
            lock.read(|| inside.run());
        }
        outside.run();
    })
}

fn reading<L: RwLock>(cell: Cell) -> Run {
    rwlock::<L>(cell, 1)
}

fn writing<L: RwLock>(cell: Cell) -> Run {
    rwlock::<L>(cell, 16)
}

fn semaphore<L: Semaphore>(cell: Cell) -> Run {
    let (lock, inside, outside) = (L::new(2), Spin::new(cell.section_ns), cell.between());
    work::run(cell.threads, cell.steps, &|_, _| {
        lock.with(|| inside.run());
        outside.run();
    })
}

/// Even threads put items into a queue of `places`, odd ones take them; a thread alone does both.
fn handed_over<M: Monitor>(cell: Cell, places: u64) -> Run {
    let (queue, work) = (M::new(), Spin::new(cell.section_ns));
    work::run(cell.threads, cell.steps, &|number, step| {
        let turn = if cell.threads == 1 { step } else { number.into() };
        if turn % 2 == 0 {
            work.run();
            queue.step(
                0,
                |items| items < places,
                |items| {
                    *items += 1;
                    Notice::One(1)
                },
            );
        } else {
            queue.step(
                1,
                |items| items > 0,
                |items| {
                    *items -= 1;
                    Notice::One(0)
                },
            );
            work.run();
        }
    })
}

fn notify_one<M: Monitor>(cell: Cell) -> Run {
    handed_over::<M>(cell, 1)
}

fn queue<M: Monitor>(cell: Cell) -> Run {
    handed_over::<M>(cell, 16)
}

fn notify_all<M: Monitor>(cell: Cell) -> Run {
    let (arrivals, work) = (M::new(), Spin::new(cell.section_ns));
    let threads = u64::from(cell.threads);
    work::run(cell.threads, cell.steps, &|_, step| {
        work.run();
        arrivals.step(
            0,
            |_| true,
            |count| {
                *count += 1;
                if *count % threads == 0 { Notice::All(0) } else { Notice::None }
            },
        );
        arrivals.step(0, |count| count >= (step + 1) * threads, |_| Notice::None);
    })
}

fn once<O: Once>(cell: Cell) -> Run {
    Spin::new(cell.section_ns).set();
    let each: Vec<O> = (0..cell.steps.unwrap_or(1)).map(|_| O::new()).collect();
    work::run(cell.threads, cell.steps, &|_, step| each[step as usize].call())
}

fn done<O: Once>(cell: Cell) -> Run {
    let once = O::new();
    work::run(cell.threads, None, &|_, _| once.call())
}

fn barrier<B: Barrier>(cell: Cell) -> Run {
    let (barrier, work) = (B::new(cell.threads), Spin::new(cell.section_ns));
    work::run(cell.threads, cell.steps, &|_, _| {
        work.run();
        barrier.wait();
    })
}

/// Tasks on two workers of `tokio`, each of which repeats `$lock` on `$new`.
macro_rules! tasks {
    ($name:ident, $new:expr) => {
        fn $name(cell: Cell) -> Run {
            let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
            let (runtime, lock) = (workers.expect("a runtime"), Arc::new($new));
            let (inside, outside) = (Spin::new(cell.section_ns), cell.between());
            // One thread that waits for all tasks: the steps of each are counted as the cell's.
            let steps = cell.steps.unwrap_or(1);
            let run = work::run(1, Some(1), &|_, _| {
                let tasks: Vec<_> = (0..cell.threads)
                    .map(|_| {
                        let lock = Arc::clone(&lock);
                        runtime.spawn(async move {
                            for _ in 0..steps {
                                let guard = lock.lock().await;
                                inside.run();
                                drop(guard);
                                outside.run();
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    runtime.block_on(task).expect("no task panics");
                }
            });
            let total = (steps * u64::from(cell.threads)) as f64;
            Run { per_s: run.per_s * total, cpu_ns: run.cpu_ns / total }
        }
    };
}

tasks!(convoy_tasks, convoy_sync::future::Mutex::new(()));
tasks!(tokio_tasks, tokio::sync::Mutex::new(()));
tasks!(async_lock_tasks, async_lock::Mutex::new(()));

impl Cell {
    /// A thread alone only acquires and releases.
    fn between(self) -> Spin {
        Spin::new(if self.threads == 1 { 0 } else { BETWEEN_NS })
    }

    /// Gives each thread as many steps as the first library makes in a window.
    fn calibrated(self, subject: fn(Cell) -> Run) -> Self {
        let mut steps = 16;
        loop {
            let per_s = subject(Self { steps: Some(steps), ..self }).per_s;
            let window = (per_s * WINDOW.as_secs_f64() / f64::from(self.threads)) as u64;
            if window < 8 * steps {
                return Self { steps: Some(window.max(1)), ..self };
            }
            steps = window / 4;
        }
    }
}

/// The types of a library with a condition variable.
macro_rules! each {
    ($run:ident, $primitive:ident, $glibc:ty, $abseil:ty) => {
        vec![
            ("convoy", $run::<library::convoy::$primitive> as fn(Cell) -> Run),
            ("std", $run::<library::standard::$primitive>),
            ("parking_lot", $run::<library::parking_lot::$primitive>),
            ("usync", $run::<library::usync::$primitive>),
            ("glibc", $run::<$glibc>),
            #[cfg(abseil)]
            ("abseil", $run::<$abseil>),
        ]
    };
    ($run:ident, RwLock) => {
        each!($run, RwLock, library::GlibcRwLock, library::AbseilRwLock)
    };
    ($run:ident, Monitor) => {
        each!($run, Monitor, Beside<library::GlibcMonitor>, Beside<library::AbseilMonitor>)
    };
    ($run:ident, Once) => {
        each!($run, Once, library::GlibcOnce, library::AbseilOnce)
    };
}

fn primitives() -> Vec<Primitive> {
    vec![
        ("rwlock, 1 of 16 writes", false, each!(reading, RwLock)),
        ("rwlock, all write", false, each!(writing, RwLock)),
        (
            "semaphore of 2",
            false,
            vec![
                ("convoy", semaphore::<convoy_sync::Semaphore>),
                ("std", semaphore::<Counted<library::standard::Monitor>>),
                ("parking_lot", semaphore::<Counted<library::parking_lot::Monitor>>),
                ("usync", semaphore::<Counted<library::usync::Monitor>>),
                ("glibc", semaphore::<library::GlibcSemaphore>),
                ("libstdc++", semaphore::<library::StdcxxSemaphore>),
                #[cfg(abseil)]
                ("abseil", semaphore::<Counted<Beside<library::AbseilMonitor>>>),
            ],
        ),
        ("notify one", true, each!(notify_one, Monitor)),
        ("notify all", true, each!(notify_all, Monitor)),
        ("queue of 16", true, each!(queue, Monitor)),
        ("once, first calls", true, each!(once, Once)),
        ("once, done", false, each!(done, Once)),
        (
            "barrier",
            true,
            vec![
                ("convoy", barrier::<convoy_sync::Barrier>),
                ("std", barrier::<std::sync::Barrier>),
                ("glibc", barrier::<library::GlibcBarrier>),
                ("libstdc++", barrier::<library::StdcxxBarrier>),
            ],
        ),
        (
            "async mutex",
            true,
            vec![
                ("convoy", convoy_tasks),
                ("tokio", tokio_tasks),
                ("async-lock", async_lock_tasks),
            ],
        ),
    ]
}

fn cells(name: &str) -> Vec<Cell> {
    let sections =
        |threads| if threads == 1 || name == "once, done" { vec![0] } else { vec![100, 10_000] };
    let threads = if name == "once, done" { vec![1, 2] } else { vec![1, 2, 4, 64] };
    let each = threads.into_iter().flat_map(|threads| {
        sections(threads).into_iter().map(move |section_ns| Cell {
            threads,
            section_ns,
            steps: None,
        })
    });
    each.collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Prints one row. Returns whether some library is faster by more than a tenth.
fn print(name: &str, cell: Cell, subjects: &[Subject], rounds: &[Vec<Run>]) -> bool {
    let ratios =
        |of: usize| median(rounds.iter().map(|runs| runs[0].per_s / runs[of].per_s).collect());
    let ours = median(rounds.iter().map(|runs| runs[0].per_s).collect()) / 1e3;
    let mut row = format!("| {name} | {} | {} | {ours:.0} |", cell.threads, cell.section_ns);
    let mut least = f64::MAX;
    for library in &LIBRARIES[1..] {
        let column = subjects.iter().position(|(subject, _)| subject == library);
        let ratio = column.map(ratios);
        least = least.min(ratio.unwrap_or(least));
        row += &ratio.map_or(" – |".into(), |ratio| format!(" {ratio:.2} |"));
    }
    let fastest = |runs: &[Run]| {
        let peers = runs[1..].iter().max_by(|a, b| a.per_s.total_cmp(&b.per_s));
        runs[0].cpu_ns / peers.expect("a peer").cpu_ns
    };
    let cpu = median(rounds.iter().map(|runs| fastest(runs)).collect());
    println!("{row} {cpu:.2} |");
    least < 0.9
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.first().map_or(3, |word| word.parse().expect("usage: [ROUNDS [WORD...]]"));
    println!(
        "| primitive | threads | section, ns | k/s | {} | CPU time |",
        LIBRARIES[1..].join(" | ")
    );
    println!("{}|", "|---".repeat(LIBRARIES.len() + 4));
    let (mut behind, mut total) = (0, 0);
    for (name, together, subjects) in primitives() {
        if words.len() > 1 && !words[1..].iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        for cell in cells(name) {
            let cell = if together { cell.calibrated(subjects[0].1) } else { cell };
            let runs: Vec<Vec<Run>> =
                (0..rounds).map(|_| subjects.iter().map(|(_, run)| run(cell)).collect()).collect();
            behind += u32::from(print(name, cell, &subjects, &runs));
            total += 1;
        }
    }
    println!("\n{behind} of {total} cells are behind a peer by more than a tenth.");
}
