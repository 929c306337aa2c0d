//! The system calls without a safe wrapper: with `aio` and `queries` the only `unsafe` code of
//! this crate.
//!
//! Everything else goes through `rustix` and `std`. A function here does one call and turns its
//! result into an [`Errno`]; its types enforce its preconditions.

pub(crate) mod aio;
mod queries;

pub(crate) use queries::{groups, times, user_database};

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use convoy_workload::Errno;
use convoy_workload::api::{Exit, Sys};

/// What [`fork`] returns to each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forked {
    /// To the parent: the child's id.
    Parent(i32),
    /// To the child.
    Child,
}

/// A child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) pid: i32,
    pub(crate) exit: Exit,
    /// Resource usage of the child and of the children that it waited for.
    pub(crate) usage: Usage,
}

/// What ended processes used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// CPU time in user mode, nanoseconds.
    pub(crate) user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub(crate) system_ns: u64,
    /// Context switches because the process went to sleep.
    pub(crate) voluntary: u64,
    /// Context switches because the scheduler took the CPU away.
    pub(crate) involuntary: u64,
    /// Page faults without input or output.
    pub(crate) minor_faults: u64,
    /// Page faults that waited for a device.
    pub(crate) major_faults: u64,
}

/// The error of the libc call that just failed in this thread.
fn last_errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// `-1` is the error of the last call, anything else its result.
fn result(value: i32) -> Sys<i32> {
    if value == -1 { Err(last_errno()) } else { Ok(value) }
}

/// `fork`. The child must end by [`exit_now`]: it must never return into the parent's code.
pub(crate) fn fork() -> Sys<Forked> {
    // SAFETY: The child continues with a copy of this thread alone. The C library makes its
    // allocator usable in the child; this crate holds no lock across the call.
    let pid = unsafe { libc::fork() };
    Ok(if result(pid)? == 0 { Forked::Child } else { Forked::Parent(pid) })
}

/// `_exit`: no destructor and no exit handler of the copied parent runs.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no requirement.
    unsafe { libc::_exit(code) }
}

/// `wait4` for any child; `block` says whether to wait for one. `None`: none has ended yet.
pub(crate) fn wait_any(block: bool) -> Sys<Option<Ended>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let options = if block { 0 } else { libc::WNOHANG };
    // SAFETY: `status` and `usage` are writable and of the types that the call fills.
    let pid = unsafe { libc::wait4(-1, &raw mut status, options, usage.as_mut_ptr()) };
    if result(pid)? == 0 {
        return Ok(None);
    }
    // SAFETY: All fields are integers and were zeroed; the call has filled them.
    let usage = unsafe { usage.assume_init() };
    let exit = if libc::WIFEXITED(status) {
        Exit::Code(libc::WEXITSTATUS(status))
    } else {
        Exit::Signal(libc::WTERMSIG(status))
    };
    let usage = Usage {
        user_ns: timeval_ns(usage.ru_utime),
        system_ns: timeval_ns(usage.ru_stime),
        voluntary: usage.ru_nvcsw as u64,
        involuntary: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
    };
    Ok(Some(Ended { pid, exit, usage }))
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

/// `sbrk`; returns the end of the heap after the change.
///
/// This is the real program break, which the C library's allocator shares. That is sound here: the
/// allocator tolerates foreign growth, and the heap jobs do not allocate between their calls, so
/// they only release their own memory.
pub(crate) fn sbrk(delta: isize) -> Sys<usize> {
    // SAFETY: See above; the pages given back are those that the same job took.
    let before = unsafe { libc::sbrk(delta) };
    if before as isize == -1 {
        return Err(last_errno());
    }
    Ok((before as usize).wrapping_add_signed(delta))
}

/// Writes one byte every `stride` bytes of the last `bytes` of the heap.
pub(crate) fn touch_heap(bytes: usize, stride: usize) -> Sys<()> {
    let end = sbrk(0)?;
    let start = end.checked_sub(bytes).ok_or(Errno::EINVAL)?;
    for address in (start..end).step_by(stride.max(1)) {
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: The job has grown the heap by at least `bytes`, so the byte is mapped, writable
        // and in nobody else's use.
        unsafe { byte.write_volatile(1) };
    }
    Ok(())
}

/// How often [`count_signal`] ran in this process.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// The handler of `signal_test`: counts, and installs itself again as in 1996.
extern "C" fn count_signal(signal: libc::c_int) {
    // Ordering: the handler and the reader are the same thread.
    CAUGHT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: `signal` is async-signal-safe and the handler has the right type.
    unsafe { libc::signal(signal, count_signal as *const () as libc::sighandler_t) };
}

