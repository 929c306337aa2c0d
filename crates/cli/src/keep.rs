//! Keeps the record of a finished run: in the store, or else in a file.

use crate::args::Common;
use crate::output;
use clap::Args;
use convoy_store::{Entry, Store, StoreError};
use std::path::PathBuf;

/// The value of `CONVOY_STORE` with which no record is kept.
pub(crate) const NONE: &str = "none";

/// Help of `--store`.
pub(crate) const STORE_HELP: &str = "The store of all runs; default $CONVOY_STORE (none: \
    no record), else convoy/runs.sqlite3 in $XDG_DATA_HOME or ~/.local/share";

/// Flags of every command that leaves a record.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StoreArgs {
    /// The store of all runs.
    #[arg(long, value_name = "FILE", help = STORE_HELP, hide_short_help = true)]
    #[arg(help_heading = "Output")]
    pub(crate) store: Option<PathBuf>,
    /// Do not store this run
    #[arg(long, conflicts_with_all = ["store", "tag"], hide_short_help = true)]
    #[arg(help_heading = "Output")]
    pub(crate) no_store: bool,
    /// Name of the record (repeatable); later commands take `@NAME`
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) tag: Vec<String>,
}

/// The store that is used if none is named.
pub(crate) fn default_path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let data = || {
        let home = || set("HOME").map(|home| PathBuf::from(home).join(".local/share"));
        set("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)
    };
    let named = set("CONVOY_STORE").filter(|name| name != NONE).map(PathBuf::from);
    named.or_else(|| data().map(|data| data.join("convoy/runs.sqlite3")))
}

/// Whether `name` is the number or the `@NAME` of a stored run, and no file.
pub(crate) fn is_stored(name: &str) -> bool {
    name.starts_with('@') || name.chars().all(|c| c.is_ascii_digit())
}

impl StoreArgs {
    /// Whether the names of the record can be names.
    pub(crate) fn check_tags(&self) -> Result<(), StoreError> {
        self.tag.iter().try_for_each(|tag| convoy_store::check_tag(tag))
    }

    /// Whether no record shall be kept.
    pub(crate) fn is_off(&self) -> bool {
        let none = std::env::var_os("CONVOY_STORE").is_some_and(|store| store == NONE);
        self.no_store || self.store.is_none() && none
    }

    /// Whether the user has said where the store is.
    pub(crate) fn is_named(&self) -> bool {
        self.store.is_some() || std::env::var_os("CONVOY_STORE").is_some()
    }

    /// The file, unless no record shall be kept.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        if self.no_store { None } else { self.store.clone().or_else(default_path) }
    }

    /// Keeps the result `body` of a command of this `kind`. If it cannot be stored, the record is
    /// written to a file with a warning, and the result is still printed.
    pub(crate) fn keep(
        &self,
        common: &Common,
        kind: &str,
        seed: Option<u64>,
        body: serde_json::Value,
    ) {
        if let Some(keeper) = self.keeper(kind, seed) {
            keeper.finish(common, body);
        }
    }

    /// The keeper of a command of this `kind`, unless no record is wanted.
    pub(crate) fn keeper(&self, kind: &str, seed: Option<u64>) -> Option<Keeper> {
        if self.is_off() {
            return None;
        }
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let build = format!("convoy {} ({profile})", env!("CARGO_PKG_VERSION"));
        let entry = Entry::now(kind, arguments(), &build, serde_json::Value::Null);
        Some(Keeper { path: self.path(), entry: Entry { seed, tags: self.tag.clone(), ..entry } })
    }
}

/// The record of one command, which may grow while the command runs.
pub(crate) struct Keeper {
    path: Option<PathBuf>,
    entry: Entry,
}

impl Keeper {
    /// Sets the arguments of the command.
    pub(crate) fn set_command(&mut self, arguments: Vec<String>) {
        self.entry.command = arguments;
    }

    /// Removes the last `words` arguments of the command.
    pub(crate) fn leave_out(&mut self, words: usize) {
        self.entry.command.truncate(self.entry.command.len().saturating_sub(words));
    }

    /// Replaces the kept body with `body`.
    pub(crate) fn update(&mut self, body: serde_json::Value) -> Result<i64, StoreError> {
        self.entry.set(body);
        Store::open(self.path.clone().ok_or(StoreError::NoPlace)?)?.append(&self.entry)
    }

    /// Keeps the result, and says where.
    pub(crate) fn finish(mut self, common: &Common, body: serde_json::Value) {
        match self.update(body) {
            Ok(id) => {
                output::message(common, &format!("stored as run {id}; convoy runs show {id}"));
            }
            Err(error) => warn(&format!("{error}; {}", beside(&self.entry))),
        }
    }
}

/// Writes the record into a file, here or in the directory for temporary files; returns its path in
/// a sentence, or the record itself if it cannot be written.
fn beside(entry: &Entry) -> String {
    let text = serde_json::to_string(entry).unwrap_or_default();
    let name = format!("convoy-{}-{}.json", entry.kind, entry.uid.replace(['/', '.'], "-"));
    for directory in [PathBuf::from("."), std::env::temp_dir()] {
        let path = directory.join(&name);
        if output::private(&path, &text).is_ok() {
            return format!("the record is in {}", path.display());
        }
    }
    format!("the record: {text}")
}

/// Returns the arguments of this command; not all of them are UTF-8.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// A name that no other file has.
pub(crate) fn unique() -> String {
    let entry = Entry::now("record", Vec::new(), "", serde_json::Value::Null);
    entry.uid.replace(['/', '.'], "-")
}

/// A warning is printed even with `--quiet`: something is not as it should be.
pub(crate) fn warn(text: &str) {
    output::say(&format!("convoy: warning: {}", text.replace('\n', " ")));
}
