//! The conditions of spinning CPUs, and the order in which they look again.

use super::mode::Mode;
use crate::preset::CPUS_MAX;
use crate::tree::Turn;
use core::cell::{Cell, RefCell};
use core::cmp::Reverse;

/// When a wait is over.
#[derive(Clone, Copy)]
pub(crate) enum Until<'a> {
    /// A word has this value.
    Is(&'a Cell<u32>, u32),
    /// Whatever this says; it lives on the stack of the coroutine, which costs the host some
    /// misses.
    Says(&'a dyn Fn() -> bool),
}

impl Until<'_> {
    #[inline(always)]
    pub(super) fn over(self) -> bool {
        match self {
            Self::Is(word, value) => word.get() == value,
            Self::Says(over) => over(),
        }
    }
}

/// The condition of a spinning CPU.
#[derive(Clone, Copy)]
pub(super) struct Spin {
    /// Offset of the word.
    pub(super) offset: usize,
    /// Its referent lives at least until the spinning coroutine resumes.
    pub(super) until: Until<'static>,
    /// The mode that the spinning interrupts.
    pub(super) mode: Mode,
    /// It polls in user mode, see [`super::poll`].
    pub(super) polls: bool,
}

/// CPUs that have to read their line again after a write.
#[derive(Debug)]
pub(super) struct Looks {
    /// Latest first.
    pub(super) queue: RefCell<Vec<Turn>>,
    /// The last of the queue, the earliest; [`Turn::NEVER`] when there is none.
    pub(super) first: Cell<Turn>,
    /// Room for [`merge`].
    pub(super) room: RefCell<Vec<Turn>>,
    /// Room for those that a write releases.
    pub(super) stragglers: RefCell<Stragglers>,
}

impl Looks {
    pub(super) fn new() -> Self {
        let (queue, room, stragglers) = Default::default();
        Self { queue, first: Cell::new(Turn::NEVER), room, stragglers }
    }

    /// The earliest look.
    #[inline]
    pub(super) fn first(&self) -> Turn {
        self.first.get()
    }

    #[inline]
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Vec<Turn>) -> T) -> T {
        let mut queue = self.queue.borrow_mut();
        let result = change(&mut queue);
        self.first.set(queue.last().copied().unwrap_or(Turn::NEVER));
        result
    }
}

/// Brings the turns of `queue` from `old` on, which are in order, latest first, as are those before
/// them, to their places. Those that are later than all of them stay where they are. `room` is for
/// this function alone.
pub(super) fn merge(queue: &mut [Turn], old: usize, room: &mut Vec<Turn>) {
    let ordered = |at: usize| queue[at - 1] > queue[at];
    if old == 0 || old == queue.len() || ordered(old) {
        return;
    }
    room.clear();
    room.extend_from_slice(&queue[old..]);
    let (mut before, mut place) = (old, queue.len());
    while let Some(&new) = room.last() {
        place -= 1;
        if before > 0 && queue[before - 1] < new {
            before -= 1;
            queue[place] = queue[before];
        } else {
            queue[place] = new;
            room.pop();
        }
    }
}

/// CPUs that read at individual times, latest first when sorted in descending order: the delay
/// after the first possible read, and the CPU, in one number.
#[derive(Debug, Default)]
pub(super) struct Stragglers(Vec<u64>);

impl Stragglers {
    #[inline]
    pub(super) fn add(&mut self, later: u64, cpu: usize) {
        debug_assert!(later <= u64::MAX / CPUS_MAX as u64, "it looks within hours");
        self.0.push(later * CPUS_MAX as u64 + cpu as u64);
    }

    /// Latest first; the delays are relative to `since`. None is left.
    pub(super) fn append_to(&mut self, looks: &mut Vec<Turn>, since: u64) {
        self.0.sort_unstable_by_key(|&look| Reverse(look));
        let most = CPUS_MAX as u64;
        looks.extend(self.0.drain(..).map(|it| Turn::new(since + it / most, (it % most) as usize)));
    }
}

/// CPUs that read at the same time.
pub(super) struct Crowd {
    pub(super) at: u64,
    /// A bit each.
    pub(super) cpus: [u64; CPUS_MAX / 64],
}

impl Crowd {
    pub(super) fn new(at: u64) -> Self {
        Self { at, cpus: [0; CPUS_MAX / 64] }
    }

    #[inline]
    pub(super) fn add(&mut self, cpu: usize) {
        self.cpus[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Latest first; `count` is the number of all CPUs.
    pub(super) fn append_to(&self, looks: &mut Vec<Turn>, count: usize) {
        for at in (0..count.div_ceil(64)).rev() {
            let mut bits = self.cpus[at];
            while bits != 0 {
                let bit = bits.ilog2() as usize;
                looks.push(Turn::new(self.at, at * 64 + bit));
                bits ^= 1 << bit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_in_order_whoever_came_first() {
        let mut crowd = Crowd::new(7);
        for cpu in [64, 3, 1023, 0, 63] {
            crowd.add(cpu);
        }
        let mut looks = vec![Turn::new(9, 1)];
        crowd.append_to(&mut looks, 1024);
        let expected = [(9, 1), (7, 1023), (7, 64), (7, 63), (7, 3), (7, 0)];
        assert_eq!(looks, expected.map(|(at, cpu)| Turn::new(at, cpu)));
    }

    #[test]
    fn merging_is_sorting() {
        let (mut state, mut room) = (1_u64, Vec::new());
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let (old, new) = (draw(9) as usize, draw(9) as usize);
            let mut queue: Vec<_> = (0..old + new).map(|cpu| Turn::new(draw(8), cpu)).collect();
            queue[..old].sort_unstable_by(|a, b| b.cmp(a));
            queue[old..].sort_unstable_by(|a, b| b.cmp(a));
            let mut sorted = queue.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            merge(&mut queue, old, &mut room);
            assert_eq!(queue, sorted);
        }
    }
}
