//! Words of a replay in simulated memory.

use convoy_machine::{Here, Sim};

/// Places a value in simulated memory under a name.
pub(super) fn named<T>(value: T, name: &'static str) -> Sim<T> {
    let placed = Here::place(value);
    Here::name(&*placed, name);
    placed
}
