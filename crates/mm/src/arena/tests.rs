use super::*;
use crate::buddy::ORDER_MAX;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the panic message of a call that must panic.
fn panic_of(call: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("it is misuse");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

/// Moves the calling thread to a CPU, if it may run there.
fn run_on(cpu: usize) {
    // SAFETY: no CPU is a set of CPUs.
    let mut cpus: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the call writes to `cpus` alone, and checks the number.
    unsafe { libc::CPU_SET(cpu, &mut cpus) };
    // SAFETY: `cpus` is valid for the call, which reads it.
    let _moved =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cpus) };
}

fn small_caches(pages: u32) -> Arena {
    Arena::with_caches(pages, SetSize::of_batches(3, 2)).unwrap()
}

#[test]
fn pages_are_memory_and_apart() {
    let arena = small_caches(70);
    let bytes = if cfg!(miri) { 16 } else { PAGE_BYTES };
    let cache = arena.cache();
    let pages: Vec<_> = (0..70).map(|_| cache.allocate().unwrap()).collect();
    for (mark, page) in (0..).zip(&pages) {
        // SAFETY: the page is this test's, and as long as a page is.
        unsafe { page.write_bytes(mark, bytes) };
    }
    for (mark, page) in (0..).zip(&pages) {
        // SAFETY: as above; every byte was written.
        let found = unsafe { core::slice::from_raw_parts(page.as_ptr(), bytes) };
        assert!(found.iter().all(|&byte| byte == mark));
        assert!(arena.contains(*page));
    }
    assert_eq!(pages.iter().collect::<BTreeSet<_>>().len(), 70);
    for page in pages {
        cache.free(page);
    }
    drop(cache);
    let stats = arena.stats();
    assert_eq!((stats.taken, stats.cached, stats.listed, stats.caches), (0, 0, 0, 0));
    assert_eq!((stats.blocks[6], stats.blocks[2], stats.blocks[1]), (1, 1, 1));
}

#[test]
fn an_arena_that_is_empty_says_where_its_pages_are() {
    let arena = small_caches(16);
    let (mine, other) = (arena.cache(), arena.cache());
    let held = other.allocate().unwrap();
    let pages: Vec<_> = core::iter::from_fn(|| mine.allocate().ok()).collect();
    assert_eq!(pages.len(), 13, "a batch of three went to the other cache");
    assert_eq!(
        mine.allocate().unwrap_err().to_string(),
        "no page is free: of 16 pages 14 are taken and 2 lie in caches of threads; make the \
         caches smaller (Arena::with_caches) or the arena larger"
    );
    other.clear();
    assert!(mine.allocate().is_ok() && mine.allocate().is_ok());
    assert_eq!(arena.stats().exhausted, 2);
    let blocks = arena.allocate_block(3).unwrap_err();
    assert!(blocks.to_string().starts_with("no block of 8 pages is free: of 16 pages 16 are"));
    other.free(held);
    assert_eq!(Arena::new(0).unwrap().allocate().unwrap_err().pages, 0);
}

#[test]
fn the_lists_of_the_cpus_are_given_back_before_an_arena_says_no() {
    let arena = Arena::new(48 << 8).unwrap();
    for cpu in 0..arena.zone.sets() {
        run_on(cpu);
        arena.free(arena.allocate().unwrap());
    }
    assert!(arena.stats().listed >= 3, "one came back, and its batch has two more");
    let blocks: Vec<_> = (0..12).map(|_| arena.allocate_block(ORDER_MAX).unwrap()).collect();
    assert!(arena.allocate().is_err());
    for block in blocks {
        arena.free_block(block, ORDER_MAX);
    }
    assert_eq!((arena.stats().taken, arena.stats().exhausted), (0, 1));
}

#[test]
fn a_cache_takes_what_lies_on_the_lists_of_the_cpus() {
    const PAGES: u32 = 48 << 8;
    let arena = Arena::new(PAGES).unwrap();
    arena.free(arena.allocate().unwrap());
    assert!(arena.stats().listed > 0);
    let cache = arena.cache();
    let pages: Vec<_> = (0..PAGES).map(|_| cache.allocate().unwrap()).collect();
    for page in pages {
        cache.free(page);
    }
}

