//! Our mutex beside those of others, in interleaved rounds of one run:
//! `cargo bench -p convoy-sync --bench peers -- cpus=1,2 section=100,1000,10000 threads=2,16,2000`.
//!
//! Threads loop: 1 us of work, take the lock, work in the section, give it back. A ratio is that to
//! the fastest peer of the same round, because other programs use the machine, too. A wait that has
//! not ended when the window closes counts as if it ended there. Other settings: `rounds=5`,
//! `only=ours,std`, `outside=NS`, `warmup=MS`, `window=MS`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use convoy_sync::{Native, NoSpin, Platform, RawSemaphore, Sleep, kernel};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A mutex without data.
trait Peer: Sync {
    fn free() -> Self;
    fn with(&self, section: impl FnOnce());
}

macro_rules! peers {
    ($($name:ident = $mutex:ty, $new:expr, |$lock:ident, $section:ident| $with:block)+) => {
        $(struct $name($mutex);
        impl Peer for $name {
            fn free() -> Self {
                Self($new)
            }
            #[inline]
            fn with(&self, $section: impl FnOnce()) {
                let $lock = &self.0;
                $with
            }
        })+
    };
}

peers! {
    Ours = convoy_sync::Mutex<()>, convoy_sync::Mutex::new(()), |lock, section| {
        let _guard = lock.lock();
        section();
    }
    Kernel = kernel::Mutex<Native, NoSpin, convoy_sync::AdaptiveLock<Native>>,
        kernel::Mutex::native(), |lock, section| {
        lock.lock();
        section();
        lock.unlock();
    }
    Opportunistic = convoy_sync::NativeSemaphore, RawSemaphore::with_count(1), |lock, section| {
        lock.down();
        section();
        lock.up();
    }
    Std = std::sync::Mutex<()>, std::sync::Mutex::new(()), |lock, section| {
        let _guard = lock.lock();
        section();
    }
    ParkingLot = parking_lot::Mutex<()>, parking_lot::Mutex::new(()), |lock, section| {
        let _guard = lock.lock();
        section();
    }
    Usync = usync::Mutex<()>, usync::Mutex::new(()), |lock, section| {
        let _guard = lock.lock();
        section();
    }
}

