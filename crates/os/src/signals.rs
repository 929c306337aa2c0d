//! Interrupts of a command: SIGINT, SIGTERM and SIGHUP.

use std::sync::atomic::{AtomicI32, Ordering};

/// The interrupt that came last since [`Interrupts::catch`]; 0 if none.
static INTERRUPTED: AtomicI32 = AtomicI32::new(0);
/// The process to notify of an interrupt; 0 if none.
static SUPERVISOR: AtomicI32 = AtomicI32::new(0);

/// Passes an interrupt on to the supervisor, which cleans up and ends.
extern "C" fn on_interrupt(signal: libc::c_int) {
    // Ordering: SeqCst with `pass_interrupts_to`: either the handler sees the supervisor or that
    // function sees the flag, whichever comes first.
    INTERRUPTED.store(signal, Ordering::SeqCst);
    let pid = SUPERVISOR.load(Ordering::SeqCst);
    if pid > 0 {
        // SAFETY: The location of this thread's errno is valid.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: As above.
        let saved = unsafe { errno.read() };
        // SAFETY: `kill` is async-signal-safe.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        // SAFETY: As above.
        unsafe { errno.write(saved) };
    }
}

/// Returns whether this process has received an interrupt, or its parent before the fork.
pub fn interrupted() -> bool {
    interrupt().is_some()
}

/// Returns the number of the signal that interrupted this process, or its parent before the fork.
pub fn interrupt() -> Option<i32> {
    // Ordering: SeqCst, see `on_interrupt`.
    Some(INTERRUPTED.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
}

/// Names the process that interrupts are passed on to; 0 for none.
pub fn pass_interrupts_to(pid: i32) {
    // Ordering: SeqCst, see `on_interrupt`.
    SUPERVISOR.store(pid, Ordering::SeqCst);
    if pid > 0 && interrupted() {
        // SAFETY: `kill` takes integers.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

/// Catches SIGINT, SIGTERM and SIGHUP while it lives, so that a long command can end in order, and
/// puts the old handlers back.
#[derive(Debug)]
pub struct Interrupts {
    old: Vec<(i32, libc::sighandler_t)>,
}

impl Interrupts {
    /// Catches them from now on, except those that are ignored (as under `nohup`).
    pub fn catch() -> Self {
        INTERRUPTED.store(0, Ordering::SeqCst);
        let handler = on_interrupt as *const () as libc::sighandler_t;
        let mut old = Vec::new();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: The handler has the right type and is async-signal-safe.
            let before = unsafe { libc::signal(signal, handler) };
            if before == libc::SIG_IGN {
                // SAFETY: This is the action that the signal had.
                unsafe { libc::signal(signal, before) };
            } else if before != libc::SIG_ERR {
                old.push((signal, before));
            }
        }
        Self { old }
    }

    /// Returns whether one has come.
    #[expect(clippy::unused_self, reason = "the flag means something only while they are caught")]
    pub fn pending(&self) -> bool {
        interrupted()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, action) in &self.old {
            // SAFETY: This is the action that the signal had before.
            unsafe { libc::signal(*signal, *action) };
        }
    }
}
