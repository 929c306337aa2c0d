//! Recording where memory, processes, places and rights are short, and from outside.

use crate::common::wait_until;
use crate::safe::{acquisitions, in_namespace, named, program, read, record, recorded};
use crate::{code, convoy, directory, ends, finish, stderr, stdout};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const CONVOY: &str = env!("CARGO_BIN_EXE_convoy");

#[test]
fn where_few_processes_are_allowed_the_program_ends_as_it_would() {
    let place = directory("surroundings-few");
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&*place, all).expect("it is ours");
    for most in 1..8 {
        // A user of this test alone: limits count the processes of a user.
        let user = if rustix::process::geteuid().is_root() {
            "setpriv --reuid 54321 --regid 54321 --clear-groups"
        } else {
            ""
        };
        let script = format!(
            "ulimit -u {most} && exec {user} {CONVOY} record --kernel off -o r.json -- sh -c 'exit \
             7'"
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(&*place).env("CONVOY_STORE", "none");
        let output = shell.env("HOME", "/nonexistent").output().expect("it starts");
        let messages = stderr(&output);
        assert!(!messages.contains("panicked"), "{most}: {messages}");
        let is_started = code(&output) == Some(7);
        assert!(
            is_started || messages.contains("ulimit -u") || code(&output) == Some(126),
            "{output:?}"
        );
        assert!(!is_started || place.join("r.json").exists(), "{output:?}");
        let _not_there = std::fs::remove_file(place.join("r.json"));
    }
}

#[test]
fn all_is_recorded_without_shared_memory_without_a_home_and_with_a_root_that_cannot_be_written() {
    let place = directory("surroundings-rough");
    let (program, file) = (program(&place), place.join("r.json"));
    let small = |size: &str| format!("mount -t tmpfs -o size={size},mode=0555 none /dev/shm");
    let root = format!(
        "mount --make-rprivate / && mount --rbind / /mnt && mount -o remount,bind,ro /mnt && mount \
         --bind {0} /mnt{0} && mount --rbind /tmp /mnt/tmp && mount --rbind /dev /mnt/dev && mount \
         --rbind /proc /mnt/proc && cd /mnt && exec chroot . bash -c",
        place.display()
    );
    for (name, mounts) in [("none", small("4k")), ("64 MB", small("64m")), ("root", root)] {
        let run = format!(
            "env -u HOME -u XDG_CACHE_HOME -u XDG_DATA_HOME -u XDG_RUNTIME_DIR CONVOY_STORE=none \
             TMPDIR=/tmp {CONVOY} record --kernel off -o {} -- {program} fork",
            file.display()
        );
        let script =
            if name == "root" { format!("{mounts} '{run}'") } else { format!("{mounts} && {run}") };
        let Some(mut shell) = in_namespace(&script) else { return };
        let output = finish(&mut shell, 4);
        assert_eq!(acquisitions(&read(&file)), 80_000, "{name}: {output:?}");
        std::fs::remove_file(&file).expect("it goes away");
    }
}

