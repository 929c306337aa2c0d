//! x86-TSO: a buffer of stores for each task (Sewell and others, CACM 2010). A task reads its own
//! latest store, and others see the stores in the order of the buffer. Locked instructions, fences
//! and system calls empty it.
//!
//! A store that is not delayed passes an empty buffer. Delaying it is the stale variant; the stores
//! that follow wait behind it.

use super::operation::{Cell, Kind, Operation};
use core::sync::atomic::Ordering;
use std::collections::VecDeque;

/// Returns whether a task's buffer is empty once this operation completes.
fn drains(operation: Operation) -> bool {
    match operation.kind {
        Kind::Modify | Kind::Exchange | Kind::Compare | Kind::Wake => true,
        Kind::Store | Kind::Fence => operation.order == Ordering::SeqCst,
        _ => false,
    }
}

/// An entry of a buffer.
#[derive(Clone, Copy)]
enum Entry {
    Store(Cell, u64),
    /// A write to the data at this address.
    Data(usize),
}

/// See the module documentation.
#[derive(Clone)]
pub(in crate::model) struct Buffers {
    buffers: Vec<VecDeque<Entry>>,
    /// The word of the current step with its value in memory, and the task that delays its store.
    current: Option<(Cell, u64, Option<usize>)>,
}

impl Buffers {
    pub(super) fn new(tasks: usize) -> Self {
        Self { buffers: vec![VecDeque::new(); tasks], current: None }
    }

    /// Returns the value that `task` reads from `word`.
    fn read(&self, task: usize, word: Cell) -> u64 {
        let stored = self.buffers[task].iter().rev().find_map(|entry| match *entry {
            Entry::Store(stored, value) if stored.address == word.address => Some(value),
            _ => None,
        });
        stored.unwrap_or_else(|| word.get())
    }

    pub(super) fn variants(&self, task: usize, next: Operation, mut take: impl FnMut(usize)) {
        match next.kind {
            Kind::Await => {
                let memory = next.word.get();
                next.word.set(self.read(task, next.word));
                take(0);
                next.word.set(memory);
            }
            Kind::Store if !drains(next) && self.buffers[task].is_empty() => {
                take(0);
                take(1);
            }
            _ => take(0),
        }
    }

    pub(super) fn begin(&mut self, task: usize, next: Operation, variant: usize) {
        self.drain_before(task, next);
        let word = next.word;
        let delays = next.kind == Kind::Store && (variant > 0 || !self.buffers[task].is_empty());
        if delays || matches!(next.kind, Kind::Load | Kind::Await) {
            self.current = Some((word, word.get(), delays.then_some(task)));
            word.set(self.read(task, word));
        }
    }

    pub(super) fn finish(&mut self) {
        let Some((word, memory, task)) = self.current.take() else { return };
        if let Some(task) = task {
            self.buffers[task].push_back(Entry::Store(word, word.get()));
        }
        word.set(memory);
    }

    /// Empties the buffer of `task` if the operation does.
    pub(super) fn drain_before(&mut self, task: usize, operation: Operation) {
        if drains(operation) {
            while self.first(task).is_some() {
                self.flush(task);
            }
        }
    }

    /// Accesses the data at `address`. Returns whether no other task has a write to it in its
    /// buffer.
    pub(super) fn data(&mut self, task: usize, address: usize, writes: bool) -> bool {
        let delayed = |entry: &Entry| matches!(entry, Entry::Data(data) if *data == address);
        let mut others = (0..self.buffers.len()).filter(|&other| other != task);
        let visible = !others.any(|other| self.buffers[other].iter().any(delayed));
        if writes && !self.buffers[task].is_empty() {
            self.buffers[task].push_back(Entry::Data(address));
        }
        visible
    }

    /// Returns the word of the oldest store of `task` that others do not see.
    pub(super) fn first(&self, task: usize) -> Option<usize> {
        self.buffers[task].front().map(|entry| match *entry {
            Entry::Store(word, _) => word.address,
            Entry::Data(address) => address,
        })
    }

    pub(super) fn flush(&mut self, task: usize) {
        if let Some(Entry::Store(word, value)) = self.buffers[task].pop_front() {
            word.set(value);
        }
    }

    pub(super) fn digest(&self, add: &mut impl FnMut(u64)) {
        for buffer in &self.buffers {
            add(buffer.len() as u64);
            for entry in buffer {
                let (address, value) = match *entry {
                    Entry::Store(word, value) => (word.address, value),
                    Entry::Data(address) => (address, 0),
                };
                add(address as u64);
                add(value);
            }
        }
    }
}
