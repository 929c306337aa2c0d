//! The keys of a type, from its schema: ranges, which the loader holds every number against, and
//! the output of `convoy list kernel-keys`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value as Json;

use crate::error::{CatalogueError, out_of_range};
use crate::place::number;
use crate::suggest::{hint, nearest};
use crate::tree::{Node, Value};

/// The highest price.
const SECOND_NS: u64 = 1_000_000_000;

/// One key of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Dotted, a table in brackets; `[]` denotes the index of a list, `<name>` any name.
    pub path: String,
    /// Accepted values: type, range or names.
    pub takes: String,
    /// Whether a file without it, and without a base that has it, is refused.
    pub required: bool,
    /// Its meaning.
    pub meaning: String,
    /// A number without a lower and an upper bound.
    pub unbounded: bool,
}

/// The schema of `T`, without references.
pub(crate) fn schema<T: JsonSchema>() -> Json {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// All keys of `T`, in the order of their names.
pub fn keys<T: JsonSchema>() -> Vec<Key> {
    let mut keys = Vec::new();
    collect(&schema::<T>(), "", &mut keys);
    keys
}

/// Sets the range of a price, 0 to one second, for every number of a table, a list or a single key
/// that does not define a range. For `#[schemars(transform = nanoseconds)]`.
pub fn nanoseconds(schema: &mut Schema) {
    fn limit(schema: &mut Json) {
        let number = is(schema, "number") && schema.get("maximum").is_none();
        let Some(keys) = schema.as_object_mut() else { return };
        if number {
            keys.insert("minimum".to_owned(), 0.into());
            keys.insert("maximum".to_owned(), SECOND_NS.into());
        }
        for (name, inner) in keys {
            match (name.as_str(), inner) {
                ("items" | "additionalProperties", inner) => limit(inner),
                ("properties", Json::Object(table)) => table.values_mut().for_each(limit),
                _ => (),
            }
        }
    }
    let mut json = std::mem::take(schema).to_value();
    limit(&mut json);
    *schema = Schema::try_from(json).unwrap_or_default();
}

fn collect(schema: &Json, path: &str, keys: &mut Vec<Key>) {
    let schema = plain(schema);
    let required = |name: &str| {
        let listed = schema.get("required").and_then(Json::as_array);
        listed.is_some_and(|listed| listed.iter().any(|other| other == name))
    };
    let properties = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
    for (name, inner) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        add(inner, path, required(name), keys);
    }
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        add(inner, format!("{path}.<name>"), false, keys);
    }
}

fn add(inner: &Json, path: String, required: bool, keys: &mut Vec<Key>) {
    let (inner, mut path, mut leaf) = (inner, path, plain(inner));
    while let Some(items) = leaf.get("items") {
        path.push_str("[]");
        leaf = plain(items);
    }
    if leaf.get("properties").is_some()
        || leaf.get("additionalProperties").is_some_and(Json::is_object)
    {
        let meaning = described(inner).or_else(|| described(leaf)).unwrap_or_default();
        let (takes, unbounded) = ("table".to_owned(), false);
        keys.push(Key { path: format!("[{path}]"), takes, required, meaning, unbounded });
        collect(leaf, &path, keys);
        return;
    }
    let numeric = is(leaf, "number") || is(leaf, "integer");
    let is_open = bound(leaf, "minimum").is_none() || bound(leaf, "maximum").is_none();
    let unbounded = numeric && is_open;
    let mut meaning = described(inner).unwrap_or_else(|| described(leaf).unwrap_or_default());
    for choice in choices(leaf) {
        if let (Some(name), Some(about)) = (choice.get("const"), described(choice)) {
            let _infallible = write!(meaning, " `{}`: {about}", name.as_str().unwrap_or_default());
        }
    }
    keys.push(Key {
        path,
        takes: takes(leaf),
        required,
        meaning: meaning.trim().to_owned(),
        unbounded,
    });
}

/// Describes the accepted values of a leaf.
fn takes(leaf: &Json) -> String {
    let names = names(leaf);
    if !names.is_empty() {
        let quoted: Vec<String> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
        return quoted.join(", ");
    }
    if let Some(several) = leaf.get("anyOf").and_then(Json::as_array) {
        let mut kinds: Vec<String> = several.iter().map(takes).collect();
        kinds.dedup();
        return kinds.join(", ");
    }
    match accepted(leaf) {
        Some(range) if is(leaf, "integer") => range,
        Some(range) => format!("number, {range}"),
        None if is(leaf, "boolean") => "`true`, `false`".to_owned(),
        None if is(leaf, "string") => "text".to_owned(),
        None => "number".to_owned(),
    }
}

