//! Activity of the threads of a recorded program over time: their steps in the recorded windows,
//! and sampled waits of the whole run. A critical section is drawn from its acquisition to its
//! release if the record contains both, and a wait if it contains its beginning and end. All other
//! time is blank.

use std::collections::{BTreeMap, BTreeSet};

use convoy_record::trace::{Place, Strip, What};
use convoy_record::{LOCK_OF, Lock, Process, Record};

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
    /// Was switched away in a critical section, for an unknown part of this time.
    Off,
    /// Waits for a condition or at a barrier.
    Idles,
    /// Was switched away outside of critical sections, for an unknown part of this time.
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
            Self::Off => "off CPU during a critical section",
            Self::Idles => "waiting for a condition",
            Self::Away => "off CPU in between",
        }
    }
}

/// A lock, the place where a thread acquires it, and the place where its owner acquired it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// The name of the lock.
    pub lock: String,
    /// Which of several locks with that name. Empty if there is one, or if it is unknown.
    pub element: String,
    /// Where it is acquired.
    pub place: String,
    /// Where the owner acquired it. Empty if unknown, or if the act is not a wait.
    pub held_at: String,
    /// The functions that called the place, outermost first.
    pub callers: Vec<String>,
}

impl Tag {
    /// Returns the name of the lock, or of one of several locks.
    pub fn name(&self) -> &str {
        if self.element.is_empty() { &self.lock } else { &self.element }
    }
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
    /// Its name; empty if the program gave it none.
    pub name: String,
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
    /// When the owner released the lock, in nanoseconds.
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
    /// Ends of waits with a recorded release.
    pub handovers: Vec<Handover>,
    /// Time of the waits for locks that ended in each phase, as a part of the phase.
    pub waiting: Vec<f64>,
    /// Length of a phase, in seconds.
    pub phase_s: f64,
    /// The longest convoy.
    pub longest: Option<LongWait>,
    /// Spans shorter than this, in nanoseconds, are left out.
    pub least_ns: u64,
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
        let mut threads: Vec<Lane> = std::mem::take(&mut book.lanes).into_values().collect();
        threads.retain(|lane| !lane.spans.is_empty());
        threads.sort_by_key(|lane| (order(lane), lane.pid, lane.thread));
        let count = record.processes.iter().map(|process| process.threads);
        lanes.unseen = count.fold(0, u64::saturating_add).saturating_sub(threads.len() as u64);
        let mut tags: Vec<(Tag, usize)> = std::mem::take(&mut book.tags).into_iter().collect();
        tags.sort_by_key(|tag| tag.1);
        lanes.tags = tags.into_iter().map(|tag| tag.0).collect();
        let ends = book.ends.iter();
        lanes.handovers =
            ends.filter_map(|end| book.handover(end, &threads, &lanes.tags)).collect();
        lanes.threads = threads;
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

    /// Leaves out short spans until there are at most `most`.
    pub fn thin(&mut self, most: usize) {
        while self.spans() > most && self.least_ns < 1 << 60 {
            self.least_ns = (self.least_ns * 2).max(128);
            for lane in &mut self.threads {
                lane.spans.retain(|span| span.length_ns >= self.least_ns);
            }
        }
    }

    /// Returns the number of spans of all threads.
    pub fn spans(&self) -> usize {
        self.threads.iter().map(|lane| lane.spans.len()).sum()
    }
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

/// A thread, and the lock that it released.
type Released = (Key, String, String);

/// Lanes under construction.
#[derive(Default)]
struct Book {
    lanes: BTreeMap<Key, Lane>,
    tags: BTreeMap<Tag, usize>,
    ends: Vec<End>,
    /// Release times in nanoseconds.
    releases: BTreeMap<Released, Vec<u64>>,
}

/// End of a wait: the owner and the waiter, and the wait.
struct End {
    threads: [Key; 2],
    wait: Span,
}

impl Book {
    fn tag(&mut self, tag: Tag) -> usize {
        let next = self.tags.len();
        *self.tags.entry(tag).or_insert(next)
    }

