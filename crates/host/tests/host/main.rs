//! The host target on this machine, at tiny sizes: every job, the run control, and the clean-up.
#![expect(clippy::print_stdout, reason = "the helper reports to the test that started it")]

#[path = "../common/skip.rs"]
mod common;

mod commands;
mod faults;
mod kills;
mod load;
mod page_faults;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoy_host::run::{self, Finished};
use convoy_host::{HostRun, Progress};
use convoy_workload::mix::Mix;
use convoy_workload::workfile;

/// The tests count leftovers on the machine, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Attempts, a millisecond apart, before a test gives up: a minute, because the machine may be
/// busy.
const PATIENCE: u32 = 60_000;

/// System V objects of this machine, sockets of this session, open files of this process and
/// processes below it.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    ids: BTreeSet<String>,
    files: usize,
    children: BTreeSet<i32>,
}

impl Traces {
    fn now() -> Self {
        let mut ids = BTreeSet::new();
        for kind in ["sem", "shm"] {
            let table =
                std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            let id = |line: &str| line.split_whitespace().nth(1).map(|id| format!("{kind} {id}"));
            ids.extend(table.lines().skip(1).filter_map(id));
        }
        // A socket lives as long as somebody holds it: those that this session holds. Orphans stay
        // in the session, and what other programs hold is not ours.
        let own_session = session(std::process::id() as i32);
        let ours = processes().into_iter().filter(|pair| session(pair.0) == own_session);
        for (pid, _) in ours {
            let held = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
            let links = held.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
            let names = links.filter_map(|link| link.into_os_string().into_string().ok());
            ids.extend(names.filter(|name| name.starts_with("socket:")));
        }
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self { ids, files, children: descendants(std::process::id() as i32) }
    }
}

impl Traces {
    /// Fails if anything that appeared since stays. Other programs may use System V objects at the
    /// same time: an object counts as left behind when it outlives the wait.
    fn assert_nothing_new(&self) {
        let mut left = Self::now();
        assert_eq!(left.children, self.children, "processes");
        assert_eq!(left.files, self.files, "open files");
        left.ids.retain(|id| !self.ids.contains(id));
        for _ in 0..PATIENCE {
            let now = Self::now();
            left.ids.retain(|id| now.ids.contains(id));
            if left.ids.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("left behind: {:?}", left.ids);
    }
}

/// Fails unless all of `pids` have ended.
fn assert_ended(pids: &BTreeSet<i32>) {
    let alive: Vec<i32> =
        processes().iter().map(|pair| pair.0).filter(|pid| pids.contains(pid)).collect();
    assert!(alive.is_empty(), "still there: {alive:?}");
}

/// Field of a process's `stat`, 0 being its state; `None` once it is gone. The name before them is
/// in parentheses and may contain blanks.
fn stat(pid: i32, field: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field).map(String::from)
}

fn session(pid: i32) -> Option<i32> {
    stat(pid, 3)?.parse().ok()
}

/// (process, parent) of every process.
fn processes() -> Vec<(i32, i32)> {
    let pids = std::fs::read_dir("/proc")
        .expect("proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid, 1)?.parse().ok()?))).collect()
}

fn descendants(root: i32) -> BTreeSet<i32> {
    let all = processes();
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        found.extend(
            all.iter()
                .filter(|(_, parent)| found.contains(parent))
                .map(|pair| pair.0)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            found.remove(&root);
            return found;
        }
    }
}

/// The supervisor of the running load point: our only child.
fn supervisor() -> i32 {
    let own = std::process::id() as i32;
    wait_for(|| processes().into_iter().find(|(_, parent)| *parent == own).map(|pair| pair.0))
}

/// The processes of the supervisor: anchor and users.
fn users() -> BTreeSet<i32> {
    let supervisor = supervisor();
    wait_for(|| {
        let children: BTreeSet<i32> = processes()
            .into_iter()
            .filter(|(_, parent)| *parent == supervisor)
            .map(|pair| pair.0)
            .collect();
        (children.len() > 4).then_some(children)
    })
}

