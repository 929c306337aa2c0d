//! Overhead of an uncontended lock and unlock under the object that `convoy record` and `convoy
//! with` load, in nanoseconds beyond plain glibc: each is the minimum of batches that alternate
//! with glibc's own in one process with a second live thread. In a process with one thread glibc
//! uses no atomic instruction; there the object must not either, and its rows are compared with a
//! process without it.
#![expect(clippy::print_stdout, reason = "a benchmark talks")]

use convoy_record::{CONTENDED, DIRECTORY, launch};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Name, environment, and what is asked of one mutex, nanoseconds.
type Row = (&'static str, &'static [(&'static str, &'static str)], f64);

const ROWS: [Row; 6] = [
    ("interposed", &[], 1.0),
    ("own word in place", &[("CONVOY_MUTEX", "sleep")], 0.0),
    ("own word, fair", &[("CONVOY_MUTEX", "fair")], 0.0),
    ("recorded", &[(DIRECTORY, "")], 6.0),
    ("recorded, contended only", &[(DIRECTORY, ""), (CONTENDED, "1")], 6.0),
    ("recorded, own word", &[(DIRECTORY, ""), ("CONVOY_MUTEX", "sleep")], 6.0),
];
/// The same for processes with one thread.
const ALONE: [Row; 3] = [
    ("one thread, interposed", &[], 3.0),
    ("one thread, recorded", &[(DIRECTORY, "")], 3.0),
    ("one thread, contended only", &[(DIRECTORY, ""), (CONTENDED, "1")], 3.0),
];
/// Numbers of mutexes, taken in turn.
const MUTEXES: [&str; 3] = ["1", "500", "20000"];
/// Processes of each row, of which the median counts.
const PROCESSES: usize = 5;

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pairs.c");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pairs");
    std::fs::create_dir_all(&place).expect("a directory for the program");
    let program = place.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
    let object = launch::object().expect("the object can be written");
    println!("ns a pair beyond glibc     asked       1     500   20000 mutexes");
    for ((name, environment, asked), is_alone) in
        ROWS.into_iter().map(|row| (row, false)).chain(ALONE.into_iter().map(|row| (row, true)))
    {
        print!("{name:<26}{asked:>6.1}");
        for count in MUTEXES {
            let words: [OsString; 3] = [(&program).into(), count.into(), "alone".into()];
            let words = &words[..if is_alone { 3 } else { 2 }];
            let run = |_| {
                let mut command = launch::command(words, &object);
                for (key, value) in environment {
                    command.env(
                        key,
                        if value.is_empty() { place.as_os_str() } else { value.as_ref() },
                    );
                }
                let [named, glibc] = pair(&mut command);
                if is_alone {
                    named - pair(Command::new(&program).args(&words[1..]))[0]
                } else {
                    named - glibc
                }
            };
            let mut all: Vec<f64> = (0..PROCESSES).map(run).collect();
            all.sort_by(f64::total_cmp);
            print!("{:>8.1}", all[PROCESSES / 2]);
        }
        println!();
    }
    std::fs::remove_dir_all(place).expect("it goes away");
}

/// Returns the nanoseconds of a pair by the names of pthread, and by glibc's own functions.
fn pair(command: &mut Command) -> [f64; 2] {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{output:?}"))
}
