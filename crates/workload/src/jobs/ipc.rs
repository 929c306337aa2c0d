//! The jobs that send messages to themselves, and shared memory under a semaphore.

use crate::Errno;
use crate::api::{Fd, Kernel, SocketKind, Sys};

use super::{JobEnv, JobError, call, read_all, write_all};
use crate::dialect::Dialect;

/// Message sizes of 1996, bytes.
const MESSAGES_OF_1996: [usize; 31] = [
    1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 32, 32, 32, 32, 32, 32, 512, 512, 512, 512, 512, 1, 3,
    5, 7, 16, 32, 64, 512, 1024, 2048,
];
/// Message sizes of re-aim, bytes.
const MESSAGES_OF_REAIM: [usize; 37] = [
    1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096, 1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096,
    32, 32, 32, 32, 32, 32, 512, 512, 512, 512, 512, 2048, 2048, 2048, 2048,
];
/// The largest of them.
const LARGEST_MESSAGE: usize = 4096;

/// The sizes of the messages, in turn.
fn message_sizes(dialect: Dialect) -> &'static [usize] {
    match dialect {
        Dialect::Original => &MESSAGES_OF_1996,
        Dialect::Reaim => &MESSAGES_OF_REAIM,
    }
}

/// Shared memory of `shared_memory`, bytes.
fn shared_bytes(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Original => 2 << 10,
        Dialect::Reaim => 64 << 10,
    }
}

/// How often `shared_memory` tries again to get an id where all are taken; AIM7 tries for ever. A
/// minute is long enough for users that hold ids to continue under any load, and short enough if
/// leaked ids are never released.
const ID_RETRIES: u64 = 60;
/// Time between two tries, as in AIM7, nanoseconds.
const ID_RETRY_NS: u64 = 1_000_000_000;

/// Writes each message and reads it back, in the same process; AIM7 stops one before `loops`.
fn messages<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    read_end: Fd,
    write_end: Fd,
    loops: u64,
) -> Result<(), JobError> {
    let out = [b'm'; LARGEST_MESSAGE];
    let mut back = [0; LARGEST_MESSAGE];
    let sizes = message_sizes(env.dialect).iter().copied().cycle();
    let sizes = sizes.take(env.loops(loops - 1) as usize);
    let sent = sizes.into_iter().try_for_each(|size| {
        write_all(k, write_end, &out[..size])?;
        read_all(k, read_end, &mut back[..size])
    });
    // The ends go whatever happened before: nothing of a failed job may stay behind.
    let closed = call("close", k.close(read_end)).and(call("close", k.close(write_end)));
    sent.and(closed)
}

fn socket_job<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    kind: SocketKind,
    loops: u64,
) -> Result<(), JobError> {
    let (read_end, write_end) = call("socket", k.sockets(kind))?;
    messages(k, env, read_end, write_end, loops)
}

pub(super) fn pipe_cpy<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let (read_end, write_end) = call("pipe", k.pipe())?;
    messages(k, env, read_end, write_end, 100)
}

#[inline(never)]
pub(super) fn fifo_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("fifo");
    call("mkfifo", k.make_fifo(&path))?;
    let ends = call("open", k.open_fifo(&path));
    let sent = ends.and_then(|(read_end, write_end)| messages(k, env, read_end, write_end, 100));
    sent.and(call("unlink", k.unlink(&path)))
}

pub(super) fn stream_pipe<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    socket_job(k, env, SocketKind::UnixStream, 100)
}

pub(super) fn dgram_pipe<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    socket_job(k, env, SocketKind::UnixDatagram, 100)
}

pub(super) fn tcp_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    socket_job(k, env, SocketKind::Tcp, 90)
}

pub(super) fn udp_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    socket_job(k, env, SocketKind::Udp, 100)
}

/// The id that `create` makes; where all ids are taken, it waits for one.
fn get_id<K: Kernel>(k: &mut K, env: &JobEnv, create: impl Fn(&mut K) -> Sys<i32>) -> Sys<i32> {
    for _ in 0..env.loops(ID_RETRIES) {
        match create(k) {
            Err(Errno::ENOSPC) => k.sleep(ID_RETRY_NS),
            made_or_failed => return made_or_failed,
        }
    }
    create(k)
}

pub(super) fn shared_memory<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let memory = call("shmget", get_id(k, env, |k| k.shm_create(shared_bytes(env.dialect))))?;
    let result = match call("semget", get_id(k, env, |k| k.sem_create(1))) {
        Ok(semaphore) => {
            let copied = shared_copies(k, env, memory, semaphore);
            copied.and(call("semctl", k.sem_remove(semaphore)))
        }
        Err(error) => Err(error),
    };
    // The segment goes whatever happened before: nothing of a failed job may stay behind.
    result.and(call("shmctl", k.shm_remove(memory)))
}

fn shared_copies<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    memory: i32,
    semaphore: i32,
) -> Result<(), JobError> {
    for _ in 0..env.loops(100) {
        for write in [true, false] {
            call("semop", k.sem_op(semaphore, -1))?;
            call("shmat", k.shm_copy(memory, 0, shared_bytes(env.dialect), write))?;
            call("semop", k.sem_op(semaphore, 1))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::Counting;

    #[test]
    fn an_id_is_waited_for_but_not_for_ever() {
        let cases = [(0, 1, 0), (3, 1, 3), (60, 1, 60), (61, 1, 60), (2, 60, 1)];
        for (taken, shrink, slept_s) in cases {
            let env = JobEnv { shrink, ..JobEnv::new("", 10) };
            let (mut k, tries) = (Counting::new(), core::cell::Cell::new(0));
            let id = get_id(&mut k, &env, |_| {
                tries.set(tries.get() + 1);
                if tries.get() > taken { Ok(7) } else { Err(Errno::ENOSPC) }
            });
            assert_eq!(id, if taken > slept_s { Err(Errno::ENOSPC) } else { Ok(7) });
            let slept = k.calls().get("nanosleep").copied().unwrap_or(0);
            assert_eq!(slept, slept_s, "{taken} taken");
        }
        let mut k = Counting::new();
        let id = get_id(&mut k, &JobEnv::new("", 10), |_| Err(Errno::ENOMEM));
        assert_eq!(id, Err(Errno::ENOMEM), "another error is no reason to wait");
    }

    /// Counted in both originals with `strace`.
    #[test]
    fn the_messages_are_those_of_the_originals() {
        fn moved(dialect: Dialect, messages: usize) -> usize {
            message_sizes(dialect).iter().cycle().take(messages).sum()
        }
        assert_eq!((moved(Dialect::Original, 99), moved(Dialect::Original, 89)), (30_592, 26_880));
        assert_eq!((moved(Dialect::Reaim, 99), moved(Dialect::Reaim, 89)), (68_832, 60_944));
        assert_eq!(MESSAGES_OF_REAIM.iter().max(), Some(&LARGEST_MESSAGE));
    }
}
