//! The process that runs one load point.
//!
//! ```text
//! convoy ── supervisor ── anchor            (its process group is the users')
//!                      ├─ user 0 ── children of its jobs
//!                      └─ user N−1
//! ```
//!
//! The supervisor is the only thread of its process, so forking from it is clean whatever the
//! caller's process does. It reads signals from a descriptor: waiting for users and for an
//! interrupt is one `poll`, with nothing to miss. It is the subreaper of all its descendants: it
//! inherits grandchildren of killed parents. The anchor does nothing but keep the process group
//! alive, so that killing the group at the end can neither miss a process nor hit a stranger.
//!
//! *Start barrier.* Two pipes. A user writes nothing: it closes its end of the *ready* pipe, and
//! the supervisor reads the end of file when all have (a user that dies closes it too). Then the
//! supervisor stamps the start and closes its end of the *gate*, on which all users block in
//! `read`: each gets the end of file whether it was already waiting or arrives later. Wakeups
//! cannot be lost, and there is no polling.
//!
//! *Death of the parents.* The supervisor gets SIGTERM when the process that started it dies,
//! removes everything including the work directory, and ends; users are killed when the supervisor
//! dies. If both are killed together, the next run cleans up (`host/workdir.rs`), for which the
//! supervisor stores the users' process ids in the work directory.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use convoy_workload::Errno;
use convoy_workload::api::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{self, Pid, Signal};

use super::board::{Board, Head};
use super::error::{is_full, limit_cure};
use super::family;
use super::inject::Fault;
use super::kernel::Host;
use super::stop::Stop;
use super::sys::{self, Ended, Forked};
use super::workdir::{USERS_FILE, remove_tree};
use convoy_os::clock;
use convoy_workload::jobs::{Job, JobEnv, JobError};
use convoy_workload::rotation::Rotation;
use convoy_workload::user::{self, Next};

/// Signals that the supervisor reads.
const SIGNALS: [i32; 5] = [libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Bytes of one record of a signal descriptor.
const SIGNAL_RECORD: usize = 128;
/// Exit code of a user that met a limit of the system.
const LIMIT_MET: i32 = 3;

/// Plan of a load point.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The environment; `user` and `directory` are set for each user.
    pub(crate) env: JobEnv,
    /// The work directories; users take them in turn.
    pub(crate) directories: Vec<String>,
    /// The order of each user.
    pub(crate) orders: Vec<Vec<Job>>,
    /// Time between the start stamp and the release of the users; 10 s in AIM7 of 1996.
    pub(crate) delay: Duration,
    /// CPUs that users are bound to in turn; none: they are not bound.
    pub(crate) cpus: Vec<usize>,
    /// A fault to inject.
    pub(crate) fault: Option<Fault>,
}

impl Plan {
    /// The environment of `user`.
    fn env_of(&self, user: u32) -> JobEnv {
        let directory = self.directories[user as usize % self.directories.len()].clone();
        JobEnv { directory, user, ..self.env.clone() }
    }
}

/// How a supervisor ended, in [`Head::Outcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was killed before it could say.
    Unknown,
    /// All users have ended.
    Done,
    /// A signal told it to stop.
    Interrupted,
    /// The fixtures could not be made.
    Prepare,
    /// A user could not be forked.
    Fork,
    /// A user met a limit.
    Limit,
    /// A call of the supervisor failed.
    System,
}

impl Outcome {
    /// Returns the outcome stored in a board.
    pub(crate) fn of(board: &Board) -> Self {
        let all = [
            Self::Unknown,
            Self::Done,
            Self::Interrupted,
            Self::Prepare,
            Self::Fork,
            Self::Limit,
            Self::System,
        ];
        let told = board.get(Head::Outcome);
        all.into_iter().find(|outcome| *outcome as u64 == told).unwrap_or(Self::Unknown)
    }
}

/// Runs the load point in the calling process, a fresh child of `parent`; stores the outcome in the
/// board.
pub(crate) fn supervise(plan: &Plan, board: &Rc<Board>, parent: Option<Pid>) {
    let outcome = match Supervisor::new(plan, board, parent) {
        Ok(mut supervisor) => {
            let result = supervisor.run();
            supervisor.finish();
            result
        }
        Err(stop) => Err(stop),
    };
    // After an interrupt nothing is read from the work directories, and the process that would
    // remove them may be ending: its threads exit one by one, and until the last one has, this
    // process keeps its parent.
    if matches!(outcome, Err(Stop::Interrupted)) || process::getppid() != parent {
        for directory in &plan.directories {
            let _best_effort = remove_tree(Path::new(directory));
        }
    }
    report(board, outcome);
}

