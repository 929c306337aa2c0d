//! What only the thread itself uses lies with its stack, and not in its slot of the file. Where
//! many threads take turns, the slot of one that goes on is in no cache, and a lock is held for
//! longer by each line of it that must be fetched. The kernel has just used the memory beside,
//! through which it tells the thread where it runs.

/// Threads, by their slot, for which others open windows of traces, and that share no details.
pub(crate) const PRIVATE: usize = 64;
/// Words of it; the first one is that of [`arch`](crate::arch).
pub(crate) const OWN_WORDS: usize = 64;
/// Holds that are being timed.
pub(crate) const O_HOLDS: usize = 1;
/// Switches that were seen.
pub(crate) const O_SWITCHES: usize = 2;
/// Address of the `rseq_cs` word of the thread; 0: none.
pub(crate) const O_RSEQ: usize = 3;
/// The holds that are being timed. With one of them, what is needed when a wait ends fills a line
/// of the cache.
pub(crate) const O_HOLD: usize = 4;
/// Of them.
pub(crate) const HOLD_COUNT: usize = 7;
/// Words of each: lock, key and detail, ticks, switches and weight.
pub(crate) const HOLD_WORDS: usize = 4;
/// End of the last hold that was timed, ticks; 0: the last hold was not. What is needed at the next
/// request fills another line.
pub(crate) const O_RELEASED: usize = 32;
/// Switches until then and, in the lowest byte, for how many holds that one stands.
pub(crate) const O_RELEASED_LAST: usize = 33;
/// Acquisitions until something is due, if [`O_DUE`] says so.
pub(crate) const O_COUNTDOWN: usize = 34;
/// The lines with its keys, see [`keys`](crate::keys).
pub(crate) const O_LINES: usize = 35;
/// The mutex of the condition that the thread waited for last, until it signals it; 0: none.
pub(crate) const O_MONITOR_MUTEX: usize = 36;
/// Which thread of its slot it is.
pub(crate) const O_GENERATION: usize = 37;
/// The number of its slot.
pub(crate) const O_SLOT: usize = 38;
/// Address of the number of acquisitions until something is due: in the slot, where others can
/// change it, or here.
pub(crate) const O_DUE: usize = 39;
/// That condition.
pub(crate) const O_MONITOR: usize = 40;
/// 1 once the thread has taken that mutex again.
pub(crate) const O_MONITOR_AGAIN: usize = 41;
/// The key of the wait, with its detail.
pub(crate) const O_MONITOR_KEY: usize = 42;
/// When it ended, ticks.
pub(crate) const O_MONITOR_BEGIN: usize = 43;
/// Switches until then.
pub(crate) const O_MONITOR_SWITCHES: usize = 44;
/// The end of its trace.
pub(crate) const O_TRACE_END: usize = 45;
/// Switches until the last step.
pub(crate) const O_TRACE_SWITCHES: usize = 46;
/// [`STEP_OFF`](crate::layout::STEP_OFF) of the step that has begun.
pub(crate) const O_TRACE_OFF: usize = 47;
/// Its number for the kernel.
pub(crate) const O_THREAD: usize = 48;
/// The key of a wait that is not recorded yet, with its detail; 0: none.
pub(crate) const O_WAITED: usize = 49;
/// When it began and ended, ticks.
pub(crate) const O_WAITED_FROM: usize = 50;
pub(crate) const O_WAITED_TO: usize = 51;
/// Ticks since the release before; 0: not known.
pub(crate) const O_WAITED_HANDOFF: usize = 52;
/// The last window in which it had a trace.
pub(crate) const O_WINDOW: usize = 53;
/// The last place at which a lock without a key of its own was taken, with the kind; and its count.
pub(crate) const O_OTHER: usize = 54;
pub(crate) const O_OTHER_COUNT: usize = 55;
/// When the CPU time of an owner is read again, ticks.
pub(crate) const O_MEASURES_NEXT: usize = 56;
/// Of the last wait in futex(2): the word, where, its end in ticks, the thread that it was for, by
/// its number for the kernel, and where that woke others; see [`wakes`](crate::wakes).
pub(crate) const O_WAITED_ON: usize = 57;
pub(crate) const O_WAITED_AT: usize = 58;
pub(crate) const O_WOKEN: usize = 59;
pub(crate) const O_BLAMED: usize = 60;
pub(crate) const O_BLAMED_FROM: usize = 61;
/// Waits in futex(2) that have ended.
pub(crate) const O_ENDED: usize = 62;
/// Acquisitions of a thread that is not recorded, which has none of the others.
pub(crate) const O_UNRECORDED: usize = O_OTHER_COUNT;
/// Beside [`O_HOLDS`]: the thread has a trace.
pub(crate) const TRACED: u64 = 1 << 8;

const _: () = {
    assert!(O_HOLD + HOLD_COUNT * HOLD_WORDS <= O_RELEASED);
    assert!(O_ENDED < OWN_WORDS && HOLD_COUNT < TRACED as usize);
};
