//! Grace periods that are asked for by number.

use super::{Rcu, Steps};
use crate::{Atomic, Platform};
use core::sync::atomic::Ordering::{Acquire, SeqCst};

/// Represents everything that readers may see when it is drawn; see [`Rcu::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(super) usize);

impl<P: Platform, C, S: Steps> Rcu<P, C, S> {
    /// Returns a ticket for the grace period after the current one (`get_state_synchronize_rcu`).
    /// Begins none.
    pub fn ticket(&self) -> Ticket {
        // SeqCst, and a change that changes nothing: the number is read after the caller's
        // unlinking is visible to all. A mere load might come first.
        Ticket(self.tree.numbers.gpnum.fetch_add(0, SeqCst).wrapping_add(1))
    }

    /// Returns a [ticket](Self::ticket), and this CPU ensures that the grace period begins
    /// (`start_poll_synchronize_rcu`).
    pub fn start_poll(&self) -> Ticket {
        let ticket = self.ticket();
        self.here().wanted.set(Some(ticket.0));
        ticket
    }

    /// Returns whether all sections have ended that ran when `ticket` was drawn
    /// (`poll_state_synchronize_rcu`).
    pub fn poll(&self, ticket: Ticket) -> bool {
        // Acquire pairs with the end of the grace period in `finish`, which has seen each report.
        !Self::before(self.tree.numbers.completed.load(Acquire), ticket.0)
    }

    /// Returns whether this CPU has drawn a ticket for a grace period that has not ended.
    pub(super) fn is_polled(&self) -> bool {
        let wanted = &self.here().wanted;
        let Some(ticket) = wanted.get() else { return false };
        let over = self.poll(Ticket(ticket));
        if over {
            wanted.set(None);
        }
        !over
    }
}
