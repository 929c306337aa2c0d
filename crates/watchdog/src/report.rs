//! The report on a hung process, and its termination.

use crate::{DOING, EXIT, SIGN, tree};
use std::backtrace::Backtrace;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Makes a thread print its stack. No test of a lock uses it.
const SIGNAL: i32 = libc::SIGUSR2;

/// Threads that have printed their stack.
static SHOWN: AtomicU32 = AtomicU32::new(0);

/// Standard error, past the test harness, which keeps what passing tests print.
fn print(text: &str) {
    // The process ends anyway, even if the report cannot be written.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs in a thread that sleeps, wherever that is. It is not async-signal-safe; a thread that slept
/// inside the allocator would sleep again, and the report continues.
extern "C" fn show(_: i32) {
    let trace = Backtrace::force_capture();
    let what = DOING.with(|doing| doing.try_borrow().map(|text| text.clone()));
    let what = what.unwrap_or_default();
    let what = if what.is_empty() { what } else { format!("    doing: {what}\n") };
    print(&format!("{what}{trace}\n"));
    SHOWN.fetch_add(1, SeqCst);
    // The signal has ended its sleep: a thread that rechecks its condition before the process ends
    // would continue, and the tests would pass.
    loop {
        // SAFETY: the call touches no memory.
        unsafe { libc::pause() };
    }
}

/// Returns the value of the word at `address`.
fn word(address: u64) -> Option<u32> {
    let mut memory = std::fs::File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(address)).ok()?;
    let mut bytes = [0; 4];
    memory.read_exact(&mut bytes).ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// Describes where a thread of this process waits.
fn waits_for(thread: u32) -> String {
    let state = tree::state(std::process::id(), thread).unwrap_or('?');
    let call = tree::call(std::process::id(), thread).unwrap_or_default();
    match call[..] {
        [number, address, _, expected, until, ..] if number == libc::SYS_futex.cast_unsigned() => {
            let until = if until == 0 { "for good" } else { "until a deadline" };
            let value = word(address).map_or("?".to_owned(), |value| format!("{value:#x}"));
            let expected = expected as u32;
            format!("sleeps {until} while {address:#x} is {expected:#x}; it is {value}")
        }
        [number, ..] => format!("{state}, in system call {number}"),
        [] => format!("{state}, runs"),
    }
}

fn name(thread: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
    name.map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

/// Prints what all threads do, and ends the process and its forks.
pub(crate) fn and_end(why: &str) -> ! {
    let forks = tree::all_forks();
    print(&format!("\n{SIGN} {why}. Its threads, of {} forks besides:\n", forks.len()));
    let handler = show as extern "C" fn(i32);
    // SAFETY: `show` takes the number of a signal, as a handler does.
    unsafe { libc::signal(SIGNAL, handler as libc::sighandler_t) };
    for thread in tree::threads() {
        print(&format!("  {} ({thread}): {}\n", name(thread), waits_for(thread)));
        let shown = SHOWN.load(SeqCst);
        let process = std::process::id().cast_signed();
        // SAFETY: the call does not access memory, except in `show`.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread.cast_signed(), SIGNAL) };
        // One after the other, but none is waited for that cannot.
        for _ in 0..500 {
            if SHOWN.load(SeqCst) > shown {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    for fork in forks {
        // SAFETY: the call does not access our memory.
        unsafe { libc::kill(fork.cast_signed(), libc::SIGKILL) };
    }
    // SAFETY: the call does not return.
    unsafe { libc::_exit(EXIT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_our_memory_is_read() {
        let value = AtomicU32::new(7);
        assert_eq!(word(value.as_ptr() as u64), Some(7));
        assert_eq!(word(8), None);
    }
}
