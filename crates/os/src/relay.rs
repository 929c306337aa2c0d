//! Signals for the program that this process waits for, and their senders.

use std::sync::atomic::{AtomicU32, Ordering};

/// The caught signals: all that users and supervisors send to a command.
const CAUGHT: [i32; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Those that came, a bit each: of other processes, and of the terminal.
static ARRIVED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives what it knows of the signal.
    let code = unsafe { (*info).si_code };
    // Ordering: SeqCst, as the other handlers; nothing else depends on it.
    ARRIVED[usize::from(code > 0)].fetch_or(1 << signal, Ordering::SeqCst);
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the terminal sent it: then all of the terminal's foreground has it.
    pub by_terminal: bool,
}

/// Catches the signals that people and supervisors send to a command that runs another one, while
/// it lives, and puts the old actions back.
pub struct Relay {
    old: Vec<(i32, libc::sigaction)>,
}

impl Relay {
    /// Catches `SIGINT`, `SIGQUIT`, `SIGTERM`, `SIGHUP`, `SIGUSR1` and `SIGUSR2` from now on. Those
    /// that are ignored (as under `nohup`) stay ignored.
    pub fn catch() -> Self {
        let mut old = Vec::new();
        for bits in &ARRIVED {
            bits.store(0, Ordering::SeqCst);
        }
        for signal in CAUGHT {
            // SAFETY: all fields are integers, or may be null.
            let mut before = unsafe { std::mem::zeroed::<libc::sigaction>() };
            // SAFETY: asks for the action, and writes it.
            unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) };
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            // SAFETY: as above.
            let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO;
            // SAFETY: the handler has the right type and is async-signal-safe.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
            old.push((signal, before));
        }
        Self { old }
    }

    /// Returns the next signal that came and was not taken yet.
    #[expect(clippy::unused_self, reason = "there are none unless they are caught")]
    pub fn next(&self) -> Option<Arrived> {
        for (bits, by_terminal) in ARRIVED.iter().zip([false, true]) {
            let now = bits.load(Ordering::SeqCst);
            if now != 0 {
                let signal = now.trailing_zeros() as i32;
                bits.fetch_and(!(1 << signal), Ordering::SeqCst);
                return Some(Arrived { signal, by_terminal });
            }
        }
        None
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Relay")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for (signal, action) in &self.old {
            // SAFETY: the action that the signal had before.
            unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
        }
    }
}
