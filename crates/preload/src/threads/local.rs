//! Data that only the thread itself uses is stored with its stack, and not in its slot of the file.
//! Where many threads take turns, the slot of a thread that resumes is in no cache, and a critical
//! section becomes longer by each cache line of it that must be fetched. The kernel has just
//! accessed the adjacent memory, in which it reports the CPU of the thread.

use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

/// Number of threads, by slot, for which others open windows of traces, and that share no details.
pub(crate) const PRIVATE: usize = 64;
/// Maximum number of holds that are timed.
pub(crate) const HOLD_COUNT: usize = 7;
/// Flag in [`Local::holds`]: the thread has a trace.
pub(crate) const TRACED: u64 = 1 << 8;
/// Bytes of the data, which [`arch`](crate::arch) sets aside.
pub(crate) const LOCAL_BYTES: usize = 576;

/// The data of a thread.
#[repr(C, align(64))]
pub(crate) struct Local {
    /// Address of the thread's slot; 0 at first; 1 if the thread is not recorded.
    pub(crate) thread: AtomicU64,
    /// Number of holds that are being timed, and [`TRACED`].
    pub(crate) holds: AtomicU64,
    /// Number of switches that were detected.
    pub(crate) switches: AtomicU64,
    /// Address of the `rseq_cs` word of the thread; 0: none.
    pub(crate) rseq: AtomicU64,
    /// The holds that are being timed. With one of them, the data that the end of a wait needs
    /// fills a cache line.
    pub(crate) hold: [TimedHold; HOLD_COUNT],
    /// End of the last hold that was timed, ticks; 0 if the last hold was not timed. The data that
    /// the next request needs fills another cache line.
    pub(crate) released: AtomicU64,
    /// Switches until then and, in the lowest byte, the number of holds that the timed one
    /// represents.
    pub(crate) released_last: AtomicU64,
    /// Acquisitions until something is due, if [`Local::due`] points here.
    pub(crate) countdown: AtomicU64,
    /// Address of the lines with the thread's keys, see [`keys`](crate::threads::keys).
    pub(crate) lines: AtomicU64,
    /// Generation of the thread among the threads of its slot.
    pub(crate) generation: AtomicU64,
    /// Number of its slot.
    pub(crate) slot: AtomicU64,
    /// Address of the number of acquisitions until something is due: in the slot, where other
    /// threads can change it, or here.
    pub(crate) due: AtomicU64,
    /// The condition that the thread waited for last.
    pub(crate) monitor: Watched,
    /// The same for conditions whose mutex is a semaphore. An interpreter waits for its lock, whose
    /// mutex is none, between a wait of the program and its signal.
    pub(crate) monitor_of_semaphore: Watched,
    /// The thread's trace, or the sample of its waits.
    pub(crate) sample: [AtomicU64; 3],
    /// Thread ID in the kernel.
    pub(crate) thread_id: AtomicU64,
    /// Key and detail of a wait that is not recorded yet; 0: none.
    pub(crate) waited: AtomicU64,
    /// Start of that wait, ticks.
    pub(crate) waited_from: AtomicU64,
    /// End of that wait, ticks.
    pub(crate) waited_to: AtomicU64,
    /// Ticks from the previous release to the end of that wait; 0: not known.
    pub(crate) waited_handoff: AtomicU64,
    /// The last window that the thread has noticed.
    pub(crate) window: AtomicU64,
    /// Last call site at which a lock without a key was acquired, with the kind.
    pub(crate) other: AtomicU64,
    /// Address of the count of that key; in a thread that is not recorded, the number of its
    /// acquisitions.
    pub(crate) other_count: AtomicU64,
    /// Time at which the CPU time of an owner is read again, ticks.
    pub(crate) measures_next: AtomicU64,
    /// The word of the last wait in futex(2); see [`wakers`](crate::waits::wakers).
    pub(crate) waited_on: AtomicU64,
    /// The call site of that wait.
    pub(crate) waited_at: AtomicU64,
    /// The end of that wait, ticks.
    pub(crate) woken: AtomicU64,
    /// The ID of the thread that was waited for.
    pub(crate) blamed: AtomicU64,
    /// The place where that thread woke others.
    pub(crate) blamed_from: AtomicU64,
    /// Number of waits in futex(2) that have ended.
    pub(crate) ended: AtomicU64,
    /// The number of waits that the wait in [`Local::waited`] represents and, above
    /// [`WEIGHT_BITS`](crate::waits::sampling::WEIGHT_BITS), the number of releases that the last
    /// one does.
    pub(crate) waited_weight: AtomicU64,
    /// The semaphore that the thread took last, unless it has posted it; 0: none.
    pub(crate) taken: AtomicU64,
    /// The semaphore that it has posted last since then; 0: none.
    pub(crate) posted: AtomicU64,
}

/// A condition that a thread has waited for, and what the thread did since.
#[repr(C)]
pub(crate) struct Watched {
    /// The mutex of the condition; 0: none, or its next acquisition is of no interest.
    pub(crate) mutex: AtomicU64,
    /// The condition.
    pub(crate) condition: AtomicU64,
    /// What the thread did with the mutex, a [`Stage`](crate::threads::thread::Stage).
    pub(crate) stage: AtomicU64,
    /// Key and detail of the wait.
    pub(crate) key: AtomicU64,
    /// End of the wait, or begin of a critical section without one, ticks.
    pub(crate) begin: AtomicU64,
    /// Switches until then.
    pub(crate) switches: AtomicU64,
}

/// A hold that is being timed.
#[repr(C)]
pub(crate) struct TimedHold {
    pub(crate) lock: AtomicU64,
    /// Key and detail.
    pub(crate) key: AtomicU64,
    /// Its start, ticks.
    pub(crate) begin: AtomicU64,
    /// Switches until then and, in the lowest byte, the number of holds that it represents.
    pub(crate) last: AtomicU64,
}

const _: () = {
    assert!(size_of::<Local>() == LOCAL_BYTES && HOLD_COUNT < TRACED as usize);
    assert!(offset_of!(Local, thread) == 0, "the thread word of `arch`");
    assert!(offset_of!(Local, released).is_multiple_of(64));
};
