//! The page-frame allocator of Linux 2.6: a zone of free blocks under one spinlock, and lists of
//! single pages for each CPU in front of it.
//!
//! | type | what it is |
//! |---|---|
//! | [`Arena`], [`Cache`] | pages of memory for threads: the zone over one mapping, and a thread's own list |
//! | [`Zone`] | the allocator: numbers of frames, not memory |
//! | [`SetSize`] | how long the lists of a CPU may become and how many pages move at once |
//! | [`HoldAll`], [`ReleaseEach`], [`ReleaseContended`] (or [`ReleaseContendedEvery`]) | what the zone lock does during such a move |
//! | [`PublishedReleaseEach`] | the patch of 2007 as it was published, which can keep the lock |
//! | [`Steps`], [`Sound`] | what a checker may leave out of the buddy system, and nobody else |
//! | [`Unlocked`] | no lock, for lists that disabled interrupts guard |
//!
//! The source is one for the three platforms of `convoy-sync`: under threads it hands out frames
//! of an arena, on the virtual machine each list and each frame lies in simulated memory and costs
//! what its cache line costs, and the checker explores the order of its lock operations.

#![cfg_attr(not(test), forbid(unsafe_code))]

mod arena;
mod buddy;
mod bulk;
mod frame;
mod list;
mod set;
mod tally;
mod zone;

#[cfg(test)]
use convoy_watchdog as _;

pub use arena::{Arena, ArenaStats, Cache, Exhausted, PAGE_BYTES};
pub use buddy::{ORDER_MAX, ORDERS, Sound, Steps};
pub use bulk::{
    Bulk, HoldAll, PublishedReleaseEach, ReleaseContended, ReleaseContendedEvery, ReleaseEach,
};
pub use set::{SetSize, Temperature, Unlocked};
pub use tally::{Moments, Stats};
pub use zone::{LockPlace, NativeZone, Setup, Zone};
