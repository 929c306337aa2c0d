//! The object that the tasks of an instance share. Like the stacks of the tasks, it has the same
//! address in every execution on a thread, so that equal states are equal bytes.

use super::region::{PART, Region};
use std::mem::MaybeUninit;
use std::ptr;

/// Reads the word of memory at `address`, which is mapped and aligned.
pub(super) fn word(address: usize) -> u64 {
    // SAFETY: callers pass addresses in a stack or in the object of the running execution, and all
    // its tasks are suspended. Volatile, since some words were never written.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance::<u64>(address)) }
}

/// Copied words, which may be uninitialised.
pub(super) type Words = Vec<MaybeUninit<u64>>;

/// Appends the `count` words from `address` on to `words`.
pub(super) fn copy_from(address: usize, count: usize, words: &mut Words) {
    words.reserve(count);
    let from = ptr::with_exposed_provenance(address);
    let to = words.spare_capacity_mut().as_mut_ptr().cast();
    // SAFETY: as above; the memory was reserved, and a copy may include uninitialised words.
    unsafe { ptr::copy_nonoverlapping::<MaybeUninit<u64>>(from, to, count) };
    // SAFETY: these words were just copied.
    unsafe { words.set_len(words.len() + count) };
}

/// Copies `words` to `address` and the words that follow it.
pub(super) fn copy_to(address: usize, words: &[MaybeUninit<u64>]) {
    // SAFETY: as above.
    unsafe {
        ptr::copy_nonoverlapping(
            words.as_ptr(),
            ptr::with_exposed_provenance_mut(address),
            words.len(),
        );
    }
}

/// An object in its place. It is dropped there.
pub(super) struct Placed {
    pub(super) start: *mut u8,
    drop: unsafe fn(*mut u8),
    /// Words of the object before the first step.
    before: Vec<u64>,
}

impl Placed {
    /// Returns the words of the object.
    fn now(&self) -> impl Iterator<Item = u64> {
        let start = self.start.expose_provenance();
        (start..).step_by(8).map(word).take(self.before.len())
    }

    /// Appends the words of the object to `words`.
    pub(super) fn save(&self, words: &mut Words) {
        copy_from(self.start.expose_provenance(), self.before.len(), words);
    }

    /// Overwrites the object with the first of `words` and returns the rest.
    pub(super) fn put<'a>(&self, words: &'a [MaybeUninit<u64>]) -> &'a [MaybeUninit<u64>] {
        let (own, rest) = words.split_at(self.before.len());
        copy_to(self.start.expose_provenance(), own);
        rest
    }

    /// Returns the words of the object, with 0 for each unchanged word: padding bytes between
    /// fields come from the memory from which the object was moved.
    pub(super) fn changes(&self) -> impl Iterator<Item = u64> {
        self.before.iter().zip(self.now()).map(|(before, now)| before ^ now)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // SAFETY: the object was put there, and its tasks have ended.
        unsafe { (self.drop)(self.start) };
    }
}

thread_local! {
    pub(super) static REGION: Region<Placed> = Region::new();
}

/// Puts `object` into the region of this thread, for the next execution, and returns its address.
///
/// # Panics
///
/// If it is larger than its part of the region.
pub(in crate::model) fn put<T: 'static>(object: T) -> *mut T {
    // The remains of an instance that was never executed.
    drop(take());
    let start = REGION.with(Region::object);
    assert!(size_of::<T>() <= PART && start.cast::<T>().is_aligned(), "the object is too large");
    // SAFETY: the part is large enough, aligned, and empty: an execution drops its object.
    unsafe { start.cast::<T>().write(object) };
    let words = (start.expose_provenance()..).step_by(8).take(size_of::<T>().div_ceil(8));
    let placed = Placed {
        start,
        // SAFETY: called with the address of a `T`.
        drop: |start| unsafe { start.cast::<T>().drop_in_place() },
        before: words.map(word).collect(),
    };
    REGION.with(|region| region.placed.replace(Some(placed)));
    start.cast()
}

/// Returns the object of the instance that was just built, if its tasks share one.
pub(super) fn take() -> Option<Placed> {
    REGION.with(|region| region.placed.take())
}
