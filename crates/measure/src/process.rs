//! Running one command: nothing to read, its own process group, a time limit, both outputs caught,
//! everything it started killed at its end.
//!
//! One thread waits for output and exit together (`poll` on both pipes and a process descriptor),
//! so that no helper thread competes with the command for a CPU. The group is killed after the
//! command ended as well: a daemon left behind would disturb the next run, and would keep the pipes
//! open.

use convoy_os::process::Stat;
use convoy_os::{ChildUsage, Disturbance, Interrupts, Surroundings, wait_with_usage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often an interrupt is looked for that came between two waits, seconds.
const LOOK_S: f64 = 0.1;
/// How long a process that left the group may keep the pipes open after the command's end.
const LINGER: Duration = Duration::from_millis(200);
/// Bytes kept of each output: its end, which contains the results.
const KEPT: usize = 16 << 20;

/// A command as it is started each time.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Where it runs; `None`: here.
    pub directory: Option<PathBuf>,
    /// Added to the environment.
    pub environment: Vec<(String, OsString)>,
    /// It is killed when it takes longer.
    pub limit: Option<Duration>,
    /// The CPUs it may run on; `None`: all.
    pub cpus: Option<Vec<usize>>,
    /// A file that holds the process while it runs, for [`kill_leftover`].
    pub marker: Option<PathBuf>,
}

impl Program {
    /// A command line for the shell.
    pub fn shell(line: &str) -> Self {
        Self::words(vec!["/bin/sh".into(), "-c".into(), line.into()])
    }

    /// A program and its arguments, started without a shell.
    pub fn words(words: Vec<OsString>) -> Self {
        Self { words, ..Self::default() }
    }

    /// Interprets the words after `--`: a single word with a blank or a shell character is a
    /// command line, anything else a program and its arguments.
    pub fn given(words: &[OsString]) -> Self {
        let special = |c: char| c.is_whitespace() || "|&;<>()$`\\\"'*?[]#~=%!{}".contains(c);
        match words {
            [line] if line.to_str().is_some_and(|line| line.contains(special)) => {
                Self::shell(&line.to_string_lossy())
            }
            _ => Self::words(words.to_vec()),
        }
    }
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It left with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was killed because it took longer than its limit.
    Limit,
}

/// A finished execution.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How.
    pub ending: Ending,
    /// From its start to its end.
    pub wall: Duration,
    /// Its resource usage.
    pub usage: ChildUsage,
    /// Activity of other programs on the machine.
    pub disturbance: Disturbance,
    /// Standard output; the last 16 MiB.
    pub stdout: Vec<u8>,
    /// Standard error; the last 16 MiB.
    pub stderr: Vec<u8>,
}

impl Finished {
    /// How it ended, with the last line it said, for a message.
    pub fn describe(&self) -> String {
        let ending = match self.ending {
            Ending::Code(code) => format!("ended with exit code {code}"),
            Ending::Signal(signal) => format!("was killed by signal {signal}"),
            Ending::Limit => {
                format!("took longer than its limit of {:.3} s", self.wall.as_secs_f64())
            }
        };
        match last_line(&self.stderr).or_else(|| last_line(&self.stdout)) {
            Some(line) => format!("{ending}; it said: {line}"),
            None => format!("{ending} and said nothing"),
        }
    }
}

/// The last line with text in it, shortened, without control characters.
pub(super) fn last_line(output: &[u8]) -> Option<String> {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(&output[output.len().saturating_sub(8 * LONGEST)..]);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let short: String = line.chars().take(LONGEST).collect();
    Some(if short.len() < line.len() { short + "…" } else { short })
}

/// Why an execution did not finish by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// SIGINT, SIGTERM or SIGHUP came; the command was killed.
    #[error("interrupted")]
    Interrupted,
    /// It does not start.
    #[error("cannot start `{program}`: {cause}; {cure}")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        cause: std::io::Error,
        /// What to do.
        cure: &'static str,
    },
    /// The machine refuses something.
    #[error("cannot {what}: {cause}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// Why not.
        cause: std::io::Error,
    },
}

fn system<E: Into<std::io::Error>>(what: &'static str) -> impl Fn(E) -> RunError {
    move |cause| RunError::System { what, cause: cause.into() }
}

/// Runs `program` to its end.
pub fn run(program: &Program, interrupts: &Interrupts) -> Result<Finished, RunError> {
    if interrupts.pending() {
        return Err(RunError::Interrupted);
    }
    let before = Surroundings::now();
    let begin = Instant::now();
    let mut child = Group::start(program)?;
    let watched = child.watch(program.limit, begin, interrupts);
    let wall = begin.elapsed();
    child.kill();
    let (limit, [mut out, mut err]) = match watched {
        Ok(Watched { limit, outputs }) => (limit, outputs),
        Err(error) => {
            let _killed = child.reap();
            return Err(error);
        }
    };
    out.drain(LINGER);
    err.drain(LINGER);
    let (status, usage) = child.reap()?;
    let ending = match (limit, status.code(), status.signal()) {
        (true, ..) => Ending::Limit,
        (_, Some(code), _) => Ending::Code(code),
        (_, None, signal) => Ending::Signal(signal.unwrap_or(0)),
    };
    let disturbance = before.since((usage.user + usage.system).as_secs_f64());
    Ok(Finished { ending, wall, usage, disturbance, stdout: out.bytes, stderr: err.bytes })
}

