//! A task that overflows its stack runs into the guard page below it. The fault is reported with
//! task, locks and the command that repeats it, and ends the process with code 3.

use super::{Engine, engine, installed};
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use std::sync::OnceLock;

/// Exit code of docs/exit-codes.md: a defect of a lock or of the model.
const EXIT: c_int = 3;
/// Bytes of the stack that handlers run on; the kernel's frame with all vector registers needs 11
/// KiB on current processors.
const HANDLER_STACK: usize = 64 << 10;

/// The previous handler, which receives all other faults: the runtime's report of overflows.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

/// The command line of this process, which repeats a deterministic simulation.
static COMMAND: OnceLock<String> = OnceLock::new();

pub(crate) fn command() -> &'static str {
    // Not all arguments are text.
    let word = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
    COMMAND.get_or_init(|| std::env::args_os().map(word).collect::<Vec<_>>().join(" "))
}

/// A message in the making, without allocation; what does not fit is cut off.
struct Text {
    bytes: [u8; 1024],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// Makes overflows on this thread reports.
pub(crate) fn catch() {
    thread_local! {
        static CAUGHT: Cell<bool> = const { Cell::new(false) };
    }
    if CAUGHT.replace(true) {
        return;
    }
    command();
    let Ok(stack) = crate::memory::reserve(HANDLER_STACK) else { return };
    let stack = libc::stack_t { ss_sp: stack.as_ptr().cast(), ss_flags: 0, ss_size: HANDLER_STACK };
    // SAFETY: the memory is ours, large enough and never given back, so it outlives the thread.
    unsafe { libc::sigaltstack(&raw const stack, core::ptr::null_mut()) };
    FORMER.get_or_init(|| {
        // SAFETY: the all-zero image of `sigaction` is valid: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        let mut former = action;
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `handler` has the signature that `SA_SIGINFO` asks for and is safe for signals.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut former) };
        former
    });
}

extern "C" fn handler(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid record to a handler with `SA_SIGINFO`.
    let info = unsafe { &*info };
    // SAFETY: a segmentation fault carries an address.
    let at = unsafe { info.si_addr() } as usize;
    if installed()
        && let Some(slot) = engine().region.guard(at)
    {
        report(engine(), slot);
    }
    // Another fault: it happens again, with the former action.
    if let Some(former) = FORMER.get() {
        // SAFETY: `former` is an action that `sigaction` gave us.
        unsafe { libc::sigaction(libc::SIGSEGV, former, core::ptr::null_mut()) };
    }
}

fn report(engine: &Engine, slot: usize) {
    let mut text = Text { bytes: [0; 1024], len: 0 };
    let (task, cpu, now) =
        (engine.cpus.this().task.get(), engine.cpus.running(), engine.cpus.now() / 1000);
    let _ = write!(
        text,
        "convoy: simulated task {task} on CPU {cpu} overflowed its stack (number {slot}) at {now} \
         ns"
    );
    engine.ledger.write(task, &mut text);
    let _ =
        writeln!(text, "; this is a defect of the simulated code; repeat it with: {}", command());
    // SAFETY: the buffer is alive and of that length.
    unsafe { libc::write(2, text.bytes.as_ptr().cast(), text.len) };
    // SAFETY: ends the process without running anything else, which is what a handler may do.
    unsafe { libc::_exit(EXIT) };
}
