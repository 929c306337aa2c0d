//! Commands of a workfile as jobs.

use std::time::Instant;

use convoy_host::{HostRun, run};

use crate::{
    Place, Traces, alone, endless, kill, mix, processes, supervisor, tiny, users, wait_for,
};

#[test]
fn a_command_is_counted_as_a_job_like_any_other() {
    let _alone = alone();
    let place = Place::new("command");
    let before = Traces::now();
    // It runs in the work directory, knows its user, and what it prints is nobody's.
    // Where memory runs out the kernel ends it before it ends run control.
    let text = "1 mine = echo out; test -f tmpa.common && echo x >> ran.$CONVOY_USER # done\n\
                1 check = test $(cat /proc/self/oom_score_adj) = 1000\n";
    let mut options = tiny(mix(text), &[2], &place);
    (options.mix.jobs, options.predict) = (4, true);
    let record = run::run(&options, |_| ()).into_result().expect("runs");
    let point = &record.points[0];
    assert_eq!((point.jobs_done, point.jobs_failed, record.jobs_per_user), (8, 0, 4));
    let runs: Vec<_> = point.jobs.iter().map(|job| (job.job.as_str(), job.runs)).collect();
    assert_eq!(runs, [("mine", 4), ("check", 4)]);
    assert!(point.jobs.iter().all(|job| job.alone_ns > Some(0.0) && job.mean_ns > 0.0));
    assert!(point.cpu_s > 0.0 && point.first_order.iter().any(|job| job == "mine"));
    assert!(record.notes.iter().any(|note| note.starts_with("mine runs: echo out; test")));
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn a_command_that_fails_or_does_not_end_fails_its_point() {
    let _alone = alone();
    let place = Place::new("status");
    let before = Traces::now();
    for (line, expected) in [
        ("1 mine = exit 3", "mine: its command ended with exit code 3"),
        ("1 mine = kill -9 $$", "mine: its command ended with signal 9"),
        ("1 mine = no-such-command 2> /dev/null", "there is no such command"),
        ("1 mine 1s = sleep 600 & wait", "mine: its command had not ended after 1 s; give it"),
    ] {
        let mut options = tiny(mix(line), &[1], &place);
        options.mix.jobs = 1;
        let began = Instant::now();
        let cause = run::run(&options, |_| ()).record.points[0].failed.clone().expect("failed");
        assert!(cause.text.contains(expected), "{cause:?}");
        assert_eq!((cause.job.as_deref(), cause.user), (Some("mine"), Some(1)));
        assert!(began.elapsed().as_secs() < 300, "{line} was waited for");
    }
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

/// Returns whether a process runs `sleep` for this number of seconds, which no other test uses.
fn sleeps(seconds: u32) -> bool {
    let asleep = format!("sleep\0{seconds}\0");
    processes().iter().any(|(pid, _)| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == asleep)
    })
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let _alone = alone();
    let place = Place::new("daemon");
    let before = Traces::now();
    let mut options = tiny(mix("1 mine = setsid sleep 987601 & sleep 987602 &"), &[1], &place);
    options.mix.jobs = 1;
    let record = run::run(&options, |_| ()).into_result().expect("runs");
    assert_eq!(record.points[0].jobs_done, 1);
    assert!(!sleeps(987_601) && !sleeps(987_602));
    before.assert_nothing_new();
}

#[test]
fn an_interrupt_ends_commands_that_left_their_group() {
    let _alone = alone();
    let place = Place::new("setsid");
    let before = Traces::now();
    let load = mix("1 mine = setsid -w sh -c 'setsid sleep 987603 & sleep 987604'");
    let options = HostRun { start_delay: std::time::Duration::ZERO, mix: load, ..endless(&place) };
    let (finished, ()) = crate::disturbed(&options, || {
        wait_for(|| (sleeps(987_603) && sleeps(987_604)).then_some(()));
        assert!(users().len() > 4);
        kill(supervisor(), "TERM");
    });
    assert!(finished.error.is_some());
    assert!(!sleeps(987_603) && !sleeps(987_604));
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}
