//! The window as a Perfetto trace: CPU tracks, a track for each lock, tracks for the tasks that
//! wait for it or own it, arrows from a release to the next owner; and the whole run as counters.

use crate::cpu::State;
use crate::detail::{Detail, Step, What, Who};
use crate::proto::{
    CounterDescriptor, FtraceEvent, FtraceEventBundle, Kind, Packet, Process, ProcessTree,
    SchedSwitch, SchedWaking, Trace, TrackDescriptor, TrackEvent,
};
use convoy_machine::Leave;
use convoy_sync::LockEvent;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// Tracks: the groups, then the locks, then the tasks at the locks.
const LOCKS: u64 = 1;
const WHOLE: u64 = 2;
const FIRST_LOCK: u64 = 1000;
const FIRST_TASK: u64 = 1_000_000;
/// Track groups are shown as processes. Their numbers start here, above the tasks.
const GROUP_PID: i32 = 1 << 23;
/// Orders the children by their rank.
const EXPLICIT: i32 = 3;

struct Writer {
    packets: Vec<Packet>,
    /// Track of a task at a lock.
    tracks: BTreeMap<(i32, u32), u64>,
    /// Tracks with an open slice.
    open: BTreeSet<u64>,
    flows: u64,
    /// Arrow that has not ended, by lock and task.
    arrows: BTreeMap<(u32, u32), u64>,
    waiters: BTreeMap<u32, u32>,
    waiting: BTreeSet<(u32, u32)>,
    /// Owner of each lock. If there are several, such as readers, the last one.
    owner: BTreeMap<u32, u32>,
}

impl Detail {
    /// Returns the encoded trace. To fit in `limit` bytes, the end of the window may be left out.
    pub fn perfetto(&mut self, limit: usize) -> Vec<u8> {
        loop {
            let bytes = self.trace().encode_to_vec();
            if bytes.len() <= limit || self.steps.is_empty() {
                return bytes;
            }
            let keep = (self.steps.len() as f64 * 0.9 * limit as f64 / bytes.len() as f64) as usize;
            self.cut = self.steps.get(keep).map(|step| step.at);
            self.steps.truncate(keep);
        }
    }

    fn trace(&self) -> Trace {
        let mut writer = Writer {
            packets: vec![Packet { sequence_flags: Some(1), ..Packet::at(None) }],
            tracks: BTreeMap::new(),
            open: BTreeSet::new(),
            flows: 0,
            arrows: BTreeMap::new(),
            waiters: BTreeMap::new(),
            waiting: BTreeSet::new(),
            owner: BTreeMap::new(),
        };
        let mut steps: Vec<&Step> = self.steps.iter().collect();
        steps.sort_by_key(|step| step.at);
        writer.processes(&steps);
        for cpu in 0..self.analysis.cpus.len() {
            writer.cpu(cpu, &steps);
        }
        writer.group(LOCKS, 0, "locks");
        for (&lock, name) in &self.names {
            writer.lock_tracks(lock, name);
        }
        for step in &steps {
            writer.step(step, &self.names);
        }
        let end = steps.last().map_or(0, |step| step.at);
        for track in std::mem::take(&mut writer.open) {
            writer.event(end, track, Kind::SliceEnd, None);
        }
        self.whole(&mut writer);
        Trace { packet: writer.packets }
    }

    /// Adds the whole run in intervals.
    fn whole(&self, writer: &mut Writer) {
        let timeline = &self.analysis.timeline;
        let all = timeline.width as f64 * self.analysis.cpus.len() as f64;
        let ms = timeline.width as f64 / 1e9;
        writer.group(WHOLE, 1, &format!("whole run, intervals of {ms:.1} ms"));
        let mut track = WHOLE + 1;
        let mut counter = |name: &str, unit: &str, value: &dyn Fn(usize) -> f64| {
            writer.counter(track, WHOLE, name, unit, track as i32);
            for index in 0..timeline.bins.len() {
                let at = timeline.from + index as u64 * timeline.width;
                writer.value(at, track, value(index));
            }
            track += 1;
        };
        for state in State::ALL {
            counter(&format!("{}, all CPUs", state.name()), "%", &|index| {
                100.0 * timeline.bins[index].times[state as usize] as f64 / all
            });
        }
        counter("a lock is wanted, its owner on no CPU", "%", &|index| {
            100.0 * timeline.bins[index].stalled as f64 / timeline.width as f64
        });
        counter("tasks that wait for a CPU, most", "tasks", &|index| {
            f64::from(timeline.bins[index].runnable_max)
        });
        counter("tasks that wait for a lock, most", "tasks", &|index| {
            f64::from(timeline.bins[index].waiters_max)
        });
    }
}

/// Returns a track of a lock: owner, owner on no CPU, or waiters.
fn lock_track(lock: u32, which: u64) -> u64 {
    FIRST_LOCK + u64::from(lock) * 4 + which
}

