//! The exported functions of locks, condition variables, barriers and semaphores. Each is a few
//! instructions that add the call site to the arguments.

use core::arch::naked_asm;
use core::ffi::c_int;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use crate::file::process;
use crate::interpose::deadlines::{acquire, cancellation_point, is_clock, is_time};
use crate::interpose::locks::{self, How};
use crate::interpose::{barrier, condvar, libc, locked_memory, single_thread};
use crate::layout;
use crate::policy::chosen;
use crate::sites::python;

const EBUSY: c_int = 16;
/// Value that C11's `mtx_trylock` returns for it.
const THRD_BUSY: c_int = 1;

static MUTEX: How = How { kind: layout::MUTEX, attempt: &libc::MUTEX_ATTEMPT, busy: EBUSY };
static MTX: How = How { kind: layout::MUTEX, attempt: &libc::MTX_ATTEMPT, busy: THRD_BUSY };
static READ: How = How { kind: layout::READ, attempt: &libc::RWLOCK_TRYRDLOCK, busy: EBUSY };
static WRITE: How = How { kind: layout::WRITE, attempt: &libc::RWLOCK_TRYWRLOCK, busy: EBUSY };
static SPIN: How = How { kind: layout::SPIN, attempt: &libc::SPIN_TRYLOCK, busy: EBUSY };
static SEM: How = How { kind: layout::SEMAPHORE, attempt: &libc::SEM_TRYWAIT, busy: -1 };

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
        pub(crate) unsafe extern "C" fn $name() {
            // The stack pointer still points at the return address.
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                concat!("mov ", $register, ", qword ptr [rsp]"),
                "jmp qword ptr [rip + {entry}]",
                entry = sym $name::ENTRY,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                concat!("mov ", crate::arch::register!($register), ", x30"),
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
    pthread_mutex_destroy "rsi" (m, _site) libc::MUTEX_DESTROY.call([m, 0, 0, 0]);
    pthread_mutex_lock "rsi" (m, site) lock(m, site);
    pthread_mutex_trylock "rsi" (m, site) locks::attempt(&MUTEX, met(m, site), site);
    pthread_mutex_timedlock "rdx" (m, t, site)
        locks::acquire(&MUTEX, &libc::MUTEX_TIMEDLOCK, &[met(m, site), t, 0, 0], site);
    pthread_mutex_clocklock "rcx" (m, clock, t, site)
        clocklock(&[met(m, site), clock, t, 0], site);
    pthread_mutex_unlock "rsi" (m, _site) locks::release(&libc::MUTEX_UNLOCK, m);
    mtx_lock "rsi" (m, site) lock_c11(m, site);
    mtx_trylock "rsi" (m, site) locks::attempt(&MTX, met(m, site), site);
    mtx_timedlock "rdx" (m, t, site)
        locks::acquire(&MTX, &libc::MTX_TIMEDLOCK, &[met(m, site), t, 0, 0], site);
    mtx_unlock "rsi" (m, _site) locks::release(&libc::MTX_UNLOCK, m);

    pthread_cond_wait "rdx" (c, m, site) condvar::condition(&libc::COND_WAIT, [c, m, 0, 0], site);
    pthread_cond_timedwait "rcx" (c, m, t, site)
        condvar::condition(&libc::COND_TIMEDWAIT, [c, m, t, 0], site);
    pthread_cond_clockwait "r8" (c, m, clock, t, site)
        condvar::condition(&libc::COND_CLOCKWAIT, [c, m, clock, t], site);
    pthread_cond_destroy "rsi" (c, _site) libc::COND_DESTROY.call([c, 0, 0, 0]);
    pthread_cond_signal "rsi" (c, site)
        condvar::signal(&libc::COND_SIGNAL, layout::STEP_SIGNAL, c, site);
    pthread_cond_broadcast "rsi" (c, site)
        condvar::signal(&libc::COND_BROADCAST, layout::STEP_BROADCAST, c, site);
    cnd_wait "rdx" (c, m, site) condvar::condition(&libc::CND_WAIT, [c, m, 0, 0], site);
    cnd_timedwait "rcx" (c, m, t, site)
        condvar::condition(&libc::CND_TIMEDWAIT, [c, m, t, 0], site);
    cnd_signal "rsi" (c, site)
        condvar::signal(&libc::CND_SIGNAL, layout::STEP_SIGNAL, c, site);
    cnd_broadcast "rsi" (c, site)
        condvar::signal(&libc::CND_BROADCAST, layout::STEP_BROADCAST, c, site);

    pthread_rwlock_rdlock "rsi" (l, site) locks::take(&READ, &libc::RWLOCK_RDLOCK, l, site);
    pthread_rwlock_tryrdlock "rsi" (l, site) locks::attempt(&READ, l, site);
    pthread_rwlock_timedrdlock "rdx" (l, t, site)
        acquire(is_time(t), &READ, &libc::RWLOCK_TIMEDRDLOCK, &[l, t, 0, 0], site);
    pthread_rwlock_clockrdlock "rcx" (l, clock, t, site)
        until(&READ, &libc::RWLOCK_CLOCKRDLOCK, &[l, clock, t, 0], site);
    pthread_rwlock_wrlock "rsi" (l, site) locks::take(&WRITE, &libc::RWLOCK_WRLOCK, l, site);
    pthread_rwlock_trywrlock "rsi" (l, site) locks::attempt(&WRITE, l, site);
    pthread_rwlock_timedwrlock "rdx" (l, t, site)
        acquire(is_time(t), &WRITE, &libc::RWLOCK_TIMEDWRLOCK, &[l, t, 0, 0], site);
    pthread_rwlock_clockwrlock "rcx" (l, clock, t, site)
        until(&WRITE, &libc::RWLOCK_CLOCKWRLOCK, &[l, clock, t, 0], site);
    pthread_rwlock_unlock "rsi" (l, _site) locks::leave(&libc::RWLOCK_UNLOCK, l);

    pthread_spin_lock "rsi" (l, site) locks::take(&SPIN, &libc::SPIN_LOCK, l, site);
    pthread_spin_trylock "rsi" (l, site) locks::attempt(&SPIN, l, site);
    pthread_spin_unlock "rsi" (l, _site) locks::release(&libc::SPIN_UNLOCK, l);
    pthread_barrier_wait "rsi" (b, site) barrier::barrier(&libc::BARRIER_WAIT, b, site);

    sem_wait "rsi" (s, site) {
        cancellation_point();
        locks::take(&SEM, &libc::SEM_WAIT, s, python::place(site))
    };
    sem_trywait "rsi" (s, site) locks::attempt(&SEM, s, python::place(site));
    sem_timedwait "rdx" (s, t, site)
        acquire(is_time(t), &SEM, &libc::SEM_TIMEDWAIT, &[s, t, 0, 0], python::place(site));
    sem_clockwait "rcx" (s, clock, t, site)
        until(&SEM, &libc::SEM_CLOCKWAIT, &[s, clock, t, 0], python::place(site));
    sched_yield "rdi" (site) barrier::pause(&libc::YIELD, site);
    pthread_yield "rdi" (site) barrier::pause(&libc::YIELD, site);
    thrd_yield "rdi" (site) barrier::pause(&libc::YIELD, site);

    chroot "rsi" (path, _site) process::change_root(path);
    mlockall "rsi" (flags, _site) locked_memory::lock_all(flags);
    sem_post "rsi" (s, site) locks::post(&libc::SEM_POST, s, site);
}

