//! Settings that must be equal for records to be comparable: comparing loads of different sizes or
//! jobs needs an explicit flag.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use serde_json::Value;

use super::series::{Settings, Side};

/// The settings that may be asked for to differ.
pub const NAMES: [&str; 11] = [
    "dialect",
    "file-system",
    "jobs",
    "machine",
    "mix",
    "shell-sleep",
    "shrink",
    "sizes",
    "start-delay",
    "sync",
    "users",
];

/// A setting that two sides have differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting, one of [`NAMES`].
    pub name: String,
    /// The sides and what each has.
    pub sides: [(String, String); 2],
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(one, first), (other, second)] = &self.sides;
        write!(f, "{} ({one}: {first}; {other}: {second})", self.name)
    }
}

/// Returns the differences between `sides`: for each setting, the first side that has it and the
/// first with a different value.
pub fn differing(sides: &[Side]) -> Vec<Difference> {
    let told = |name: &str| {
        let mut told = sides.iter().filter_map(|side| Some((side, side.settings.get(name)?)));
        let (one, first) = told.next()?;
        let (other, second) = told.find(|(_, value)| *value != first)?;
        let pair = |side: &Side, value: &String| (side.label.clone(), value.clone());
        Some(Difference { name: name.to_owned(), sides: [pair(one, first), pair(other, second)] })
    };
    NAMES.iter().filter_map(|name| told(name)).collect()
}

/// Returns the settings of a record of `convoy run`; older records do not contain all.
pub(super) fn of_run(record: &Value) -> Settings {
    let text = |name: &str| Some(record.get(name)?.as_str()?.to_owned());
    let number = |name: &str| Some(record.get(name)?.as_f64()?.to_string());
    let flag = |name: &str| {
        let own = record.get("schema").is_some();
        own.then(|| record.get(name).is_some_and(|value| value == true).to_string())
    };
    let users = || {
        let points = record.get("points")?.as_array()?;
        Some(list(points.iter().filter_map(|point| point.get("users")?.as_u64())))
    };
    let machine = || {
        let host = record.get("host")?;
        Some(format!("{}, {} CPUs", host.get("cpu")?.as_str()?, host.get("cpus")?.as_u64()?))
    };
    let told = [
        ("dialect", text("dialect")),
        ("jobs", number("jobs_per_user")),
        ("machine", machine()),
        ("mix", text("mix")),
        ("shell-sleep", flag("shell_sleep")),
        ("shrink", number("shrink")),
        ("sizes", record.get("sizes").and_then(sizes)),
        ("start-delay", number("start_delay_s")),
        ("sync", flag("sync")),
        ("users", users()),
    ];
    told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The sizes of a mix as text.
pub fn sizes(value: &Value) -> Option<String> {
    let (file, pool) = (value.get("file_kb")?.as_u64()?, value.get("pool_kb")?.as_u64()?);
    Some(format!("{file} KB and a pool of {pool} KB"))
}

/// Each value once, in order.
pub fn words<T: Display>(values: impl Iterator<Item = T>) -> String {
    let once: BTreeSet<String> = values.map(|value| value.to_string()).collect();
    once.into_iter().collect::<Vec<_>>().join(" + ")
}

/// Each number once, in order.
pub fn list(values: impl Iterator<Item = u64>) -> String {
    let once: BTreeSet<u64> = values.collect();
    once.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn side(label: &str, record: &Value) -> Side {
        Side { label: label.to_owned(), settings: of_run(record), ..Side::default() }
    }

    #[test]
    fn what_records_have_differently_is_named_with_both_values() {
        let one = json!({
            "schema": 1, "mix": "shared", "dialect": "1996", "shrink": 1, "sync": true,
            "sizes": { "file_kb": 10, "pool_kb": 1024 },
            "host": { "cpu": "x", "cpus": 2, "kernel": "6.1" }, "points": [{ "users": 2 }],
        });
        let mut two = one.clone();
        (two["dialect"], two["host"]["kernel"]) = (json!("re-aim"), json!("6.2"));
        two["points"] = json!([{ "users": 2 }, { "users": 10 }]);
        let found = differing(&[side("a", &one), side("b", &two)]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["dialect (a: 1996; b: re-aim)", "users (a: 2; b: 2,10)"]);
    }

    #[test]
    fn what_a_record_does_not_tell_differs_from_nothing() {
        let new = json!({ "schema": 1, "mix": "shared", "sizes": { "file_kb": 1, "pool_kb": 2 } });
        let csv = json!({});
        assert!(differing(&[side("a", &new), side("b", &csv)]).is_empty());
        let old = json!({ "schema": 1, "mix": "shared", "shrink": 10 });
        assert!(differing(&[side("a", &new), side("b", &csv), side("c", &old)]).is_empty());
    }
}
