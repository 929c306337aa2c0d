//! Processes that are forked and acquire few locks: they get a file once it is worth it.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;
#[path = "common/record.rs"]
mod record;

use convoy_record::{Lock, Process};
use place::Place;
use record::record;

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
