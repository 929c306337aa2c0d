//! The order of `SeqCst` operations: the relation `psc` of RC11 must have no cycle. The paper
//! defines these relations (Lahav and others, PLDI 2017, section 3).
//!
//! Between two events no relation changes once both have happened: only a new event adds edges. So
//! the edges are kept, and each event adds its own.

use super::view::View;
use std::rc::Rc;

/// What an event does to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    Write,
    Modify,
    Fence,
}

/// A step of a task.
pub(super) struct Step {
    pub(super) task: usize,
    /// Its number among the events of its task, from 1.
    pub(super) number: u32,
    /// The word, and the position that it reads, or writes if it writes.
    pub(super) at: Option<(usize, u32)>,
    pub(super) effect: Effect,
    /// Whether its ordering is `SeqCst`.
    pub(super) sequential: bool,
    /// What the task knew after it.
    pub(super) view: Rc<View>,
}

/// A set of `SeqCst` events.
type Set = u128;

/// A step in the order of the execution.
#[derive(Clone, Copy)]
struct Trace {
    task: usize,
    at: Option<(usize, u32)>,
    effect: Effect,
}

/// A step with its relations to others.
#[derive(Clone, Copy)]
struct Event {
    task: usize,
    number: u32,
    at: Option<(usize, u32)>,
    effect: Effect,
    /// Number of the next event of its task that accesses another word.
    next: Option<u32>,
    /// The set of itself, if it is of `SeqCst`.
    itself: Set,
    /// Fences that happened before it.
    after: Set,
    /// Fences that it happened before.
    before: Set,
    /// Events from which a path leads to it that continues to those fences.
    from: Set,
}

impl Event {
    /// Returns whether the event happened before a later one, of `task`, with this view.
    fn is_seen(&self, task: usize, view: &View) -> bool {
        self.task == task || self.number <= view.events(self.task)
    }

    fn place(&self) -> Option<usize> {
        self.at.map(|(place, _)| place)
    }

    fn writes(&self) -> bool {
        matches!(self.effect, Effect::Write | Effect::Modify)
    }

    fn is_fence(&self) -> bool {
        self.effect == Effect::Fence
    }

    /// Of events of one word: returns the `SeqCst` events from which an edge leads to `other`
    /// through this event, and whether it is an edge to `other` itself: by `mo`, `rb` or `hb`, if
    /// the event `happened` before. An edge by `eco` leads only from fences and to fences.
    fn leads(&self, other: &Self, happened: bool) -> (Set, bool) {
        let is_older = other.at > self.at;
        let reads_own = other.effect == Effect::Read && self.writes() && other.at == self.at;
        match other.writes() && is_older || happened {
            true => (self.itself | self.after, true),
            false if is_older || reads_own => (self.after, false),
            false => (0, false),
        }
    }
}

/// The last events of a task.
#[derive(Default)]
struct Last {
    /// The word of the last event, and the knowledge of the task after it.
    event: Option<(Option<usize>, Rc<View>)>,
    /// The same after its last event that accessed another word.
    other: Option<Rc<View>>,
    /// Its reads since it wrote, with the number in [`Graph::events`]. A read that repeats one
    /// of these has all edges of that one.
    reads: Vec<((usize, u32), usize)>,
}

/// The events of an execution.
#[derive(Default)]
pub(super) struct Graph {
    trace: Vec<Trace>,
    /// Without reads that the same task has repeated, see [`Last::reads`].
    events: Vec<Event>,
    /// For each `SeqCst` event those to which an edge leads.
    edges: Vec<Set>,
    last: Vec<Last>,
    /// Number of `SeqCst` events, and the set of their tasks.
    sequential: usize,
    tasks: u64,
}

reusing_clone! {
    Last { event other reads }
    Graph { trace events edges last sequential tasks }
}

/// Adds edges from each event of `from` to `into`.
fn connect(edges: &mut [Set], mut from: Set, into: Set) {
    while from != 0 {
        edges[from.trailing_zeros() as usize] |= into;
        from &= from - 1;
    }
}

impl Graph {
    pub(super) fn push(&mut self, step: Step) {
        let Step { task, number, at, effect, sequential, view } = step;
        self.trace.push(Trace { task, at, effect });
        self.sequential += usize::from(sequential);
        self.tasks |= u64::from(sequential) << task;
        if !self.is_judged() {
            return;
        }
        let itself = if sequential { 1 << self.edges.len() } else { 0 };
        self.edges.extend(sequential.then_some(0));
        let (next, after, before, from) = (None, 0, 0, 0);
        let mut event = Event { task, number, at, effect, next, itself, after, before, from };
        if self.last.len() <= task {
            self.last.resize_with(task + 1, Last::default);
        }
        self.order(&mut event, &view);
        self.cohere(&mut event, &view);
        self.keep(event, view);
    }

