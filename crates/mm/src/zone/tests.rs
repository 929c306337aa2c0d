use super::*;
use crate::bulk::ReleaseEach;
use Temperature::{Cold, Hot};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One CPU, batches of three (hot) and one (cold).
fn zone(frames: u32) -> NativeZone<ReleaseEach> {
    let size = SetSize::of(48 << 8);
    Zone::new(Setup { size, ..Setup::new(frames, 1, ReleaseEach) })
}

#[test]
fn a_list_is_filled_by_a_batch_and_gives_back_what_it_had_longest() {
    let zone = zone(1024);
    let pages: Vec<u32> = (0..19).map_while(|_| zone.allocate(Hot)).collect();
    assert_eq!(pages, (0..19).collect::<Vec<_>>(), "in the order in which the zone gave them");
    assert_eq!(zone.listed(0), [2, 0]);
    // 2 on the list already: the 16th page that comes back makes it 18.
    for &page in &pages[..15] {
        zone.free(page, Hot);
    }
    assert_eq!(zone.listed(0), [17, 0]);
    zone.free(pages[15], Hot);
    assert_eq!(zone.listed(0), [15, 0], "a batch went back");
    assert_eq!(zone.allocate(Hot), Some(15), "last given, first taken");
    let stats = zone.stats();
    assert_eq!((stats.refills.events, stats.refills.mean()), (7, 3.0));
    assert_eq!((stats.drains.events, stats.drains.mean()), (1, 3.0));
    assert_eq!((stats.requested.events, stats.requested.sum), (7, 0));
    // The first page came from the block of order 10, later ones from the rest of it.
    assert_eq!(
        (stats.found.events, stats.found.sum),
        (21, 10 + 1 + 2 + 1 + 3 + 1 + 2 + 1 + 4 + 1 + 2)
    );
}

#[test]
fn cold_pages_have_a_list_of_their_own() {
    let zone = zone(1024);
    let page = zone.allocate(Cold).unwrap();
    assert_eq!(zone.listed(0), [0, 0], "the batch is one page");
    zone.free(page, Cold);
    assert_eq!(zone.listed(0), [0, 1]);
    assert_ne!(zone.allocate(Hot), Some(page));
    zone.drain_lists(0);
    assert_eq!(zone.listed(0), [0, 0]);
    let page = zone.allocate(Cold).unwrap();
    zone.free(page, Cold);
    assert_eq!(zone.allocate(Cold), Some(page));
}

#[test]
fn blocks_bypass_the_lists_and_an_empty_zone_says_so() {
    let zone = zone(1024);
    let block = zone.allocate_block(10).unwrap();
    assert_eq!((zone.allocate(Hot), zone.allocate_block(0)), (None, None));
    assert!(!zone.lock().is_locked());
    zone.free_block(block, 10);
    assert_eq!(zone.allocate_block(3), Some(0));
    let stats = zone.stats();
    assert_eq!((stats.refills.events, stats.refills.sum), (1, 0));
    assert_eq!((stats.requested.events, stats.requested.sum), (4, 13));
    assert_eq!((stats.drains.events, stats.drains.sum), (1, 1));
    assert_eq!((stats.freed.events, stats.freed.sum), (1, 10));
}

#[test]
#[should_panic(expected = "frame 0 is given back as order 0, but it is Listed")]
fn a_page_is_not_given_back_twice() {
    let zone = zone(1024);
    let page = zone.allocate(Hot).unwrap();
    zone.free(page, Hot);
    zone.free(page, Hot);
}

#[test]
#[should_panic(expected = "given back as order 1, but it is Taken(2)")]
fn a_block_is_given_back_whole() {
    let zone = zone(1024);
    let block = zone.allocate_block(2).unwrap();
    zone.free_block(block, 1);
}

#[test]
fn a_page_inside_a_joined_block_is_not_freed_again() {
    for order in [[0, 1], [1, 0]] {
        let zone = zone(64);
        let pages = [(); 2].map(|()| zone.allocate(Hot).unwrap());
        for index in order {
            zone.free(pages[index], Hot);
        }
        zone.drain_lists(0);
        assert_eq!(zone.blocks()[6], 1);
        let panic = catch_unwind(AssertUnwindSafe(|| zone.free(pages[1], Hot))).unwrap_err();
        let text = panic.downcast_ref::<String>().expect("a panic with values");
        assert_eq!(text, "frame 1 is given back as order 0, but it is Inner");
    }
}

#[test]
fn the_lock_lies_where_it_should() {
    for lock in [LockPlace::BesideLists, LockPlace::OwnLine] {
        let zone: NativeZone = Zone::new(Setup { lock, ..Setup::new(1024, 1, HoldAll) });
        let hot = core::ptr::from_ref(&*zone.hot).addr();
        let address = core::ptr::from_ref(zone.lock()).addr();
        assert_eq!((hot..hot + 64).contains(&address), lock == LockPlace::BesideLists);
    }
}

/// A lock of lists that counts how often it was taken.
#[derive(Default)]
struct Counted(AdaptiveLock<Native>, AtomicU32);

impl RawLock<Native> for Counted {
    fn lock(&self) {
        self.0.lock();
        self.1.fetch_add(1, Relaxed);
    }
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }
    fn unlock(&self) {
        self.0.unlock();
    }
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// Steps that move pages are made with the lists locked.
struct Watches(&'static AtomicU32);

impl Bulk<Native, Counted> for Watches {
    fn run(&self, lock: &Counted, count: u32, step: impl FnMut() -> bool) -> u32 {
        self.0.fetch_add(1, Relaxed);
        HoldAll.run(lock, count, step)
    }
}

#[test]
fn every_use_of_a_list_is_under_its_lock_and_every_move_under_that_of_the_zone() {
    static MOVES: AtomicU32 = AtomicU32::new(0);
    let setup = Setup { size: SetSize::of(48 << 8), ..Setup::new(1024, 1, Watches(&MOVES)) };
    let zone: Zone<Native, Counted, Watches, Counted> = Zone::new(setup);
    let taken = |lock: &Counted| {
        assert!(!lock.is_locked());
        lock.1.load(Relaxed)
    };
    let seen = || (taken(&zone.sets[0].lock), taken(zone.lock()), MOVES.load(Relaxed));
    let page = zone.allocate(Hot).unwrap();
    assert_eq!(seen(), (1, 1, 1));
    zone.free(page, Hot);
    assert_eq!((seen().0, zone.count_lists(0)[1], seen().0), (2, 0, 3));
    let before = seen();
    zone.drain_lists(0);
    assert_eq!(seen(), (before.0 + 1, before.1 + 1, before.2 + 1));
    let block = zone.allocate_block(3).unwrap();
    zone.free_block(block, 3);
    assert_eq!(seen(), (before.0 + 1, before.1 + 3, before.2 + 1));
}
