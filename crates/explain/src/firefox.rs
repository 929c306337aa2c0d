//! The threads of a recorded program as a profile for the Firefox Profiler: their acts as samples
//! and markers, and waits for locks with the lock and both places. A sample without a stack ends
//! the act before it, since the profiler extends a stack to the next sample.

use std::collections::BTreeMap;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Marker,
    MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, MarkerTiming, MarkerTypeHandle,
    ProcessHandle, Profile, ReferenceTimestamp, RuntimeSchemaMarkerField,
    RuntimeSchemaMarkerSchema, SamplingInterval, StringHandle, ThreadHandle, Timestamp,
};

use crate::lanes::{Act, Lane, Lanes, Span, Tag};

/// Maximum number of samples of all threads.
const SAMPLES: u64 = 400_000;
/// Bounds of the number of samples of a thread: the lower one is enough for a picture, and the
/// upper one is more than a screen has columns.
const SAMPLES_OF_ONE: [u64; 2] = [200, 5000];
/// Minimum time between samples, in nanoseconds.
const INTERVAL_NS: u64 = 10_000;

/// Returns the colour of an act.
fn color(act: Act) -> CategoryColor {
    match act {
        Act::Runs => CategoryColor::Green,
        Act::Holds => CategoryColor::Blue,
        Act::Waits => CategoryColor::Red,
        Act::Asleep => CategoryColor::Purple,
        Act::Preempted => CategoryColor::Orange,
        Act::Off => CategoryColor::Brown,
        Act::Idles => CategoryColor::LightBlue,
        Act::Away => CategoryColor::Gray,
    }
}

/// Names of the program that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The command, as a title.
    pub title: String,
    /// The operating system.
    pub system: String,
    /// When it was recorded: `2026-01-31T23:59:59Z`.
    pub date: String,
    /// Commands of processes.
    pub commands: BTreeMap<u64, String>,
}

/// Converts the date of a record to milliseconds after 1970. Returns 0 for any other text.
fn date_ms(date: &str) -> f64 {
    let mut parts = date.split(|c: char| !c.is_ascii_digit()).map(str::parse::<i64>);
    let [year, month, day, hour, minute, second] =
        std::array::from_fn(|_| parts.next().and_then(Result::ok).unwrap_or_default());
    // The civil calendar (H. Hinnant, 2013): years begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = 86_400 * day + 3600 * hour + 60 * minute + second;
    if (1970..10_000).contains(&year) { 1000.0 * seconds as f64 } else { 0.0 }
}

/// An act that concerns a lock: the interned texts of its fields.
struct Section {
    kind: MarkerTypeHandle,
    category: CategoryHandle,
    name: StringHandle,
    fields: [StringHandle; 3],
}

impl Marker for Section {
    fn marker_type(&self, _: &mut Profile) -> MarkerTypeHandle {
        self.kind
    }

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, index: u32) -> StringHandle {
        self.fields[index as usize]
    }

    fn number_field_value(&self, _: u32) -> f64 {
        // All fields are texts.
        0.0
    }
}

/// Two types of markers: waits, and critical sections.
fn schema(name: &str, fields: &[(&str, &str)]) -> RuntimeSchemaMarkerSchema {
    let field = |(key, label): &(&str, &str)| RuntimeSchemaMarkerField {
        key: (*key).to_owned(),
        label: (*label).to_owned(),
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    };
    RuntimeSchemaMarkerSchema {
        type_name: name.to_owned(),
        locations: MarkerLocations::MARKER_CHART
            | MarkerLocations::MARKER_TABLE
            | MarkerLocations::TIMELINE_OVERVIEW,
        chart_label: Some("{marker.data.lock}".to_owned()),
        tooltip_label: Some("{marker.name}: {marker.data.lock}".to_owned()),
        table_label: Some("{marker.data.lock} in {marker.data.place}".to_owned()),
        fields: fields.iter().map(field).collect(),
        description: None,
        graphs: Vec::new(),
    }
}

/// A profile under construction.
struct Writer<'a> {
    profile: Profile,
    tags: &'a [Tag],
    categories: BTreeMap<Act, CategoryHandle>,
    wait: MarkerTypeHandle,
    section: MarkerTypeHandle,
    interval_ns: u64,
}

