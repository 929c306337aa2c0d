//! The error of an exhausted arena.

use core::fmt;

/// No page or block of the order is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exhausted {
    /// The requested order.
    pub order: u32,
    /// Pages of the arena.
    pub pages: u32,
    /// Allocated pages.
    pub taken: u32,
    /// Free pages in the caches of threads.
    pub cached: u32,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { order, pages, taken, cached } = self;
        match order {
            0 => write!(f, "no page is free")?,
            _ => write!(f, "no block of {} pages is free", 1_u32 << order)?,
        }
        write!(f, ": of {pages} pages {taken} are taken and {cached} lie in caches of threads; ")?;
        if *cached > taken / 8 {
            write!(f, "make the caches smaller (Arena::with_caches) or the arena larger")
        } else {
            write!(f, "make the arena larger")
        }
    }
}

impl core::error::Error for Exhausted {}
