//! The subset of Perfetto's trace format that is written here.
//!
//! Field numbers follow the published schema (`protos/perfetto/trace/` of the Perfetto project,
//! read 2026). Every reader skips unknown fields, so a subset is valid.

use prost::Message;

/// A trace: packets one after another.
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    /// The packets.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<Packet>,
}

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub struct Packet {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Its writer.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// 1: the state of the sequence is reset.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// Events of one CPU.
    #[prost(message, optional, tag = "1")]
    pub ftrace_events: Option<FtraceEventBundle>,
    /// Names of processes and threads.
    #[prost(message, optional, tag = "2")]
    pub process_tree: Option<ProcessTree>,
    /// An event on a track.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

impl Packet {
    /// A packet of the only sequence, at a time in nanoseconds if it has one.
    pub(crate) fn at(timestamp: Option<u64>) -> Self {
        Self { timestamp, trusted_packet_sequence_id: Some(1), ..Self::default() }
    }

    /// The description of a track.
    pub(crate) fn track(descriptor: TrackDescriptor) -> Self {
        Self { track_descriptor: Some(descriptor), ..Self::at(None) }
    }
}

/// `FtraceEventBundle`.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceEventBundle {
    /// CPU.
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    /// Events in chronological order.
    #[prost(message, repeated, tag = "2")]
    pub event: Vec<FtraceEvent>,
}

/// `FtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceEvent {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "1")]
    pub timestamp: Option<u64>,
    /// Thread that ran.
    #[prost(uint32, optional, tag = "2")]
    pub pid: Option<u32>,
    /// A context switch.
    #[prost(message, optional, tag = "4")]
    pub sched_switch: Option<SchedSwitch>,
    /// A wakeup.
    #[prost(message, optional, tag = "20")]
    pub sched_waking: Option<SchedWaking>,
}

/// `SchedSwitchFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedSwitch {
    /// Name of the task that leaves the CPU.
    #[prost(string, optional, tag = "1")]
    pub prev_comm: Option<String>,
    /// Its thread number.
    #[prost(int32, optional, tag = "2")]
    pub prev_pid: Option<i32>,
    /// Its priority.
    #[prost(int32, optional, tag = "3")]
    pub prev_prio: Option<i32>,
    /// Its state: 0 runnable, 1 asleep, 16 dead.
    #[prost(int64, optional, tag = "4")]
    pub prev_state: Option<i64>,
    /// Name of the task that gets the CPU.
    #[prost(string, optional, tag = "5")]
    pub next_comm: Option<String>,
    /// Its thread number.
    #[prost(int32, optional, tag = "6")]
    pub next_pid: Option<i32>,
    /// Its priority.
    #[prost(int32, optional, tag = "7")]
    pub next_prio: Option<i32>,
}

/// `SchedWakingFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedWaking {
    /// Name of the task that is woken.
    #[prost(string, optional, tag = "1")]
    pub comm: Option<String>,
    /// Its thread number.
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    /// Its priority.
    #[prost(int32, optional, tag = "3")]
    pub prio: Option<i32>,
    /// CPU of its run queue.
    #[prost(int32, optional, tag = "5")]
    pub target_cpu: Option<i32>,
}

/// `ProcessTree`.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    /// Processes.
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<Process>,
}

/// `ProcessTree.Process`.
#[derive(Clone, PartialEq, Message)]
pub struct Process {
    /// Process number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its name.
    #[prost(string, repeated, tag = "3")]
    pub cmdline: Vec<String>,
}

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Number of the track.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// A process track.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// A track of a thread.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// The parent track.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// A counter track.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// 3: children are ordered by rank.
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Rank among the children.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

impl TrackDescriptor {
    /// A track with a name, or without one.
    pub(crate) fn new(uuid: u64, name: Option<&str>) -> Self {
        Self { uuid: Some(uuid), name: name.map(str::to_owned), ..Self::default() }
    }

    /// A group of tracks, which is shown as a process.
    pub(crate) fn process(uuid: u64, pid: i32, name: String) -> Self {
        let process = ProcessDescriptor { pid: Some(pid), process_name: Some(name) };
        Self { process: Some(process), ..Self::new(uuid, None) }
    }
}

/// `ProcessDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Process number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// `ThreadDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    /// Process number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Thread number.
    #[prost(int32, optional, tag = "2")]
    pub tid: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// `CounterDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// Unit as shown.
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// None.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The innermost slice of the track ends.
    SliceEnd = 2,
    /// A point in time.
    Instant = 3,
    /// A value of a counter.
    Counter = 4,
}

/// `DebugAnnotation`: a detail of an event, as a name and a text.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Its name.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
    /// Its text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
}

/// `TrackEvent`.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Details.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// Its type.
    #[prost(enumeration = "Kind", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// The track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Groups to which it belongs.
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    /// Name of a slice or moment.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// Value of a counter.
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
    /// Arrows that begin or pass here.
    #[prost(fixed64, repeated, tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Arrows that end here.
    #[prost(fixed64, repeated, tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

impl TrackEvent {
    /// An event on the track with this number.
    pub(crate) fn on(track: u64, kind: Kind) -> Self {
        Self { r#type: Some(kind as i32), track_uuid: Some(track), ..Self::default() }
    }
}