fn report(board: &Board, result: Result<(), Stop>) {
    let outcome = match result {
        Ok(()) => Outcome::Done,
        Err(Stop::Interrupted) => Outcome::Interrupted,
        Err(Stop::Prepare(error)) => {
            board.set(Head::Errno, error.errno().map_or(0, |errno| errno.0 as u64));
            if let JobError::Call { call, .. } = error {
                board.set_text(call);
            }
            Outcome::Prepare
        }
        Err(Stop::Fork { user, errno }) => {
            board.set(Head::User, u64::from(user));
            board.set(Head::Errno, errno.0 as u64);
            Outcome::Fork
        }
        Err(Stop::Limit { user }) => {
            board.set(Head::User, u64::from(user));
            Outcome::Limit
        }
        Err(Stop::System { call, errno }) => {
            board.set_text(call);
            board.set(Head::Errno, errno.0 as u64);
            Outcome::System
        }
    };
    board.set(Head::Outcome, outcome as u64);
}

/// Adds the name of a failing call of the supervisor.
fn named<T>(call: &'static str, result: rustix::io::Result<T>) -> Result<T, Stop> {
    result.map_err(|errno| Stop::System { call, errno: Errno(errno.raw_os_error()) })
}

struct Supervisor<'a> {
    plan: &'a Plan,
    board: &'a Rc<Board>,
    signals: OwnedFd,
    anchor: Option<Pid>,
    /// Users that have not ended, by process id.
    users: BTreeMap<i32, u32>,
}

/// The ends of the two pipes of the start barrier.
struct Barrier {
    ready_read: OwnedFd,
    ready_write: OwnedFd,
    gate_read: OwnedFd,
    gate_write: OwnedFd,
}

impl Barrier {
    fn new() -> Result<Self, Stop> {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (ready_read, ready_write) = named("pipe", rustix::pipe::pipe_with(flags))?;
        let (gate_read, gate_write) = named("pipe", rustix::pipe::pipe_with(flags))?;
        Ok(Self { ready_read, ready_write, gate_read, gate_write })
    }

    /// The user's side: says that it is ready and waits for the gate.
    fn pass(self) {
        drop((self.ready_read, self.gate_write, self.ready_write));
        // The gate never carries a byte; a signal is no reason to go.
        while rustix::io::read(&self.gate_read, &mut [0_u8; 1]) == Err(rustix::io::Errno::INTR) {}
    }
}

impl<'a> Supervisor<'a> {
    fn new(plan: &'a Plan, board: &'a Rc<Board>, parent: Option<Pid>) -> Result<Self, Stop> {
        // A separate group: the terminal's interrupt reaches only the process that started it,
        // which passes it on.
        named("setpgid", process::setpgid(None, None))?;
        named("prctl", process::set_parent_process_death_signal(Some(Signal::TERM)))?;
        named("prctl", process::set_child_subreaper(Some(process::getpid())))?;
        // A file beyond `ulimit -f` is then an error of the call, which can be told.
        sys::ignore(libc::SIGXFSZ);
        let signals = sys::signal_descriptor(&SIGNALS)
            .map_err(|errno| Stop::System { call: "signalfd", errno })?;
        // Until here the handler of the parent's copy took interrupts; from here the descriptor
        // does.
        if process::getppid() != parent || convoy_os::interrupted() {
            return Err(Stop::Interrupted);
        }
        Ok(Self { plan, board, signals, anchor: None, users: BTreeMap::new() })
    }

