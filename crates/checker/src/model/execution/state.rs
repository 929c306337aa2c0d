//! The state of an execution as one number: two executions with the same one go on alike.
//!
//! A suspended task is its stack, and tasks share nothing but their stacks and the objects that
//! the scenario names with [`Model::shares`](crate::model::Model::shares). So the state is the
//! memory of both, and what the execution itself knows of its tasks. Words that nothing reads any
//! more make two states of one, which costs executions and hides none; what a task has left below
//! its stack is cleared after each step, since the frames of its next calls would keep it.
//!
//! Addresses differ between two processes, and would make the number of states differ. So an
//! address in a stack or a named object counts as an offset from there, one in the program as an
//! offset from its start, and all others as one number: they are pointers to private memory of a
//! task on the heap or to freed memory, some of them left on a stack by earlier calls. A word may
//! also be half of such an address under a number of 32 bits. The operations of the checker leave
//! nothing on the stacks, since their addresses, and what they allocate, are not the lock's.

use super::{Execution, STACK, Status, Task};
use core::cell::{Cell, RefCell};
use corosensei::stack::{DefaultStack, Stack as _};
use corosensei::{Coroutine, Yielder};
use std::ops::{Range, RangeInclusive};
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

/// Bytes below a stack in use that are cleared after a step.
const CLEARED: usize = 1024;
/// Bytes of a stack that are cleared before an execution: more than tasks use.
const USED: usize = 8 << 10;

/// The named objects that tasks share.
#[derive(Default)]
pub(super) struct Shared {
    objects: Vec<Object>,
}

/// Address and bytes of an object that the running task has named. It is looked at once the task
/// is suspended: what runs on its stack leaves addresses there.
pub(super) type Named = Cell<Option<(usize, usize)>>;

/// A part of the heap.
struct Object {
    start: usize,
    bytes: usize,
    /// Its words at the start.
    words: Vec<u64>,
}

impl Object {
    /// Its words as they are; the last one may be a part of one.
    fn now(&self) -> impl Iterator<Item = u64> {
        assert!(self.start.is_multiple_of(8), "the allocator aligns to words");
        let end = self.start + self.bytes;
        (self.start..end).step_by(8).map(move |at| match end - at {
            8.. => word(at),
            rest => (at..at + rest).fold(0, |all, at| all << 8 | u64::from(byte(at))),
        })
    }
}

/// Bytes before an object that `Rc` counts in.
const COUNTS: usize = 16;

/// Words in a row as one number.
struct Digest([u64; 2]);

impl Digest {
    fn add(&mut self, word: u64) {
        let [one, other] = self.0;
        self.0 = [
            (one ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29),
            (other.rotate_left(23) ^ word).wrapping_mul(0xc2b2_ae3d_27d4_eb4f),
        ];
    }
}

/// The byte of memory at `address`, which is mapped.
fn byte(address: usize) -> u8 {
    // SAFETY: as for a word.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(address)) }
}

/// The word of memory at `address`, which is mapped and aligned.
fn word(address: usize) -> u64 {
    // SAFETY: the callers give addresses in a stack or an object of the running execution, whose
    // tasks are all suspended. Volatile, since some words were never written.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance::<u64>(address)) }
}

impl Shared {
    /// The number of the object with that address, and where in there it is.
    fn find(&self, address: u64) -> Option<(u64, u64)> {
        self.objects.iter().zip(1_u64..).find_map(|(object, number)| {
            let offset = address.wrapping_sub((object.start - COUNTS) as u64);
            (offset < (object.bytes + COUNTS) as u64).then_some((number, offset))
        })
    }
}

/// A mapping of this process, and the file or the use of it.
type Mapping = (Range<u64>, String);

/// The mappings of this process.
fn mappings() -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let parts = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let part = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
        Some((part[0]?..part[1]?, rest.split_whitespace().nth(4).unwrap_or_default().to_owned()))
    });
    parts.collect()
}

/// The mapped parts of this program: code and constants.
fn image() -> &'static Range<u64> {
    static IMAGE: OnceLock<Range<u64>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let here = (image as fn() -> &'static Range<u64>) as usize as u64;
        let parts = mappings();
        let own = parts.iter().find(|(part, file)| part.contains(&here) && !file.is_empty());
        let own = parts.iter().filter(|(_, file)| own.is_some_and(|(_, own)| own == file));
        let own = own.map(|(part, _)| part);
        let (start, end) = (own.clone().map(|part| part.start), own.map(|part| part.end));
        start.min().unwrap_or(here)..end.max().unwrap_or(here)
    })
}

