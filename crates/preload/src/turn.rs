//! The turn of each thread, for `fair`.

use core::cell::Cell;

use convoy_sync::Turn;

thread_local! {
    // It has no destructor, and lies in the memory that a thread begins with.
    static TURN: Cell<Turn> = const { Cell::new(Turn::new(0)) };
}

pub(crate) fn get() -> Turn {
    TURN.get()
}

pub(crate) fn set(turn: Turn) {
    TURN.set(turn);
}

/// The calling thread has slept at a condition variable, which is no part of its turn. It would
/// queue behind all others as if it had run, and a program whose next step it is would wait for
/// them all: a writer of `LevelDB` leads the others when it is woken.
pub(crate) fn was_away() {
    TURN.set(TURN.get().away());
}
