//! The jobs about processes: fork, exec, the shell, signals, the heap, identity.

use crate::Errno;
use crate::api::{Exit, Kernel, Program, Query, Signal};

use super::{JobEnv, JobError, call, check};
use crate::dialect::Dialect;

/// The status of a child after a failed `exec`, as in shells.
const EXEC_FAILED: i32 = 127;
/// Bytes by which the heap jobs first grow the heap.
const HEAP_BYTES: isize = 1 << 20;
/// Bytes that each round releases.
const ROUND_BYTES: isize = 64 << 10;
/// What each step of a round takes.
const STEP_BYTES: usize = 4 << 10;
/// Distance of the bytes that `page_test` writes.
const TOUCH_STRIDE: usize = 128;

pub(super) fn fork_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    for _ in 0..env.loops(100) {
        call("fork", k.fork(|_| 0))?;
        wait_for_all(k, "exit status of the forked child")?;
    }
    Ok(())
}

pub(super) fn exec_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let program = match env.dialect {
        Dialect::Original => Program::True,
        Dialect::Reaim => Program::List,
    };
    for _ in 0..env.loops(5) {
        let directory = env.listed();
        let child = move |k: &mut K| {
            let _errno = k.exec(program, &directory);
            EXEC_FAILED
        };
        call("fork", k.fork(child))?;
        wait_for_all(k, "exit status of the script")?;
    }
    Ok(())
}

/// AIM7's three shell jobs are one: a child calls `system("script 9")` and the script lists a
/// directory.
pub(super) fn shell_rtns<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let directory = env.listed();
    call("fork", k.fork(move |k| system_list(k, directory)))?;
    wait_for_all(k, "exit status of the shell")
}

/// As the first; sleeps as re-aim's does if the run asks for it. The sleep is part of the job's
/// time.
#[inline(never)]
pub(super) fn shell_rtns_2<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    if env.shell_sleep_ns > 0 {
        k.sleep(env.shell_sleep_ns);
    }
    shell_rtns(k, env)
}

/// The library's `system`: fork, exec of the shell, wait.
fn system_list<K: Kernel>(k: &mut K, directory: String) -> i32 {
    let forked = k.fork(move |k| {
        let _errno = k.exec(Program::SystemList, &directory);
        EXEC_FAILED
    });
    match forked.and_then(|_| k.wait()) {
        Ok((_, Exit::Code(code))) => code,
        Ok((_, Exit::Signal(_))) | Err(_) => EXEC_FAILED,
    }
}

/// Waits until no child is left; each must have ended with 0.
fn wait_for_all<K: Kernel>(k: &mut K, what: &'static str) -> Result<(), JobError> {
    let mut right = true;
    loop {
        match k.wait() {
            Ok((_, exit)) => right &= exit == Exit::Code(0),
            Err(Errno::ECHILD) => return check(right, what),
            Err(errno) => return Err(JobError::Call { call: "wait", errno }),
        }
    }
}

pub(super) fn signal_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    call("signal", k.catch(Signal::Usr2))?;
    let signals = env.loops(1000);
    let own = k.pid();
    for _ in 0..signals {
        call("kill", k.kill(own, Signal::Usr2))?;
    }
    // A signal that a process sends to itself is delivered before `kill` returns.
    check(k.caught() == signals, "number of signals caught")
}

pub(super) fn brk_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    heap_rounds(k, env.loops(1000), |_| Ok(()))
}

pub(super) fn page_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    heap_rounds(k, env.loops(100), |k| call("touch", k.touch_heap(STEP_BYTES, TOUCH_STRIDE)))
}

/// Grows the heap by 1 MB; then `rounds` times gives 64 KB back and takes them again in steps of 4
/// KB, with `step` after each. The heap ends as it began, so that one run leaves nothing to the
/// next.
fn heap_rounds<K: Kernel>(
    k: &mut K,
    rounds: u64,
    step: impl Fn(&mut K) -> Result<(), JobError>,
) -> Result<(), JobError> {
    call("sbrk", k.sbrk(HEAP_BYTES))?;
    for _ in 0..rounds {
        call("sbrk", k.sbrk(-ROUND_BYTES))?;
        for _ in 0..ROUND_BYTES as usize / STEP_BYTES {
            call("sbrk", k.sbrk(STEP_BYTES as isize))?;
            step(k)?;
        }
    }
    call("sbrk", k.sbrk(-HEAP_BYTES))
}

pub(super) fn misc_rtns_1<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let queries =
        [Query::WorkingDirectory, Query::Ids, Query::UserDatabase, Query::System, Query::Terminal];
    for _ in 0..env.loops(10) {
        for query in queries {
            call("query", k.query(query))?;
        }
    }
    Ok(())
}
