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

use crate::buddy::{Buddy, ORDERS};
use crate::bulk::{Bulk, HoldAll};
use crate::frame::{FrameSize, Frames, State};
use crate::list::List;
use crate::set::{PageSet, SetSize, Temperature, Unlocked};
use crate::tally::{Moments, Stats, Tally};
use convoy_sync::{Access, AdaptiveLock, Native, Platform, RawLock};

/// Where the zone lock lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockPlace {
    /// In one line with the lists of the smallest orders, as in the kernel: acquiring the lock also
    /// fetches the lists.
    #[default]
    BesideLists,
    /// In a separate line.
    OwnLine,
}

/// How the list of a CPU returns a batch of pages to the zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drain {
    /// Each page leaves the list under the zone lock.
    #[default]
    Locked,
    /// All pages leave the list and their buddies are fetched before the zone lock is acquired, as
    /// from Linux 4.17 on (commits 0a5f4e5b4562 and 97334162e4d7).
    Picked,
}

/// Parameters of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Setup<B> {
    /// Frames, numbered from 0.
    pub frames: u32,
    /// Sets of lists, one for each CPU.
    pub cpus: usize,
    /// Sizes of the lists.
    pub size: SetSize,
    /// Size of a frame.
    pub frame: FrameSize,
    /// How a list returns pages.
    pub drain: Drain,
    /// Where the lock lies.
    pub lock: LockPlace,
    /// Policy for the lock while a batch moves.
    pub bulk: B,
}

impl<B> Setup<B> {
    /// A zone of `frames` frames as Linux 2.6.16 sets it up.
    pub fn new(frames: u32, cpus: usize, bulk: B) -> Self {
        Self {
            frames,
            cpus,
            size: SetSize::of(frames),
            frame: FrameSize::default(),
            drain: Drain::default(),
            lock: LockPlace::default(),
            bulk,
        }
    }
}

/// The lock and the data that it protects. The lock and the lists of orders 0 to 3 at least are one
/// line.
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
/// are guarded by `S` where disabled interrupts do not keep others away.
pub struct Zone<P, L, B = HoldAll, S = Unlocked>
where
    P: Platform,
    L: RawLock<P>,
    B: Bulk<P, L>,
    S: RawLock<P>,
{
    hot: P::Home<Hot<L>>,
    apart: Option<P::Home<L>>,
    sets: Box<[P::Home<PageSet<S>>]>,
    frames: Frames<P>,
    size: SetSize,
    drain: Drain,
    bulk: B,
}

/// An allocator for threads: a preempted thread may hold any lock of it, so they are adaptive.
pub type NativeZone<B = HoldAll> = Zone<Native, AdaptiveLock<Native>, B, AdaptiveLock<Native>>;

