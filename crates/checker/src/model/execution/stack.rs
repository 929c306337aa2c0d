//! Stacks of tasks: switching away from a stack, and the memory below it, which is cleared because
//! frames of later calls would otherwise keep its contents.

use core::cell::Cell;
use corosensei::stack::{DefaultStack, Stack as _};
use corosensei::{Coroutine, Yielder};
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

/// Size of a task's stack in bytes: formatting a panic message needs the most.
pub(super) const STACK: usize = 128 << 10;
/// Bytes below a stack in use that are cleared after a step.
pub(super) const CLEARED: usize = 1024;
/// Bytes of a stack that are cleared before an execution: more than tasks use.
const USED: usize = 8 << 10;

/// Reads the byte of memory at `address`, which is mapped.
fn byte(address: usize) -> u8 {
    // SAFETY: the address is in the stack of a suspended coroutine.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(address)) }
}

/// Clears the part of the stack that ends at `base` which earlier executions used.
pub(super) fn clear_used(base: usize) {
    clear(base - USED, USED);
}

/// Clears `bytes` bytes from `start`, on a stack of a task that is not running.
pub(super) fn clear(start: usize, bytes: usize) {
    let start = ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: callers pass a part of a stack that no suspended task uses.
    unsafe { ptr::write_bytes(start, 0, bytes) };
}

/// Clears the frames of returned calls below the frame of the caller.
#[inline(never)]
pub(super) fn clear_below() {
    std::hint::black_box(&[0_u8; CLEARED]);
}

/// Suspends the running task. Sets `frame` to its last frame, not counting the frames of the
/// switch.
#[inline(never)]
pub(super) fn suspend(yielder: &Yielder<(), ()>, frame: &Cell<usize>) {
    let here = 0_u8;
    frame.set((&raw const here).expose_provenance());
    yielder.suspend(());
    forget_registers();
}

/// Clears the caller-saved registers. They hold values of the search, such as heap addresses, and
/// parts of these would reach the stack: a `push` that only aligns the stack stores a register, and
/// so does a spilled byte.
#[inline(always)]
pub(super) fn forget_registers() {
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

/// Returns how many bytes below the frame of [`suspend`] the switch uses. The number depends on the
/// compiler, so it is measured on a stack on which nothing else runs.
pub(super) fn below() -> usize {
    /// Bytes of that stack that are checked.
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
