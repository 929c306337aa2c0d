//! The number taken from an execution: time, resource usage, or a number in the output.

use super::process::{Finished, last_line};
use regex_lite::Regex;
use serde_json::Value;
use std::sync::OnceLock;

/// Which number is taken: at most one of `regex` and `json` is there, and comes before `resource`.
#[derive(Clone, Debug, Default)]
pub struct MetricChoice {
    /// A resource counted by the kernel.
    pub resource: Resource,
    /// The last match on standard output, its group 1 if it has one.
    pub regex: Option<String>,
    /// A path into the last JSON document on standard output, such as `jobs.0.real`.
    pub json: Option<String>,
    /// Unit of a number that the command prints.
    pub unit: Option<String>,
}

/// Resources of an execution, counted by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resource {
    /// Time from start to end.
    #[default]
    Wall,
    /// CPU time in user mode.
    User,
    /// CPU time in the kernel.
    System,
    /// CPU time in all.
    Cpu,
    /// Largest resident set.
    Rss,
    /// Context switches.
    Switches,
}

impl Resource {
    /// All resources, with their names.
    pub const NAMES: &'static [(&'static str, Self)] = &[
        ("wall", Self::Wall),
        ("user", Self::User),
        ("system", Self::System),
        ("cpu", Self::Cpu),
        ("rss", Self::Rss),
        ("switches", Self::Switches),
    ];

    /// The resource with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(own, _)| *own == name).map(|(_, resource)| *resource)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, own)| *own == self).expect("all have one").0
    }
}

/// The measured quantity.
#[derive(Clone, Debug)]
pub struct Metric {
    source: Source,
    unit: String,
    /// The unit that the command printed with the first number.
    seen: OnceLock<String>,
}

#[derive(Clone, Debug)]
enum Source {
    Resource(Resource),
    Regex(Regex),
    Json(String),
}

/// Why a successful execution does not have a number.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// The pattern is none.
    #[error("the pattern {0}")]
    Pattern(String),
    /// The command printed no such thing.
    #[error("{wanted} is not in the output; {printed}")]
    Missing {
        /// The expected pattern or path.
        wanted: String,
        /// The output.
        printed: String,
    },
    /// Numbers in two units cannot be compared.
    #[error("{wanted} found a number in {found:?}, but {before:?} {why}; print all in one unit")]
    Unit {
        /// The expected pattern or path.
        wanted: String,
        /// The unit that it has.
        found: String,
        /// The unit that it should have.
        before: String,
        /// Why.
        why: &'static str,
    },
    /// The value is not a number.
    #[error("{wanted} is {found:?}, which is no finite number")]
    NoNumber {
        /// The expected pattern or path.
        wanted: String,
        /// The output.
        found: String,
    },
}

impl MetricChoice {
    /// The metric that it means.
    pub fn metric(&self) -> Result<Metric, MetricError> {
        let source = match (&self.regex, &self.json) {
            (Some(pattern), _) => Source::Regex(Regex::new(pattern).map_err(|error| {
                let text = error.to_string();
                let cause = text.lines().last().unwrap_or_default().trim();
                MetricError::Pattern(format!("{pattern:?}: {cause}"))
            })?),
            (None, Some(path)) => Source::Json(path.clone()),
            (None, None) => Source::Resource(self.resource),
        };
        let unit = match (&self.unit, &source) {
            (Some(unit), _) => unit.clone(),
            (None, Source::Resource(Resource::Rss)) => "bytes".to_owned(),
            (None, Source::Resource(Resource::Switches)) => "switches".to_owned(),
            (None, Source::Resource(_)) => "s".to_owned(),
            (None, _) => String::new(),
        };
        Ok(Metric { source, unit, seen: OnceLock::new() })
    }
}

