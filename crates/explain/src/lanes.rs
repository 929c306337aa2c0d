//! Activity of the threads of a recorded program over time: their steps in the recorded windows,
//! and sampled waits of the whole run.

use std::collections::BTreeMap;

use convoy_record::trace::{Step, Strip, What};
use convoy_record::{Process, Record};

use convoy_diagnose::{OwnerState, off_state};

/// A wait of a step that is shorter than this, in nanoseconds, does not count as a wait: acquiring
/// a free lock takes as long.
const SHORT_NS: u64 = 1000;

/// A record with more phases than this is damaged. A process has a hundred.
const PHASES: usize = 1 << 12;

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Runs, outside of critical sections.
    Runs,
    /// Runs in a critical section.
    Holds,
    /// Waits for a lock.
    Waits,
    /// Sleeps in a critical section.
    Asleep,
    /// Was preempted in a critical section.
    Preempted,
    /// Is on no CPU in a critical section.
    Off,
    /// Waits for a condition or at a barrier.
    Idles,
    /// Was switched away outside of critical sections.
    Away,
}

impl Act {
    /// Every act, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Runs,
        Self::Holds,
        Self::Waits,
        Self::Asleep,
        Self::Preempted,
        Self::Off,
        Self::Idles,
        Self::Away,
    ];

    /// Returns the name of the act.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "running",
            Self::Holds => "running in a critical section",
            Self::Waits => "waiting for a lock",
            Self::Asleep => "asleep in a critical section",
            Self::Preempted => "preempted in a critical section",
            Self::Off => "off CPU in a critical section",
            Self::Idles => "waiting for a condition",
            Self::Away => "off CPU",
        }
    }
}

/// A lock, the place where a thread acquires it, and the place where its owner acquired it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// The name of the lock.
    pub lock: String,
    /// Where it is acquired.
    pub place: String,
    /// Where the owner acquired it. Empty if unknown, or if the act is not a wait.
    pub held_at: String,
}

/// One act of a thread. Times are nanoseconds after the start of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start time.
    pub begin_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// The act.
    pub act: Act,
    /// Its lock and places: an index into [`Lanes::tags`].
    pub tag: Option<usize>,
}

impl Span {
    /// Returns the end time.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns.saturating_add(self.length_ns)
    }
}

/// A thread and its acts. Its spans do not overlap and are in chronological order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Its process.
    pub pid: u64,
    /// The thread.
    pub thread: u64,
    /// The known acts.
    pub spans: Vec<Span>,
}

/// The longest uninterrupted time in which threads waited for one lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LongWait {
    /// The lock.
    pub lock: String,
    /// Its process.
    pub pid: u64,
    /// Start time, seconds after the start of its process.
    pub begin_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// Largest number of threads that waited for the lock at the same time, in the whole run.
    pub most: u64,
}

/// A wakeup: a release, and the wait that it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The lane of the owner and the lane of the waiter.
    pub lanes: [usize; 2],
    /// When the owner released the lock, in nanoseconds. The end of the wait if the release is
    /// unknown.
    pub released_ns: u64,
    /// When the wait ended, in nanoseconds.
    pub at_ns: u64,
    /// The lock and the places: an index into [`Lanes::tags`].
    pub tag: usize,
}

/// All threads of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lanes {
    /// Length of the longest process, in seconds.
    pub seconds: f64,
    /// Threads, in descending order of wait time.
    pub threads: Vec<Lane>,
    /// Number of threads of the record without any known act.
    pub unseen: u64,
    /// Locks and places of the spans.
    pub tags: Vec<Tag>,
    /// Ends of waits with a known owner.
    pub handovers: Vec<Handover>,
    /// Time of the waits for locks that ended in each phase, as a part of the phase.
    pub waiting: Vec<f64>,
    /// Length of a phase, in seconds.
    pub phase_s: f64,
    /// The longest convoy.
    pub longest: Option<LongWait>,
    /// Spans shorter than this, in nanoseconds, are shown together. 0 if all are shown separately.
    pub joined_ns: u64,
}

