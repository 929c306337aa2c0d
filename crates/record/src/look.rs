//! Observations of a process while it ran.

use std::collections::{BTreeMap, BTreeSet};

use crate::attach::Attached;
use crate::holding::Holding;
use crate::hotspot::Hot;
use crate::states::{Edge, State, Wait};

/// Observations of one process.
#[derive(Default)]
pub(crate) struct Look {
    /// What owners did while others waited, and how often that was seen.
    pub(crate) owners: BTreeMap<(Edge, State), u64>,
    /// The same while no thread waited.
    pub(crate) held: Holding,
    /// What all threads did.
    pub(crate) threads: BTreeMap<State, u64>,
    /// Waits at the last look.
    pub(crate) waits: Vec<Wait>,
    /// Waits that their threads have left by a jump, each with its begin.
    pub(crate) left: BTreeSet<(u64, u64)>,
    /// Whether no thread could run at the last look: all waited without a timeout, one of them for
    /// long.
    pub(crate) is_stuck: bool,
    /// Number of samples.
    pub(crate) count: u64,
    /// From the first look to the last one, seconds.
    pub(crate) seconds: f64,
    /// Waits past the recorded functions.
    pub(crate) outside: Option<Attached>,
    /// Where its threads spent CPU time, and all samples of that.
    pub(crate) hot: (Vec<Hot>, u64),
}
