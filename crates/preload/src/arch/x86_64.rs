//! x86-64.

use core::arch::x86_64::{_MM_HINT_T0, _mm_lfence, _mm_prefetch, _rdtsc};
use core::arch::{asm, global_asm};
use core::ffi::c_long;

use crate::threads::local::LOCAL_BYTES;

// A restartable sequence of one byte that is never executed. While a thread's `rseq_cs` points at
// its description, the kernel clears that word when it switches the thread away (rseq(2)). It
// requires glibc's signature before the abort address.
global_asm!(
    ".pushsection .text.convoy_section,\"ax\",@progbits",
    "convoy_section_start: nop",
    "ud2",
    ".long 0x53053053",
    "convoy_section_abort: ud2",
    ".popsection",
    ".pushsection .data.rel.ro.convoy_section,\"aw\",@progbits",
    ".balign 32",
    ".globl convoy_section",
    ".hidden convoy_section",
    "convoy_section: .long 0, 0",
    ".quad convoy_section_start, 1, convoy_section_abort",
    ".popsection",
);

/// Returns the word of this thread at an offset in bytes, in as few instructions as possible.
#[inline(always)]
pub(crate) fn local_word<const AT: usize>() -> u64 {
    const { assert!(AT < LOCAL_BYTES && AT.is_multiple_of(8), "a word of the thread") };
    let word;
    // SAFETY: reads a word of this thread.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + convoy_thread@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word} + {at}]",
            word = out(reg) word, at = const AT,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    word
}

/// Returns the address of the data of this thread.
#[inline(always)]
pub(crate) fn local_address() -> usize {
    let address;
    // SAFETY: computes an address.
    unsafe {
        asm!(
            "mov {address}, qword ptr [rip + convoy_thread@GOTTPOFF]",
            "add {address}, qword ptr fs:0",
            address = out(reg) address, options(pure, nomem, nostack),
        );
    }
    address
}

/// Returns the address of the description of the critical section.
#[inline]
pub(crate) fn section() -> u64 {
    let address;
    // SAFETY: computes an address.
    unsafe {
        asm!(
            "lea {}, [rip + convoy_section]",
            out(reg) address, options(pure, nomem, nostack, preserves_flags),
        );
    }
    address
}

/// Returns the start of the thread's control block, to which glibc's `__rseq_offset` is relative.
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the first word of the control block is its own address.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    pointer
}

/// Returns the time stamp counter.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { _rdtsc() }
}

/// Returns the counter after all earlier instructions: the processor may read it before a locked
/// instruction that waits for its line, and would date an acquisition before the last release.
#[inline(always)]
pub(crate) fn ticks_after() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { _mm_lfence() };
    ticks()
}

/// Returns a mask of those of the eight numbers that equal `wanted`: two bits for each.
///
/// # Safety
/// The numbers are valid and aligned to 16 bytes, and no other thread writes them during the call.
#[inline(always)]
pub(crate) unsafe fn same(numbers: *const u32, wanted: u32) -> u32 {
    let found;
    // SAFETY: by the caller; every x86-64 has these instructions.
    unsafe {
        asm!(
            "movd {low}, {wanted:e}",
            "pshufd {low}, {low}, 0",
            "movdqa {high}, {low}",
            "pcmpeqd {low}, xmmword ptr [{numbers}]",
            "pcmpeqd {high}, xmmword ptr [{numbers} + 16]",
            "packssdw {low}, {high}",
            "pmovmskb {found:e}, {low}",
            low = out(xmm_reg) _, high = out(xmm_reg) _, found = lateout(reg) found,
            wanted = in(reg) wanted, numbers = in(reg) numbers,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    found
}

/// Prefetches the cache lines of these addresses, without waiting for them.
#[inline(always)]
pub(crate) fn fetch<const N: usize>(places: [usize; N]) {
    for place in places {
        // SAFETY: a hint about an address, which need not be valid.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place as *const i8) };
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
            "syscall",
            inlateout("rax") number => result,
            in("rdi") one, in("rsi") two, in("rdx") three,
            in("r10") four, in("r8") five, in("r9") six,
            lateout("rcx") _, lateout("r11") _, options(nostack),
        );
    }
    result
}

/// Returns whether these bytes of code end in a call.
pub(crate) fn ends_in_call(bytes: [u8; 8]) -> bool {
    const CALL: u8 = 0xe8;
    const BY_WORD: u8 = 0xff;
    /// The three bits of such an instruction that make it a call.
    const KIND: u8 = 0o070;
    const OF_CALL: u8 = 0o020;
    let by_word = |at: usize| bytes[at] == BY_WORD && bytes[at + 1] & KIND == OF_CALL;
    bytes[3] == CALL || by_word(6) || by_word(5) || by_word(2)
}

/// Indexes of mode, user and group in a `struct stat`, in words of 32 bits.
pub(crate) const STAT_WORDS: [usize; 3] = [6, 7, 8];
