//! Nothing is left behind, whichever process is killed.

use std::time::Duration;

use convoy_host::{HostError, HostRun, run};

use crate::{
    Place, Traces, alone, assert_ended, descendants, disturbed, endless, helper_command,
    holding_ids, kill, mix, processes, stat, supervisor, tiny, users, wait_for,
};

#[test]
fn a_killed_user_is_counted_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("user");
    let before = Traces::now();
    // Killed before the start: the others must start all the same. Two seconds for one `kill`.
    let options = HostRun { start_delay: Duration::from_secs(2), ..endless(&place) };
    let (finished, ()) = disturbed(&options, || {
        kill(users().into_iter().next_back().expect("a user"), "KILL");
    });
    assert!(matches!(finished.error, Some(HostError::Point { users: 6, .. })));
    let point = &finished.record.points[0];
    let cause = point.failed.as_ref().expect("a user was lost");
    assert!(cause.user.is_some() && cause.text.contains("SIGKILL"), "{cause:?}");
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
    match result.error {
        Some(HostError::AllLost { users }) => assert_eq!(users, 150),
        Some(HostError::Point { .. }) => assert!(result.record.points[0].users_lost > 0),
        other => panic!("{other:?}"),
    }
    assert!(result.record.points[0].failed.is_some());
    assert_ended(&pids);
    assert!(!held.is_empty());
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

/// Bit `n - 1` for each signal `n` that this process ignores.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a line");
    u64::from_str_radix(mask.trim(), 16).expect("a hexadecimal mask")
}

#[test]
fn an_interrupt_ends_the_run_and_removes_everything() {
    let _alone = alone();
    let place = Place::new("interrupt");
    let before = Traces::now();
    let own = std::process::id() as i32;
    // What is ignored stays so, as under `nohup`: a shell ignores INT for what it starts by `&`.
    let ignored = ignored_signals();
    for (signal, number) in [("TERM", 15), ("INT", 2)] {
        if ignored >> (number - 1) & 1 == 1 {
            continue;
        }
        let (result, pids) = disturbed(&endless(&place), move || {
            let pids = users();
            kill(own, signal);
            pids
        });
        assert_ended(&pids);
        assert!(matches!(result.error, Some(HostError::Interrupted)), "{signal}: {result:?}");
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
    assert!(matches!(result.error, Some(HostError::Supervisor)), "{result:?}");
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
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
fn an_interrupted_supervisor_needs_no_parent_to_leave_nothing() {
    let _alone = alone();
    let place = Place::new("stopped");
    let before = Traces::now();
    let mut child = helper_command("exec \"$@\"", &place).spawn().expect("started");
    let program = child.id() as i32;
    let below = wait_for(|| Some(descendants(program)).filter(|found| found.len() >= 6));
    let all = processes();
    let supervisor =
        *below.iter().find(|pid| all.contains(&(**pid, program))).expect("the program has a child");
    // As while the threads of a killed program exit: it is there, and does nothing any more.
    kill(program, "STOP");
    wait_for(|| (stat(program, 0)? == "T").then_some(()));
    kill(supervisor, "TERM");
    wait_for(|| (stat(supervisor, 0)? == "Z").then_some(()));
    assert_eq!(place.entries(), 0, "the supervisor removes the work directory");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    before.assert_nothing_new();
}

#[test]
fn what_a_run_killed_as_a_whole_leaves_is_removed_by_the_next() {
    let _alone = alone();
    let place = Place::new("whole");
    let before = Traces::now();
    let mut child = helper_command("exec \"$@\"", &place).spawn().expect("started");
    let program = child.id() as i32;
    let below = wait_for(|| Some(descendants(program)).filter(|found| found.len() >= 6));
    let all = processes();
    let parent = |pid: i32| all.iter().find(|pair| pair.0 == pid).map(|pair| pair.1);
    let supervisor = below.iter().copied().find(|pid| parent(*pid) == Some(program));
    let supervisor = supervisor.expect("the program has a child");
    // The program is stopped when its supervisor dies, and dies stopped: neither can clean up. The
    // other way round fails: the kernel continues a stopped group when its last parent dies.
    kill(program, "STOP");
    wait_for(|| (stat(program, 0)? == "T").then_some(()));
    kill(supervisor, "KILL");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    wait_for(|| processes().iter().all(|pair| !below.contains(&pair.0)).then_some(()));
    assert_eq!(place.entries(), 1, "nobody was left to remove it");
    let options = tiny(mix("1 add_int\n"), &[1], &place);
    run::run(&options, |_| ()).into_result().expect("runs");
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}