thread_local! {
    /// The mappings of this process when the search began, by their ends.
    static MAPPINGS: RefCell<Vec<Range<u64>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes by which the heap may grow during a search.
const GROWS: u64 = 64 << 20;

/// A search begins: looks at the mappings of this process.
pub(in crate::model) fn begins() {
    let grown = |(part, usage): Mapping| {
        part.start..if usage == "[heap]" { part.end + GROWS } else { part.end }
    };
    MAPPINGS.set(mappings().into_iter().map(grown).collect());
}

/// Whether there was memory at `address` when the search began.
fn is_mapped(address: u64) -> bool {
    MAPPINGS.with_borrow(|mappings| {
        let place = mappings.partition_point(|part| part.end <= address);
        mappings.get(place).is_some_and(|part| part.contains(&address))
    })
}

/// Where the kernel maps programs, libraries, heaps and stacks of x86-64 and aarch64, in TiB.
const MAPPED: RangeInclusive<u64> = 0x55..=0x7f;

/// Numbers below this are no halves of addresses that the kernel chooses, as a rule, and an
/// execution allocates fewer bytes.
const SMALL: u64 = 1 << 20;

/// An odd number with as many ones as zeros.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Task {
    /// Clears what earlier executions have left on the stack that ends at `base`.
    pub(super) fn clear((limit, base): (usize, usize)) {
        assert!(base - limit > USED);
        clear(base - USED, USED);
    }
}

/// Clears so many bytes from there on, on a stack of no running task.
fn clear(start: usize, bytes: usize) {
    let start = ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the callers give a part of a stack that no suspended task uses.
    unsafe { ptr::write_bytes(start, 0, bytes) };
}

/// Clears what returned calls have left below the frame of the caller.
#[inline(never)]
pub(super) fn clear_below() {
    std::hint::black_box(&[0_u8; CLEARED]);
}

/// Suspends the running task; `frame` is where its last frame is but for those of the switch.
#[inline(never)]
pub(super) fn suspend(yielder: &Yielder<(), ()>, frame: &Cell<usize>) {
    let here = 0_u8;
    frame.set((&raw const here).expose_provenance());
    yielder.suspend(());
}

/// Bytes below the frame of [`suspend`] that the switch uses. That depends on how it was compiled,
/// so a stack on which nothing else runs tells it.
pub(super) fn below() -> usize {
    /// Bytes of that stack that are looked at.
    const LOOKED_AT: usize = 32 << 10;
    static BELOW: OnceLock<usize> = OnceLock::new();
    *BELOW.get_or_init(|| {
        let stack = DefaultStack::new(STACK).expect("memory for a stack");
        let base = stack.base().get();
        clear(base - LOOKED_AT, LOOKED_AT);
        let frame = Rc::new(Cell::new(0));
        let inside = Rc::clone(&frame);
        let mut routine =
            Coroutine::with_stack(stack, move |yielder, ()| suspend(yielder, &inside));
        routine.resume(());
        let used = (base - LOOKED_AT..base).find(|&at| byte(at) != 0);
        let used = used.expect("a suspended coroutine is on its stack");
        routine.resume(());
        // A return address, and registers that may be 0.
        (frame.get() - used).next_multiple_of(64) + 128
    })
}

impl Execution {
    /// All that tasks share beside their stacks lies in objects that were named so.
    pub(in crate::model) fn shares<T>(&self, object: &T) {
        let start = ptr::from_ref(object).expose_provenance();
        self.named.set(Some((start, size_of::<T>())));
    }

    /// Looks at what the task that was just suspended has named, and clears what it has left.
    pub(super) fn suspended(&self, task: usize) {
        if let Some((start, bytes)) = self.named.take() {
            let mut shared = self.shared.borrow_mut();
            if shared.objects.iter().all(|other| other.start != start) {
                let mut object = Object { start, bytes, words: Vec::new() };
                object.words = object.now().collect();
                shared.objects.push(object);
            }
        }
        clear(self.low(&self.tasks[task]) - CLEARED, CLEARED);
    }

