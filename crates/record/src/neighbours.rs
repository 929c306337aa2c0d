//! Locks that share a cache line.

use std::collections::{BTreeMap, BTreeSet};

use crate::steps::Known;

/// Locks of different names on one line of the cache.
pub(crate) fn neighbours(known: &BTreeMap<u64, Known>) -> Vec<Vec<String>> {
    /// Bytes of a line.
    const LINE: u64 = 64;
    let mut lines: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for (address, known) in known.iter().filter(|(_, known)| known.is_lock) {
        lines.entry(address / LINE).or_default().insert(&known.name);
    }
    let shared = lines.into_values().filter(|names| names.len() > 1);
    let all: BTreeSet<Vec<String>> =
        shared.map(|names| names.into_iter().map(str::to_owned).collect()).collect();
    all.into_iter().collect()
}
