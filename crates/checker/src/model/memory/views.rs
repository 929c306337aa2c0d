//! RC11 as a machine of views (Lahav and others, PLDI 2017): each word has its modification order,
//! and each task knows a part of it. A load reads any write that is not older than the newest one
//! that happened before it; a store takes any position after that one. A read-modify-write follows
//! the write that it reads without a gap.
//!
//! Writes carry a view: what the task knew at the release that heads their release sequence, or at
//! its last release fence. A release sequence is that of the paper: it has later stores of the same
//! task to the same word, and read-modify-writes of any task. Reads happen after the writes that
//! they read in the order of the execution, so a cycle of program order and reads-from (load
//! buffering) does not occur, as RC11 demands. Orders of `SeqCst` are judged in [`Graph`].

use super::graph::{Effect, Graph, Step};
use super::operation::{Cell, Kind, Operation, acquires, releases};
use super::view::{View, join, raise};
use core::ops::Range;
use core::sync::atomic::Ordering;
use std::rc::Rc;

/// The largest number of variants of one step.
const VARIANTS: usize = 64;

/// A write.
#[derive(Clone)]
struct Message {
    value: u64,
    /// Whether a read-modify-write made it that read the message before it.
    tied: bool,
    view: Rc<View>,
}

/// A word.
struct Place {
    word: Cell,
    /// Position of the first message. No task can read earlier ones.
    base: u32,
    /// The modification order.
    messages: Vec<Message>,
}

/// What a task knows.
#[derive(Default)]
struct Task {
    now: Rc<View>,
    /// What it will know after an acquire fence.
    acquired: Rc<View>,
    /// What it knew at its last release fence.
    released: Rc<View>,
    /// What it knew at its last release store to each word.
    stores: Vec<(usize, Rc<View>)>,
    ended: bool,
}

/// Data that is not atomic: the number of the last write, then of the last read of each task.
struct Datum {
    address: usize,
    last: Vec<u32>,
}

/// Address of data that is in no use any more.
const ENDED: usize = 0;

impl Datum {
    fn end(&mut self) {
        self.address = ENDED;
        self.last.clear();
    }
}

/// A step that is being executed.
#[derive(Clone, Copy)]
struct Current {
    place: usize,
    /// The message that it writes.
    writes: Option<usize>,
}

/// See the module documentation.
pub(in crate::model) struct Views {
    places: Vec<Place>,
    tasks: Vec<Task>,
    data: Vec<Datum>,
    /// Memory that a task began to use, with the number of the datum that stands for its first
    /// values.
    fresh: Vec<(Range<usize>, usize)>,
    current: Option<Current>,
    /// The events, if the scenario has operations of `SeqCst`.
    graph: Option<Graph>,
    lacks_record: bool,
    /// Whether a step was stale.
    strays: bool,
    /// Whether a step since the last judgement was stale or of `SeqCst`.
    doubtful: bool,
}

reusing_clone! {
    Place { word base messages }
    Task { now acquired released stores ended }
    Datum { address last }
    Views { places tasks data fresh current graph lacks_record strays doubtful }
}

impl Place {
    /// Returns the index of the oldest message that a task with this view may read.
    fn oldest(&self, view: &View, place: usize) -> usize {
        view.position(place).saturating_sub(self.base) as usize
    }

    /// Returns whether a read-modify-write may follow message number `at`.
    fn is_free_after(&self, at: usize) -> bool {
        self.messages.get(at + 1).is_none_or(|next| !next.tied)
    }
}

impl Views {
    pub(super) fn new(tasks: usize, sequential: bool) -> Self {
        Self {
            places: Vec::new(),
            tasks: vec![Task::default(); tasks],
            data: Vec::new(),
            fresh: Vec::new(),
            current: None,
            graph: sequential.then(Graph::default),
            lacks_record: false,
            strays: false,
            doubtful: false,
        }
    }

    /// Returns the number of the word. It begins, or begins again, with the value that it holds:
    /// the memory of a record on a stack is used again.
    fn place(&mut self, word: Cell) -> usize {
        let number = self.places.iter().position(|place| place.word == word);
        let number = number.unwrap_or_else(|| {
            self.places.push(Place { word, base: 1, messages: Vec::new() });
            self.places.len() - 1
        });
        let place = &mut self.places[number];
        let value = word.get();
        if place.messages.last().is_none_or(|newest| newest.value != value) {
            place.base += place.messages.len() as u32;
            let view = Rc::default();
            place.messages = vec![Message { value, tied: false, view }];
        }
        number
    }