impl Lanes {
    /// Returns the activity of the threads of a record.
    pub fn new(record: &Record) -> Self {
        fn order(lane: &Lane) -> std::cmp::Reverse<u64> {
            let waits = lane.spans.iter().filter(|span| span.act == Act::Waits);
            std::cmp::Reverse(waits.map(|span| span.length_ns).fold(0, u64::saturating_add))
        }
        let mut lanes = Self::default();
        let mut book = Book::default();
        for process in &record.processes {
            lanes.seconds = lanes.seconds.max(process.seconds);
            book.process(process);
        }
        let mut all: Vec<Lane> = std::mem::take(&mut book.lanes).into_values().collect();
        all.retain(|lane| !lane.spans.is_empty());
        all.sort_by_key(|lane| (order(lane), lane.pid, lane.thread));
        let at = |key: Key| all.iter().position(|lane| (lane.pid, lane.thread) == key);
        let handover = |end: &End| {
            let [owner, waiter] = end.threads;
            let Span { tag, .. } = end.wait;
            let released_ns = book.released(end).unwrap_or(end.wait.end_ns());
            let (lanes, at_ns) = ([at(owner)?, at(waiter)?], end.wait.end_ns());
            Some(Handover { lanes, released_ns, at_ns, tag: tag? })
        };
        lanes.handovers = book.ends.iter().filter_map(handover).collect();
        let count = record.processes.iter().map(|process| process.threads);
        lanes.unseen = count.fold(0, u64::saturating_add).saturating_sub(all.len() as u64);
        lanes.threads = all;
        let mut tags: Vec<(Tag, usize)> = book.tags.into_iter().collect();
        tags.sort_by_key(|tag| tag.1);
        lanes.tags = tags.into_iter().map(|tag| tag.0).collect();
        lanes.phases(record);
        lanes.longest = longest(record);
        lanes
    }

    /// Returns whether it is unknown when threads waited.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.waiting.iter().all(|waiting| *waiting <= 0.0)
    }

    /// Sums the waits of all processes, in phases of the longest process that has phases: a shell
    /// or `timeout` lasts longer than the program that it starts, and waits for no lock.
    fn phases(&mut self, record: &Record) {
        let waits = record.processes.iter().filter(|process| process.phase_s > 0.0);
        let Some(first) = waits.max_by(|a, b| a.seconds.total_cmp(&b.seconds)) else { return };
        self.phase_s = first.phase_s;
        for process in &record.processes {
            let phases = match process.phases_lock_s.as_slice() {
                [] => &process.phases_wait_s,
                phases => phases,
            };
            for (at, waited_s) in phases.iter().enumerate() {
                let at = (at as f64 * process.phase_s / first.phase_s) as usize;
                if at >= PHASES {
                    break;
                }
                if self.waiting.len() <= at {
                    self.waiting.resize(at + 1, 0.0);
                }
                self.waiting[at] += waited_s / first.phase_s;
            }
        }
    }

    /// Joins short spans until there are at most `most`.
    pub fn thin(&mut self, most: usize) {
        let count = |lanes: &[Lane]| lanes.iter().map(|lane| lane.spans.len()).sum::<usize>();
        while count(&self.threads) > most && self.joined_ns < 1 << 60 {
            self.joined_ns = (self.joined_ns * 2).max(1000);
            for lane in &mut self.threads {
                lane.spans = joined(&lane.spans, self.joined_ns);
            }
        }
    }
}

/// Joins consecutive short spans into one span with the act that took most of the time.
fn joined(spans: &[Span], least_ns: u64) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    let mut parts: BTreeMap<(Act, Option<usize>), u64> = BTreeMap::new();
    let is_short = |span: &Span| span.length_ns < least_ns;
    for (at, span) in spans.iter().enumerate() {
        let goes_on = at > 0
            && is_short(&spans[at - 1])
            && is_short(span)
            && span.begin_ns.saturating_sub(spans[at - 1].end_ns()) < least_ns;
        if !goes_on {
            parts.clear();
            all.push(*span);
        }
        let part = parts.entry((span.act, span.tag)).or_default();
        *part = part.saturating_add(span.length_ns);
        if let (true, Some(last)) = (goes_on, all.last_mut()) {
            last.length_ns = span.end_ns().saturating_sub(last.begin_ns);
            let most = parts.iter().max_by_key(|part| part.1);
            (last.act, last.tag) = most.map_or((span.act, span.tag), |part| *part.0);
        }
    }
    all
}