fn described(schema: &Json) -> Option<String> {
    Some(schema.get("description")?.as_str()?.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn choices(schema: &Json) -> impl Iterator<Item = &Json> {
    ["oneOf", "anyOf"].into_iter().filter_map(|key| schema.get(key)?.as_array()).flatten()
}

/// The names that a schema accepts.
fn names(schema: &Json) -> Vec<&str> {
    let listed = schema.get("enum").and_then(Json::as_array).into_iter().flatten();
    let named = choices(schema).flat_map(|choice| {
        let listed = choice.get("enum").and_then(Json::as_array).into_iter().flatten();
        choice.get("const").into_iter().chain(listed)
    });
    let schema_const = schema.get("const").into_iter();
    listed.chain(named).chain(schema_const).filter_map(Json::as_str).collect()
}

/// Returns the schema of an optional value's content.
fn plain(schema: &Json) -> &Json {
    let Some(choices) = schema.get("anyOf").and_then(Json::as_array) else { return schema };
    let mut some = choices.iter().filter(|choice| !is(choice, "null"));
    match (some.next(), some.next()) {
        (Some(only), None) => only,
        _ => schema,
    }
}

/// Whether a value may be of this type; an optional one has two.
fn is(schema: &Json, kind: &str) -> bool {
    match schema.get("type") {
        Some(Json::String(only)) => only == kind,
        Some(Json::Array(kinds)) => kinds.iter().any(|other| other == kind),
        _ => false,
    }
}

/// Whether text is accepted at the dotted key `path`.
pub(crate) fn takes_text(schema: &Json, path: &[String]) -> bool {
    let schema = plain(schema);
    let Some((name, rest)) = path.split_first() else {
        return is(schema, "string") || !names(schema).is_empty();
    };
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    let next = named.or_else(|| schema.get("additionalProperties"));
    next.is_some_and(|next| takes_text(next, rest))
}

fn bound(schema: &Json, end: &str) -> Option<f64> {
    schema.get(end)?.as_f64()
}

/// `MINIMUM to MAXIMUM`, if there is one of them.
fn accepted(schema: &Json) -> Option<String> {
    match ["minimum", "maximum"].map(|end| bound(schema, end).map(number)) {
        [Some(least), Some(most)] => Some(format!("{least} to {most}")),
        [Some(least), None] => Some(format!("at least {least}")),
        [None, Some(most)] => Some(format!("at most {most}")),
        [None, None] => None,
    }
}

/// Holds a file against the schema of its type: the types of values, the names of choices, known
/// and missing keys, and the ranges of numbers; a number without a range must be finite.
pub(crate) fn check(schema: &Json, node: &Node) -> Result<(), CatalogueError> {
    Check { root: schema }.value(schema, node, "")
}

/// The check of a file with this schema.
struct Check<'a> {
    root: &'a Json,
}

impl Check<'_> {
    fn value(&self, schema: &Json, node: &Node, path: &str) -> Result<(), CatalogueError> {
        let schema = plain(schema);
        let problem = match &node.value {
            Value::Integer(value) => out_of_bounds(schema, *value as f64),
            Value::Float(value) => out_of_bounds(schema, *value),
            Value::Array(items) if is(schema, "array") => {
                let of_item = schema.get("items").unwrap_or(&Json::Null);
                for (index, item) in items.iter().enumerate() {
                    self.value(of_item, item, &format!("{path}[{index}]"))?;
                }
                None
            }
            Value::Table(table) if is(schema, "object") => {
                self.table(schema, node, table, path)?;
                None
            }
            Value::String(name) if is_choice(schema) => unknown(name, &names(schema)),
            _ => None,
        };
        let mismatch = || {
            let words = expected(schema, &node.value)?;
            Some(format!("expected {words}, found {}", node.value))
        };
        problem.or_else(mismatch).map_or(Ok(()), |problem| Err(wrong(node, path, problem)))
    }

    fn table(
        &self,
        schema: &Json,
        node: &Node,
        table: &BTreeMap<String, Node>,
        path: &str,
    ) -> Result<(), CatalogueError> {
        let keys = schema.get("properties").and_then(Json::as_object);
        let extra = schema.get("additionalProperties").unwrap_or(&Json::Null);
        for (name, inner) in table {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{name}");
            let named = keys.and_then(|keys| keys.get(name));
            if named.is_none() && *extra == Json::Bool(false) {
                let keys = keys.into_iter().flatten().map(|(key, _)| key.as_str());
                let keys: Vec<&str> = keys.collect();
                let near = nearest(name, keys.iter().copied()).map(str::to_owned);
                let near = near.or_else(|| self.elsewhere(name));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                let problem = format!("unknown key{hint}; known: {}", keys.join(", "));
                return Err(wrong(inner, &path, problem));
            }
            self.value(named.unwrap_or(extra), inner, &path)?;
        }
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
        match required.filter_map(Json::as_str).find(|name| !table.contains_key(*name)) {
            Some(name) => Err(wrong(node, path, format!("the key {name} is missing"))),
            None => Ok(()),
        }
    }

    /// The first key of the file with this name in another table.
    fn elsewhere(&self, name: &str) -> Option<String> {
        let mut keys = Vec::new();
        collect(self.root, "", &mut keys);
        let ending = format!(".{name}");
        keys.into_iter().map(|key| key.path).find(|path| path.ends_with(&ending))
    }
}