    pub(super) fn variants(&mut self, task: usize, next: Operation, mut take: impl FnMut(usize)) {
        let word = next.word;
        if !next.kind.is_access() {
            return take(0);
        }
        let number = self.place(word);
        let place = &self.places[number];
        let count = place.messages.len();
        let oldest = place.oldest(&self.tasks[task].now, number);
        let newest = place.messages[count - 1].value;
        for variant in 0..(count - oldest).min(VARIANTS) {
            let at = count - 1 - variant;
            let value = place.messages[at].value;
            let admitted = match next.kind {
                Kind::Compare => variant == 0,
                // A store that is not the newest comes before message number `at + 1`.
                Kind::Store | Kind::Modify => place.is_free_after(at),
                Kind::Exchange => value != next.expected || place.is_free_after(at),
                _ => true,
            };
            if admitted {
                word.set(value);
                take(variant);
            }
        }
        word.set(newest);
    }

    pub(super) fn begin(&mut self, task: usize, next: Operation, variant: usize) {
        if !next.kind.is_access() {
            return;
        }
        self.strays |= variant > 0;
        self.doubtful |= variant > 0;
        let number = self.place(next.word);
        self.drop_unreadable(number);
        let at = self.places[number].messages.len() - 1 - variant;
        let value = self.places[number].messages[at].value;
        next.word.set(value);
        self.current = Some(Current { place: number, writes: None });
        let order = next.order;
        match next.kind {
            Kind::Store => self.write(task, number, at + 1, order, None),
            Kind::Modify => self.modify(task, number, at, order),
            Kind::Exchange if value == next.expected => self.modify(task, number, at, order),
            Kind::Exchange => self.read(task, number, at, next.failure),
            Kind::Compare => {
                // A sleep is a system call with a full barrier before its comparison.
                if self.graph.is_some() {
                    self.record(task, None, Effect::Fence, true);
                }
                self.read(task, number, at, Ordering::Relaxed);
            }
            _ => self.read(task, number, at, order),
        }
    }

    /// Reads message number `at`.
    fn read(&mut self, task: usize, place: usize, at: usize, order: Ordering) {
        self.see(task, place, at, order);
        let position = self.places[place].base + at as u32;
        self.record(task, Some((place, position)), Effect::Read, order == Ordering::SeqCst);
    }

    /// Makes `task` know message number `at`, and what it carries if `order` acquires.
    fn see(&mut self, task: usize, place: usize, at: usize, order: Ordering) {
        let position = self.places[place].base + at as u32;
        let view = Rc::clone(&self.places[place].messages[at].view);
        let task = &mut self.tasks[task];
        for known in [&mut task.now, &mut task.acquired] {
            if known.position(place) < position {
                raise(&mut Rc::make_mut(known).seen, place, position);
            }
        }
        join(&mut task.acquired, &view);
        if acquires(order) {
            join(&mut task.now, &view);
        }
    }

    /// Reads message number `at`, and writes the next one.
    fn modify(&mut self, task: usize, place: usize, at: usize, order: Ordering) {
        self.see(task, place, at, order);
        self.write(task, place, at + 1, order, Some(at));
    }

    /// Writes a message, which gets number `at`. Its release sequence includes that of the message
    /// that it `follows`.
    fn write(
        &mut self,
        task: usize,
        place: usize,
        at: usize,
        order: Ordering,
        follows: Option<usize>,
    ) {
        let position = self.places[place].base + at as u32;
        if at < self.places[place].messages.len() {
            self.insert(place, position);
        }
        let writer = &mut self.tasks[task];
        for known in [&mut writer.now, &mut writer.acquired] {
            raise(&mut Rc::make_mut(known).seen, place, position);
        }
        let effect = if follows.is_some() { Effect::Modify } else { Effect::Write };
        self.record(task, Some((place, position)), effect, order == Ordering::SeqCst);
        let writer = &mut self.tasks[task];
        let stored = writer.stores.iter_mut().find(|(stored, _)| *stored == place);
        let mut view = if releases(order) {
            match stored {
                Some((_, view)) => *view = Rc::clone(&writer.now),
                None => writer.stores.push((place, Rc::clone(&writer.now))),
            }
            Rc::clone(&writer.now)
        } else {
            let mut view = stored.map_or_else(Rc::default, |(_, view)| Rc::clone(view));
            join(&mut view, &writer.released);
            raise(&mut Rc::make_mut(&mut view).seen, place, position);
            view
        };
        let messages = &mut self.places[place].messages;
        if let Some(follows) = follows {
            join(&mut view, &messages[follows].view);
        }
        messages.insert(at, Message { value: 0, tied: follows.is_some(), view });
        self.current = Some(Current { place, writes: Some(at) });
    }

