//! Memory orderings of the source by their place, and weaker ones that a search tries instead.

use super::memory::{Kind, Operation};
use core::fmt;
use core::panic::Location;
use core::sync::atomic::Ordering;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A memory ordering. Of a fence, `Relaxed` means that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Orders nothing.
    Relaxed,
    /// Later accesses stay after it.
    Acquire,
    /// Earlier accesses stay before it.
    Release,
    /// Both.
    AcqRel,
    /// Both, and all of these operations are in one order.
    SeqCst,
}

impl Order {
    /// All orderings, none before a weaker one.
    pub const ALL: [Self; 5] =
        [Self::Relaxed, Self::Acquire, Self::Release, Self::AcqRel, Self::SeqCst];

    fn of(order: Ordering) -> Self {
        match order {
            Ordering::Relaxed => Self::Relaxed,
            Ordering::Acquire => Self::Acquire,
            Ordering::Release => Self::Release,
            Ordering::AcqRel => Self::AcqRel,
            _ => Self::SeqCst,
        }
    }

    fn written(self) -> Ordering {
        match self {
            Self::Relaxed => Ordering::Relaxed,
            Self::Acquire => Ordering::Acquire,
            Self::Release => Ordering::Release,
            Self::AcqRel => Ordering::AcqRel,
            Self::SeqCst => Ordering::SeqCst,
        }
    }

    /// Returns whether it orders less than `other`. `Acquire` and `Release` do not compare.
    pub fn is_weaker_than(self, other: Self) -> bool {
        self < other && (self, other) != (Self::Acquire, Self::Release)
    }
}

/// Access to which an ordering belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write.
    Modify,
    /// A compare-exchange that replaces the value.
    Success,
    /// A compare-exchange that finds another value.
    Failure,
    /// A fence.
    Fence,
}

impl Part {
    /// Returns the name as printed in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::Modify => "modify",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Fence => "fence",
        }
    }

    fn admits(self, order: Order) -> bool {
        match self {
            Self::Load | Self::Failure => !matches!(order, Order::Release | Order::AcqRel),
            Self::Store => !matches!(order, Order::Acquire | Order::AcqRel),
            Self::Modify | Self::Success | Self::Fence => true,
        }
    }
}

/// One memory ordering of the source. An operation with an ordering that its caller passes has a
/// site for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// File as the compiler was given it: relative to the workspace.
    pub file: &'static str,
    /// Line of the name of the operation, from 1.
    pub line: u32,
    /// Column of that name from 1, or of the path before it.
    pub column: u32,
    /// Access to which the ordering belongs.
    pub part: Part,
    /// The ordering.
    pub order: Order,
}

impl Site {
    /// Returns the weaker orderings, none before a weaker one.
    pub fn weaker(&self) -> impl Iterator<Item = Order> {
        let Self { part, order, .. } = *self;
        Order::ALL.into_iter().filter(move |&o| part.admits(o) && o.is_weaker_than(order))
    }

    /// Returns the next stronger orderings after `order`, up to that of the source.
    pub(crate) fn stronger(&self, order: Order) -> impl Iterator<Item = Order> {
        let site = *self;
        let above = move |o: Order| {
            site.part.admits(o) && order.is_weaker_than(o) && !site.order.is_weaker_than(o)
        };
        let admitted = Order::ALL.into_iter().filter(move |&o| above(o));
        admitted.filter(move |&o| {
            (o == site.order || o.is_weaker_than(site.order))
                && !Order::ALL.into_iter().any(|by| above(by) && by.is_weaker_than(o))
        })
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{} {}", self.file, self.line, self.column, self.part.name())
    }
}

/// Weaker orderings for sites of the source.
pub type Weaker = BTreeMap<Site, Order>;

/// Orderings with which a scenario is executed.
#[derive(Debug, Default)]
pub enum Orders {
    /// Those of the source.
    #[default]
    Source,
    /// The same, and records the sites that tasks reach.
    Recorded(RefCell<BTreeSet<Site>>),
    /// Those of the source, but weaker ones at some sites.
    Weakened(Weaker),
}

impl Orders {
    /// Returns `operation` with the orderings that are to be used for it, if it was written at
    /// `place`.
    pub(super) fn applied(
        &self,
        operation: Operation,
        place: &'static Location<'static>,
    ) -> Operation {
        let (first, second) = match operation.kind {
            Kind::Load => (Part::Load, None),
            Kind::Store => (Part::Store, None),
            Kind::Modify => (Part::Modify, None),
            Kind::Exchange => (Part::Success, Some(Part::Failure)),
            Kind::Fence => (Part::Fence, None),
            _ => return operation,
        };
        let order = self.order(place, first, operation.order);
        let failure =
            second.map_or(operation.failure, |part| self.order(place, part, operation.failure));
        Operation { order, failure, ..operation }
    }

    fn order(&self, place: &'static Location<'static>, part: Part, written: Ordering) -> Ordering {
        let (line, column) = (place.line(), place.column());
        let order = Order::of(written);
        let site = || Site { file: place.file(), line, column, part, order };
        match self {
            Self::Source => written,
            Self::Recorded(sites) => {
                sites.borrow_mut().insert(site());
                written
            }
            Self::Weakened(weaker) => weaker.get(&site()).map_or(written, |order| order.written()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(part: Part, order: Order) -> Site {
        Site { file: "a.rs", line: 1, column: 2, part, order }
    }

    #[test]
    fn an_access_has_the_orderings_that_the_language_admits() {
        use Order::{AcqRel, Acquire, Relaxed, Release, SeqCst};
        let cases = [
            (Part::Load, Acquire, vec![Relaxed]),
            (Part::Load, SeqCst, vec![Relaxed, Acquire]),
            (Part::Store, SeqCst, vec![Relaxed, Release]),
            (Part::Modify, Release, vec![Relaxed]),
            (Part::Success, AcqRel, vec![Relaxed, Acquire, Release]),
            (Part::Failure, Relaxed, vec![]),
            (Part::Fence, SeqCst, vec![Relaxed, Acquire, Release, AcqRel]),
        ];
        for (part, order, weaker) in cases {
            assert_eq!(site(part, order).weaker().collect::<Vec<_>>(), weaker, "{part:?}");
        }
        let stronger = |part, order, from| site(part, order).stronger(from).collect::<Vec<_>>();
        assert_eq!(stronger(Part::Modify, SeqCst, Relaxed), [Acquire, Release]);
        assert_eq!(stronger(Part::Modify, Release, Relaxed), [Release]);
        assert_eq!(stronger(Part::Modify, SeqCst, Acquire), [AcqRel]);
        assert_eq!(stronger(Part::Store, SeqCst, Relaxed), [Release]);
        assert_eq!(stronger(Part::Store, SeqCst, Release), [SeqCst]);
        assert_eq!(stronger(Part::Load, Acquire, Acquire), []);
    }
}
