//! The distributions of a key in the file.

use crate::arch;
use crate::file::map::{File, add, get, set};
use crate::layout::{self, CALLERS, Distribution, Mapped, PYTHON, bucket};
use crate::sites::stack;

/// The callers of a call site; zeros if they were not determined.
pub(crate) type Callers = [u64; CALLERS];
/// The counts and distributions in the file.
pub(crate) type Counts = layout::Detail<Mapped>;

/// The distributions of a key.
#[derive(Clone, Copy)]
pub(crate) struct Detail {
    file: &'static File,
    /// The only detail, or the first of those that threads share.
    first: usize,
}

/// Returns the CPU of this thread if that is known without a system call, otherwise any number.
#[inline]
pub(crate) fn cpu() -> usize {
    let local = arch::local();
    match get(&local.rseq) {
        0 => get(&local.slot) as usize,
        // SAFETY: `rseq_cs` follows two CPU numbers of 32 bits each.
        rseq => get(unsafe { arch::word(rseq - 8) }) as usize & 0xffff_ffff,
    }
}

impl Detail {
    pub(crate) fn at(file: &'static File, index: u64) -> Option<Self> {
        (index != 0).then_some(Self { file, first: index as usize })
    }

    pub(crate) fn index(self) -> u64 {
        self.first as u64
    }

    fn first(self) -> &'static Counts {
        &self.file.details[self.first]
    }

    /// Returns the address at which the lock was acquired or the condition was waited for.
    pub(crate) fn site(self) -> u64 {
        get(&self.first().site)
    }

    /// Returns the addresses of data that a wait of a thread with its own details uses.
    #[inline(always)]
    pub(crate) fn of_waits(self) -> [usize; 2] {
        let counts = self.first();
        [core::ptr::from_ref(counts) as usize, (&raw const counts.wait) as usize]
    }

    /// Returns the counts and distributions; those of this CPU if threads share them.
    #[inline]
    pub(crate) fn counts(self) -> &'static Counts {
        match get(&self.first().shards) as usize {
            0 => self.first(),
            shards => &self.file.details[self.first + cpu() % shards],
        }
    }

    /// Records the callers, unless they are known.
    pub(crate) fn learn_callers(self) {
        let counts = self.first();
        if get(&counts.callers[0]) != 0 {
            return;
        }
        // Set first: the unwinder may itself wait for a mutex.
        set(&counts.callers[0], 1);
        store_callers(counts, &callers(get(&counts.site)));
    }
}

/// Records a time that represents `weight` samples.
#[inline(never)]
pub(crate) fn record(distribution: &Distribution<Mapped>, ticks: u64, weight: u64) {
    add(&distribution.count, weight);
    add(&distribution.sum, ticks * weight);
    // Two threads that share the distribution may lose a maximum.
    if ticks > get(&distribution.max) {
        set(&distribution.max, ticks);
    }
    add(&distribution.buckets[bucket(ticks)], weight);
}

/// Returns the callers of the function that contains `site`; 1 and zeros if there are none.
pub(crate) fn callers(site: u64) -> Callers {
    let mut frames = [0; CALLERS];
    if site & PYTHON != 0 || stack::callers(site as usize, &mut frames) == 0 {
        frames[0] = 1;
    }
    frames
}

pub(crate) fn store_callers(counts: &Counts, callers: &Callers) {
    // For shared details, published by the release of `find_shared`; other threads do not read the
    // callers of private ones.
    for (word, caller) in counts.callers.iter().zip(callers) {
        set(word, *caller);
    }
}
