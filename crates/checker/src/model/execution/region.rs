//! The memory of a thread's executions: execution, tasks, the object that the tasks share, and
//! their stacks, each at a fixed place of one region.
//!
//! A stack contains dead words of which a part was overwritten, with an address in the rest.
//! Whether two of them are equal depends on the distance between the addresses and on their lower
//! bits. In a region, both are the same on each thread and in each process, and the upper half of
//! an address differs from the upper halves of all other memory. So a search meets the same states
//! everywhere.

use super::stack::STACK;
use corosensei::stack::{Stack, StackPointer};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size and alignment of a region in bytes.
const BYTES: usize = 16 << 20;
/// Where the first region is wanted, and the distance of the next. Linux maps nothing there by
/// itself. No byte of an address above the offset is 0, since a dead word may keep any part of it.
const FIRST: usize = 0x1b11_5b00_0000;
const DISTANCE: usize = 1 << 32;
/// Bytes of a part: execution, tasks, and object have one each.
pub(super) const PART: usize = 64 << 10;
/// Bytes below a stack that no access reaches. Pages of 64 KiB exist.
const GUARD: usize = 64 << 10;
/// Largest number of tasks.
const TASKS: usize = (BYTES - 3 * PART) / (GUARD + STACK);

/// The region of a thread.
pub(super) struct Region<P> {
    start: usize,
    /// Number of stacks that can be accessed.
    stacks: Cell<usize>,
    /// The object of the instance that was built last and has not been executed.
    pub(super) placed: RefCell<Option<P>>,
}

impl<P> Region<P> {
    pub(super) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(FIRST);
        // Relaxed: only the number counts.
        let wanted = NEXT.fetch_add(DISTANCE, Ordering::Relaxed);
        let wanted = ptr::without_provenance_mut(wanted);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: maps new memory, where the kernel likes.
        let start = unsafe { libc::mmap(wanted, 2 * BYTES, libc::PROT_NONE, flags, -1, 0) };
        assert!(start != libc::MAP_FAILED, "no memory for a region of 32 MiB");
        let region = Self {
            start: start.expose_provenance(),
            stacks: Cell::new(0),
            placed: RefCell::default(),
        };
        open(region.part(0), 3 * PART);
        region
    }

    /// Returns the address of a part. The mapping is twice as large as a region, for its alignment.
    fn part(&self, number: usize) -> usize {
        self.start.next_multiple_of(BYTES) + number * PART
    }

    /// Puts `execution` into its part.
    pub(super) fn execution<T>(&self, execution: T) -> Owned<T> {
        Owned::new(self.part(0), execution)
    }

    /// Puts `tasks` into their part.
    pub(super) fn tasks<T: 'static>(&self, tasks: impl Iterator<Item = T>) -> &'static [T] {
        const { assert!(TASKS * size_of::<T>() <= PART && !std::mem::needs_drop::<T>()) };
        let first = ptr::with_exposed_provenance_mut::<T>(self.part(1));
        let mut count = 0;
        for task in tasks.take(TASKS) {
            // SAFETY: there is room for this many.
            let place = unsafe { first.add(count) };
            // SAFETY: an earlier task there needs no drop.
            unsafe { place.write(task) };
            count += 1;
        }
        // SAFETY: just written. The region outlives all executions on this thread, and the tasks
        // are written again only when the next one begins.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// Returns the address of the part for the object.
    pub(super) fn object(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.part(2))
    }

    /// Returns stacks for `count` tasks: a task has the same stack in each execution.
    pub(super) fn stacks(&self, count: usize) -> Vec<TaskStack> {
        assert!(count <= TASKS, "more than {TASKS} tasks");
        let stacks = (1..=count).map(|number| TaskStack(self.part(3) + number * (GUARD + STACK)));
        let stacks: Vec<_> = stacks.collect();
        for stack in stacks.iter().skip(self.stacks.get()) {
            open(stack.0 - STACK, STACK);
        }
        self.stacks.set(count.max(self.stacks.get()));
        stacks
    }
}

/// Makes memory of a region accessible.
fn open(start: usize, bytes: usize) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: callers pass a part of a region.
    let result = unsafe { libc::mprotect(start, bytes, access) };
    assert_eq!(result, 0, "no memory for the tasks of an execution");
}

impl<P> Drop for Region<P> {
    fn drop(&mut self) {
        self.placed.take();
        // SAFETY: mapped by `new`. No execution runs when the thread ends.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.start), 2 * BYTES) };
    }
}

/// A value in a part of the region. It is dropped there.
pub(super) struct Owned<T>(*mut T);

impl<T> Owned<T> {
    fn new(part: usize, value: T) -> Self {
        let start = ptr::with_exposed_provenance_mut::<T>(part);
        assert!(size_of::<T>() <= PART && start.is_aligned(), "the object is too large");
        // SAFETY: the part is large enough, aligned and free: at any time, one execution runs.
        unsafe { start.write(value) };
        Self(start)
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value is there until it is dropped.
        unsafe { &*self.0 }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: written by `new` and not dropped since.
        unsafe { self.0.drop_in_place() };
    }
}

/// The stack of a task, by its base.
pub(super) struct TaskStack(usize);

// SAFETY: base and limit are page-aligned, with accessible memory of the region between them and
// memory that cannot be accessed below. The region outlives the coroutine.
unsafe impl Stack for TaskStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.0).expect("not null")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.0 - STACK - GUARD).expect("not null")
    }
}