    /// Moves `position` of a word and all after it up by one.
    fn insert(&mut self, place: usize, position: u32) {
        let messages = self.places.iter_mut().flat_map(|place| &mut place.messages);
        let views = messages.map(|message| &mut message.view);
        let tasks = self.tasks.iter_mut().flat_map(|task| {
            let stores = task.stores.iter_mut().map(|(_, view)| view);
            [&mut task.now, &mut task.acquired, &mut task.released].into_iter().chain(stores)
        });
        for view in views.chain(tasks) {
            if view.position(place) >= position {
                Rc::make_mut(view).seen[place] += 1;
            }
        }
        if let Some(graph) = &mut self.graph {
            graph.insert(place, position);
        }
    }

    pub(super) fn finish(&mut self) {
        let Some(Current { place, writes }) = self.current.take() else { return };
        let Place { word, messages, .. } = &mut self.places[place];
        if let Some(at) = writes {
            messages[at].value = word.get();
        }
        if let Some(newest) = messages.last() {
            word.set(newest.value);
        }
    }

    /// Drops the messages that no task can read any more.
    fn drop_unreadable(&mut self, place: usize) {
        let running = self.tasks.iter().filter(|task| !task.ended);
        let oldest = running.map(|task| task.now.position(place)).min().unwrap_or(0);
        let Place { base, messages, .. } = &mut self.places[place];
        let count = oldest.saturating_sub(*base) as usize;
        if count > 0 && count < messages.len() {
            messages.drain(..count);
            messages[0].tied = false;
            *base = oldest;
        }
    }

    pub(super) fn fence(&mut self, task: usize, order: Ordering) {
        let holder = &mut self.tasks[task];
        if acquires(order) {
            let acquired = Rc::clone(&holder.acquired);
            join(&mut holder.now, &acquired);
        }
        if order == Ordering::SeqCst {
            self.record(task, None, Effect::Fence, true);
        }
        let holder = &mut self.tasks[task];
        if releases(order) {
            holder.released = Rc::clone(&holder.now);
        }
    }

    /// Accesses the data at `address`. Returns whether all earlier accesses happened before that
    /// conflict with it.
    pub(super) fn data(&mut self, task: usize, address: usize, writes: bool) -> bool {
        let tasks = self.tasks.len();
        let number = self.data.iter().position(|datum| datum.address == address);
        let number = number.unwrap_or_else(|| {
            self.data.push(Datum { address, last: vec![0; tasks + 1] });
            self.data.len() - 1
        });
        let first = number * (tasks + 1);
        let last = &mut self.data[number].last;
        let holder = &mut self.tasks[task];
        let happened =
            |slot: usize| holder.now.data.get(first + slot).copied().unwrap_or(0) >= last[slot];
        let ordered = if writes { (0..=tasks).all(happened) } else { happened(0) };
        let slot = if writes { 0 } else { 1 + task };
        last[slot] += 1;
        for known in [&mut holder.now, &mut holder.acquired] {
            raise(&mut Rc::make_mut(known).data, first + slot, last[slot]);
        }
        ordered
    }

    /// Begins to use `bytes` of private memory. Returns whether all earlier accesses to it happened
    /// before.
    pub(super) fn fresh(&mut self, task: usize, address: usize, bytes: usize) -> bool {
        let ordered = self.data(task, address, true);
        // Other data has even addresses.
        let first = address | 1;
        self.data(task, first, true);
        let datum = self.data.iter().position(|datum| datum.address == first);
        self.forget_fresh(&(address..address + bytes));
        self.fresh.extend(datum.map(|datum| (address..address + bytes, datum)));
        ordered
    }

    /// Returns whether the first value of the word at `address` is visible to `task`.
    pub(super) fn has_begun(&self, task: usize, address: usize) -> bool {
        let fresh = self.fresh.iter().find(|(range, _)| range.contains(&address));
        fresh.is_none_or(|&(_, datum)| {
            let slot = datum * (self.tasks.len() + 1);
            let seen = self.tasks[task].now.data.get(slot).copied().unwrap_or(0);
            seen >= self.data[datum].last[0]
        })
    }

    fn forget_fresh(&mut self, range: &Range<usize>) {
        self.fresh.retain(|(fresh, _)| fresh.end <= range.start || range.end <= fresh.start);
    }