    /// Returns the release that ended a wait, if it is recorded: the last one during the wait, if
    /// it is the known owner's.
    fn handover(&self, end: &End, lanes: &[Lane], tags: &[Tag]) -> Option<Handover> {
        /// Maximum time between the ends of the same wait in a window and in the sample of waits.
        const SAME_NS: u64 = 1000;
        let [owner, waiter] =
            end.threads.map(|key| lanes.iter().position(|lane| (lane.pid, lane.thread) == key));
        let (lanes_of, at_ns, tag) = ([owner?, waiter?], end.wait.end_ns(), end.wait.tag?);
        let lock = &tags[tag].lock;
        let mut waits = lanes[lanes_of[1]].spans.iter().filter(|span| span.act == Act::Waits);
        let step = waits.find(|span| span.end_ns().abs_diff(at_ns) <= SAME_NS)?;
        let Tag { lock: waited, element, .. } = &tags[step.tag?];
        let during = |time: &u64| (end.wait.begin_ns..=at_ns).contains(time);
        let last = |(key, times): (&Released, &Vec<u64>)| {
            let is_it = key.1 == *lock && key.2 == *element && key.0.0 == end.threads[0].0;
            let last = times.iter().copied().filter(during).max().filter(|_| is_it)?;
            Some((last, key.0))
        };
        let (released_ns, thread) = self.releases.iter().filter_map(last).max()?;
        let is_known = waited == lock && thread == end.threads[0] && thread != end.threads[1];
        is_known.then_some(Handover { lanes: lanes_of, released_ns, at_ns, tag })
    }

    fn lane(&mut self, pid: u64, thread: u64) -> &mut Lane {
        let lane = self.lanes.entry((pid, thread)).or_default();
        (lane.pid, lane.thread) = (pid, thread);
        lane
    }

    fn process(&mut self, process: &Process) {
        for strip in &process.trace.strips {
            let spans = self.strip(process, strip);
            let lane = self.lane(process.pid, strip.thread);
            for span in spans {
                lane.fill(span);
            }
        }
        for event in process.events.iter().filter(|event| event.thread != 0) {
            let Some(cause) = process.causes.get(event.cause) else { continue };
            let [lock, place, held_at] =
                [&cause.lock, &cause.place, &cause.held_at].map(String::clone);
            let named = process.locks.iter().find(|one| one.name == lock);
            let callers = named.map_or(Vec::new(), |lock| callers(lock, &place, event.thread));
            let tag = Tag { lock, element: String::new(), place, held_at, callers };
            let tag = Some(self.tag(tag));
            let (begin_ns, length_ns) = (ns(event.begin_s), ns(event.wait_s));
            let wait = Span { begin_ns, length_ns, act: Act::Waits, tag };
            let threads = [event.owner, event.thread].map(|thread| (process.pid, thread));
            self.ends.push(End { threads, wait });
            self.lane(process.pid, event.thread).fill(wait);
        }
        for lane in self.lanes.values_mut().filter(|lane| lane.pid == process.pid) {
            process.name_of(lane.thread).unwrap_or_default().clone_into(&mut lane.name);
        }
    }

