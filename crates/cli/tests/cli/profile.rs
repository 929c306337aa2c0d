//! The profile of `convoy explain --firefox` against the published types of its format:
//! `src/types/profile.ts` and `markers.ts` of firefox-devtools/profiler, at the processed format
//! that the profile names. A field that these types require must be there and be of its type.

use crate::outputs::record_orders;
use crate::{code, directory, run, stderr};
use serde_json::Value;

/// The version of the format whose types these are; another has other tables.
const VERSION: u64 = 55;
/// `CategoryColor`.
const COLOURS: [&str; 13] = [
    "transparent",
    "purple",
    "green",
    "orange",
    "yellow",
    "lightblue",
    "blue",
    "brown",
    "magenta",
    "red",
    "lightred",
    "darkgrey",
    "grey",
];
/// `MarkerDisplayLocation`.
const PLACES: [&str; 6] = [
    "marker-chart",
    "marker-table",
    "timeline-overview",
    "timeline-memory",
    "timeline-ipc",
    "timeline-fileio",
];

/// The type of a value.
#[derive(Clone, Copy, Debug)]
enum Type {
    Number,
    Text,
    Bool,
    List,
    /// Of a table or list of this length.
    Index(usize),
    /// As before, or -1.
    IndexOrNone(usize),
    OrNull(&'static Self),
    Object,
}

const NUMBER_OR_NULL: Type = Type::OrNull(&Type::Number);
const OBJECT_OR_NULL: Type = Type::OrNull(&Type::Object);

impl Type {
    fn is(self, value: &Value) -> bool {
        let below = |length: usize| value.as_u64().is_some_and(|index| (index as usize) < length);
        match self {
            Self::Number => value.is_number(),
            Self::Text => value.is_string(),
            Self::Bool => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
            Self::Index(length) => below(length),
            Self::IndexOrNone(length) => value.as_i64() == Some(-1) || below(length),
            Self::OrNull(other) => value.is_null() || other.is(value),
        }
    }
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// Checks the required fields of an object.
fn fields(what: &str, value: &Value, required: &[(&str, Type)]) {
    for (name, kind) in required {
        assert!(kind.is(&value[name]), "{what}.{name} is not a {kind:?}: {}", value[name]);
    }
}

/// Checks the columns of a table; returns its length.
fn table(what: &str, table: &Value, columns: &[(&str, Type)]) -> usize {
    let length = table["length"].as_u64().expect("a length") as usize;
    for (name, kind) in columns {
        let column = list(&table[name]);
        assert_eq!(column.len(), length, "{what}.{name}");
        let wrong = column.iter().find(|value| !kind.is(value));
        assert_eq!(wrong, None, "{what}.{name} has one that is not a {kind:?}");
    }
    length
}

/// A column of indexes that may be null.
fn nullable(what: &str, table: &Value, name: &str, length: usize) {
    for value in list(&table[name]) {
        assert!(value.is_null() || Type::Index(length).is(value), "{what}.{name}: {value}");
    }
}

#[test]
fn a_profile_has_the_fields_that_its_published_types_require() {
    let place = directory("profile");
    let [record, file] = ["r.json", "profile.json"].map(|name| place.join(name));
    let [record, file] = [&record, &file].map(|path| path.to_str().expect("UTF-8"));
    record_orders(&place, record);
    let output = run(&["explain", record, "--firefox", file]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(file).expect("the profile");
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    fields("profile", &profile, &[("meta", Type::Object), ("libs", Type::List)]);
    meta(&profile["meta"]);
    let threads = list(&profile["threads"]);
    assert!(threads.len() >= 12, "{} threads", threads.len());
    let waits: usize = threads.iter().map(|one| thread(one, &profile)).sum();
    assert!(waits > 100, "{waits} waits for the lock of the example");
    assert_eq!(threads.iter().filter(|one| one["isMainThread"] == true).count(), 1, "one process");
    for name in ["initialVisibleThreads", "initialSelectedThreads"] {
        nullable("meta", &profile["meta"], name, threads.len());
    }
}

fn meta(meta: &Value) {
    let number = Type::Number;
    let required = [
        ("interval", number),
        ("startTime", number),
        ("processType", number),
        ("product", Type::Text),
        ("stackwalk", Type::Index(2)),
        ("version", number),
        ("preprocessedProfileVersion", number),
        ("markerSchema", Type::List),
    ];
    fields("meta", meta, &required);
    assert_eq!(meta["preprocessedProfileVersion"], VERSION, "the types above are of another");
    let categories = list(&meta["categories"]);
    for one in categories {
        let required = [("name", Type::Text), ("color", Type::Text), ("subcategories", Type::List)];
        fields("category", one, &required);
        assert!(COLOURS.iter().any(|colour| one["color"] == *colour), "{one}");
        assert_eq!(one["subcategories"][0], "Other");
    }
    assert!(categories.iter().any(|one| one["color"] == "grey"), "the default category");
    for one in list(&meta["markerSchema"]) {
        let required = [("name", Type::Text), ("display", Type::List), ("fields", Type::List)];
        fields("marker schema", one, &required);
        for place in list(&one["display"]) {
            assert!(PLACES.iter().any(|known| place == known), "{place}");
        }
        for field in list(&one["fields"]) {
            fields("field", field, &[("key", Type::Text), ("format", Type::Text)]);
        }
    }
}

/// Checks a thread; returns its waits for locks.
fn thread(thread: &Value, profile: &Value) -> usize {
    let number = Type::Number;
    let required = [
        ("processType", Type::Text),
        ("processStartupTime", number),
        ("processShutdownTime", NUMBER_OR_NULL),
        ("registerTime", number),
        ("unregisterTime", NUMBER_OR_NULL),
        ("pausedRanges", Type::List),
        ("name", Type::Text),
        ("isMainThread", Type::Bool),
        ("pid", Type::Text),
    ];
    fields("thread", thread, &required);
    assert!(thread["tid"].is_string() || thread["tid"].is_number(), "{}", thread["tid"]);
    let texts = list(&thread["stringArray"]).len();
    assert!(list(&thread["stringArray"]).iter().all(Value::is_string));
    let (libs, text) = (list(&profile["libs"]).len(), Type::Index(texts));
    let categories = list(&profile["meta"]["categories"]).len();
    let symbols = [("libIndex", Type::Index(libs)), ("address", number), ("name", text)];
    let symbols = table("nativeSymbols", &thread["nativeSymbols"], &symbols);
    let resources =
        table("resourceTable", &thread["resourceTable"], &[("name", text), ("type", number)]);
    let funcs = &thread["funcTable"];
    let columns = [
        ("name", text),
        ("isJS", Type::Bool),
        ("relevantForJS", Type::Bool),
        ("resource", Type::IndexOrNone(resources)),
        ("lineNumber", NUMBER_OR_NULL),
        ("columnNumber", NUMBER_OR_NULL),
    ];
    let known = table("funcTable", funcs, &columns);
    nullable("funcTable", funcs, "fileName", texts);
    let frames = &thread["frameTable"];
    let columns = [
        ("address", number),
        ("inlineDepth", number),
        ("func", Type::Index(known)),
        ("subcategory", NUMBER_OR_NULL),
        ("innerWindowID", NUMBER_OR_NULL),
        ("line", NUMBER_OR_NULL),
        ("column", NUMBER_OR_NULL),
    ];
    let known = table("frameTable", frames, &columns);
    nullable("frameTable", frames, "category", categories);
    nullable("frameTable", frames, "nativeSymbol", symbols);
    let stacks = &thread["stackTable"];
    let known = table("stackTable", stacks, &[("frame", Type::Index(known))]);
    for (at, prefix) in list(&stacks["prefix"]).iter().enumerate() {
        assert!(prefix.is_null() || Type::Index(at).is(prefix), "a stack before its prefix");
    }
    let samples = &thread["samples"];
    assert!(table("samples", samples, &[("timeDeltas", number), ("weight", number)]) > 0);
    assert_eq!(samples["weightType"], "samples");
    nullable("samples", samples, "stack", known);
    markers(thread, profile)
}

/// Checks the markers of a thread; returns its waits for locks.
fn markers(thread: &Value, profile: &Value) -> usize {
    let markers = &thread["markers"];
    let texts = list(&thread["stringArray"]).len();
    let categories = list(&profile["meta"]["categories"]).len();
    let columns = [
        ("data", OBJECT_OR_NULL),
        ("name", Type::Index(texts)),
        ("startTime", NUMBER_OR_NULL),
        ("endTime", NUMBER_OR_NULL),
        ("phase", Type::Index(4)),
        ("category", Type::Index(categories)),
    ];
    let count = table("markers", markers, &columns);
    for at in 0..count {
        // An interval has both ends, in order.
        if markers["phase"][at] == 1 {
            let [start, end] = ["startTime", "endTime"].map(|name| markers[name][at].as_f64());
            assert!(start.zip(end).is_some_and(|(start, end)| start <= end), "{start:?} {end:?}");
        }
    }
    let schemas = list(&profile["meta"]["markerSchema"]);
    let mut waits = 0;
    for data in list(&markers["data"]).iter().filter(|data| !data.is_null()) {
        let schema = schemas.iter().find(|schema| schema["name"] == data["type"]);
        let schema = schema.unwrap_or_else(|| panic!("no schema of {}", data["type"]));
        for field in list(&schema["fields"]) {
            let value = &data[field["key"].as_str().expect("a key")];
            let is_index = field["format"] == "unique-string";
            assert!(!is_index || value.is_null() || Type::Index(texts).is(value), "{data}");
        }
        waits += usize::from(data["type"] == "LockWait");
    }
    waits
}
