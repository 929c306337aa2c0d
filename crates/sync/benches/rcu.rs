//! RCU for threads compared with other libraries, in interleaved rounds of one run:
//! `cargo bench -p convoy-sync --bench rcu -- rounds=3 only=ours,urcu-memb`.
//!
//! *Reader*: ns per critical section that reads one value, measured alone. *Grace period*: latency
//! of calls 50 µs apart while one thread reads continuously. *Sparse*: one callback per
//! millisecond, from when it is queued until it runs. *Flood*: 64 threads free what they allocate
//! at full speed. liburcu is loaded if it is installed (`apt install liburcu8`), so its readers are
//! function calls, not inlined; `epoch`, `seize` and `haphazard` cannot wait for a grace period.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use convoy_sync::rcu::user as rcu;
use convoy_sync::{Native, Platform};
use std::ffi::CString;
use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Threads of a flood, and its length.
const FLOOD: (u32, Duration) = (64, Duration::from_millis(500));
/// Sparse callbacks.
const SPARSE: u64 = 300;
const CALLS: usize = 1000;

/// On a separate cache line.
#[repr(align(128))]
struct Apart<T>(T);

static MADE: Apart<AtomicU64> = Apart(AtomicU64::new(0));
static FREED: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// The current measurement. Nodes that an earlier one left behind are not counted.
static RUN: AtomicU64 = AtomicU64::new(0);
static DELAYS: Mutex<Vec<f64>> = Mutex::new(Vec::new());

/// An object to free. When dropped it records its delay if it has a time `queued`.
struct Node {
    queued: u64,
    run: u64,
    _load: [u64; 2],
}

impl Node {
    fn new(queued: u64) -> Self {
        MADE.0.fetch_add(1, Relaxed);
        Self { queued, run: RUN.load(Relaxed), _load: [0; 2] }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.run != RUN.load(Relaxed) {
            return;
        }
        FREED.0.fetch_add(1, Relaxed);
        if self.queued != 0 {
            DELAYS.lock().expect("no panic").push((Native::now() - self.queued) as f64 / 1e3);
        }
    }
}

/// A way to read and to free. Its value is the state that a thread needs.
trait Peer: Sized {
    /// Returns whether it can wait for a grace period, or `None` if the library is not installed.
    fn waits() -> Option<bool> {
        Some(false)
    }
    fn join() -> Self;
    fn section(&mut self) -> u64;
    fn free(&mut self, node: Node);
    fn synchronize() {}
    /// Runs between two critical sections, or instead of them.
    fn rest(&mut self) {}
}

static VALUE: AtomicPtr<u64> = AtomicPtr::new((&raw const ONE).cast_mut());
static ONE: u64 = 1;

fn look() -> u64 {
    // SAFETY: the value is never replaced.
    unsafe { *VALUE.load(Acquire) }
}

struct Ours(rcu::Registered);

impl Peer for Ours {
    fn waits() -> Option<bool> {
        Some(true)
    }
    fn join() -> Self {
        Self(rcu::register())
    }
    #[inline]
    fn section(&mut self) -> u64 {
        let _section = rcu::read();
        look()
    }
    fn free(&mut self, node: Node) {
        rcu::free(Box::new(node));
    }
    fn synchronize() {
        rcu::synchronize();
    }
}

/// Says that it is quiescent after each section.
struct OursQuiescent(rcu::Quiescent);

impl Peer for OursQuiescent {
    fn waits() -> Option<bool> {
        Some(true)
    }
    fn join() -> Self {
        Self(rcu::register_quiescent())
    }
    #[inline]
    fn section(&mut self) -> u64 {
        let value = look();
        self.0.quiescent();
        value
    }
    fn free(&mut self, node: Node) {
        // Offline, because a quiescent reader does not wait for space.
        self.0.offline(|| rcu::free(Box::new(node)));
    }
    fn synchronize() {
        rcu::synchronize();
    }
    fn rest(&mut self) {
        self.0.offline(|| std::thread::sleep(Duration::from_millis(1)));
    }
}

type Call = unsafe extern "C" fn(*mut Headed, unsafe extern "C" fn(*mut Headed));

/// Functions of a flavour of liburcu.
struct Flavour {
    lock: unsafe extern "C" fn(),
    unlock: unsafe extern "C" fn(),
    register: unsafe extern "C" fn(),
    unregister: Option<unsafe extern "C" fn()>,
    synchronize: unsafe extern "C" fn(),
    call: Call,
    quiescent: Option<unsafe extern "C" fn()>,
}

/// A node behind what liburcu calls `rcu_head`.
#[repr(C)]
struct Headed {
    head: [usize; 2],
    node: Node,
}

/// # Safety
///
/// `headed` is a box.
unsafe extern "C" fn free_headed(headed: *mut Headed) {
    // SAFETY: as demanded.
    drop(unsafe { Box::from_raw(headed) });
}

const FLAVOURS: [&str; 4] = ["memb", "mb", "bp", "qsbr"];

