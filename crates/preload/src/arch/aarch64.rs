//! aarch64.

use core::arch::{asm, global_asm};
use core::ffi::c_long;
use core::sync::atomic::Ordering::Relaxed;

use crate::threads::local::LOCAL_BYTES;

// As on x86-64: a restartable sequence of one instruction, with glibc's signature before the abort
// address (`RSEQ_SIG` of rseq(2): `brk #0x45e0`).
global_asm!(
    ".pushsection .text.convoy_section,\"ax\",@progbits",
    ".balign 4",
    "convoy_section_start: nop",
    "brk #1",
    ".inst 0xd428bc00",
    "convoy_section_abort: brk #1",
    ".popsection",
    ".pushsection .data.rel.ro.convoy_section,\"aw\",@progbits",
    ".balign 32",
    ".globl convoy_section",
    ".hidden convoy_section",
    "convoy_section: .long 0, 0",
    ".quad convoy_section_start, 4, convoy_section_abort",
    ".popsection",
);

/// Returns the address of the data of this thread.
#[inline(always)]
pub(crate) fn local_address() -> usize {
    let address;
    // SAFETY: computes an address.
    unsafe {
        asm!(
            "mrs {pointer}, tpidr_el0",
            "adrp {address}, :gottprel:convoy_thread",
            "ldr {address}, [{address}, :gottprel_lo12:convoy_thread]",
            "add {address}, {address}, {pointer}",
            pointer = out(reg) _, address = out(reg) address,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    address
}

/// Returns the word of this thread at an offset in bytes.
#[inline(always)]
pub(crate) fn local_word<const AT: usize>() -> u64 {
    const { assert!(AT < LOCAL_BYTES && AT.is_multiple_of(8), "a word of the thread") };
    // SAFETY: an aligned word of the thread's data.
    unsafe { super::word((local_address() + AT) as u64) }.load(Relaxed)
}

/// Returns the address of the description of the critical section.
#[inline]
pub(crate) fn section() -> u64 {
    let address;
    // SAFETY: computes an address.
    unsafe {
        asm!(
            "adrp {0}, convoy_section",
            "add {0}, {0}, :lo12:convoy_section",
            out(reg) address, options(pure, nomem, nostack, preserves_flags),
        );
    }
    address
}

/// Returns the start of the thread's control block, to which glibc's `__rseq_offset` is relative.
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

/// Returns the counter after all earlier instructions: the processor may read it before an atomic
/// instruction that waits for its line, and would date an acquisition before the last release.
#[inline(always)]
pub(crate) fn ticks_after() -> u64 {
    // SAFETY: a barrier changes no memory and no register.
    unsafe { asm!("isb", options(nomem, nostack, preserves_flags)) };
    ticks()
}

/// Returns the virtual counter, which counts at 1 MHz to 1 GHz, in units of 0.5 to 1 ns: the
/// constants of the layout are for such ticks.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    /// A tick is at most one second divided by this power of two.
    const POWER: u32 = 30;
    let (count, hertz): (u64, u64);
    // SAFETY: both registers can be read in user mode, which Linux permits.
    unsafe {
        asm!(
            "mrs {count}, cntvct_el0",
            "mrs {hertz}, cntfrq_el0",
            count = out(reg) count, hertz = out(reg) hertz,
            options(nomem, nostack, preserves_flags),
        );
    }
    count << POWER.saturating_sub((hertz | 1).ilog2())
}

/// Returns a mask of those of the eight numbers that equal `wanted`: two bits for each.
///
/// # Safety
/// The numbers are valid and aligned to 16 bytes, and no other thread writes them during the call.
#[inline(always)]
pub(crate) unsafe fn same(numbers: *const u32, wanted: u32) -> u32 {
    // SAFETY: by the caller.
    let numbers = unsafe { &*numbers.cast::<[u32; 8]>() };
    numbers.iter().rev().fold(0, |found, number| found << 2 | u32::from(*number == wanted) * 3)
}

/// Prefetches the cache lines of these addresses, without waiting for them.
#[inline(always)]
pub(crate) fn fetch<const N: usize>(places: [usize; N]) {
    for place in places {
        // SAFETY: a hint about an address, which need not be valid.
        unsafe {
            asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags));
        }
    }
}

/// Makes a system call that is not a cancellation point and does not change `errno`.
///
/// # Safety
/// The arguments are valid for the call.
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let result;
    let [one, two, three, four, five, six] = arguments;
    // SAFETY: by the caller.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number, inlateout("x0") one => result,
            in("x1") two, in("x2") three, in("x3") four, in("x4") five, in("x5") six,
            options(nostack),
        );
    }
    result
}

/// Returns whether these bytes of code end in a call: `bl`, or `blr` with a register.
pub(crate) fn ends_in_call(bytes: [u8; 8]) -> bool {
    let [.., one, two, three, four] = bytes;
    let instruction = u32::from_le_bytes([one, two, three, four]);
    instruction & 0xfc00_0000 == 0x9400_0000 || instruction & 0xffff_fc1f == 0xd63f_0000
}

/// Maps the x86-64 name of a parameter register to the name of the register here.
macro_rules! register {
    ("rdi") => {
        "x0"
    };
    ("rsi") => {
        "x1"
    };
    ("rdx") => {
        "x2"
    };
    ("rcx") => {
        "x3"
    };
    ("r8") => {
        "x4"
    };
}
pub(crate) use register;

/// Indexes of mode, user and group in a `struct stat`, in words of 32 bits.
pub(crate) const STAT_WORDS: [usize; 3] = [4, 6, 7];
