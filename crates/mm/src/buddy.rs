//! The buddy allocator: free blocks of 1 to 1024 frames, by order. All of it is under the zone
//! lock.
//!
//! A block of order `n` has 2^n frames and begins at a multiple of 2^n. Its buddy is the other half
//! of the block of order `n + 1` around it.

use crate::frame::{Frames, Guarded, State};
use crate::list::List;
use convoy_sync::{Access, Platform};

/// The largest order.
pub const ORDER_MAX: u32 = 10;
/// How many orders there are.
pub const ORDERS: usize = ORDER_MAX as usize + 1;

/// The free blocks of a zone.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Buddy {
    areas: [List; ORDERS],
    /// Blocks of the largest order that were never handed out begin at this frame and end at
    /// `fresh_end`: the tail of the list of that order, without its links.
    fresh: Guarded,
    fresh_end: u32,
}

impl Buddy {
    /// All of `frames`, free.
    pub(crate) fn new<P: Platform>(frames: &Frames<P>) -> Self {
        let count = frames.count();
        let fresh_end = count >> ORDER_MAX << ORDER_MAX;
        let areas = core::array::from_fn(|_| List::new());
        let buddy = Self { areas, fresh: Guarded::new(0), fresh_end };
        let mut first = fresh_end;
        for order in (0..ORDER_MAX).rev() {
            if count >> order & 1 == 1 {
                buddy.insert(frames, first, order);
                first += 1 << order;
            }
        }
        buddy
    }

    /// Free blocks of `order`.
    pub(crate) fn blocks(&self, order: u32) -> u32 {
        let fresh = (self.fresh_end - self.fresh.get()) >> ORDER_MAX;
        self.areas[order as usize].count() + if order == ORDER_MAX { fresh } else { 0 }
    }

    /// Free frames.
    pub(crate) fn free_frames(&self) -> u32 {
        (0..=ORDER_MAX).map(|order| self.blocks(order) << order).sum()
    }

    /// The caller announces the frame.
    fn insert<P: Platform>(&self, frames: &Frames<P>, first: u32, order: u32) {
        self.areas[order as usize].push_front(frames, first);
        frames.at(first).set_state(State::Free(order));
    }

    /// Takes the head of the list of `order`.
    fn pop<P: Platform>(&self, frames: &Frames<P>, order: u32) -> Option<u32> {
        let area = &self.areas[order as usize];
        if let Some(first) = area.first() {
            area.remove(frames, first);
            return Some(first);
        }
        P::touch(area, Access::Read);
        let first = self.fresh.get();
        if order < ORDER_MAX || first == self.fresh_end {
            return None;
        }
        self.fresh.set(first + (1 << ORDER_MAX));
        Some(first)
    }

    /// The kernel's `__rmqueue`: takes a block of `order` out of the smallest block that has one;
    /// also returns the order of that block. The upper halves stay free.
    pub(crate) fn take<P: Platform>(&self, frames: &Frames<P>, order: u32) -> Option<(u32, u32)> {
        let (first, split) =
            (order..=ORDER_MAX).find_map(|at| Some((self.pop(frames, at)?, at)))?;
        for half in (order..split).rev() {
            let free = first + (1 << half);
            P::touch(frames.at(free), Access::Write);
            self.insert(frames, free, half);
        }
        let frame = frames.at(first);
        P::touch(frame, Access::Write);
        frame.set_state(State::Taken(order));
        Some((first, split))
    }

    /// The kernel's `__free_one_page`: frees a block and merges it with its buddy while the buddy
    /// is free. The caller has seen that the block was taken, and announced its first frame.
    pub(crate) fn give<P: Platform>(&self, frames: &Frames<P>, first: u32, order: u32) {
        let (mut first, mut order) = (first, order);
        while order < ORDER_MAX {
            let buddy = first ^ (1 << order);
            if buddy + (1 << order) > frames.count() {
                break;
            }
            let frame = frames.at(buddy);
            P::touch(frame, Access::Read);
            if frame.state() != State::Free(order) {
                break;
            }
            P::touch(frame, Access::Write);
            let area = &self.areas[order as usize];
            area.unlink(frames, buddy);
            area.count_out();
            frame.set_state(State::Inner);
            frames.at(first).set_state(State::Inner);
            first = first.min(buddy);
            order += 1;
        }
        self.insert(frames, first, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameSize;
    use convoy_sync::Native;

    fn blocks(buddy: &Buddy) -> Vec<u32> {
        (0..=ORDER_MAX).map(|order| buddy.blocks(order)).collect()
    }

    #[test]
    fn a_block_is_split_into_upper_halves_and_joined_again() {
        let frames = Frames::<Native>::new(2048, FrameSize::default());
        let buddy = Buddy::new(&frames);
        assert_eq!(buddy.take(&frames, 0), Some((0, 10)));
        assert_eq!(blocks(&buddy), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(buddy.take(&frames, 0), Some((1, 0)), "the other half of the smallest block");
        assert_eq!(buddy.take(&frames, 3), Some((8, 3)));
        buddy.give(&frames, 1, 0);
        buddy.give(&frames, 8, 3);
        buddy.give(&frames, 0, 0);
        assert_eq!(blocks(&buddy), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(buddy.take(&frames, 10), Some((0, 10)), "last given, first taken");
    }

    #[test]
    fn the_last_block_is_joined_like_any_other() {
        let frames = Frames::<Native>::new(4, FrameSize::default());
        let buddy = Buddy::new(&frames);
        for _ in 0..4 {
            buddy.take(&frames, 0).unwrap();
        }
        for first in [0, 1, 3, 2] {
            frames.at(first).set_state(State::Listed);
            buddy.give(&frames, first, 0);
        }
        assert_eq!(blocks(&buddy)[..3], [0, 0, 1]);
    }

    #[test]
    fn what_does_not_fill_a_largest_block_is_there_too() {
        let frames = Frames::<Native>::new(1024 + 5, FrameSize::default());
        let buddy = Buddy::new(&frames);
        assert_eq!(buddy.free_frames(), 1029);
        let mut taken: Vec<u32> = Vec::new();
        while let Some((first, _)) = buddy.take(&frames, 0) {
            taken.push(first);
            assert!(taken.len() <= 1029, "a frame is handed out twice");
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..1029).collect::<Vec<_>>());
        for first in taken {
            buddy.give(&frames, first, 0);
        }
        assert_eq!(blocks(&buddy), [1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