fn flavour(number: usize) -> Option<&'static Flavour> {
    static LOADED: [OnceLock<Option<Flavour>>; 4] = [const { OnceLock::new() }; 4];
    let load = || {
        let name = FLAVOURS[number];
        let file = CString::new(format!("liburcu-{name}.so.8")).expect("no zero");
        // SAFETY: the library's initialisers are safe to run.
        let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let symbol = |function: &str| {
            let symbol = CString::new(format!("urcu_{name}_{function}")).expect("no zero");
            // SAFETY: the library is loaded.
            let found = unsafe { libc::dlsym(library, symbol.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        let plain = |function: &str| {
            // SAFETY: these take and return nothing, by `urcu/urcu-*.h`.
            symbol(function).map(|it| unsafe {
                std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn()>(it)
            })
        };
        Some(Flavour {
            lock: plain("read_lock")?,
            unlock: plain("read_unlock")?,
            register: plain("register_thread")?,
            unregister: plain("unregister_thread"),
            synchronize: plain("synchronize_rcu")?,
            // SAFETY: it takes a head and a function of it.
            call: unsafe { std::mem::transmute::<*mut libc::c_void, Call>(symbol("call_rcu")?) },
            quiescent: plain("quiescent_state"),
        })
    };
    LOADED[number].get_or_init(load).as_ref()
}

/// liburcu, of the flavour number `F`.
struct Urcu<const F: usize>(&'static Flavour);

impl<const F: usize> Peer for Urcu<F> {
    fn waits() -> Option<bool> {
        flavour(F).map(|_| true)
    }
    fn join() -> Self {
        let flavour = flavour(F).expect("asked for before");
        // SAFETY: once for each thread.
        unsafe { (flavour.register)() };
        Self(flavour)
    }
    #[inline]
    fn section(&mut self) -> u64 {
        // SAFETY: this thread is registered.
        unsafe { (self.0.lock)() };
        let value = look();
        // SAFETY: it is in a section.
        unsafe { (self.0.unlock)() };
        self.rest();
        value
    }
    fn free(&mut self, node: Node) {
        let headed = Box::into_raw(Box::new(Headed { head: [0; 2], node }));
        // SAFETY: the head is this callback's until it runs.
        unsafe { (self.0.call)(headed, free_headed) };
        self.rest();
    }
    fn synchronize() {
        // SAFETY: this thread is in no section.
        unsafe { (flavour(F).expect("asked for before").synchronize)() };
    }
    #[inline]
    fn rest(&mut self) {
        if let Some(quiescent) = self.0.quiescent {
            // SAFETY: this thread is registered and holds no references.
            unsafe { quiescent() };
        }
    }
}

impl<const F: usize> Drop for Urcu<F> {
    fn drop(&mut self) {
        if let Some(unregister) = self.0.unregister {
            // SAFETY: as registered in `join`.
            unsafe { unregister() };
        }
    }
}

struct Epoch;

impl Peer for Epoch {
    fn join() -> Self {
        Self
    }
    #[inline]
    fn section(&mut self) -> u64 {
        let _guard = crossbeam_epoch::pin();
        look()
    }
    fn free(&mut self, node: Node) {
        crossbeam_epoch::pin().defer(move || drop(Box::new(node)));
    }
}

struct Seize;

fn collector() -> &'static seize::Collector {
    static COLLECTOR: OnceLock<seize::Collector> = OnceLock::new();
    COLLECTOR.get_or_init(seize::Collector::new)
}

impl Peer for Seize {
    fn join() -> Self {
        Self
    }
    #[inline]
    fn section(&mut self) -> u64 {
        let guard = collector().enter();
        let value = seize::Guard::protect(&guard, &VALUE, Acquire);
        // SAFETY: the value is never replaced.
        unsafe { *value }
    }
    fn free(&mut self, node: Node) {
        let node = Box::into_raw(Box::new(node));
        // SAFETY: no other thread has the node.
        unsafe { collector().retire(node, seize::reclaim::boxed) };
    }
}

struct Haphazard(haphazard::HazardPointer<'static>);

impl Peer for Haphazard {
    fn join() -> Self {
        Self(haphazard::HazardPointer::new())
    }
    #[inline]
    fn section(&mut self) -> u64 {
        static HERE: OnceLock<haphazard::AtomicPtr<u64>> = OnceLock::new();
        let here = HERE.get_or_init(|| haphazard::AtomicPtr::from(Box::new(1)));
        here.safe_load(&mut self.0).map_or(0, |value| *value)
    }
    fn free(&mut self, node: Node) {
        let node = Box::into_raw(Box::new(node));
        // SAFETY: no other thread has the node.
        unsafe { haphazard::Domain::global().retire_ptr::<_, Box<Node>>(node) };
    }
}

fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Nanoseconds of a section, the fastest of many runs.
fn reader<P: Peer>() -> Vec<f64> {
    const SECTIONS: u32 = 1000;
    let mut peer = P::join();
    let mut run = || {
        let start = Native::now();
        (0..SECTIONS).for_each(|_| _ = black_box(peer.section()));
        (Native::now() - start) as f64 / f64::from(SECTIONS)
    };
    vec![(0..400).map(|_| run()).fold(f64::INFINITY, f64::min)]
}

fn spin(ns: u64) {
    let end = Native::now() + ns;
    while Native::now() < end {}
}

/// Latency of grace periods while a thread reads continuously, in µs: the median and the 99th
/// percentile.
fn grace<P: Peer>() -> Vec<f64> {
    let over = AtomicBool::new(false);
    let mut delays = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = P::join();
            while !over.load(Relaxed) {
                black_box(peer.section());
            }
        });
        std::thread::sleep(Duration::from_millis(5));
        let wait = |_| {
            spin(50_000);
            let start = Native::now();
            P::synchronize();
            (Native::now() - start) as f64 / 1e3
        };
        let delays: Vec<f64> = (0..CALLS).map(wait).collect();
        over.store(true, Relaxed);
        delays
    });
    vec![percentile(&mut delays, 0.5), percentile(&mut delays, 0.99)]
}

