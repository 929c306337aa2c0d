//! Filters of system calls (seccomp): a call may end the process, as in a unit of systemd with
//! `SystemCallFilter=@system-service`, so that it is tried in a child first.

use std::io;

/// Returns an error if the filters of this process end a process that makes the system call
/// `number`.
pub(crate) fn check(number: libc::c_long, name: &str) -> io::Result<()> {
    if filters() == 0 || survives(number) {
        return Ok(());
    }
    let text = format!("a filter of system calls (seccomp) ends processes that call {name}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Returns the number of system call filters of this process, which its children inherit.
pub fn filters() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = crate::process::field(&status, "Seccomp_filters");
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Whether a child that makes the call exits by itself. Its parameters make sense to no call.
fn survives(number: libc::c_long) -> bool {
    // SAFETY: the child makes async-signal-safe calls only.
    let child = unsafe { libc::fork() };
    match child {
        -1 => false,
        0 => {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: reads the limit: its end leaves no image of memory.
            unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
            // SAFETY: no pointer of the call is valid, so it refuses.
            unsafe { libc::syscall(number, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64, -1_i64) };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        _ => {
            let mut status = 0;
            // SAFETY: writes the status.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
                if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                    return false;
                }
            }
            libc::WIFEXITED(status)
        }
    }
}