#[test]
fn misuse_is_found_where_it_happens() {
    let (arena, stranger) = (small_caches(64), small_caches(64));
    let cache = arena.cache();
    let (page, block) = (cache.allocate().unwrap(), arena.allocate_block(3).unwrap());
    let foreign = stranger.allocate().unwrap();
    let text = panic_of(|| cache.free(foreign));
    assert!(text.contains("is freed, but it is none of the 64 pages that begin at 0x"), "{text}");
    assert_eq!(panic_of(|| arena.free(foreign)).len(), text.len());
    // The first page was taken first.
    let behind = NonNull::new(page.as_ptr().wrapping_add(64 * PAGE_BYTES)).unwrap();
    assert!(panic_of(|| cache.free(behind)).contains("it is none of the 64 pages"));
    let inside = NonNull::new(page.as_ptr().wrapping_add(8)).unwrap();
    assert!(
        panic_of(|| cache.free(inside)).ends_with("points into a page and not to its beginning")
    );
    assert_eq!(
        panic_of(|| cache.free(block)),
        "page 8 is freed, but what begins there was taken as order 3"
    );
    let text = panic_of(|| arena.free_block(block, 2));
    assert_eq!(
        text,
        "the block of order 2 at page 8 is freed, but what begins there was taken as order 3"
    );
    cache.free(page);
    assert_eq!(panic_of(|| cache.free(page)), "page 0 is freed twice");
    assert_eq!(panic_of(|| arena.free(page)), "page 0 is freed twice");
    cache.clear();
    assert_eq!(panic_of(|| cache.free(page)), "page 0 is freed twice");
    arena.free_block(block, 3);
    let text = panic_of(|| arena.free_block(block, 3));
    assert_eq!(
        text,
        "the block of order 3 at page 8 is freed, but no block that is taken begins there"
    );
    // Nothing of that did harm.
    assert!(arena.allocate_block(6).is_ok());
}

#[test]
fn a_page_inside_a_block_that_came_back_is_no_page_of_its_own() {
    for order in [[0, 1], [1, 0]] {
        let arena = small_caches(64);
        let cache = arena.cache();
        let pages = [(); 2].map(|()| cache.allocate().unwrap());
        for at in order {
            cache.free(pages[at]);
        }
        cache.clear();
        assert_eq!(arena.stats().blocks[6], 1);
        assert_eq!(
            panic_of(|| cache.free(pages[1])),
            "page 1 is freed, but no block that is taken begins there"
        );
    }
}

#[test]
fn the_next_cache_takes_over_what_the_last_one_was_made_of() {
    let arena = small_caches(64);
    for _ in 0..3 {
        let (one, two) = (arena.cache(), arena.cache());
        let pages = [one.allocate().unwrap(), two.allocate().unwrap()];
        two.free(pages[0]);
        one.free(pages[1]);
        assert_eq!(arena.stats().caches, 2);
    }
    let stats = arena.stats();
    assert_eq!((stats.caches, stats.cached, stats.refills.events), (0, 0, 6));
    assert_eq!(arena.caches.lock().unwrap().len(), 2);
}

#[test]
fn threads_exchange_pages_and_lose_none() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let arena = small_caches(256);
    let (give, take) = std::sync::mpsc::sync_channel::<usize>(8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let cache = arena.cache();
            let give = give;
            for round in 0..rounds {
                let page = cache.allocate().expect("at most a few are under way");
                // SAFETY: this thread has the page.
                unsafe { page.cast::<usize>().write(round) };
                give.send(page.as_ptr().expose_provenance()).expect("the other one listens");
            }
        });
        let cache = arena.cache();
        for (round, page) in take.into_iter().enumerate() {
            let page = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(page)).unwrap();
            // SAFETY: the thread that had the page sent it here.
            assert_eq!(unsafe { page.cast::<usize>().read() }, round);
            cache.free(page);
        }
    });
    let stats = arena.stats();
    assert_eq!((stats.taken, stats.blocks[8]), (0, 1));
    assert!(stats.refills.events > 0);
}
