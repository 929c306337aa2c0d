//! The zone: its lock, its free blocks, and the lists of the CPUs in front of them.
//!
//! ## Invariants
//!
//! - I1 Each frame is in exactly one place: in a free block, on a list, or with a caller.
//! - I2 No two free blocks are buddies of one order.
//! - I3 After `free` a list is shorter than its `high`, or empty.
//! - I4 The zone lock is free whenever no call is under way (not so with
//!   [`PublishedReleaseEach`](crate::PublishedReleaseEach)).
//!
//! Locks nest in one order: a set's, then the zone's. Interrupts are off from the first to the
//! last of them, for the whole batch, as in the kernel: how long the zone lock makes a CPU wait is
//! how long that CPU takes no interrupt.
//!
//! ## Lineage
//!
//! `mm/page_alloc.c` of Linux 2.6.16 to 2.6.23: one list for each order, hot and cold lists, a
//!   batch in and out under the zone lock. Different here: no watermarks and no reclaim (an empty
//!   zone is an answer), no migration types (2.6.24), and memory that was never handed out is not
//!   linked.

use crate::buddy::{Buddy, ORDERS, Sound, Steps};
use crate::bulk::{Bulk, HoldAll};
use crate::frame::{Frames, State};
use crate::list::List;
use crate::set::{PageSet, SetSize, Temperature, Unlocked};
use crate::tally::{Moments, Stats, Tally};
use convoy_sync::{Access, AdaptiveLock, Native, Platform, RawLock};
use core::marker::PhantomData;

/// Where the zone lock lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockPlace {
    /// In one line with the lists of the smallest orders, as in the kernel: who gets the lock has
    /// the lists as well.
    #[default]
    BesideLists,
    /// In a line of its own.
    OwnLine,
}

/// What a zone is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup<B> {
    /// Frames, numbered from 0.
    pub frames: u32,
    /// Sets of lists, one for each CPU.
    pub cpus: usize,
    /// Sizes of the lists.
    pub size: SetSize,
    /// Where the lock lies.
    pub lock: LockPlace,
    /// What the lock does while a batch moves.
    pub bulk: B,
}

impl<B> Setup<B> {
    /// A zone of `frames` frames as Linux 2.6.16 sets it up.
    pub fn new(frames: u32, cpus: usize, bulk: B) -> Self {
        Self { frames, cpus, size: SetSize::of(frames), lock: LockPlace::default(), bulk }
    }
}

/// The lock and what it guards. The lock and the lists of orders 0 to 3 at least are one line.
#[repr(C, align(64))]
struct Hot<L> {
    /// Unused with [`LockPlace::OwnLine`], so that nothing else moves.
    lock: L,
    buddy: Buddy,
    requested: Tally,
    found: Tally,
    freed: Tally,
}

/// The page-frame allocator over the platform `P`: zone lock `L`, bulk policy `B`, and lists that
/// are guarded by `S` where disabled interrupts do not keep others away. `R` is [`Sound`] but for
/// the checker.
pub struct Zone<P, L, B = HoldAll, S = Unlocked, R = Sound>
where
    P: Platform,
    L: RawLock<P>,
    B: Bulk<P, L>,
    S: RawLock<P>,
    R: Steps,
{
    hot: P::Home<Hot<L>>,
    apart: Option<P::Home<L>>,
    sets: Box<[P::Home<PageSet<S>>]>,
    frames: Frames<P>,
    size: SetSize,
    bulk: B,
    steps: PhantomData<fn() -> R>,
}

/// An allocator for threads: a preempted thread may hold any lock of it, so they are adaptive.
pub type NativeZone<B = HoldAll> = Zone<Native, AdaptiveLock<Native>, B, AdaptiveLock<Native>>;

impl<P, L, B, S, R> Zone<P, L, B, S, R>
where
    P: Platform,
    L: RawLock<P> + Default,
    B: Bulk<P, L>,
    S: RawLock<P> + Default,
    R: Steps,
{
    /// A zone whose frames are all free. On the virtual machine a task makes it, unless it consists
    /// of whole blocks of the largest order: making smaller ones writes to frames.
    ///
    /// # Panics
    ///
    /// When `setup` has no CPU.
    pub fn new(setup: Setup<B>) -> Self {
        Self::with_locks(setup, L::default)
    }
}

