//! The children of this process: a command under a deadline, and the end of whatever it started.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use convoy_workload::Errno;
use convoy_workload::api::{Exit, ShellLine, Sys};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{self, Pid, PidfdFlags};

use super::sys::{self, Ended};
use convoy_os::clock;

/// How long killed children are given before they are looked for again.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs `line` until it exits or times out, and kills all its descendants; the caller must not have
/// other children. Returns `None` after a timeout.
pub(super) fn run(line: &ShellLine<'_>) -> Sys<Option<Exit>> {
    // Orphans of the command become children of this process, not of the supervisor.
    adopt(true)?;
    let mut shell = Command::new("/bin/sh");
    shell.arg0("sh").args(["-c", line.line]).current_dir(line.directory);
    shell.env("CONVOY_USER", (line.user + 1).to_string());
    shell.stdin(Stdio::null()).stdout(Stdio::null());
    let started = shell.spawn();
    let ended = started.map(|child| {
        let pid = child.id() as i32;
        let in_time = wait_for(pid, Duration::from_secs(line.timeout_s.into()));
        let ended = end_children();
        ended.iter().find(|ended| ended.pid == pid && in_time).map(|ended| ended.exit)
    });
    adopt(false)?;
    ended.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::EIO.0)))
}

/// Makes this process the parent of its descendants' orphans, or no longer.
fn adopt(yes: bool) -> Sys<()> {
    let result = process::set_child_subreaper(yes.then(process::getpid));
    result.map_err(|errno| Errno(errno.raw_os_error()))
}

/// Waits until the child `pid` has ended, which it leaves to be reaped, or for `timeout`; whether
/// it has.
fn wait_for(pid: i32, timeout: Duration) -> bool {
    let Some(child) = Pid::from_raw(pid) else { return false };
    let end = clock::monotonic_ns() + timeout.as_nanos() as u64;
    let descriptor = process::pidfd_open(child, PidfdFlags::empty());
    loop {
        let options = process::WaitIdOptions::EXITED
            | process::WaitIdOptions::NOWAIT
            | process::WaitIdOptions::NOHANG;
        let left = end.saturating_sub(clock::monotonic_ns());
        match process::waitid(process::WaitId::Pid(child), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) if left > 0 => {}
            Ok(found) => return found.is_some(),
            Err(_) => return false,
        }
        match &descriptor {
            Ok(descriptor) => {
                let left = rustix::time::Timespec {
                    tv_sec: (left / 1_000_000_000) as i64,
                    tv_nsec: (left % 1_000_000_000) as i64,
                };
                let _woken = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&left));
            }
            // Kernels before 5.3 do not have such descriptors.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Kills all children of this process and, if it is their subreaper, all their descendants; reaps
/// them and returns their exit states.
pub(super) fn end_children() -> Vec<Ended> {
    let mut all = Vec::new();
    loop {
        match sys::wait_any(false) {
            Ok(Some(ended)) => all.push(ended),
            Ok(None) => {
                // A child has no other process's id before it is reaped.
                let own = process::getpid().as_raw_nonzero().get();
                for (child, _) in convoy_os::process::children(own) {
                    let _ended_since = sys::kill(child as i32, libc::SIGKILL);
                }
                std::thread::sleep(PAUSE);
            }
            Err(Errno::EINTR) => {}
            Err(_) => return all,
        }
    }
}
