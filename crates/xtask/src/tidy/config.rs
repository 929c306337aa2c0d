//! `tidy.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::prose::Prose;
use super::ratchets::Pronouns;
use super::sentences::Sentences;

/// Facts and exceptions, each with its reason as a comment there.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Figures of the published tables; they belong into `experiments/` and nowhere else.
    pub(crate) published_figures: Vec<String>,
    /// Prefixes of the paths that may contain `unsafe`.
    pub(crate) unsafe_places: Vec<String>,
    /// Modules of `crates/sync/src` that are not locks and do not need a file card.
    pub(crate) not_locks: Vec<String>,
    #[serde(default)]
    pub(crate) binary_files: Vec<String>,
    /// Files that may be longer than the limit, with their own limit. A ratchet: only downwards.
    #[serde(default)]
    pub(crate) long_files: BTreeMap<String, usize>,
    /// Phrases to avoid, and their largest rate by directory. A ratchet: only downwards.
    #[serde(default)]
    pub(crate) prose: Prose,
    /// Largest number of lines of Rust by crate. A rise has its reason in a comment there.
    #[serde(default)]
    pub(crate) lines: BTreeMap<String, usize>,
    /// Names to avoid, and their largest share by crate. A ratchet: only downwards.
    #[serde(default)]
    pub(crate) pronouns: Pronouns,
    /// Largest number of closures bound to a name per 1,000 lines, by crate. A ratchet: only
    /// downwards.
    #[serde(default)]
    pub(crate) closures: BTreeMap<String, f64>,
    /// Branches on a sentence.
    #[serde(default)]
    pub(crate) sentences: Sentences,
}