/// Sparse callbacks, in µs: the median, the 99th percentile, and how many have not run.
fn sparse<P: Peer>() -> Vec<f64> {
    DELAYS.lock().expect("no panic").clear();
    let mut peer = P::join();
    for _ in 0..SPARSE {
        peer.free(Node::new(Native::now()));
        peer.rest();
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..100 {
        peer.rest();
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut delays = DELAYS.lock().expect("no panic").clone();
    let left = SPARSE - delays.len() as u64;
    drop(peer);
    vec![percentile(&mut delays, 0.5), percentile(&mut delays, 0.99), left as f64]
}

/// A flood: frees in a µs, and the most that waited.
fn flood<P: Peer>() -> Vec<f64> {
    MADE.0.store(0, Relaxed);
    FREED.0.store(0, Relaxed);
    let (over, mut most) = (AtomicBool::new(false), 0);
    let start = Native::now();
    let rate = std::thread::scope(|scope| {
        for _ in 0..FLOOD.0 {
            scope.spawn(|| {
                let mut peer = P::join();
                while !over.load(Relaxed) {
                    peer.free(Node::new(0));
                }
            });
        }
        while Native::now() - start < FLOOD.1.as_nanos() as u64 {
            std::thread::sleep(Duration::from_millis(1));
            let freed = FREED.0.load(Relaxed);
            most = most.max(MADE.0.load(Relaxed) - freed);
        }
        let rate = FREED.0.load(Relaxed) as f64 * 1e3 / (Native::now() - start) as f64;
        over.store(true, Relaxed);
        rate
    });
    vec![rate, most as f64]
}

/// A name, whether it is here and can wait, and the measurements.
type Entry = (&'static str, fn() -> Option<bool>, [fn() -> Vec<f64>; 4]);

const fn entry<P: Peer>(name: &'static str) -> Entry {
    (name, P::waits, [reader::<P>, grace::<P>, sparse::<P>, flood::<P>])
}

const PEERS: [Entry; 9] = [
    entry::<Ours>("ours"),
    entry::<OursQuiescent>("ours-quiescent"),
    entry::<Urcu<0>>("urcu-memb"),
    entry::<Urcu<1>>("urcu-mb"),
    entry::<Urcu<2>>("urcu-bp"),
    entry::<Urcu<3>>("urcu-qsbr"),
    entry::<Epoch>("epoch"),
    entry::<Seize>("seize"),
    entry::<Haphazard>("haphazard"),
];

const TESTS: [(&str, &[&str]); 4] = [
    ("reader", &["ns"]),
    ("grace period beside a reader", &["p50 us", "p99 us"]),
    ("sparse callbacks", &["p50 us", "p99 us", "never run"]),
    ("flood by 64 threads", &["M/s", "most that waited"]),
];

fn setting(name: &str) -> Option<String> {
    std::env::args().find_map(|word| Some(word.strip_prefix(name)?.to_owned()))
}

fn main() {
    let only = setting("only=");
    let asked = |name| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name));
    let rounds = setting("rounds=").map_or(3, |text| text.parse().expect("a number"));
    for (number, (test, columns)) in TESTS.into_iter().enumerate() {
        println!("{test}: {}", columns.join(", "));
        let mut found = vec![Vec::new(); PEERS.len()];
        for _ in 0..rounds {
            for (peer, found) in PEERS.iter().zip(&mut found) {
                let here = peer.1().is_some_and(|waits| waits || number != 1);
                if asked(peer.0) && here {
                    RUN.fetch_add(1, Relaxed);
                    found.push(peer.2[number]());
                }
            }
        }
        for ((name, waits, _), found) in PEERS.iter().zip(found) {
            let column = |index: usize| {
                let mut values: Vec<f64> = found.iter().map(|row| row[index]).collect();
                format!("{:12.2}", percentile(&mut values, 0.5))
            };
            match (found.is_empty(), waits()) {
                (false, _) => {
                    let row: String = (0..columns.len()).map(column).collect();
                    println!("  {name:16}{row}");
                }
                (true, None) => println!("  {name:16} not installed"),
                (true, _) => println!("  {name:16} -"),
            }
        }
    }
}
