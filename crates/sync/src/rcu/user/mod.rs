//! User-space RCU: readers do not take locks, and writers wait for them before they free memory.
//!
//! ## Use
//!
//! For data that is read much more often than it is changed. A thread [registers](register) and
//! reads between [`read`] and the end of its guard; an updater replaces the old version with a new
//! one, and frees the old one after [`synchronize`], or passes it to [`call`]. [`Shared`] does both
//! for one pointer. Threads that regularly reach a point without references may be [`Quiescent`]
//! readers, with critical sections that cost nothing. Not for data that must be current: a critical
//! section may see data that was replaced after its start. Not across `fork`.
//!
//! ```
//! use convoy_sync::rcu::user as rcu;
//!
//! let limit = rcu::Shared::new(10);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let _registered = rcu::register();
//!         let section = rcu::read();
//!         assert!([10, 20].contains(limit.get(&section)));
//!     });
//!     limit.set(20);
//! });
//! rcu::barrier(); // The old number is freed.
//! ```
//!
//! ## States
//!
//! Each reader has a word: 0 outside of sections, or the number of the last grace period that had
//! begun when its section began. Two more words hold the numbers of the last grace period that has
//! begun and of the last that has ended; numbers are odd.
//!
//! ## Transitions
//!
//! - *enter*: the word becomes the number that has begun; *leave*: 0; *pass*, of a reader that is
//!   always in a section: the current number.
//! - *run* (one updater at a time): the number goes up; a fence on every CPU; each reader whose
//!   word is neither 0 nor the new number is waited for, spinning and then sleeping on that word,
//!   after the reader's flag was set; then the number is complete.
//! - *tell*, by a reader that leaves or passes: it clears the flag, sets its word to the current
//!   number unless it is outside, and wakes the updater.
//! - A callback goes to the list of its CPU. One thread takes all lists, runs a grace period, and
//!   runs them; without any it sleeps, and the next callback wakes it.
//!
//! ## Invariants
//!
//! - I1: a grace period ends only when no section is left that began before it.
//! - I2: the holder of a ticket waits for a grace period that starts after the ticket was drawn.
//! - I3: a record of a reader is never freed, only reused.
//! - I4: a thread with a section open stays registered.
//!
//! ## Memory ordering
//!
//! A reader stores its word and then reads data; an updater unlinks data and then reads the word.
//! Each needs a fence between its two steps; the reader's is executed by `membarrier`, which the
//! updater calls: so the reader pays only for a store. The same holds for the end of a section and
//! the flag, and for going to sleep. The end of a section is a release that the updater acquires. A
//! quiescent reader needs the fence only when it arrives and leaves. Where the system refuses
//! `membarrier`, readers execute fences.
//!
//! ## Progress and fairness
//!
//! Readers never wait. A grace period waits for the longest section, and for a thread that has lost
//! its CPU inside of one. Updaters that arrive during a grace period share the next one. [`call`]
//! makes its caller wait while as many callbacks wait as [`limit`] admits, except inside a section,
//! from a callback or from a quiescent reader, where it would wait for itself.
//!
//! ## Cost
//!
//! A section: two stores and three loads of the thread's own line, one load of a line that is
//! written once in a grace period. A grace period: one `membarrier`, one more if it sleeps. A
//! callback: the lock of its CPU's list and 16 bytes there. A record is 128 bytes.
//! `results/rcu-user.md` has the figures.
//!
//! ## Lineage
//!
//! `urcu-memb` and `urcu-qsbr` of liburcu. Numbers instead of two phases, so one `membarrier`
//! instead of two; readers are waited for by number, one sleep each; callbacks wake their thread,
//! and their number is bounded. Tickets and barriers are shared with the kernel's RCU; its tree is
//! not used, since threads start and exit at any time, and there are no ticks.

mod callbacks;
mod membarrier;
mod periods;
mod registry;
mod shared;

pub use super::Ticket;
pub use callbacks::{barrier, call, free, limit};
pub use membarrier::Membarrier;
pub use periods::{Fences, Patience, Periods, Reader};
pub use registry::{
    Delayed, Quiescent, QuiescentSection, Registered, Section, on_stall, read, register,
    register_quiescent,
};
pub use shared::{Inside, Shared};

use registry::{MINE, PROCESS, SPIN_NS};

/// Time to spin for an expedited grace period: a time slice.
const SPIN_EXPEDITED_NS: u64 = 3_000_000;

/// Waits until every section has ended that runs now (`synchronize_rcu`).
///
/// # Panics
///
/// Inside a section, and in a thread that is a [`Quiescent`] reader unless in
/// [`Quiescent::offline`]: it would wait for itself.
#[track_caller]
pub fn synchronize() {
    MINE.with(|mine| mine.may_wait("synchronize"));
    PROCESS.synchronize(SPIN_NS);
}

/// [`synchronize`] that spins for readers for up to 3 ms, where it would sleep: ends sooner and
/// takes the CPU (`synchronize_rcu_expedited`).
///
/// # Panics
///
/// As [`synchronize`].
#[track_caller]
pub fn synchronize_expedited() {
    MINE.with(|mine| mine.may_wait("synchronize_expedited"));
    PROCESS.synchronize(SPIN_EXPEDITED_NS);
}

/// Returns a ticket for a grace period that begins from now on. Begins none
/// (`get_state_synchronize_rcu`).
pub fn ticket() -> Ticket {
    PROCESS.periods.ticket()
}

/// Returns a [`ticket`], and makes the callback thread run that grace period
/// (`start_poll_synchronize_rcu`).
pub fn start_poll() -> Ticket {
    let ticket = ticket();
    callbacks::ask();
    ticket
}

/// Returns whether every section has ended that ran when `ticket` was drawn
/// (`poll_state_synchronize_rcu`).
pub fn poll(ticket: Ticket) -> bool {
    PROCESS.periods.poll(ticket)
}
