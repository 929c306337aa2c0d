//! Lists of frames, linked through the frames themselves.

use crate::frame::{Frames, Guarded};
use convoy_sync::{Access, Platform};

/// Ends of a list and its length: 12 bytes, as `struct free_area` of 32-bit kernels has.
///
/// A link holds the frame's number and one, so that the all-zero image is an empty list. Every
/// change announces the lines that it writes: the list and the neighbours of the frame that is
/// added or removed. The caller announces the frame itself, since it accesses it anyway.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct List {
    first: Guarded,
    last: Guarded,
    count: Guarded,
}

/// No frame.
const NONE: u32 = 0;

impl List {
    pub(crate) const fn new() -> Self {
        Self { first: Guarded::new(NONE), last: Guarded::new(NONE), count: Guarded::new(0) }
    }

    /// Frames on the list.
    pub(crate) fn count(&self) -> u32 {
        self.count.get()
    }

    /// The frame at the head.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first.get().checked_sub(1)
    }

    /// The frame at the tail.
    pub(crate) fn last(&self) -> Option<u32> {
        self.last.get().checked_sub(1)
    }

    pub(crate) fn push_front<P: Platform>(&self, frames: &Frames<P>, number: u32) {
        self.insert(frames, number, NONE, self.first.get());
    }

    pub(crate) fn push_back<P: Platform>(&self, frames: &Frames<P>, number: u32) {
        self.insert(frames, number, self.last.get(), NONE);
    }

    fn insert<P: Platform>(&self, frames: &Frames<P>, number: u32, prev: u32, next: u32) {
        let frame = frames.at(number);
        frame.prev.set(prev);
        frame.next.set(next);
        self.join(frames, prev, number + 1, number + 1, next);
        self.count.set(self.count.get() + 1);
    }

    /// Takes out a frame that is on this list.
    pub(crate) fn remove<P: Platform>(&self, frames: &Frames<P>, number: u32) {
        self.unlink(frames, number);
        self.count_out();
    }

    /// The first half of [`Self::remove`].
    pub(crate) fn unlink<P: Platform>(&self, frames: &Frames<P>, number: u32) {
        let frame = frames.at(number);
        let (prev, next) = (frame.prev.get(), frame.next.get());
        self.join(frames, prev, next, prev, next);
    }

    /// The second half.
    pub(crate) fn count_out(&self) {
        self.count.set(self.count.get() - 1);
    }

    /// Makes `after` follow the link `prev`, and `before` precede the link `next`; at the ends of
    /// the list that is the list itself.
    fn join<P: Platform>(&self, frames: &Frames<P>, prev: u32, after: u32, before: u32, next: u32) {
        P::touch(self, Access::Write);
        match prev.checked_sub(1).map(|prev| frames.at(prev)) {
            None => self.first.set(after),
            Some(prev) => {
                P::touch(prev, Access::Write);
                prev.next.set(after);
            }
        }
        match next.checked_sub(1).map(|next| frames.at(next)) {
            None => self.last.set(before),
            Some(next) => {
                P::touch(next, Access::Write);
                next.prev.set(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameSize;
    use convoy_sync::Native;

    fn content(list: &List, frames: &Frames<Native>) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut at = list.first();
        while let Some(number) = at {
            numbers.push(number);
            at = frames.at(number).next.get().checked_sub(1);
        }
        assert_eq!(numbers.last().copied(), list.last());
        assert_eq!(numbers.len() as u32, list.count());
        numbers
    }

    #[test]
    fn both_ends_and_the_middle() {
        let (list, frames) = (List::new(), Frames::<Native>::new(200, FrameSize::default()));
        for number in [0, 64, 199] {
            list.push_front(&frames, number);
        }
        list.push_back(&frames, 7);
        assert_eq!(content(&list, &frames), [199, 64, 0, 7]);
        list.remove(&frames, 0);
        list.remove(&frames, 7);
        list.remove(&frames, 199);
        assert_eq!(content(&list, &frames), [64]);
        list.remove(&frames, 64);
        assert_eq!((list.first(), list.last(), list.count()), (None, None, 0));
    }
}