    fn run(&mut self) -> Result<(), Stop> {
        for first_user in 0..self.plan.directories.len() as u32 {
            let env = self.plan.env_of(first_user);
            let mut host = Host::new(&env.directory);
            user::setup(&mut host, &env).map_err(Stop::Prepare)?;
        }
        let anchor = self.start_anchor()?;
        let Barrier { ready_read, ready_write, gate_read, gate_write } =
            self.start_users(anchor)?;
        drop((ready_write, gate_read));
        self.leave_word();
        self.wait_until_ready(&ready_read)?;
        let before = clock::cpu_ticks();
        self.board.set(Head::Start, clock::monotonic_ns());
        self.delay()?;
        drop(gate_write);
        while !self.users.is_empty() {
            self.poll(None, None)?;
        }
        if let (Some(before), Some(after)) = (before, clock::cpu_ticks()) {
            self.board.set_ticks(&before, &after);
        }
        Ok(())
    }

    /// Stores the process ids of the users, for a later run that finds this one killed.
    fn leave_word(&self) {
        let pids: Vec<String> = self.users.keys().map(ToString::to_string).collect();
        let path = Path::new(&self.plan.directories[0]).join(USERS_FILE);
        // If there is no room for it, the jobs report it.
        let _best_effort = std::fs::write(path, pids.join("\n"));
    }

    fn start_anchor(&mut self) -> Result<Pid, Stop> {
        let supervisor = Some(process::getpid());
        match sys::fork().map_err(|errno| Stop::System { call: "fork", errno })? {
            Forked::Child => {
                let _own_group = process::setpgid(None, None);
                let _dies_with = process::set_parent_process_death_signal(Some(Signal::KILL));
                // The kill at the end or the supervisor's death ends it; its signals are blocked.
                while process::getppid() == supervisor {
                    let _signals =
                        poll(&mut [PollFd::new(&self.signals, PollFlags::empty())], None);
                }
                sys::exit_now(0)
            }
            Forked::Parent(pid) => {
                let anchor = Pid::from_raw(pid).ok_or(Stop::Interrupted)?;
                // Both sides set the group, so that it exists before the first user.
                let _child_was_first = process::setpgid(Some(anchor), Some(anchor));
                self.anchor = Some(anchor);
                self.board.set(Head::Group, pid as u64);
                Ok(anchor)
            }
        }
    }

    fn start_users(&mut self, anchor: Pid) -> Result<Barrier, Stop> {
        let barrier = Barrier::new()?;
        let supervisor = Some(process::getpid());
        for user in 0..self.board.users() {
            match sys::fork().map_err(|errno| Stop::Fork { user, errno })? {
                Forked::Child => {
                    let run = || run_user(self.plan, self.board, user, anchor, supervisor, barrier);
                    let body = std::panic::AssertUnwindSafe(run);
                    // A panic must not unwind into the supervisor's frames.
                    sys::exit_now(std::panic::catch_unwind(body).unwrap_or(1))
                }
                Forked::Parent(pid) => {
                    let _child_was_first = process::setpgid(Pid::from_raw(pid), Some(anchor));
                    self.users.insert(pid, user);
                }
            }
        }
        Ok(barrier)
    }

    fn wait_until_ready(&mut self, ready: &OwnedFd) -> Result<(), Stop> {
        while !self.poll(Some(ready), None)? {}
        Ok(())
    }

    fn delay(&mut self) -> Result<(), Stop> {
        let end = clock::monotonic_ns() + self.plan.delay.as_nanos() as u64;
        loop {
            let left = end.saturating_sub(clock::monotonic_ns());
            if left == 0 {
                return Ok(());
            }
            self.poll(None, Some(Duration::from_nanos(left)))?;
        }
    }

