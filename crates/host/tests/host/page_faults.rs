//! Minor page faults of every job compared with the originals.

use std::collections::BTreeMap;

use convoy_host::{HostRun, run};
use convoy_workload::dialect::Dialect;
use convoy_workload::jobs::Job;
use convoy_workload::mix::Mix;

use crate::common::skip;
use crate::{Place, alone};

/// Runs after the first that a mean is taken over.
const LATER: u32 = 5;
/// Tolerance in faults for the job's own memory; jobs that are not in the table make at most this
/// many.
const SLACK: f64 = 10.0;
/// Additional tolerance as a share of its faults.
const SHARE: f64 = 0.05;
/// Factor by which they may differ where children of the job make them: how many a program makes
/// depends on how it is linked.
const OF_CHILDREN: f64 = 3.0;

/// Counts by name, of each job.
type Section = BTreeMap<String, BTreeMap<String, u64>>;

/// Returns the faults of one user that runs `job` `runs` times in a fresh process.
fn faults(job: Job, dialect: Dialect, runs: u32, place: &Place) -> Option<f64> {
    let mut mix = Mix::of_job(job);
    mix.set_dialect(dialect);
    mix.jobs = runs;
    let options = HostRun {
        predict: false,
        directories: vec![place.0.clone()],
        ..HostRun::new(mix, vec![1])
    };
    let finished = run::run(&options, |_| ());
    let point = &finished.record.points[0];
    if finished.error.is_some() {
        // Not every file system knows O_DIRECT, not every container allows asynchronous I/O.
        assert!(job.name().contains("_dio_") || job.name().contains("_aio"), "{point:?}");
        return None;
    }
    Some(point.page_faults_per_s.expect("counted") * point.real_s)
}

#[test]
fn every_job_makes_the_page_faults_of_its_original() {
    let _alone = alone();
    let place = Place::new("faults-of-jobs");
    let text = include_str!("../../../workload/tests/calls.toml");
    let table: BTreeMap<String, Section> = toml::from_str(text).expect("valid");
    let mut compared = 0;
    for dialect in Dialect::ALL {
        for &job in Job::ALL {
            let count = |runs| faults(job, dialect, runs, &place);
            let (Some(first), Some(all)) = (count(1), count(1 + LATER)) else {
                skip(&format!("page faults of {}, which cannot run here", job.name()), false);
                continue;
            };
            let found = (all - first) / f64::from(LATER);
            let expected = table["faults"].get(job.name());
            let expected = expected.map_or(0, |by_dialect| by_dialect[dialect.name()]) as f64;
            let forks = ["exec_test", "fork_test"].contains(&job.name());
            let right = if forks || job.name().starts_with("shell_") {
                (expected / OF_CHILDREN..=expected * OF_CHILDREN).contains(&found)
            } else {
                (found - expected).abs() <= SLACK + SHARE * expected
            };
            let name = dialect.name();
            assert!(right, "{} of {name}: {found} faults, not {expected}", job.name());
            compared += 1;
        }
    }
    assert!(compared >= 2 * 60, "{compared} compared");
}
