//! Every job call by call against the originals, with the counts in `calls.toml`.

use std::collections::BTreeMap;

use convoy_workload::api::Kernel as _;
use convoy_workload::counting::Counting;
use convoy_workload::dialect::Dialect;
use convoy_workload::jobs::{Job, JobEnv};
use convoy_workload::user::setup;

/// Calls of a job, by name, and `bytes`.
type Calls = BTreeMap<String, u64>;
/// Jobs by name, by section.
type Table = BTreeMap<String, BTreeMap<String, Calls>>;

/// Calls that the table leaves out.
const LEFT_OUT: [&str; 6] =
    ["rt_sigaction", "rt_sigreturn", "exit", "fcntl", "setsockopt", "(user database)"];

fn counted(job: Job, dialect: Dialect) -> Calls {
    let mut env = JobEnv::new("/w", 1124);
    env.dialect = dialect;
    let mut kernel = Counting::new();
    kernel.mkdir(&env.directory).expect("an empty root");
    setup(&mut kernel, &env).expect("the fixtures");
    kernel.reset();
    job.run(&mut kernel, &env).expect("the job runs");
    let bytes = (kernel.bytes() > 0).then(|| ("bytes".to_owned(), kernel.bytes()));
    let left_out = |name: &str| LEFT_OUT.contains(&name) || name.starts_with("(s");
    let calls = kernel.calls().iter().map(|(name, count)| ((*name).to_owned(), *count));
    calls.filter(|(name, _)| !left_out(name)).chain(bytes).collect()
}

/// `connect` of the UDP pair: the originals connect one end, ours both, and ask nothing for the
/// address that the kernel has chosen.
fn without_set_up(mut calls: Calls, job: &str) -> Calls {
    calls.remove("getsockname");
    if job == "udp_test" {
        calls.remove("connect");
    }
    calls
}

#[test]
fn every_job_makes_the_calls_of_its_original() {
    let table: Table = toml::from_str(include_str!("calls.toml")).expect("valid");
    let mut compared = 0;
    for dialect in Dialect::ALL {
        for section in ["both", dialect.name()] {
            for (name, expected) in &table[section] {
                let job = Job::parse(name).expect("a job");
                let mut found = without_set_up(counted(job, dialect), name);
                if name == "exec_test" {
                    // The forks of a script are its own: the host's test counts them.
                    found.insert("fork".to_owned(), expected["fork"]);
                    found.insert("execve".to_owned(), expected["execve"]);
                    found.insert("wait4".to_owned(), expected["wait4"]);
                }
                assert_eq!(&found, expected, "{name} of {}", dialect.name());
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared} rows");
}
