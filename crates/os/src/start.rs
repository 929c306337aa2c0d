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
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Closed standard streams, a bit each.
static CLOSED: AtomicU32 = AtomicU32::new(0);
/// The ignored ones of [`CHANGED`], a bit each.
static IGNORED: AtomicU32 = AtomicU32::new(0);

/// Signals whose action this process changes: the standard library that of SIGPIPE, and glibc those
/// of its own signals, when threads start and are cancelled.
const CHANGED: [libc::c_int; 3] = [libc::SIGPIPE, 32, 33];

/// The kernel's `struct sigaction`: the handler comes first. glibc's function refuses its own
/// signals.
type Action = [usize; 4];
/// Size of the kernel's set of signals in bytes.
const SET_BYTES: usize = 8;

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
    for (at, signal) in CHANGED.into_iter().enumerate() {
        let (mut action, none): (Action, *const Action) = ([0; 4], std::ptr::null());
        let call = libc::SYS_rt_sigaction;
        // SAFETY: asks for the action, and writes it.
        unsafe { libc::syscall(call, signal, none, &raw mut action, SET_BYTES) };
        if action[0] == libc::SIG_IGN {
            // Relaxed: there are no other threads yet.
            IGNORED.fetch_or(1 << at, Relaxed);
        }
    }
}

/// Has `command` start with the closed standard streams, and with the ignored and blocked signals,
/// of this process, as a shell would start it.
pub fn as_started(command: &mut Command) {
    let (closed, ignored) = (CLOSED.load(Relaxed), IGNORED.load(Relaxed));
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
        for (at, signal) in CHANGED.into_iter().enumerate() {
            let (action, none): (Action, *mut Action) =
                ([libc::SIG_IGN, 0, 0, 0], std::ptr::null_mut());
            if ignored & 1 << at != 0 {
                let call = libc::SYS_rt_sigaction;
                // SAFETY: reads an action without a handler.
                unsafe { libc::syscall(call, signal, &raw const action, none, SET_BYTES) };
            }
        }
        // SAFETY: the child has one thread, and reads the mask.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls only, and allocates nothing.
    unsafe { command.pre_exec(restore) };
}
