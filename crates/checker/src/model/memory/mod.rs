//! Memory models: which values a step may read, and when a write reaches other tasks.
//!
//! Words hold their newest value between steps. Before a step, the search chooses one of its
//! *variants*: variant 0 reads the newest value and writes the newest one, as sequentially
//! consistent memory does. Higher variants are *stale*: they read an older value, or their write
//! comes before others or late. The model puts the chosen value into the word, the task takes its
//! step, and the model records what the step wrote. So the code of a lock is the same in every
//! model.

/// Implements `Clone` so that a copy into an old value reuses its memory: a search copies memory at
/// each of its points, and back.
macro_rules! reusing_clone {
    ($($name:ident { $($field:ident)+ })+) => {$(
        impl Clone for $name {
            fn clone(&self) -> Self {
                Self { $($field: self.$field.clone()),+ }
            }
            fn clone_from(&mut self, from: &Self) {
                $(self.$field.clone_from(&from.$field);)+
            }
        }
    )+};
}

mod buffers;
mod graph;
mod operation;
mod view;
mod views;

pub(super) use operation::{Cell, Kind, Operation, bits};

use buffers::Buffers;
use core::fmt;
use core::str::FromStr;
use views::Views;

/// Memory model under which a scenario is explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Sequentially consistent: each load reads the newest value.
    #[default]
    Sc,
    /// x86: each task has a buffer of its latest stores, in order, which others do not see.
    Tso,
    /// C11 as repaired by Lahav and others (RC11, PLDI 2017): a load reads any value that coherence
    /// and the orderings of the source admit.
    C11,
}

impl Memory {
    /// Every model, the strongest first.
    pub const ALL: [Self; 3] = [Self::Sc, Self::Tso, Self::C11];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sc => "sc",
            Self::Tso => "tso",
            Self::C11 => "c11",
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Memory {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|memory| memory.name() == text).ok_or(())
    }
}

/// Memory of an execution beyond the words themselves.
#[derive(Default)]
pub(super) enum Storage {
    #[default]
    Words,
    Buffers(Buffers),
    Views(Box<Views>),
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        match self {
            Self::Words => Self::Words,
            Self::Buffers(buffers) => Self::Buffers(buffers.clone()),
            Self::Views(views) => Self::Views(views.clone()),
        }
    }

    fn clone_from(&mut self, from: &Self) {
        match (self, from) {
            (Self::Views(views), Self::Views(from)) => views.clone_from(from),
            (this, from) => *this = from.clone(),
        }
    }
}

impl Storage {
    /// Returns the memory of `tasks` tasks. `sequential` says whether they use `SeqCst`.
    pub(super) fn new(memory: Memory, tasks: usize, sequential: bool) -> Self {
        match memory {
            Memory::Sc => Self::Words,
            Memory::Tso => Self::Buffers(Buffers::new(tasks)),
            Memory::C11 => Self::Views(Box::new(Views::new(tasks, sequential))),
        }
    }

    pub(super) fn is_sequential(&self) -> bool {
        matches!(self, Self::Words)
    }

    /// Calls `take` with each variant of `task`'s next step, and with the value in the word that
    /// the variant reads.
    pub(super) fn variants(&mut self, task: usize, next: Operation, mut take: impl FnMut(usize)) {
        match self {
            Self::Words => take(0),
            Self::Buffers(buffers) => buffers.variants(task, next, take),
            Self::Views(views) => views.variants(task, next, take),
        }
    }

    /// Prepares the step of `task`, before it is executed. Returns whether the first value of the
    /// word is visible to it, if its memory is known to be fresh.
    pub(super) fn begin(&mut self, task: usize, next: Operation, variant: usize) -> bool {
        match self {
            Self::Words => {}
            Self::Buffers(buffers) => buffers.begin(task, next, variant),
            Self::Views(views) => {
                let begun = views.has_begun(task, next.word.address);
                views.begin(task, next, variant);
                return begun;
            }
        }
        true
    }

