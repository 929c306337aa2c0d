//! A loaded value and its source.

use std::ops::Deref;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tree::{Node, hash};

/// Digits of the hash that a label has.
const DIGITS: usize = 8;

/// The source of a value. A record keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The shipped name, or the name of the file without its directory.
    pub name: String,
    /// The file, if it is not a shipped one, as it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The base of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub based_on: Option<String>,
    /// What `--set` changed, as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Whether it is anything else than the shipped file called `name`.
    pub changed: bool,
    /// SHA-256 of the content, in hexadecimal digits: keys in order, comments and description left
    /// out, so that equal content has an equal hash on every machine.
    #[serde(rename = "sha256")]
    pub hash: String,
    /// One line for people.
    #[serde(skip)]
    pub description: String,
}

impl Source {
    /// Returns the source of a recorded value: a label, and the hash of the content.
    pub fn recorded(label: &str, hash: &str) -> Self {
        Self { name: label.to_owned(), hash: hash.to_owned(), ..Self::default() }
    }

    /// Where relative paths in it begin; `None` for a shipped file.
    pub fn directory(&self) -> Option<PathBuf> {
        self.path.as_ref().map(|path| path.parent().map(ToOwned::to_owned).unwrap_or_default())
    }

    /// Returns the source of a text that is not a file.
    pub fn of_text(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: None,
            based_on: None,
            overrides: Vec::new(),
            changed: false,
            hash: hash(text.replace("\r\n", "\n").as_bytes()),
            description: String::new(),
        }
    }

    /// Returns the name for titles and records: the shipped name, or a name with the differences
    /// and the beginning of the hash.
    pub fn label(&self) -> String {
        if !self.changed {
            return self.name.clone();
        }
        let mut parts = Vec::new();
        // The base of a shipped file is not mentioned.
        if let Some(base) = self.based_on.as_ref().filter(|_| self.path.is_some()) {
            parts.push(format!("based on {base}"));
        }
        if !self.overrides.is_empty() {
            parts.push(format!("changed: {}", self.overrides.join(", ")));
        }
        parts.push(self.hash.chars().take(DIGITS).collect());
        format!("{} ({})", self.name, parts.join("; "))
    }
}

/// A value and its source.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
    pub(crate) tree: Node,
}

impl<T> Loaded<T> {
    /// What titles and records call it.
    pub fn label(&self) -> String {
        self.source.label()
    }

    /// The resolved content for a record.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(&self.tree).unwrap_or_default()
    }

    /// The resolved content as a file that can be loaded again.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(&self.tree).unwrap_or_default();
        let description = match self.source.description.as_str() {
            "" => String::new(),
            text => format!("description = {}\n", toml::Value::from(text)),
        };
        format!("# {}\n{description}{body}", self.label())
    }
}

impl<T> Deref for Loaded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
