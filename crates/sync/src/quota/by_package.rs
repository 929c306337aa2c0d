//! [`ByPackage`]: turns that stay on a package for a while.
//!
//! Threads of two packages that have their turns at the same time send the line of the lock back
//! and forth between them. Here waiters of one package are summoned in a row, and the lock stays in
//! the caches of that package. Use it if several packages contend for one lock; on a single package
//! it equals [`Quota`](super::Quota) to the bit. `docs/locks.md` has its benefit and cost.
//!
//! ## States
//!
//! As [`Quota`](super::Quota), and in addition, under the inner lock, the *home* package and the
//! number of its waiters that may still be summoned in a row.
//!
//! ## Transitions
//!
//! ```text
//! summon  left > 0 and one of the first WINDOW sleepers arrived on the home package:
//!             the first of those; left -= 1
//!         else the first sleeper of all; its package is the home, left = ROW
//! ```
//!
//! ## Invariants
//!
//! - I1 As [`Quota`](super::Quota): a sleeper is found while there are sleepers.
//! - I2 A waiter is passed by at most `ROW` others for each waiter summoned from the front.
//!
//! ## Memory ordering
//!
//! Nothing beyond [`Quota`](super::Quota): the inner lock orders the two cells.
//!
//! ## Progress and fairness
//!
//! Sleepers of other packages wait for a row of turns more, some milliseconds. A real-time task is
//! served first, whatever its package.
//!
//! ## Cost
//!
//! 8 bytes in the queue. Summoning reads up to `WINDOW` records, lines of other CPUs, under the
//! inner lock.
//!
//! ## Lineage
//!
//! Lock cohorting: Dice, Marathe and Shavit, 2012. Kashyap and others, 2019, order a
//! queue by packages, too.

use super::room::{Room, Within};
use crate::lock::{RawLock, TellPart};
use crate::platform::Platform;
use crate::queue::Waiter;
use core::cell::Cell;
use core::mem::offset_of;

/// Waiters that are checked for one of the home package: each check reads a line of another CPU.
const WINDOW: u32 = 64;

/// Waiters of a package in a row: with turns of 100 us on 4 CPUs they take 2 ms, compared with
/// which the transfer of lines to the next package is negligible.
const ROW: u32 = 64;

/// The queue of a [`Quota`](super::Quota) with turns that stay on a package for a while.
#[repr(C)]
pub struct ByPackage<P: Platform, L: RawLock<P>> {
    within: Within<P, L>,
    home: Cell<u32>,
    /// How many of the home package may still be summoned in a row.
    left: Cell<u32>,
}

// SAFETY: the cells are used only while the inner lock is held; the queue is `Sync` itself.
unsafe impl<P: Platform, L: RawLock<P>> Sync for ByPackage<P, L> where Within<P, L>: Sync {}

impl<P: Platform, L: RawLock<P> + Default> Room<P> for ByPackage<P, L> {
    type Inner = L;

    fn new() -> Self {
        Self { within: Within::new(), home: Cell::new(0), left: Cell::new(0) }
    }

    #[inline]
    fn queue(&self) -> &Within<P, L> {
        &self.within
    }

    unsafe fn next(&self) -> Option<&Waiter<P>> {
        let queue = &self.within.queue;
        // SAFETY: the contract is this function's own.
        let first = unsafe { queue.find(|waiter| !waiter.is_woken()) }?;
        if first.urgent.get() || first.package == self.home.get() || self.left.get() == 0 {
            return Some(first);
        }
        let looks = Cell::new(WINDOW);
        let is_near = |waiter: &Waiter<P>| {
            let asleep = !waiter.is_woken();
            looks.set(looks.get() - u32::from(asleep));
            looks.get() == 0 || asleep && waiter.package == self.home.get()
        };
        // SAFETY: as above.
        let near = unsafe { queue.find(is_near) };
        near.filter(|waiter| waiter.package == self.home.get()).or(Some(first))
    }

    fn comes(&self, package: u32) {
        if package == self.home.get() && self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
        } else {
            self.home.set(package);
            self.left.set(ROW);
        }
    }

    fn parts(offset: usize, tell: &mut TellPart<'_>) {
        Within::<P, L>::parts(offset + offset_of!(Self, within), tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;
    use crate::spin::TicketLock;

    /// Returns the order in which waiters that arrived on these packages are summoned.
    fn order(packages: &[u32]) -> Vec<usize> {
        let room = ByPackage::<Native, TicketLock<Native>>::new();
        let mut waiters: Vec<_> = packages.iter().map(|_| Waiter::new(false)).collect();
        waiters.iter_mut().zip(packages).for_each(|(waiter, &package)| waiter.package = package);
        for waiter in &waiters {
            waiter.prepare();
            // SAFETY: one thread has the queue, and the records outlive it.
            unsafe { room.within.queue.push(waiter) };
        }
        let mut order = Vec::new();
        // SAFETY: as above.
        while let Some(next) = unsafe { room.next() } {
            order.extend(waiters.iter().position(|waiter| std::ptr::eq(waiter, next)));
            room.comes(next.package);
            next.awake();
        }
        order
    }

    #[test]
    fn waiters_of_the_home_package_come_first_and_then_the_others() {
        assert_eq!(order(&[1, 0, 1, 0, 1]), [0, 2, 4, 1, 3]);
    }

    #[test]
    fn nobody_waits_for_more_than_a_row_of_the_home_package() {
        let mut packages = vec![1; 2 * WINDOW as usize];
        packages[1] = 0;
        let order = order(&packages);
        let passed = order.iter().position(|&at| at == 1);
        // The first of all, and a row after it.
        assert_eq!(passed, Some(ROW as usize + 1));
        assert_eq!(order.len(), packages.len());
    }

    #[test]
    fn nobody_is_looked_for_beyond_the_window() {
        let mut packages = vec![0; WINDOW as usize + 2];
        packages[0] = 1;
        *packages.last_mut().expect("there are some") = 1;
        let order = order(&packages);
        assert_eq!(order[..3], [0, 1, 2]);
    }
}
