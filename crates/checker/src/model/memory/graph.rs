//! The order of `SeqCst` operations: the relation `psc` of RC11 must have no cycle. The paper
//! defines these relations (Lahav and others, PLDI 2017, section 3).

use super::view::View;
use std::collections::BTreeMap;
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
#[derive(Clone)]
pub(super) struct Event {
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

impl Event {
    /// Returns whether the event happened before `other`.
    fn before(&self, other: &Self) -> bool {
        if self.task == other.task {
            self.number < other.number
        } else {
            self.number <= other.view.events(self.task)
        }
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

    /// Of events of one word: whether `mo`, `rb` or `hb` leads from the event to `other`.
    fn is_ordered(&self, other: &Self) -> bool {
        other.writes() && other.at > self.at || self.before(other)
    }

    /// The same for `eco`.
    fn is_coherent(&self, other: &Self) -> bool {
        let reads_own = other.effect == Effect::Read && self.writes() && other.at == self.at;
        other.at > self.at || reads_own
    }
}

/// The events of an execution.
#[derive(Clone, Default)]
pub(super) struct Graph(Vec<Event>);

impl Graph {
    pub(super) fn push(&mut self, event: Event) {
        self.0.push(event);
    }

    /// Moves `position` of a word and all after it up by one.
    pub(super) fn insert(&mut self, place: usize, position: u32) {
        for (moved, at) in self.0.iter_mut().filter_map(|event| event.at.as_mut()) {
            if *moved == place && *at >= position {
                *at += 1;
            }
        }
    }

    /// Returns the events of the task of `event` before and after it that access another word.
    fn around(&self, event: &Event) -> [Option<&Event>; 2] {
        let mut around = [None; 2];
        let events = self.0.iter().filter(|other| other.task == event.task);
        for other in events.filter(|other| other.place() != event.place()) {
            if other.number < event.number {
                around[0] = Some(other);
            } else if around[1].is_none() && other.number > event.number {
                around[1] = Some(other);
            }
        }
        around
    }

    /// Returns whether the record is short enough to be judged.
    pub(super) fn is_judged(&self) -> bool {
        self.0.iter().filter(|event| event.sequential).count() <= Set::BITS as usize
    }

    /// Returns whether `psc` has no cycle. A record that is too long to be judged is taken to have
    /// one: see [`Self::is_judged`].
    pub(super) fn is_consistent(&self) -> bool {
        let sequential: Vec<&Event> = self.0.iter().filter(|event| event.sequential).collect();
        let tasks = sequential.iter().fold(0_u64, |tasks, event| tasks | 1 << event.task);
        if tasks.count_ones() < 2 {
            return true;
        }
        if sequential.len() > Set::BITS as usize {
            return false;
        }
        let mut edges = vec![0; sequential.len()];
        let around: Vec<_> = sequential.iter().map(|event| self.around(event)).collect();
        for (number, from) in sequential.iter().enumerate() {
            for (other, to) in sequential.iter().enumerate().filter(|&(other, _)| other != number) {
                let fence = from.is_fence() || to.is_fence();
                let leads = if fence || from.task == to.task {
                    from.before(to)
                } else {
                    // Program order, and `hb` without this word alone: `sb≠loc ; hb ; sb≠loc`.
                    let inner = around[number][1].zip(around[other][0]);
                    inner.is_some_and(|(after, before)| after.before(before))
                };
                if leads {
                    edges[number] |= 1 << other;
                }
            }
        }
        self.add_edges(&sequential, &mut edges);
        is_acyclic(&mut edges)
    }

    /// Adds the edges by `mo`, `rb`, `hb` at one word and, between fences, by `eco`.
    fn add_edges(&self, sequential: &[&Event], edges: &mut [Set]) {
        let fences = sequential.iter().enumerate().filter(|(_, event)| event.is_fence());
        let fences: Vec<_> = fences.collect();
        let mut numbers = 0..sequential.len();
        let ends = self.0.iter().map(|event| {
            let set = |orders: &dyn Fn(&Event) -> bool| {
                let ordered = fences.iter().filter(|(_, fence)| orders(fence));
                ordered.fold(0, |set: Set, (number, _)| set | 1 << number)
            };
            let after = set(&|fence| fence.before(event));
            let before = set(&|fence| event.before(fence));
            let number = if event.sequential { numbers.next() } else { None };
            (number.map_or(0, |number| 1 << number), after, before)
        });
        // Only events between two of `SeqCst` add edges, and only with those of the same word.
        let mut places: BTreeMap<usize, [Vec<Pole<'_>>; 2]> = BTreeMap::new();
        for (event, (itself, after, before)) in self.0.iter().zip(ends) {
            let Some(place) = event.place() else { continue };
            let [starts, ends] = places.entry(place).or_default();
            if itself | after != 0 {
                starts.push((event, itself, after));
            }
            if itself | before != 0 {
                ends.push((event, itself, before));
            }
        }
        for [starts, ends] in places.values() {
            add_pairs(starts, ends, edges);
        }
    }

    pub(super) fn digest(&self, address: impl Fn(usize) -> usize, add: &mut impl FnMut(u64)) {
        let tasks = self.0.iter().map(|event| event.task + 1).max().unwrap_or(0);
        for task in 0..tasks {
            for event in self.0.iter().filter(|event| event.task == task) {
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
fn is_acyclic(edges: &mut [Set]) -> bool {
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

/// An event, the set of itself if it is of `SeqCst`, and the set of fences before it or after it.
type Pole<'a> = (&'a Event, Set, Set);

/// Adds the edges by pairs of events of one word.
fn add_pairs(starts: &[Pole<'_>], ends: &[Pole<'_>], edges: &mut [Set]) {
    for &(x, x_itself, x_after) in starts {
        for &(y, y_itself, y_before) in ends {
            if std::ptr::eq(x, y) {
                continue;
            }
            let ordered = x.is_ordered(y);
            let from = if ordered { x_itself | x_after } else { x_after };
            let into = match (ordered, x.is_coherent(y)) {
                (true, _) => y_itself | y_before,
                (false, true) => y_before,
                (false, false) => continue,
            };
            let mut left = from;
            while left != 0 {
                edges[left.trailing_zeros() as usize] |= into;
                left &= left - 1;
            }
        }
    }
}
