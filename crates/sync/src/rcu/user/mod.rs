//! RCU of this machine's threads: readers take nothing, and who frees waits for them.
//!
//! ## Use
//!
//! For data that is read much more often than it is changed. A thread [registers](register) and
//! reads between [`read`] and the end of its guard; an updater puts a new version in place of the
//! old one, and frees that after [`synchronize`], or leaves it to [`call`]. [`Shared`] does both
//! for one pointer. Threads that come by a point where they look at nothing, once in a while, may
//! be [`Quiescent`] readers, whose sections cost nothing. Not for data that must be seen at its
//! newest: a section may see what was replaced after it began. Not across `fork`.
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
//! begun when its section began. Of grace periods there are the number of the last that has begun
//! and of the last that has ended; numbers are odd.
//!
//! ## Transitions
//!
//! - *enter*: the word becomes the number that has begun; *leave*: 0; *pass*, of a reader that is
//!   always in a section: the number of now.
//! - *run* (one updater at a time): the number goes up; a fence on every CPU; each reader whose
//!   word is neither 0 nor the new number is waited for, spinning and then asleep on that word,
//!   after the reader's flag was set; the number has ended.
//! - *tell*, of a reader that leaves or passes: it takes the flag down, sets its word to the
//!   number of now unless it is outside, and wakes.
//! - A callback goes to the list of its CPU. One thread takes all lists, runs a grace period, and
//!   runs them; without any it sleeps, and the next callback wakes it.
//!
//! ## Invariants
//!
//! - I1: a grace period ends only when no section is left that began before it.
//! - I2: who has a ticket waits for a grace period that begins after the ticket was drawn.
//! - I3: a record of a reader is never freed, only used again.
//! - I4: a thread with a section open stays registered.
//!
//! ## Memory ordering
//!
//! A reader stores its word and then looks at data; an updater unlinks data and then looks at the
//! word. Between the two steps of each stands one fence, that of the reader by `membarrier`, which
//! the updater calls: so the reader pays no more than a store. The same holds for the end of a
//! section and the flag, and a going to sleep. The end of a section is a release that the updater
//! acquires. A quiescent reader needs the fence only to come and go. Where the system refuses
//! `membarrier`, readers execute fences.
//!
//! ## Progress and fairness
//!
//! Readers never wait. A grace period waits for the longest section, and for a thread that has lost
//! its CPU inside of one. Updaters that come while one is about its grace period share the next.
//! [`call`] makes its caller wait while as many callbacks wait as [`limit`] admits, except inside a
//! section, from a callback or from a quiescent reader, where it would wait for itself.
//!
//! ## Cost
//!
//! A section: two stores and three loads of the thread's own line, one load of a line that is
//! written once in a grace period. A grace period: one `membarrier`, one more if it sleeps. A
//! callback: the lock of its CPU's list and 16 bytes there. A record is 128 bytes. `docs/rcu.md`
//! has the figures.
//!
//! ## Lineage
//!
//! `urcu-memb` and `urcu-qsbr` of liburcu. Numbers instead of two phases, so one `membarrier` in
//! place of two; readers are waited for by number, one sleep each; callbacks wake their thread, and
//! their number is bounded. Tickets and barriers are those of the RCU of kernels beside this; its
//! tree is not used, since threads come and go, and no tick tells of them.

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

use crate::{Mutex, Native};
use callbacks::Work;
use registry::{MINE, Registry};

/// Spins before it sleeps for longer than most sections last: a reader that runs is through by
/// then, and one that does not run may wait for this very CPU,
const SPIN_NS: u64 = 4_000;
/// or for a time slice.
const SPIN_EXPEDITED_NS: u64 = 3_000_000;

/// RCU of this process.
struct Process {
    periods: Periods<Native, Membarrier>,
    /// Held by who is about a grace period.
    drive: Mutex<Vec<&'static registry::Record>>,
    registry: Mutex<Registry>,
    work: Work,
}

static PROCESS: Process = Process {
    periods: Periods::native(),
    drive: Mutex::new(Vec::new()),
    registry: Mutex::new(Registry::new()),
    work: Work::new(),
};

impl Process {
    /// Waits for a grace period that begins from now on.
    fn synchronize(&self, spin_ns: u64) {
        let ticket = self.periods.ticket();
        let mut list = self.drive.lock();
        if self.periods.poll(ticket) {
            return;
        }
        let patience = Patience { spin_ns, stall_ns: Some(registry::stall_ns()) };
        let empty = core::mem::take(&mut *list);
        let readers = || self.registry.lock().readers(empty);
        *list = self.periods.run(readers, patience, registry::report);
    }
}

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

/// A ticket for a grace period that begins from now on; begins none
/// (`get_state_synchronize_rcu`).
pub fn ticket() -> Ticket {
    PROCESS.periods.ticket()
}

/// The same, and the thread of the callbacks sees to that grace period
/// (`start_poll_synchronize_rcu`).
pub fn start_poll() -> Ticket {
    let ticket = ticket();
    callbacks::ask();
    ticket
}

/// Whether every section has ended that ran when `ticket` was drawn (`poll_state_synchronize_rcu`).
pub fn poll(ticket: Ticket) -> bool {
    PROCESS.periods.poll(ticket)
}
