//! Calls with which a process gives up rights. After such a call the recorder makes no system
//! calls, because a forbidden one may end the process.
//!
//! prctl(2) and syscall(2) pass through here. A few comparisons distinguish calls that give up
//! rights, and those that wait and wake ([`futex`](crate::interpose::futex)), from all others.

use core::arch::naked_asm;
use core::ffi::c_long;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch;
use crate::arch::number::{PRCTL, SECCOMP};
use crate::file::clock::look;
use crate::file::map::{file, set};
use crate::file::pages;
use crate::interpose::libc;
use crate::policy::fair;
use crate::system::calls::call;
use crate::system::rights::{NO_TICKS, is_quiet, keep_quiet};
use crate::threads::attach;

const SET_SECCOMP: usize = 22;
const SET_TSC: usize = 26;
/// Modes of [`SET_SECCOMP`], and the argument of [`SET_TSC`] that makes reads of the counter fault.
const STRICT: usize = 1;
const FILTER: usize = 2;
const TSC_FAULTS: usize = 2;
/// Operations of seccomp(2): the same modes.
const OP_STRICT: usize = 0;
const OP_FILTER: usize = 1;

static REAL_PRCTL: AtomicUsize = AtomicUsize::new(0);
static REAL_SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// Returns whether this process has inherited a counter that it cannot read.
pub(crate) fn counter_is_forbidden() -> bool {
    const GET_TSC: usize = 25;
    let mut mode = 0_u32;
    call(PRCTL, [GET_TSC, (&raw mut mode) as usize, 0, 0, 0, 0]);
    mode as usize == TSC_FAULTS
}

/// Finds the functions of these names, before a signal handler may call them.
pub(crate) fn find() {
    REAL_PRCTL.store(libc::PRCTL.address().unwrap_or(0), Relaxed);
    REAL_SYSCALL.store(libc::SYSCALL.address().unwrap_or(0), Relaxed);
}

/// Handles a call of prctl(2), which may give up rights.
fn gives_up(option: usize, first: usize, second: usize) {
    match (option, first) {
        (SET_SECCOMP, STRICT) | (SET_TSC, TSC_FAULTS) => strict(),
        (SET_SECCOMP, FILTER) if second != 0 => filter(),
        _ => {}
    }
}

/// Handles the loss of the counter: the calling thread, and threads and processes that it starts,
/// cannot read it any more. In strict mode the thread may only read, write and exit.
fn strict() {
    NO_TICKS.store(true, Relaxed);
    if let Some(file) = file() {
        set(&file.header.sandboxed, 1);
    }
    attach::leave();
}

/// Handles a filter on the system calls of the process, or of this thread and its children.
fn filter() {
    if let Some(file) = file().filter(|_| !is_quiet()) {
        pages::reserve_ahead(file);
        look(file, arch::ticks());
        set(&file.header.sandboxed, 1);
    }
    fair::reserve_ahead();
    keep_quiet();
}

extern "C" fn before_prctl(option: usize, first: usize, second: usize) -> usize {
    gives_up(option, first, second);
    libc::PRCTL.address().unwrap_or(0)
}

extern "C" fn before_syscall(number: usize, one: usize, two: usize, three: usize) -> usize {
    match (number as c_long, one) {
        (PRCTL, _) => gives_up(one, two, three),
        (SECCOMP, OP_STRICT) => strict(),
        (SECCOMP, OP_FILTER) if three != 0 => filter(),
        _ => {}
    }
    libc::SYSCALL.address().unwrap_or(0)
}

/// The parameters stay in place, including those on the stack, so the call continues as if it had
/// not been intercepted. Calls with the number `$other` are redirected, and their number is
/// replaced by the address to which they return.
macro_rules! passing {
    ($name:ident, [$($number:expr),*], $before:ident, $real:ident $(, $other:literal $to:path)?)
    => {
        /// libc's function of this name.
        ///
        /// # Safety
        /// As libc demands.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                $(concat!("cmp edi, ", $number), "je 2f",)*
                $(concat!("cmp edi, ", $other), "je 3f",)?
                "mov r11, qword ptr [rip + {real}]",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2:",
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {before}",
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                $(
                    "3:",
                    concat!("/* ", $other, " */ mov rdi, qword ptr [rsp]"),
                    "jmp {to}",
                    to = sym $to,
                )?
                real = sym $real,
                before = sym $before,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                $(concat!("cmp w0, #", $number), "b.eq 2f",)*
                $(concat!("cmp w0, #", $other), "b.eq 3f",)?
                "adrp x16, {real}",
                "ldr x16, [x16, :lo12:{real}]",
                "cbz x16, 2f",
                "br x16",
                "2:",
                "stp x29, x30, [sp, #-80]!",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "bl {before}",
                "mov x16, x0",
                "ldp x6, x7, [sp, #64]", "ldp x4, x5, [sp, #48]", "ldp x2, x3, [sp, #32]",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #80",
                "br x16",
                $(
                    "3:",
                    concat!("// ", $other),
                    "mov x0, x30",
                    "b {to}",
                    to = sym $to,
                )?
                real = sym $real,
                before = sym $before,
            );
        }
    };
}

passing!(prctl, [22, 26], before_prctl, REAL_PRCTL);
// The numbers of prctl(2), seccomp(2) and futex(2).
#[cfg(target_arch = "x86_64")]
passing!(syscall, [157, 317], before_syscall, REAL_SYSCALL, 202 crate::interpose::futex::called);
#[cfg(target_arch = "aarch64")]
passing!(syscall, [167, 277], before_syscall, REAL_SYSCALL, 98 crate::interpose::futex::called);
