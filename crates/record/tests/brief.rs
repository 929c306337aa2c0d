//! Processes that are forked and acquire few locks: they get a file once it is worth it.

#![cfg(target_arch = "x86_64")]

use convoy_record::{DIRECTORY, Lock, Process, launch, raw};
use std::path::Path;
use std::process::Command;

fn record(place: &Path, words: &[&str]) -> Vec<Process> {
    let files = place.join("files");
    std::fs::create_dir_all(&files).expect("a directory for the files");
    let mut all = vec![place.join("program").into()];
    all.extend(words.iter().map(Into::into));
    let mut command = launch::command(&all, &launch::object().expect("an object"));
    assert!(command.env(DIRECTORY, &files).status().expect("it starts").success());
    let processes = raw::read(&files).expect("the files can be read");
    std::fs::remove_dir_all(files).expect("they go away");
    processes
}

#[test]
fn a_forked_process_has_a_file_from_its_seventeenth_acquisition_or_its_first_wait() {
    fn count(process: &Process) -> u64 {
        process.locks.iter().filter(|lock| lock.name == "in_child").map(Lock::count).sum()
    }
    let place =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("brief-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory for the test");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/brief.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-pthread", "-o"]).arg(place.join("program")).arg(source);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");

    let few = record(&place, &["100", "16"]);
    assert_eq!(few.len(), 1, "{few:#?}");
    assert_eq!(few[0].unrecorded.brief, [100, 1600]);

    let more = record(&place, &["3", "17"]);
    assert_eq!(more.len(), 4, "{more:#?}");
    assert_eq!(more[0].unrecorded.brief, [3, 48]);
    assert!(more[1..].iter().all(|process| count(process) == 1), "{more:#?}");

    let waits = record(&place, &["3", "2", "wait"]);
    let [parent, child] = &waits[..] else { panic!("{waits:#?}") };
    assert_eq!(parent.unrecorded.brief, [3, 6]);
    assert_eq!(
        child.locks.iter().map(|lock| lock.all(|site| &site.wait).count).sum::<u64>(),
        1,
        "{child:#?}"
    );
    std::fs::remove_dir_all(place).expect("it goes away");
}
