//! System calls of the jobs, counted.

use convoy_workload::counting::{Counting, job::prepared};
use convoy_workload::jobs::{Job, JobEnv};
use convoy_workload::mix::Mix;
use convoy_workload::user::{Next, user_main};
use convoy_workload::{fixture, jobs};

/// Users of the experiment of 2008; the file size follows.
const USERS: u32 = 2000;

fn env(shrink: u32) -> JobEnv {
    let file_kb = Mix::load("shared").expect("shipped").file_kb(USERS);
    JobEnv { shrink, ..JobEnv::new("/mix", file_kb) }
}

#[test]
fn fixtures_are_what_their_table_says() {
    let env = env(1);
    let kernel = prepared(&env).expect("fixtures");
    let below = |prefix: &str| kernel.paths().filter(|path| path.starts_with(prefix)).count();
    assert_eq!(below("/mix/tree/d"), fixture::DIRECTORIES + fixture::TREE_NAMES + 1);
    assert_eq!(below("/mix/bin/"), fixture::BIN_NAMES);
    for index in 0..fixture::LIST_NAMES {
        let (name, exists) = fixture::list_name(index);
        let path = format!("/mix/tree/{name}");
        assert_eq!(kernel.paths().any(|other| other == path), exists, "{name}");
    }
}

#[test]
fn every_job_ends_and_leaves_the_kernel_as_it_was() {
    for shrink in [1, 1000] {
        let env = env(shrink);
        for job in Job::ALL {
            let mut kernel = prepared(&env).expect("fixtures");
            let before: Vec<String> = kernel.paths().map(str::to_owned).collect();
            job.run(&mut kernel, &env).unwrap_or_else(|error| panic!("{}: {error}", job.name()));
            assert_eq!(kernel.left_behind(), 0, "{}", job.name());
            assert!(kernel.paths().eq(before.iter().map(String::as_str)), "{}", job.name());
            let asked = kernel.calls().len() + kernel.units().len();
            assert!(asked > 0, "{} does nothing", job.name());
        }
    }
}

#[test]
fn a_user_of_shared_makes_the_calls_of_1996() {
    let env = env(1);
    let mut kernel = prepared(&env).expect("fixtures");
    let order = Mix::load("shared").expect("shipped").order(1, 0);
    let done = user_main(&mut kernel, &env, &order, |done| {
        assert_eq!(done.result, Ok(()), "{}", done.job.name());
        Next::Continue
    });
    assert_eq!(done, 97);
    let calls = |name: &str| kernel.calls().get(name).copied().unwrap_or(0);
    // fork_test 100, exec_test 3 × 5, shell_rtns_1 3 × 2 (system() forks once more).
    assert_eq!(calls("fork"), 100 + 15 + 6);
    assert_eq!(calls("execve"), 15 + 3);
    assert_eq!(calls("semop"), 400);
    assert_eq!(calls("kill"), 1000);
    // page_test: 2 + 100 × 17, brk_test: 2 + 1000 × 17.
    assert_eq!(calls("brk"), 1702 + 17_002);
    assert_eq!(calls("sync"), 0);
}

/// Without `-y` re-aim's jobs call `sync` so often; those that are named `b` or `sync_` never do.
#[test]
fn jobs_sync_where_reaim_does_and_only_if_asked() {
    let expected = |job: Job| match job {
        Job::DiskCp => 3,
        Job::DiskRr
        | Job::DiskRw
        | Job::DiskRd
        | Job::DiskWrt
        | Job::DiskDioRr
        | Job::DiskDioRw
        | Job::DiskDioWrt
        | Job::DiskDioCp => 2,
        Job::DiskDioRd => 1,
        _ => 0,
    };
    for asked in [true, false] {
        let env = JobEnv { sync: asked, ..env(100) };
        for job in Job::ALL {
            let mut kernel = prepared(&env).expect("fixtures");
            job.run(&mut kernel, &env).expect("runs");
            let syncs = kernel.calls().get("sync").copied().unwrap_or(0);
            assert_eq!(syncs, if asked { expected(*job) } else { 0 }, "{}", job.name());
        }
    }
}

#[test]
fn a_user_stops_when_its_log_says_so() {
    let env = env(1000);
    let mut kernel = prepared(&env).expect("fixtures");
    let mut seen = 0;
    let order = [Job::PipeCpy, Job::AddInt, Job::LinkTest];
    let done = user_main(&mut kernel, &env, &order, |_| {
        seen += 1;
        if seen == 2 { Next::Stop } else { Next::Continue }
    });
    assert_eq!((done, seen), (2, 2));
}

#[test]
fn a_failing_call_fails_the_job_with_its_name() {
    let env = env(1);
    // Without fixtures the shared file is missing.
    let mut kernel = Counting::new();
    let error = Job::DiskRd.run(&mut kernel, &env).expect_err("no file").to_string();
    assert_eq!(error, "open: no such file or directory (ENOENT)");
    let missing = jobs::JobError::Wrong { what: "a sum" };
    assert_eq!((missing.to_string().as_str(), missing.errno()), ("wrong result: a sum", None));
}
