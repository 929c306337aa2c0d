//! Pages of 4 KiB from the arena and from other allocators, in interleaved rounds of one run:
//! `cargo bench -p convoy-mm --features peers --bench arena -- rounds=5 only=arena,mimalloc`.
//!
//! *Repeat*: allocate a page, free it. *Bulk*: allocate 512, free them in that order. *Random*:
//! free them in another order. The pages are not written. `M/s` is millions of pairs per second of
//! all threads together, `M/CPU s` millions per second of CPU time, which depends less on other
//! programs; `min/max` is the ratio of the slowest to the fastest thread, and `own` the same ratio
//! for their rates without the time in which they waited for a CPU (run delay of
//! `/proc/thread-self/schedstat`). A thread that sleeps for another one's lock loses in both; one
//! to which the scheduler gives no CPU loses in the first only. Each number is the median of its
//! rounds; one of 64 threads takes `seconds=3`, and has to take longer where other programs run.
//! Without the feature `peers` only the arena and the system's allocator run, so that other builds
//! do not compile the rest.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use convoy_mm::{Arena, Cache, PAGE_BYTES};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Pages that a thread holds together in bulk and random.
const HELD: usize = 512;
/// Pages of the arena and of the buddy heap: 64 threads hold 32,768.
const PAGES: u32 = 1 << 17;
const THREADS: [usize; 3] = [1, 2, 64];
/// How long a round of a cell with 1 or 2 threads runs.
const LENGTH: Duration = Duration::from_millis(300);

type Page = NonNull<u8>;

/// An allocator as one thread sees it.
trait Pages {
    fn take(&self) -> Page;
    fn give(&self, page: Page);
}

impl Pages for Cache<'_> {
    #[inline]
    fn take(&self) -> Page {
        self.allocate().expect("the arena is large")
    }
    #[inline]
    fn give(&self, page: Page) {
        self.free(page);
    }
}

/// The arena through the lists of the CPUs.
impl Pages for &Arena {
    #[inline]
    fn take(&self) -> Page {
        self.allocate().expect("the arena is large")
    }
    #[inline]
    fn give(&self, page: Page) {
        self.free(page);
    }
}

/// An allocator of the standard library's kind.
struct Global<'a, A>(&'a A);

const LAYOUT: Layout = match Layout::from_size_align(PAGE_BYTES, PAGE_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a page is a power of two"),
};

impl<A: GlobalAlloc> Pages for Global<'_, A> {
    #[inline]
    fn take(&self) -> Page {
        // SAFETY: the layout has a size.
        NonNull::new(unsafe { self.0.alloc(LAYOUT) }).expect("memory is large")
    }
    #[inline]
    fn give(&self, page: Page) {
        // SAFETY: this allocator returned it, with that layout.
        unsafe { self.0.dealloc(page.as_ptr(), LAYOUT) };
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Pattern {
    Repeat,
    Bulk,
    Random,
}

/// A cell of the table.
#[derive(Clone, Copy)]
struct Load {
    threads: usize,
    length: Duration,
    pattern: Pattern,
}

/// The result of one thread.
struct Done {
    pairs: u64,
    cpu_s: f64,
    /// Time in which it did not wait for a CPU: it ran, or it slept.
    own_s: f64,
}

impl Done {
    /// Pairs per second of the thread's own time; `None` if that is shorter than a time slice or
    /// two.
    fn own_rate(&self) -> Option<f64> {
        (self.own_s > 0.01).then(|| self.pairs as f64 / self.own_s)
    }
}

/// Seconds that this thread has waited for a CPU; 0 where the system does not count them.
fn waited_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).map_or(0.0, |ns: f64| ns / 1e9)
}

/// CPU time of this thread, s.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// One to 512 in an order that no allocator would choose.
fn shuffled(seed: usize) -> Vec<usize> {
    let mut random = 0x2007_u64 + seed as u64;
    let mut order: Vec<usize> = (0..HELD).collect();
    for at in (1..HELD).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(at, random as usize % (at + 1));
    }
    order
}

fn work(pages: &impl Pages, pattern: Pattern, seed: usize, stop: &AtomicBool) -> Done {
    let (mut pairs, started, waited, at) = (0, cpu_s(), waited_s(), Instant::now());
    let mut held = vec![NonNull::dangling(); HELD];
    let order = shuffled(seed);
    while !stop.load(Relaxed) {
        if pattern == Pattern::Repeat {
            for _ in 0..HELD {
                pages.give(black_box(pages.take()));
            }
        } else {
            for slot in &mut held {
                *slot = pages.take();
            }
            if pattern == Pattern::Bulk {
                for &page in black_box(&held) {
                    pages.give(page);
                }
            } else {
                for &at in &order {
                    pages.give(held[at]);
                }
            }
        }
        pairs += HELD as u64;
    }
    let own_s = at.elapsed().as_secs_f64() - (waited_s() - waited);
    Done { pairs, cpu_s: cpu_s() - started, own_s }
}

