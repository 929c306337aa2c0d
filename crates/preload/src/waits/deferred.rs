//! Records waits, some of them only after the release of the lock.

use crate::arch;
use crate::file::map::{self, add, get, set};
use crate::file::process;
use crate::threads::detail::{Detail, record};
use crate::threads::thread::{Packed, Thread};
use crate::waits::sampling::WEIGHT_BITS;

/// Records the wait that was deferred.
#[inline]
pub(crate) fn settle(thread: Thread) {
    let waited = &arch::local().waited;
    let packed = get(waited);
    if packed != 0 {
        set(waited, 0);
        settled(thread, Packed::from_word(packed));
    }
}

#[inline(never)]
fn settled(thread: Thread, packed: Packed) {
    let Some(detail) = map::file().and_then(|file| Detail::at(file, packed.detail())) else {
        return;
    };
    let local = arch::local();
    let weights = get(&local.waited_weight);
    let (weight, releases) = (weights & ((1 << WEIGHT_BITS) - 1), weights >> WEIGHT_BITS);
    waited(thread, detail, [get(&local.waited_from), get(&local.waited_to)], weight, true);
    let counts = detail.counts();
    add(&counts.contended, weight);
    let handoff = get(&local.waited_handoff);
    if handoff != 0 {
        // Both the release and the wait were recorded by chance.
        record(&counts.handoff, handoff, weight * releases);
    }
}

/// Records a wait that represents `weight` waits.
pub(crate) fn waited(
    thread: Thread,
    detail: Detail,
    [asked, got]: [u64; 2],
    weight: u64,
    for_lock: bool,
) {
    if !process::only_contended() {
        thread.look_at_window(got);
    }
    let ticks = got.saturating_sub(asked);
    record(&detail.counts().wait, ticks, weight);
    thread.phase(ticks * weight, got, for_lock);
}