    /// Records what that step wrote. Called by the task as soon as it has used the word, which may
    /// be on its stack.
    pub(super) fn finish(&mut self) {
        match self {
            Self::Words => {}
            Self::Buffers(buffers) => buffers.finish(),
            Self::Views(views) => views.finish(),
        }
    }

    /// Executes a fence or an access to data that is not atomic. Returns whether the task
    /// may access it: whether all earlier accesses are visible to it.
    pub(super) fn immediate(&mut self, task: usize, operation: Operation) -> bool {
        match (self, operation.kind) {
            (Self::Words, _) => true,
            (Self::Buffers(buffers), Kind::Fence) => {
                buffers.drain_before(task, operation);
                true
            }
            (Self::Buffers(buffers), Kind::Leave) => {
                buffers.drain_before(task, Operation { kind: Kind::Modify, ..operation });
                true
            }
            (Self::Buffers(buffers), Kind::First) => {
                buffers.data(task, operation.expected as usize, false)
            }
            (Self::Views(views), Kind::First) => {
                views.data(task, operation.expected as usize, false)
            }
            (Self::Buffers(buffers), kind) => {
                buffers.data(task, operation.word.address, kind != Kind::Read)
            }
            (Self::Views(views), Kind::Fence) => {
                views.fence(task, operation.order);
                true
            }
            (Self::Views(views), Kind::Fresh) => {
                views.fresh(task, operation.word.address, operation.expected as usize)
            }
            (Self::Views(views), Kind::Leave) => {
                views.begin(task, Operation { kind: Kind::Modify, ..operation }, 0);
                views.finish();
                true
            }
            (Self::Views(views), kind) => {
                views.data(task, operation.word.address, kind != Kind::Read)
            }
        }
    }

    /// Returns the word of the oldest store in the buffer of `task`.
    pub(super) fn buffered(&self, task: usize) -> Option<usize> {
        let Self::Buffers(buffers) = self else { return None };
        buffers.first(task)
    }

    /// Makes that store visible to all tasks.
    pub(super) fn flush(&mut self, task: usize) {
        if let Self::Buffers(buffers) = self {
            buffers.flush(task);
        }
    }

    /// Forgets the words in `range`: a part of the stack of a task that is not in use any more.
    pub(super) fn forget(&mut self, range: core::ops::Range<usize>) {
        if let Self::Views(views) = self {
            views.forget(&range);
        }
    }

    /// Returns whether the execution so far is possible. Orders of `SeqCst` are judged after the
    /// step.
    /// Must be asked `finally` before the end of an execution is judged.
    pub(super) fn is_possible(&mut self, finally: bool) -> bool {
        let Self::Views(views) = self else { return true };
        views.is_possible(finally)
    }

    /// Returns whether [`Self::is_possible`] could judge the execution. Otherwise it has too many
    /// `SeqCst` operations, and a search that abandons it has not executed everything.
    pub(super) fn is_judged(&self) -> bool {
        let Self::Views(views) = self else { return true };
        views.is_judged()
    }

    /// Returns whether the execution must be repeated with a record of its `SeqCst` operations.
    pub(super) fn lacks_record(&self) -> bool {
        let Self::Views(views) = self else { return false };
        views.lacks_record()
    }

    /// Records that `task` takes no further step.
    pub(super) fn end(&mut self, task: usize) {
        if let Self::Views(views) = self {
            views.end(task);
        }
    }

    /// Passes the events on which the order of later `SeqCst` operations depends to `add`.
    pub(super) fn digest_order(&self, add: &mut impl FnMut(u64)) {
        if let Self::Views(views) = self {
            views.digest_order(add);
        }
    }

    /// Passes everything else on which the future of the execution depends to `add`.
    pub(super) fn digest(&self, add: &mut impl FnMut(u64)) {
        match self {
            Self::Words => {}
            Self::Buffers(buffers) => buffers.digest(add),
            Self::Views(views) => views.digest(add),
        }
    }
}
