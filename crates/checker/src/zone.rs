//! Page-allocator scenarios as data: the allocations and frees of each task.

use crate::model::{End, Failure, Instance, Model, Property, Scenario};
use convoy_mm::{Bulk, SetSize, Setup, Temperature, Unlocked, Zone};
use convoy_sync::{Platform, RawLock, TicketLock};
use std::cell::RefCell;
use std::collections::BTreeMap;

use Page::{Block, Drain, Give, Take};

/// One call of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Allocates one page through the lists of the task's CPU. May fail.
    Take,
    /// Allocates a block of this order from the zone. May fail.
    Block(u32),
    /// Frees the task's oldest allocation, if it has any.
    Give,
    /// Returns the pages on the lists of the task's CPU to the zone.
    Drain,
}

/// A small program over one zone. Every task has a separate CPU. At the end each task drains its
/// lists, so that only allocated pages are not free.
#[derive(Clone, Copy, Debug)]
pub struct ZoneShape {
    /// The name, part of schedule strings.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Number of pages.
    pub frames: u32,
    /// Calls of each task.
    pub tasks: &'static [&'static [Page]],
}

/// Every shape, the simplest first. Lists are filled by three pages.
pub const ZONE_SHAPES: &[ZoneShape] = &[
    ZoneShape {
        name: "plenty",
        about: "two lists are filled and drained, no task finds the zone empty",
        frames: 16,
        tasks: &[&[Take, Give, Drain], &[Take, Give, Drain]],
    },
    ZoneShape {
        name: "dry",
        about: "a list takes the last pages, another one finds none",
        frames: 2,
        tasks: &[&[Take, Give, Drain], &[Take, Give, Drain]],
    },
    ZoneShape {
        name: "blocks",
        about: "single blocks and two lists, in a zone that may be empty",
        frames: 8,
        tasks: &[&[Block(1), Give], &[Take, Take, Give, Drain], &[Block(2), Give]],
    },
    ZoneShape {
        name: "kept",
        about: "pages that stay with their tasks",
        frames: 32,
        tasks: &[&[Take, Take, Drain], &[Take, Block(1), Drain], &[Take, Drain]],
    },
];

/// The zone and its ledger.
struct Ledger<B: Bulk<Model, TicketLock<Model>>> {
    zone: Zone<Model, TicketLock<Model>, B, Unlocked>,
    /// First frame and order of each block that the tasks own.
    taken: RefCell<BTreeMap<u32, u32>>,
}

impl<B: Bulk<Model, TicketLock<Model>>> Ledger<B> {
    fn take(&self, first: u32, order: u32) {
        let mut taken = self.taken.borrow_mut();
        let end = first + (1 << order);
        let other =
            taken.iter().find(|&(&other, &size)| other < end && first < other + (1 << size));
        if let Some((other, size)) = other {
            let text = format!("frame {first} is given out with {other} of order {size}");
            Model::fail(Property::Exclusion, text);
        }
        taken.insert(first, order);
    }

    fn play(&self, pages: &[Page]) {
        let mut mine = Vec::new();
        let lock = self.zone.lock();
        Model::name(lock, "zone->lock", <TicketLock<Model> as RawLock<Model>>::parts);
        for &page in pages {
            Model::call(page.name());
            let taken = match page {
                Take => self.zone.allocate(Temperature::Hot).map(|first| (first, 0)),
                Block(order) => self.zone.allocate_block(order).map(|first| (first, order)),
                Give if mine.is_empty() => None,
                Give => {
                    let (first, order) = mine.remove(0);
                    self.give(first, order);
                    None
                }
                Drain => {
                    self.zone.drain_lists(Model::cpu() as usize);
                    None
                }
            };
            if let Some((first, order)) = taken {
                self.take(first, order);
                mine.push((first, order));
            }
        }
    }

    fn give(&self, first: u32, order: u32) {
        self.taken.borrow_mut().remove(&first);
        if order == 0 {
            self.zone.free(first, Temperature::Hot);
        } else {
            self.zone.free_block(first, order);
        }
    }

    /// Checks the final state, in which no task can continue.
    fn verdict(&self, end: &End, frames: u32) -> Result<(), Failure> {
        if !end.spinning.is_empty() || !end.asleep.is_empty() {
            let text = format!("tasks {:?} spin forever on the zone lock", end.spinning);
            return Err((Property::NoDeadlock, text));
        }
        let kept: u32 = self.taken.borrow().values().map(|order| 1 << order).sum();
        let free = self.zone.free_frames();
        if free + kept != frames {
            let text = format!("{free} pages are free and {kept} taken of {frames}");
            return Err((Property::UnitsKept, text));
        }
        let blocks = self.zone.blocks();
        let whole = |order: usize| frames >> order & 1;
        if kept == 0 && (0..blocks.len()).any(|order| blocks[order] != whole(order)) {
            let text = format!("all pages are free, but not joined: {blocks:?} by order");
            return Err((Property::UnitsKept, text));
        }
        Ok(())
    }
}

impl Page {
    fn name(self) -> &'static str {
        match self {
            Take => "allocate",
            Block(_) => "allocate_block",
            Give => "free",
            Drain => "drain_lists",
        }
    }
}

/// Returns the scenario of `shape` on zones with the policy `bulk`, under the name `variant`.
pub fn zone_scenario<B>(variant: &str, bulk: B, shape: &ZoneShape) -> Scenario
where
    B: Bulk<Model, TicketLock<Model>> + Copy,
{
    let ZoneShape { frames, tasks, .. } = *shape;
    let name = format!("{variant}/{}", shape.name);
    let checks = [Property::Exclusion, Property::NoDeadlock, Property::UnitsKept];
    Scenario::new(name, checks, move || {
        // A batch of three pages, as in a zone of 48 MiB.
        let size = SetSize::of(48 << 8);
        let zone = Zone::new(Setup { size, ..Setup::new(frames, tasks.len(), bulk) });
        let ledger = Ledger { zone, taken: RefCell::default() };
        Instance::sharing(
            ledger,
            tasks.len(),
            move |ledger, task| ledger.play(tasks[task]),
            move |ledger, end| ledger.verdict(end, frames),
        )
    })
    // A frame's atomic state, which its buddy's owner reads, is in the line of its links.
    .with_shared_lines()
}