/// The error of the value of a key.
fn wrong(node: &Node, key: &str, problem: String) -> CatalogueError {
    CatalogueError::Key { place: node.place.clone(), key: key.to_owned(), problem }
}

fn unknown(name: &str, accepted: &[&str]) -> Option<String> {
    let hint = hint(name, accepted.iter().copied());
    (!accepted.contains(&name))
        .then(|| format!("unknown value {name:?}{hint}; accepted: {}", accepted.join(", ")))
}

fn out_of_bounds(schema: &Json, value: f64) -> Option<String> {
    let above = bound(schema, "minimum").is_none_or(|least| value >= least);
    let below = bound(schema, "maximum").is_none_or(|most| value <= most);
    let accepted = || accepted(schema).unwrap_or_else(|| "a finite number".to_owned());
    (!(value.is_finite() && above && below)).then(|| out_of_range(value, &accepted()))
}

/// The values that a schema of one type accepts, if `value` is none of them.
fn expected(schema: &Json, value: &Value) -> Option<&'static str> {
    let is_natural = bound(schema, "minimum").is_some_and(|least| least >= 0.0);
    let (accepted, words) = match value {
        _ if is_choice(schema) => (matches!(value, Value::String(_)), "a name"),
        Value::Integer(_) if is(schema, "integer") || is(schema, "number") => return None,
        _ if is(schema, "integer") && is_natural => (false, "a whole number that is not negative"),
        _ if is(schema, "integer") => (false, "a whole number"),
        _ if is(schema, "number") => (matches!(value, Value::Float(_)), "a number"),
        _ if is(schema, "string") => (matches!(value, Value::String(_)), "text"),
        _ if is(schema, "boolean") => (matches!(value, Value::Boolean(_)), "true or false"),
        _ if is(schema, "array") => (matches!(value, Value::Array(_)), "a list"),
        _ if is(schema, "object") => (matches!(value, Value::Table(_)), "a table"),
        _ => return None,
    };
    (!accepted).then_some(words)
}

/// Whether a schema accepts names and nothing else.
fn is_choice(schema: &Json) -> bool {
    is_named(schema) || (choices(schema).next().is_some() && choices(schema).all(is_named))
}

fn is_named(choice: &Json) -> bool {
    choice.get("const").is_some() || choice.get("enum").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(dead_code, reason = "only its schema is used")]
    #[derive(JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        /// The first one.
        One,
        /// The other.
        TheOther,
    }

    #[expect(dead_code, reason = "only its schema is used")]
    #[derive(JsonSchema)]
    struct Inner {
        /// Ticks
        /// a second.
        #[schemars(range(min = 1, max = 10_000))]
        hz: u32,
        /// Open.
        any: Option<f64>,
        choice: Option<Choice>,
        #[schemars(inner(range(min = 0.0, max = 1.0)))]
        list: Vec<f64>,
    }

    #[expect(dead_code, reason = "only its schema is used")]
    #[derive(JsonSchema)]
    struct Outer {
        /// A table.
        config: Option<Inner>,
        text: String,
    }

    #[test]
    fn keys_have_ranges_names_and_meanings() {
        let keys = keys::<Outer>();
        let key = |path: &str| keys.iter().find(|key| key.path == path).unwrap();
        assert_eq!(key("config.hz").takes, "1 to 10000");
        assert_eq!(key("config.hz").meaning, "Ticks a second.");
        assert_eq!(key("config.list[]").takes, "number, 0 to 1");
        assert!(keys.iter().any(|key| key.takes == "`\"one\"`, `\"the-other\"`"
            && key.meaning.contains("`one`: The first one.")));
        let open: Vec<_> = keys.iter().filter(|key| key.unbounded).collect();
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].path.as_str(), open[0].required), ("config.any", false));
    }

    #[test]
    fn numbers_are_held_against_their_ranges() {
        let wrong = |text: &str| {
            let node = Node::parse("x.toml", text).unwrap();
            check(&schema::<Outer>(), &node).unwrap_err().to_string()
        };
        let zero = wrong("[config]\nhz = 0\n");
        assert_eq!(zero, "x.toml:2: config.hz: 0 is out of range (1 to 10000)");
        assert!(wrong("config.any = nan").contains("NaN is out of range (a finite number)"));
        assert!(wrong("config.list = [0.5,\n-inf]").starts_with("x.toml:2: config.list[1]: -inf"));
        assert!(wrong("config.hz = 99999999999999999999").contains("config.hz: 1e20 is out"));
    }

    #[test]
    fn text_is_known_by_the_schema() {
        let text = |path: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            takes_text(&schema::<Outer>(), &path)
        };
        assert!(text("text") && text("config.choice") && !text("config.hz") && !text("none"));
    }
}