#[test]
fn a_user_namespace_is_recorded() {
    let place = directory("surroundings-user");
    let (program, file) = (program(&place), place.join("r.json"));
    let file_name = file.to_str().expect("UTF-8");
    let inside = ["unshare", "-Ur", CONVOY, "record", "--kernel", "off", "-o", file_name, "--"];
    let works = Command::new("unshare").args(["-Ur", "true"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        let mut command = Command::new(inside[0]);
        command.args(&inside[1..]).args([&program, "fork"]).env("CONVOY_STORE", "none");
        let output = finish(&mut command, 4);
        assert_eq!(acquisitions(&read(&file)), 80_000, "{output:?}");
        // And a program that makes one while it is recorded.
        let output = recorded(&file, &["unshare", "-Ur", &program, "fork"], 4);
        assert_eq!(acquisitions(&read(&file)), 80_000, "{output:?}");
    }
}

#[test]
fn what_is_written_has_a_bound() {
    let place = directory("surroundings-bound");
    let (program, file, name) = (program(&place), place.join("r.json"), place.path("r.json"));
    let sized = |size: &str, words: &[&str]| {
        let all = ["record", "--kernel", "off", "--buffer-size", size, "-o", name, "--"];
        convoy(&[&all[..], words].concat()).output().expect("it starts")
    };
    let output = sized("1M", &[&program, "spawnmany"]);
    assert_eq!(code(&output), Some(0), "{output:?}");
    let count = acquisitions(&read(&file));
    assert!(count > 0 && count < 17 * 300, "{count}");
    let messages = stderr(&output);
    assert!(messages.contains("processes that were forked were not recorded"), "{messages}");
    assert!(messages.contains("--buffer-size"), "{messages}");
    let output = sized("256M", &[&program, "spawnmany"]);
    assert_eq!((code(&output), acquisitions(&read(&file))), (Some(0), 17 * 300), "{output:?}");
    for (size, expected, words) in [
        ("1K", 2, "between 1M and 1024G"),
        ("many", 2, "such as 64M"),
        ("1024G", 3, "of room, and --buffer-size is"),
    ] {
        let output = sized(size, &["true"]);
        assert_eq!(code(&output), Some(expected), "{output:?}");
        assert!(stderr(&output).contains(words), "{output:?}");
    }
}

#[test]
fn what_is_redacted_is_in_no_file() {
    let place = directory("surroundings-redacted");
    let store = place.join("runs.sqlite3");
    let script = ["record", "--kernel", "off", "--redact", "--", "sh", "-c", "exit 3", "a-secret"];
    finish(convoy(&script).env("CONVOY_STORE", &store), 3);
    let mut files = 0;
    for entry in std::fs::read_dir(&*place).expect("it is there").flatten() {
        let bytes = std::fs::read(entry.path()).expect("readable");
        let has_it = bytes.windows(8).any(|part| part == b"a-secret");
        assert!(!has_it, "{}", entry.path().display());
        files += 1;
    }
    assert!(files > 0, "the store is there");
}

#[test]
fn a_prediction_names_the_limit_that_it_meets_and_takes_any_path() {
    let place = directory("surroundings-predict");
    let (program, file) = (program(&place), place.join("r.json"));
    record(&file, &[&program, "plain"]);
    let script = format!("ulimit -v 4000000 && {CONVOY} predict {}", file.display());
    let output = Command::new("bash").args(["-c", &script]).output().expect("it starts");
    let messages = stderr(&output);
    if code(&output) == Some(0) {
        // Next to other programs, the record may not be simulated.
        assert!(stdout(&output).contains("arithmetic alone"), "{output:?}");
    } else {
        assert_eq!(code(&output), Some(3), "{messages}");
        assert!(messages.contains("ulimit -v") && !messages.contains("fewer users"), "{messages}");
    }
    let odd = place.join(std::ffi::OsString::from_vec(b"no text \xff.json".to_vec()));
    std::fs::write(&odd, "{}").expect("written");
    for command in ["explain", "predict", "fix"] {
        let output = finish(convoy(&[command]).arg(&odd), 2);
        assert!(!stderr(&output).contains("UTF-8"), "{output:?}");
    }
}

#[test]
fn all_processes_of_a_control_group_are_looked_at() {
    let place = directory("surroundings-group");
    let (group, file) = (place.join("group"), place.join("r.json"));
    std::fs::create_dir_all(group.join("below")).expect("directories");
    let mut children = Vec::new();
    for (prefix, list) in [("one", group.clone()), ("two", group.join("below"))] {
        let program = place.join(prefix);
        named(&program, prefix);
        let mut child = Command::new(&program).arg("long").spawn().expect("it starts");
        wait_until(&mut child, |_| true);
        // The kernel lists the processes of a control group in this file.
        std::fs::write(list.join("cgroup.procs"), format!("{}\n", child.id())).expect("written");
        children.push(child);
    }
    let [group, file] = [&group, &file].map(|path| path.to_str().expect("UTF-8"));
    let words = ["record", "--kernel", "off", "--cgroup", group, "--seconds", "2", "-o", file];
    let output = convoy(&words).output().expect("it starts");
    for mut child in children {
        child.kill().expect("it is ours");
        child.wait().expect("it is dead");
    }
    assert_eq!(code(&output), Some(0), "{output:?}");
    let text = std::fs::read_to_string(file).expect("a record");
    assert!(["one_lock", "two_lock"].iter().all(|name| text.contains(name)), "{text}");
    for wrong in ["no/such/group", place.to_str().expect("UTF-8")] {
        let output = ends(&["record", "--cgroup", wrong], 2);
        assert!(stderr(&output).contains("is no control group"), "{output:?}");
    }
}

#[test]
fn servers_of_debug_data_name_a_program_that_is_gone() {
    let place = directory("surroundings-servers");
    let (program, file, bin) = (place.join("real"), place.join("r.json"), place.join("bin"));
    named(&program, "real");
    let script = format!("cp {0} {1} && {1}; rm {1}", program.display(), place.join("x").display());
    let mut command = convoy(&["record", "--kernel", "off", "-o"]);
    command.arg(&file).args(["--", "sh", "-c", &script]).env("DEBUGINFOD_URLS", "http://[::1]:9");
    let output = command.output().expect("it starts");
    assert!(stderr(&output).contains("--symbols debuginfod"), "{output:?}");
    std::fs::create_dir_all(&bin).expect("a directory");
    // A substitute for the command of elfutils that knows one build-id.
    let find = bin.join("debuginfod-find");
    let script = format!(
        "#!/bin/sh\nid=$(readelf -n {0} | sed -n 's/.*Build ID: //p')\n[ \"$1 $2\" = \"debuginfo \
         $id\" ] && echo {0}\n",
        program.display()
    );
    std::fs::write(&find, script).expect("written");
    std::fs::set_permissions(&find, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let explain = || {
        let mut command = convoy(&["explain", "--symbols", "debuginfod"]);
        command.arg(&file).env("PATH", &path);
        command.output().expect("it starts")
    };
    let output = explain();
    assert!(stdout(&output).contains("real_lock"), "{output:?}");
    std::fs::write(&find, "#!/bin/sh\nexit 1\n").expect("written");
    let output = explain();
    assert_eq!(code(&output), Some(3), "{output:?}");
    assert!(stderr(&output).contains("DEBUGINFOD_URLS"), "{output:?}");
}

#[test]
fn too_small_a_stack_is_refused_before_the_program_starts() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -s 256; exec \"$0\" record -- echo started", CONVOY]);
    let output = shell.output().expect("a shell");
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(3), ""));
    assert!(stderr(&output).contains("ulimit -s 8192"), "{output:?}");
}

