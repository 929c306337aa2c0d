//! Undisturbed loads: every job, every mix, repetition, several directories.

use convoy_host::repeat::Repeats;
use convoy_host::{HostRun, Progress, run};
use convoy_workload::jobs::Job;
use convoy_workload::mix::Mix;
use convoy_workload::record::JobStats;
use convoy_workload::sizes::Convention;

use crate::common::skip;
use crate::{Place, Traces, alone, mix, tiny};

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
        let record = run::run(&options, |_| ()).record;
        let point = &record.points[0];
        // Not every file system knows O_DIRECT, not every container allows asynchronous I/O.
        let may_lack = job.name().contains("_dio_") || job.name().contains("_aio");
        let lacking = point.first_failure.as_deref().filter(|_| may_lack);
        if lacking.is_some_and(|text| text.contains("not available here")) {
            skip(&format!("{}: {}", job.name(), lacking.unwrap_or_default()), false);
            continue;
        }
        assert_eq!(point.first_failure, None, "{}", job.name());
        assert_eq!((point.jobs_done, point.jobs_failed, point.users_lost), (100, 0, 0));
    }
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn a_shorter_run_does_the_first_jobs_of_each_user() {
    let _alone = alone();
    let place = Place::new("first");
    let shared = Mix { first: Some(3), ..Mix::load("shared").expect("shipped") };
    let options = HostRun { predict: true, ..tiny(shared, &[2], &place) };
    let record = run::run(&options, |_| ()).into_result().expect("runs");
    let point = &record.points[0];
    assert_eq!((record.jobs_per_user, point.jobs_done, point.jobs_failed), (3, 6, 0));
    assert_eq!(point.jobs.iter().map(|job| job.runs).sum::<u64>(), 6);
    assert!(point.predicted_s.is_some_and(|s| s > 0.0));
}

#[test]
fn shared_runs_with_two_users_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("shared");
    let before = Traces::now();
    let shared = Mix::load("shared").expect("shipped");
    let options = HostRun { predict: true, ..tiny(shared, &[1, 2], &place) };
    let record = run::run(&options, |_| ()).into_result().expect("runs");
    assert_eq!(record.points.len(), 2);
    for point in &record.points {
        assert_eq!(point.first_failure, None);
        assert_eq!(point.jobs_done, 97 * u64::from(point.users));
        assert!(point.real_s > 0.0 && point.cpu_s > 0.0 && point.jti <= 100);
        let by_formula = 60.0 * point.jobs_done as f64 / point.real_s;
        assert!((point.jobs_per_min - by_formula).abs() < 1e-6 * by_formula);
        assert!(point.predicted_s.is_some_and(|s| s > 0.0));
        assert!(point.jobs.iter().all(|job| job.alone_ns.is_some_and(|ns| ns > 0.0)));
        // The prediction is what one user's jobs take alone, and no less for two CPUs than for one.
        let runs = |job: &JobStats| job.runs as f64 / f64::from(point.users);
        let alone_ns: f64 =
            point.jobs.iter().filter_map(|job| Some(runs(job) * job.alone_ns?)).sum();
        let crowd = (f64::from(point.users) / f64::from(convoy_os::clock::cpus())).max(1.0);
        let predicted_s = point.predicted_s.expect("checked above");
        assert!((predicted_s / (alone_ns / 1e9 * crowd) - 1.0).abs() < 1e-9);
        assert_eq!(point.jobs.iter().map(|job| job.runs).sum::<u64>(), point.jobs_done);
        assert_eq!(point.first_order.len(), 97);
    }
    assert!(record.predict_passes >= Some(3));
    assert_eq!(record.points[0].file_kb, 1024 + 10_240);
    assert_ne!(record.points[0].order_hash, record.points[1].order_hash);
    let again = run::run(&options, |_| ()).into_result().expect("runs");
    assert_eq!(again.points[1].order_hash, record.points[1].order_hash);
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}
#[test]
fn points_are_repeated_and_directories_taken_in_turn() {
    let _alone = alone();
    let (first, second) = (Place::new("turn1"), Place::new("turn2"));
    let repeats = Repeats { least: 3, warmup: 1, ..Repeats::default() };
    let directories = vec![first.0.clone(), second.0.clone()];
    let load = mix("10 disk_wrt\n10 disk_src\n10 exec_test\n");
    let options = HostRun { repeats, pin: true, directories, ..tiny(load, &[3], &first) };
    let mut executions = 0;
    let finished = run::run(&options, |progress| {
        executions += u32::from(matches!(progress, Progress::Running { .. }));
    });
    let record = finished.into_result().expect("runs");
    let point = &record.points[0];
    assert_eq!((executions, point.repeats.len()), (4, 3));
    assert_eq!(point.jobs_done, 3 * 3 * u64::from(record.jobs_per_user));
    let mean = point.repeats.iter().map(|one| one.jobs_per_min).sum::<f64>() / 3.0;
    assert!((point.jobs_per_min / mean - 1.0).abs() < 1e-9);
    let [lo, hi] = point.jobs_per_min_ci95.expect("three executions");
    assert!(lo < mean && mean < hi);
    let directory = record.work_directory.as_deref().expect("told");
    assert!(directory.contains("turn1") && directory.contains("turn2"), "{directory}");
    assert_eq!(record.orders.len(), 3);
    assert!(point.jobs.iter().all(|job| job.p50_ns <= job.p99_ns && job.p50_ns > Some(0)));
    assert!(point.overhead_s.is_some_and(|s| s > 0.0) && point.start_skew_p99_s.is_some());
    assert_eq!((first.entries(), second.entries()), (0, 0));
}

