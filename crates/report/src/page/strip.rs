//! The strip of a page: threads over time, from the lanes of a record.

use convoy_explain::{Act, Lanes};
use serde_json::{Value, json};

use super::Block;
use crate::format::duration;

/// Most spans of a page: more would make it larger than a mail can be.
const MOST: usize = 100_000;

impl Block {
    /// What tasks of a simulated run did around its longest convoy.
    pub(super) fn simulated(lanes: Lanes) -> Self {
        let note = "Tasks by their process numbers, all steps of them; the bars on top are the \
                    mean number of tasks that waited for a lock.";
        Self::drawn(lanes, "tasks waiting", vec![note.to_owned()])
    }

    /// The activity of threads over time; a sentence if a record has no times.
    pub(super) fn strip(lanes: Lanes) -> Self {
        if lanes.is_empty() {
            return Self::text(
                "This record does not say when threads waited: no wait or step of a thread was \
                 recorded with its time.",
            );
        }
        let note = "Threads are recorded step by step in windows of the run, and by a sample of \
                    their waits in all of it. Nothing was recorded where a row is blank. A \
                    critical section is drawn if both its beginning and its end were recorded; a \
                    context switch took place at some moment of the time that is drawn for it. \
                    The bars at the top show all waits, each where it ended.";
        Self::drawn(lanes, "", vec![note.to_owned()])
    }

    fn drawn(mut lanes: Lanes, bars: &str, notes: Vec<String>) -> Self {
        lanes.thin(MOST);
        let unit = unit_ns(lanes.seconds);
        let several = lanes.threads.windows(2).any(|two| two[0].pid != two[1].pid);
        let rows = lanes.threads.iter().map(|lane| {
            let is_alone = |other: &&convoy_explain::Lane| other.name == lane.name;
            let thread = match lanes.threads.iter().filter(is_alone).nth(1) {
                None if !lane.name.is_empty() => lane.name.clone(),
                _ => lane.label(),
            };
            let name = if several { format!("{} / {thread}", lane.pid) } else { thread };
            // Four numbers each: from the end of the span before, length, act, tag.
            let mut last = 0;
            let spans = lane.spans.iter().flat_map(|span| {
                let [begin, end] = [span.begin_ns, span.end_ns()].map(|ns| ns / unit);
                let gap = begin.saturating_sub(last);
                last = end.max(begin);
                let act = Act::ALL.iter().position(|act| *act == span.act).unwrap_or(0) as u64;
                [gap, last - begin, act, span.tag.map_or(0, |tag| tag as u64 + 1)]
            });
            json!([name, spans.collect::<Vec<u64>>()])
        });
        let rows: Vec<Value> = rows.collect();
        let tags = lanes.tags.iter();
        let tags = tags.map(|tag| json!([tag.lock, tag.place, tag.held_at, tag.name()]));
        let waiting = lanes.waiting.iter().map(|one| (one * 1e3).round() / 1e3);
        let longest = lanes.longest.as_ref().map(|longest| {
            let text = format!(
                "Longest convoy: for {} threads waited for `{}` without a pause",
                duration(longest.length_s * 1e6),
                longest.lock
            );
            json!({ "begin": longest.begin_s, "length": longest.length_s, "text": text })
        });
        Self(json!({
            "kind": "strip",
            "seconds": lanes.seconds,
            "unit": unit,
            "acts": Act::ALL.map(Act::name),
            "lanes": rows,
            "unseen": lanes.unseen,
            "tags": tags.collect::<Vec<_>>(),
            "waiting": waiting.collect::<Vec<_>>(),
            "phase": lanes.phase_s,
            "longest": longest,
            "bars": bars,
            "notes": more_notes(notes, &lanes, several),
        }))
    }
}

/// Nanoseconds of the unit of the times: fine enough to zoom into, and short in a long run.
fn unit_ns(seconds: f64) -> u64 {
    match seconds {
        0.0..10.0 => 1,
        10.0..600.0 => 100,
        _ => 1000,
    }
}

fn more_notes(mut notes: Vec<String>, lanes: &Lanes, several: bool) -> Vec<String> {
    if lanes.least_ns > 0 {
        notes.push(format!(
            "Spans shorter than {} are left out, to limit the size of this page.",
            duration(lanes.least_ns as f64 / 1e3)
        ));
    }
    if several {
        notes.push("Time is counted from the start of each process.".to_owned());
    }
    notes
}