    /// The lowest address of its stack that the suspended task uses.
    fn low(&self, task: &Task) -> usize {
        (task.frame.get() & !15) - self.below
    }

    /// An address in a stack, a named object or the program, independent of the choices of the
    /// kernel and the allocator.
    fn known(&self, shared: &Shared, address: u64) -> Option<u64> {
        let on_stack = |task: &Task| (task.stack.0 as u64..=task.stack.1 as u64).contains(&address);
        if let Some(task) = self.tasks.iter().position(on_stack) {
            return Some((1 + task as u64) << 56 | (self.tasks[task].stack.1 as u64 - address));
        }
        if let Some((number, offset)) = shared.find(address) {
            return Some(number << 48 | offset);
        }
        let image = image();
        image.contains(&address).then(|| 0xfe << 56 | (address - image.start))
    }

    /// A word independent of those choices. A number of 32 bits that was written over one half of
    /// an address that nothing reads any more is kept.
    fn settled(&self, shared: &Shared, word: u64) -> u64 {
        let (low, high) = (word & u64::from(u32::MAX), word >> 32);
        if !MAPPED.contains(&(word >> 40)) {
            let half = self.half(shared, low);
            return if half == low { word } else { half ^ high.wrapping_mul(MIX) };
        }
        let other =
            || if is_mapped(word) { 0xff << 56 } else { self.half(shared, low).wrapping_mul(MIX) };
        self.known(shared, word).unwrap_or_else(other)
    }

    /// The low half of a word, where it may be one of an address, independent of those choices.
    fn half(&self, shared: &Shared, low: u64) -> u64 {
        if low < SMALL {
            return low;
        }
        let stack = self.tasks[0].stack.0 as u64;
        let object = shared.objects.first().map_or(stack, |object| object.start as u64);
        let near = |base: u64| base >> 32 << 32 | low;
        let known = [stack, object, image().start].map(near);
        let known = known.iter().find_map(|&address| self.known(shared, address));
        // What an execution allocates lies near its objects.
        let private = || (near(object).abs_diff(object) < SMALL).then_some(0xff << 56);
        known.or_else(private).unwrap_or(low)
    }

    /// The state, if the scenario has named its objects; with the task that ran last where that
    /// makes a difference.
    pub(in crate::model) fn state(&self, last: Option<usize>) -> Option<u128> {
        let shared = self.shared.borrow();
        if shared.objects.is_empty() {
            return None;
        }
        let mut digest = Digest([1, 2]);
        for object in &shared.objects {
            for (&before, now) in object.words.iter().zip(object.now()) {
                // Bytes between two fields are as they were, whatever they are.
                let changed = || self.settled(&shared, now).wrapping_add(1);
                digest.add(if now == before { 0 } else { changed() });
            }
        }
        digest.add(last.map_or(0, |last| 1 + last as u64) << 1 | u64::from(self.hurries.get()));
        for task in &self.tasks {
            let status = task.status.get();
            digest.add(status as u64);
            if status == Status::Done {
                continue;
            }
            let flags = [
                task.deadline.get(),
                task.interrupted.get(),
                task.killed.get(),
                task.unwanted.get(),
            ];
            let flags = flags.iter().fold(0, |all, &flag| all << 1 | u64::from(flag));
            digest.add(flags << 16 | (task.sleep.get() as u64) << 8 | task.wake.get() as u64);
            let (preempt, irq) = task.disabled.get();
            digest.add((preempt as u64) << 32 ^ irq as u64);
            if status == Status::Asleep {
                let asleep = |other: &&Task| other.status.get() == Status::Asleep;
                let earlier = |other: &&Task| other.asleep_since.get() < task.asleep_since.get();
                digest.add(self.settled(&shared, task.asleep_on.get() as u64));
                digest.add(self.tasks.iter().filter(asleep).filter(earlier).count() as u64);
            }
            for address in (self.low(task)..task.stack.1).step_by(8) {
                digest.add(self.settled(&shared, word(address)));
            }
        }
        let [one, other] = digest.0;
        Some(u128::from(one) << 64 | u128::from(other))
    }

    /// Whether the task that ran last makes a difference to what can run.
    pub(in crate::model) fn has_pause(&self) -> bool {
        self.tasks.iter().any(|task| task.status.get() == Status::Pausing)
    }
}
