//! The number taken from an execution: time, resource usage, or what the command printed.

use super::process::{Finished, last_line};
use clap::{Args, ValueEnum};
use regex::Regex;
use serde_json::Value;

/// Flags that choose the metric.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MetricArgs {
    /// What is measured: wall, user, system, cpu (s), rss (bytes) or switches
    #[arg(long, value_enum, default_value = "wall", value_name = "NAME")]
    pub(crate) metric: Resource,
    /// Take the last number that this pattern finds on standard output: its first group, or all of
    /// it
    #[arg(long, value_name = "RE", conflicts_with = "metric")]
    pub(crate) metric_regex: Option<String>,
    /// Take a number of the last JSON document on standard output, for example jobs.0.real
    #[arg(long, value_name = "PATH", conflicts_with_all = ["metric", "metric_regex"])]
    pub(crate) metric_json: Option<String>,
    /// Unit of a number that the command prints, for tables and plots
    #[arg(long, value_name = "UNIT")]
    pub(crate) unit: Option<String>,
}

/// What the kernel knows about an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resource {
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

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    source: Source,
    unit: String,
}

#[derive(Clone, Debug)]
enum Source {
    Resource(Resource),
    Regex(Regex),
    Json(String),
}

/// Why an execution that ended well has no number.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetricError {
    /// The pattern is none.
    #[error("--metric-regex {0}")]
    Pattern(String),
    /// The command printed no such thing.
    #[error("{wanted} is not in the output; {printed}")]
    Missing { wanted: String, printed: String },
    /// What is there is no number.
    #[error("{wanted} is {found:?}, which is no finite number")]
    NoNumber { wanted: String, found: String },
}

impl MetricArgs {
    /// The metric that the flags mean.
    pub(crate) fn metric(&self) -> Result<Metric, MetricError> {
        let source = match (&self.metric_regex, &self.metric_json) {
            (Some(pattern), _) => Source::Regex(Regex::new(pattern).map_err(|error| {
                let text = error.to_string();
                let cause = text.lines().last().unwrap_or_default().trim();
                MetricError::Pattern(format!("{pattern:?}: {cause}"))
            })?),
            (None, Some(path)) => Source::Json(path.clone()),
            (None, None) => Source::Resource(self.metric),
        };
        let unit = match (&self.unit, &source) {
            (Some(unit), _) => unit.clone(),
            (None, Source::Resource(Resource::Rss)) => "bytes".to_owned(),
            (None, Source::Resource(Resource::Switches)) => "switches".to_owned(),
            (None, Source::Resource(_)) => "s".to_owned(),
            (None, _) => String::new(),
        };
        Ok(Metric { source, unit })
    }
}

impl Metric {
    /// The number. It is finite.
    pub(crate) fn value(&self, finished: &Finished) -> Result<f64, MetricError> {
        let usage = finished.usage;
        match &self.source {
            Source::Resource(Resource::Wall) => Ok(finished.wall.as_secs_f64()),
            Source::Resource(Resource::User) => Ok(usage.user.as_secs_f64()),
            Source::Resource(Resource::System) => Ok(usage.system.as_secs_f64()),
            Source::Resource(Resource::Cpu) => Ok((usage.user + usage.system).as_secs_f64()),
            Source::Resource(Resource::Rss) => Ok(usage.max_resident_bytes as f64),
            Source::Resource(Resource::Switches) => Ok(usage.switches as f64),
            Source::Regex(regex) => by_regex(regex, &finished.stdout),
            Source::Json(path) => by_path(path, &finished.stdout),
        }
    }

    /// What is measured, in a word or two.
    pub(crate) fn name(&self) -> String {
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

    /// Its unit; empty if nobody said it.
    pub(crate) fn unit(&self) -> &str {
        &self.unit
    }

    /// Whether the wall time is the number: then a time limit is a bound on it.
    pub(crate) fn is_wall(&self) -> bool {
        matches!(self.source, Source::Resource(Resource::Wall))
    }
}

fn by_regex(regex: &Regex, output: &[u8]) -> Result<f64, MetricError> {
    let text = String::from_utf8_lossy(output);
    let wanted = format!("--metric-regex {:?}", regex.as_str());
    let last = regex.captures_iter(&text).last();
    let found = last.and_then(|last| last.get(1).or_else(|| last.get(0)));
    let found = found.ok_or_else(|| missing(wanted.clone(), output))?.as_str().trim();
    finite(found).ok_or(MetricError::NoNumber { wanted, found: found.to_owned() })
}

fn by_path(path: &str, output: &[u8]) -> Result<f64, MetricError> {
    let wanted = format!("--metric-json {path}");
    let document = last_document(output).ok_or_else(|| {
        let printed = printed(output);
        MetricError::Missing { wanted: format!("a JSON document for {wanted}"), printed }
    })?;
    let found = step_down(&document, path).ok_or_else(|| missing(wanted.clone(), output))?;
    let number = match found {
        Value::Number(number) => number.as_f64().filter(|number| number.is_finite()),
        Value::String(text) => finite(text),
        _ => None,
    };
    number.ok_or_else(|| {
        let text: String = found.to_string().chars().take(80).collect();
        MetricError::NoNumber { wanted, found: text }
    })
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

/// The last JSON object or array that begins a line; what stands around it does not matter.
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
    use crate::measure::Ending;
    use convoy_load::host::ChildUsage;
    use std::time::Duration;

    fn printed(text: &str) -> Finished {
        Finished {
            ending: Ending::Code(0),
            wall: Duration::from_millis(1500),
            usage: ChildUsage { max_resident_bytes: 4096, ..ChildUsage::default() },
            stdout: text.into(),
            stderr: Vec::new(),
        }
    }

    fn regex(pattern: &str, text: &str) -> Result<f64, MetricError> {
        let args = MetricArgs { metric_regex: Some(pattern.to_owned()), ..MetricArgs::default() };
        args.metric()?.value(&printed(text))
    }

    fn json(path: &str, text: &str) -> Result<f64, MetricError> {
        let args = MetricArgs { metric_json: Some(path.to_owned()), ..MetricArgs::default() };
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
        assert!(error.to_string().contains("unclosed group"), "{error}");
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
    fn resources_have_units() {
        let wall = MetricArgs::default().metric().expect("wall");
        assert_eq!(wall.value(&printed("")), Ok(1.5));
        assert_eq!((wall.name().as_str(), wall.unit()), ("wall time", "s"));
        let rss = MetricArgs { metric: Resource::Rss, ..MetricArgs::default() };
        let rss = rss.metric().expect("rss");
        assert_eq!((rss.value(&printed("")), rss.unit()), (Ok(4096.0), "bytes"));
    }
}