impl Writer {
    /// Adds every task of the window by name.
    fn processes(&mut self, steps: &[&Step]) {
        let mut named: BTreeMap<i32, String> = BTreeMap::new();
        let mut name = |who: Who| {
            if who.tid() > 0 {
                named.entry(who.tid()).or_insert_with(|| who.label.comm());
            }
        };
        for step in steps {
            name(step.by);
            match step.what {
                What::Switch { prev, next, .. } => {
                    name(prev);
                    name(next);
                }
                What::Wake { task, .. } | What::Lock { task, .. } => name(task),
                What::Softirq(_) | What::Raise(..) | What::Mode(_) => {}
            }
        }
        let processes = named
            .into_iter()
            .map(|(pid, name)| Process { pid: Some(pid), cmdline: vec![name] })
            .collect();
        let tree = ProcessTree { processes };
        self.packets.push(Packet { process_tree: Some(tree), ..Packet::at(Some(0)) });
    }

    /// Adds the tasks that ran on `cpu`.
    fn cpu(&mut self, cpu: usize, steps: &[&Step]) {
        let event = steps.iter().filter(|step| step.cpu == cpu).filter_map(|step| ftrace(step));
        let event: Vec<FtraceEvent> = event.collect();
        let bundle = FtraceEventBundle { cpu: Some(cpu as u32), event };
        self.packets.push(Packet { ftrace_events: Some(bundle), ..Packet::default() });
        let track = lock_track(u32::MAX, 0) + cpu as u64;
        self.track(track, None, &format!("CPU {cpu} spins or handles interrupts"), cpu as i32);
    }

    fn track(&mut self, uuid: u64, parent: Option<u64>, name: &str, rank: i32) {
        self.packets.push(Packet::track(TrackDescriptor {
            parent_uuid: parent,
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::new(uuid, Some(name))
        }));
    }

    fn group(&mut self, uuid: u64, number: i32, name: &str) {
        self.packets.push(Packet::track(TrackDescriptor {
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::process(uuid, GROUP_PID + number, name.to_owned())
        }));
    }

    fn counter(&mut self, uuid: u64, parent: u64, name: &str, unit: &str, rank: i32) {
        self.packets.push(Packet::track(TrackDescriptor {
            parent_uuid: Some(parent),
            counter: Some(CounterDescriptor { unit_name: Some(unit.to_owned()) }),
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::new(uuid, Some(name))
        }));
    }

    fn value(&mut self, at: u64, track: u64, value: f64) {
        self.event(at, track, Kind::Counter, None).double_counter_value = Some(value);
    }

    fn lock_tracks(&mut self, lock: u32, name: &str) {
        let rank = lock as i32 * 4;
        let instance = format!("{name} #{lock}");
        self.track(lock_track(lock, 0), Some(LOCKS), &format!("{instance}: owner"), rank);
        let off = format!("{instance}: owner on no CPU");
        self.track(lock_track(lock, 1), Some(LOCKS), &off, rank + 1);
        let waiters = format!("{instance}: waiters");
        self.counter(lock_track(lock, 2), LOCKS, &waiters, "tasks", rank + 2);
    }

    /// Returns the track of `who` at `lock`.
    fn task_track(&mut self, who: Who, lock: u32, name: &str) -> u64 {
        let key = (who.tid(), lock);
        if let Some(&track) = self.tracks.get(&key) {
            return track;
        }
        let track = FIRST_TASK + self.tracks.len() as u64 * 2;
        self.tracks.insert(key, track);
        let group = track + 1;
        let process = TrackDescriptor::process(group, who.tid(), who.label.comm());
        self.packets.push(Packet::track(process));
        self.track(track, Some(group), &format!("{name} #{lock}"), lock as i32);
        track
    }

    fn event(&mut self, at: u64, track: u64, kind: Kind, name: Option<String>) -> &mut TrackEvent {
        let event = TrackEvent { name, ..TrackEvent::on(track, kind) };
        self.packets.push(Packet { track_event: Some(event), ..Packet::at(Some(at / 1000)) });
        let last = self.packets.last_mut().expect("just pushed");
        last.track_event.as_mut().expect("just made")
    }

    /// Ends the slice of `track`, if one is open. Begins and returns another if there is a name.
    fn slice(&mut self, at: u64, track: u64, name: Option<String>) -> Option<&mut TrackEvent> {
        if self.open.remove(&track) {
            self.event(at, track, Kind::SliceEnd, None);
        }
        let name = name?;
        self.open.insert(track);
        Some(self.event(at, track, Kind::SliceBegin, Some(name)))
    }

    fn step(&mut self, step: &Step, names: &BTreeMap<u32, String>) {
        match step.what {
            What::Mode(state) => {
                let track = lock_track(u32::MAX, 0) + step.cpu as u64;
                let shown = matches!(state, State::Spin | State::Irq);
                self.slice(step.at, track, shown.then(|| state.name().to_owned()));
            }
            What::Lock { event, lock, task } => {
                let name = names.get(&lock).map_or("lock", String::as_str);
                self.lock(step, event, lock, task, name);
            }
            What::Switch { prev, next, .. } => self.switch(step.at, prev, next, names),
            What::Wake { .. } | What::Softirq(_) | What::Raise(..) => {}
        }
    }

