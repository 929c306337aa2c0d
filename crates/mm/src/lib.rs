//! The page-frame allocator of Linux 2.6: a zone of free blocks under one spinlock, and lists of
//! single pages for each CPU in front of it.
//!
//! | type | purpose |
//! |---|---|
//! | [`Zone`] | the allocator: numbers of frames, not memory |
//! | [`SetSize`] | the largest length of a CPU's lists, and the number of pages per batch |
//! | [`HoldAll`], [`ReleaseEach`], [`ReleaseContended`] (or [`ReleaseContendedEvery`]) | how the zone lock is held while a batch moves |
//! | [`PublishedReleaseEach`] | the patch of 2007 as published, which may fail to release the lock |
//! | [`Unlocked`] | no lock, for lists that are protected by disabled interrupts |
//!
//! All three platforms of `convoy-sync` share this source: threads use it as it is, on the virtual
//! machine each list and each frame is in simulated memory and priced by its cache line, and the
//! checker explores the order of its lock operations.

#![forbid(unsafe_code)]

mod buddy;
mod bulk;
mod frame;
mod list;
mod set;
mod tally;
mod zone;

#[cfg(test)]
use convoy_watchdog as _;

pub use buddy::{ORDER_MAX, ORDERS};
pub use bulk::{
    Bulk, HoldAll, PublishedReleaseEach, ReleaseContended, ReleaseContendedEvery, ReleaseEach,
};
pub use frame::FrameSize;
pub use set::{SetSize, Temperature, Unlocked};
pub use tally::{Moments, Stats};
pub use zone::{Drain, LockPlace, NativeZone, Setup, Zone};

/// The example of the read-me.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