    /// Records an event of `task`, if events are recorded.
    fn record(&mut self, task: usize, at: Option<(usize, u32)>, effect: Effect, sequential: bool) {
        let Some(graph) = &mut self.graph else {
            self.lacks_record |= sequential;
            return;
        };
        let holder = &mut self.tasks[task];
        self.doubtful |= sequential;
        let number = holder.now.events(task) + 1;
        for known in [&mut holder.now, &mut holder.acquired] {
            raise(&mut Rc::make_mut(known).clock, task, number);
        }
        let view = Rc::clone(&holder.now);
        graph.push(Step { task, number, at, effect, sequential, view });
    }

    pub(super) fn forget(&mut self, range: &Range<usize>) {
        self.data.iter_mut().filter(|datum| range.contains(&datum.address)).for_each(Datum::end);
        for place in &mut self.places {
            if range.contains(&place.word.address) {
                place.base += place.messages.len() as u32;
                place.messages.clear();
            }
        }
        self.forget_fresh(range);
    }

    /// Only stale steps and `SeqCst` steps are judged immediately; `finally`, all steps are judged.
    pub(super) fn is_possible(&mut self, finally: bool) -> bool {
        let judges = self.strays && (finally || self.doubtful);
        self.doubtful = false;
        // Without a stale step, `SeqCst` operations are in the order of the execution.
        !judges || self.graph.as_ref().is_none_or(Graph::is_consistent)
    }

    pub(super) fn is_judged(&self) -> bool {
        self.graph.as_ref().is_none_or(Graph::is_judged)
    }

    pub(super) fn lacks_record(&self) -> bool {
        self.lacks_record
    }

    /// Records that `task` takes no further step.
    pub(super) fn end(&mut self, task: usize) {
        self.tasks[task].ended = true;
    }

    /// Passes the events on which the order of later `SeqCst` operations depends to `add`.
    pub(super) fn digest_order(&self, add: &mut impl FnMut(u64)) {
        if let Some(graph) = &self.graph {
            add(u64::from(self.strays));
            graph.digest(|place| self.places[place].word.address, add);
        }
    }

    pub(super) fn digest(&self, add: &mut impl FnMut(u64)) {
        // The order of the words and data is that of their first use, which is no part of the
        // state.
        let mut places: Vec<usize> = (0..self.places.len()).collect();
        places.retain(|&place| !self.places[place].messages.is_empty());
        places.sort_unstable_by_key(|&place| self.places[place].word.address);
        let mut data: Vec<usize> = (0..self.data.len()).collect();
        data.retain(|&number| self.data[number].address != ENDED);
        data.sort_unstable_by_key(|&number| self.data[number].address);
        let slots = self.tasks.len() + 1;
        let mut view = |view: &View| {
            let mut word = 1;
            for &place in &places {
                let position = view.position(place).saturating_sub(self.places[place].base);
                word = word << 8 | u64::from(position.min(255));
                if word >> 56 != 0 {
                    add(std::mem::replace(&mut word, 1));
                }
            }
            for &number in &data {
                for (slot, &last) in self.data[number].last.iter().enumerate() {
                    let seen = view.data.get(number * slots + slot).copied().unwrap_or(0);
                    word = word << 1 | u64::from(seen >= last);
                }
                add(std::mem::replace(&mut word, 1));
            }
            add(word);
        };
        for task in self.tasks.iter().filter(|task| !task.ended) {
            view(&task.now);
            view(&task.acquired);
            view(&task.released);
            for &place in &places {
                if let Some((_, stored)) = task.stores.iter().find(|&&(stored, _)| stored == place)
                {
                    view(stored);
                }
            }
        }
        for &place in &places {
            self.places[place].messages.iter().for_each(|message| view(&message.view));
        }
        for &place in &places {
            let Place { word, messages, .. } = &self.places[place];
            add(word.address as u64);
            add(messages.len() as u64);
            for message in messages {
                add(message.value << 1 | u64::from(message.tied));
            }
        }
        for number in data {
            add(self.data[number].address as u64);
        }
        let mut fresh: Vec<_> = self.fresh.iter().map(|(range, _)| range.start).collect();
        fresh.sort_unstable();
        for start in fresh {
            add(start as u64);
        }
    }
}

impl Kind {
    /// Returns whether the step accesses an atomic word.
    fn is_access(self) -> bool {
        use Kind::{Await, Compare, Exchange, Load, Modify, Store};
        matches!(self, Await | Compare | Exchange | Load | Modify | Store)
    }
}