impl Metric {
    /// The number. It is finite.
    pub fn value(&self, finished: &Finished) -> Result<f64, MetricError> {
        let usage = finished.usage;
        match &self.source {
            Source::Resource(Resource::Wall) => Ok(finished.wall.as_secs_f64()),
            Source::Resource(Resource::User) => Ok(usage.user.as_secs_f64()),
            Source::Resource(Resource::System) => Ok(usage.system.as_secs_f64()),
            Source::Resource(Resource::Cpu) => Ok((usage.user + usage.system).as_secs_f64()),
            Source::Resource(Resource::Rss) => Ok(usage.max_resident_bytes as f64),
            Source::Resource(Resource::Switches) => Ok(usage.switches as f64),
            Source::Regex(regex) => self.in_one_unit(by_regex(regex, &finished.stdout)?),
            Source::Json(path) => self.in_one_unit(by_path(path, &finished.stdout)?),
        }
    }

    /// Returns a printed number if its unit equals the requested one and the unit of the previous
    /// numbers.
    fn in_one_unit(&self, Printed { wanted, number, unit }: Printed) -> Result<f64, MetricError> {
        let Some(found) = unit else { return Ok(number) };
        let other = |before: &str, why| {
            let before = before.to_owned();
            Err(MetricError::Unit { wanted, found: found.clone(), before, why })
        };
        if known(&self.unit) && self.unit != found {
            return other(&self.unit, "is the unit that was named");
        }
        let before = self.seen.get_or_init(|| found.clone());
        if *before == found { Ok(number) } else { other(before, "was printed before") }
    }

    /// Returns the name of the metric.
    pub fn name(&self) -> String {
        match &self.source {
            Source::Resource(Resource::Wall) => "wall time".to_owned(),
            Source::Resource(Resource::User) => "user time".to_owned(),
            Source::Resource(Resource::System) => "system time".to_owned(),
            Source::Resource(Resource::Cpu) => "CPU time".to_owned(),
            Source::Resource(Resource::Rss) => "resident set".to_owned(),
            Source::Resource(Resource::Switches) => "context switches".to_owned(),
            Source::Regex(regex) => format!("/{regex}/"),
            Source::Json(path) => path.clone(),
        }
    }

    /// Returns its unit; empty if unknown.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Whether the wall time is the number: then a time limit is a bound on it.
    pub fn is_wall(&self) -> bool {
        matches!(self.source, Source::Resource(Resource::Wall))
    }
}

/// A number that the command printed.
struct Printed {
    wanted: String,
    number: f64,
    /// The unit printed with it, if any.
    unit: Option<String>,
}

/// Units that are taken for one where they follow a number; other words may mean anything.
const UNITS: [&str; 24] = [
    "ns", "us", "µs", "ms", "s", "sec", "secs", "seconds", "min", "B", "kB", "KB", "KiB", "MB",
    "MiB", "GB", "GiB", "B/s", "kB/s", "MB/s", "MiB/s", "GB/s", "GiB/s", "%",
];

fn known(unit: &str) -> bool {
    UNITS.contains(&unit)
}

/// The number that a text is, and the unit that follows it.
fn quantity(text: &str) -> Option<(f64, Option<&str>)> {
    let text = text.trim();
    let begin = text.trim_end_matches(|c: char| c.is_alphabetic() || "%/".contains(c));
    let unit = &text[begin.len()..];
    match finite(text) {
        Some(number) => Some((number, None)),
        None if known(unit) => Some((finite(begin)?, Some(unit))),
        None => None,
    }
}

/// The unit that begins a text, directly or after a blank.
fn unit_after(text: &str) -> Option<&str> {
    let text = text.strip_prefix(' ').unwrap_or(text);
    let word = text.split(|c: char| !(c.is_alphabetic() || "%/".contains(c))).next()?;
    known(word).then_some(word)
}

fn by_regex(regex: &Regex, output: &[u8]) -> Result<Printed, MetricError> {
    let text = String::from_utf8_lossy(output);
    let wanted = format!("the pattern {:?}", regex.as_str());
    let last = regex.captures_iter(&text).last();
    let found = last.and_then(|last| last.get(1).or_else(|| last.get(0)));
    let found = found.ok_or_else(|| missing(wanted.clone(), output))?;
    match quantity(found.as_str()) {
        Some((number, unit)) => {
            let unit = unit.or_else(|| unit_after(&text[found.end()..])).map(str::to_owned);
            Ok(Printed { wanted, number, unit })
        }
        None => Err(MetricError::NoNumber { wanted, found: found.as_str().trim().to_owned() }),
    }
}