    /// Adds the edges to `event` from the order of its task, and from `hb` without its word alone.
    fn order(&mut self, event: &mut Event, view: &View) {
        let Self { events, edges, last, .. } = self;
        let last = &last[event.task];
        let elsewhere = match &last.event {
            Some((place, seen)) if *place != event.place() => Some(seen),
            _ => last.other.as_ref(),
        };
        for earlier in events.iter_mut().filter(|earlier| earlier.itself != 0) {
            let happened = earlier.is_seen(event.task, view);
            if happened && earlier.is_fence() {
                event.after |= earlier.itself;
            }
            let leads = if earlier.is_fence() || event.is_fence() || earlier.task == event.task {
                happened
            } else {
                // `sb≠loc ; hb ; sb≠loc`.
                let inner = earlier.next.zip(elsewhere);
                inner.is_some_and(|(next, seen)| next <= seen.events(earlier.task))
            };
            connect(edges, earlier.itself, if leads { event.itself } else { 0 });
            if earlier.task == event.task && earlier.place() != event.place() {
                earlier.next.get_or_insert(event.number);
            }
        }
    }

    /// Adds the edges by `mo`, `rb` and `hb` at the word of `event`, and between fences by `eco`.
    fn cohere(&mut self, event: &mut Event, view: &View) {
        let Self { events, edges, .. } = self;
        for earlier in events.iter_mut() {
            if event.at.is_some() && earlier.place() == event.place() {
                let happened = earlier.is_seen(event.task, view);
                let (from, directly) = earlier.leads(event, happened);
                event.from |= from;
                connect(edges, from, if directly { event.itself } else { 0 });
                let (from, directly) = event.leads(earlier, false);
                earlier.from |= from;
                let into = if directly { earlier.itself } else { 0 };
                connect(edges, from, into | earlier.before);
            }
            if event.is_fence() && earlier.is_seen(event.task, view) {
                earlier.before |= event.itself;
                connect(edges, earlier.from, event.itself);
            }
        }
    }

    fn keep(&mut self, event: Event, view: Rc<View>) {
        let (place, last) = (event.place(), &mut self.last[event.task]);
        let before = last.event.replace((place, view));
        if let Some((_, seen)) = before.filter(|&(before, _)| before != place) {
            last.other = Some(seen);
        }
        if event.effect != Effect::Read || event.itself != 0 {
            last.reads.clear();
        } else if let Some(at) = event.at {
            if let Some(&(_, repeated)) = last.reads.iter().find(|&&(read, _)| read == at) {
                self.events[repeated] = event;
                return;
            }
            last.reads.push((at, self.events.len()));
        }
        self.events.push(event);
    }

    /// Moves `position` of a word and all after it up by one.
    pub(super) fn insert(&mut self, place: usize, position: u32) {
        let trace = self.trace.iter_mut().filter_map(|step| step.at.as_mut());
        let events = self.events.iter_mut().filter_map(|event| event.at.as_mut());
        let reads = self.last.iter_mut().flat_map(|last| &mut last.reads).map(|(at, _)| at);
        for (moved, at) in trace.chain(events).chain(reads) {
            if *moved == place && *at >= position {
                *at += 1;
            }
        }
    }

    /// Returns whether the record is short enough to be judged.
    pub(super) fn is_judged(&self) -> bool {
        self.sequential <= Set::BITS as usize
    }

    /// Returns whether `psc` has no cycle. A record that is too long to be judged is taken to have
    /// one: see [`Self::is_judged`].
    pub(super) fn is_consistent(&self) -> bool {
        self.tasks.count_ones() < 2 || self.is_judged() && is_acyclic(&self.edges)
    }

    pub(super) fn digest(&self, address: impl Fn(usize) -> usize, add: &mut impl FnMut(u64)) {
        let tasks = self.trace.iter().map(|event| event.task + 1).max().unwrap_or(0);
        for task in 0..tasks {
            for event in self.trace.iter().filter(|event| event.task == task) {
                let (word, position) =
                    event.at.map_or((0, 0), |(place, position)| (address(place), position));
                add(word as u64);
                add(u64::from(position) << 8 | event.effect as u64);
            }
            add(u64::MAX);
        }
    }
}

/// Returns whether a relation on few events has no cycle.
fn is_acyclic(edges: &[Set]) -> bool {
    let mut left: Set =
        if edges.len() == Set::BITS as usize { Set::MAX } else { (1 << edges.len()) - 1 };
    loop {
        let done = (0..edges.len()).filter(|&event| left & 1 << event != 0);
        let done = done.filter(|&event| edges[event] & left == 0);
        let done = done.fold(0, |done: Set, event| done | 1 << event);
        if done == 0 {
            return left == 0;
        }
        left &= !done;
    }
}
