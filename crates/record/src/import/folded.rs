//! Folded stacks of sleeping threads, outermost function first, with microseconds: the output of
//! `offcputime -f`.

use super::waits::{Refused, Waits, number};
use crate::record::origin::Origin;
use crate::record::{Kind, Times};

/// Functions in which a thread waits for a lock: the prefix of their names without leading
/// underscores, the kind of the lock, and the operation.
type Waiting = (&'static str, Kind, &'static str);

/// Functions of libc. The first match counts.
const OF_LIBC: [Waiting; 13] = [
    ("pthread_mutex_", Kind::Mutex, "lock"),
    ("pthread_rwlock_rd", Kind::Rwlock, "read"),
    ("pthread_rwlock_timedrd", Kind::Rwlock, "read"),
    ("pthread_rwlock_", Kind::Rwlock, "write"),
    ("pthread_cond_", Kind::Condition, "wait"),
    ("pthread_barrier_", Kind::Barrier, "wait"),
    ("new_sem_wait", Kind::Semaphore, "lock"),
    ("sem_wait", Kind::Semaphore, "lock"),
    ("sem_timedwait", Kind::Semaphore, "lock"),
    ("sem_clockwait", Kind::Semaphore, "lock"),
    ("mtx_", Kind::Mutex, "lock"),
    ("cnd_", Kind::Condition, "wait"),
    ("lll_lock_wait", Kind::Mutex, "lock"),
];
/// Functions of the kernel. The first match counts.
const OF_KERNEL: [Waiting; 13] = [
    ("mutex_lock", Kind::Mutex, "lock"),
    ("rwsem_down_read", Kind::Rwlock, "read"),
    ("rwsem_down_write", Kind::Rwlock, "write"),
    ("down_read", Kind::Rwlock, "read"),
    ("down_write", Kind::Rwlock, "write"),
    ("percpu_down_", Kind::Rwlock, "lock"),
    ("down_interruptible", Kind::Semaphore, "lock"),
    ("down_killable", Kind::Semaphore, "lock"),
    ("down_timeout", Kind::Semaphore, "lock"),
    ("rt_mutex_", Kind::Mutex, "lock"),
    ("queued_spin_lock_slowpath", Kind::Spinlock, "lock"),
    ("queued_read_lock_slowpath", Kind::Rwlock, "read"),
    ("queued_write_lock_slowpath", Kind::Rwlock, "write"),
];

pub(super) fn is_stack(line: &str) -> bool {
    line.starts_with('#')
        || line.trim().rsplit_once(' ').is_some_and(|(stack, weight)| {
            stack.contains(';') && weight.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
}

pub(super) fn read(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let split = line.trim().rsplit_once(' ');
        let parsed = split.ok_or_else(|| "expected a stack and microseconds".to_owned());
        let parsed = parsed.and_then(|(stack, us)| Ok((stack, number(us, "weight")?)));
        let (stack, us) = parsed.map_err(|reason| (index + 1, reason))?;
        let frames: Vec<&str> = stack.split(';').collect();
        if !add(&frames, us / 1e6, waits) {
            waits.pass_over(index + 1);
        }
    }
    waits.notes.push("Stacks that hold no lock function were passed over.".to_owned());
    Ok(())
}

/// Adds the wait in which this stack ends. The outermost function comes first. Returns whether
/// there is a wait.
pub(super) fn add(frames: &[&str], seconds: f64, waits: &mut Waits) -> bool {
    let found = frames.iter().enumerate().find_map(|(at, frame)| {
        let frame = frame.trim_start_matches('_');
        let of_libc = OF_LIBC.iter().map(|wait| (Origin::Libc, wait));
        let mut all = of_libc.chain(OF_KERNEL.iter().map(|wait| (Origin::Kernel, wait)));
        all.find(|(_, wait)| frame.starts_with(wait.0)).map(|(origin, wait)| (at, origin, wait))
    });
    let Some((at, origin, &(_, kind, act))) = found else { return false };
    // A wrapper of a library acquires the lock for its caller.
    let caller = frames[..at].iter().rev().find(|frame| !is_wrapper(frame));
    let place = caller.map_or("?", |frame| frame);
    let site = waits.site(&format!("lock of {place}"), (kind, origin), place, act);
    site.count += 1;
    site.contended += 1;
    site.wait.add(&Times::one(seconds));
    true
}

fn is_wrapper(frame: &str) -> bool {
    ["std::", "__gthread_", "[unknown]"].iter().any(|prefix| frame.starts_with(prefix))
}
