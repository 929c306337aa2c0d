//! Grace periods over a list of readers, generic over the platform.

use super::super::Ticket;
use crate::{Atomic, Platform, Sleep, Wake};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// A reader that is in no section.
const OUTSIDE: u32 = 0;
/// Between the numbers of two grace periods, which are odd: none is [`OUTSIDE`].
const STEP: usize = 2;
/// Before the first grace period.
const FIRST: usize = 1;

/// The two sides of a full fence between each reader and an updater: one side may be cheap because
/// the other does the work of both.
pub trait Fences: 'static {
    /// The reader's fence.
    fn light();
    /// The updater's fence: as if each thread had executed a full fence somewhere during the call.
    fn heavy();
    /// A full fence of the calling thread alone.
    fn full();
}

/// One reader's words. Users with many readers should put each on a separate line.
#[derive(Debug)]
pub struct Reader<P: Platform> {
    /// The last grace period that had begun when its section began, cut to 32 bits.
    since: P::AtomicU32,
    /// An updater sleeps on `since`.
    awaited: P::AtomicU32,
}

impl<P: Platform> Default for Reader<P> {
    fn default() -> Self {
        Self { since: Atomic::new(OUTSIDE), awaited: Atomic::new(0) }
    }
}

impl<P: Platform> AsRef<Self> for Reader<P> {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl<P: Platform> Reader<P> {
    /// Begins a critical section.
    #[inline(always)]
    pub fn enter<F: Fences>(&self, periods: &Periods<P, F>) {
        // Acquire pairs with the step in `run`: a section with its number sees the unlinking.
        let number = periods.begun.load(Acquire);
        // Relaxed: the fence pairs with the heavy one in `run`.
        self.since.store(number as u32, Relaxed);
        F::light();
    }

    /// Ends the critical section.
    #[inline(always)]
    pub fn leave<F: Fences>(&self) {
        // Release pairs with the look in `is_through`: the section comes before the free.
        self.since.store(OUTSIDE, Release);
        if self.is_awaited::<F>() {
            P::wake(&raw const self.since, usize::MAX);
        }
    }

    /// Ends a critical section and begins the next one: a quiescent state.
    #[inline(always)]
    pub fn pass<F: Fences>(&self, periods: &Periods<P, F>) {
        // Acquire and Release, as in `enter` and `leave`.
        let number = periods.begun.load(Acquire);
        self.since.store(number as u32, Release);
        if self.is_awaited::<F>() {
            // The grace period that awaits this reader may have begun between the two: it would
            // sleep on with the flag down. Acquire and Release, as above.
            self.since.store(periods.begun.load(Acquire) as u32, Release);
            P::wake(&raw const self.since, usize::MAX);
        }
    }

    /// Enters a permanent critical section, even for an updater without a heavy fence for it.
    pub fn arrive<F: Fences>(&self, periods: &Periods<P, F>) {
        self.enter(periods);
        F::full();
    }

    /// Returns whether an updater sleeps on this reader's word, or is about to; if so, takes the
    /// flag down.
    #[inline(always)]
    fn is_awaited<F: Fences>(&self) -> bool {
        F::light();
        // Relaxed: the fence pairs with the fence in `sleep`. Either this sees that an updater is
        // about to sleep, or the updater sees that the section is over.
        self.awaited.load(Relaxed) != 0 && self.take_flag::<F>()
    }

    #[cold]
    fn take_flag<F: Fences>(&self) -> bool {
        // AcqRel pairs with `sleep`: the number that the updater waits for is seen from now on.
        let taken = self.awaited.swap(0, AcqRel);
        // The flag of a later updater is not taken down by this.
        F::full();
        taken != 0
    }

    /// Returns whether no section of it began before grace period `number`.
    fn is_through(&self, number: usize) -> bool {
        // Acquire pairs with the end of the section.
        over(self.since.load(Acquire), number)
    }
}

fn over(since: u32, number: usize) -> bool {
    since == OUTSIDE || since.wrapping_sub(number as u32).cast_signed() >= 0
}

/// How an updater waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For how long it spins before it sleeps, in nanoseconds.
    pub spin_ns: u64,
    /// Nanoseconds after which it reports readers that are still inside, if ever.
    pub stall_ns: Option<u64>,
}

