//! The program of the tutorial under the recorder, on each kind of machine that records. `cargo
//! xtask aarch64` runs this test under qemu with a cross compiler as `$CC`.

use convoy_record::{DIRECTORY, Kind, launch, raw};
use std::path::Path;
use std::process::Command;

/// Number of threads of the program, and of orders for each thread.
const THREADS: u64 = 12;
const ORDERS: u64 = 100;

#[test]
fn the_lock_that_the_tutorial_finds_is_recorded_with_its_place() {
    let place =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tutorial-{}", std::process::id()));
    std::fs::create_dir_all(place.join("files")).expect("a directory for the files");
    let program = place.join("orders");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/slow-program/orders.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut cc = Command::new(compiler);
    cc.args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
    let object = launch::object().expect("the object can be written");
    let mut command = launch::command(&[program.into()], &object);
    let output = command.env(DIRECTORY, place.join("files")).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1200 orders\n", "{output:?}");
    let processes = raw::read(&place.join("files")).expect("the files can be read");
    std::fs::remove_dir_all(&place).expect("it goes away");

    let [process] = &processes[..] else { panic!("{processes:#?}") };
    assert!(process.ended && process.acquisitions_lost == 0, "{process:#?}");
    let lock = process.locks.iter().find(|lock| lock.name == "journals");
    let lock = lock.unwrap_or_else(|| panic!("{process:#?}"));
    assert_eq!((lock.kind, lock.count()), (Kind::Mutex, THREADS * ORDERS), "{lock:#?}");
    let [site] = &lock.sites[..] else { panic!("{lock:#?}") };
    assert!(site.place.starts_with("note (orders.c:"), "{site:#?}");
    assert!(site.threads == THREADS && lock.contended() > 0, "{lock:#?}");
}
