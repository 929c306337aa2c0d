//! One load point, seen from the process that wants it.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use convoy_workload::Errno;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{self, Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};

use super::board::{Board, Head};
use super::error::{At, HostError, is_full, limit_cure};
use super::supervisor::{self, Outcome, Plan};
use super::sys::{self, Forked};
use super::workdir::WorkDirs;
use convoy_workload::jobs::JobError;

/// Checks for the end of orphans after a supervisor was killed, one millisecond apart.
const ORPHAN_CHECKS: u32 = 2000;
/// How often the jobs done are counted while a load point runs: often enough for a person, and too
/// seldom to be felt.
const COUNT_EVERY: Duration = Duration::from_millis(500);

/// Runs `plan` in `directories` and returns what its users recorded; `count` is told the jobs done
/// from time to time. On any error everything it made is removed.
pub(super) fn run_plan(
    plan: &Plan,
    directories: &WorkDirs,
    count: &mut dyn FnMut(u64),
) -> Result<Board, HostError> {
    let users = plan.orders.len() as u32;
    let board = Board::new(users, &plan.orders.concat())
        .map_err(|errno| HostError::System { call: "mmap", errno })?;
    let board = Rc::new(board);
    let parent = Some(process::getpid());
    let forked = sys::fork().map_err(|errno| HostError::System { call: "fork", errno })?;
    let pid = match forked {
        Forked::Child => {
            let body = std::panic::AssertUnwindSafe(|| {
                supervisor::supervise(plan, &board, parent);
            });
            sys::exit_now(i32::from(std::panic::catch_unwind(body).is_err()))
        }
        Forked::Parent(pid) => pid,
    };
    convoy_os::pass_interrupts_to(pid);
    wait_for(pid, || count(board.jobs_done()));
    check(&board, plan, directories)?;
    // The processes that shared it have ended; this is the only owner.
    Rc::try_unwrap(board).map_err(|_| HostError::Supervisor)
}

/// Waits for the supervisor, calling `count` periodically. It is unregistered before its id is free
/// to be used again.
fn wait_for(pid: i32, count: impl FnMut()) {
    let Some(id) = Pid::from_raw(pid) else { return };
    // Kernels before 5.3 do not have such descriptors: then nothing is counted.
    if let Ok(descriptor) = process::pidfd_open(id, PidfdFlags::empty()) {
        count_until_ended(&descriptor, count);
    }
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(process::waitid(WaitId::Pid(id), ended), Err(rustix::io::Errno::INTR)) {}
    convoy_os::pass_interrupts_to(0);
    while matches!(process::waitpid(Some(id), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {
    }
}

fn count_until_ended(descriptor: &OwnedFd, mut count: impl FnMut()) {
    let wait = rustix::time::Timespec {
        tv_sec: COUNT_EVERY.as_secs() as i64,
        tv_nsec: i64::from(COUNT_EVERY.subsec_nanos()),
    };
    loop {
        match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&wait)) {
            Ok(0) => count(),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Turns the supervisor's outcome into a result.
fn check(board: &Board, plan: &Plan, directories: &WorkDirs) -> Result<(), HostError> {
    let errno = Errno(board.get(Head::Errno) as i32);
    let user = board.get(Head::User) as u32;
    let path = directories.parent_of(0).to_path_buf();
    match Outcome::of(board) {
        Outcome::Done => Ok(()),
        Outcome::Interrupted => Err(HostError::Interrupted),
        Outcome::Unknown => {
            end_orphans(board);
            Err(HostError::Supervisor)
        }
        Outcome::Prepare if is_full("", errno) => Err(HostError::NoSpace {
            path,
            what: format!("{} KB for tmpa.common", plan.env.file_kb),
            at: At { call: Some(board.text()), errno: Some(errno), ..At::default() },
        }),
        Outcome::Prepare => {
            let source = JobError::Call { call: call_name(&board.text()), errno };
            Err(HostError::Prepare { path, source })
        }
        Outcome::Fork => Err(HostError::Fork { user: user + 1, users: board.users(), errno }),
        Outcome::Limit => Err(limit(board, user, directories)),
        Outcome::System => Err(HostError::System { call: call_name(&board.text()), errno }),
    }
}

/// The error of a user that met a limit.
fn limit(board: &Board, user: u32, directories: &WorkDirs) -> HostError {
    // Such a user has recorded its failure before it ended.
    let Some(failure) = board.slot(user).failure() else { return HostError::Supervisor };
    let errno = failure.errno.unwrap_or(Errno(0));
    let at = At {
        user: Some(user + 1),
        job: failure.job.map(convoy_workload::jobs::Job::name),
        call: Some(failure.call.clone()),
        errno: failure.errno,
    };
    if is_full(&failure.call, errno) {
        let path = directories.parent_of(user).to_path_buf();
        let what = format!("user {}: {}", user + 1, failure.text);
        return HostError::NoSpace { path, what, at };
    }
    let cure =
        limit_cure(&failure.call, errno).unwrap_or("check the limits of this session (ulimit -a)");
    HostError::Limit { user: user + 1, what: failure.text, cure, at }
}

/// The calls of the fixtures and of the supervisor, by name: texts do not outlive the shared page.
fn call_name(text: &str) -> &'static str {
    let known = [
        "chdir", "mkdir", "link", "open", "write", "close", "setpgid", "prctl", "signalfd", "fork",
        "pipe", "poll", "read",
    ];
    known.into_iter().find(|call| *call == text).unwrap_or("run control")
}

/// Kills processes that a killed supervisor left: users die with it, but the children of their jobs
/// do not.
fn end_orphans(board: &Board) {
    if let Some(group) = Pid::from_raw(board.get(Head::Group) as i32) {
        for _ in 0..ORPHAN_CHECKS {
            if process::kill_process_group(group, Signal::KILL).is_err() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    supervisor::remove_objects(board);
}
