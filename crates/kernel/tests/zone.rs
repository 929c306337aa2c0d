//! The page allocator on threads and on the virtual machine: no page is lost, none is given out
//! twice, and free pages are merged again. The checker's half is in `crates/checker/tests/zone.rs`.

use convoy_catalogue::MACHINES;
use convoy_machine::{Fifo, Here, Outcome, Preset, Smp};
use convoy_mm::{
    Bulk, HoldAll, LockPlace, ORDER_MAX, ReleaseContended, ReleaseEach, Setup, Temperature, Zone,
};
use convoy_sync::{AdaptiveLock, Native, Platform, RawLock, TasLock, TicketLock};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whole blocks of the largest order, few enough to be used up.
const FRAMES: u32 = 2 << ORDER_MAX;

/// A small generator of numbers, one for each task.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

/// A zone under test, and the expected state of its frames.
struct Watched<P: Platform, L: RawLock<P>, B: Bulk<P, L>, S: RawLock<P>> {
    zone: Zone<P, L, B, S>,
    taken: Vec<AtomicBool>,
}

impl<P: Platform, L: RawLock<P> + Default, B: Bulk<P, L>, S: RawLock<P> + Default>
    Watched<P, L, B, S>
{
    fn new(setup: Setup<B>) -> Self {
        let taken = (0..setup.frames).map(|_| AtomicBool::new(false)).collect();
        Self { zone: Zone::new(setup), taken }
    }

    fn mark(&self, first: u32, order: u32, now: bool) {
        for frame in first..first + (1 << order) {
            let before = self.taken[frame as usize].swap(now, Ordering::Relaxed);
            assert_ne!(before, now, "frame {frame} is taken or given back twice");
        }
    }

    fn give(&self, (first, order): (u32, u32), temperature: Temperature) {
        self.mark(first, order, false);
        if order == 0 {
            self.zone.free(first, temperature);
        } else {
            self.zone.free_block(first, order);
        }
    }

    /// Allocates and frees at random; tasks pass pages to each other through `pool`.
    fn churn(&self, seed: u64, rounds: u32, pool: &impl Pool, between: impl Fn()) {
        let mut draw = Draw(seed);
        let mut mine: Vec<(u32, u32)> = Vec::new();
        for _ in 0..rounds {
            let cold = draw.below(4) == 0;
            let temperature = if cold { Temperature::Cold } else { Temperature::Hot };
            let taken = match draw.below(8) {
                0 => {
                    let order = draw.below(4) as u32;
                    self.zone.allocate_block(order).map(|first| (first, order))
                }
                1..=3 => self.zone.allocate(temperature).map(|first| (first, 0)),
                4 => {
                    mine.pop().into_iter().for_each(|block| pool.put(block));
                    mine.extend(pool.get());
                    None
                }
                _ if mine.is_empty() => None,
                _ => {
                    let block = mine.swap_remove(draw.below(mine.len() as u64) as usize);
                    self.give(block, temperature);
                    None
                }
            };
            if let Some((first, order)) = taken {
                self.mark(first, order, true);
                mine.push((first, order));
            }
            between();
        }
        for block in mine {
            self.give(block, Temperature::Hot);
        }
        while let Some(block) = pool.get() {
            self.give(block, Temperature::Hot);
        }
    }

    /// Checks the unused zone: all pages are free, lists are short, and after they are drained all
    /// pages are blocks of the largest order.
    fn settle(&self, cpus: usize) {
        assert_eq!(self.zone.free_frames(), FRAMES);
        let size = self.zone.size();
        for cpu in 0..cpus {
            let [hot, cold] = self.zone.listed(cpu);
            assert!(hot < size.high(Temperature::Hot).max(1), "{hot} hot pages on CPU {cpu}");
            assert!(cold < size.high(Temperature::Cold).max(1), "{cold} cold pages on CPU {cpu}");
            self.zone.drain_lists(cpu);
            assert_eq!(self.zone.listed(cpu), [0, 0]);
        }
        assert!(!self.zone.lock().is_locked());
        let mut whole = [0; ORDER_MAX as usize + 1];
        whole[ORDER_MAX as usize] = FRAMES >> ORDER_MAX;
        assert_eq!(self.zone.blocks(), whole);
    }
}

/// Where tasks leave pages for each other.
trait Pool {
    fn put(&self, block: (u32, u32));
    fn get(&self) -> Option<(u32, u32)>;
}

