//! `--set`: one key of one kind of file, changed on the command line.

use std::str::FromStr;

use serde_json::Value as Json;

use crate::error::CatalogueError;
use crate::keys::takes_text;
use crate::place::Place;
use crate::shelf::{EXPERIMENTS, KERNELS, MACHINES, WORKLOADS};
use crate::tree::{Node, Value};

/// One `KIND.KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The kind of file: `kernel`, `machine` or `experiment`.
    pub kind: &'static str,
    path: Vec<String>,
    /// The key as given, without the kind.
    key: String,
    text: String,
    /// The flag as errors name it.
    flag: String,
}

impl Set {
    /// A key of the machine that has a separate flag: `flag`, with its value.
    pub fn machine(path: &[&str], text: String, flag: String) -> Self {
        let key = path.join(".");
        let path = path.iter().map(|&part| part.to_owned()).collect();
        Self { kind: MACHINES.kind, path, key, text, flag }
    }

    /// The number of CPUs of the machine.
    pub fn cpus(cpus: usize) -> Self {
        Self::machine(&["topology", "cpus"], cpus.to_string(), format!("--cpus {cpus}"))
    }

    /// The dotted key, without the kind.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value, as given.
    pub fn value(&self) -> &str {
        &self.text
    }

    /// `KEY=VALUE`, as titles print it.
    pub fn change(&self) -> String {
        format!("{}={}", self.key, self.text)
    }

    /// The tree with this one value. A word that is not TOML is text; so is any word if `schema`
    /// accepts text.
    pub(crate) fn node(&self, schema: &Json) -> Node {
        let place = Place::whole(&self.flag);
        let parsed = Node::parse("", &format!("value = {}", self.text)).ok();
        let parsed = parsed.and_then(|mut table| match &table.value {
            Value::Table(keys) if keys.len() == 1 => table.remove("value"),
            _ => None,
        });
        let text = || Value::String(self.text.clone());
        let value = match parsed.map(|node| node.value) {
            Some(value @ Value::String(_)) => value,
            Some(_) if takes_text(schema, &self.path) => text(),
            Some(value) => at(value, &place),
            None => text(),
        };
        let mut node = Node { value, place: place.clone() };
        for part in self.path.iter().rev() {
            let table = [(part.clone(), node)].into_iter().collect();
            node = Node { value: Value::Table(table), place: place.clone() };
        }
        node
    }
}

/// `value` with everything in it at `place`.
fn at(value: Value, place: &Place) -> Value {
    let node = |node: Node| Node { value: at(node.value, place), place: place.clone() };
    match value {
        Value::Array(nodes) => Value::Array(nodes.into_iter().map(node).collect()),
        Value::Table(table) => {
            Value::Table(table.into_iter().map(|(key, inner)| (key, node(inner))).collect())
        }
        plain => plain,
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}={}", self.kind, self.key, self.text)
    }
}

impl FromStr for Set {
    type Err = CatalogueError;

    fn from_str(text: &str) -> Result<Self, CatalogueError> {
        let wrong = |problem: String| CatalogueError::Set { text: text.to_owned(), problem };
        let form = || wrong("expected KIND.KEY=VALUE, such as kernel.config.hz=1000".to_owned());
        let at = equals(text).ok_or_else(form)?;
        let (key, value) = (text[..at].trim(), text[at + 1..].trim());
        let mut path = parts(key).ok_or_else(form)?;
        if path.len() < 2 || value.is_empty() {
            return Err(form());
        }
        let kinds = [KERNELS.kind, MACHINES.kind, EXPERIMENTS.kind, WORKLOADS.kind];
        let kind = kinds.into_iter().find(|kind| *kind == path[0]).ok_or_else(|| {
            let hint = crate::suggest::hint(&path[0], kinds.into_iter());
            wrong(format!("unknown kind {:?}{hint}; known: {}", path[0], kinds.join(", ")))
        })?;
        path.remove(0);
        let key = key[kind.len()..].trim_start().trim_start_matches('.').trim_start();
        let flag = format!("--set {kind}.{key}={value}");
        Ok(Self { kind, path, key: key.to_owned(), text: value.to_owned(), flag })
    }
}

/// Where the first `=` outside quotes is.
fn equals(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'=') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => (),
        }
    }
    None
}

/// The parts of a dotted key, quoted ones included.
fn parts(key: &str) -> Option<Vec<String>> {
    let mut node = Node::parse("", &format!("{key} = 0")).ok()?;
    let mut parts = Vec::new();
    while let Value::Table(table) = node.value {
        let mut entries = table.into_iter();
        let (part, inner) = entries.next()?;
        if entries.next().is_some() {
            return None;
        }
        parts.push(part);
        node = inner;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Set {
        text.parse().unwrap()
    }

    #[test]
    fn kind_key_and_value_are_told_apart() {
        let plain = set("kernel.config.hz=1000");
        assert_eq!((plain.kind, plain.change().as_str()), ("kernel", "config.hz=1000"));
        assert_eq!(plain.path, ["config", "hz"]);
        let quoted = set("experiment.scale_error.\"2.6.25=x\" = 1.0");
        assert_eq!(quoted.path, ["scale_error", "2.6.25=x"]);
        assert_eq!(set(&quoted.to_string()), quoted);
    }

    #[test]
    fn what_is_no_set_is_refused_with_the_form() {
        for text in ["kernel", "kernel=1", "kernel.a", "kernel.a=", "a b.c=1", "kernel.a\nb=1"] {
            let error = text.parse::<Set>().unwrap_err().to_string();
            assert!(error.contains("KIND.KEY=VALUE"), "{text}: {error}");
        }
        let error = "kernl.a=1".parse::<Set>().unwrap_err().to_string();
        assert!(error.contains("did you mean kernel?"), "{error}");
    }

    #[test]
    fn a_bare_word_is_text_and_other_values_are_toml() {
        let schema = serde_json::json!({"properties": {"a": {"type": "string"}}});
        let value = |text: &str| {
            let mut node = set(text).node(&schema);
            let key = if text.contains(".a=") { "a" } else { "b" };
            node.remove(key).unwrap().value
        };
        assert!(matches!(value("kernel.b=full"), Value::String(text) if text == "full"));
        assert!(matches!(value("kernel.a=3.0"), Value::String(text) if text == "3.0"));
        assert!(matches!(value("kernel.b=3.0"), Value::Float(_)));
        assert!(matches!(value("kernel.b=[1, 2]"), Value::Array(list) if list.len() == 2));
        assert!(matches!(value("kernel.b=1\nc = 2"), Value::String(_)));
    }
}
