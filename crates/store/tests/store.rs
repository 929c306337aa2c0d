//! The store under what happens to files: crashes, full disks, many writers, other versions.

use convoy_store::{Entry, Filter, Store, StoreError, VERSION};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("store-{test}-{}", std::process::id()));
    let _left_by_an_earlier_run = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory for the test");
    path
}

fn entry(n: u64) -> Entry {
    let body = serde_json::json!({ "n": n });
    Entry::now("compare", vec!["compare".to_owned()], "test", body)
}

fn numbers(path: &Path) -> Vec<u64> {
    let list = Store::read(path).expect("opens").list(&Filter::default());
    let (stored, damaged) = list.expect("lists");
    assert!(damaged.is_empty(), "{damaged:?}");
    stored.iter().map(|stored| stored.entry.body["n"].as_u64().expect("a number")).collect()
}

/// Not a test by itself: the process that the tests below start, kill and count. It appends the
/// numbers from `WRITER_FIRST` on and says each one after it is stored.
#[test]
#[ignore = "run by other tests in a process of its own"]
#[expect(clippy::print_stderr, reason = "it speaks to the process that started it")]
fn writer() {
    let path = std::env::var("WRITER_STORE").expect("a test runs it");
    let number = |name: &str| std::env::var(name).expect("set").parse::<u64>().expect("a number");
    let mut store = Store::open(path).expect("opens");
    for n in number("WRITER_FIRST")..number("WRITER_FIRST") + number("WRITER_COUNT") {
        match store.append(&entry(n)) {
            Ok(_) => eprintln!("stored {n}"),
            Err(error) => eprintln!("failed {n}: {error}"),
        }
    }
}

fn start_writer(path: &Path, first: u64, count: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test program"));
    command.args(["--ignored", "--exact", "writer", "--nocapture", "--test-threads", "1"]);
    command.env("WRITER_STORE", path);
    command.env("WRITER_FIRST", first.to_string()).env("WRITER_COUNT", count.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The numbers that a writer says it stored.
fn stored(child: Child) -> Vec<u64> {
    let output = child.wait_with_output().expect("ends");
    acknowledged(&String::from_utf8_lossy(&output.stderr))
}

/// The record numbers in a writer's output.
fn acknowledged(text: &str) -> Vec<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("stored "));
    // The last line of a killed writer may be cut in two.
    lines.filter_map(|n| n.parse().ok()).collect()
}

/// Kills a writer once it has said that `count` numbers are stored; returns all of them.
fn killed_after(mut child: Child, count: usize) -> Vec<u64> {
    let mut output = BufReader::new(child.stderr.take().expect("piped"));
    let mut text = String::new();
    while acknowledged(&text).len() < count {
        assert!(output.read_line(&mut text).expect("text") > 0, "it ended by itself: {text}");
    }
    child.kill().expect("killed");
    output.read_to_string(&mut text).expect("text");
    child.wait().expect("reaped");
    acknowledged(&text)
}

#[test]
fn eight_writers_lose_nothing_and_double_nothing() {
    let directory = directory("writers");
    let path = directory.join("runs.sqlite3");
    let writers: Vec<Child> =
        (0..8).map(|w| start_writer(&path, w * 1000, 25).spawn().expect("starts")).collect();
    let mut kept: Vec<u64> = writers.into_iter().flat_map(stored).collect();
    let mut listed = numbers(&path);
    kept.sort_unstable();
    listed.sort_unstable();
    assert_eq!(kept.len(), 8 * 25, "every append succeeds");
    assert_eq!(listed, kept);
    std::fs::remove_dir_all(directory).expect("removed");
}

