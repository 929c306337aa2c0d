//! Resource usage of processes, and waiting for a child with its usage, which neither `std` nor
//! `rustix` offers.

use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Resource usage of a child and of the children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of one of the processes, bytes.
    pub max_resident_bytes: u64,
    /// Context switches, voluntary or not.
    pub switches: u64,
}

/// Waits for `child` to end and takes its status and usage.
///
/// # Errors
/// The errors of `wait4`; interrupted waits are repeated.
pub fn wait_with_usage(child: &Child) -> std::io::Result<(ExitStatus, ChildUsage)> {
    let pid = child.id() as libc::pid_t;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: `status` and `usage` are writable and of the types that the call fills.
        let found = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if found == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: All fields are integers, zeroed above and filled by the call.
    let usage = unsafe { usage.assume_init() };
    let usage = ChildUsage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_resident_bytes: usage.ru_maxrss as u64 * 1024,
        switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// Returns the resource usage of this process (`RUSAGE_SELF`), or of its children that have ended
/// and were waited for (`RUSAGE_CHILDREN`).
pub(crate) fn usage(whose: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable for a whosele `rusage`.
    unsafe { libc::getrusage(whose, usage.as_mut_ptr()) };
    // SAFETY: All fields are integers, zeroed above; zero is a valid value of each, whatever the
    // call did.
    unsafe { usage.assume_init() }
}

pub(crate) fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}
