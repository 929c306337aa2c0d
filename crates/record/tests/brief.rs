//! Processes that are forked and acquire few locks: they get a file once it is worth it.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;
#[path = "common/record.rs"]
mod record;

use convoy_record::{DIRECTORY, Lock, Looks, Process, SystemLock, launch, raw};
use place::Place;
use record::record;

/// Asserts that processes without a file of the recorder are seen to wait for a lock of the system.
fn wait_for(mode: &str, lock: SystemLock) {
    fn waits(process: &Process, lock: SystemLock) -> u64 {
        let calls = process.activity.iter();
        let calls = calls.filter(|seen| SystemLock::of_call(&seen.what) == Some(lock));
        calls.map(|seen| seen.count).sum()
    }
    let place = Place::new();
    let words = [&place.compile("ills.c", &[]), mode, "1"].map(Into::into);
    let mut command = launch::command(&words, &launch::object().expect("it can be written"));
    let mut child = command.env(DIRECTORY, &*place).spawn().expect("the program starts");
    let mut looks = Looks::at(&place);
    while child.try_wait().expect("a child").is_none() {
        std::thread::sleep(looks.look());
    }
    let mut processes = raw::read_with(&place, &mut looks).expect("the files can be read");
    looks.finish(&mut processes);
    let waiting = processes.iter().filter(|process| 2 * waits(process, lock) > process.looks);
    // Who waits is up to the kernel, which need not be fair.
    assert!(waiting.count() >= 2, "{processes:#?}");
}

#[test]
fn forked_processes_without_a_file_that_wait_for_a_lock_of_the_system_are_recorded() {
    wait_for("file-lock", SystemLock::File);
    wait_for("system-semaphore", SystemLock::Semaphore);
}

#[test]
fn a_forked_process_has_a_file_from_its_seventeenth_acquisition_or_its_first_wait() {
    fn count(process: &Process) -> u64 {
        process.locks.iter().filter(|lock| lock.name == "in_child").map(Lock::count).sum()
    }
    let place = Place::new();
    let program = place.compile("brief.c", &[]);

    let (output, few) = record(&place, &[&program, "100", "16"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(few.len(), 1, "{few:#?}");
    assert_eq!(few[0].unrecorded.brief, [100, 1600]);

    let (_, more) = record(&place, &[&program, "3", "17"], &[]);
    assert_eq!(more.len(), 4, "{more:#?}");
    assert_eq!(more[0].unrecorded.brief, [3, 48]);
    assert!(more[1..].iter().all(|process| count(process) == 1), "{more:#?}");

    let (_, waits) = record(&place, &[&program, "3", "2", "wait"], &[]);
    let [parent, child] = &waits[..] else { panic!("{waits:#?}") };
    assert_eq!(parent.unrecorded.brief, [3, 6]);
    assert_eq!(
        child.locks.iter().map(|lock| lock.all(|site| &site.wait).count).sum::<u64>(),
        1,
        "{child:#?}"
    );
}
