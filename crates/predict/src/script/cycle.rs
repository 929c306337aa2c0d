//! The anchors of the cycles of threads: the event that the strips of a class begin and end with.

use super::{Act, Event};
use std::collections::BTreeMap;

/// The event at which the strips of each class begin.
pub(super) type Anchors = BTreeMap<u64, (u8, usize)>;

/// Returns the kind and the site of an event, without the lock that it uses.
pub(super) fn key(event: &Event) -> (u8, usize) {
    let what = match event.act {
        Act::Lock(..) | Act::Read(..) => 0,
        Act::Wait(_, None, _) => 1,
        Act::Signal(..) => 2,
        Act::Yield => 3,
        Act::Barrier(..) => 5,
        Act::Unlock(..) | Act::Wait(..) => 4,
    };
    (what, event.site)
}

/// Returns the indices of the events at which no lock is held.
pub(super) fn free(events: &[Event]) -> impl Iterator<Item = usize> {
    let mut held = 0_i32;
    let free = events.iter().enumerate().filter_map(move |(at, event)| {
        let before = held;
        held += match event.act {
            Act::Lock(..) | Act::Read(..) => 1,
            Act::Unlock(..) => -1,
            _ => 0,
        };
        (before == 0 && !matches!(event.act, Act::Unlock(..))).then_some(at)
    });
    free.collect::<Vec<_>>().into_iter()
}