struct Watched {
    limit: bool,
    outputs: [Output; 2],
}

/// A child with its process group, killed and reaped on every way out.
struct Group {
    child: Option<Child>,
    pid: Pid,
    marker: Option<PathBuf>,
}

impl Group {
    fn start(program: &Program) -> Result<Self, RunError> {
        let pinned = program.cpus.as_deref().map(Pinned::to).transpose()?;
        let name = program.words.first().cloned().unwrap_or_default();
        let mut command = Command::new(&name);
        command.args(program.words.iter().skip(1));
        command.envs(program.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.process_group(0).spawn().map_err(|cause| RunError::Start {
            program: name.to_string_lossy().into(),
            cure: match cause.kind() {
                ErrorKind::NotFound => "give its path, or correct the name",
                ErrorKind::PermissionDenied => "make it executable (chmod +x)",
                _ => "look at the limits of this user (ulimit -a)",
            },
            cause,
        })?;
        drop(pinned);
        let pid = Pid::from_raw(child.id() as i32).expect("a child has a positive id");
        if let Some(marker) = &program.marker {
            // Best effort: without it a command that survives a killed search is not stopped.
            let _best_effort = mark(marker, pid);
        }
        Ok(Self { child: Some(child), pid, marker: program.marker.clone() })
    }

    /// Reads the outputs until the command ends (it stays a zombie) or its limit is over.
    fn watch(
        &mut self,
        limit: Option<Duration>,
        begin: Instant,
        interrupts: &Interrupts,
    ) -> Result<Watched, RunError> {
        let process = pidfd_open(self.pid, PidfdFlags::empty())
            .map_err(system("watch the command (this needs Linux 5.3 or later)"))?;
        let child = self.child.as_mut().expect("not reaped yet");
        let out = Output::new(child.stdout.take().expect("a pipe").into())?;
        let err = Output::new(child.stderr.take().expect("a pipe").into())?;
        let mut outputs = [out, err];
        loop {
            let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()).as_secs_f64());
            if left == Some(0.0) {
                return Ok(Watched { limit: true, outputs });
            }
            let wait = Duration::from_secs_f64(left.unwrap_or(LOOK_S).min(LOOK_S));
            let ended = wait_for(&process, &mut outputs, wait)?;
            if interrupts.pending() {
                return Err(RunError::Interrupted);
            }
            if ended {
                let keep = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                // The zombie keeps its id, and with it the id of the group.
                waitid(WaitId::Pid(self.pid), keep).map_err(system("wait for the command"))?;
                return Ok(Watched { limit: false, outputs });
            }
        }
    }

    /// Kills everything in the group. It may be empty but for a zombie.
    fn kill(&self) {
        let _nobody_left = kill_process_group(self.pid, Signal::KILL);
    }

    fn reap(&mut self) -> Result<(ExitStatus, ChildUsage), RunError> {
        let ended = self.child.as_ref().map(wait_with_usage).expect("reaped once");
        self.child = None;
        let ended = ended.map_err(system("wait for the command"));
        if let Some(marker) = &self.marker {
            let _best_effort = std::fs::remove_file(marker);
        }
        ended
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
            let _on_the_way_out = self.reap();
        }
    }
}

/// Waits for output, which it reads, or for the end of `process`: whether that has come.
fn wait_for(
    process: &OwnedFd,
    outputs: &mut [Output; 2],
    wait: Duration,
) -> Result<bool, RunError> {
    let mut fds = vec![PollFd::new(process, PollFlags::IN)];
    let open: Vec<usize> = (0..2).filter(|&index| outputs[index].pipe.is_some()).collect();
    for &index in &open {
        let pipe = outputs[index].pipe.as_ref().expect("filtered above");
        fds.push(PollFd::new(pipe, PollFlags::IN));
    }
    let timeout = Timespec::try_from(wait).expect("a short wait");
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(system("wait for the command")(error)),
    }
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    drop(fds);
    for (&index, _) in open.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
        outputs[index].read();
    }
    Ok(ready[0])
}

struct Output {
    pipe: Option<std::fs::File>,
    bytes: Vec<u8>,
}