    /// Waits for a signal, for the end of file on `pipe` or for `timeout`, and handles the event.
    /// Returns whether the pipe has ended.
    fn poll(&mut self, pipe: Option<&OwnedFd>, timeout: Option<Duration>) -> Result<bool, Stop> {
        let mut files = vec![PollFd::new(&self.signals, PollFlags::IN)];
        files.extend(pipe.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let timeout = timeout.map(|timeout| rustix::time::Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return named("poll", Err(errno)),
        }
        let signalled = files[0].revents().contains(PollFlags::IN);
        let ended = files.get(1).is_some_and(|file| file.revents().contains(PollFlags::HUP));
        drop(files);
        if signalled {
            self.take_signals()?;
        }
        Ok(ended)
    }

    fn take_signals(&mut self) -> Result<(), Stop> {
        let mut records = [0_u8; 16 * SIGNAL_RECORD];
        let bytes = named("read", rustix::io::read(&self.signals, &mut records))?;
        let numbers = records[..bytes].chunks_exact(SIGNAL_RECORD).map(|record| {
            // The number is the first field of the record.
            i32::from_ne_bytes([record[0], record[1], record[2], record[3]])
        });
        if numbers.into_iter().any(|signal| signal != libc::SIGCHLD) {
            return Err(Stop::Interrupted);
        }
        while let Ok(Some(ended)) = sys::wait_any(false) {
            self.take_ended(ended)?;
        }
        Ok(())
    }

    /// Accounts for an exited child; a child that is not a user is an orphan of a job.
    fn take_ended(&mut self, ended: Ended) -> Result<(), Stop> {
        let Some(user) = self.users.remove(&ended.pid) else {
            return Ok(());
        };
        let board = self.board;
        board.add_usage(&ended.usage);
        match ended.exit {
            Exit::Code(0) => {}
            Exit::Code(LIMIT_MET) => return Err(Stop::Limit { user }),
            Exit::Code(_) => board.add_lost(user, None),
            Exit::Signal(signal) => board.add_lost(user, Some(signal)),
        }
        Ok(())
    }

    /// Kills and reaps all descendants, and removes their kernel objects.
    fn finish(&mut self) {
        if let Some(anchor) = self.anchor {
            let _none_left = process::kill_process_group(anchor, Signal::KILL);
            let reap = || process::waitpid(Some(anchor), process::WaitOptions::empty());
            while matches!(reap(), Err(rustix::io::Errno::INTR)) {}
        }
        // A command may have left the group.
        family::end_children();
        remove_objects(self.board);
    }
}

/// Removes the System V objects of users that could not do it themselves.
pub(crate) fn remove_objects(board: &Board) {
    for slot in board.slots() {
        let (segment, semaphore) = slot.left_behind();
        if let Some(key) = segment {
            let _never_made = sys::remove_segment_of(key, slot.pid());
        }
        if let Some(key) = semaphore {
            let _never_made = sys::remove_semaphore_of(key, slot.pid());
        }
    }
}

/// The life of one user; returns its exit code.
fn run_user(
    plan: &Plan,
    board: &Rc<Board>,
    user: u32,
    anchor: Pid,
    supervisor: Option<Pid>,
    barrier: Barrier,
) -> i32 {
    let _parent_was_first = process::setpgid(None, Some(anchor));
    let dies_with = process::set_parent_process_death_signal(Some(Signal::KILL));
    if dies_with.is_err()
        || process::getppid() != supervisor
        || sys::default_signals(&SIGNALS).is_err()
    {
        return 1;
    }
    if let Some(cpu) = plan.cpus.get(user as usize % plan.cpus.len().max(1)) {
        let mut set = rustix::thread::CpuSet::new();
        set.set(*cpu);
        // A CPU that went offline since: the user runs unbound rather than not at all.
        let _unbound = rustix::thread::sched_setaffinity(None, &set);
    }
    // If memory runs out, the kernel kills a user, and its supervisor lives to report it.
    let _where_it_is_allowed = std::fs::write("/proc/self/oom_score_adj", "1000");
    barrier.pass();
    let slot = board.slot(user);
    slot.set_pid(process::getpid().as_raw_nonzero().get());
    slot.begin(clock::monotonic_ns());
    let mut env = plan.env_of(user);
    let mut host = Host::of_user(&env.directory, Rc::clone(board), user);
    host.arm(plan.fault);
    let mut code = 0;
    let mut rotation = Rotation::new(&env, plan.directories.len());
    for job in &plan.orders[user as usize] {
        env.directory.clone_from(&plan.directories[rotation.take(*job)]);
        host.begin(*job);
        user::user_main(&mut host, &env, &[*job], |done| {
            board.add(user, done);
            if meets_limit(done) {
                code = LIMIT_MET;
            }
            Next::Continue
        });
        if code != 0 {
            break;
        }
    }
    slot.end(clock::monotonic_ns());
    code
}

/// Whether a job failed for want of something that every user will lack.
fn meets_limit(done: &user::JobDone) -> bool {
    match done.result {
        Err(JobError::Call { call, errno }) => {
            is_full(call, errno) || limit_cure(call, errno).is_some()
        }
        _ => false,
    }
}
