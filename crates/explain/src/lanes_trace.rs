//! The threads of a recorded program as a Perfetto trace: a track for each thread with its acts,
//! arrows from a release to the wait that it ended, the longest convoy, and the number of waiting
//! threads as a counter.

use std::collections::BTreeMap;

use prost::Message;

use crate::lanes::{Act, Lanes, Span};
use crate::proto::{
    CounterDescriptor, DebugAnnotation, Kind, Packet, ThreadDescriptor, Trace, TrackDescriptor,
    TrackEvent,
};

/// Tracks: the longest convoy and the counter, then processes, then threads.
const CONVOY: u64 = 1;
const WAITING: u64 = 2;
const FIRST_PROCESS: u64 = 1000;
const FIRST_THREAD: u64 = 1_000_000;

/// Order of events with the same time: slices end before others begin, and arrows start before they
/// end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    End,
    Release,
    Wakeup,
    Begin,
    Count,
}

/// Events by time, before they are encoded.
#[derive(Default)]
struct Writer {
    packets: Vec<Packet>,
    events: Vec<(u64, Turn, TrackEvent)>,
}

impl Lanes {
    /// Returns the encoded trace. Short acts are left out until it has at most `limit` bytes
    /// ([`Lanes::least_ns`]), and arrows if that is not enough.
    pub fn perfetto(&mut self, commands: &BTreeMap<u64, String>, limit: usize) -> Vec<u8> {
        loop {
            let bytes = self.trace(commands).encode_to_vec();
            let spans = self.spans();
            if bytes.len() <= limit || spans == 0 && self.handovers.is_empty() {
                return bytes;
            }
            self.thin((spans as f64 * 0.8 * limit as f64 / bytes.len() as f64) as usize);
            if self.spans() == 0 {
                self.handovers.clear();
            }
        }
    }

    fn trace(&self, commands: &BTreeMap<u64, String>) -> Trace {
        let mut writer = Writer::default();
        writer.packets.push(Packet { sequence_flags: Some(1), ..Packet::at(None) });
        for (pid, command) in commands {
            let uuid = FIRST_PROCESS.wrapping_add(*pid);
            let process = TrackDescriptor::process(uuid, *pid as i32, command.clone());
            writer.packets.push(Packet::track(process));
        }
        for (at, lane) in self.threads.iter().enumerate() {
            let thread = ThreadDescriptor {
                pid: Some(lane.pid as i32),
                tid: Some(lane.thread as i32),
                thread_name: Some(lane.name.clone()).filter(|name| !name.is_empty()),
            };
            writer.packets.push(Packet::track(TrackDescriptor {
                parent_uuid: Some(FIRST_PROCESS.wrapping_add(lane.pid)),
                thread: Some(thread),
                ..TrackDescriptor::new(FIRST_THREAD + at as u64, None)
            }));
            for span in &lane.spans {
                self.span(&mut writer, FIRST_THREAD + at as u64, *span);
            }
        }
        self.arrows(&mut writer);
        self.whole(&mut writer);
        writer.finish()
    }

    fn span(&self, writer: &mut Writer, track: u64, span: Span) {
        let tag = span.tag.map(|tag| &self.tags[tag]);
        let lock = tag.map_or(String::new(), |tag| format!(" ({})", tag.name()));
        let details = tag.into_iter().flat_map(|tag| {
            let [lock, place, held_at] = [&tag.lock, &tag.place, &tag.held_at].map(String::clone);
            // As in messages of runtimes, the innermost function is first.
            let callers: Vec<&str> = tag.callers.iter().rev().map(String::as_str).collect();
            let called_by = callers.join(", ");
            [("lock", lock), ("place", place), ("called by", called_by), ("held at", held_at)]
        });
        let details = details.filter(|(_, text)| !text.is_empty()).map(|(name, text)| {
            DebugAnnotation { name: Some(name.to_owned()), string_value: Some(text) }
        });
        let begin = TrackEvent {
            name: Some(format!("{}{lock}", span.act.name())),
            categories: vec![group(span.act).to_owned()],
            debug_annotations: details.collect(),
            ..TrackEvent::on(track, Kind::SliceBegin)
        };
        writer.events.push((span.begin_ns, Turn::Begin, begin));
        writer.events.push((span.end_ns(), Turn::End, TrackEvent::on(track, Kind::SliceEnd)));
    }