/// Catches `signal` with a counting handler; the count starts at 0.
pub(crate) fn catch(signal: i32) -> Sys<()> {
    CAUGHT.store(0, Ordering::Relaxed);
    // SAFETY: The handler has the right type and touches one atomic.
    let old = unsafe { libc::signal(signal, count_signal as *const () as libc::sighandler_t) };
    if old == libc::SIG_ERR { Err(last_errno()) } else { Ok(()) }
}

/// Signals caught since [`catch`].
pub(crate) fn caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// `kill`.
pub(crate) fn kill(pid: i32, signal: i32) -> Sys<()> {
    // SAFETY: `kill` takes integers.
    result(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// An attached System V shared memory segment.
#[derive(Debug)]
pub(crate) struct Segment {
    id: i32,
    start: *mut u8,
    bytes: usize,
}

/// `getpgrp`. The group is 0 when it lies outside of this PID namespace, which the wrapper of
/// `rustix` takes for impossible.
pub(crate) fn process_group() -> i32 {
    // SAFETY: `getpgrp` takes nothing and cannot fail.
    unsafe { libc::getpgrp() }
}

/// First byte of the keys of our System V objects.
const KEY_PREFIX: i32 = 0x43;
/// Keys tried before giving up.
pub(crate) const KEYS: i32 = 16;

/// The key that process `pid` uses at its `attempt`th attempt. Process ids have at most 22 bits.
pub(crate) fn key_of(pid: i32, attempt: i32) -> i32 {
    ((KEY_PREFIX + attempt) << 24) | (pid & 0x00FF_FFFF)
}

/// Creates an object under a key of the calling process, as AIM7 does. `note` is told the key
/// *before* each attempt: a process may be killed inside the call that creates the object, and then
/// the key is all that is known of it.
fn create_keyed(create: impl Fn(libc::key_t, i32) -> i32, note: impl Fn(Option<i32>)) -> Sys<i32> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
    for attempt in 0..KEYS {
        let key = key_of(pid, attempt);
        note(Some(key));
        match result(create(key, flags)) {
            Err(Errno::EEXIST) => {}
            created => return created.inspect_err(|_| note(None)),
        }
    }
    note(None);
    Err(Errno::EEXIST)
}

impl Segment {
    /// `shmget` and `shmat`; for `note` see [`create_keyed`].
    pub(crate) fn create(bytes: usize, note: impl Fn(Option<i32>)) -> Sys<Self> {
        // SAFETY: `shmget` takes integers.
        let id = create_keyed(|key, flags| unsafe { libc::shmget(key, bytes, flags) }, &note)?;
        // SAFETY: The kernel chooses the address.
        let start = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        if start as isize == -1 {
            let errno = last_errno();
            let _best_effort = remove_segment(id);
            note(None);
            return Err(errno);
        }
        Ok(Self { id, start: start.cast(), bytes })
    }

    /// The id.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Copies `buffer` to (`write`) or from the segment at `offset`.
    pub(crate) fn copy(&self, offset: usize, buffer: &mut [u8], write: bool) -> Sys<()> {
        let end = offset.checked_add(buffer.len()).ok_or(Errno::EINVAL)?;
        if end > self.bytes {
            return Err(Errno::EINVAL);
        }
        // SAFETY: `offset` is inside the segment.
        let at = unsafe { self.start.add(offset) };
        if write {
            // SAFETY: The range is attached and disjoint from `buffer`; the segment is private to
            // this process.
            unsafe { at.copy_from_nonoverlapping(buffer.as_ptr(), buffer.len()) };
        } else {
            // SAFETY: As above; `buffer` is writable.
            unsafe { at.copy_to_nonoverlapping(buffer.as_mut_ptr(), buffer.len()) };
        }
        Ok(())
    }

    /// `shmdt` and `shmctl(IPC_RMID)`.
    pub(crate) fn remove(self) -> Sys<()> {
        // SAFETY: `start` is where the segment was attached, and `self` is consumed: no use
        // follows.
        result(unsafe { libc::shmdt(self.start.cast()) })?;
        remove_segment(self.id)
    }
}

/// `shmctl(IPC_RMID)`.
fn remove_segment(id: i32) -> Sys<()> {
    // SAFETY: The command takes no buffer.
    result(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }).map(drop)
}