impl Lanes {
    /// Returns the profile in the processed format of the Firefox Profiler, without symbols to look
    /// up.
    pub fn firefox(&self, named: &Named) -> Profile {
        // The acts of a damaged record may end long after the program.
        let ends = self.threads.iter().flat_map(|lane| &lane.spans).map(Span::end_ns);
        let longest_ns = ends.fold((self.seconds.max(0.0) * 1e9) as u64, u64::max);
        let [least, most] = SAMPLES_OF_ONE;
        let samples = (SAMPLES / self.threads.len().max(1) as u64).clamp(least, most);
        let interval_ns = (longest_ns / samples).max(INTERVAL_NS);
        let start = ReferenceTimestamp::from_millis_since_unix_epoch(date_ms(&named.date));
        let interval = SamplingInterval::from_nanos(interval_ns);
        let mut profile = Profile::new(&named.title, start, interval);
        profile.set_symbolicated(true);
        profile.set_os_name(&named.system);
        let mut categories = BTreeMap::new();
        for act in Act::ALL {
            categories.insert(act, profile.add_category(act.name(), color(act)));
        }
        let held_at = ("heldAt", "Owner acquired it at");
        let both = [("lock", "Lock"), ("place", "Acquired at"), held_at];
        let wait = profile.register_marker_type(schema("LockWait", &both));
        let section = profile.register_marker_type(schema("CriticalSection", &both[..2]));
        let mut writer =
            Writer { profile, tags: &self.tags, categories, wait, section, interval_ns };
        let mut processes: BTreeMap<u64, ProcessHandle> = BTreeMap::new();
        for (at, lane) in self.threads.iter().enumerate() {
            let start = Timestamp::from_nanos_since_reference(0);
            let command = named.commands.get(&lane.pid).map_or("", String::as_str);
            // A main thread is shown by the name of its process.
            let is_main = lane.thread == lane.pid;
            let process = *processes.entry(lane.pid).or_insert_with(|| {
                let pid = lane.pid as u32;
                let process = writer.profile.add_process(command, pid, start);
                // Each process has a main thread, blank if nothing of it was recorded.
                let is_recorded =
                    self.threads.iter().any(|other| [other.thread, other.pid] == [lane.pid; 2]);
                if !is_recorded {
                    let main = writer.profile.add_thread(process, pid, start, true);
                    writer.blank(main, Some(0), u64::MAX);
                }
                process
            });
            let tid = lane.thread as u32;
            let thread = writer.profile.add_thread(process, tid, start, is_main);
            writer.profile.set_thread_name(
                thread,
                &if lane.name.is_empty() { format!("thread {tid}") } else { lane.name.clone() },
            );
            writer.profile.set_thread_show_markers_in_timeline(thread, true);
            writer.profile.add_initial_visible_thread(thread);
            if at == 0 {
                writer.profile.add_initial_selected_thread(thread);
            }
            writer.lane(thread, lane);
        }
        writer.profile
    }
}

impl Writer<'_> {
    fn lane(&mut self, thread: ThreadHandle, lane: &Lane) {
        let mut sampled = None;
        for span in &lane.spans {
            let first = span.begin_ns.div_ceil(self.interval_ns);
            let last = span.end_ns().div_ceil(self.interval_ns);
            self.blank(thread, sampled, first);
            self.samples(thread, *span, first..last);
            sampled = if first < last { Some(last) } else { sampled };
            if let Some(tag) = span.tag {
                self.marker(thread, *span, tag);
            }
        }
        self.blank(thread, sampled, u64::MAX);
    }

    /// Adds a sample without a stack after the last act if the next one begins later.
    fn blank(&mut self, thread: ThreadHandle, sampled: Option<u64>, next: u64) {
        if let Some(end) = sampled.filter(|end| *end < next) {
            let time = Timestamp::from_nanos_since_reference(end * self.interval_ns);
            self.profile.add_sample(thread, time, None, CpuDelta::from_nanos(0), 0);
        }
    }

    /// Adds one sample for each of these numbers of intervals, which begin in the span: the act,
    /// the callers, the place and the lock.
    fn samples(&mut self, thread: ThreadHandle, span: Span, numbers: std::ops::Range<u64>) {
        let category = self.categories[&span.act];
        let tag = span.tag.map(|tag| &self.tags[tag]);
        let texts = tag.into_iter().flat_map(|tag| {
            let callers = tag.callers.iter().map(String::as_str);
            callers.chain([tag.place.as_str(), tag.name()])
        });
        let act = std::iter::once(span.act.name());
        let mut frames = Vec::new();
        for text in act.chain(texts).filter(|text| !text.is_empty()) {
            frames.push(FrameInfo {
                frame: Frame::Label(self.profile.intern_string(text)),
                category_pair: category.into(),
                flags: FrameFlags::empty(),
            });
        }
        let stack = self.profile.intern_stack_frames(thread, frames.into_iter());
        let ran = if matches!(span.act, Act::Runs | Act::Holds) { self.interval_ns } else { 0 };
        for number in numbers {
            let at = Timestamp::from_nanos_since_reference(number * self.interval_ns);
            self.profile.add_sample(thread, at, stack, CpuDelta::from_nanos(ran), 1);
        }
    }

    fn marker(&mut self, thread: ThreadHandle, span: Span, tag: usize) {
        let tag = &self.tags[tag];
        let texts = [tag.name(), &tag.place, &tag.held_at];
        let fields = texts.map(|text| self.profile.intern_string(text));
        let is_wait = matches!(span.act, Act::Waits | Act::Idles);
        let section = Section {
            kind: if is_wait { self.wait } else { self.section },
            category: self.categories[&span.act],
            name: self.profile.intern_string(span.act.name()),
            fields,
        };
        let [begin, end] =
            [span.begin_ns, span.end_ns()].map(Timestamp::from_nanos_since_reference);
        self.profile.add_marker(thread, MarkerTiming::Interval(begin, end), section);
    }
}

