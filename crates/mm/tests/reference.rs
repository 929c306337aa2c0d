//! A million calls against a model of the allocator that is too simple to be wrong: every answer,
//! every length of a list and the number of free blocks of every order are the same.

use convoy_mm::Temperature::{self, Cold, Hot};
use convoy_mm::{
    Bulk, Drain, FrameSize, HoldAll, NativeZone, ORDERS, ReleaseContended, ReleaseEach, SetSize,
    Setup,
};
use convoy_sync::{AdaptiveLock, Native};
use convoy_watchdog as _;
use std::collections::VecDeque;

/// Calls of a run; with three policies more than a million.
const CALLS: u32 = 350_000;
/// Four of the largest blocks, and a rest with one block of each of some orders.
const FRAMES: u32 = 4096 + 0b10_0101;
/// Calls after which it is the other turn: to take more than is given back, or less.
const TURN: u32 = 10_000;

/// Free blocks by order and listed pages, in plain queues that are searched from end to end.
struct Reference {
    areas: [VecDeque<u32>; ORDERS],
    lists: [VecDeque<u32>; 2],
    size: SetSize,
}

impl Reference {
    fn new(size: SetSize) -> Self {
        let (mut first, mut areas) = (0, [const { VecDeque::new() }; ORDERS]);
        for order in (0..ORDERS).rev() {
            while FRAMES - first >= 1 << order {
                areas[order].push_back(first);
                first += 1 << order;
            }
        }
        Self { areas, lists: Default::default(), size }
    }

    fn take(&mut self, order: usize) -> Option<u32> {
        let found = (order..ORDERS).find(|&at| !self.areas[at].is_empty())?;
        let first = self.areas[found].pop_front()?;
        for half in (order..found).rev() {
            self.areas[half].push_front(first + (1 << half));
        }
        Some(first)
    }

    fn give(&mut self, mut first: u32, mut order: usize) {
        while order + 1 < ORDERS {
            let buddy = first ^ (1 << order);
            let Some(at) = self.areas[order].iter().position(|&free| free == buddy) else { break };
            self.areas[order].remove(at);
            first = first.min(buddy);
            order += 1;
        }
        self.areas[order].push_front(first);
    }

    fn allocate(&mut self, temperature: Temperature) -> Option<u32> {
        if self.lists[temperature as usize].is_empty() {
            for _ in 0..self.size.batch(temperature) {
                let page = self.take(0);
                self.lists[temperature as usize].extend(page);
            }
        }
        self.lists[temperature as usize].pop_front()
    }

    fn free(&mut self, page: u32, temperature: Temperature) {
        self.lists[temperature as usize].push_front(page);
        if self.lists[temperature as usize].len() as u32 >= self.size.high(temperature) {
            self.drain(temperature, self.size.batch(temperature));
        }
    }

    fn drain(&mut self, temperature: Temperature, count: u32) {
        for _ in 0..count {
            if let Some(page) = self.lists[temperature as usize].pop_back() {
                self.give(page, 0);
            }
        }
    }
}

/// The zone, its model, and the pages that the test has allocated.
struct Pair<B: Bulk<Native, AdaptiveLock<Native>>> {
    zone: NativeZone<B>,
    model: Reference,
    /// First frame and order.
    mine: Vec<(u32, u32)>,
    random: u64,
}

impl<B: Bulk<Native, AdaptiveLock<Native>>> Pair<B> {
    /// A number below `end` (xorshift).
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % end
    }

    fn call(&mut self, greedy: bool) {
        let temperature = if self.below(4) == 0 { Cold } else { Hot };
        let kind = self.below(1000);
        if kind == 0 {
            self.zone.drain_lists(0);
            for temperature in [Hot, Cold] {
                self.model.drain(temperature, FRAMES);
            }
        } else if (kind < 600) == greedy {
            // A block now and then, mostly small.
            let order = if kind.is_multiple_of(16) { self.below(ORDERS as u64) as u32 } else { 0 };
            let (taken, expected) = if order == 0 {
                (self.zone.allocate(temperature), self.model.allocate(temperature))
            } else {
                (self.zone.allocate_block(order), self.model.take(order as usize))
            };
            assert_eq!(taken, expected);
            self.mine.extend(taken.map(|first| (first, order)));
        } else if !self.mine.is_empty() {
            let at = self.below(self.mine.len() as u64) as usize;
            let (first, order) = self.mine.swap_remove(at);
            if order == 0 {
                self.zone.free(first, temperature);
                self.model.free(first, temperature);
            } else {
                self.zone.free_block(first, order);
                self.model.give(first, order as usize);
            }
        }
    }

    fn compare(&self) {
        assert_eq!(self.zone.listed(0), [0, 1].map(|list| self.model.lists[list].len() as u32));
        let areas = self.model.areas.iter().map(|area| area.len() as u32);
        assert!(self.zone.blocks().into_iter().eq(areas), "{:?}", self.zone.blocks());
        let mine: u32 = self.mine.iter().map(|(_, order)| 1 << order).sum();
        assert_eq!(self.zone.free_frames() + mine, FRAMES);
        let mut taken = self.mine.clone();
        taken.sort_unstable();
        let apart = taken.windows(2).all(|pair| pair[0].0 + (1 << pair[0].1) <= pair[1].0);
        assert!(apart, "a frame is taken twice");
    }
}

/// Runs against a zone with the batch size of a zone of `pages` pages.
fn run<B: Bulk<Native, AdaptiveLock<Native>>>(bulk: B, pages: u32) {
    run_with(Setup { size: SetSize::of(pages), ..Setup::new(FRAMES, 1, bulk) });
}

fn run_with<B: Bulk<Native, AdaptiveLock<Native>>>(setup: Setup<B>) {
    let (size, zone) = (setup.size, NativeZone::new(setup));
    let mut pair = Pair { zone, model: Reference::new(size), mine: Vec::new(), random: 0x2007 };
    let mut dry = 0;
    for call in 0..CALLS {
        pair.call((call / TURN).is_multiple_of(2));
        dry += u32::from(pair.zone.free_frames() == 0);
        if call % 100 == 0 {
            pair.compare();
        }
    }
    assert!(dry > 0, "the zone was never empty");
    while let Some((first, order)) = pair.mine.pop() {
        pair.zone.free_block(first, order);
        pair.model.give(first, order as usize);
    }
    pair.zone.drain_lists(0);
    let whole = |order| if order == ORDERS - 1 { 4 } else { FRAMES >> order & 1 };
    assert_eq!(pair.zone.blocks(), std::array::from_fn(whole));
}

#[test]
fn a_zone_that_holds_its_lock() {
    run(HoldAll, 1 << 21);
}

#[test]
fn a_zone_that_releases_it_after_each_page() {
    run(ReleaseEach, 48 << 8);
}

#[test]
fn a_zone_that_releases_it_for_others() {
    run(ReleaseContended, 96 << 8);
}

#[test]
fn a_zone_of_today_picks_the_same_pages_before_it_takes_the_lock() {
    let (frame, drain) = (FrameSize::Line, Drain::Picked);
    let size = SetSize::doubled(1 << 21);
    run_with(Setup { size, frame, drain, ..Setup::new(FRAMES, 1, HoldAll) });
}
