//! The object that is loaded before an unmodified program. It records the locks of the program, and
//! replaces them if asked to.
//!
//! It defines the locking functions of libc without a version, which satisfies every version that a
//! program may ask for, and calls the real ones. Each definition is a few instructions that add the
//! call site to the arguments. Code that runs here must not allocate, print, register a thread
//! destructor, change `errno`, or acquire a lock. [`layout`] describes the data that is written.
//!
//! glibc's own users (stdio, malloc, the loader) bypass the names, and so do programs that call
//! futex(2) themselves or are linked statically.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the names of the layout are its own vocabulary")
)]
#![cfg_attr(test, expect(dead_code, reason = "a test program must not define the names of libc"))]
#![cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]

mod alone;
mod arch;
mod around;
mod begin;
mod budget;
mod calls;
mod carry;
mod choose;
mod clock;
mod code;
mod conditions;
mod condvar;
mod detail;
mod details;
mod exec;
mod fair;
mod futex;
mod guard;
mod handoff;
mod hooks;
mod image;
mod index;
mod install;
mod keys;
mod lines;
mod load;
mod local;
mod map;
mod missing;
mod native;
mod others;
mod own;
mod owners;
mod pages;
mod paths;
mod pin;
mod process;
mod python;
mod quiet;
mod real;
mod robust;
mod room;
mod rounds;
mod seldom;
mod spare;
mod stack;
mod thread;
mod trace;
mod turn;
mod unit;
mod waiters;
mod wakes;

use core::arch::naked_asm;
use core::ffi::c_int;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use convoy_layout as layout;

use hooks::How;

const EBUSY: c_int = 16;
/// Value that C11's `mtx_trylock` returns for it.
const THRD_BUSY: c_int = 1;

static MUTEX: How = How { kind: layout::MUTEX, attempt: &real::MUTEX_ATTEMPT, busy: EBUSY };
static MTX: How = How { kind: layout::MUTEX, attempt: &real::MTX_ATTEMPT, busy: THRD_BUSY };
static READ: How = How { kind: layout::READ, attempt: &real::RWLOCK_TRYRDLOCK, busy: EBUSY };
static WRITE: How = How { kind: layout::WRITE, attempt: &real::RWLOCK_TRYWRLOCK, busy: EBUSY };
static SPIN: How = How { kind: layout::SPIN, attempt: &real::SPIN_TRYLOCK, busy: EBUSY };
static SEM: How = How { kind: layout::SEMAPHORE, attempt: &real::SEM_TRYWAIT, busy: -1 };

/// The body of an exported name: calls `$hook` with the arguments of the call, followed by its
/// return address, or jumps to the function that `ENTRY` in the module of that name points to.
macro_rules! export {
    ($($name:ident $register:tt ($($argument:ident),*) $hook:expr;)*) => {$(
        pub(crate) mod $name {
            use super::*;

            extern "C" fn hook($($argument: usize),*) -> c_int {
                $hook
            }

            /// The target of the jump.
            pub(crate) static ENTRY: AtomicPtr<()> = AtomicPtr::new(hook as *mut ());
        }

        /// libc's function of this name, recorded.
        ///
        /// # Safety
        /// As libc demands.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            // The stack pointer still points at the return address.
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "jmp qword ptr [rip + {entry}]",
                entry = sym $name::ENTRY,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                concat!("mov ", arch::register!($register), ", x30"),
                "adrp x16, {entry}",
                "ldr x16, [x16, :lo12:{entry}]",
                "br x16",
                entry = sym $name::ENTRY,
            );
        }
    )*};
}

