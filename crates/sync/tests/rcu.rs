//! RCU of threads: torture, misuse, bounds, reports.
//!
//! Torture takes a second, or six times `CONVOY_BUDGET`: ten minutes in `cargo xtask nightly`.

use convoy_sync::rcu::user as rcu;
use convoy_watchdog as _;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Objects that record when they are freed: a reader that finds an object not alive has found it
/// freed too early.
struct Pool {
    alive: Vec<AtomicBool>,
    present: AtomicUsize,
    stop: AtomicBool,
    sections: AtomicU64,
    freed: AtomicU64,
}

static POOL: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Pool {
    fn new() -> &'static Self {
        const OBJECTS: usize = 4096;
        *POOL.lock().unwrap() = (1..OBJECTS).collect();
        Box::leak(Box::new(Self {
            alive: (0..OBJECTS).map(|object| AtomicBool::new(object == 0)).collect(),
            present: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            sections: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }))
    }

    fn look(&self, looks: u32) {
        let object = self.present.load(Acquire);
        for _ in 0..looks {
            assert!(self.alive[object].load(Relaxed), "object {object} was freed during a section");
        }
        self.sections.fetch_add(1, Relaxed);
    }

    /// Puts another object in the place of the present one, which it returns.
    fn replace(&self) -> Option<usize> {
        let object = POOL.lock().unwrap().pop()?;
        self.alive[object].store(true, Relaxed);
        Some(self.present.swap(object, std::sync::atomic::Ordering::AcqRel))
    }

    fn free(&self, object: usize) {
        self.alive[object].store(false, Relaxed);
        POOL.lock().unwrap().push(object);
        self.freed.fetch_add(1, Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    fn read(&self, sleeps: bool) {
        let registered = rcu::register();
        while self.goes_on() {
            let section = rcu::read();
            self.look(if sleeps { 1 } else { 50 });
            if sleeps {
                std::thread::sleep(Duration::from_micros(300));
                let _inner = rcu::read();
                self.look(1);
            }
            drop(section);
        }
        drop(registered);
    }

    fn read_quiescent(&self) {
        let mut reader = rcu::register_quiescent();
        for number in 0_u32.. {
            if !self.goes_on() {
                return;
            }
            self.look(50);
            reader.quiescent();
            if number.is_multiple_of(1000) {
                reader.offline(|| std::thread::sleep(Duration::from_micros(100)));
            }
        }
    }

    /// Threads that come and go.
    fn come_and_go(&self) {
        while self.goes_on() {
            let visit = || {
                let _registered = rcu::register();
                for _ in 0..100 {
                    let _section = rcu::read();
                    self.look(5);
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(visit);
            });
        }
    }

    fn update(&'static self, way: usize) {
        while self.goes_on() {
            let Some(old) = self.replace() else { continue };
            match way {
                0 => rcu::synchronize(),
                1 => rcu::synchronize_expedited(),
                2 => {
                    let ticket = rcu::start_poll();
                    while !rcu::poll(ticket) {
                        std::thread::yield_now();
                    }
                }
                3 => {
                    rcu::call(move || self.free(old));
                    if old.is_multiple_of(64) {
                        let before = self.freed.load(Acquire);
                        rcu::barrier();
                        assert!(
                            self.freed.load(Acquire) > before || !self.alive[old].load(Relaxed)
                        );
                    }
                    continue;
                }
                _ => unreachable!(),
            }
            self.free(old);
        }
    }
}

#[test]
fn torture_frees_nothing_in_use() {
    let budget = std::env::var("CONVOY_BUDGET").ok();
    let seconds = budget.map_or(if cfg!(miri) { 0.01 } else { 1.0 }, |text| {
        text.parse::<f64>().expect("a factor") * 6.0
    });
    let pool = Pool::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| pool.read(false));
        }
        scope.spawn(|| pool.read(true));
        scope.spawn(|| pool.read_quiescent());
        scope.spawn(|| pool.come_and_go());
        for way in 0..4 {
            scope.spawn(move || pool.update(way));
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        pool.stop.store(true, Relaxed);
    });
    rcu::barrier();
    // An interpreter gets round to little in so short a time.
    let enough = if cfg!(miri) { 0 } else { 10 };
    assert!(pool.sections.load(Relaxed) > enough, "readers went on");
    assert!(pool.freed.load(Relaxed) >= enough, "updaters went on");
}

/// Returns the panic message of `body`, which runs in a separate thread.
fn panic_of(body: impl FnOnce() + Send) -> String {
    let ended = std::thread::scope(|scope| scope.spawn(body).join());
    let payload = ended.expect_err("it panics");
    let text = payload.downcast_ref::<String>().cloned();
    text.unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_owned())
}

