//! Locks that share a cache line.

use std::collections::{BTreeMap, BTreeSet};

use crate::steps::Known;

/// Returns the groups of differently named locks that share a cache line.
pub(crate) fn neighbours(known: &BTreeMap<u64, Known>) -> Vec<Vec<String>> {
    /// Size of a cache line in bytes.
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