impl Output {
    fn new(pipe: OwnedFd) -> Result<Self, RunError> {
        let what = "read the command's output";
        let flags = fcntl_getfl(&pipe).map_err(system(what))?;
        fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).map_err(system(what))?;
        Ok(Self { pipe: Some(pipe.into()), bytes: Vec::new() })
    }

    /// Reads the available data; drops the pipe at its end.
    fn read(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    self.bytes.extend_from_slice(&buffer[..count]);
                    if self.bytes.len() > 2 * KEPT {
                        self.bytes.drain(..self.bytes.len() - KEPT);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Reads to the end, which is reached when the process group exits, unless a process has left
    /// it.
    fn drain(&mut self, patience: Duration) {
        let begin = Instant::now();
        self.read();
        while let (Some(pipe), true) = (&self.pipe, begin.elapsed() < patience) {
            let mut fds = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
            let timeout = Timespec::try_from(patience).expect("a short wait");
            let _read_says_more = poll(&mut fds, Some(&timeout));
            self.read();
        }
        self.pipe = None;
        self.bytes.drain(..self.bytes.len().saturating_sub(KEPT));
    }
}

/// This thread on some CPUs while it lives; a child inherits them.
struct Pinned(CpuSet);

impl Pinned {
    fn to(cpus: &[usize]) -> Result<Self, RunError> {
        let before = sched_getaffinity(None).map_err(system("ask which CPUs are allowed"))?;
        let mut set = CpuSet::new();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
            set.set(cpu);
        }
        sched_setaffinity(None, &set).map_err(system("pin the command; choose CPUs that exist"))?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _was_allowed_before = sched_setaffinity(None, &self.0);
    }
}

/// Returns when a process started, in ticks since boot.
fn started(pid: i32) -> Option<u64> {
    Stat::of(u32::try_from(pid).ok()?).map(|stat| stat.started)
}

fn mark(marker: &Path, pid: Pid) -> std::io::Result<()> {
    let pid = pid.as_raw_nonzero().get();
    std::fs::write(marker, format!("{pid} {}\n", started(pid).unwrap_or(0)))
}

/// Kills the command that `marker` names if it survived us, that is a SIGKILL to this program.
pub fn kill_leftover(marker: &Path) {
    let Ok(text) = std::fs::read_to_string(marker) else { return };
    let mut fields = text.split_whitespace();
    let pid = fields.next().and_then(|field| field.parse::<i32>().ok());
    let start = fields.next().and_then(|field| field.parse::<u64>().ok());
    if let (Some(pid), Some(start)) = (pid.filter(|&pid| pid > 1), start)
        && started(pid) == Some(start)
        && let Some(group) = Pid::from_raw(pid)
    {
        let _nobody_left = kill_process_group(group, Signal::KILL);
    }
    let _best_effort = std::fs::remove_file(marker);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(program: &Program) -> Finished {
        run(program, &Interrupts::catch()).expect("runs")
    }

    #[test]
    fn output_and_ending_are_caught() {
        let done = finished(&Program::shell("echo out; echo err >&2; exit 7"));
        assert_eq!(done.ending, Ending::Code(7));
        assert_eq!(
            (done.stdout.as_slice(), done.stderr.as_slice()),
            (&b"out\n"[..], &b"err\n"[..])
        );
        assert_eq!(done.describe(), "ended with exit code 7; it said: err");
        assert_eq!(finished(&Program::shell("kill -9 $$")).ending, Ending::Signal(9));
    }

    #[test]
    fn nothing_is_there_to_read_and_much_can_be_written() {
        let done = finished(&Program::shell("cat; head -c 40000000 /dev/zero; echo end"));
        assert_eq!(done.ending, Ending::Code(0));
        assert_eq!(done.stdout.len(), KEPT);
        assert!(done.stdout.ends_with(b"end\n"));
    }

    #[test]
    fn a_limit_ends_the_whole_group() {
        let mut program = Program::shell("sleep 1000 & sleep 1000");
        program.limit = Some(Duration::from_millis(50));
        let done = finished(&program);
        assert_eq!(done.ending, Ending::Limit);
        assert!(done.wall >= Duration::from_millis(50));
    }

    #[test]
    fn a_daemon_left_behind_is_killed_with_the_group() {
        let done = finished(&Program::shell("sleep 1000 & echo $!"));
        let pid: u32 = String::from_utf8_lossy(&done.stdout).trim().parse().expect("an id");
        while Stat::of(pid).is_some_and(|stat| stat.state != 'Z') {
            std::thread::yield_now();
        }
        assert_eq!(done.ending, Ending::Code(0));
    }

    #[test]
    fn what_does_not_start_says_why() {
        let error = run(&Program::given(&["no-such-program".into()]), &Interrupts::catch());
        let text = error.expect_err("does not exist").to_string();
        assert!(text.contains("no-such-program") && text.contains("correct the name"), "{text}");
    }

    #[test]
    fn one_word_with_blanks_is_for_the_shell() {
        assert_eq!(Program::given(&["echo a | cat".into()]).words.len(), 3);
        assert_eq!(Program::given(&["./bench".into()]).words, ["./bench"]);
        assert_eq!(Program::given(&["./bench".into(), "a b".into()]).words, ["./bench", "a b"]);
    }

    #[test]
    fn a_leftover_is_killed_only_if_it_is_the_same_process() {
        let marker = std::env::temp_dir().join(format!("convoy-marker-{}", std::process::id()));
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().expect("starts");
        let pid = Pid::from_raw(child.id() as i32).expect("an id");
        std::fs::write(&marker, format!("{} 1\n", child.id())).expect("written");
        kill_leftover(&marker);
        assert!(child.try_wait().expect("ours").is_none(), "another start time");
        mark(&marker, pid).expect("written");
        kill_leftover(&marker);
        assert_eq!(child.wait().expect("ended").signal(), Some(9));
        assert!(!marker.exists());
    }
}
