//! What `/proc` tells of a thread that sleeps in futex(2), and functions of libc that do.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::record::Kind;

/// What a thread waits on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sleep {
    pub(crate) word: u64,
    pub(crate) stack: u64,
}

/// What a thread sleeps on in futex(2), if it does.
pub(crate) fn sleep(syscall: &File) -> Option<Sleep> {
    const FUTEX: u64 = 202;
    /// `FUTEX_WAIT`, `_LOCK_PI`, `_WAIT_BITSET`, `_WAIT_REQUEUE_PI`, `_LOCK_PI2`.
    const WAITS: [u64; 5] = [0, 6, 9, 11, 13];
    const FLAGS: u64 = 128 | 256;
    let mut bytes = [0; 256];
    let length = syscall.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    let mut words = text.split_ascii_whitespace();
    if words.next()?.parse() != Ok(FUTEX) {
        return None;
    }
    let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (word, operation) = (hex()?, hex()?);
    let stack = (0..5).filter_map(|_| hex()).last()?;
    WAITS.contains(&(operation & !FLAGS)).then_some(Sleep { word, stack })
}

/// The state of a thread as one letter.
pub(crate) fn state(pid: u32, thread: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// What a function of libc waits for.
pub(crate) fn act(name: &str) -> Option<(Kind, &'static str)> {
    let name = name.trim_start_matches('_');
    let found = [
        ("pthread_mutex_", Kind::Mutex, "lock"),
        ("mtx_", Kind::Mutex, "lock"),
        ("pthread_cond_", Kind::Condition, "wait"),
        ("cnd_", Kind::Condition, "wait"),
        ("pthread_rwlock_rd", Kind::Rwlock, "read"),
        ("pthread_rwlock_timedrd", Kind::Rwlock, "read"),
        ("pthread_rwlock_clockrd", Kind::Rwlock, "read"),
        ("pthread_rwlock_", Kind::Rwlock, "write"),
        ("pthread_barrier_wait", Kind::Barrier, "wait"),
        ("sem_", Kind::Semaphore, "lock"),
    ];
    let found = found.iter().find(|(begin, ..)| name.starts_with(begin));
    found.map(|&(_, kind, act)| (kind, act))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libc_are_told_by_what_they_wait_for() {
        assert_eq!(act("__pthread_mutex_lock"), Some((Kind::Mutex, "lock")));
        assert_eq!(act("pthread_rwlock_timedrdlock"), Some((Kind::Rwlock, "read")));
        assert_eq!(act("pthread_rwlock_wrlock"), Some((Kind::Rwlock, "write")));
        assert_eq!(act("pthread_join"), None);
    }
}
