//! Locks that few runs need.

use crate::locks::Line;
use convoy_machine::Sim;
use core::cell::OnceCell;

/// Locks that are allocated at the first rename, so that runs without renames keep their memory
/// layout.
pub(super) type Late<L> = OnceCell<Sim<Line<L>>>;
