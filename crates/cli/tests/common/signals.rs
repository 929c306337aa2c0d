//! Commands that are sent signals: whatever the shell that started the tests ignores, they begin
//! with the defaults, and no wait is without end.

use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Far longer than any of these commands takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// `command` with the default action of SIGINT and SIGTERM; its outputs are caught.
pub(crate) fn with_default_signals(command: &Command) -> Command {
    let mut wrapped = Command::new("env");
    wrapped
        .arg("--default-signal=HUP,INT,QUIT,TERM")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wrapped
}

/// Waits until `ready` says so; a child that ends before is an error of the test.
pub(crate) fn wait_until(child: &mut Child, ready: impl Fn(u32) -> bool) {
    let begin = Instant::now();
    while !ready(child.id()) {
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "ended too early: {ended:?}");
        give_up(child, begin);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends `signal` and waits for the end.
pub(crate) fn interrupt(mut child: Child, signal: Signal) -> Output {
    kill_process(Pid::from_raw(child.id() as i32).expect("a process"), signal).expect("sent");
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        give_up(&mut child, begin);
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("ends")
}

/// What hangs is killed and is an error of the test.
fn give_up(child: &mut Child, begin: Instant) {
    if begin.elapsed() > PATIENCE {
        child.kill().expect("killed");
        panic!("process {} still ran after {PATIENCE:?}", child.id());
    }
}
