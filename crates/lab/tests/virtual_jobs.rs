//! Every job on the virtual kernel: it ends well, and leaves the kernel as it was.

use std::cell::RefCell;
use std::rc::Rc;

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Machine, Outcome, Preset};
use convoy_workload::Errno;
use convoy_workload::api::Kernel as _;
use convoy_workload::calibration::Calibration;
use convoy_workload::jobs::{Job, JobEnv};
use convoy_workload::user::setup;

/// Users that run a job at the same time.
const USERS: u32 = 2;

fn env(user: u32) -> JobEnv {
    JobEnv { user, shrink: 50, ..JobEnv::new("/tmp/work", 20) }
}

/// Runs `body` as the first process of `kernel` on two CPUs.
fn run(kernel: &str, body: impl FnOnce(&mut Process) + 'static) -> (Rc<World>, Machine) {
    let preset = Preset::named("quad-2008-shared-llc").expect("shipped").with_cpus(2);
    let machine = Machine::new(&preset, 1, 64).expect("address space");
    let kernel = KernelPreset::named(kernel).expect("shipped");
    let units = Calibration::embedded().expect("complete").ns;
    let world = World::new(&kernel, &preset, &units, Options::default()).expect("complete");
    world.boot(&machine, body);
    assert_eq!(machine.run(600_000_000_000), Outcome::Stopped);
    (world, machine)
}

/// Runs `job` once for each user at the same time; what went wrong.
fn together(k: &mut Process, job: Job, failures: &Rc<RefCell<Vec<String>>>) {
    for user in 0..USERS {
        let failures = Rc::clone(failures);
        k.fork(move |k| {
            if let Err(error) = job.run(k, &env(user)) {
                failures.borrow_mut().push(format!("{}, user {user}: {error}", job.name()));
            }
            0
        })
        .expect("room for the users");
    }
    while k.wait().is_ok() {}
}

#[test]
fn every_job_ends_well_and_leaves_the_kernel_as_it_was() {
    for kernel in ["2.6.25", "2.6.26-rc1"] {
        let failures = Rc::new(RefCell::new(Vec::new()));
        let inner = Rc::clone(&failures);
        let (world, _machine) = run(kernel, move |k| {
            k.mkdir("/tmp/work").expect("an empty tmpfs");
            setup(k, &env(0)).expect("fixtures");
            let world = Rc::clone(k.world());
            let pages = world.tmpfs_pages();
            for &job in Job::ALL.iter().filter(|job| job.host_only().is_none()) {
                together(k, job, &inner);
                assert_eq!(world.tmpfs_pages(), pages, "{}", job.name());
                assert_eq!(world.process_count(), 1, "{}", job.name());
                assert_eq!(world.terminal_files(), 1, "{}", job.name());
                assert_eq!(world.held_locks(), Vec::<&str>::new(), "{}", job.name());
                assert_eq!(k.close(3), Err(Errno::EBADF), "{}", job.name());
            }
        });
        assert_eq!(failures.take(), Vec::<String>::new(), "{kernel}");
        assert!(world.counts().calls.get() > 1000);
    }
}