#[cfg(test)]
mod tests {
    use super::{Lanes, Named, date_ms};
    use crate::lanes::tests::record;
    use serde_json::Value;

    /// Checks that all columns of a table have its length, and that its indices are in the range of
    /// the tables to which they refer.
    fn columns(table: &Value, indices: &[(&str, usize)]) -> usize {
        let length = table["length"].as_u64().expect("a length") as usize;
        for (name, column) in table.as_object().expect("a table") {
            if let Some(values) = column.as_array() {
                assert_eq!(values.len(), length, "{name}");
            }
        }
        for (name, most) in indices {
            let values = table[*name].as_array().expect("a column").iter();
            let all = values.filter(|value| !value.is_null()).map(Value::as_u64);
            assert!(all.into_iter().all(|index| index.expect("an index") < *most as u64), "{name}");
        }
        length
    }

    #[test]
    fn the_profile_has_the_tables_of_the_format() {
        let lanes = Lanes::new(&record());
        let named = Named { title: "program".to_owned(), ..Named::default() };
        let profile = serde_json::to_value(lanes.firefox(&named)).expect("JSON");
        let meta = &profile["meta"];
        let categories = meta["categories"].as_array().expect("categories");
        assert_eq!((categories[0]["name"].as_str(), categories.len()), (Some("Other"), 9));
        let schema = meta["markerSchema"].as_array().expect("types of markers");
        let fields = |name: &str| {
            let found = schema.iter().find(|one| one["name"] == name).expect("its schema");
            let fields = found["fields"].as_array().expect("fields").iter();
            fields.map(|field| field["key"].as_str().expect("a key").to_owned()).collect::<Vec<_>>()
        };
        let threads = profile["threads"].as_array().expect("threads");
        assert_eq!(threads.len(), 3, "two with steps, and the main thread");
        let mut waits = 0;
        for thread in threads {
            let texts = thread["stringArray"].as_array().expect("texts").len();
            let funcs = columns(&thread["funcTable"], &[("name", texts)]);
            let frames = columns(&thread["frameTable"], &[("func", funcs), ("category", 9)]);
            let stacks = columns(&thread["stackTable"], &[("frame", frames)]);
            assert!(columns(&thread["samples"], &[("stack", stacks)]) > 0);
            columns(&thread["markers"], &[("name", texts), ("category", 9)]);
            for data in thread["markers"]["data"].as_array().expect("markers") {
                let name = data["type"].as_str().expect("a type");
                for key in fields(name) {
                    assert!(data[&key].as_u64().expect("a text") < texts as u64, "{key}");
                }
                waits += usize::from(name == "LockWait");
            }
        }
        assert_eq!(waits, 3, "the waits of both threads");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert!((date_ms("2026-11-26T17:02:30Z") - 1_795_712_550_000.0).abs() < 0.5);
        assert!((date_ms("2000-02-29T00:00:00Z") - 951_782_400_000.0).abs() < 0.5);
        for other in ["", "yesterday", "99999999999999999999-01-01", "1-1-1"] {
            assert!(date_ms(other).abs() < 0.5, "{other}");
        }
    }
}
