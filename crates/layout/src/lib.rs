//! The file that a recorded process writes through a shared mapping, as one type for recorder and
//! reader: [`File`].
//!
//! The file has its maximum length and is sparse: only used parts take space. Times are ticks of
//! the time stamp counter; two readings of it and of the monotonic clock give the length of a tick.
#![no_std]

extern crate alloc;

mod header;
mod memory;
pub mod program;
mod slot;
mod times;
mod waits;

use core::mem::offset_of;

pub use header::*;
pub use memory::{Access, Mapped, Part, Plain};
pub use slot::*;
pub use times::*;
pub use waits::*;

/// The file.
#[repr(C)]
pub struct File<A: Access = Plain> {
    /// The first page.
    pub header: Header<A>,
    /// Locks and conditions that had waiters, open addressing by [`place`].
    pub locks: [Lock<A>; LOCK_COUNT],
    /// Text of `/proc/self/maps`, one or several of them.
    pub map: [A::Word; MAP_WORDS],
    /// Call stacks, open addressing by [`place`] of the call site.
    pub stacks: [CallStack<A>; STACK_COUNT],
    /// Causes of waits, open addressing by [`edge`].
    pub edges: [Edge<A>; EDGE_COUNT],
    /// Slots of threads that live at the same time.
    pub slots: [Slot<A>; SLOT_COUNT],
    /// The first keys of each slot.
    pub few: [FewKeys<A>; SLOT_COUNT],
    /// Details of keys; the first one is not used.
    pub details: [Detail<A>; DETAIL_COUNT],
    /// Traces of threads.
    pub traces: [Trace<A>; TRACE_COUNT],
    /// Single contended waits: the first ones, then a fair sample of all.
    pub events: [Event<A>; EVENT_COUNT],
    /// Places in Python code, open addressing by [`place`] of the hash.
    pub places: [Place<A>; PLACE_COUNT],
}

/// Value of [`Header::magic`]: "convoyrw".
pub const MAGIC: u64 = u64::from_le_bytes(*b"convoyrw");
/// Version of this layout.
pub const VERSION: u64 = 14;
/// Words of a page.
pub const PAGE: usize = 512;
/// Words of the text of memory maps.
pub const MAP_WORDS: usize = 64 * PAGE;

/// Name of the file with the number of pages that all processes together may still use.
pub const BUDGET: &[u8] = b"budget";
/// Its word with the number of pages used by programs of other users.
pub const BUDGET_OTHERS: usize = 1;
/// Numbers of unrecorded programs: no room, directory out of reach, a limit, a filter.
pub const BUDGET_LOST: usize = 2;

/// The file may take the limit of the address space (`ulimit -v`) divided by this number, so that
/// the program does not run out of address space.
pub const SPACE_SHARE: u64 = 16;

/// Variables of a service manager that contain the ID of the process that they are for.
pub const UNIT_VARIABLES: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// Padding after the recorder's process ID in these variables, so that the program's ID has room.
pub const UNIT_PAD: &[u8] = b"          ";

/// Initial hash for [`fnv`].
pub const FNV: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the FNV-1a hash of `bytes` (Fowler, Noll and Vo), continued from `hash`.
#[must_use]
pub fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Start of the search for an address in a table of `count` entries, a power of two.
#[inline]
pub const fn place(lock: u64, site: u64, count: usize) -> usize {
    let mixed = (lock ^ site.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (count - 1)
}

// The format of version 14: any change of an offset needs another version. Tables of lines begin on
// pages.
const _: () = {
    const fn is_at(offset: usize, word: usize) -> bool {
        offset == word * size_of::<u64>()
    }
    assert!(is_at(offset_of!(Header, programs_more), 28) && is_at(offset_of!(Header, short), 40));
    assert!(is_at(offset_of!(Header, sandboxed), 46) && is_at(offset_of!(Header, command), 64));
    assert!(is_at(offset_of!(Header, programs), 384) && is_at(size_of::<Header>(), PAGE));
    assert!(is_at(offset_of!(Lock, other_releases), 14));
    assert!(is_at(offset_of!(CallStack, foreign), 28) && is_at(offset_of!(Edge, of_itself), 13));
    assert!(is_at(offset_of!(State, mutexes), 16) && is_at(offset_of!(State, wait), 24));
    assert!(is_at(offset_of!(State, ended), 32) && is_at(offset_of!(State, rounds), 96));
    assert!(is_at(offset_of!(State, units), 104) && is_at(offset_of!(Slot, phases), 128));
    assert!(is_at(offset_of!(Slot, table), PAGE) && is_at(offset_of!(Table, keys), 1024));
    assert!(is_at(size_of::<Slot>(), 4608) && is_at(size_of::<FewKeys>(), 32));
    assert!(is_at(offset_of!(Detail, callers), 8) && is_at(offset_of!(Detail, hold_on), 16));
    assert!(is_at(offset_of!(Distribution, buckets), 4) && is_at(offset_of!(Trace, steps), 8));
    assert!(is_at(offset_of!(File, locks), 512) && is_at(offset_of!(File, map), 66_048));
    assert!(is_at(offset_of!(File, stacks), 98_816) && is_at(offset_of!(File, edges), 143_872));
    assert!(is_at(offset_of!(File, slots), 176_640) && is_at(offset_of!(File, few), 19_051_008));
    assert!(is_at(offset_of!(File, details), 19_182_080));
    assert!(is_at(offset_of!(File, traces), 27_243_008));
    assert!(is_at(offset_of!(File, events), 28_815_872));
    assert!(is_at(offset_of!(File, places), 28_832_256));
    assert!(is_at(size_of::<File>(), 28_865_024));
    assert!(size_of::<File<Mapped>>() == size_of::<File>());
    assert!(DETAIL_COUNT <= 1 << Told::DETAIL_BITS && PYTHON < 1 << KIND_SHIFT);
    assert!(bucket(15) == 0 && bucket(16) == 0 && bucket(24) == 1 && bucket(32) == 2);
    assert!(least(2) == 32 && least(1) == 24 && bucket(least(40)) == 40);
};
