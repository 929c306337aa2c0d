//! One zone of `convoy-mm` with its place in memory, and the active list of a node, each with a
//! lock of the kind that the kernel was built with.

use super::rules::{Moves, ZoneRules};
use crate::lock_rules::{LockRules, Spinlock};
use crate::locks::{Field, Guarded, Line, Queue, Unqueued};
use convoy_machine::{Here, Sim, Smp};
use convoy_mm::{Drain, FrameSize, LockPlace, SetSize, Setup, Stats, Temperature, Zone};
use convoy_sync::RawLock as _;

/// A zone and its lock.
pub(super) enum AnyZone {
    Spin(Zone<Smp, Unqueued, Moves>),
    Queued(Zone<Smp, Queue, Moves>),
}

/// Calls the same method of either kind.
macro_rules! of_zone {
    ($zone:expr, $of:ident => $call:expr) => {
        match $zone {
            AnyZone::Spin($of) => $call,
            AnyZone::Queued($of) => $call,
        }
    };
}

impl AnyZone {
    /// A zone of `frames` frames for `cpus` CPUs, with the lock `name`.
    pub(super) fn new(
        rules: ZoneRules,
        locks: LockRules,
        frames: u32,
        cpus: usize,
        bulk: Moves,
        name: &'static str,
    ) -> Self {
        let setup = Setup {
            lock: if rules.own_line { LockPlace::OwnLine } else { LockPlace::BesideLists },
            size: if rules.double_batch { SetSize::doubled(frames) } else { SetSize::of(frames) },
            frame: if rules.line_frames { FrameSize::Line } else { FrameSize::HalfLine },
            drain: if rules.picked { Drain::Picked } else { Drain::Locked },
            ..Setup::new(frames, cpus, bulk)
        };
        if rules.queued || locks.spinlock == Spinlock::Queued {
            let zone = Zone::with_locks(setup, Queue::default);
            zone.lock().name(name);
            Self::Queued(zone)
        } else {
            let zone = Zone::with_locks(setup, || locks.unqueued());
            zone.lock().name(name);
            Self::Spin(zone)
        }
    }

    pub(super) fn is_locked(&self) -> bool {
        of_zone!(self, zone => zone.lock().is_locked())
    }

    pub(super) fn frames(&self) -> u32 {
        of_zone!(self, zone => zone.frames())
    }

    #[inline]
    pub(super) fn allocate(&self, temperature: Temperature) -> Option<u32> {
        of_zone!(self, zone => zone.allocate(temperature))
    }

    #[inline]
    pub(super) fn free(&self, number: u32) {
        of_zone!(self, zone => zone.free(number, Temperature::Hot));
    }

    #[inline]
    pub(super) fn free_all(&self, numbers: impl IntoIterator<Item = u32>) {
        of_zone!(self, zone => zone.free_all(numbers, Temperature::Hot));
    }

    pub(super) fn allocate_block(&self, order: u32) -> Option<u32> {
        of_zone!(self, zone => zone.allocate_block(order))
    }

    pub(super) fn free_block(&self, first: u32, order: u32) {
        of_zone!(self, zone => zone.free_block(first, order));
    }

    pub(super) fn free_frames(&self) -> u32 {
        of_zone!(self, zone => zone.free_frames())
    }

    #[inline]
    pub(super) fn has_blocks(&self, frames: u32) -> bool {
        of_zone!(self, zone => zone.has_blocks(frames))
    }

    pub(super) fn stats(&self) -> Stats {
        of_zone!(self, zone => zone.stats())
    }
}

/// One zone, its node, and the number of its first frame.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) node: usize,
    pub(super) first: u32,
    pub(super) zone: AnyZone,
}

impl Part {
    pub(super) fn has(&self, frame: u32) -> bool {
        frame >= self.first && frame - self.first < self.zone.frames()
    }
}

/// The active list of a node: how many pages it has, under `lru_lock`.
pub(super) enum Lru {
    Spin(Sim<Line<Guarded<Field<u32>>>>),
    Queued(Sim<Line<Guarded<Field<u32>, Queue>>>),
}

impl Lru {
    pub(super) fn new(rules: ZoneRules, locks: LockRules) -> Self {
        let lru = if rules.queued {
            Self::Queued(Here::place(Line(Guarded::queued(Field::new(0)))))
        } else {
            Self::Spin(Here::place(Line(locks.guarded(Field::new(0)))))
        };
        let name = "zone->lru_lock";
        match &lru {
            Self::Spin(lru) => lru.name(name),
            Self::Queued(lru) => lru.name(name),
        }
        lru
    }

    /// Adds or removes `moved` pages; `body` is the work.
    pub(super) fn change(&self, moved: u32, body: impl FnOnce()) {
        let change = |pages: &Field<u32>| {
            pages.write(pages.peek().wrapping_add(moved));
            body();
        };
        match self {
            Self::Spin(lru) => lru.hold_irq(change),
            Self::Queued(lru) => lru.hold_irq(change),
        }
    }

    pub(super) fn is_locked(&self) -> bool {
        match self {
            Self::Spin(lru) => lru.is_locked(),
            Self::Queued(lru) => lru.is_locked(),
        }
    }

    /// Pages that were added and removed.
    #[cfg(test)]
    pub(super) fn moved(&self) -> u32 {
        match self {
            Self::Spin(lru) => lru.unlocked().peek(),
            Self::Queued(lru) => lru.unlocked().peek(),
        }
    }
}
