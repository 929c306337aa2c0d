//! One load point, seen from the process that wants it.

use std::rc::Rc;

use convoy_kernel::Errno;
use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use super::board::{Board, Head};
use super::error::{HostError, is_full, limit_cure};
use super::supervisor::{self, Outcome, Plan};
use super::sys::{self, Forked};
use super::workdir::WorkDir;
use crate::jobs::JobError;

/// Checks for the end of orphans after a supervisor was killed, one millisecond apart.
const ORPHAN_CHECKS: u32 = 2000;

/// Runs `plan` in `directory` and returns what its users recorded. On any error everything it made
/// is removed.
pub(super) fn run_plan(plan: &Plan, directory: &WorkDir) -> Result<Board, HostError> {
    let users = plan.orders.len() as u32;
    let board = Board::new(users).map_err(|errno| HostError::System { call: "mmap", errno })?;
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
    sys::pass_interrupts_to(pid);
    wait_for(pid);
    check(&board, plan, directory)?;
    // The processes that shared it have ended; this is the only owner.
    Rc::try_unwrap(board).map_err(|_| HostError::Supervisor)
}

/// Waits for the supervisor. It is unregistered before its id is free to be used again.
fn wait_for(pid: i32) {
    let Some(id) = Pid::from_raw(pid) else { return };
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(process::waitid(WaitId::Pid(id), ended), Err(rustix::io::Errno::INTR)) {}
    sys::pass_interrupts_to(0);
    let reap = || process::waitpid(Some(id), WaitOptions::empty());
    while matches!(reap(), Err(rustix::io::Errno::INTR)) {}
}

/// Turns the supervisor's outcome into a result.
fn check(board: &Board, plan: &Plan, directory: &WorkDir) -> Result<(), HostError> {
    let errno = Errno(board.get(Head::Errno) as i32);
    let user = board.get(Head::User) as u32;
    match Outcome::of(board) {
        Outcome::Done => Ok(()),
        Outcome::Interrupted => Err(HostError::Interrupted),
        Outcome::Unknown => {
            end_orphans(board);
            Err(HostError::Supervisor)
        }
        Outcome::Prepare if is_full("", errno) => Err(HostError::NoSpace {
            path: directory.parent().to_path_buf(),
            what: format!("{} KB for tmpa.common", plan.env.file_kb),
        }),
        Outcome::Prepare => {
            let source = JobError::Call { call: call_name(&board.text()), errno };
            Err(HostError::Prepare { path: directory.parent().to_path_buf(), source })
        }
        Outcome::Fork => Err(HostError::Fork { user: user + 1, users: board.users(), errno }),
        Outcome::Limit => Err(limit(board, user, directory)),
        Outcome::System => Err(HostError::System { call: call_name(&board.text()), errno }),
    }
}

/// The error of a user that met a limit.
fn limit(board: &Board, user: u32, directory: &WorkDir) -> HostError {
    let slot = board.slot(user);
    let (what, errno) = slot.failure().unwrap_or_else(|| ("a limit was met".to_owned(), Errno(0)));
    let limits = ["semget", "shmget", "fork"];
    let call = limits.into_iter().find(|call| slot.failed_in(call)).unwrap_or("");
    if is_full(call, errno) {
        return HostError::NoSpace { path: directory.parent().to_path_buf(), what };
    }
    let cure = limit_cure(call, errno).unwrap_or("check the limits of this session (ulimit -a)");
    HostError::Limit { user: user + 1, what, cure }
}

/// The calls of the fixtures and of the supervisor, by name: texts do not outlive the shared page.
fn call_name(text: &str) -> &'static str {
    let known = [
        "chdir", "mkdir", "link", "open", "write", "close", "setpgid", "prctl", "signalfd", "fork",
        "pipe", "poll", "read",
    ];
    known.into_iter().find(|call| *call == text).unwrap_or("run control")
}

/// Ends what a killed supervisor left: users die with it, the children of their jobs do not.
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
