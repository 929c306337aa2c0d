//! How often ext4 takes the lock of its journal's state for a commit.

use super::common::{kernel, run_on};
use super::journal::{JOURNAL, machine, options};
use convoy_kernel::{CommitLocks, KernelPreset, SyncLocks, VfsRules};
use convoy_workload::api::{Kernel, Open};

/// Memory operations of one `fsync` of a file under 3.7 with the rules `vfs`, the file changed
/// before each or not.
fn operations_of_fsync(vfs: VfsRules, changed: bool) -> u64 {
    let kernel = KernelPreset { vfs, ..kernel("3.7") };
    let operations = |rounds: u64| {
        let ran = run_on(&machine(2, 0), &kernel, options(JOURNAL), 1, move |k| {
            let fd = k.open("/tmp/a", Open::CREAT).unwrap();
            for _ in 0..rounds {
                if changed {
                    k.write(fd, &[1; 4096]).unwrap();
                }
                k.fsync(fd).unwrap();
            }
            k.close(fd).unwrap();
        });
        ran.machine.operations()
    };
    (operations(60) - operations(10)) / 50
}

#[test]
fn on_ext4_fsync_requests_a_commit_before_it_looks_up_to_3_9() {
    let each = |sync| operations_of_fsync(VfsRules { sync, ..kernel("3.7").vfs }, false);
    let (request, look) = (each(SyncLocks::Request), each(SyncLocks::Look));
    assert_eq!(request, look + 2, "the lock is acquired and released once more");
}

#[test]
fn on_ext4_a_commit_releases_its_lock_while_it_cleans_since_5_0() {
    let each = |commit| operations_of_fsync(VfsRules { commit, ..kernel("3.7").vfs }, true);
    let (held, released) = (each(CommitLocks::Held), each(CommitLocks::Released));
    assert_eq!(released, held + 2, "the lock is acquired and released once more");
}
