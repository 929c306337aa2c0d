//! The threads of this process and of its forks, as `/proc` shows them.

use std::fs::read_to_string;

/// A thread and how often it has left a CPU.
pub(crate) type Seen = (u32, u64);

/// The calling thread.
fn this_thread() -> u32 {
    // SAFETY: the call takes no arguments and does not access memory.
    let thread = unsafe { libc::gettid() };
    thread.cast_unsigned()
}

/// Numbers of the entries of a directory of `/proc`.
fn numbers(path: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut all: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// Threads of this process, but for the calling one.
pub(crate) fn threads() -> Vec<u32> {
    let me = this_thread();
    numbers("/proc/self/task").into_iter().filter(|thread| *thread != me).collect()
}

/// Returns the letter of a thread's state: `S` sleeps, `R` runs or waits for a CPU.
pub(crate) fn state(process: u32, thread: u32) -> Option<char> {
    let stat = read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    // The name before it may contain anything.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// How often a thread has left a CPU.
fn switches(process: u32, thread: u32) -> Option<u64> {
    let status = read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let count = |line: &str| line.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok();
    Some(status.lines().filter_map(count).sum())
}

/// Number and arguments of the system call in which a thread sleeps.
pub(crate) fn call(process: u32, thread: u32) -> Option<Vec<u64>> {
    let text = read_to_string(format!("/proc/{process}/task/{thread}/syscall")).ok()?;
    let (number, arguments) = text.split_once(' ')?;
    let mut call = vec![number.parse().ok()?];
    let hex = |word: &str| u64::from_str_radix(word.trim().trim_start_matches("0x"), 16).ok();
    call.extend(arguments.split(' ').filter_map(hex));
    Some(call)
}

/// Living children of a process.
fn children(process: u32) -> Vec<u32> {
    let threads = numbers(&format!("/proc/{process}/task")).into_iter();
    let texts = threads.filter_map(|thread| {
        read_to_string(format!("/proc/{process}/task/{thread}/children")).ok()
    });
    let words: Vec<String> = texts.collect();
    let children = words.iter().flat_map(|text| text.split_whitespace());
    children
        .filter_map(|child| child.parse().ok())
        .filter(|child| state(*child, *child) != Some('Z'))
        .collect()
}

/// Forks of this process, none of which has become another program; otherwise nothing.
fn forks(process: u32, into: &mut Vec<u32>) -> Option<()> {
    let program = |process: u32| std::fs::read(format!("/proc/{process}/cmdline")).ok();
    for child in children(process) {
        if program(child)? != program(process)? {
            return None;
        }
        into.push(child);
        forks(child, into)?;
    }
    Some(())
}

/// Forks of this process.
pub(crate) fn all_forks() -> Vec<u32> {
    let mut all = Vec::new();
    // A process that runs another program is not terminated.
    let _ = forks(std::process::id(), &mut all);
    all
}

/// All threads of this process and its forks but the calling one, if all of them sleep and wait for
/// nothing outside of these processes that can be told.
pub(crate) fn sleeping_threads() -> Option<Vec<Seen>> {
    let me = this_thread();
    let mut processes = vec![std::process::id()];
    forks(processes[0], &mut processes)?;
    let mut seen = Vec::new();
    for process in processes {
        for thread in numbers(&format!("/proc/{process}/task")) {
            if thread == me {
                continue;
            }
            // A reader of our output may be in no hurry.
            let writes = call(process, thread)?[0] == libc::SYS_write.cast_unsigned();
            if writes || state(process, thread)? != 'S' {
                return None;
            }
            seen.push((thread, switches(process, thread)?));
        }
    }
    Some(seen)
}

/// CPU time of this process, rounded down.
pub(crate) fn cpu_seconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write of one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned()
}