/// The mutex of the C library, of the kind `KIND`.
struct Pthread<const KIND: i32>(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: the mutex is made to be shared.
unsafe impl<const KIND: i32> Sync for Pthread<KIND> {}

impl<const KIND: i32> Peer for Pthread<KIND> {
    fn free() -> Self {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut kind = std::mem::MaybeUninit::uninit();
        // SAFETY: it initialises what it is given.
        unsafe { libc::pthread_mutexattr_init(kind.as_mut_ptr()) };
        // SAFETY: as initialised above.
        unsafe { libc::pthread_mutexattr_settype(kind.as_mut_ptr(), KIND) };
        // SAFETY: nobody else uses the mutex yet.
        unsafe { libc::pthread_mutex_init(mutex.get(), kind.as_ptr()) };
        Self(mutex)
    }
    #[inline]
    fn with(&self, section: impl FnOnce()) {
        // SAFETY: the mutex is initialised and does not move.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        section();
        // SAFETY: this thread has it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// The kind of glibc that sleeps at once.
const NORMAL: i32 = libc::PTHREAD_MUTEX_NORMAL;

/// The kind of glibc that spins before it sleeps, `PTHREAD_MUTEX_ADAPTIVE_NP`.
const ADAPTIVE: i32 = 3;

/// What to run.
#[derive(Clone, Copy)]
struct Plan {
    cpus: usize,
    threads: u32,
    section_steps: u32,
    outside_steps: u32,
    warmup_ms: u64,
    window_ms: u64,
}

/// What it gave.
#[derive(Clone, Copy, Default)]
struct Found {
    per_ms: f64,
    cpu_ns: f64,
    jain: f64,
    starved: f64,
    longest_ms: f64,
}

const WARMUP: u32 = 1;
const WINDOW: u32 = 2;
const OVER: u32 = 3;

/// On lines of their own: the lock, the word under it, and what is only read.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared<L> {
    lock: Apart<L>,
    word: Apart<AtomicU64>,
    phase: Apart<AtomicU32>,
    end: AtomicU64,
    ready: Apart<AtomicU32>,
}

/// Work that neither the compiler nor the CPU can shorten.
#[inline]
fn churn(mut value: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        value = value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (value >> 29);
    }
    value
}

impl<L: Peer> Shared<L> {
    /// One thread: its sections in the window and its longest wait, in nanoseconds.
    fn body(&self, plan: &Plan) -> (u64, u64) {
        let (mut sections, mut longest, mut mine, mut over) = (0, 0, 1, false);
        self.ready.0.fetch_add(1, Relaxed);
        while self.phase.0.load(Acquire) == 0 {
            Native::wait(&self.phase.0, 0, Sleep::Uninterruptible, None);
        }
        while !over {
            mine = churn(mine, plan.outside_steps);
            let asked = Native::now();
            self.lock.0.with(|| {
                let got = Native::now();
                let phase = self.phase.0.load(Acquire);
                over = phase == OVER;
                if over {
                    longest = longest.max(self.end.load(Relaxed).saturating_sub(asked));
                    return;
                }
                let word = &self.word.0;
                word.store(churn(word.load(Relaxed), plan.section_steps), Relaxed);
                if phase == WINDOW {
                    sections += 1;
                    longest = longest.max(got - asked);
                }
            });
        }
        black_box(mine);
        (sections, longest)
    }
}

/// CPU time of this process, in nanoseconds.
fn cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write of one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Keeps this thread, and those that it starts, to the first CPUs.
fn keep_to(cpus: usize) {
    // SAFETY: a set of CPUs is plain data, and all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is large enough for every CPU that there is.
    (0..cpus).for_each(|cpu| unsafe { libc::CPU_SET(cpu, &mut set) });
    // SAFETY: `set` is valid for the call, which only reads it.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

fn measure<L: Peer>(plan: &Plan) -> Found {
    keep_to(plan.cpus);
    let shared = Shared {
        lock: Apart(L::free()),
        word: Apart(AtomicU64::new(1)),
        phase: Apart(AtomicU32::new(0)),
        end: AtomicU64::new(0),
        ready: Apart(AtomicU32::new(0)),
    };
    let sleep = |ms| std::thread::sleep(Duration::from_millis(ms));
    let (traces, window_ms, cpu_ns) = std::thread::scope(|scope| {
        let start = |_| {
            let builder = std::thread::Builder::new().stack_size(64 << 10);
            builder.spawn_scoped(scope, || shared.body(plan)).expect("see `ulimit -u`")
        };
        let threads: Vec<_> = (0..plan.threads).map(start).collect();
        while shared.ready.0.load(Relaxed) < plan.threads {
            sleep(1);
        }
        shared.phase.0.store(WARMUP, Release);
        Native::wake(&raw const shared.phase.0, usize::MAX);
        sleep(plan.warmup_ms);
        let (begin, cpu) = (Native::now(), cpu_ns());
        shared.phase.0.store(WINDOW, Relaxed);
        sleep(plan.window_ms);
        let (end, cpu) = (Native::now(), cpu_ns() - cpu);
        shared.end.store(end, Relaxed);
        shared.phase.0.store(OVER, Release);
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        let traces: Vec<(u64, u64)> = threads.into_iter().map(join).collect();
        (traces, (end - begin) as f64 / 1e6, cpu)
    });
    let sections: u64 = traces.iter().map(|trace| trace.0).sum();
    let squares: f64 = traces.iter().map(|trace| (trace.0 as f64).powi(2)).sum();
    let longest = traces.iter().map(|trace| trace.1).max();
    Found {
        per_ms: sections as f64 / window_ms,
        cpu_ns: cpu_ns / sections as f64,
        jain: (sections as f64).powi(2) / (traces.len() as f64 * squares),
        starved: traces.iter().filter(|trace| trace.0 == 0).count() as f64,
        longest_ms: longest.unwrap_or(0) as f64 / 1e6,
    }
}

/// Nanoseconds of one of `parts` parts of `body`, the fastest of many runs.
fn fastest(parts: u32, mut body: impl FnMut()) -> f64 {
    let run = |_| {
        let start = Native::now();
        body();
        (Native::now() - start) as f64 / f64::from(parts)
    };
    (0..40).map(run).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds to take a lock that nobody wants and to give it back.
fn alone<L: Peer>() -> f64 {
    const VISITS: u32 = 1000;
    let lock = Apart(L::free());
    fastest(VISITS, || (0..VISITS).for_each(|_| black_box(&lock.0).with(|| ())))
}

/// A lock and how it is measured: against others, and alone.
type Entry = (&'static str, fn(&Plan) -> Found, fn() -> f64);

const PEERS: [Entry; 8] = [
    ("ours", measure::<Ours>, alone::<Ours>),
    ("std", measure::<Std>, alone::<Std>),
    ("parking_lot", measure::<ParkingLot>, alone::<ParkingLot>),
    ("usync", measure::<Usync>, alone::<Usync>),
    ("pthread", measure::<Pthread<NORMAL>>, alone::<Pthread<NORMAL>>),
    ("pthread-adaptive", measure::<Pthread<ADAPTIVE>>, alone::<Pthread<ADAPTIVE>>),
    ("kernel-mutex", measure::<Kernel>, alone::<Kernel>),
    ("opportunistic", measure::<Opportunistic>, alone::<Opportunistic>),
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs each of `peers` in each round; a row for each. Ours are not among those compared with.
fn cell(peers: &[Entry], rounds: u64, plan: &Plan) {
    let round = |_| peers.iter().map(|peer| peer.1(plan)).collect::<Vec<_>>();
    let rounds: Vec<Vec<Found>> = (0..rounds).map(round).collect();
    let theirs =
        |index: &usize| !["ours", "kernel-mutex", "opportunistic"].contains(&peers[*index].0);
    for (index, (name, ..)) in peers.iter().enumerate() {
        let of = |value: fn(&Found) -> f64| -> Vec<f64> {
            rounds.iter().map(|all| value(&all[index])).collect()
        };
        let ratio = |all: &Vec<Found>| {
            let others = (0..peers.len()).filter(theirs).map(|other| all[other].per_ms);
            all[index].per_ms / others.fold(f64::MIN_POSITIVE, f64::max)
        };
        let most =
            rounds.iter().map(|all| all[index]).max_by(|a, b| a.starved.total_cmp(&b.starved));
        let most = most.expect("there is a round");
        println!(
            "  {name:16} {:6.0} /ms  {:5.2} of best  {:7.0} ns CPU  jain {:.3}  starved {:4.0} \
             (at most {:4.0}, with {:.2} CPUs)  longest {:6.1} ms",
            median(of(|found| found.per_ms)),
            median(rounds.iter().map(ratio).collect()),
            median(of(|found| found.cpu_ns)),
            median(of(|found| found.jain)),
            median(of(|found| found.starved)),
            most.starved,
            most.cpu_ns * most.per_ms / 1e6,
            median(of(|found| found.longest_ms)),
        );
    }
}

/// The numbers behind `name=`.
fn setting(name: &str, default: &[u64]) -> Vec<u64> {
    let given = std::env::args().find_map(|word| Some(word.strip_prefix(name)?.to_owned()));
    let parse = |word: &str| word.parse().expect("a list of numbers");
    given.map_or(default.to_vec(), |list| list.split(',').map(parse).collect())
}

fn main() {
    let only = std::env::args().find_map(|word| Some(word.strip_prefix("only=")?.to_owned()));
    let asked = |name| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name));
    let peers: Vec<_> = PEERS.into_iter().filter(|peer| asked(peer.0)).collect();
    let mut value = 1;
    let step = fastest(100_000, || value = churn(black_box(value), 100_000));
    let clock = fastest(1000, || {
        for _ in 0..1000 {
            black_box(Native::now());
        }
    });
    let steps = |ns: u64| ((ns as f64 - clock) / step).max(0.0) as u32;
    let one = |name, default| setting(name, &[default])[0];
    println!("nobody waits: ns to take the lock and to give it back");
    // With one thread the C library leaves its atomic instructions away.
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let second = std::thread::spawn(move || wait.recv());
    for (name, _, alone) in &peers {
        println!("  {name:16} {:6.2}", alone());
    }
    drop(end);
    let _ended = second.join();
    for cpus in setting("cpus=", &[2]) {
        for section in setting("section=", &[100, 1000, 10_000]) {
            for threads in setting("threads=", &[2, 4, 16, 64, 256, 2000]) {
                println!("{cpus} CPUs, sections of {section} ns, {threads} threads");
                let plan = Plan {
                    cpus: cpus as usize,
                    threads: threads as u32,
                    section_steps: steps(section),
                    outside_steps: steps(one("outside=", 1000)),
                    warmup_ms: one("warmup=", 150),
                    window_ms: one("window=", 300),
                };
                cell(&peers, one("rounds=", 3), &plan);
            }
        }
    }
}
