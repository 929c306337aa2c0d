//! The compiled code of the uncontended path: one atomic instruction each way, and no other
//! instruction that locks the bus. Read from this program by `objdump`.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::print_stderr, reason = "a test that lacks what it needs says so")]

use convoy_sync::{Mutex, RwLock};
use std::process::Command;

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn section_of_a_mutex(mutex: &Mutex<u64>) {
    *mutex.lock() += 1;
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn section_of_a_reader(lock: &RwLock<u64>) -> u64 {
    *lock.read()
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn attempt_at_a_mutex(mutex: &Mutex<u64>) -> bool {
    mutex.try_lock().is_some()
}

/// Returns the instructions of a function of this program, or `None` without `objdump`.
fn instructions(function: &str) -> Option<Vec<String>> {
    let program = std::env::current_exe().expect("this program");
    let only = format!("--disassemble={function}");
    let mut command = Command::new("objdump");
    let Ok(output) = command.args(["--no-show-raw-insn", &only]).arg(program).output() else {
        eprintln!("skipped: there is no `objdump` (package binutils)");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let instructions = text.lines().filter_map(|line| Some(line.split_once(":\t")?.1.to_owned()));
    Some(instructions.collect())
}

fn one_atomic_each_way(function: &str) {
    let Some(instructions) = instructions(function) else {
        assert!(std::env::var_os("CI").is_none(), "objdump is missing in CI");
        return;
    };
    let atomics = |line: &&String| ["lock ", "xchg ", "mfence"].iter().any(|at| line.contains(at));
    let found: Vec<_> = instructions.iter().filter(atomics).collect();
    assert_eq!(found.len(), 2, "{function}: {instructions:#?}");
    // Nor does it read thread-local data.
    let own = instructions.iter().any(|line| line.contains("%fs:"));
    assert!(!own, "{function}: {instructions:#?}");
}

#[test]
fn the_path_without_contention_is_one_atomic_each_way() {
    let (mutex, lock) = (Mutex::new(0), RwLock::new(1));
    section_of_a_mutex(&mutex);
    assert!(attempt_at_a_mutex(&mutex));
    assert_eq!((section_of_a_reader(&lock), mutex.into_inner()), (1, 1));
    for function in ["section_of_a_mutex", "attempt_at_a_mutex", "section_of_a_reader"] {
        one_atomic_each_way(function);
    }
}