/// Found in CI: a writer took a database that another one was about to create for a foreign file.
#[test]
fn writers_that_create_one_store_at_once_all_succeed() {
    for round in 0..20 {
        let directory = directory(&format!("creators-{round}"));
        let path = directory.join("runs.sqlite3");
        let writers: Vec<Child> =
            (0..8).map(|w| start_writer(&path, w * 1000, 1).spawn().expect("starts")).collect();
        let numbers: Vec<u64> = writers.into_iter().flat_map(stored).collect();
        assert_eq!(numbers.len(), 8, "every writer opens the store");
        std::fs::remove_dir_all(directory).expect("removed");
    }
}

#[test]
fn killed_writers_lose_no_acknowledged_record() {
    let directory = directory("killed");
    let path = directory.join("runs.sqlite3");
    let mut kept = Vec::new();
    for round in 0..8 {
        let child = start_writer(&path, round * 100_000, 50_000).spawn().expect("starts");
        // Somewhere in the appending of another record, earlier or later in the writer's life.
        kept.extend(killed_after(child, 1 + 3 * round as usize));
    }
    let mut listed = numbers(&path);
    listed.sort_unstable();
    let doubled = listed.windows(2).any(|pair| pair[0] == pair[1]);
    assert!(!doubled, "a record came in twice");
    let lost: Vec<_> = kept.iter().filter(|n| listed.binary_search(n).is_err()).collect();
    assert!(lost.is_empty(), "lost {lost:?} of {}", kept.len());
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_full_disk_refuses_the_new_record_and_keeps_the_old_ones() {
    let directory = directory("full");
    let path = directory.join("runs.sqlite3");
    Store::open(&path).expect("made").append(&entry(0)).expect("stored");
    // No file may grow beyond 100 kB: the shell's unit is 512 bytes.
    let mut limited = Command::new("sh");
    let writer = start_writer(&path, 1, 300);
    limited.arg("-c").arg("trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\"");
    limited.arg(writer.get_program()).args(writer.get_args());
    limited.envs(writer.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = limited.output().expect("ends");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let kept: Vec<u64> =
        text.lines().filter_map(|line| line.strip_prefix("stored ")?.parse().ok()).collect();
    let failed = text.lines().filter(|line| line.starts_with("failed ")).count();
    assert!(failed > 0 && kept.len() > 10, "{} stored, {failed} failed: {text}", kept.len());
    assert!(text.contains("runs.sqlite3"), "the message names the file: {text}");
    let found = numbers(&path);
    assert!(found.contains(&0));
    assert!(kept.iter().all(|n| found.contains(n)), "every acknowledged record is there");
    // With space again, everything works.
    Store::open(&path).expect("opens").append(&entry(9999)).expect("stored");
    assert!(numbers(&path).contains(&9999));
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn stores_of_newer_versions_and_other_programs_stay_untouched() {
    let directory = directory("foreign");
    let path = directory.join("runs.sqlite3");
    Store::open(&path).expect("made").append(&entry(1)).expect("stored");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection.pragma_update(None, "user_version", VERSION + 5).expect("set");
    drop(connection);
    let before = std::fs::read(&path).expect("readable");
    for result in [Store::open(&path), Store::read(&path)] {
        let error = result.expect_err("refused");
        assert!(matches!(error, StoreError::Newer { .. }), "{error}");
        assert!(error.to_string().contains("newer convoy"), "{error}");
    }
    assert_eq!(std::fs::read(&path).expect("readable"), before);

    let text = directory.join("text");
    std::fs::write(&text, "not a database, but long enough to have a header of one\n".repeat(9))
        .expect("written");
    let other = directory.join("other.sqlite3");
    let connection = rusqlite::Connection::open(&other).expect("opens");
    connection.execute_batch("CREATE TABLE cookies (x)").expect("made");
    drop(connection);
    for foreign in [text, other] {
        let before = std::fs::read(&foreign).expect("readable");
        let error = Store::open(&foreign).expect_err("refused");
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        assert_eq!(std::fs::read(&foreign).expect("readable"), before);
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_record_grows_while_its_run_goes_on() {
    let directory = directory("grows");
    let path = directory.join("runs.sqlite3");
    let mut store = Store::open(&path).expect("made");
    let mut growing = entry(1);
    let id = store.append(&growing).expect("stored");
    store.append(&entry(7)).expect("stored");
    growing.set(serde_json::json!({ "n": 2 }));
    assert_eq!(store.append(&growing).expect("stored"), id);
    assert_eq!(numbers(&path), [2, 7]);
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn tags_filters_and_removal() {
    let directory = directory("tags");
    let path = directory.join("deep/er/runs.sqlite3");
    assert!(matches!(Store::read(&path), Err(StoreError::Missing { .. })));
    let mut store = Store::open(&path).expect("made with its directory");
    let ids: Vec<i64> = (0..5).map(|n| store.append(&entry(n)).expect("stored")).collect();
    store.tag(ids[1], "before", true).expect("tagged");
    store.tag(ids[3], "before", true).expect("tagged");
    assert_eq!(store.find("before").expect("found").id, ids[3], "the newest of a tag");
    assert_eq!(store.find("@before").expect("found").entry.tags, ["before"]);
    assert_eq!(store.find(&ids[0].to_string()).expect("found").entry.body["n"], 0);
    assert!(matches!(store.find("after"), Err(StoreError::Unknown { .. })));
    for bad in ["", "12", "a b", "-x", "last"] {
        assert!(matches!(store.tag(ids[0], bad, true), Err(StoreError::Tag { .. })), "{bad:?}");
    }
    assert!(matches!(store.tag(999, "x", true), Err(StoreError::Unknown { .. })));
    let count = |store: &Store, filter: Filter| store.list(&filter).expect("lists").0.len();
    let tagged = Filter { tag: Some("before".to_owned()), ..Filter::default() };
    assert_eq!(count(&store, tagged.clone()), 2);
    assert_eq!(count(&store, Filter { untagged: true, ..Filter::default() }), 3);
    assert_eq!(count(&store, Filter { newest: Some(2), ..Filter::default() }), 2);
    assert_eq!(count(&store, Filter { kind: Some("run".to_owned()), ..Filter::default() }), 0);
    store.tag(ids[3], "before", false).expect("taken away");
    assert_eq!(count(&store, tagged), 1);
    assert_eq!(store.remove(&[ids[4], 77]).expect("removed"), 1);
    // A number is never used again.
    assert!(store.append(&entry(9)).expect("stored") > ids[4]);
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    fn set(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    }
    // Root ignores permissions, so root becomes the user `nobody`, in a world-readable directory.
    let directory = std::env::temp_dir().join(format!("convoy-read-only-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("made");
    let program = directory.join("program");
    std::fs::copy(std::env::current_exe().expect("a program"), &program).expect("copied");
    let path = directory.join("runs.sqlite3");
    Store::open(&path).expect("made").append(&entry(3)).expect("stored");
    set(&path, 0o444);
    set(&directory, 0o555);
    let mut command = Command::new(&program);
    command
        .args(["--ignored", "--exact", "reader_without_rights", "--nocapture"])
        .env("READER_STORE", &path);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.stdin(Stdio::null()).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    set(&directory, 0o755);
    std::fs::remove_dir_all(&directory).expect("removed");
    assert!(output.status.success() && text.contains("read [3]"), "{text}");
}

/// Not a test by itself: the process of the test above.
#[test]
#[ignore = "run by other tests in a process of its own"]
#[expect(clippy::print_stderr, reason = "it speaks to the process that started it")]
fn reader_without_rights() {
    let path = std::env::var("READER_STORE").expect("a test runs it");
    let mut store = Store::read(&path).expect("opens to read");
    assert!(!store.is_writable());
    let error = store.append(&entry(4)).expect_err("cannot be written");
    assert!(error.to_string().contains("runs.sqlite3"), "{error}");
    eprintln!("read {:?}", numbers(Path::new(&path)));
}