export! {
    pthread_mutex_init "rdx" (m, kind, site) make(m, kind, site);
    pthread_mutex_destroy "rsi" (m, _site) real::MUTEX_DESTROY.call([m, 0, 0, 0]);
    pthread_mutex_lock "rsi" (m, site) hooks::take(&MUTEX, &real::MUTEX_LOCK, met(m, site), site);
    pthread_mutex_trylock "rsi" (m, site) hooks::attempt(&MUTEX, met(m, site), site);
    pthread_mutex_timedlock "rdx" (m, t, site)
        hooks::acquire(&MUTEX, &real::MUTEX_TIMEDLOCK, &[met(m, site), t, 0, 0], site);
    pthread_mutex_clocklock "rcx" (m, clock, t, site)
        hooks::acquire(&MUTEX, &real::MUTEX_CLOCKLOCK, &[met(m, site), clock, t, 0], site);
    pthread_mutex_unlock "rsi" (m, _site) hooks::release(&real::MUTEX_UNLOCK, m);
    mtx_lock "rsi" (m, site) hooks::take(&MTX, &real::MTX_LOCK, met(m, site), site);
    mtx_trylock "rsi" (m, site) hooks::attempt(&MTX, met(m, site), site);
    mtx_timedlock "rdx" (m, t, site)
        hooks::acquire(&MTX, &real::MTX_TIMEDLOCK, &[met(m, site), t, 0, 0], site);
    mtx_unlock "rsi" (m, _site) hooks::release(&real::MTX_UNLOCK, m);

    pthread_cond_wait "rdx" (c, m, site) condvar::condition(&real::COND_WAIT, [c, m, 0, 0], site);
    pthread_cond_timedwait "rcx" (c, m, t, site)
        condvar::condition(&real::COND_TIMEDWAIT, [c, m, t, 0], site);
    pthread_cond_clockwait "r8" (c, m, clock, t, site)
        condvar::condition(&real::COND_CLOCKWAIT, [c, m, clock, t], site);
    pthread_cond_destroy "rsi" (c, _site) real::COND_DESTROY.call([c, 0, 0, 0]);
    pthread_cond_signal "rsi" (c, site)
        condvar::signal(&real::COND_SIGNAL, layout::STEP_SIGNAL, c, site);
    pthread_cond_broadcast "rsi" (c, site)
        condvar::signal(&real::COND_BROADCAST, layout::STEP_BROADCAST, c, site);
    cnd_wait "rdx" (c, m, site) condvar::condition(&real::CND_WAIT, [c, m, 0, 0], site);
    cnd_timedwait "rcx" (c, m, t, site)
        condvar::condition(&real::CND_TIMEDWAIT, [c, m, t, 0], site);
    cnd_signal "rsi" (c, site)
        condvar::signal(&real::CND_SIGNAL, layout::STEP_SIGNAL, c, site);
    cnd_broadcast "rsi" (c, site)
        condvar::signal(&real::CND_BROADCAST, layout::STEP_BROADCAST, c, site);

    pthread_rwlock_rdlock "rsi" (l, site) hooks::take(&READ, &real::RWLOCK_RDLOCK, l, site);
    pthread_rwlock_tryrdlock "rsi" (l, site) hooks::attempt(&READ, l, site);
    pthread_rwlock_timedrdlock "rdx" (l, t, site)
        hooks::acquire(&READ, &real::RWLOCK_TIMEDRDLOCK, &[l, t, 0, 0], site);
    pthread_rwlock_clockrdlock "rcx" (l, clock, t, site)
        hooks::acquire(&READ, &real::RWLOCK_CLOCKRDLOCK, &[l, clock, t, 0], site);
    pthread_rwlock_wrlock "rsi" (l, site) hooks::take(&WRITE, &real::RWLOCK_WRLOCK, l, site);
    pthread_rwlock_trywrlock "rsi" (l, site) hooks::attempt(&WRITE, l, site);
    pthread_rwlock_timedwrlock "rdx" (l, t, site)
        hooks::acquire(&WRITE, &real::RWLOCK_TIMEDWRLOCK, &[l, t, 0, 0], site);
    pthread_rwlock_clockwrlock "rcx" (l, clock, t, site)
        hooks::acquire(&WRITE, &real::RWLOCK_CLOCKWRLOCK, &[l, clock, t, 0], site);
    pthread_rwlock_unlock "rsi" (l, _site) hooks::leave(&real::RWLOCK_UNLOCK, l);

    pthread_spin_lock "rsi" (l, site) hooks::take(&SPIN, &real::SPIN_LOCK, l, site);
    pthread_spin_trylock "rsi" (l, site) hooks::attempt(&SPIN, l, site);
    pthread_spin_unlock "rsi" (l, _site) hooks::release(&real::SPIN_UNLOCK, l);
    pthread_barrier_wait "rsi" (b, site) others::barrier(&real::BARRIER_WAIT, b, site);

    sem_wait "rsi" (s, site) hooks::take(&SEM, &real::SEM_WAIT, s, python::place(site));
    sem_trywait "rsi" (s, site) hooks::attempt(&SEM, s, python::place(site));
    sem_timedwait "rdx" (s, t, site)
        hooks::acquire(&SEM, &real::SEM_TIMEDWAIT, &[s, t, 0, 0], python::place(site));
    sem_clockwait "rcx" (s, clock, t, site)
        hooks::acquire(&SEM, &real::SEM_CLOCKWAIT, &[s, clock, t, 0], python::place(site));
    sched_yield "rdi" (site) others::pause(&real::YIELD, site);
    pthread_yield "rdi" (site) others::pause(&real::YIELD, site);
    thrd_yield "rdi" (site) others::pause(&real::YIELD, site);

    chroot "rsi" (path, _site) process::change_root(path);
    mlockall "rsi" (flags, _site) pin::lock_all(flags);
    sem_post "rsi" (s, _site) hooks::post(&real::SEM_POST, s);
}

/// Called if nothing is recorded: lets the names that programs call most jump to the real functions
/// without a hook.
pub(crate) fn lead() {
    let names = [
        (&pthread_mutex_lock::ENTRY, &real::MUTEX_LOCK),
        (&pthread_mutex_unlock::ENTRY, &real::MUTEX_UNLOCK),
    ];
    for (entry, real) in names {
        if let Some(address) = real.address() {
            // Relaxed: done before the program has threads.
            entry.store(address as *mut (), Relaxed);
        }
    }
}

/// Sets the policy of a mutex before it is acquired at `site`, and returns the mutex.
#[inline(always)]
fn met(mutex: usize, site: usize) -> usize {
    choose::meet(mutex, site);
    mutex
}

fn make(mutex: usize, kind: usize, site: usize) -> c_int {
    let result = real::MUTEX_INIT.call([mutex, kind, 0, 0]);
    if result == 0 {
        choose::made(mutex, site);
    }
    result
}
