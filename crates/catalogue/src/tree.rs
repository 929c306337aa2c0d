//! The tree of a data file: values with their position, so that an error after any number of
//! overrides names the file and line of its cause.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::CatalogueError;
use crate::place::{Place, number};

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// A value. Dates are text.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(String),
    Array(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&number(*value)),
            Self::String(value) => write!(f, "{value:?}"),
            Self::Array(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

impl Node {
    /// Parses TOML; `file` is used in places.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, CatalogueError> {
        let lines = Lines::new(file, text);
        let table = DeTable::parse(text).map_err(|error| {
            let (line, column) = lines.position(error.span().map_or(0, |span| span.start));
            let problem = error.message().replace('\n', "; ");
            CatalogueError::Syntax { place: format!("{file}:{line}:{column}"), problem }
        })?;
        Ok(Self { value: lines.table(table.into_inner()), place: Place::whole(file) })
    }

    /// This node under `over`: tables merge key by key, everything else is replaced.
    pub(crate) fn overlaid(self, over: Self) -> Self {
        match (self.value, over.value) {
            (Value::Table(mut base), Value::Table(over_table)) => {
                for (key, node) in over_table {
                    let merged = match base.remove(&key) {
                        Some(under) => under.overlaid(node),
                        None => node,
                    };
                    base.insert(key, merged);
                }
                Self { value: Value::Table(base), place: over.place }
            }
            (_, value) => Self { value, place: over.place },
        }
    }

    /// Removes a key of a table.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Self> {
        match &mut self.value {
            Value::Table(table) => table.remove(key),
            _ => None,
        }
    }

    /// The text under `key` of a table.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match &self.value {
            Value::Table(table) => match &table.get(key)?.value {
                Value::String(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// The place of the key `path`, or of the last of its parents that exists. Parts of a list are
    /// `[0]`, `[1]`, ...
    pub(crate) fn place_of(&self, path: &str) -> &Place {
        let mut node = self;
        for part in path.split(['.', '[']) {
            let next = match &node.value {
                Value::Table(table) => table.get(part),
                Value::Array(nodes) => {
                    let index = part.trim_end_matches(']').parse::<usize>().ok();
                    index.and_then(|index| nodes.get(index))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            node = next;
        }
        &node.place
    }

    /// The SHA-256 of the value: sorted keys, no comments, and numbers by value, so that `1` and
    /// `1.0` are equal.
    pub(crate) fn hash(&self) -> String {
        let mut text = String::new();
        self.canonical(&mut text);
        hash(text.as_bytes())
    }

    fn canonical(&self, text: &mut String) {
        match &self.value {
            Value::Array(nodes) => {
                for (index, node) in nodes.iter().enumerate() {
                    text.push(if index == 0 { '[' } else { ',' });
                    node.canonical(text);
                }
                text.push_str(if nodes.is_empty() { "[]" } else { "]" });
            }
            Value::Table(table) => {
                for (index, (key, node)) in table.iter().enumerate() {
                    text.push(if index == 0 { '{' } else { ',' });
                    let _infallible = write!(text, "{key:?}:");
                    node.canonical(text);
                }
                text.push_str(if table.is_empty() { "{}" } else { "}" });
            }
            plain => {
                let _infallible = write!(text, "{plain}");
            }
        }
    }
}

/// The SHA-256 of `bytes`, in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Boolean(value) => serializer.serialize_bool(*value),
            Value::Integer(value) => serializer.serialize_i64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::String(value) => serializer.serialize_str(value),
            Value::Array(nodes) => serializer.collect_seq(nodes),
            Value::Table(table) => serializer.collect_map(table),
        }
    }
}

/// The lines of a text.
struct Lines<'a> {
    file: Arc<str>,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(file: &str, text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { file: file.into(), text, starts }
    }

    /// Line and column from 1 of the byte `at`.
    fn position(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let before = self.text.get(self.starts[line - 1]..at).unwrap_or_default();
        (line, 1 + before.chars().count())
    }

    fn place(&self, at: usize) -> Place {
        Place { file: Arc::clone(&self.file), line: self.position(at).0 }
    }

    fn table(&self, table: DeTable<'_>) -> Value {
        let node = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, Spanned<DeValue<'_>>)| {
            let place = self.place(key.span().start);
            (key.into_inner().into_owned(), Node { value: self.value(value.into_inner()), place })
        };
        Value::Table(table.into_iter().map(node).collect())
    }

    fn value(&self, value: DeValue<'_>) -> Value {
        match value {
            DeValue::Boolean(value) => Value::Boolean(value),
            DeValue::String(text) => Value::String(text.into_owned()),
            DeValue::Datetime(date) => Value::String(date.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Value::Integer(number),
                    // Beyond 64 bits: out of every range, which the error will name.
                    Err(_) => Value::Float(number.as_str().parse().unwrap_or(f64::INFINITY)),
                }
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Array(values) => {
                let node = |value: Spanned<DeValue<'_>>| {
                    let place = self.place(value.span().start);
                    Node { value: self.value(value.into_inner()), place }
                };
                Value::Array(values.into_iter().map(node).collect())
            }
            DeValue::Table(table) => self.table(table),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Node {
        Node::parse("x.toml", text).unwrap()
    }

    #[test]
    fn the_hash_is_of_the_content() {
        let one = parse("a = 1\n# comment\nb.c = \"x\"\n");
        let two = parse("[b]\nc = 'x'\n[d]\n");
        let two = two.overlaid(parse("a = 1.0"));
        let mut same = two.clone();
        same.remove("d");
        assert_eq!(one.hash(), same.hash());
        assert_ne!(one.hash(), two.hash());
        assert_ne!(parse("a = [1, 2]").hash(), parse("a = [12]").hash());
        assert_ne!(parse("a = [[1], 2]").hash(), parse("a = [[1, 2]]").hash());
    }

    #[test]
    fn tables_merge_and_lists_are_replaced() {
        let base = parse("[t]\na = 1\nb = [1, 2]\n[u]\nx = 1\n");
        let merged = base.overlaid(Node::parse("y.toml", "t.b = [3]\n").unwrap());
        assert_eq!(toml::to_string(&merged).unwrap(), "[t]\na = 1\nb = [3]\n\n[u]\nx = 1\n");
        assert_eq!(merged.place_of("t.a").to_string(), "x.toml:2");
        assert_eq!(merged.place_of("t.b[0]").to_string(), "y.toml:1");
        assert_eq!(merged.place_of("u.none").to_string(), "x.toml:4");
    }

    #[test]
    fn a_syntax_error_names_line_and_column() {
        let error = Node::parse("x.toml", "a = 1\nb = = 2\n").unwrap_err().to_string();
        assert!(error.starts_with("x.toml:2:5: "), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