#[test]
fn misuse_is_told_and_not_waited_for() {
    let unregistered = panic_of(|| drop(rcu::read()));
    assert!(unregistered.contains("has not registered: keep what rcu::user::register gives"));
    for (name, wait) in [
        ("synchronize", rcu::synchronize as fn()),
        ("synchronize_expedited", rcu::synchronize_expedited),
        ("barrier", rcu::barrier),
    ] {
        let inside = panic_of(|| {
            let _registered = rcu::register();
            let _section = rcu::read();
            wait();
        });
        assert!(inside.contains(&format!("{name} inside a reader section")), "{inside}");
        let quiescent = panic_of(|| {
            let _reader = rcu::register_quiescent();
            wait();
        });
        assert!(quiescent.contains("use Quiescent::offline"), "{quiescent}");
    }
    let left = panic_of(|| {
        let registered = rcu::register();
        let section = rcu::read();
        let left = catch_unwind(std::panic::AssertUnwindSafe(|| drop(registered)));
        drop(section);
        std::panic::resume_unwind(left.unwrap_err());
    });
    assert!(left.contains("left rcu::user inside a reader section"), "{left}");
    // None of them has left a section behind.
    rcu::synchronize();
}

#[test]
fn a_callback_that_waits_for_callbacks_panics_and_the_next_one_runs() {
    static RUN: AtomicU32 = AtomicU32::new(0);
    rcu::call(|| {
        let waits = catch_unwind(rcu::barrier);
        assert!(waits.is_err());
        RUN.fetch_add(1, Relaxed);
        panic!("to be told, and to harm nobody");
    });
    rcu::call(|| {
        RUN.fetch_add(1, Relaxed);
    });
    rcu::barrier();
    assert_eq!(RUN.load(Relaxed), 2);
}

#[test]
fn a_ticket_is_over_after_its_grace_period_and_not_before() {
    let (inside, leave) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait = |word: &AtomicBool| {
        while !word.load(Acquire) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _registered = rcu::register();
            let _section = rcu::read();
            inside.store(true, Release);
            wait(&leave);
        });
        wait(&inside);
        let (mere, begun) = (rcu::ticket(), rcu::start_poll());
        std::thread::sleep(Duration::from_millis(30));
        assert!(!rcu::poll(mere) && !rcu::poll(begun));
        leave.store(true, Release);
        rcu::synchronize();
        assert!(rcu::poll(mere) && rcu::poll(begun));
    });
}

#[test]
fn a_stall_names_the_thread_and_its_section() {
    static TOLD: Mutex<Vec<rcu::Delayed>> = Mutex::new(Vec::new());
    rcu::on_stall(Duration::from_millis(20), |late| {
        TOLD.lock().unwrap().extend_from_slice(late);
    });
    let name = "slow-reader";
    let told = move || TOLD.lock().unwrap().iter().find(|late| late.thread == name).cloned();
    let (inside, entered) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().name(name.to_owned());
    let reader = reader.spawn(move || {
        let _registered = rcu::register();
        let _section = rcu::read();
        inside.send(line!() - 1).unwrap();
        let start = Instant::now();
        while told().is_none() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let line = entered.recv().unwrap();
    rcu::synchronize();
    reader.unwrap().join().unwrap();
    let late = told().unwrap();
    assert_eq!((late.section.file(), late.section.line()), (file!(), line));
    let text = format!("thread slow-reader reads since {}:{line}:", file!());
    assert!(late.to_string().starts_with(&text), "{late}");
}

/// Counts its live instances.
struct Counted(&'static AtomicU64);

impl Counted {
    fn new(count: &'static AtomicU64, most: &'static AtomicU64) -> Self {
        most.fetch_max(count.fetch_add(1, Relaxed) + 1, Relaxed);
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_flood_stays_within_its_bound_and_leaves_nothing() {
    const THREADS: u64 = 64;
    const EACH: u64 = if cfg!(miri) { 20 } else { 2_000 };
    static NOW: AtomicU64 = AtomicU64::new(0);
    static MOST: AtomicU64 = AtomicU64::new(0);
    let limit = if cfg!(miri) { 200 } else { 4_000 };
    rcu::limit(limit);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EACH).for_each(|_| rcu::free(Box::new(Counted::new(&NOW, &MOST)))));
        }
    });
    rcu::limit(65_536);
    rcu::barrier();
    assert_eq!(NOW.load(Relaxed), 0, "all were freed");
    // Each thread has one in its hands; other tests use the lists, too.
    let most = MOST.load(Relaxed);
    assert!(most <= limit as u64 + THREADS, "{most} at a time");
}