impl Pool for Mutex<Vec<(u32, u32)>> {
    fn put(&self, block: (u32, u32)) {
        self.lock().unwrap().push(block);
    }
    fn get(&self) -> Option<(u32, u32)> {
        self.lock().unwrap().pop()
    }
}

impl Pool for RefCell<Vec<(u32, u32)>> {
    fn put(&self, block: (u32, u32)) {
        self.borrow_mut().push(block);
    }
    fn get(&self) -> Option<(u32, u32)> {
        self.borrow_mut().pop()
    }
}

/// Batches of three: lists are filled and drained often.
fn setup<B>(cpus: usize, bulk: B) -> Setup<B> {
    Setup { size: convoy_mm::SetSize::of(48 << 8), ..Setup::new(FRAMES, cpus, bulk) }
}

fn threads<B: Bulk<Native, AdaptiveLock<Native>> + Sync + Copy>(bulk: B) {
    let watched: Watched<Native, _, B, AdaptiveLock<Native>> = Watched::new(setup(4, bulk));
    let pool = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (watched, pool) = (&watched, &pool);
            scope.spawn(move || watched.churn(seed, 20_000, pool, || ()));
        }
    });
    watched.settle(4);
}

#[test]
fn threads_neither_lose_nor_share_pages() {
    threads(HoldAll);
    threads(ReleaseEach);
    threads(ReleaseContended);
}

fn virtual_machine<L: RawLock<Smp> + Default, B: Bulk<Smp, L> + Copy>(
    bulk: B,
    lock: LockPlace,
) -> u64 {
    const CPUS: usize = 4;
    struct Shared<L: RawLock<Smp>, B: Bulk<Smp, L>> {
        watched: OnceCell<Watched<Smp, L, B, convoy_mm::Unlocked>>,
        pool: RefCell<Vec<(u32, u32)>>,
        left: Cell<u32>,
    }
    let shared: Rc<Shared<L, B>> =
        Rc::new(Shared { watched: OnceCell::new(), pool: RefCell::default(), left: Cell::new(6) });
    let body = |task: u32| -> Box<dyn FnOnce()> {
        let shared = Rc::clone(&shared);
        Box::new(move || {
            let setup = Setup { lock, ..setup(CPUS, bulk) };
            let watched = shared.watched.get_or_init(|| Watched::new(setup));
            let work = || Here::compute(200_000 + u64::from(task));
            watched.churn(u64::from(task), 3000, &shared.pool, work);
            shared.left.set(shared.left.get() - 1);
        })
    };
    let name = MACHINES.names().next().expect("a machine preset is shipped");
    let preset = Preset::named(name).expect("a shipped preset is valid").with_cpus(CPUS);
    let (outcome, machine) =
        Fifo::run(&preset, 1, 1_000_000_000, (0..6).map(body).collect()).expect("address space");
    assert_eq!(outcome, Outcome::Stopped, "a task was forgotten");
    assert_eq!(shared.left.get(), 0);
    let watched = shared.watched.get().expect("tasks ran");
    assert_eq!(watched.zone.free_frames(), FRAMES);
    let stats = watched.zone.stats();
    assert!(stats.refills.events > 100 && stats.drains.events > 100, "{stats:?}");
    assert!(stats.requested.events > stats.refills.events && stats.found.sum > 0, "{stats:?}");
    let hash = machine.hash();
    drop(shared);
    drop(machine);
    hash
}

#[test]
fn virtual_cpus_neither_lose_nor_share_pages() {
    let beside = LockPlace::BesideLists;
    let hashes = [
        virtual_machine::<TicketLock<Smp>, _>(HoldAll, beside),
        virtual_machine::<TicketLock<Smp>, _>(ReleaseEach, beside),
        virtual_machine::<TicketLock<Smp>, _>(ReleaseContended, beside),
        virtual_machine::<TicketLock<Smp>, _>(ReleaseContended, LockPlace::OwnLine),
        virtual_machine::<TasLock<Smp>, _>(HoldAll, beside),
        virtual_machine::<TasLock<Smp>, _>(ReleaseEach, beside),
    ];
    // Each policy and each place is its own mechanism, and each repeats to the bit.
    let mut different = hashes.to_vec();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), hashes.len());
    assert_eq!(virtual_machine::<TicketLock<Smp>, _>(HoldAll, beside), hashes[0]);
}
