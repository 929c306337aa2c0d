//! The turn of each thread, for `fair`.

use core::cell::Cell;

use convoy_sync::Turn;

thread_local! {
    // It has no destructor, and is part of the thread's initial memory.
    static TURN: Cell<Turn> = const { Cell::new(Turn::new(0)) };
}

pub(crate) fn get() -> Turn {
    TURN.get()
}

pub(crate) fn set(turn: Turn) {
    TURN.set(turn);
}

/// Notes that the calling thread has slept at a condition variable, which is not part of its turn.
/// Otherwise it would queue behind all others as if it had run, and a program that depends on its
/// next step would wait for them all: a writer of `LevelDB` leads the others when it is woken.
pub(crate) fn was_away() {
    TURN.set(TURN.get().away());
}
