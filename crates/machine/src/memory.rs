//! Simulated memory: one reserved region that holds the coroutine stacks and every simulated
//! object.
//!
//! The simulated address of an object is its offset in the region. A deterministic allocator
//! assigns offsets, so cache lines follow the real layout of the structs, while no decision depends
//! on a real pointer value.
//!
//! A region that is no longer used is kept on its thread for the next machine with as many stacks,
//! because the host takes longer to create 2000 stacks than many simulations last.

use core::cell::{Cell, RefCell};
use core::ops::Deref;
use core::ptr::NonNull;
use std::rc::Rc;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of a coroutine stack. The simulated kernel paths are shallow; a panic needs the most
/// (formatting).
pub(crate) const STACK: usize = 64 << 10;
/// Bytes reserved (not committed) for simulated objects.
const HEAP: usize = 16 << 30;
/// Stacks are placed this much lower, slot by slot, so that the tops of all stacks do not fall into
/// the same sets of the host's caches (measured: 7 ns against 15 ns for a switch at 2000
/// coroutines).
const COLOUR: usize = 192;
/// Stacks with a guard page. Each guard splits a mapping of the host, and hosts allow about 65,000.
const GUARDED: usize = 16 << 10;
const PAGE: usize = 4096;

/// The memory of a region, with room for `slots` stacks.
#[derive(Debug)]
struct Reservation {
    base: NonNull<u8>,
    bytes: usize,
    slots: usize,
    /// Number of stacks, from the first, that have their guard pages.
    guarded: Cell<usize>,
}

thread_local! {
    /// The memory of the thread's last region.
    static SPARE: Cell<Option<Reservation>> = const { Cell::new(None) };
}

impl Reservation {
    fn new(slots: usize) -> std::io::Result<Self> {
        // A spare one of another size goes: addresses must not depend on former machines.
        if let Some(spare) = SPARE.take().filter(|spare| spare.slots == slots) {
            return Ok(spare);
        }
        let bytes = slots * STACK + HEAP;
        Ok(Self { base: reserve(bytes)?, bytes, slots, guarded: Cell::new(0) })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the region that used the memory is gone, and with it every `Sim` and
        // `PooledStack`, each of which holds an `Rc` of it.
        unsafe { release(self.base, self.bytes) };
    }
}

/// The reserved memory.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    slots: usize,
    /// `None` only while the region is dropped.
    memory: Option<Reservation>,
    next_slot: Cell<usize>,
    free_slots: RefCell<Vec<u32>>,
    /// First unused offset of the heap.
    bump: Cell<usize>,
    /// Free blocks by size class (power of two lines).
    free: RefCell<[Vec<u32>; 32]>,
}

/// Reserves `bytes` of zero pages.
pub(crate) fn reserve(bytes: usize) -> std::io::Result<NonNull<u8>> {
    // SAFETY: an anonymous private mapping at an address of the host's choice touches no existing
    // memory.
    let pointer = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if pointer == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    NonNull::new(pointer.cast()).ok_or_else(std::io::Error::last_os_error)
}

/// Returns what [`reserve`] gave.
///
/// # Safety
///
/// `base` and `bytes` are from one [`reserve`], and there are no references to the memory any more.
pub(crate) unsafe fn release(base: NonNull<u8>, bytes: usize) {
    // SAFETY: by this function's contract the range is a mapping of ours without users.
    unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

impl Region {
    /// Reserves room for `slots` stacks and the heap.
    pub(crate) fn new(slots: usize) -> std::io::Result<Rc<Self>> {
        let memory = Reservation::new(slots)?;
        Ok(Rc::new(Self {
            base: memory.base,
            bytes: memory.bytes,
            slots,
            memory: Some(memory),
            next_slot: Cell::new(0),
            free_slots: RefCell::default(),
            bump: Cell::new(slots * STACK),
            free: RefCell::default(),
        }))
    }

    pub(crate) fn base(&self) -> usize {
        self.base.as_ptr() as usize
    }

    pub(crate) fn lines(&self) -> usize {
        self.bytes / LINE
    }

    /// Bytes of all stacks, which lie below everything else.
    pub(crate) fn stacks(&self) -> usize {
        self.slots * STACK
    }

    /// A stack slot, the last returned one first; `None` when all are taken.
    pub(crate) fn take_stack(self: &Rc<Self>) -> Option<PooledStack> {
        let slot = if let Some(slot) = self.free_slots.borrow_mut().pop() {
            slot as usize
        } else {
            let slot = self.next_slot.get();
            if slot == self.slots {
                return None;
            }
            self.next_slot.set(slot + 1);
            let guarded = &self.memory.as_ref()?.guarded;
            if slot < GUARDED && slot >= guarded.get() {
                guarded.set(slot + 1);
                // SAFETY: the lowest page of a slot belongs to that slot alone, which nobody uses
                // yet.
                let guard = unsafe { self.base.as_ptr().add(slot * STACK) };
                // SAFETY: `guard` is a page of our mapping; taking its rights away only makes an
                // overflow a fault.
                unsafe { libc::mprotect(guard.cast(), PAGE, libc::PROT_NONE) };
            }
            slot
        };
        let top = self.base() + (slot + 1) * STACK - slot * COLOUR % PAGE;
        Some(PooledStack { region: Rc::clone(self), top })
    }

    /// Releases the memory of all stacks to the host and makes them one mapping again. For the end
    /// of a machine with objects that outlive it, and so its region: the stacks are unused.
    pub(crate) fn retire_stacks(&self) {
        if let Some(memory) = &self.memory {
            memory.guarded.set(0);
        }
        let base = self.base.as_ptr().cast();
        // SAFETY: the range is the part of our mapping that holds the stacks; more rights hurt
        // nobody, and no pointer into it is used any more.
        unsafe { libc::mprotect(base, self.slots * STACK, libc::PROT_READ | libc::PROT_WRITE) };
        // SAFETY: as above; the pages read as zeros afterwards.
        unsafe { libc::madvise(base, self.slots * STACK, libc::MADV_DONTNEED) };
    }

    /// Returns the stack slot with a guard page that contains the address `at`.
    pub(crate) fn guard(&self, at: usize) -> Option<usize> {
        let offset = at.checked_sub(self.base())?;
        let slot = offset / STACK;
        (slot < self.slots.min(GUARDED) && offset % STACK < PAGE).then_some(slot)
    }

    fn class(bytes: usize) -> usize {
        bytes.div_ceil(LINE).max(1).next_power_of_two().trailing_zeros() as usize
    }

    fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let class = Self::class(bytes);
        let offset = if let Some(line) = self.free.borrow_mut()[class].pop() {
            line as usize * LINE
        } else {
            let offset = self.bump.get();
            let end = offset + (LINE << class);
            assert!(end <= self.bytes, "simulated memory is full ({} GiB)", HEAP >> 30);
            self.bump.set(end);
            offset
        };
        // SAFETY: `offset` is below `bytes`, the length of the mapping that starts at `base`.
        unsafe { self.base.add(offset) }
    }

    fn free(&self, pointer: NonNull<u8>, bytes: usize) {
        let line = (pointer.as_ptr() as usize - self.base()) / LINE;
        self.free.borrow_mut()[Self::class(bytes)].push(line as u32);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let memory = self.memory.take();
        // When the thread ends there is no spare place any more, and `memory` is released.
        let _ = SPARE.try_with(|spare| spare.set(memory));
    }
}

