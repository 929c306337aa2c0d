//! Data that only the thread itself uses is stored with its stack, and not in its slot of the file.
//! Where many threads take turns, the slot of a thread that resumes is in no cache, and a critical
//! section becomes longer by each cache line of it that must be fetched. The kernel has just
//! accessed the adjacent memory, in which it reports the CPU of the thread.

/// Number of threads, by slot, for which others open windows of traces, and that share no details.
pub(crate) const PRIVATE: usize = 64;
/// Words of the data; the first one is the thread word of [`arch`](crate::arch).
pub(crate) const OWN_WORDS: usize = 64;
/// Number of holds that are being timed.
pub(crate) const O_HOLDS: usize = 1;
/// Number of switches that were detected.
pub(crate) const O_SWITCHES: usize = 2;
/// Address of the `rseq_cs` word of the thread; 0: none.
pub(crate) const O_RSEQ: usize = 3;
/// The holds that are being timed. With one of them, the data that the end of a wait needs fills a
/// cache line.
pub(crate) const O_HOLD: usize = 4;
/// Maximum number of holds that are timed.
pub(crate) const HOLD_COUNT: usize = 7;
/// Words of each: lock, key and detail, ticks, switches and weight.
pub(crate) const HOLD_WORDS: usize = 4;
/// End of the last hold that was timed, ticks; 0 if the last hold was not timed. The data that the
/// next request needs fills another cache line.
pub(crate) const O_RELEASED: usize = 32;
/// Switches until then and, in the lowest byte, the number of holds that the timed one represents.
pub(crate) const O_RELEASED_LAST: usize = 33;
/// Acquisitions until something is due, if [`O_DUE`] points here.
pub(crate) const O_COUNTDOWN: usize = 34;
/// Address of the lines with the thread's keys, see [`keys`](crate::threads::keys).
pub(crate) const O_LINES: usize = 35;
/// Mutex of the condition that the thread waited for last, until it signals that; 0: none.
pub(crate) const O_MONITOR_MUTEX: usize = 36;
/// Generation of the thread among the threads of its slot.
pub(crate) const O_GENERATION: usize = 37;
/// Number of its slot.
pub(crate) const O_SLOT: usize = 38;
/// Address of the number of acquisitions until something is due: in the slot, where other threads
/// can change it, or here.
pub(crate) const O_DUE: usize = 39;
/// The condition of that mutex.
pub(crate) const O_MONITOR: usize = 40;
/// 1 once the thread has reacquired that mutex.
pub(crate) const O_MONITOR_AGAIN: usize = 41;
/// Key and detail of the wait for the condition.
pub(crate) const O_MONITOR_KEY: usize = 42;
/// End of that wait, ticks.
pub(crate) const O_MONITOR_BEGIN: usize = 43;
/// Switches until the end of that wait.
pub(crate) const O_MONITOR_SWITCHES: usize = 44;
/// End of the thread's trace.
pub(crate) const O_TRACE_END: usize = 45;
/// Switches until the last step of the trace.
pub(crate) const O_TRACE_SWITCHES: usize = 46;
/// [`STEP_OFF`](crate::layout::STEP_OFF) of the step that has begun.
pub(crate) const O_TRACE_OFF: usize = 47;
/// Thread ID in the kernel.
pub(crate) const O_THREAD: usize = 48;
/// Key and detail of a wait that is not recorded yet; 0: none.
pub(crate) const O_WAITED: usize = 49;
/// Start and end of that wait, ticks.
pub(crate) const O_WAITED_FROM: usize = 50;
pub(crate) const O_WAITED_TO: usize = 51;
/// Ticks from the previous release to the end of that wait; 0: not known.
pub(crate) const O_WAITED_HANDOFF: usize = 52;
/// The last window that the thread has noticed.
pub(crate) const O_WINDOW: usize = 53;
/// Last call site at which a lock without a key was acquired, with the kind; and its count.
pub(crate) const O_OTHER: usize = 54;
pub(crate) const O_OTHER_COUNT: usize = 55;
/// Time at which the CPU time of an owner is read again, ticks.
pub(crate) const O_MEASURES_NEXT: usize = 56;
/// The last wait in futex(2): the word, the call site, the end in ticks, the ID of the thread that
/// was waited for, and the place where that thread woke others; see
/// [`wakers`](crate::waits::wakers).
pub(crate) const O_WAITED_ON: usize = 57;
pub(crate) const O_WAITED_AT: usize = 58;
pub(crate) const O_WOKEN: usize = 59;
pub(crate) const O_BLAMED: usize = 60;
pub(crate) const O_BLAMED_FROM: usize = 61;
/// Number of waits in futex(2) that have ended.
pub(crate) const O_ENDED: usize = 62;
/// The number of waits that the wait in [`O_WAITED`] represents and, above
/// [`WEIGHT_BITS`](crate::waits::sampling::WEIGHT_BITS), the number of releases that the last one
/// does.
pub(crate) const O_WAITED_WEIGHT: usize = 63;
/// Waits until one is recorded; the number of waits that it represents and, above
/// [`WEIGHT_BITS`](crate::waits::sampling::WEIGHT_BITS), the number of waits up to it; and the time
/// of the last one, ticks. They are used if only contended acquisitions are recorded: then no
/// thread has a trace.
pub(crate) const O_PASSES: usize = O_TRACE_END;
pub(crate) const O_REPRESENTS: usize = O_TRACE_SWITCHES;
pub(crate) const O_RECORDED: usize = O_TRACE_OFF;
/// Acquisitions of a thread that is not recorded, which uses none of the other words.
pub(crate) const O_UNRECORDED: usize = O_OTHER_COUNT;
/// Flag in [`O_HOLDS`]: the thread has a trace.
pub(crate) const TRACED: u64 = 1 << 8;

const _: () = {
    assert!(O_HOLD + HOLD_COUNT * HOLD_WORDS <= O_RELEASED);
    assert!(O_WAITED_WEIGHT < OWN_WORDS && HOLD_COUNT < TRACED as usize);
};