/// Grace periods by number.
#[derive(Debug)]
pub struct Periods<P: Platform, F: Fences> {
    /// The last that has begun, and the last that has ended.
    begun: P::AtomicUsize,
    ended: P::AtomicUsize,
    fences: PhantomData<fn() -> F>,
}

impl<P: Platform, F: Fences> Default for Periods<P, F> {
    fn default() -> Self {
        Self { begun: Atomic::new(FIRST), ended: Atomic::new(FIRST), fences: PhantomData }
    }
}

impl<F: Fences> Periods<crate::Native, F> {
    /// [`Self::default`], for statics.
    pub(super) const fn native() -> Self {
        use core::sync::atomic::AtomicUsize;
        let (begun, ended) = (AtomicUsize::new(FIRST), AtomicUsize::new(FIRST));
        Self { begun, ended, fences: PhantomData }
    }
}

impl<P: Platform, F: Fences> Periods<P, F> {
    /// Returns a ticket for the first grace period that begins from now on.
    pub fn ticket(&self) -> Ticket {
        // SeqCst, and a change that changes nothing, as for the ticket of a kernel: the number is
        // read after the caller's unlinking.
        Ticket(self.begun.fetch_add(0, SeqCst).wrapping_add(STEP))
    }

    /// Returns whether all sections have ended that ran when `ticket` was drawn.
    pub fn poll(&self, ticket: Ticket) -> bool {
        // Acquire pairs with the end in `run`, which has seen every reader through.
        self.ended.load(Acquire).wrapping_sub(ticket.0).cast_signed() >= 0
    }

    /// Runs one grace period. The caller ensures that there is no concurrent one. `readers` is
    /// called once and returns the current readers, and whether any of them enters critical
    /// sections rather than being always in one. `stalled` receives readers that are late by
    /// `patience`, each time again. Returns the list, empty.
    pub fn run<R: AsRef<Reader<P>>>(
        &self,
        readers: impl FnOnce() -> (Vec<R>, bool),
        patience: Patience,
        mut stalled: impl FnMut(&[R]),
    ) -> Vec<R> {
        // SeqCst: with the fence below, before every read of a reader's word. The caller's
        // unlinking is published with the number.
        let number = self.begun.fetch_add(STEP, SeqCst).wrapping_add(STEP);
        // Readers that register later see the number, by the lock of the list.
        let (mut readers, any_enters) = readers();
        if any_enters {
            F::heavy();
        } else {
            F::full();
        }
        let until = P::now().saturating_add(patience.spin_ns);
        readers.retain(|reader| {
            if reader.as_ref().is_through(number) {
                return false;
            }
            P::spin_for(&reader.as_ref().since, until, |since| over(since, number));
            !reader.as_ref().is_through(number)
        });
        if !readers.is_empty() {
            Self::sleep(number, &mut readers, patience.stall_ns, &mut stalled);
        }
        // Release pairs with `poll`.
        self.ended.store(number, Release);
        readers
    }

    /// Sleeps until all of `readers` are through.
    fn sleep<R: AsRef<Reader<P>>>(
        number: usize,
        readers: &mut Vec<R>,
        stall_ns: Option<u64>,
        stalled: &mut impl FnMut(&[R]),
    ) {
        let next = || Some(P::now().saturating_add(stall_ns?));
        let mut deadline = next();
        while !readers.is_empty() {
            // Release pairs with `take_flag`; the fence with that in `is_awaited`, once for all.
            for reader in readers.iter() {
                reader.as_ref().awaited.store(1, Release);
            }
            F::heavy();
            readers.retain(|reader| !reader.as_ref().is_through(number));
            let Some(reader) = readers.first().map(AsRef::as_ref) else { return };
            // Acquire: as in `is_through`.
            let since = reader.since.load(Acquire);
            if over(since, number) {
                continue;
            }
            let end = P::wait(&reader.since, since, Sleep::Uninterruptible, deadline);
            if end == Wake::TimedOut {
                readers.retain(|reader| !reader.as_ref().is_through(number));
                stalled(readers);
                deadline = next();
            }
        }
    }
}
