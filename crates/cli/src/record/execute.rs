//! The program, from its start to its exit: its signals, and its background processes.

use super::args::RecordArgs;
use crate::fail::Failure;
use crate::output;
use convoy_os::process::Stat;
use convoy_os::{ChildUsage, Relay, as_started, wait_with_usage};
use convoy_record::Looks;
use convoy_record::bound::Others;
use convoy_record::bpf::Watching;
use convoy_record::ready::Ready;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, set_child_subreaper, wait,
};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long the program may take to end by itself after a signal to terminate.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of checks on the program: while kernel events are recorded, and otherwise.
const LOOK: Duration = Duration::from_millis(10);
const SLOW_LOOK: Duration = Duration::from_millis(100);

/// A program that ran to its end.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) usage: ChildUsage,
    pub(super) wall: Duration,
    /// Background processes that continued.
    pub(super) background: usize,
    /// While it exists, a signal does not end this process, which has a record to keep.
    pub(super) relay: Relay,
}

/// Runs the command to its end, and waits for its background processes. It receives signals of the
/// terminal directly; signals to this process alone are forwarded.
pub(super) fn execute(
    mut command: Command,
    args: &RecordArgs,
    beside: &mut Beside<'_>,
) -> Result<Ran, Failure> {
    // A process that outlives its parent becomes a child of this process, which can wait for it.
    let _older_kernel = set_child_subreaper(Some(rustix::process::getpid()));
    as_started(&mut command);
    let (relay, begin) = (Relay::catch(), Instant::now());
    let child = match beside.watching {
        Some(watching) => watching.with(|| command.spawn()),
        None => command.spawn(),
    };
    let child = child.map_err(|error| Failure::start(&args.words[0], &error))?;
    let terminated = attend(&child, &relay, args.seconds.map(Duration::from_secs_f64), beside);
    let waited = wait_with_usage(&child);
    let (status, usage) = waited
        .map_err(|error| Failure::environment(format!("cannot wait for the program: {error}")))?;
    let background = background(&relay, beside, terminated, args.quiet);
    Ok(Ran { status, usage, wall: begin.elapsed(), background, relay })
}

/// The observers of the program while it runs.
pub(super) struct Beside<'a> {
    pub(super) watching: &'a mut Option<Watching>,
    pub(super) looks: &'a mut Looks,
    pub(super) ready: &'a mut Ready,
    pub(super) others: Others,
}

impl Beside<'_> {
    /// Looks; when to look again.
    fn look(&mut self) -> Duration {
        let slow = match self.watching.as_mut() {
            Some(watching) => watching.look().min(LOOK),
            None => SLOW_LOOK,
        };
        let next = self.looks.look().min(slow);
        self.ready.look();
        self.others.look();
        next
    }
}

/// Waits until the child has exited, and forwards signals. Returns whether the child was asked to
/// terminate, by a signal or because the time was over; if it does not, it is killed.
fn attend(child: &Child, relay: &Relay, most: Option<Duration>, beside: &mut Beside<'_>) -> bool {
    let (pid, begin) = (Pid::from_child(child), Instant::now());
    let mut told: Option<Instant> = None;
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    loop {
        let next = beside.look();
        let mut ends = [PollFd::new(&descriptor, PollFlags::IN)];
        let look = Timespec { tv_sec: 0, tv_nsec: next.subsec_nanos().into() };
        if poll(&mut ends, Some(&look)).is_ok_and(|count| count > 0) {
            return told.is_some();
        }
        while let Some(arrived) = relay.next() {
            let has_it = arrived.by_terminal && group(pid) == group(rustix::process::getpid());
            let signal = Signal::from_named_raw(arrived.signal);
            if let (Some(signal), false) = (signal, has_it) {
                let _gone_already = kill_process(pid, signal);
            }
            if signal == Some(Signal::TERM) {
                told.get_or_insert_with(Instant::now);
            }
        }
        if told.is_none() && most.is_some_and(|most| begin.elapsed() > most) {
            let _gone_already = kill_process(pid, Signal::TERM);
            told = Some(Instant::now());
        }
        // Threads that wait for each other hear no other signal.
        if told.is_some_and(|told| told.elapsed() > PATIENCE) {
            let _gone_already = kill_process(pid, Signal::KILL);
        }
    }
}

/// Waits for daemons of the program, which are processes that left its session. A signal to
/// terminate is forwarded to them; an interrupt ends only the recording. Returns how many continue.
fn background(
    relay: &Relay,
    beside: &mut Beside<'_>,
    mut terminated: bool,
    is_quiet: bool,
) -> usize {
    /// Maximum time until an orphaned process starts a new session.
    const GRACE: Duration = Duration::from_millis(100);
    let (mut is_said, mut seen) = (is_quiet, Instant::now());
    loop {
        // The kernel says when no child is left, in any process group. A list of processes may lack
        // one, if its parent forked and ended after the list was read.
        let is_alone = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let children = children();
        let session = stat(rustix::process::getpid()).map(|own| own.session);
        let is_daemon = |(_, stat): &&(Pid, Stat)| Some(stat.session) != session;
        let daemons: Vec<Pid> = children.iter().filter(is_daemon).map(|(pid, _)| *pid).collect();
        let Some(first) = daemons.first() else {
            if is_alone || seen.elapsed() > GRACE {
                return 0;
            }
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        seen = Instant::now();
        if std::mem::take(&mut terminated) {
            for daemon in &daemons {
                let _gone_already = kill_process(*daemon, Signal::TERM);
            }
        }
        if !std::mem::replace(&mut is_said, true) {
            output::say(&format!(
                "convoy: the program goes on in the background (process {first}) and is recorded \
                 until it ends; Ctrl-C ends the recording, SIGTERM to process {} both",
                std::process::id()
            ));
        }
        std::thread::sleep(beside.look());
        while let Some(arrived) = relay.next() {
            match Signal::from_named_raw(arrived.signal) {
                Some(Signal::TERM) => terminated = true,
                Some(Signal::INT | Signal::HUP | Signal::QUIT) => return daemons.len(),
                Some(signal) => {
                    let _gone_already = kill_process(*first, signal);
                }
                None => {}
            }
        }
    }
}

/// Returns the children of this process that have not ended, including adopted ones.
fn children() -> Vec<(Pid, Stat)> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let all = convoy_os::process::children(own).into_iter();
    all.filter_map(|(pid, stat)| Some((Pid::from_raw(pid as i32)?, stat))).collect()
}

/// Returns the fields of a process, if it exists.
fn stat(pid: Pid) -> Option<Stat> {
    Stat::of(pid.as_raw_nonzero().get() as u32)
}

/// Returns the group of a process, if it exists.
fn group(pid: Pid) -> Option<i32> {
    Some(stat(pid)?.group)
}