    /// Returns the spans of a thread in one window.
    fn strip(&mut self, process: &Process, strip: &Strip) -> Vec<Span> {
        let (mut held, whole) = held(process, strip);
        let mut spans: Vec<Span> = Vec::new();
        let mut now = ns(strip.begin_s);
        for (number, step) in strip.steps.iter().enumerate() {
            let Some(place) = process.trace.places.get(step.place) else { continue };
            append(&mut spans, &mut now, step.gap_ns, act(&held, step.off));
            let lock = process.locks.get(place.lock as usize);
            let is_lock = lock.is_some_and(Lock::is_lock);
            let tag = lock.map(|lock| Tag {
                lock: lock.name.clone(),
                element: element(lock, place),
                place: place.site.clone(),
                held_at: String::new(),
                callers: callers(lock, &place.site, strip.thread),
            });
            if let (What::Unlock, Some(tag)) = (step.what, &tag) {
                let key = ((process.pid, strip.thread), tag.lock.clone(), tag.element.clone());
                self.releases.entry(key).or_default().push(now);
                if let Some(at) = held.iter().rposition(|hold| hold.lock == lock_of(place)) {
                    held.remove(at);
                }
            }
            let tag = tag.map(|tag| self.tag(tag));
            let during = match step.what {
                What::Lock if step.took_ns < SHORT_NS => act(&held, false),
                What::Lock if is_lock => Some((Act::Waits, tag)),
                What::Lock | What::Wait | What::Barrier => Some((Act::Idles, tag)),
                What::Yield => Some((Act::Away, None)),
                _ => act(&held, false),
            };
            append(&mut spans, &mut now, step.took_ns, during);
            if is_lock && step.what == What::Lock && !step.failed {
                let tag = tag.filter(|_| whole.contains(&number));
                held.push(Hold { lock: lock_of(place), tag });
            }
        }
        spans
    }
}

/// Returns the callers of a place of a lock, in a thread.
fn callers(lock: &Lock, place: &str, thread: u64) -> Vec<String> {
    let site = lock.sites.iter().find(|site| site.place == place && !site.stacks.is_empty());
    site.map_or(Vec::new(), |site| site.callers(thread).to_vec())
}

/// Returns the name of one of several locks with the same name.
fn element(lock: &Lock, place: &Place) -> String {
    match place.element.as_str() {
        _ if lock.instances <= 1 => String::new(),
        "" if lock.name.starts_with(LOCK_OF) => format!("{} #{}", lock.name, place.instance + 1),
        "" => lock.name.clone(),
        element => element.to_owned(),
    }
}

/// A critical section of a thread.
struct Hold {
    lock: (u64, u64),
    /// `None` if its acquisition or its release is not recorded.
    tag: Option<usize>,
}

/// Returns the number of a lock and its number among those of the same name.
fn lock_of(place: &Place) -> (u64, u64) {
    (place.lock, place.instance)
}

/// Returns the critical sections that began before a window, and the steps in it that acquire a
/// lock which the thread releases in the same window.
fn held(process: &Process, strip: &Strip) -> (Vec<Hold>, BTreeSet<usize>) {
    let (mut before, mut whole) = (Vec::new(), BTreeSet::new());
    let mut begun: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (number, step) in strip.steps.iter().enumerate() {
        let Some(lock) = process.trace.places.get(step.place).map(lock_of) else { continue };
        match step.what {
            What::Lock if !step.failed => begun.entry(lock).or_default().push(number),
            What::Unlock => match begun.entry(lock).or_default().pop() {
                Some(begin) => drop(whole.insert(begin)),
                None => before.push(Hold { lock, tag: None }),
            },
            _ => {}
        }
    }
    (before, whole)
}

/// Returns the act of a thread that holds these locks, or `None` if it is unknown.
fn act(held: &[Hold], off: bool) -> Option<(Act, Option<usize>)> {
    let tag = held.iter().rev().find_map(|hold| hold.tag);
    match (tag, off) {
        (None, _) if !held.is_empty() => None,
        (None, true) => Some((Act::Away, None)),
        (None, false) => Some((Act::Runs, None)),
        (tag, true) => Some((Act::Off, tag)),
        (tag, false) => Some((Act::Holds, tag)),
    }
}

/// Returns the nanoseconds of a time in seconds.
fn ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9).round() as u64
}

/// Extends the last span if it has the same act and tag, or adds a new one. Adds none for an
/// unknown act.
fn append(
    spans: &mut Vec<Span>,
    now: &mut u64,
    length_ns: u64,
    known: Option<(Act, Option<usize>)>,
) {
    let begin_ns = *now;
    *now = now.saturating_add(length_ns);
    let Some((act, tag)) = known.filter(|_| length_ns > 0) else { return };
    let is_same = |last: &&mut Span| (last.act, last.tag, last.end_ns()) == (act, tag, begin_ns);
    match spans.last_mut().filter(is_same) {
        Some(last) => last.length_ns = last.length_ns.saturating_add(length_ns),
        None => spans.push(Span { begin_ns, length_ns, act, tag }),
    }
}

impl Lane {
    /// Returns the thread with its name.
    pub fn label(&self) -> String {
        match self.name.as_str() {
            "" => self.thread.to_string(),
            name => format!("{name} ({})", self.thread),
        }
    }

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

#[cfg(test)]
#[path = "lanes_tests.rs"]
pub(crate) mod tests;
