//! The state of a sleeping thread in `/proc`, and libc functions that wait in futex(2).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use crate::layout;
use crate::record::Kind;

/// Number of the system call futex(2).
pub(crate) const FUTEX: i64 = 202;

/// The futex wait of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sleep {
    pub(crate) word: u64,
    pub(crate) stack: u64,
    /// Address after the instruction that made the system call.
    pub(crate) code: u64,
    pub(crate) asks: Asks,
}

/// Arguments of futex(2): the operation with its flags, and the expected value of the word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asks {
    pub(crate) operation: u32,
    pub(crate) value: u32,
}

impl Asks {
    /// Returns whether this may be a wait for a lock that libc uses internally: on a private word
    /// that has the value of a lock with waiters.
    pub(crate) fn may_be_of_libc(self) -> bool {
        self == Self { operation: 128, value: 2 } || self == Self::default()
    }
}

/// State of a thread as reported by the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// It runs, or could run if it had a CPU.
    Running,
    /// It sleeps in a system call with these first arguments. The instruction before `code` made
    /// the call.
    Asleep { number: i64, arguments: [u64; 3], stack: u64, code: u64 },
    /// It sleeps outside of system calls.
    Faulting,
}

impl Call {
    /// Returns the state of a thread, or `None` if it has ended or may not be traced.
    pub(crate) fn of(pid: u32, thread: u32) -> Option<Self> {
        Self::read(&File::open(format!("/proc/{pid}/task/{thread}/syscall")).ok()?)
    }

    pub(crate) fn read(syscall: &File) -> Option<Self> {
        let mut bytes = [0; 256];
        let length = syscall.read_at(&mut bytes, 0).ok()?;
        Self::parse(std::str::from_utf8(&bytes[..length]).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let number = match words.next()? {
            "running" => return Some(Self::Running),
            number => number.parse().ok()?,
        };
        if number < 0 {
            return Some(Self::Faulting);
        }
        let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let arguments = [hex()?, hex()?, hex()?];
        let stack = (0..4).filter_map(|_| hex()).last()?;
        Some(Self::Asleep { number, arguments, stack, code: hex()? })
    }

    /// Returns the state of the thread, without the system calls of the recorder's code at this
    /// address range. Those, for the recorder's own memory, count as running; but a recorder's call
    /// of futex(2) is a wait for a lock that replaces one of libc, so it is kept.
    pub(crate) fn of_program(self, recorder: &Range<u64>) -> Self {
        match self {
            Self::Asleep { number, code, .. } if number != FUTEX && recorder.contains(&code) => {
                Self::Running
            }
            call => call,
        }
    }

    /// Returns the futex wait of the thread, if it sleeps in futex(2).
    pub(crate) fn sleep(self) -> Option<Sleep> {
        /// `FUTEX_WAIT`, `_LOCK_PI`, `_WAIT_BITSET`, `_WAIT_REQUEUE_PI`, `_LOCK_PI2`.
        const WAITS: [u64; 5] = [0, 6, 9, 11, 13];
        const FLAGS: u64 = 128 | 256;
        match self {
            Self::Asleep { number: FUTEX, arguments: [word, operation, value], stack, code } => {
                let asks = Asks { operation: operation as u32, value: value as u32 };
                WAITS.contains(&(operation & !FLAGS)).then_some(Sleep { word, stack, code, asks })
            }
            _ => None,
        }
    }
}

/// Returns whether a thread waits in futex(2) without a timeout, from the text of its file
/// `syscall`: either for a word that only its own process wakes, or for the exit of one of
/// `threads`. Programs that call futex(2) directly may omit the flag for private words, although
/// their memory is private.
pub(crate) fn waits_for_good(
    text: &str,
    threads: &[u32],
    is_private: &dyn Fn(u64) -> bool,
) -> bool {
    const PRIVATE: u64 = 128;
    const FLAGS: u64 = PRIVATE | 256;
    let mut words = text.split_ascii_whitespace();
    let is_futex = words.next() == Some("202");
    let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (Some(word), Some(operation), Some(value), Some(time)) = (hex(), hex(), hex(), hex())
    else {
        return false;
    };
    let is_own = operation & PRIVATE != 0
        || threads.iter().any(|one| u64::from(*one) == value)
        || is_private(word);
    is_futex && time == 0 && is_own && [0, 6, 9, 13].contains(&(operation & !FLAGS))
}

/// Returns the offset of the owner in libc's lock of this kind, in bytes.
pub(crate) fn owner_at(kind: u64) -> Option<u64> {
    match kind {
        layout::MUTEX => Some(8),
        layout::READ | layout::WRITE => Some(24),
        _ => None,
    }
}

/// Returns whether a function waits for the exit of a thread, which is not a lock.
pub(crate) fn is_join(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    ["pthread_join", "pthread_timedjoin", "pthread_clockjoin", "pthread_tryjoin", "thrd_join"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// Returns the kind and the operation of a waiting function of libc.
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
    found.iter().find(|(begin, ..)| name.starts_with(begin)).map(|&(_, kind, act)| (kind, act))
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
        assert!(is_join("__pthread_clockjoin_ex") && !is_join("pthread_mutex_lock"));
    }

    #[test]
    fn waits_with_timeouts_and_for_other_processes_may_end() {
        let of = |line: &str| waits_for_good(line, &[77], &|word| word == 0x2000);
        assert!(of("202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00\n"));
        // pthread_join waits for a thread ID.
        assert!(of("202 0x1000 0x109 0x4d 0x0 0x0 0xffffffff 0x7ffd10 0x7f00\n"));
        assert!(!of("202 0x1000 0x109 0x2 0x0 0x0 0xffffffff 0x7ffd10 0x7f00\n"));
        assert!(!of("202 0x1000 0x80 0x2 0x7ffd00 0x0 0x0 0x7ffd10 0x7f00\n"));
        assert!(!of("202 0x1000 0x81 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00\n"));
        assert!(of("202 0x2000 0x0 0x0 0x0 0x0 0x0 0x7ffd10 0x7f00\n"));
        assert!(!of("230 0x1000 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00\n") && !of("running\n"));
    }

    #[test]
    fn a_line_of_proc_says_where_a_thread_is() {
        assert!(matches!(Call::parse("running\n"), Some(Call::Running)));
        assert!(matches!(Call::parse("-1 0x7ffd 0x55aa\n"), Some(Call::Faulting)));
        let line = "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00\n";
        let sleep = Call::parse(line).and_then(Call::sleep);
        let asks = Asks { operation: 128, value: 2 };
        assert!(sleep == Some(Sleep { word: 0x1000, stack: 0x007f_fd10, code: 0x7f00, asks }));
        // A wakeup, and a different system call.
        let line = "202 0x1000 0x81 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00\n";
        assert!(Call::parse(line).is_some_and(|call| call.sleep().is_none()));
        let call = Call::parse("75 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffd10 0x7f00\n");
        assert!(matches!(call, Some(Call::Asleep { number: 75, stack: 0x007f_fd10, .. })));
        // System calls of the recorder are not the program's, except waits for a lock.
        let recorder = 0x7e00..0x8000;
        assert!(call.is_some_and(|call| call.of_program(&recorder) == Call::Running));
        assert!(call.is_some_and(|call| call.of_program(&(0..0)) == call));
        let call = Call::parse("202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7ffd10 0x7f00\n");
        assert!(call.is_some_and(|call| call.of_program(&recorder) == call));
    }
}