/// The measurement of one round of a cell.
#[derive(Clone, Copy, Default)]
struct Round {
    real: f64,
    cpu: f64,
    fair: f64,
    own: f64,
}

/// One round of `load`, each thread on what `of` makes for it.
fn round<P: Pages>(load: Load, of: impl Fn() -> P + Sync) -> Round {
    let Load { threads, length, pattern } = load;
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    std::thread::scope(|scope| {
        let (of, stop, ready) = (&of, &stop, &ready);
        let threads: Vec<_> = (0..threads)
            .map(|seed| {
                scope.spawn(move || {
                    let pages = of();
                    ready.wait();
                    work(&pages, pattern, seed, stop)
                })
            })
            .collect();
        ready.wait();
        let started = Instant::now();
        std::thread::sleep(length);
        stop.store(true, Relaxed);
        let done: Vec<Done> =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let real_s = started.elapsed().as_secs_f64();
        let counts = || done.iter().map(|done| done.pairs);
        let rates = || done.iter().filter_map(Done::own_rate);
        let slowest = rates().min_by(f64::total_cmp).unwrap_or(0.0);
        let pairs = counts().sum::<u64>() as f64 / 1e6;
        Round {
            real: pairs / real_s,
            cpu: pairs / done.iter().map(|done| done.cpu_s).sum::<f64>(),
            fair: counts().min().unwrap_or(0) as f64 / counts().max().unwrap_or(1).max(1) as f64,
            own: slowest / rates().max_by(f64::total_cmp).unwrap_or(1.0),
        }
    })
}

type Run<'a> = Box<dyn Fn(Load) -> Round + 'a>;

fn global<A: GlobalAlloc + Sync>(allocator: &A) -> Run<'_> {
    Box::new(move |load| round(load, || Global(allocator)))
}

/// Memory for a heap that does not allocate its own: the pages of a separate arena.
#[cfg(feature = "peers")]
fn buddy_heap() -> buddy_system_allocator::LockedHeap<32> {
    let heap = buddy_system_allocator::LockedHeap::empty();
    let memory = vec![0_u8; PAGES as usize * PAGE_BYTES].leak();
    // SAFETY: the heap is the only user of that memory, which is never freed.
    unsafe { heap.lock().init(memory.as_mut_ptr().addr(), memory.len()) };
    heap
}

fn main() {
    let (mut rounds, mut seconds, mut only) = (3, 3, Vec::new());
    for argument in std::env::args().skip(1) {
        if let Some(value) = argument.strip_prefix("rounds=") {
            rounds = value.parse().expect("rounds=NUMBER");
        } else if let Some(value) = argument.strip_prefix("seconds=") {
            seconds = value.parse().expect("seconds=NUMBER");
        } else if let Some(value) = argument.strip_prefix("only=") {
            only = value.split(',').map(str::to_owned).collect();
        }
    }
    let arena = Arena::new(PAGES).expect("half a gigabyte of addresses");
    #[cfg(feature = "peers")]
    let heap = buddy_heap();
    let peers: Vec<(&str, Run<'_>)> = vec![
        ("arena", Box::new(|load| round(load, || arena.cache()))),
        ("arena, CPU lists", Box::new(|load| round(load, || &arena))),
        #[cfg(feature = "peers")]
        ("buddy_system", global(&heap)),
        #[cfg(feature = "peers")]
        ("mimalloc", global(&mimalloc::MiMalloc)),
        #[cfg(feature = "peers")]
        ("jemalloc", global(&tikv_jemallocator::Jemalloc)),
        ("system", global(&System)),
    ];
    let peers: Vec<_> = peers
        .into_iter()
        .filter(|(name, _)| only.is_empty() || only.iter().any(|one| one == name))
        .collect();
    for (name, pattern) in
        [("repeat", Pattern::Repeat), ("bulk", Pattern::Bulk), ("random", Pattern::Random)]
    {
        println!("\n{name:<18} threads       M/s   M/CPU s   min/max       own");
        for threads in THREADS {
            // Until each of 64 has had several time slices, its share is the scheduler's doing.
            let length = if threads > 2 { Duration::from_secs(seconds) } else { LENGTH };
            table(&peers, Load { threads, length, pattern }, rounds);
        }
    }
}

/// Measures all peers in turn, `rounds` times.
fn table(peers: &[(&str, Run<'_>)], load: Load, rounds: usize) {
    let mut cells = vec![Vec::new(); peers.len()];
    for _ in 0..rounds {
        for ((_, run), cell) in peers.iter().zip(&mut cells) {
            cell.push(run(load));
        }
    }
    for ((peer, _), cell) in peers.iter().zip(&cells) {
        let median = |of: fn(&Round) -> f64| {
            let mut values: Vec<f64> = cell.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (real, cpu) = (median(|round| round.real), median(|round| round.cpu));
        let (fair, own) = (median(|round| round.fair), median(|round| round.own));
        let threads = load.threads;
        println!("{peer:<18} {threads:>7} {real:>9.2} {cpu:>9.2} {fair:>9.2} {own:>9.2}");
    }
}