impl<P, L, B, S, R> Zone<P, L, B, S, R>
where
    P: Platform,
    L: RawLock<P>,
    B: Bulk<P, L>,
    S: RawLock<P> + Default,
    R: Steps,
{
    /// [`Self::new`] with what makes a free zone lock.
    ///
    /// # Panics
    ///
    /// When `setup` has no CPU.
    pub fn with_locks(setup: Setup<B>, lock: impl Fn() -> L) -> Self {
        assert!(setup.cpus > 0, "a zone needs a set of lists");
        let frames = Frames::new(setup.frames);
        let hot = P::place(Hot {
            lock: lock(),
            buddy: Buddy::new(&frames),
            requested: Tally::default(),
            found: Tally::default(),
            freed: Tally::default(),
        });
        Self {
            hot,
            apart: (setup.lock == LockPlace::OwnLine).then(|| P::place(lock())),
            sets: (0..setup.cpus).map(|_| P::place(PageSet::new(S::default()))).collect(),
            frames,
            size: setup.size,
            bulk: setup.bulk,
            steps: PhantomData,
        }
    }
}

impl<P, L, B, S, R> Zone<P, L, B, S, R>
where
    P: Platform,
    L: RawLock<P>,
    B: Bulk<P, L>,
    S: RawLock<P>,
    R: Steps,
{
    /// The zone lock: to be named and watched.
    #[inline]
    pub fn lock(&self) -> &L {
        self.apart.as_deref().unwrap_or(&self.hot.lock)
    }

    /// Frames, free or not.
    pub fn frames(&self) -> u32 {
        self.frames.count()
    }

    /// How pages move.
    pub fn size(&self) -> SetSize {
        self.size
    }

    /// Takes one page; `None` when neither the CPU's list nor the zone has any.
    #[inline]
    pub fn allocate(&self, temperature: Temperature) -> Option<u32> {
        self.with_set(|set| {
            let list = set.list(temperature);
            if list.count() == 0 {
                P::touch(list, Access::Read);
                self.refill(set, temperature);
            }
            let number = list.first()?;
            let frame = self.frames.at(number);
            P::touch(frame, Access::Write);
            list.remove(&self.frames, number);
            frame.set_state(State::Taken(0));
            Some(number)
        })
    }

    /// Gives back a page that [`Self::allocate`] gave.
    ///
    /// # Panics
    ///
    /// When nobody has it.
    #[inline]
    pub fn free(&self, number: u32, temperature: Temperature) {
        self.free_all([number], temperature);
    }

    /// [`Self::free`] of several pages, with interrupts disabled from the first to the last.
    ///
    /// # Panics
    ///
    /// When nobody has one of them.
    #[inline]
    pub fn free_all(&self, numbers: impl IntoIterator<Item = u32>, temperature: Temperature) {
        self.with_set(|set| {
            let list = set.list(temperature);
            for number in numbers {
                self.claim(number, 0, State::Listed);
                list.push_front(&self.frames, number);
                if list.count() >= self.size.high(temperature) {
                    self.drain(set, list, self.size.batch(temperature));
                }
            }
        });
    }

    /// Takes a block of 2^`order` pages straight from the zone; `None` when it has none.
    ///
    /// # Panics
    ///
    /// When `order` is above [`ORDER_MAX`](crate::ORDER_MAX).
    pub fn allocate_block(&self, order: u32) -> Option<u32> {
        assert!(order < ORDERS as u32, "there are no blocks of order {order}");
        let flags = P::irq_save();
        let taken = self.bulk.once(self.lock(), || {
            self.hot.requested.add(order);
            self.take(order)
        });
        P::irq_restore(flags);
        taken
    }

    /// Gives back a block that [`Self::allocate_block`] gave.
    ///
    /// # Panics
    ///
    /// When nobody has it, or not with that order.
    pub fn free_block(&self, first: u32, order: u32) {
        let flags = P::irq_save();
        self.bulk.once(self.lock(), || {
            self.claim(first, order, State::Inner);
            self.hot.freed.add(order);
            self.hot.buddy.give::<P, R>(&self.frames, first, order);
        });
        P::irq_restore(flags);
    }

    /// Gives all pages on the lists of `cpu` back to the zone. Where sets are [`Unlocked`] only
    /// that CPU may call this, or anybody when no call is under way.
    pub fn drain_lists(&self, cpu: usize) {
        let set = &self.sets[cpu];
        let flags = set.lock.lock_irqsave();
        for temperature in [Temperature::Hot, Temperature::Cold] {
            let list = set.list(temperature);
            if list.count() > 0 {
                self.drain(set, list, list.count());
            }
        }
        set.lock.unlock_irqrestore(flags);
    }

    /// Free frames, those on lists included; exact while no call is under way.
    pub fn free_frames(&self) -> u32 {
        let hot_and_cold = [Temperature::Hot, Temperature::Cold];
        let listed = |set: &PageSet<S>| hot_and_cold.map(|at| set.list(at).count());
        let listed = self.sets.iter().flat_map(|set| listed(set)).sum::<u32>();
        self.hot.buddy.free_frames() + listed
    }

    /// Whether blocks of more than `frames` frames are free, as the allocator sees it without the
    /// lock; pages on lists do not count.
    #[inline]
    pub fn has_blocks(&self, frames: u32) -> bool {
        self.hot.buddy.free_frames() > frames
    }

    /// Free blocks by order; exact while no call is under way.
    pub fn blocks(&self) -> [u32; ORDERS] {
        core::array::from_fn(|order| self.hot.buddy.blocks(order as u32))
    }

    /// Pages on the lists of `cpu`, hot and cold.
    pub fn listed(&self, cpu: usize) -> [u32; 2] {
        [Temperature::Hot, Temperature::Cold].map(|at| self.sets[cpu].list(at).count())
    }

    /// [`Self::listed`] under the lock of the lists, as who looks from another CPU asks.
    pub fn count_lists(&self, cpu: usize) -> [u32; 2] {
        let set = &self.sets[cpu];
        let flags = set.lock.lock_irqsave();
        P::touch(set.list(Temperature::Hot), Access::Read);
        let listed = self.listed(cpu);
        set.lock.unlock_irqrestore(flags);
        listed
    }

    /// What moved so far; exact while no call is under way.
    pub fn stats(&self) -> Stats {
        let over_sets = |tally: fn(&PageSet<S>) -> &Tally| {
            let all = self.sets.iter().map(|set| tally(set).moments());
            all.fold(Moments::default(), Moments::and)
        };
        let blocks = self.hot.freed.moments();
        let refills = over_sets(|set| &set.refills);
        let drains = over_sets(|set| &set.drains);
        let zeros = |moves: Moments| Moments { sum: 0, squares: 0, ..moves };
        let ones = Moments { sum: blocks.events, squares: blocks.events, ..blocks };
        Stats {
            refills,
            drains: drains.and(ones),
            requested: self.hot.requested.moments().and(zeros(refills)),
            found: self.hot.found.moments(),
            freed: blocks.and(zeros(drains)),
        }
    }

    /// Runs `body` on the lists of this CPU, which nobody else uses meanwhile.
    #[inline]
    fn with_set<T>(&self, body: impl FnOnce(&PageSet<S>) -> T) -> T {
        let flags = P::irq_save();
        let cpu = P::cpu() as usize;
        // A division only where there are more CPUs than sets.
        let set = self.sets.get(cpu).unwrap_or_else(|| &self.sets[cpu % self.sets.len()]);
        set.lock.lock();
        let result = body(set);
        set.lock.unlock();
        P::irq_restore(flags);
        result
    }

    /// The kernel's `rmqueue_bulk`.
    fn refill(&self, set: &PageSet<S>, temperature: Temperature) {
        let list = set.list(temperature);
        let batch = self.size.batch(temperature);
        let done = self.bulk.run(self.lock(), batch, || {
            self.take(0).is_some_and(|number| {
                self.frames.at(number).set_state(State::Listed);
                list.push_back(&self.frames, number);
                true
            })
        });
        set.refills.add(done);
    }

    /// The kernel's `free_pages_bulk`: those that have been on the list for longest.
    fn drain(&self, set: &PageSet<S>, list: &List, count: u32) {
        let done = self.bulk.run(self.lock(), count, || {
            list.last().is_some_and(|number| {
                P::touch(self.frames.at(number), Access::Write);
                list.remove(&self.frames, number);
                self.hot.buddy.give::<P, R>(&self.frames, number, 0);
                true
            })
        });
        set.drains.add(done);
    }

    /// Takes a block, with the lock held.
    fn take(&self, order: u32) -> Option<u32> {
        let (first, found) = self.hot.buddy.take::<P, R>(&self.frames, order)?;
        self.hot.found.add(found);
        Some(first)
    }

    /// A block that its owner gives back becomes `next`.
    #[inline]
    fn claim(&self, first: u32, order: u32, next: State) {
        assert!(first < self.frames.count(), "the zone has no frame {first}");
        let frame = self.frames.at(first);
        P::touch(frame, Access::Write);
        let state = frame.state();
        assert!(
            state == State::Taken(order),
            "frame {first} is given back as order {order}, but it is {state:?}"
        );
        frame.set_state(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::ReleaseEach;
    use Temperature::{Cold, Hot};

    /// One CPU, batches of three (hot) and one (cold).
    fn zone(frames: u32) -> NativeZone<ReleaseEach> {
        let size = SetSize::of(48 << 8);
        Zone::new(Setup { size, ..Setup::new(frames, 1, ReleaseEach) })
    }

    #[test]
    fn a_list_is_filled_by_a_batch_and_gives_back_what_it_had_longest() {
        let zone = zone(1024);
        let pages: Vec<u32> = (0..19).map_while(|_| zone.allocate(Hot)).collect();
        assert_eq!(pages, (0..19).collect::<Vec<_>>(), "in the order in which the zone gave them");
        assert_eq!(zone.listed(0), [2, 0]);
        // 2 on the list already: the 16th page that comes back makes it 18.
        for &page in &pages[..15] {
            zone.free(page, Hot);
        }
        assert_eq!(zone.listed(0), [17, 0]);
        zone.free(pages[15], Hot);
        assert_eq!(zone.listed(0), [15, 0], "a batch went back");
        assert_eq!(zone.allocate(Hot), Some(15), "last given, first taken");
        let stats = zone.stats();
        assert_eq!((stats.refills.events, stats.refills.mean()), (7, 3.0));
        assert_eq!((stats.drains.events, stats.drains.mean()), (1, 3.0));
        assert_eq!((stats.requested.events, stats.requested.sum), (7, 0));
        // The first page came from the block of order 10, later ones from what was left of it.
        assert_eq!(
            (stats.found.events, stats.found.sum),
            (21, 10 + 1 + 2 + 1 + 3 + 1 + 2 + 1 + 4 + 1 + 2)
        );
    }

    #[test]
    fn cold_pages_have_a_list_of_their_own() {
        let zone = zone(1024);
        let page = zone.allocate(Cold).unwrap();
        assert_eq!(zone.listed(0), [0, 0], "the batch is one page");
        zone.free(page, Cold);
        assert_eq!(zone.listed(0), [0, 1]);
        assert_ne!(zone.allocate(Hot), Some(page));
        assert_eq!(zone.allocate(Cold), Some(page));
    }

    #[test]
    fn blocks_bypass_the_lists_and_an_empty_zone_says_so() {
        let zone = zone(1024);
        let block = zone.allocate_block(10).unwrap();
        assert_eq!((zone.allocate(Hot), zone.allocate_block(0)), (None, None));
        assert!(!zone.lock().is_locked());
        zone.free_block(block, 10);
        assert_eq!(zone.allocate_block(3), Some(0));
        let stats = zone.stats();
        assert_eq!((stats.refills.events, stats.refills.sum), (1, 0));
        assert_eq!((stats.requested.events, stats.requested.sum), (4, 13));
        assert_eq!((stats.drains.events, stats.drains.sum), (1, 1));
        assert_eq!((stats.freed.events, stats.freed.sum), (1, 10));
    }

    #[test]
    #[should_panic(expected = "frame 0 is given back as order 0, but it is Listed")]
    fn a_page_is_not_given_back_twice() {
        let zone = zone(1024);
        let page = zone.allocate(Hot).unwrap();
        zone.free(page, Hot);
        zone.free(page, Hot);
    }

    #[test]
    #[should_panic(expected = "given back as order 1, but it is Taken(2)")]
    fn a_block_is_given_back_whole() {
        let zone = zone(1024);
        let block = zone.allocate_block(2).unwrap();
        zone.free_block(block, 1);
    }

    #[test]
    fn the_lock_lies_where_it_should() {
        for lock in [LockPlace::BesideLists, LockPlace::OwnLine] {
            let zone: NativeZone = Zone::new(Setup { lock, ..Setup::new(1024, 1, HoldAll) });
            let hot = core::ptr::from_ref(&*zone.hot).addr();
            let at = core::ptr::from_ref(zone.lock()).addr();
            assert_eq!((hot..hot + 64).contains(&at), lock == LockPlace::BesideLists);
        }
    }
}