    fn arrows(&self, writer: &mut Writer) {
        for (number, handover) in self.handovers.iter().enumerate() {
            let lock = self.tags[handover.tag].name();
            let [owner, waiter] = handover.lanes.map(|lane| FIRST_THREAD + lane as u64);
            let flow = number as u64 + 1;
            let release = TrackEvent {
                name: Some(format!("releases {lock}")),
                flow_ids: vec![flow],
                ..TrackEvent::on(owner, Kind::Instant)
            };
            let wakeup = TrackEvent {
                name: Some(format!("wait for {lock} ends")),
                terminating_flow_ids: vec![flow],
                ..TrackEvent::on(waiter, Kind::Instant)
            };
            writer.events.push((handover.released_ns, Turn::Release, release));
            writer.events.push((handover.at_ns, Turn::Wakeup, wakeup));
        }
    }

    /// Adds the longest convoy, and the number of waiting threads in each phase.
    fn whole(&self, writer: &mut Writer) {
        let ns = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
        if let Some(longest) = &self.longest {
            writer.named(CONVOY, "longest convoy", None);
            let name = format!("convoy at {}: at most {} waited", longest.lock, longest.most);
            let begin = TrackEvent { name: Some(name), ..TrackEvent::on(CONVOY, Kind::SliceBegin) };
            writer.events.push((ns(longest.begin_s), Turn::Begin, begin));
            let end_ns = ns(longest.begin_s + longest.length_s);
            writer.events.push((end_ns, Turn::End, TrackEvent::on(CONVOY, Kind::SliceEnd)));
        }
        if self.waiting.is_empty() {
            return;
        }
        let unit = CounterDescriptor { unit_name: Some("threads".to_owned()) };
        let name = "waits for locks that end in a phase, as a mean number of threads";
        writer.named(WAITING, name, Some(unit));
        for (phase, waiting) in self.waiting.iter().enumerate() {
            let count = TrackEvent {
                double_counter_value: Some(*waiting),
                ..TrackEvent::on(WAITING, Kind::Counter)
            };
            writer.events.push((ns(phase as f64 * self.phase_s), Turn::Count, count));
        }
    }
}

/// Returns the category of an act, for queries.
fn group(act: Act) -> &'static str {
    match act {
        Act::Waits => "wait",
        Act::Holds | Act::Asleep | Act::Preempted | Act::Off => "critical section",
        Act::Runs | Act::Idles | Act::Away => "thread",
    }
}

impl Writer {
    fn named(&mut self, uuid: u64, name: &str, counter: Option<CounterDescriptor>) {
        let track = TrackDescriptor { counter, ..TrackDescriptor::new(uuid, Some(name)) };
        self.packets.push(Packet::track(track));
    }

    fn finish(mut self) -> Trace {
        self.events.sort_by_key(|(at, turn, _)| (*at, *turn));
        for (at, _, event) in self.events {
            self.packets.push(Packet { track_event: Some(event), ..Packet::at(Some(at)) });
        }
        Trace { packet: self.packets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::tests::record;

    /// Decodes a trace and checks that every event has a track and its time, that slices are
    /// balanced, and that every arrow ends.
    fn checked(bytes: &[u8]) -> (usize, usize) {
        let trace = Trace::decode(bytes).expect("a trace");
        let mut depth: BTreeMap<u64, i32> = BTreeMap::new();
        let (mut now, mut slices) = (0, 0);
        let (mut begun, mut ended) = (BTreeMap::new(), 0);
        for packet in &trace.packet {
            if let Some(track) = &packet.track_descriptor {
                depth.insert(track.uuid(), 0);
            }
            let Some(event) = &packet.track_event else { continue };
            assert!(packet.timestamp() >= now, "events are in order");
            now = packet.timestamp();
            let open = depth.get_mut(&event.track_uuid()).expect("a track");
            *open += [0, 1, -1, 0, 0][event.r#type() as usize];
            assert!((0..=1).contains(open), "{event:?}");
            slices += usize::from(event.r#type() == Kind::SliceBegin);
            begun.extend(event.flow_ids.iter().map(|flow| (*flow, event.track_uuid())));
            for flow in &event.terminating_flow_ids {
                let from = begun.remove(flow).expect("an arrow that has begun");
                assert_ne!(from, event.track_uuid(), "from one thread to another");
                ended += 1;
            }
        }
        assert!(depth.values().all(|open| *open == 0), "{depth:?}");
        assert!(begun.is_empty(), "{begun:?} do not arrive");
        (slices, ended)
    }

    #[test]
    fn slices_are_balanced_and_arrows_arrive() {
        let mut lanes = Lanes::new(&record());
        let spans = lanes.spans();
        let commands = BTreeMap::from([(6, "program".to_owned())]);
        let bytes = lanes.perfetto(&commands, usize::MAX);
        // The additional slice is the longest convoy.
        assert_eq!(checked(&bytes), (spans + 1, 1));
        let less = lanes.perfetto(&commands, bytes.len() - 1);
        assert!(less.len() < bytes.len() && lanes.least_ns > 0);
        checked(&less);
    }
}
