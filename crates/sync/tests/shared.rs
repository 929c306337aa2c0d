//! Locks in memory that two processes share. Threads that a process has are not in its child, so
//! the child does nothing but take locks.

#![cfg(all(target_os = "linux", not(miri)))]

use convoy_sync::{RawLock, shared};
use convoy_watchdog as _;
use std::cell::Cell;
use std::ptr::null_mut;

const TIMES: u64 = 30_000;
/// Exit status of a child in which all went well.
const WELL: i32 = 7;

/// At the start of the mapping.
#[repr(C)]
struct Common {
    lock: shared::Mutex,
    once: shared::Once,
    begin: shared::Barrier,
    end: shared::Barrier,
    count: Cell<u64>,
    set_up: Cell<u64>,
}

/// A page that this process and its children share.
fn common() -> &'static Common {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the place, so nothing that exists is touched.
    let memory = unsafe { libc::mmap(null_mut(), size_of::<Common>(), access, kind, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    let common = memory.cast::<Common>();
    let new = Common {
        lock: shared::Mutex::new(),
        once: shared::Once::new(),
        begin: shared::Barrier::new(2),
        end: shared::Barrier::new(2),
        count: Cell::new(0),
        set_up: Cell::new(0),
    };
    // SAFETY: the page is ours, large enough, and no other thread knows it yet.
    unsafe { common.write(new) };
    // SAFETY: the page is never unmapped, and was just written.
    unsafe { &*common }
}

/// What either process does.
fn work(common: &Common) {
    common.begin.wait();
    common.once.call_once(|| common.set_up.set(common.set_up.get() + 1));
    for _ in 0..TIMES {
        common.lock.lock();
        common.count.set(common.count.get() + 1);
        common.lock.unlock();
    }
    common.end.wait();
}

#[test]
fn processes_take_turns_at_locks_that_they_share() {
    let common = common();
    // SAFETY: the child takes locks, allocates nothing and leaves.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    work(common);
    if child == 0 {
        // SAFETY: the call does not return.
        unsafe { libc::_exit(WELL) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for the write of one number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == WELL, "{status}");
    assert_eq!((common.count.get(), common.set_up.get()), (2 * TIMES, 1));
    assert!(!common.lock.is_locked());
}
