//! Output of `jfr print --events jdk.JavaMonitorEnter,jdk.ThreadPark` for a Java flight recording,
//! as text or with `--json`: one event after the other, each with its stack.

use std::collections::{BTreeMap, BTreeSet};

use super::flight::{Class, Frame, Method, Printed};
use super::waits::{Refused, Waits, number};
use crate::record::origin::Origin;
use crate::record::{Kind, Times, total};

/// First lines of the events that are waits for locks.
const EVENTS: [&str; 2] = ["jdk.JavaMonitorEnter {", "jdk.ThreadPark {"];

/// The class of the monitors of static methods and of `synchronized (A.class)`.
const CLASS: &str = "java.lang.Class";

pub(super) fn is_event(line: &str) -> bool {
    EVENTS.contains(&line.trim())
}

/// Returns whether a line begins a recording in JSON.
pub(super) fn is_json(line: &str) -> bool {
    line.trim_start_matches(['{', ' ']).starts_with("\"recording\":")
}

/// The name of a lock, its kind and origin, a place and the operation there.
type Place = (String, (Kind, Origin), String, &'static str);

/// The events of all threads: when they happened, and which threads waited where.
#[derive(Default)]
struct Events {
    begin_s: Option<f64>,
    end_s: f64,
    /// Threads by lock, kind, place and operation.
    threads: BTreeMap<Place, BTreeSet<String>>,
}

impl Events {
    /// Stores the results that are known only after the last event.
    fn finish(self, waits: &mut Waits) {
        waits.seconds = self.begin_s.map_or(0.0, |begin_s| self.end_s - begin_s);
        waits.threads = total(self.threads.values().map(|threads| threads.len() as u64));
        for ((name, kind, place, act), threads) in self.threads {
            waits.site(&name, kind, &place, act).threads = threads.len() as u64;
        }
    }

    /// Records that an event began at this time of the day and took this long, both in seconds.
    fn happened(&mut self, at_s: f64, took_s: f64) {
        const DAY_S: f64 = 86_400.0;
        let begin_s = *self.begin_s.get_or_insert(at_s);
        // Events are sorted by their ends, or continue past midnight.
        let at_s = if at_s < begin_s - DAY_S / 2.0 { at_s + DAY_S } else { at_s };
        self.begin_s = Some(begin_s.min(at_s));
        self.end_s = self.end_s.max(at_s + took_s);
    }
}

/// An event that is being read.
#[derive(Default)]
struct Event {
    line: usize,
    thread: String,
    at_s: Option<f64>,
    seconds: f64,
    class: String,
    frames: Vec<String>,
    in_stack: bool,
    is_monitor: bool,
}

pub(super) fn read(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    let (mut event, mut all): (Option<Event>, _) = (None, Events::default());
    for (index, line) in text.lines().enumerate() {
        let words = line.trim();
        if is_event(line) {
            let is_monitor = words.starts_with("jdk.JavaMonitorEnter");
            event = Some(Event { line: index + 1, is_monitor, ..Event::default() });
        } else if let Some(mut open) = event.take() {
            if words == "}" {
                open.end(waits, &mut all)?;
                continue;
            }
            open.field(words).map_err(|reason| (index + 1, reason))?;
            event = Some(open);
        } else if !words.is_empty() && words != "}" {
            waits.pass_over(index + 1);
        }
    }
    all.finish(waits);
    Ok(())
}

/// Reads a recording in JSON. An invalid event is refused with its number, invalid JSON with its
/// line.
pub(super) fn read_json(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    let wrong = |error: serde_json::Error| (error.line(), error.to_string());
    read_printed(serde_json::from_str(text).map_err(wrong)?, waits)
}

/// Reads a recording that `jfr` has printed.
pub(super) fn read_printed(printed: Printed, waits: &mut Waits) -> Result<(), Refused> {
    let mut all = Events::default();
    for (index, event) in printed.recording.events.into_iter().enumerate() {
        let kind = event.kind.as_str();
        if !EVENTS.iter().any(|known| known.strip_suffix(" {") == Some(kind)) {
            waits.pass_over(index + 1);
            continue;
        }
        let is_monitor = kind == "jdk.JavaMonitorEnter";
        let values = event.values;
        let class = if is_monitor { values.monitor_class } else { values.parked_class };
        let class = class.as_ref().map(Class::name).unwrap_or_default();
        let frames = values.stack_trace.and_then(|stack| stack.frames).unwrap_or_default();
        let first = frames.first().and_then(|frame| frame.method.as_ref());
        let of_class = first.filter(|_| is_monitor && class == CLASS).and_then(Method::locks_class);
        let at = values.start_time.as_deref().and_then(|time| time.split_once('T'));
        let took = values.duration.unwrap_or_default();
        let thread = values.event_thread.and_then(|thread| thread.os_thread_id);
        let event = Event {
            line: index + 1,
            thread: thread.map_or_else(String::new, |thread| thread.to_string()),
            at_s: at.and_then(|(_, time)| of_day(time)),
            seconds: iso_seconds(&took)
                .ok_or_else(|| (index + 1, format!("`{took}` is not a time")))?,
            class: of_class.unwrap_or(class),
            frames: frames.iter().map(Frame::place).collect(),
            in_stack: false,
            is_monitor,
        };
        event.end(waits, &mut all)?;
    }
    all.finish(waits);
    Ok(())
}

impl Event {
    fn field(&mut self, line: &str) -> Result<(), String> {
        if self.in_stack {
            if line == "]" {
                self.in_stack = false;
            } else if line != "..." {
                self.frames.push(frame(line));
            }
            return Ok(());
        }
        match line.split_once(" = ") {
            Some(("duration", value)) => self.seconds = seconds(value)?,
            Some(("startTime", value)) => self.at_s = of_day(value),
            Some(("eventThread", value)) => value.clone_into(&mut self.thread),
            Some(("monitorClass" | "parkedClass", value)) => {
                value.split(" (").next().unwrap_or(value).clone_into(&mut self.class);
            }
            Some(("stackTrace", _)) => self.in_stack = true,
            _ => {}
        }
        Ok(())
    }

    fn end(self, waits: &mut Waits, all: &mut Events) -> Result<(), Refused> {
        if self.frames.is_empty() && self.class.is_empty() {
            return Err((self.line, "an event has no class and no stack".to_owned()));
        }
        let is_own = |frame: &&String| {
            ["java.util.concurrent.", "jdk.internal.", "sun."]
                .iter()
                .any(|own| frame.starts_with(own))
        };
        let place = self.frames.iter().find(|frame| !is_own(frame)).or(self.frames.first());
        let place = place.map_or("a place without a stack", String::as_str);
        // A thread that waits for work also parks.
        let is_lock = self.is_monitor
            || self.frames.iter().any(|frame| {
                let is_sync = frame.contains("AbstractQueuedSynchronizer.acquire");
                is_sync || frame.contains("ReentrantLock.lock") || frame.contains("StampedLock")
            });
        let (kind, act) = if is_lock { (Kind::Mutex, "lock") } else { (Kind::Condition, "wait") };
        let name = if self.is_monitor {
            format!("monitor of {}", self.class)
        } else {
            format!("{} in {place}", self.class)
        };
        let origin = if self.is_monitor { Origin::JavaMonitor } else { Origin::JavaLock };
        let site = waits.site(&name, (kind, origin), place, act);
        site.count += 1;
        site.contended += u64::from(is_lock);
        site.wait.add(&Times::one(self.seconds));
        if let Some(at_s) = self.at_s {
            all.happened(at_s, self.seconds);
        }
        let key = (name, (kind, origin), place.to_owned(), act);
        all.threads.entry(key).or_default().insert(self.thread);
        Ok(())
    }
}

/// Returns the seconds of the day for a time such as `14:22:21.889`, with or without a letter for
/// the time zone.
fn of_day(text: &str) -> Option<f64> {
    let end = text.find(|one: char| !one.is_ascii_digit() && one != ':' && one != '.');
    let mut parts = text[..end.unwrap_or(text.len())].split(':');
    let mut next = || parts.next()?.parse::<f64>().ok();
    Some(3600.0 * next()? + 60.0 * next()? + next()?)
}

/// Returns the seconds of a duration such as `PT0.0838S` or `PT1M2.5S`.
fn iso_seconds(text: &str) -> Option<f64> {
    let mut sum = 0.0;
    let mut rest = text.strip_prefix("PT")?;
    while let Some(at) = rest.find(['H', 'M', 'S']) {
        let scale = match rest.as_bytes()[at] {
            b'H' => 3600.0,
            b'M' => 60.0,
            _ => 1.0,
        };
        sum += scale * number(&rest[..at], "time").ok()?;
        rest = &rest[at + 1..];
    }
    rest.is_empty().then_some(sum)
}

/// Returns `Broker.serversToIgnore (line 5)` for `Broker.serversToIgnore() line: 5`.
fn frame(line: &str) -> String {
    let name = line.split('(').next().unwrap_or(line).trim();
    match line.split_once("line: ").and_then(|(_, rest)| rest.split_whitespace().next()) {
        Some(number) => format!("{name} (line {number})"),
        None => name.to_owned(),
    }
}

/// Returns the seconds of a duration such as `12.3 ms`.
fn seconds(text: &str) -> Result<f64, String> {
    let (value, unit) = text.trim().split_once(' ').unwrap_or((text, "s"));
    let scale = match unit.trim() {
        "ns" => 1e-9,
        "us" | "\u{3bc}s" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => {
            return Err(format!("`{unit}` is not a unit of time; expected ns, us, ms, s, m or h"));
        }
    };
    Ok(number(value, "time")? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_times_are_read() {
        assert_eq!(frame("Broker.serversToIgnore() line: 5"), "Broker.serversToIgnore (line 5)");
        assert!(seconds("12.5 ms").is_ok_and(|value| (value - 0.0125).abs() < 1e-12));
        assert!(seconds("3 parsecs").is_err());
        assert_eq!(iso_seconds("PT1M2.5S"), Some(62.5));
        assert_eq!(iso_seconds("PT2"), None);
        assert_eq!(of_day("01:00:02.5Z"), Some(3602.5));
    }
}