/// The recorder was killed in control groups of 64 to 80 MB with kernel events, and in those of 16
/// MB without.
#[test]
fn memory_limits_of_control_groups_are_respected_before_the_program_starts() {
    let place = directory("surroundings-memory");
    let file = place.join("r.json");
    for (limit_mb, kernel, starts, sentence) in [
        (16, "auto", false, "a recording needs 32 MB of memory, and the control group permits 16"),
        (64, "auto", true, "permits 64 MB more memory, and kernel events need 96 MB"),
        (64, "on", false, "permits 64 MB more memory, and kernel events need 96 MB"),
        (64, "off", true, ""),
    ] {
        // Files with the names of both versions of control groups, in the place of the real ones.
        let script = format!(
            "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory && cd \
             /sys/fs/cgroup && echo {0} | tee memory.max memory/memory.limit_in_bytes >/dev/null \
             && echo 0 | tee memory.current memory/memory.usage_in_bytes >/dev/null && cd {1} && \
             exec {CONVOY} record --kernel {kernel} -o {2} -- bash -c 'echo it runs; exit \
             7'",
            limit_mb << 20,
            place.display(),
            file.display()
        );
        let Some(mut shell) = in_namespace(&script) else { return };
        let output = shell.env("CONVOY_STORE", "none").output().expect("it starts");
        let messages = stderr(&output);
        assert_eq!(
            code(&output),
            Some(if starts { 7 } else { 3 }),
            "{limit_mb} {kernel}: {messages}"
        );
        assert_eq!(file.exists(), starts, "{limit_mb} {kernel}: {messages}");
        assert!(messages.contains(sentence), "{limit_mb} {kernel}: {messages}");
        assert_eq!(stdout(&output).is_empty(), !starts, "{limit_mb} {kernel}: {output:?}");
        let _not_there = std::fs::remove_file(&file);
    }
}

#[test]
fn a_process_that_has_ended_is_not_taken_for_one_that_hides_its_waits() {
    let mut child = Command::new("true").spawn().expect("it starts");
    let pid = child.id();
    // It is not waited for, so its number stays.
    let is_over = || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a state");
        state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
    };
    while !is_over() {
        std::thread::yield_now();
    }
    let output = convoy(&["record", "--pid", &pid.to_string()]).output().expect("it starts");
    child.wait().expect("it is over");
    assert_eq!(code(&output), Some(2), "{output:?}");
    assert!(stderr(&output).contains("or it has ended"), "{output:?}");
}