fn by_path(path: &str, output: &[u8]) -> Result<Printed, MetricError> {
    let wanted = format!("the path {path}");
    let document = last_document(output).ok_or_else(|| {
        let printed = printed(output);
        MetricError::Missing { wanted: format!("a JSON document for {wanted}"), printed }
    })?;
    let found = step_down(&document, path).ok_or_else(|| missing(wanted.clone(), output))?;
    let number = match found {
        Value::Number(number) => number.as_f64().filter(|number| number.is_finite()),
        Value::String(text) => quantity(text).map(|(number, _)| number),
        _ => None,
    };
    let number = number.ok_or_else(|| {
        let text: String = found.to_string().chars().take(80).collect();
        MetricError::NoNumber { wanted: wanted.clone(), found: text }
    })?;
    let own = found.as_str().and_then(quantity).and_then(|(_, unit)| unit);
    let unit = own.or_else(|| beside(&document, path)).map(str::to_owned);
    Ok(Printed { wanted, number, unit })
}

/// Returns the unit in the number's object, as `unit` or `time_unit`.
fn beside<'a>(document: &'a Value, path: &str) -> Option<&'a str> {
    let separator = if path.starts_with('/') { '/' } else { '.' };
    let object = match path.rsplit_once(separator) {
        Some((parent, _)) if !parent.is_empty() => step_down(document, parent)?,
        _ => document,
    };
    ["unit", "time_unit"].iter().find_map(|key| object.get(key)?.as_str())
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn missing(wanted: String, output: &[u8]) -> MetricError {
    MetricError::Missing { wanted, printed: printed(output) }
}

fn printed(output: &[u8]) -> String {
    let line = last_line(output);
    line.map_or("the command printed nothing".into(), |line| format!("it ends with: {line}"))
}

/// `points.0.jobs` or `/points/0/jobs`: keys of objects and indices of arrays.
fn step_down<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    if path.starts_with('/') {
        return document.pointer(path);
    }
    // A key that holds a dot is found as a whole first.
    document.get(path).or_else(|| {
        path.split('.').filter(|key| !key.is_empty()).try_fold(document, |value, key| match value {
            Value::Array(array) => array.get(key.parse::<usize>().ok()?),
            _ => value.get(key),
        })
    })
}

