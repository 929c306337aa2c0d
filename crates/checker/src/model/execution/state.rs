//! The state of an execution as one number: two executions with the same one continue alike.
//!
//! A suspended task is its stack, and the tasks of [`Instance::of`] share nothing but the stacks
//! and one object. So the state is the memory of both, and what the execution itself knows of its
//! tasks. Words that nothing reads any more make two states of one, which costs executions and
//! hides none. The memory below the stack of a task is cleared after each step, since the frames of
//! its next calls would keep its contents.
//!
//! Stacks, object and tasks have the same addresses in all executions of a search, and the
//! operations of the checker leave nothing on the stacks. So equal states are equal bytes, wherever
//! the kernel has mapped the process, and no word has to be interpreted: two processes find the
//! same states.
//!
//! [`Instance::of`]: crate::model::Instance::of

use super::place::{Words, copy_from, copy_to, word};
use super::{Execution, STACK, Status, Task};
use core::cell::Cell;
use corosensei::stack::{DefaultStack, Stack as _};
use corosensei::{Coroutine, Yielder};
use std::mem::MaybeUninit;
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

/// Bytes below a stack in use that are cleared after a step.
const CLEARED: usize = 1024;
/// Bytes of a stack that are cleared before an execution: more than tasks use.
const USED: usize = 8 << 10;

/// Words in a row as one number.
struct Digest([u64; 2]);

impl Digest {
    #[inline]
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
    // SAFETY: an address of the stack of a suspended coroutine.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(address)) }
}

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
    forget_registers();
}

/// Clears the registers that calls need not keep. They hold numbers of the search, addresses on the
/// heap for instance, parts of which would reach the stack: a `push` that only aligns it stores a
/// register, and so does a spilled byte.
#[inline(always)]
fn forget_registers() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: changes only the registers that it names.
    unsafe {
        core::arch::asm!(
            "xor eax, eax", "xor ecx, ecx", "xor edx, edx", "xor esi, esi", "xor edi, edi",
            "xor r8d, r8d", "xor r9d, r9d", "xor r10d, r10d", "xor r11d, r11d",
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            options(nomem, nostack),
        );
    }
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
    /// Clears what the task that was just suspended has left.
    pub(super) fn suspended(&self, task: usize) {
        clear(self.low(&self.tasks[task]) - CLEARED, CLEARED);
    }

    /// The lowest address of its stack that the suspended task uses.
    fn low(&self, task: &Task) -> usize {
        (task.frame.get() & !15) - self.below
    }

    /// The number of words on the stack of the suspended task.
    fn height(&self, task: &Task) -> usize {
        (task.stack.1 - self.low(task)) / 8
    }

    /// Appends them to `words`.
    pub(super) fn save_stack(&self, task: &Task, words: &mut Words) {
        copy_from(self.low(task), self.height(task), words);
    }

    /// Makes them the first of `words`, and clears the stack below as when the task was suspended;
    /// returns the rest.
    pub(super) fn put_stack<'a>(
        &self,
        task: &Task,
        words: &'a [MaybeUninit<u64>],
    ) -> &'a [MaybeUninit<u64>] {
        let (own, rest) = words.split_at(self.height(task));
        clear(self.low(task) - CLEARED, CLEARED);
        copy_to(self.low(task), own);
        rest
    }

    /// The address of the object that the tasks share.
    pub(in crate::model) fn object(&self) -> *const () {
        self.placed.as_ref().map_or(ptr::null(), |placed| placed.start.cast_const().cast())
    }

    /// The state, if all that the tasks share is one object; with the task that ran last where that
    /// makes a difference.
    pub(in crate::model) fn state(&self, last: Option<usize>) -> Option<u128> {
        let placed = self.placed.as_ref()?;
        let mut digest = Digest([1, 2]);
        placed.changes().for_each(|word| digest.add(word));
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
                digest.add(task.asleep_on.get() as u64);
                digest.add(self.tasks.iter().filter(asleep).filter(earlier).count() as u64);
            }
            (self.low(task)..task.stack.1).step_by(8).for_each(|at| digest.add(word(at)));
        }
        let [one, other] = digest.0;
        Some(u128::from(one) << 64 | u128::from(other))
    }

    /// Whether the task that ran last makes a difference to what can run.
    pub(in crate::model) fn has_pause(&self) -> bool {
        self.tasks.iter().any(|task| task.status.get() == Status::Pausing)
    }
}