/// Called if nothing is recorded: lets the names that programs call most jump to the real functions
/// without a hook.
pub(crate) fn lead() {
    let names = [
        (&pthread_mutex_lock::ENTRY, &libc::MUTEX_LOCK),
        (&pthread_mutex_unlock::ENTRY, &libc::MUTEX_UNLOCK),
    ];
    for (entry, real) in names {
        if let Some(address) = real.address() {
            // Relaxed: done before the program has threads.
            entry.store(address as *mut (), Relaxed);
        }
    }
}

/// Acquires a mutex until a deadline, of which libc checks only the clock if the mutex is free.
fn clocklock(arguments: &[usize; 4], site: usize) -> c_int {
    acquire(is_clock(arguments[1]), &MUTEX, &libc::MUTEX_CLOCKLOCK, arguments, site)
}

/// Acquires a lock until a deadline on a clock, which are the last arguments.
fn until(how: &How, block: &libc::Real, arguments: &[usize; 4], site: usize) -> c_int {
    let is_valid = is_clock(arguments[1]) && is_time(arguments[2]);
    acquire(is_valid, how, block, arguments, site)
}

#[inline(always)]
fn lock(mutex: usize, site: usize) -> c_int {
    #[inline(never)]
    fn among_others(mutex: usize, site: usize) -> c_int {
        locks::take(&MUTEX, &libc::MUTEX_LOCK, met(mutex, site), site)
    }
    if single_thread::is_free(mutex) {
        return locks::take_alone(&MUTEX, &libc::MUTEX_LOCK, mutex, site);
    }
    among_others(mutex, site)
}

/// As [`lock`], for C11.
#[inline(always)]
fn lock_c11(mutex: usize, site: usize) -> c_int {
    #[inline(never)]
    fn among_others(mutex: usize, site: usize) -> c_int {
        locks::take(&MTX, &libc::MTX_LOCK, met(mutex, site), site)
    }
    if single_thread::is_free(mutex) {
        return locks::take_alone(&MTX, &libc::MTX_LOCK, mutex, site);
    }
    among_others(mutex, site)
}

/// Sets the policy of a mutex before it is acquired at `site`, and returns the mutex.
#[inline(always)]
fn met(mutex: usize, site: usize) -> usize {
    chosen::meet(mutex, site);
    mutex
}

fn make(mutex: usize, kind: usize, site: usize) -> c_int {
    let result = libc::MUTEX_INIT.call([mutex, kind, 0, 0]);
    if result == 0 {
        chosen::made(mutex, site);
    }
    result
}
