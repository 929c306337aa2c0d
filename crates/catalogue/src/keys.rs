//! The keys of a type, from its schema: ranges, which the loader holds every number against, and
//! the output of `convoy list kernel-keys`.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value as Json;

use crate::error::{CatalogueError, out_of_range};
use crate::place::number;
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
    let bounds = |of: &str| leaf.get(of).and_then(Json::as_f64);
    let numeric = is(leaf, "number") || is(leaf, "integer");
    let unbounded = numeric && (bounds("minimum").is_none() || bounds("maximum").is_none());
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
        let mut all: Vec<String> = several.iter().map(takes).collect();
        all.dedup();
        return all.join(", ");
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
    let all = ["oneOf", "anyOf"].into_iter().filter_map(|of| schema.get(of)?.as_array());
    all.flatten()
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

/// `MINIMUM to MAXIMUM`, if there is one of them.
fn accepted(schema: &Json) -> Option<String> {
    let bound = |of: &str| schema.get(of).and_then(Json::as_f64).map(number);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (None, None) => None,
    }
}

/// Holds every number of `node` against its range; one without a range must be finite.
pub(crate) fn check(schema: &Json, node: &Node, path: &str) -> Result<(), CatalogueError> {
    let schema = plain(schema);
    let value = match &node.value {
        Value::Integer(value) => *value as f64,
        Value::Float(value) => *value,
        Value::Array(nodes) => {
            let items = schema.get("items").unwrap_or(&Json::Null);
            return nodes
                .iter()
                .enumerate()
                .try_for_each(|(index, node)| check(items, node, &format!("{path}[{index}]")));
        }
        Value::Table(table) => {
            return table.iter().try_for_each(|(name, node)| {
                let named = schema.get("properties").and_then(|properties| properties.get(name));
                let inner = named.or_else(|| schema.get("additionalProperties"));
                let dot = if path.is_empty() { "" } else { "." };
                check(inner.unwrap_or(&Json::Null), node, &format!("{path}{dot}{name}"))
            });
        }
        Value::Boolean(_) | Value::String(_) => return Ok(()),
    };
    let bound = |of: &str| schema.get(of).and_then(Json::as_f64);
    let above = bound("minimum").is_none_or(|least| value >= least);
    let below = bound("maximum").is_none_or(|most| value <= most);
    if value.is_finite() && above && below {
        return Ok(());
    }
    let accepted = accepted(schema).unwrap_or_else(|| "a finite number".to_owned());
    Err(CatalogueError::Key {
        place: node.place.clone(),
        key: path.to_owned(),
        problem: out_of_range(value, &accepted),
    })
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
            check(&schema::<Outer>(), &node, "").unwrap_err().to_string()
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