/// Runs every mix with these numbers of users, on re-aim's sizes and loops divided by `shrink`.
fn every_mix(users: &[u32], shrink: u32) {
    let _alone = alone();
    let place = Place::new("mixes");
    let before = Traces::now();
    for name in Mix::shipped() {
        let mut mix = Mix::load(name).expect("shipped");
        mix.set_sizes(Convention::Reaim).expect("known");
        let options = HostRun { shrink, go_on: true, ..tiny(mix, users, &place) };
        let record = run::run(&options, |_| ()).record;
        assert_eq!(record.points.len(), users.len(), "{name}");
        for point in &record.points {
            if point.first_failure.as_deref().is_some_and(|text| text.contains("not available")) {
                skip(&format!("{name}: {:?}", point.first_failure), false);
                continue;
            }
            let jobs = u64::from(record.jobs_per_user * point.users);
            assert_eq!((point.jobs_done, point.failed.as_ref()), (jobs, None), "{name}");
        }
        assert_eq!(place.entries(), 0, "{name}");
        let rates = record.points.iter().map(|point| format!(" {:.0}", point.jobs_per_min));
        println!("{name}: Jobs/Min at {users:?} users:{}", rates.collect::<String>());
    }
    before.assert_nothing_new();
}

#[test]
fn every_mix_runs_and_leaves_nothing() {
    every_mix(&[1, 2, 5], 1000);
}

#[test]
#[ignore = "half an hour: cargo xtask nightly runs it"]
fn every_mix_runs_at_full_size_with_200_users() {
    every_mix(&[1, 2, 10, 50, 200], 1);
}

#[test]
#[ignore = "it measures time, on a quiet machine: cargo xtask nightly runs it"]
fn one_user_takes_what_its_jobs_take_alone() {
    let _alone = alone();
    let place = Place::new("additive");
    let repeats = Repeats { least: 5, ..Repeats::default() };
    let mut off = Vec::new();
    for name in Mix::shipped() {
        let mut mix = Mix::load(name).expect("shipped");
        mix.set_sizes(Convention::Reaim).expect("known");
        let options = HostRun { shrink: 1, predict: true, repeats, ..tiny(mix, &[1], &place) };
        let record = run::run(&options, |_| ()).into_result().expect("runs");
        let ratio = record.points[0].measured_over_predicted.expect("predicted");
        println!("{name}: measured / predicted {ratio:.3}");
        if !(0.85..=1.15).contains(&ratio) {
            off.push((name, ratio));
        }
    }
    assert!(off.is_empty(), "more than 15 % off: {off:?}");
}