/// Returns the longest convoy of all locks.
fn longest(record: &Record) -> Option<LongWait> {
    let every = record.processes.iter().flat_map(|process| {
        let locks = process.locks.iter().chain(&process.runtime_locks).chain(&process.futexes);
        locks.filter(|lock| lock.is_lock()).map(move |lock| LongWait {
            lock: lock.name.clone(),
            pid: process.pid,
            begin_s: lock.waiters.longest_at_s,
            length_s: lock.waiters.longest_s,
            most: lock.waiters.most,
        })
    });
    let longest = every.max_by(|a, b| a.length_s.total_cmp(&b.length_s));
    longest.filter(|longest| longest.length_s > 0.0)
}

/// A process and one of its threads.
type Key = (u64, u64);

/// Lanes under construction.
#[derive(Default)]
struct Book {
    lanes: BTreeMap<Key, Lane>,
    tags: BTreeMap<Tag, usize>,
    ends: Vec<End>,
    /// Release times of the locks of one name by a thread, in nanoseconds.
    releases: BTreeMap<(Key, String), Vec<u64>>,
}

/// End of a wait: the owner and the waiter, the lock, and the wait.
struct End {
    threads: [Key; 2],
    lock: String,
    wait: Span,
}

impl Book {
    fn tag(&mut self, lock: &str, place: &str, held_at: &str) -> usize {
        let [lock, place, held_at] = [lock, place, held_at].map(str::to_owned);
        let next = self.tags.len();
        *self.tags.entry(Tag { lock, place, held_at }).or_insert(next)
    }

    /// Returns when the owner released the lock of this wait, if known.
    fn released(&self, end: &End) -> Option<u64> {
        let releases = self.releases.get(&(end.threads[0], end.lock.clone()))?;
        let during = |at: &&u64| (end.wait.begin_ns..=end.wait.end_ns()).contains(*at);
        releases.iter().filter(during).max().copied()
    }

    fn lane(&mut self, pid: u64, thread: u64) -> &mut Lane {
        self.lanes.entry((pid, thread)).or_insert_with(|| Lane { pid, thread, spans: Vec::new() })
    }

    fn process(&mut self, process: &Process) {
        let offs: Vec<Act> =
            process.locks.iter().map(|lock| act_off(off_state(process, lock))).collect();
        for strip in &process.trace.strips {
            let spans = self.strip(process, strip, &offs);
            let lane = self.lane(process.pid, strip.thread);
            for span in spans {
                lane.fill(span);
            }
        }
        let ns = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
        // Waits first: the owner's activity during a wait is less certain.
        for is_owner in [false, true] {
            for event in &process.events {
                let thread = if is_owner { event.owner } else { event.thread };
                let Some(cause) = process.causes.get(event.cause).filter(|_| thread != 0) else {
                    continue;
                };
                let lock = process
                    .locks
                    .iter()
                    .position(|lock| lock.name == cause.lock && lock.kind == cause.kind);
                let act = match lock {
                    _ if !is_owner => Act::Waits,
                    _ if event.ran_s * 2.0 >= event.wait_s => Act::Holds,
                    Some(lock) => offs[lock],
                    None => Act::Off,
                };
                let tag = Some(self.tag(&cause.lock, &cause.place, &cause.held_at));
                let (begin_ns, length_ns) = (ns(event.begin_s), ns(event.wait_s));
                let span = Span { begin_ns, length_ns, act, tag };
                if is_owner {
                    let threads = [event.owner, event.thread].map(|one| (process.pid, one));
                    self.ends.push(End { threads, lock: cause.lock.clone(), wait: span });
                }
                self.lane(process.pid, thread).fill(span);
            }
        }
    }

