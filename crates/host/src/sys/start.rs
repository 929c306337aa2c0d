//! The signals and standard streams with which this process was started, for programs that it
//! starts.
//!
//! Before `main`, Rust's standard library ignores SIGPIPE and opens `/dev/null` in place of closed
//! standard streams; it starts programs with the default action of SIGPIPE and without blocked
//! signals. A recorded program must not notice that: in a unit of systemd SIGPIPE is ignored
//! (`IgnoreSIGPIPE=`), and a server may rely on it.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Closed standard streams, a bit each.
static CLOSED: AtomicU32 = AtomicU32::new(0);
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);

// The loader calls it before `main`, and so before the standard library begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = note;

extern "C" fn note() {
    for stream in 0..3 {
        // SAFETY: takes a number.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0 {
            // Relaxed: there are no other threads yet.
            CLOSED.fetch_or(1 << stream, Relaxed);
        }
    }
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the action, and writes it.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all fields are integers, or may be null.
    let action = unsafe { action.assume_init() };
    IGNORES_PIPE.store(action.sa_sigaction == libc::SIG_IGN, Relaxed);
}

/// Has `command` start with the closed standard streams, the ignored SIGPIPE and the blocked
/// signals of this process, as a shell would start it.
pub fn as_started(command: &mut Command) {
    let (closed, ignores_pipe) = (CLOSED.load(Relaxed), IGNORES_PIPE.load(Relaxed));
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: changes nothing, and writes the mask of this thread.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: a set of bits, zeroed above and filled by the call.
    let mask = unsafe { mask.assume_init() };
    let restore = move || {
        for stream in (0..3).filter(|stream| closed & 1 << stream != 0) {
            // SAFETY: the descriptor of `/dev/null` that replaced the closed stream; the child uses
            // no other one.
            unsafe { libc::close(stream) };
        }
        if ignores_pipe {
            // SAFETY: an action without a handler.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        // SAFETY: the child has one thread, and reads the mask.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls only, and allocates nothing.
    unsafe { command.pre_exec(restore) };
}