/// Returns the last JSON object or array that starts a line; other text is ignored.
fn last_document(output: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(output);
    let mut rest = text.as_ref();
    let mut last = None;
    while !rest.is_empty() {
        let begin = rest.trim_start();
        let mut stream = serde_json::Deserializer::from_str(begin).into_iter::<Value>();
        let is_document = begin.starts_with(['{', '[']);
        if let Some(Ok(value)) = is_document.then(|| stream.next()).flatten() {
            last = Some(value);
            rest = &begin[stream.byte_offset()..];
        } else {
            rest = begin.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ending;
    use convoy_os::ChildUsage;
    use convoy_os::Disturbance;
    use std::time::Duration;

    fn printed(text: &str) -> Finished {
        Finished {
            ending: Ending::Code(0),
            wall: Duration::from_millis(1500),
            usage: ChildUsage { max_resident_bytes: 4096, ..ChildUsage::default() },
            disturbance: Disturbance::default(),
            stdout: text.into(),
            stderr: Vec::new(),
        }
    }

    fn regex(pattern: &str, text: &str) -> Result<f64, MetricError> {
        let args = MetricChoice { regex: Some(pattern.to_owned()), ..MetricChoice::default() };
        args.metric()?.value(&printed(text))
    }

    fn json(path: &str, text: &str) -> Result<f64, MetricError> {
        let args = MetricChoice { json: Some(path.to_owned()), ..MetricChoice::default() };
        args.metric()?.value(&printed(text))
    }

    #[test]
    fn a_pattern_takes_the_last_match() {
        assert_eq!(regex(r"ops: (\S+)", "ops: 1\nops: 2.5e3 \n"), Ok(2500.0));
        assert_eq!(regex(r"[0-9.]+", "a 1 b 2"), Ok(2.0));
        let error = regex(r"ops: (\S+)", "none\n\nhere\n").expect_err("no match");
        assert!(error.to_string().ends_with("it ends with: here"), "{error}");
        let error = regex(r"ops: (\S+)", "ops: NaN").expect_err("no number");
        assert!(error.to_string().contains("\"NaN\", which is no finite"), "{error}");
        let error = regex("(", "").expect_err("no pattern");
        assert!(error.to_string().contains("open group without closing"), "{error}");
    }

    #[test]
    fn a_path_goes_into_the_last_document() {
        let text = "{\"a\": 1}\nnoise {\n{\n \"a\": {\"b\": [1, {\"c\": 7.5}]}\n}\nend\n";
        assert_eq!(json("a.b.1.c", text), Ok(7.5));
        assert_eq!(json("/a/b/0", text), Ok(1.0));
        assert_eq!(json("a.b", "{\"a.b\": \"12\"}"), Ok(12.0));
        assert_eq!(json("1", "[1, 2]"), Ok(2.0));
        let error = json("a.x", text).expect_err("not there").to_string();
        assert!(error.contains("a.x is not in the output; it ends with: end"), "{error}");
        let error = json("a", "{\"a\": null}").expect_err("null").to_string();
        assert!(error.contains("\"null\""), "{error}");
        let error = json("a", "").expect_err("nothing").to_string();
        assert!(error.contains("JSON document") && error.contains("nothing"), "{error}");
    }

    #[test]
    fn numbers_in_two_units_are_refused() {
        fn pattern(pattern: &str) -> MetricChoice {
            MetricChoice { regex: Some(pattern.to_owned()), ..MetricChoice::default() }
        }
        let both = |args: MetricChoice, first: &str, second: &str| {
            let metric = args.metric().expect("a metric");
            metric.value(&printed(first)).and_then(|_| metric.value(&printed(second)))
        };
        let path =
            |path: &str| MetricChoice { json: Some(path.to_owned()), ..MetricChoice::default() };
        for (args, first, second) in [
            (pattern(r"took (\S+)"), "took 980ms", "took 1.2s"),
            (pattern(r"took ([0-9.]+)"), "took 980 ms.", "took 1.2 s in all"),
            (path("time"), r#"{"time": "980 ms"}"#, r#"{"time": "1.2 s"}"#),
            (
                path("b.0.t"),
                r#"{"b": [{"t": 1, "unit": "ms"}]}"#,
                r#"{"b": [{"t": 1, "unit": "s"}]}"#,
            ),
            (MetricChoice { unit: Some("ms".to_owned()), ..pattern(r"(\S+)$") }, "1ms", "1.2s"),
        ] {
            assert!(both(args.clone(), first, first).is_ok(), "{first}");
            let error = both(args, first, second).expect_err(second).to_string();
            assert!(error.contains("\"s\"") && error.contains("\"ms\""), "{error}");
            assert!(error.ends_with("print all in one unit"), "{error}");
        }
        // Words that are no units, and units that only come now and then.
        assert_eq!(both(pattern("[0-9]+"), "12 runs", "13 jobs"), Ok(13.0));
        assert_eq!(both(pattern("[0-9]+"), "12 ms", "13"), Ok(13.0));
        assert_eq!(regex(r"^(\S+)", "5 apples"), Ok(5.0));
        assert!(regex(r"^(\S+)", "5apples").is_err());
    }

    #[test]
    fn resources_have_units() {
        let wall = MetricChoice::default().metric().expect("wall");
        assert_eq!(wall.value(&printed("")), Ok(1.5));
        assert_eq!((wall.name().as_str(), wall.unit()), ("wall time", "s"));
        let rss = MetricChoice { resource: Resource::Rss, ..MetricChoice::default() };
        let rss = rss.metric().expect("rss");
        assert_eq!((rss.value(&printed("")), rss.unit()), (Ok(4096.0), "bytes"));
    }
}
