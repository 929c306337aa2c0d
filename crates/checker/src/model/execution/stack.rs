//! Stacks of tasks: the switch away from one, and the memory below it, which is cleared since
//! frames of later calls would keep its contents.

use core::cell::Cell;
use corosensei::stack::{DefaultStack, Stack as _};
use corosensei::{Coroutine, Yielder};
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

/// Bytes of a task's stack: formatting a panic message needs the most.
pub(super) const STACK: usize = 128 << 10;
/// Bytes below a stack in use that are cleared after a step.
pub(super) const CLEARED: usize = 1024;
/// Bytes of a stack that are cleared before an execution: more than tasks use.
const USED: usize = 8 << 10;

/// The byte of memory at `address`, which is mapped.
fn byte(address: usize) -> u8 {
    // SAFETY: an address of the stack of a suspended coroutine.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(address)) }
}

/// Clears the part of the stack that ends at `base` which earlier executions used.
pub(super) fn clear_used((limit, base): (usize, usize)) {
    assert!(base - limit > USED);
    clear(base - USED, USED);
}

/// Clears `bytes` bytes from `start`, on a stack of no running task.
pub(super) fn clear(start: usize, bytes: usize) {
    let start = ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the callers give a part of a stack that no suspended task uses.
    unsafe { ptr::write_bytes(start, 0, bytes) };
}

/// Clears the frames of returned calls below the frame of the caller.
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
