//! The distributions of a key in the file.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::file::map::{Map, add};
use crate::layout::*;
use crate::sites::stack;
use crate::threads::local::*;

/// The callers of a call site, as [`D_CALLERS`] stores them; zeros if they were not determined.
pub(crate) type Callers = [u64; CALLERS];

/// The distributions of a key.
#[derive(Clone, Copy)]
pub(crate) struct Detail {
    file: &'static Map,
    /// The only detail, or the first of those that threads share.
    first: usize,
}

pub(crate) fn words_of(file: &'static Map, index: usize) -> &'static [AtomicU64] {
    &file[DETAILS + index * DETAIL_WORDS..][..DETAIL_WORDS]
}

/// Returns the CPU of this thread if that is known without a system call, otherwise any number.
#[inline]
pub(crate) fn cpu() -> usize {
    let own = arch::own();
    match own[O_RSEQ].load(Relaxed) {
        0 => own[O_SLOT].load(Relaxed) as usize,
        // SAFETY: `rseq_cs` follows two CPU numbers of 32 bits each.
        rseq => unsafe { arch::word(rseq - 8) }.load(Relaxed) as usize & 0xffff_ffff,
    }
}

impl Detail {
    pub(crate) fn at(file: &'static Map, index: u64) -> Option<Self> {
        (index != 0).then_some(Self { file, first: index as usize })
    }

    /// Returns the index of the detail.
    pub(crate) fn index(self) -> u64 {
        self.first as u64
    }

    /// Returns the address at which the lock was acquired or the condition was waited for.
    pub(crate) fn site(self) -> u64 {
        words_of(self.file, self.first)[D_SITE].load(Relaxed)
    }

    /// Returns the detail of this CPU if threads share it.
    #[inline]
    fn here(self) -> &'static [AtomicU64] {
        let first = words_of(self.file, self.first);
        match first[D_SHARDS].load(Relaxed) as usize {
            0 => first,
            shards => words_of(self.file, self.first + cpu() % shards),
        }
    }

    /// Records the callers, unless they are known.
    pub(crate) fn learn_callers(self) {
        let words = words_of(self.file, self.first);
        if words[D_CALLERS].load(Relaxed) != 0 {
            return;
        }
        // Set first: the unwinder may itself wait for a mutex.
        words[D_CALLERS].store(1, Relaxed);
        store_callers(words, &callers(words[D_SITE].load(Relaxed)));
    }

    /// Increments one of the plain counters.
    pub(crate) fn add(self, word: usize) {
        self.add_many(word, 1);
    }

    /// Adds `many` to one of the plain counters.
    pub(crate) fn add_many(self, word: usize, many: u64) {
        add(&self.here()[word], many);
    }

    /// Records a time that represents `weight` samples.
    #[inline(never)]
    pub(crate) fn record(self, list: usize, ticks: u64, weight: u64) {
        let list = &self.here()[D_LISTS + list * LIST_WORDS..][..LIST_WORDS];
        add(&list[0], weight);
        add(&list[1], ticks * weight);
        // Relaxed: each number is read by itself. Two threads that share the list may lose a
        // maximum.
        if ticks > list[2].load(Relaxed) {
            list[2].store(ticks, Relaxed);
        }
        add(&list[4 + bucket(ticks)], weight);
    }
}

/// Returns the callers of the function that contains `site`; 1 and zeros if there are none.
pub(crate) fn callers(site: u64) -> Callers {
    let mut frames = [0; CALLERS];
    if site & PYTHON != 0 || stack::callers(site as usize, &mut frames) == 0 {
        frames[0] = 1;
    }
    frames
}

pub(crate) fn store_callers(words: &[AtomicU64], callers: &Callers) {
    // Relaxed: for shared details, published by the release of `find_shared`; other threads do not
    // read the callers of private ones.
    for (place, frame) in words[D_CALLERS..].iter().zip(callers) {
        place.store(*frame, Relaxed);
    }
}
