//! The host target on this machine, at tiny sizes: every job, the run control, and what is left
//! behind.
#![expect(clippy::print_stdout, reason = "the helper reports to the test that started it")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoy_load::host::{HostError, HostRun, Progress, run};
use convoy_load::jobs::Job;
use convoy_load::mix::Mix;
use convoy_load::record::RunRecord;
use convoy_load::workfile;

/// The tests count what is left on the machine, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// System V objects and sockets of this machine, open files of this process and processes below
/// it.
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
        // Sockets of this network namespace that are bound or listen, whoever has them.
        for kind in ["unix", "udp"] {
            let table = std::fs::read_to_string(format!("/proc/net/{kind}")).unwrap_or_default();
            // The inode of a socket is the seventh column of the one and the tenth of the other.
            let column = if kind == "unix" { 6 } else { 9 };
            let id =
                |line: &str| line.split_whitespace().nth(column).map(|id| format!("{kind} {id}"));
            ids.extend(table.lines().skip(1).filter_map(id));
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
        for _ in 0..2000 {
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

/// (process, parent) of every process.
fn processes() -> Vec<(i32, i32)> {
    let pids = std::fs::read_dir("/proc")
        .expect("proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold blanks; state and parent follow it.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
    .collect()
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
    for _ in 0..5000 {
        if let Some(value) = found() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it never appeared");
}

/// A directory of the test; what the run makes in it must be gone at the end.
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
        directory: Some(place.0.clone()),
        ..HostRun::new(mix, users.to_vec())
    }
}

fn mix(text: &str) -> Mix {
    workfile::parse("test", text).expect("valid")
}

/// A load that lasts until it is disturbed: half of it waits for children, half holds System V ids.
fn endless(place: &Place) -> HostRun {
    let mix = mix("FILESIZE: 4K\nPOOLSIZE: 0K\n90 shared_memory\n10 shell_rtns_1\n");
    HostRun { shrink: 1, start_delay: Duration::from_secs(20), ..tiny(mix, &[6], place) }
}

/// Users that hold System V ids nearly all of the time, for about a second.
fn holding_ids(place: &Place) -> HostRun {
    let mix = mix("FILESIZE: 4K\nPOOLSIZE: 0K\n1 shared_memory\n");
    HostRun { shrink: 1, ..tiny(mix, &[150], place) }
}

/// Runs `options` and calls `disturb` in another thread once users are being started.
fn disturbed<T: Send + 'static>(
    options: &HostRun,
    disturb: impl FnOnce() -> T + Send + 'static,
) -> (Result<RunRecord, HostError>, T) {
    let mut disturb = Some(disturb);
    let mut thread = None;
    let result = run::run(options, |progress| {
        if matches!(progress, Progress::Running { .. }) {
            thread = disturb.take().map(std::thread::spawn);
        }
    });
    let value = thread.expect("the point began").join().expect("disturbed");
    (result, value)
}

fn kill(pid: i32, signal: &str) {
    let status =
        std::process::Command::new("kill").args(["-s", signal, "--", &pid.to_string()]).status();
    assert!(status.expect("kill exists").success(), "kill -s {signal} {pid}");
}

#[test]
fn every_job_succeeds_alone() {
    let _alone = alone();
    let place = Place::new("jobs");
    let before = Traces::now();
    for job in Job::ALL {
        let mix = mix(&format!("FILESIZE: 300K\nPOOLSIZE: 0K\n1 {}\n", job.name()));
        let mut options = tiny(mix, &[1], &place);
        // One run of the job is enough here.
        options.mix.weights.push((Job::MatrixRtns, 99 * u32::from(*job != Job::MatrixRtns)));
        options.mix.weights.retain(|(_, weight)| *weight > 0);
        let record = run::run(&options, |_| ()).expect("runs");
        let point = &record.points[0];
        // Not every file system knows O_DIRECT, not every container allows asynchronous I/O.
        let may_lack = job.name().contains("_dio_") || job.name().contains("_aio");
        let lacking = point.first_failure.as_deref().filter(|_| may_lack);
        if lacking.is_some_and(|text| text.contains("not available here")) {
            println!("skipped: {lacking:?}");
            continue;
        }
        assert_eq!(point.first_failure, None, "{}", job.name());
        assert_eq!((point.jobs_done, point.jobs_failed, point.users_lost), (100, 0, 0));
    }
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn shared_runs_with_two_users_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("shared");
    let before = Traces::now();
    let shared = Mix::load("shared").expect("shipped");
    let options = HostRun { predict: true, ..tiny(shared, &[1, 2], &place) };
    let record = run::run(&options, |_| ()).expect("runs");
    assert_eq!(record.points.len(), 2);
    for point in &record.points {
        assert_eq!(point.first_failure, None);
        assert_eq!(point.jobs_done, 97 * u64::from(point.users));
        assert!(point.real_s > 0.0 && point.cpu_s > 0.0 && point.jti <= 100);
        let by_formula = 60.0 * point.jobs_done as f64 / point.real_s;
        assert!((point.jobs_per_min - by_formula).abs() < 1e-6 * by_formula);
        assert!(point.predicted_s.is_some_and(|s| s > 0.0));
        assert!(point.jobs.iter().all(|job| job.alone_ns.is_some_and(|ns| ns > 0.0)));
        assert_eq!(point.jobs.iter().map(|job| job.runs).sum::<u64>(), point.jobs_done);
        assert_eq!(point.first_order.len(), 97);
    }
    assert_eq!(record.points[0].file_kb, 1024 + 10_240);
    assert_ne!(record.points[0].order_hash, record.points[1].order_hash);
    let again = run::run(&options, |_| ()).expect("runs");
    assert_eq!(again.points[1].order_hash, record.points[1].order_hash);
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn a_killed_user_is_counted_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("user");
    let before = Traces::now();
    // Killed before the start: the others must start all the same.
    let options = HostRun { start_delay: Duration::from_millis(300), ..endless(&place) };
    let (record, ()) = disturbed(&options, || {
        let victim = users().into_iter().next_back().expect("a user");
        kill(victim, "KILL");
    });
    let point = &record.expect("the others end").points[0];
    assert_eq!((point.users_lost, point.jobs_failed), (1, 0));
    assert_eq!(point.jobs_done, 5 * 100);
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn ids_of_users_killed_at_work_are_removed() {
    let _alone = alone();
    let place = Place::new("ids");
    let before = Traces::now();
    let known = before.ids.clone();
    let (result, (pids, held)) = disturbed(&holding_ids(&place), move || {
        let pids = users();
        let group = -pids.first().expect("the anchor leads the group");
        let new_ids = || Some(&Traces::now().ids - &known).filter(|new| !new.is_empty());
        // While they are stopped, the users that work can neither remove their ids nor end.
        let held = wait_for(|| {
            new_ids()?;
            kill(group, "STOP");
            new_ids().or_else(|| {
                kill(group, "CONT");
                None
            })
        });
        kill(group, "KILL");
        (pids, held)
    });
    match result {
        Err(HostError::AllLost { users }) => assert_eq!(users, 150),
        Ok(record) => assert!(record.points[0].users_lost > 0),
        Err(other) => panic!("{other:?}"),
    }
    assert_ended(&pids);
    assert!(!held.is_empty());
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn an_interrupt_ends_the_run_and_removes_everything() {
    let _alone = alone();
    let place = Place::new("interrupt");
    let before = Traces::now();
    let own = std::process::id() as i32;
    for signal in ["TERM", "INT"] {
        let (result, pids) = disturbed(&endless(&place), move || {
            let pids = users();
            kill(own, signal);
            pids
        });
        assert_ended(&pids);
        assert!(matches!(result, Err(HostError::Interrupted)), "{signal}: {result:?}");
    }
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn a_killed_supervisor_is_reported_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("supervisor");
    let before = Traces::now();
    let (result, pids) = disturbed(&endless(&place), || {
        let pids = users();
        kill(supervisor(), "KILL");
        pids
    });
    wait_for(|| processes().iter().all(|pair| !pids.contains(&pair.0)).then_some(()));
    assert!(matches!(result, Err(HostError::Supervisor)), "{result:?}");
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn an_unwritable_place_is_named() {
    let mix = mix("1 add_int\n");
    let missing =
        HostRun { directory: Some("/nonexistent/place".into()), ..HostRun::new(mix, vec![1]) };
    let error = run::run(&missing, |_| ()).expect_err("no such directory").to_string();
    assert!(error.contains("/nonexistent/place") && error.contains("--dir"), "{error}");
}

/// Variable that tells [`helper`] where to work; it does nothing without.
const HELPER_PLACE: &str = "CONVOY_TEST_PLACE";
/// What the helper prints before the error that ended its run.
const HELPER_ERROR: &str = "helper: ";

/// Not a test of its own: what other tests run in a process that they limit or kill.
#[test]
fn helper() {
    let Some(place) = std::env::var_os(HELPER_PLACE) else { return };
    let place = Place(place.into());
    let mix = mix("FILESIZE: 3M\nPOOLSIZE: 0K\n50 disk_wrt\n50 brk_test\n");
    let options = HostRun { shrink: 1, ..tiny(mix, &[4], &place) };
    if let Err(error) = run::run(&options, |_| ()) {
        println!("{HELPER_ERROR}{error}");
    }
    std::mem::forget(place);
}

/// The command `script`, in which `"$@"` is the helper.
fn helper_command(script: &str, place: &Place) -> std::process::Command {
    let mut command = std::process::Command::new("sh");
    let own = std::env::current_exe().expect("running");
    command.args(["-c", script, "sh"]).arg(own);
    command.args(["--exact", "helper", "--nocapture", "--test-threads=1"]);
    command.env(HELPER_PLACE, &place.0);
    command
}

/// The error that the helper printed.
fn helper_error(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once(HELPER_ERROR));
    line.unwrap_or_else(|| panic!("no error: {output:?}")).1.to_owned()
}

#[test]
fn a_killed_program_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("program");
    let before = Traces::now();
    let mut child = helper_command("exec \"$@\"", &place).spawn().expect("started");
    let program = child.id() as i32;
    // Program, supervisor, anchor and four users.
    let below = wait_for(|| Some(descendants(program)).filter(|found| found.len() >= 6));
    assert_eq!(place.entries(), 1);
    child.kill().expect("killed");
    child.wait().expect("reaped");
    wait_for(|| processes().iter().all(|pair| !below.contains(&pair.0)).then_some(()));
    assert_eq!(place.entries(), 0, "the supervisor removes the work directory");
    before.assert_nothing_new();
}

#[test]
fn want_of_descriptors_is_named_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("descriptors");
    let output = helper_command("ulimit -n 5; exec \"$@\"", &place).output().expect("started");
    let error = helper_error(&output);
    assert!(error.contains("EMFILE") && error.contains("ulimit"), "{error}");
    assert_eq!(place.entries(), 0);
}

#[test]
fn a_full_work_directory_is_named_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("full");
    // A tmpfs of our own needs a mount namespace; not every machine lets an ordinary user have one.
    let mount = format!("mount -t tmpfs -o size=5m tmpfs '{}'", place.0.display());
    let probe = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &mount]).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: no mount namespace on this machine");
        return;
    }
    // The listing after the run is made inside the namespace: only there is the tmpfs seen.
    let inside = format!("{mount} && \"$@\"; ls '{}' | sed s/^/left:/", place.0.display());
    let script = format!("exec unshare -rm sh -c '{}' sh \"$@\"", inside.replace('\'', "'\\''"));
    let output = helper_command(&script, &place).output().expect("started");
    let error = helper_error(&output);
    assert!(error.contains("no space left in") && error.contains("--dir"), "{error}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("left:"), "{output:?}");
}
