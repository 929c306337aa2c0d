//! [`Extended`]: a lock whose owner asks the scheduler for a little more time before it is
//! preempted.
//!
//! Use it where owners lose their CPUs and critical sections are shorter than the extension, 5 µs
//! by default. Not for longer ones: an extension that ends in the critical section has only delayed
//! the preemption. Where the scheduler offers no extension, this is the inner lock.
//!
//! ## States
//!
//! Those of the inner lock. The platform keeps a request and a grant for each task.
//!
//! ## Transitions
//!
//! ```text
//! lock     the inner lock; ask for an extension
//! unlock   the inner lock; take the request back, and yield the CPU if an extension was granted
//! ```
//!
//! ## Invariants
//!
//! - I1 A task asks for an extension only while it owns a lock, and for the few instructions until
//!   the request is taken back.
//!
//! ## Memory ordering
//!
//! That of the inner lock. A task and the kernel exchange request and grant on one CPU, in program
//! order.
//!
//! ## Progress and fairness
//!
//! Those of the inner lock. A task that is to have the CPU waits at most for the extension.
//!
//! ## Cost
//!
//! Two writes and a read of a line of the task; with an extension, one system call more. A release
//! that wakes a waiter does so by a system call, and any system call ends an extension before it is
//! executed: the waiter is then woken when the owner has its next turn.
//!
//! ## Lineage
//!
//! The time-slice extension of restartable sequences by Gleixner and others, Linux 7.0:
//! `PR_RSEQ_SLICE_EXTENSION`, Documentation/userspace-api/rseq.rst and kernel/rseq.c. The request
//! follows the acquisition: the few instructions between them are not covered.

use crate::lock::{Cancel, Lock, TellPart, WaitError};
use crate::platform::Platform;
use core::marker::PhantomData;

/// See the module documentation.
#[repr(C)]
pub struct Extended<P, L> {
    lock: L,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform, L: Lock> Lock for Extended<P, L> {
    fn with_units(units: u32) -> Self {
        Self { lock: L::with_units(units), platform: PhantomData }
    }
    fn spin_limit(self, looks: u32) -> Self {
        Self { lock: self.lock.spin_limit(looks), ..self }
    }
    #[inline]
    fn acquire(&self) {
        self.lock.acquire();
        P::request_extension();
    }
    fn acquire_again(&self) {
        self.lock.acquire_again();
        P::request_extension();
    }
    fn try_acquire(&self) -> bool {
        let taken = self.lock.try_acquire();
        if taken {
            P::request_extension();
        }
        taken
    }
    fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
        self.lock.acquire_unless(cancel)?;
        P::request_extension();
        Ok(())
    }
    #[inline]
    fn release(&self) {
        self.lock.release();
        P::end_extension();
    }
    fn waiters(&self) -> usize {
        self.lock.waiters()
    }
    fn parts(tell: &mut TellPart<'_>) {
        L::parts(tell);
    }
}
