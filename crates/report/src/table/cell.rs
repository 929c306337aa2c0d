//! A cell: the displayed text, and the value behind it.

use serde::{Deserialize, Serialize};

use crate::format::{duration, fixed};

/// Value of a cell, independent of its display: CSV and JSON have this, unrounded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Value {
    #[default]
    Nothing,
    Word(String),
    Count(u64),
    Number(f64),
}

impl Value {
    pub(super) fn csv(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Word(word) => word.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => number.to_string(),
        }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Nothing => serde_json::Value::Null,
            Self::Word(word) => word.as_str().into(),
            Self::Count(count) => (*count).into(),
            Self::Number(number) => (*number).into(),
        }
    }
}

/// One cell: the displayed text, and the value for CSV and JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub(super) shown: String,
    pub(super) value: Value,
}

impl Cell {
    /// Returns a cell with text, even if it looks like a number.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { value: word(text.clone()), shown: text }
    }

    /// A number with a fixed number of decimals; a number that is not finite shows as
    /// [`NOTHING`](crate::NOTHING)
    /// and is empty in CSV.
    pub fn number(value: f64, decimals: usize) -> Self {
        Self::shown(fixed(value, decimals), value)
    }

    /// A count.
    pub fn count(value: u64) -> Self {
        Self { shown: value.to_string(), value: Value::Count(value) }
    }

    /// A number that is not known for every row: empty where it is missing.
    pub fn known(value: Option<f64>, decimals: usize) -> Self {
        value.map_or_else(Self::empty, |value| Self::number(value, decimals))
    }

    /// A number with its sign, also of an increase.
    pub fn signed(value: f64, decimals: usize) -> Self {
        let text = fixed(value, decimals);
        let plus = if value > 0.0 && value.is_finite() { "+" } else { "" };
        Self::shown(format!("{plus}{text}"), value)
    }

    /// Microseconds in the unit that a person reads; CSV and JSON get microseconds.
    pub fn duration(us: Option<f64>) -> Self {
        let us = us.unwrap_or(f64::NAN);
        Self::shown(duration(us), us)
    }

    /// A number for programs alone.
    pub fn plain(value: f64) -> Self {
        Self::shown("", value)
    }

    /// A number shown in the caller's form; CSV and JSON get the number.
    pub fn shown(shown: impl Into<String>, value: f64) -> Self {
        let value = if value.is_finite() { Value::Number(value) } else { Value::Nothing };
        Self { shown: shown.into(), value }
    }

    /// A word that is not repeated on paper, because the row above says it, but is in CSV.
    pub fn repeated(text: impl Into<String>) -> Self {
        Self { shown: String::new(), value: word(text.into()) }
    }

    /// A value of JSON; the words of a list are one text.
    pub(super) fn of_json(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::empty(),
            serde_json::Value::String(text) => Self::text(text),
            serde_json::Value::Array(items) => {
                let words: Vec<&str> = items.iter().filter_map(serde_json::Value::as_str).collect();
                Self::text(words.join(" "))
            }
            value => match (value.as_u64(), value.as_f64()) {
                (Some(count), _) => Self::count(count),
                (None, Some(number)) => Self::plain(number),
                (None, None) => Self::text(value.to_string()),
            },
        }
    }

    /// A cell without content.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Appends `mark` to the displayed text, but not in CSV.
    #[must_use]
    pub fn marked(mut self, mark: &str) -> Self {
        self.shown.push_str(mark);
        self
    }
}

fn word(text: String) -> Value {
    if text.is_empty() { Value::Nothing } else { Value::Word(text) }
}
