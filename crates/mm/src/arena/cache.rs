//! The pages that a thread has at hand.

use super::{Arena, CacheSet, Exhausted, misused};
use crate::frame::State;
use crate::set::{PageSet, Temperature, Unlocked};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// A thread's own list of pages of an [`Arena`], used without a lock. It exchanges batches of pages
/// with the zone, under the zone lock.
///
/// One thread uses it at a time; it may be sent to another.
pub struct Cache<'a> {
    arena: &'a Arena,
    set: Arc<PageSet<Unlocked>>,
    /// The list is not locked, so a cache must not be shared.
    unshared: PhantomData<Cell<()>>,
}

impl Arena {
    /// A cache for a thread. Its pages are freed when it is dropped.
    pub fn cache(&self) -> Cache<'_> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let set = if let Some(cache) = caches.iter_mut().find(|cache| !cache.in_use) {
            cache.in_use = true;
            Arc::clone(&cache.set)
        } else {
            let set = Arc::new(PageSet::new(Unlocked));
            caches.push(CacheSet { set: Arc::clone(&set), in_use: true });
            set
        };
        Cache { arena: self, set, unshared: PhantomData }
    }
}

impl<'a> Cache<'a> {
    /// Returns the arena of these pages.
    pub fn arena(&self) -> &'a Arena {
        self.arena
    }

    /// Takes a page. Its content is what its last owner left, and zero if it had none.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] when no page is free but in the caches of other threads.
    #[inline]
    pub fn allocate(&self) -> Result<NonNull<u8>, Exhausted> {
        let Arena { zone, cache_size, .. } = self.arena;
        let batch = cache_size.batch(Temperature::Hot);
        match zone.take_from(&self.set, Temperature::Hot, batch) {
            None => self.arena.allocate(),
            page => self.arena.page(page, 0),
        }
    }

    /// Frees a page of the arena, which any thread may have allocated.
    ///
    /// # Panics
    ///
    /// If it is not a page of the arena, or not allocated.
    #[inline]
    #[track_caller]
    pub fn free(&self, page: NonNull<u8>) {
        let number = self.arena.number(page);
        let Arena { zone, cache_size, .. } = self.arena;
        if let Err(state) = zone.claim(number, 0, State::Listed) {
            misused(number, 0, state);
        }
        zone.give_to(&self.set, number, Temperature::Hot, *cache_size);
    }

    /// Pages in the cache.
    pub fn pages(&self) -> u32 {
        self.set.list(Temperature::Hot).count()
    }

    /// Gives all of them back to the arena.
    pub fn clear(&self) {
        self.arena.zone.empty(&self.set);
    }
}

impl Drop for Cache<'_> {
    fn drop(&mut self) {
        self.clear();
        let mut caches = self.arena.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = caches.iter_mut().find(|cache| Arc::ptr_eq(&cache.set, &self.set));
        mine.expect("the arena keeps what its caches use").in_use = false;
    }
}

impl fmt::Debug for Cache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("pages", &self.pages()).finish_non_exhaustive()
    }
}
