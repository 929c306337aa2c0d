//! From the tree to a type: serde's deserialiser over [`Node`]. Its errors know key and place, and
//! what would have been accepted.

use std::collections::btree_map;
use std::fmt::{self, Display};
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer as _, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::place::{self, Place};
use crate::suggest::hint;
use crate::tree::{Node, Value};

/// An error in a value, with its position.
#[derive(Debug)]
pub(crate) struct DeError {
    pub(crate) path: Vec<String>,
    pub(crate) place: Option<Place>,
    pub(crate) problem: String,
    /// The key that no table of this kind has.
    pub(crate) unknown_key: bool,
}

impl DeError {
    fn new(problem: String) -> Self {
        Self { path: Vec::new(), place: None, problem, unknown_key: false }
    }

    /// Returns this error inside `key`, at `place`.
    fn inside(mut self, key: &str, place: &Place) -> Self {
        self.path.insert(0, key.to_owned());
        self.place.get_or_insert_with(|| place.clone());
        self
    }

    /// The dotted key.
    pub(crate) fn key(&self) -> String {
        let mut key = String::new();
        for part in &self.path {
            if !key.is_empty() && !part.starts_with('[') {
                key.push('.');
            }
            key.push_str(part);
        }
        key
    }
}

impl Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for DeError {}

impl de::Error for DeError {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new(problem.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {}", accepted(expected), shown(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        let hint = hint(name, known.iter().copied());
        Self::new(format!("unknown value {name:?}{hint}; accepted: {}", known.join(", ")))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        let hint = hint(key, known.iter().copied());
        let problem = format!("unknown key{hint}; known: {}", known.join(", "));
        Self { unknown_key: true, ..Self::new(problem) }
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(format!("the key {key} is missing"))
    }
}

fn accepted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a map" => "a table".to_owned(),
        "a sequence" => "a list".to_owned(),
        _ if text.starts_with("struct ") => "a table".to_owned(),
        _ if text.starts_with("enum ") => "a name".to_owned(),
        _ => text,
    }
}

fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Float(value) => place::number(value),
        Unexpected::Str(text) => format!("{text:?}"),
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        other => other.to_string(),
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match &self.value {
            Value::Boolean(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(value) => visitor.visit_borrowed_str(value),
            Value::Array(nodes) => visitor.visit_seq(List { nodes: nodes.iter(), next: 0 }),
            Value::Table(table) => {
                visitor.visit_map(Table { entries: table.iter(), current: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match &self.value {
            Value::String(text) => {
                let text: StrDeserializer<'_, DeError> = text.as_str().into_deserializer();
                text.deserialize_enum(name, variants, visitor)
            }
            Value::Table(table) if table.len() == 1 => {
                let mut entries = table.iter();
                match entries.next() {
                    Some((name, node)) => visitor.visit_enum(Variant { name, node }),
                    None => self.deserialize_any(visitor),
                }
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct List<'de> {
    nodes: slice::Iter<'de, Node>,
    next: usize,
}

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DeError> {
        let Some(node) = self.nodes.next() else { return Ok(None) };
        let index = format!("[{}]", self.next);
        self.next += 1;
        seed.deserialize(node).map(Some).map_err(|error| error.inside(&index, &node.place))
    }
}

struct Table<'de> {
    entries: btree_map::Iter<'de, String, Node>,
    current: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Table<'de> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DeError> {
        let Some((key, node)) = self.entries.next() else { return Ok(None) };
        self.current = Some((key, node));
        let name: StrDeserializer<'_, DeError> = key.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|error| error.inside(key, &node.place))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DeError> {
        let Some((key, node)) = self.current.take() else {
            return Err(DeError::new("a value was asked for before its key".to_owned()));
        };
        seed.deserialize(node).map_err(|error| error.inside(key, &node.place))
    }
}

/// `{ name = value }`: a variant with content.
struct Variant<'de> {
    name: &'de str,
    node: &'de Node,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = DeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DeError> {
        let name: StrDeserializer<'_, DeError> = self.name.into_deserializer();
        let variant = seed.deserialize(name);
        Ok((variant.map_err(|error| error.inside(self.name, &self.node.place))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = DeError;

    fn unit_variant(self) -> Result<(), DeError> {
        let problem = format!("write \"{}\" alone; it takes no keys", self.name);
        Err(DeError::new(problem).inside(self.name, &self.node.place))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DeError> {
        seed.deserialize(self.node).map_err(|error| error.inside(self.name, &self.node.place))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _n: usize, visitor: V) -> Result<V::Value, DeError> {
        let result = self.node.deserialize_any(visitor);
        result.map_err(|error| error.inside(self.name, &self.node.place))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        let result = self.node.deserialize_any(visitor);
        result.map_err(|error| error.inside(self.name, &self.node.place))
    }
}