    /// Returns the spans of a thread in one window.
    fn strip(&mut self, process: &Process, strip: &Strip, offs: &[Act]) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut held: Vec<(usize, usize)> = Vec::new();
        let mut now = (strip.begin_s.max(0.0) * 1e9) as u64;
        for step in &strip.steps {
            let Some(place) = process.trace.places.get(step.place) else { continue };
            let lock = place.lock as usize;
            let tag = |book: &mut Self| {
                let name = process.locks.get(lock).map_or("", |lock| lock.name.as_str());
                book.tag(name, &place.site, "")
            };
            let between = match held.last() {
                None if step.off => (Act::Away, None),
                None => (Act::Runs, None),
                Some((tag, lock)) if step.off => {
                    (offs.get(*lock).copied().unwrap_or(Act::Off), Some(*tag))
                }
                Some((tag, _)) => (Act::Holds, Some(*tag)),
            };
            append(&mut spans, &mut now, step.gap_ns, between);
            let is_lock = process.locks.get(lock).is_some_and(convoy_record::Lock::is_lock);
            let during = match step.what {
                What::Lock if step.took_ns < SHORT_NS => between,
                What::Lock if is_lock => (Act::Waits, Some(tag(self))),
                What::Lock | What::Wait | What::Barrier => (Act::Idles, Some(tag(self))),
                What::Yield => (Act::Away, None),
                _ => between,
            };
            append(&mut spans, &mut now, step.took_ns, during);
            if step.what == What::Unlock && is_lock {
                let key = ((process.pid, strip.thread), process.locks[lock].name.clone());
                self.releases.entry(key).or_default().push(now);
            }
            self.hold(process, *step, is_lock, &mut held);
        }
        spans
    }

    /// Updates the locks that a thread holds after a step.
    fn hold(
        &mut self,
        process: &Process,
        step: Step,
        is_lock: bool,
        held: &mut Vec<(usize, usize)>,
    ) {
        let place = &process.trace.places[step.place];
        let lock = place.lock as usize;
        match step.what {
            What::Lock if is_lock && !step.failed => {
                held.push((self.tag(process.locks[lock].name.as_str(), &place.site, ""), lock));
            }
            What::Unlock => {
                if let Some(at) = held.iter().rposition(|(_, other)| *other == lock) {
                    held.remove(at);
                }
            }
            _ => {}
        }
    }
}

/// Extends the last span if it has the same act and tag, or adds a new one.
fn append(spans: &mut Vec<Span>, now: &mut u64, length_ns: u64, (act, tag): (Act, Option<usize>)) {
    let begin_ns = *now;
    *now = now.saturating_add(length_ns);
    if length_ns == 0 {
        return;
    }
    match spans.last_mut().filter(|last| (last.act, last.tag) == (act, tag)) {
        Some(last) => last.length_ns = last.length_ns.saturating_add(length_ns),
        None => spans.push(Span { begin_ns, length_ns, act, tag }),
    }
}

impl Lane {
    /// Adds the parts of a span for which no act is known.
    fn fill(&mut self, span: Span) {
        let (mut begin, end) = (span.begin_ns, span.end_ns());
        let mut at = self.spans.partition_point(|other| other.end_ns() <= begin);
        while begin < end {
            let next = self.spans.get(at).map(|other| (other.begin_ns, other.end_ns()));
            let until = next.map_or(end, |(other, _)| other.min(end));
            if until > begin {
                let part = Span { begin_ns: begin, length_ns: until - begin, ..span };
                self.spans.insert(at, part);
                at += 1;
            }
            begin = next.map_or(end, |(_, other)| other.max(begin));
            at += 1;
        }
    }
}

/// Returns the act of an owner that is on no CPU.
fn act_off(owner: OwnerState) -> Act {
    match owner {
        OwnerState::Preempted => Act::Preempted,
        OwnerState::Asleep | OwnerState::Waits => Act::Asleep,
        _ => Act::Off,
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
pub(crate) mod tests;