/// A coroutine stack of the region.
pub(crate) struct PooledStack {
    region: Rc<Region>,
    /// Address of its end, less than a page before the end of its slot.
    top: usize,
}

impl PooledStack {
    /// Its number in the region.
    pub(crate) fn slot(&self) -> usize {
        (self.top - 1 - self.region.base()) / STACK
    }
}

// SAFETY: the range [limit, base) is one slot, owned by this value alone until it is dropped; the
// first `GUARDED` slots end in a page without rights, and above that number a run is one of ours at
// a size that tests have run with guards.
unsafe impl corosensei::stack::Stack for PooledStack {
    fn base(&self) -> corosensei::stack::StackPointer {
        corosensei::stack::StackPointer::new(self.top).expect("a mapping is never at address 0")
    }

    fn limit(&self) -> corosensei::stack::StackPointer {
        let low = self.region.base() + self.slot() * STACK;
        corosensei::stack::StackPointer::new(low).expect("a mapping is never at address 0")
    }
}

impl Drop for PooledStack {
    fn drop(&mut self) {
        self.region.free_slots.borrow_mut().push(self.slot() as u32);
    }
}

/// An object in simulated memory, aligned to a cache line.
///
/// Its words are priced when they are used through the `Smp` platform; reading it from outside a
/// simulated task is free. Not `Send`: a machine belongs to one thread.
pub struct Sim<T> {
    object: NonNull<T>,
    region: Rc<Region>,
}

impl<T> Sim<T> {
    pub(crate) fn place(region: &Rc<Region>, value: T) -> Self {
        const { assert!(align_of::<T>() <= LINE) };
        let object = region.allocate(size_of::<T>()).cast::<T>();
        // SAFETY: the block is large enough, aligned to a line, and nobody else has it.
        unsafe { object.write(value) };
        Self { object, region: Rc::clone(region) }
    }
}

impl<T> Deref for Sim<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `place` initialised the object and only `drop` ends it.
        unsafe { self.object.as_ref() }
    }
}

impl<T> Drop for Sim<T> {
    fn drop(&mut self) {
        // SAFETY: the object is initialised, owned by this value, and not used after this.
        unsafe { self.object.drop_in_place() };
        self.region.free(self.object.cast(), size_of::<T>());
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for Sim<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_region_of_a_size_has_the_stacks_of_the_last() {
        let region = Region::new(3).unwrap();
        let base = region.base();
        let stack = region.take_stack().unwrap();
        let object = Sim::place(&region, 7_u32);
        assert_eq!(region.memory.as_ref().unwrap().guarded.get(), 1);
        drop((region, stack));
        let other = Region::new(3).unwrap();
        assert_ne!(other.base(), base, "an object still lives there");
        assert_eq!(*object, 7);
        drop((other, object));
        let again = Region::new(3).unwrap();
        assert_eq!((again.base(), again.stacks()), (base, 3 * STACK));
        assert_eq!(again.take_stack().map(|stack| stack.slot()), Some(0));
        drop(again);
        assert_eq!(Region::new(4).unwrap().stacks(), 4 * STACK, "addresses follow the size");
    }
}
