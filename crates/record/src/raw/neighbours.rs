//! Locks that share a cache line.

use std::collections::{BTreeMap, BTreeSet};

use crate::raw::traces::Known;

/// Returns the groups of locks that share a cache line, by name. Two locks may have one name.
pub(crate) fn neighbours(known: &BTreeMap<u64, Known>) -> Vec<Vec<String>> {
    fn sorted(mut names: Vec<&str>) -> Vec<String> {
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect::<Vec<String>>()
    }
    /// Size of a cache line in bytes.
    const LINE: u64 = 64;
    let mut lines: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (address, known) in known.iter().filter(|(_, known)| known.is_lock) {
        lines.entry(address / LINE).or_default().push(&known.name);
    }
    let shared = lines.into_values().filter(|names| names.len() > 1);
    let all: BTreeSet<Vec<String>> = shared.map(sorted).collect();
    all.into_iter().collect()
}