/// Removes the segment of `key` if process `pid`, which has ended, created it.
pub(crate) fn remove_segment_of(key: i32, pid: i32) -> Sys<()> {
    // SAFETY: `shmget` takes integers.
    let id = result(unsafe { libc::shmget(key, 0, 0) })?;
    let mut status = MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: `status` is writable for a whole `shmid_ds`.
    result(unsafe { libc::shmctl(id, libc::IPC_STAT, status.as_mut_ptr()) })?;
    // SAFETY: All fields are integers, zeroed above and filled by the call.
    let status = unsafe { status.assume_init() };
    if status.shm_cpid == pid { remove_segment(id) } else { Err(Errno::EPERM) }
}

/// `semget` and `semctl(SETVAL)`; for `note` see [`create_keyed`].
pub(crate) fn create_semaphore(value: i32, note: impl Fn(Option<i32>)) -> Sys<i32> {
    // SAFETY: `semget` takes integers.
    let id = create_keyed(|key, flags| unsafe { libc::semget(key, 1, flags) }, &note)?;
    // SAFETY: The fourth argument of SETVAL is the value.
    let set = result(unsafe { libc::semctl(id, 0, libc::SETVAL, value) });
    set.map(|_| id).inspect_err(|_| {
        let _best_effort = remove_semaphore(id);
        note(None);
    })
}

/// Removes the semaphore of `key` if process `pid`, which has ended, was the only one to use it.
pub(crate) fn remove_semaphore_of(key: i32, pid: i32) -> Sys<()> {
    // SAFETY: `semget` takes integers.
    let id = result(unsafe { libc::semget(key, 0, 0) })?;
    // SAFETY: GETPID takes no fourth argument.
    let last_user = result(unsafe { libc::semctl(id, 0, libc::GETPID) })?;
    if last_user == 0 || last_user == pid { remove_semaphore(id) } else { Err(Errno::EPERM) }
}

/// `semop` with one operation.
pub(crate) fn semaphore_operation(id: i32, delta: i32) -> Sys<()> {
    let delta = i16::try_from(delta).map_err(|_| Errno::EINVAL)?;
    let mut operation = libc::sembuf { sem_num: 0, sem_op: delta, sem_flg: 0 };
    // SAFETY: `operation` is one valid operation.
    result(unsafe { libc::semop(id, &raw mut operation, 1) }).map(drop)
}

/// `semctl(IPC_RMID)`.
pub(crate) fn remove_semaphore(id: i32) -> Sys<()> {
    // SAFETY: The command takes no fourth argument.
    result(unsafe { libc::semctl(id, 0, libc::IPC_RMID) }).map(drop)
}

/// Memory shared with the children forked later, zeroed; unmapped on drop.
#[derive(Debug)]
pub(crate) struct SharedWords {
    start: *mut AtomicU64,
    words: usize,
}

impl SharedWords {
    /// `mmap` of `words` shared anonymous words.
    pub(crate) fn new(words: usize) -> Sys<Self> {
        let bytes = words.max(1).checked_mul(8).ok_or(Errno::ENOMEM)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: A new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Self { start: start.cast(), words: words.max(1) })
    }

    /// The words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: The mapping is page-aligned, holds `words` words, zero is a valid atomic, and it
        // lives as long as `self`; all processes use atomic operations only.
        unsafe { std::slice::from_raw_parts(self.start, self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.words * 8) };
    }
}

/// Blocks `signals` in this thread and returns a descriptor from which they are read.
pub(crate) fn signal_descriptor(signals: &[i32]) -> Sys<OwnedFd> {
    let set = signal_set(signals);
    set_mask(libc::SIG_BLOCK, &set)?;
    // SAFETY: `set` is initialised.
    let fd = result(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })?;
    // SAFETY: The descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets all of `signals` through again and gives each its default action.
pub(crate) fn default_signals(signals: &[i32]) -> Sys<()> {
    for signal in signals {
        // SAFETY: The default action is always valid.
        unsafe { libc::signal(*signal, libc::SIG_DFL) };
    }
    set_mask(libc::SIG_UNBLOCK, &signal_set(signals))
}

/// Ignores `signal` from now on.
pub(crate) fn ignore(signal: i32) {
    // SAFETY: Ignoring is always valid.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is writable.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: `set` is initialised by `sigemptyset`.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: Initialised above.
    unsafe { set.assume_init() }
}

fn set_mask(how: i32, set: &libc::sigset_t) -> Sys<()> {
    // SAFETY: `set` is a valid set; the old one is not asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}
