//! What `jfr print --events jdk.JavaMonitorEnter,jdk.ThreadPark` says of a Java flight recording:
//! one event after the other, each with its stack.

use super::{Refused, Waits, number};
use crate::record::{Kind, Times};

/// Events that are waits for locks, and what is waited for.
const EVENTS: [&str; 2] = ["jdk.JavaMonitorEnter {", "jdk.ThreadPark {"];

/// Whether a line begins an event.
pub(super) fn is_event(line: &str) -> bool {
    EVENTS.contains(&line.trim())
}

/// An event that is being read.
#[derive(Default)]
struct Event {
    line: usize,
    seconds: f64,
    class: String,
    frames: Vec<String>,
    in_stack: bool,
    is_monitor: bool,
}

pub(super) fn read(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    let mut event: Option<Event> = None;
    for (index, line) in text.lines().enumerate() {
        let words = line.trim();
        if is_event(line) {
            let is_monitor = words.starts_with("jdk.JavaMonitorEnter");
            event = Some(Event { line: index + 1, is_monitor, ..Event::default() });
        } else if let Some(mut open) = event.take() {
            if words == "}" {
                open.end(waits)?;
                continue;
            }
            open.field(words).map_err(|reason| (index + 1, reason))?;
            event = Some(open);
        } else if !words.is_empty() && words != "}" {
            waits.pass_over(index + 1);
        }
    }
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
            Some(("monitorClass" | "parkedClass", value)) => {
                value.split(" (").next().unwrap_or(value).clone_into(&mut self.class);
            }
            Some(("stackTrace", _)) => self.in_stack = true,
            _ => {}
        }
        Ok(())
    }

    fn end(self, waits: &mut Waits) -> Result<(), Refused> {
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
        // A thread that waits for work parks, too.
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
        let site = waits.site(&name, kind, place, act);
        site.count += 1;
        site.contended += u64::from(is_lock);
        site.wait.add(&Times::one(self.seconds));
        Ok(())
    }
}

/// `Broker.serversToIgnore (5)` of `Broker.serversToIgnore() line: 5`.
fn frame(line: &str) -> String {
    let name = line.split('(').next().unwrap_or(line).trim();
    match line.split_once("line: ").and_then(|(_, rest)| rest.split_whitespace().next()) {
        Some(number) => format!("{name} (line {number})"),
        None => name.to_owned(),
    }
}

/// A length of time such as `12.3 ms`.
fn seconds(text: &str) -> Result<f64, String> {
    let (value, unit) = text.trim().split_once(' ').unwrap_or((text, "s"));
    let scale = match unit.trim() {
        "ns" => 1e-9,
        "us" | "\u{3bc}s" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("`{unit}` is no unit of time; expected ns, us, ms, s, m or h")),
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
    }
}
