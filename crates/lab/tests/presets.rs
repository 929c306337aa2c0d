//! Every kernel preset carries the `shared` mix to its end, on machines of any size.

use crate::{point, shared};
use convoy_catalogue::KERNELS;
use convoy_kernel::sched::IdleCause;
use convoy_kernel::{FileSystem, JournalOptions, KernelPreset};
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use convoy_machine::Preset;
use convoy_workload::dialect::Dialect;
use convoy_workload::mix::Mix;

const QUAD: &str = "quad-2008-shared-llc";

fn run(kernel: &str, cpus: usize, users: u32, file_system: FileSystem) -> VirtualPoint {
    let mut run = VirtualRun { shrink: 1000, file_system, ..shared(kernel, QUAD, users) };
    run.machine.topology.cpus = cpus;
    run.machine.disk.latency_ns = 100_000.0;
    point(&run)
}

#[test]
fn all_jobs_are_done_on_1_4_and_32_cpus() {
    for kernel in KERNELS.names() {
        for (cpus, users) in [(1, 3), (4, 8), (32, 40)] {
            let point = run(kernel, cpus, users, FileSystem::Tmpfs);
            let failure = &point.first_failure;
            assert_eq!(point.jobs_failed, 0, "{kernel} on {cpus}: {failure:?}");
            assert_eq!(point.jobs_done, u64::from(users) * 97, "{kernel} on {cpus}");
            let rules = &point.idle_rules;
            let unexplained = rules.percent(IdleCause::Unexplained);
            assert!(unexplained < 1.0, "{kernel} on {cpus}: {unexplained} % of CPU time");
            let (beside, idle) = (rules.total(), point.idle_percent);
            assert!(beside <= idle + 1.0, "{kernel} on {cpus}: {beside} of {idle} %");
        }
    }
}

/// A run may end when all users together have finished a number of jobs, whichever user ran them.
#[test]
fn a_part_of_a_run_ends_while_all_users_are_at_work() {
    fn part(jobs_together: Option<u64>) -> VirtualPoint {
        point(&VirtualRun { shrink: 1000, jobs_together, ..shared("3.7", QUAD, 8) })
    }
    let (half, again, all, whole) = (part(Some(388)), part(Some(388)), part(Some(776)), part(None));
    assert_eq!((half.jobs_done, half.jobs_failed), (388, 0), "{:?}", half.first_failure);
    assert_eq!((half.hash, half.columns), (again.hash, again.columns));
    assert_eq!((all.jobs_done, all.hash), (776, whole.hash));
    let (half, whole) = (half.columns.real_s, whole.columns.real_s);
    assert!((0.3..0.6).contains(&(half / whole)), "{half} of {whole} s");
}

/// A task that an interrupt moves to another CPU in the middle of its work leaves nothing of it
/// behind: else a thread of the core that it left is put off until that work would have ended, with
/// whatever locks it holds, and its idle neighbours wait for looks that do not come.
#[test]
fn hardware_threads_do_not_hold_each_other_up() {
    let mut run = shared("3.0-rc", "xeon-64-2011", 128);
    run.mix.first = Some(10);
    let point = point(&run);
    let unexplained = point.idle_rules.percent(IdleCause::Unexplained);
    assert!(unexplained < 1.0, "{unexplained} % of CPU time");
}

/// In builds with debug assertions this is also the test that every lock of every kernel has a name
/// and keeps the rules of interrupts.
#[test]
fn all_jobs_are_done_on_a_disk_with_a_journal() {
    for kernel in KERNELS.names() {
        let point = run(kernel, 4, 12, FileSystem::Journal(JournalOptions::default()));
        assert_eq!((point.jobs_failed, point.jobs_done), (0, 12 * 97), "{kernel}");
        let journal = point.journal.expect("it has one");
        assert!(journal.requests > 0 && journal.commits > 0, "{kernel}: {journal:?}");
    }
}

/// Sixteen file systems of 128 MiB on disks in memory, as the machine of 2013 had; every user works
/// in several of them.
#[test]
fn all_jobs_are_done_on_many_file_systems() {
    let preset = KernelPreset::named("3.7").expect("a shipped preset");
    let mut machine = Preset::named("westmere-ex-80-2013").expect("a shipped preset");
    machine.disk.latency_ns = 0.0;
    let mut mix = Mix::load("fserver").expect("a shipped mix");
    mix.set_dialect(Dialect::Reaim);
    let journal = JournalOptions { blocks: 1024, async_commit: true, groups: 1, labels: true };
    let file_system = FileSystem::Journal(journal);
    let disks = VirtualRun {
        file_system,
        directories: 16,
        fs_mib: Some(128),
        ..VirtualRun::new(mix, 20, preset, machine)
    };
    let many = point(&disks);
    assert_eq!((many.jobs_failed, many.jobs_done), (0, 20 * 101), "{:?}", many.first_failure);
    let one = point(&VirtualRun { directories: 1, ..disks });
    assert!(one.busy_s > many.busy_s, "{} s, {} s in one directory", many.busy_s, one.busy_s);
}