    /// Handles owners that leave or get a CPU.
    fn switch(&mut self, at: u64, prev: Who, next: Who, names: &BTreeMap<u32, String>) {
        for (who, runs) in [(prev, false), (next, true)] {
            for (&lock, name) in names {
                if self.owner.get(&lock) != Some(&who.id) {
                    continue;
                }
                let off = (!runs).then(|| format!("{} is on no CPU", who.label));
                self.slice(at, lock_track(lock, 1), off);
                let track = self.task_track(who, lock, name);
                let state = if runs { "owns" } else { "owns, on no CPU:" };
                self.slice(at, track, Some(format!("{state} {name}")));
            }
        }
    }

    fn lock(&mut self, step: &Step, event: LockEvent, lock: u32, task: Who, name: &str) {
        let at = step.at;
        match event {
            LockEvent::Contended => {
                self.count(at, lock, 1);
                let track = self.task_track(task, lock, name);
                self.slice(at, track, Some(format!("waits for {name}")));
                self.waiting.insert((lock, task.id));
            }
            LockEvent::Handoff | LockEvent::Acquired => self.owns(step, event, lock, task, name),
            LockEvent::Released => {
                if self.owner.remove(&lock).is_none() {
                    return;
                }
                self.slice(at, lock_track(lock, 0), None);
                self.slice(at, lock_track(lock, 1), None);
                let track = self.task_track(task, lock, name);
                self.slice(at, track, None);
            }
            LockEvent::Woken => {
                let flow = self.arrow(step, lock, name);
                self.arrows.insert((lock, task.id), flow);
            }
            LockEvent::Interrupted | LockEvent::TimedOut => {
                self.stop_waiting(at, lock, task);
                let track = self.task_track(task, lock, name);
                self.slice(at, track, None);
            }
            LockEvent::Stolen => {}
        }
    }

    fn owns(&mut self, step: &Step, event: LockEvent, lock: u32, task: Who, name: &str) {
        if self.owner.get(&lock) == Some(&task.id) {
            return;
        }
        let at = step.at;
        self.stop_waiting(at, lock, task);
        let given = event == LockEvent::Handoff;
        let flow = if given {
            Some(self.arrow(step, lock, name))
        } else {
            self.arrows.remove(&(lock, task.id))
        };
        self.owner.insert(lock, task.id);
        self.slice(at, lock_track(lock, 0), Some(task.label.to_string()));
        let off = given.then(|| format!("{} is on no CPU", task.label));
        self.slice(at, lock_track(lock, 1), off);
        let track = self.task_track(task, lock, name);
        let words = if given { "was given, on no CPU:" } else { "owns" };
        if let Some(slice) = self.slice(at, track, Some(format!("{words} {name}"))) {
            slice.terminating_flow_ids.extend(flow);
        }
    }

    /// Adds an arrow from the current step of the running task.
    fn arrow(&mut self, step: &Step, lock: u32, name: &str) -> u64 {
        self.flows += 1;
        let flow = self.flows;
        let track = self.task_track(step.by, lock, name);
        let event = self.event(step.at, track, Kind::Instant, Some(format!("releases {name}")));
        event.flow_ids.push(flow);
        flow
    }

    fn stop_waiting(&mut self, at: u64, lock: u32, task: Who) {
        if self.waiting.remove(&(lock, task.id)) {
            self.count(at, lock, -1);
        }
    }

    fn count(&mut self, at: u64, lock: u32, by: i32) {
        let waiters = self.waiters.entry(lock).or_default();
        *waiters = waiters.saturating_add_signed(by);
        let value = f64::from(*waiters);
        self.value(at, lock_track(lock, 2), value);
    }
}

fn ftrace(step: &Step) -> Option<FtraceEvent> {
    let comm = |who: Who| Some(who.label.comm());
    let event = FtraceEvent {
        timestamp: Some(step.at / 1000),
        pid: Some(step.by.tid() as u32),
        ..FtraceEvent::default()
    };
    match step.what {
        What::Switch { prev, why, next } => Some(FtraceEvent {
            sched_switch: Some(SchedSwitch {
                prev_comm: comm(prev),
                prev_pid: Some(prev.tid()),
                prev_prio: Some(prev.label.priority()),
                prev_state: Some(match why {
                    Leave::Runnable => 0,
                    Leave::Asleep => 1,
                    Leave::Dead => 16,
                }),
                next_comm: comm(next),
                next_pid: Some(next.tid()),
                next_prio: Some(next.label.priority()),
            }),
            ..event
        }),
        What::Wake { task, cpu } => Some(FtraceEvent {
            sched_waking: Some(SchedWaking {
                comm: comm(task),
                pid: Some(task.tid()),
                prio: Some(task.label.priority()),
                target_cpu: Some(cpu as i32),
            }),
            ..event
        }),
        _ => None,
    }
}