/// Waits until `found` finds something.
fn wait_for<T>(found: impl Fn() -> Option<T>) -> T {
    for _ in 0..PATIENCE {
        if let Some(value) = found() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it never appeared");
}

/// A directory of the test; the run must remove its files in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let parent =
            if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
        let path = parent.join(format!("convoy-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("made");
        Self(path)
    }

    fn entries(&self) -> usize {
        std::fs::read_dir(&self.0).expect("readable").count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

fn tiny(mix: Mix, users: &[u32], place: &Place) -> HostRun {
    HostRun {
        shrink: 100,
        predict: false,
        seed: 7,
        directories: vec![place.0.clone()],
        ..HostRun::new(mix, users.to_vec())
    }
}

fn mix(text: &str) -> Mix {
    workfile::parse("test", text).expect("valid")
}

/// A load that lasts until it is disturbed: half of it waits for children, half holds System V ids.
/// The test does not wait for the end of its delay.
fn endless(place: &Place) -> HostRun {
    let mix = mix("FILESIZE: 4K\nPOOLSIZE: 0K\n90 shared_memory\n10 shell_rtns_1\n");
    HostRun { shrink: 1, start_delay: Duration::from_secs(600), ..tiny(mix, &[6], place) }
}

/// Users that hold System V ids nearly all of the time, until they are disturbed: the test that
/// searches for the ids shares the CPUs with them.
fn holding_ids(place: &Place) -> HostRun {
    let mut mix = mix("FILESIZE: 4K\nPOOLSIZE: 0K\n1 shared_memory\n");
    mix.jobs = 20_000;
    HostRun { shrink: 1, ..tiny(mix, &[150], place) }
}

/// Runs `options` and calls `disturb` in another thread once users are being started.
fn disturbed<T: Send + 'static>(
    options: &HostRun,
    disturb: impl FnOnce() -> T + Send + 'static,
) -> (Finished, T) {
    let mut disturb = Some(disturb);
    let mut thread = None;
    let result = run::run(options, |progress| {
        if matches!(progress, Progress::Running { .. }) {
            thread = disturb.take().map(std::thread::spawn);
        }
    });
    (result, thread.expect("the point began").join().expect("disturbed"))
}

fn kill(pid: i32, signal: &str) {
    let status =
        std::process::Command::new("kill").args(["-s", signal, "--", &pid.to_string()]).status();
    assert!(status.expect("kill exists").success(), "kill -s {signal} {pid}");
}

/// Variable with the directory of [`helper`].
const HELPER_PLACE: &str = "CONVOY_TEST_PLACE";
/// Prefix of the helper's output before the error that ended its run.
const HELPER_ERROR: &str = "helper: ";

/// Not a test by itself: other tests run it in a process that they limit or kill.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn helper() {
    let place = Place(std::env::var_os(HELPER_PLACE).expect("a test runs it").into());
    let mut mix = mix("FILESIZE: 3M\nPOOLSIZE: 0K\n50 disk_wrt\n50 brk_test\n");
    // A quarter of an hour: it is disturbed before its end, however slow the machine.
    mix.jobs = 100_000;
    let options = HostRun { shrink: 1, force: true, ..tiny(mix, &[4], &place) };
    if let Some(error) = run::run(&options, |_| ()).error {
        println!("{HELPER_ERROR}{error}");
    }
    std::mem::forget(place);
}

/// The command `script`, in which `"$@"` is the helper.
fn helper_command(script: &str, place: &Place) -> std::process::Command {
    let mut command = std::process::Command::new("sh");
    let own = std::env::current_exe().expect("running");
    command.args(["-c", script, "sh"]).arg(own);
    command.args(["--ignored", "--exact", "helper", "--nocapture", "--test-threads=1"]);
    command.env(HELPER_PLACE, &place.0);
    command
}

/// The error that the helper printed.
fn helper_error(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once(HELPER_ERROR));
    line.unwrap_or_else(|| panic!("no error: {output:?}")).1.to_owned()
}