impl<P, L, B, S> Zone<P, L, B, S>
where
    P: Platform,
    L: RawLock<P>,
    B: Bulk<P, L>,
    S: RawLock<P>,
{
    /// Returns a zone in which all frames are free. On the virtual machine a task makes it, unless
    /// it consists of whole blocks of the largest order: making smaller ones writes to frames.
    ///
    /// # Panics
    ///
    /// If `setup` has no CPU.
    pub fn new(setup: Setup<B>) -> Self
    where
        L: Default,
        S: Default,
    {
        Self::with_locks(setup, L::default)
    }

    /// [`Self::new`] with a function that returns an unlocked zone lock.
    ///
    /// # Panics
    ///
    /// If `setup` has no CPU.
    pub fn with_locks(setup: Setup<B>, lock: impl Fn() -> L) -> Self
    where
        S: Default,
    {
        assert!(setup.cpus > 0, "a zone needs a set of lists");
        let frames = Frames::new(setup.frames, setup.frame);
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
            drain: setup.drain,
            bulk: setup.bulk,
        }
    }

    /// The zone lock: to be named and watched.
    #[inline]
    pub fn lock(&self) -> &L {
        self.apart.as_deref().unwrap_or(&self.hot.lock)
    }

    /// Frames, free or not.
    pub fn frames(&self) -> u32 {
        self.frames.count()
    }

    /// Sizes of the lists.
    pub fn size(&self) -> SetSize {
        self.size
    }

    /// Takes one page; `None` when neither the CPU's list nor the zone has any.
    #[inline]
    pub fn allocate(&self, temperature: Temperature) -> Option<u32> {
        self.with_set(|set| self.take_from(set, temperature))
    }

    /// Frees a page that [`Self::allocate`] returned.
    ///
    /// # Panics
    ///
    /// If the page is not allocated.
    #[inline]
    pub fn free(&self, number: u32, temperature: Temperature) {
        self.free_all([number], temperature);
    }

    /// [`Self::free`] of several pages, with interrupts disabled from the first to the last.
    ///
    /// # Panics
    ///
    /// If one of them is not allocated.
    #[inline]
    pub fn free_all(&self, numbers: impl IntoIterator<Item = u32>, temperature: Temperature) {
        self.with_set(|set| {
            for number in numbers {
                self.claim(number, 0, State::Listed).unwrap_or_else(|state| {
                    panic!("frame {number} is given back as order 0, but it is {state:?}")
                });
                self.give_to(set, number, temperature);
            }
        });
    }

    /// Takes a page from the lists `set`, which get a batch of pages if they have none.
    #[inline]
    fn take_from(&self, set: &PageSet<S>, temperature: Temperature) -> Option<u32> {
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
    }

    /// Adds a claimed page to the lists `set`.
    #[inline]
    fn give_to(&self, set: &PageSet<S>, number: u32, temperature: Temperature) {
        let list = set.list(temperature);
        list.push_front(&self.frames, number);
        if list.count() >= self.size.high(temperature) {
            self.drain(set, list, self.size.batch(temperature));
        }
    }

    /// Returns all pages of the lists `set` to the zone.
    fn empty(&self, set: &PageSet<S>) {
        for temperature in [Temperature::Hot, Temperature::Cold] {
            let list = set.list(temperature);
            if list.count() > 0 {
                self.drain(set, list, list.count());
            }
        }
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

    /// Frees a block that [`Self::allocate_block`] returned.
    ///
    /// # Panics
    ///
    /// If the block is not allocated with this order.
    pub fn free_block(&self, first: u32, order: u32) {
        let flags = P::irq_save();
        self.bulk.once(self.lock(), || {
            self.claim(first, order, State::Inner).unwrap_or_else(|state| {
                panic!("frame {first} is given back as order {order}, but it is {state:?}")
            });
            self.hot.freed.add(order);
            self.hot.buddy.give(&self.frames, first, order);
        });
        P::irq_restore(flags);
    }

    /// Gives all pages on the lists of `cpu` back to the zone. If sets are [`Unlocked`], only that
    /// CPU may call this, or any thread while no other call is in progress.
    pub fn drain_lists(&self, cpu: usize) {
        let set = &self.sets[cpu];
        let flags = set.lock.lock_irqsave();
        self.empty(set);
        set.lock.unlock_irqrestore(flags);
    }

    /// Free frames, those on lists included; exact while no call is under way.
    pub fn free_frames(&self) -> u32 {
        let lists = self.sets.iter().flat_map(|set| {
            [Temperature::Hot, Temperature::Cold].map(|temperature| set.list(temperature))
        });
        let listed = lists.map(crate::list::List::count).sum::<u32>();
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

    /// [`Self::listed`] under the lock of the lists, for callers on other CPUs.
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

    /// Runs `body` with exclusive access to the lists of this CPU.
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
        let done = self.bulk.run(self.lock(), self.size.batch(temperature), || {
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
        let picked = List::new();
        let list = match self.drain {
            Drain::Locked => list,
            Drain::Picked => {
                self.pick(list, count, &picked);
                &picked
            }
        };
        let done = self.bulk.run(self.lock(), count, || {
            list.last().is_some_and(|number| {
                P::touch(self.frames.at(number), Access::Write);
                list.remove(&self.frames, number);
                self.hot.buddy.give(&self.frames, number, 0);
                true
            })
        });
        set.drains.add(done);
    }

    /// Moves the `count` oldest pages of `list` to `picked`, the oldest to its tail, and fetches
    /// their buddies.
    fn pick(&self, list: &List, count: u32, picked: &List) {
        for _ in 0..count {
            let Some(number) = list.last() else { break };
            P::touch(self.frames.at(number), Access::Write);
            list.remove(&self.frames, number);
            picked.push_front(&self.frames, number);
            if number ^ 1 < self.frames.count() {
                P::touch(self.frames.at(number ^ 1), Access::Read);
            }
        }
    }

    /// Takes a block, with the lock held.
    fn take(&self, order: u32) -> Option<u32> {
        let (first, order) = self.hot.buddy.take(&self.frames, order)?;
        self.hot.found.add(order);
        Some(first)
    }

    /// Changes the state of a block that its owner frees to `next`; returns the current state if it
    /// is not allocated with that order.
    #[inline]
    fn claim(&self, first: u32, order: u32, next: State) -> Result<(), State> {
        assert!(first < self.frames.count(), "the zone has no frame {first}");
        let frame = self.frames.at(first);
        P::touch(frame, Access::Write);
        frame.become_if(State::Taken(order), next)
    }
}

#[cfg(test)]
mod tests;
