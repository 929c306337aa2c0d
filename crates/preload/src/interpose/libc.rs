//! libc's functions, which the exported functions of this object hide.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The next object that defines the name.
const NEXT: *mut c_void = usize::MAX as *mut c_void;
/// Returned if libc lacks the function because it is older than the program.
const ENOSYS: c_int = 38;

/// Type of the functions with up to four parameters; registers that a function does not read cost
/// nothing.
type Function = unsafe extern "C" fn(usize, usize, usize, usize) -> c_int;

/// One function of libc, found by [`find_all`] or when it is first called.
pub(crate) struct Real {
    name: &'static CStr,
    /// Condition variables had another layout before glibc 2.3.2, and `dlsym` may find those
    /// functions.
    version: Option<&'static CStr>,
    /// The function that is called: libc's, or its replacement.
    address: AtomicUsize,
    /// libc's function, which is kept if the function is replaced.
    behind: AtomicUsize,
}

impl Real {
    const fn with(name: &'static CStr, version: Option<&'static CStr>) -> Self {
        Self { name, version, address: AtomicUsize::new(0), behind: AtomicUsize::new(0) }
    }

    const fn new(name: &'static CStr) -> Self {
        Self::with(name, None)
    }

    const fn versioned(name: &'static CStr) -> Self {
        Self::with(name, Some(c"GLIBC_2.3.2"))
    }

    const fn oldest(name: &'static CStr) -> Self {
        Self::with(name, Some(c"GLIBC_2.2.5"))
    }

    /// Replaces the function by the one at `address`.
    pub(crate) fn replace(&self, address: usize) {
        // Relaxed: done before the program has threads.
        self.address.store(address, Relaxed);
    }

    /// Calls the replacement, or libc's function if there is none.
    #[inline(always)]
    pub(crate) fn call(&self, arguments: [usize; 4]) -> c_int {
        Self::call_at(&self.address, self, arguments)
    }

    /// Calls libc's own function.
    pub(crate) fn libc(&self, arguments: [usize; 4]) -> c_int {
        Self::call_at(&self.behind, self, arguments)
    }

    /// Calls the function with six parameters, and returns the whole register.
    pub(crate) fn call_six(&self, arguments: [usize; 6]) -> usize {
        type Six = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;
        let Some(address) = self.address() else { return ENOSYS as usize };
        // SAFETY: libc's function of this name, which takes integers and pointers.
        let function = unsafe { core::mem::transmute::<usize, Six>(address) };
        let [one, two, three, four, five, six] = arguments;
        // SAFETY: with the arguments that the program passed to its namesake.
        unsafe { function(one, two, three, four, five, six) }
    }

    #[inline(always)]
    fn call_at(place: &AtomicUsize, real: &Self, [a, b, c, d]: [usize; 4]) -> c_int {
        // Relaxed: all threads find the same address, and code needs no publication.
        let address = place.load(Relaxed);
        if address == 0 {
            return Self::call_first(place, real, a, b, c, d);
        }
        // SAFETY: libc's function of this name, which takes integers and pointers.
        let function = unsafe { core::mem::transmute::<usize, Function>(address) };
        // SAFETY: with the arguments that the program passed to its namesake.
        unsafe { function(a, b, c, d) }
    }

    /// Calls a function that was not found yet. Out of line with arguments in registers, so that
    /// the usual call needs no stack.
    #[cold]
    #[inline(never)]
    fn call_first(
        place: &AtomicUsize,
        real: &Self,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
    ) -> c_int {
        match Self::found(place, real) {
            Some(_) => Self::call_at(place, real, [a, b, c, d]),
            None => ENOSYS,
        }
    }

    /// Returns the address of the replacement, or of libc's function if there is none.
    pub(crate) fn address(&self) -> Option<usize> {
        Self::found(&self.address, self)
    }

    #[inline(always)]
    fn found(place: &AtomicUsize, real: &Self) -> Option<usize> {
        // Relaxed: all threads find the same address, and code needs no publication.
        let mut address = place.load(Relaxed);
        if address == 0 {
            address = real.find();
            // Relaxed: all threads find the same address.
            place.store(address, Relaxed);
        }
        (address != 0).then_some(address)
    }

    fn find_both(&self) {
        let found = self.find();
        for place in [&self.address, &self.behind] {
            // Relaxed: all threads find the same address. The function may have been replaced
            // already.
            let _other = place.compare_exchange(0, found, Relaxed, Relaxed);
        }
    }

    #[cold]
    fn find(&self) -> usize {
        let name = self.name.as_ptr();
        let mut found = core::ptr::null_mut();
        if let Some(version) = self.version {
            // SAFETY: both are C strings.
            found = unsafe { dlvsym(NEXT, name, version.as_ptr()) };
        }
        if found.is_null() {
            // SAFETY: a C string.
            found = unsafe { dlsym(NEXT, name) };
        }
        found as usize
    }
}

// The clocks on which libc accepts a deadline.
pub(crate) const CLOCK_REALTIME: c_int = 0;
pub(crate) const CLOCK_MONOTONIC: c_int = 1;

/// Returns the address of a function of this object with one argument.
pub(crate) fn one(function: extern "C" fn(usize) -> c_int) -> usize {
    function as *const () as usize
}

/// As [`one`].
pub(crate) fn two(function: extern "C" fn(usize, usize) -> c_int) -> usize {
    function as *const () as usize
}

/// As [`one`].
pub(crate) fn three(function: extern "C" fn(usize, usize, usize) -> c_int) -> usize {
    function as *const () as usize
}

/// As [`one`].
pub(crate) fn four(function: extern "C" fn(usize, usize, usize, usize) -> c_int) -> usize {
    function as *const () as usize
}

/// Registers `handler`, a function of this object, which is never unloaded, to be called in each
/// child of a fork.
pub(crate) fn in_children(handler: extern "C" fn()) {
    unsafe extern "C" {
        fn pthread_atfork(
            before: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> c_int;
    }
    // SAFETY: the handler may be called as long as the program runs.
    unsafe { pthread_atfork(None, None, Some(handler)) };
}

/// Returns the address of the thread's `errno`.
fn errno_place() -> *mut c_int {
    unsafe extern "C" {
        fn __errno_location() -> *mut c_int;
    }
    // SAFETY: always valid for the calling thread.
    unsafe { __errno_location() }
}

/// Sets the thread's `errno`.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: valid; only this thread writes it.
    unsafe { *errno_place() = error };
}

/// Returns the thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *errno_place() }
}

/// Calls libc's `syscall` with a number and six parameters, of which the system call uses some.
pub(crate) fn syscall(arguments: &[usize; 7]) -> isize {
    type Call = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> isize;
    let Some(address) = SYSCALL.address() else {
        set_errno(ENOSYS);
        return -1;
    };
    // SAFETY: libc's function, which takes as many integers and pointers as a system call has.
    let call = unsafe { core::mem::transmute::<usize, Call>(address) };
    let [number, one, two, three, four, five, six] = *arguments;
    // SAFETY: with the arguments that the program passed to its namesake.
    unsafe { call(number, one, two, three, four, five, six) }
}

/// Returns the value of an integer that libc exports, if it does.
pub(crate) fn exported<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: libc exports an integer of this type under the name.
    place(name).map(|found| unsafe { *found.as_ptr() })
}

/// Returns the address of an object that libc exports, if it does.
pub(crate) fn place<T: Copy>(name: &CStr) -> Option<NonNull<T>> {
    // SAFETY: a C string; the default scope.
    NonNull::new(unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) }.cast::<T>())
}

macro_rules! reals {
    ($($constant:ident $how:ident $name:literal;)*) => {
        $(pub(crate) static $constant: Real = Real::$how($name);)*

        /// Finds all functions: a signal handler may be the first to call one while its thread is
        /// in the loader, whose lock `dlsym` acquires.
        pub(crate) fn find_all() {
            $($constant.find_both();)*
        }
    };
}

reals! {
    BARRIER_WAIT new c"pthread_barrier_wait";
    CHROOT new c"chroot";
    CLEANUP_POP oldest c"_pthread_cleanup_pop";
    CLEANUP_PUSH oldest c"_pthread_cleanup_push";
    EXECVE new c"execve";
    EXECVEAT new c"execveat";
    EXECVPE new c"execvpe";
    FEXECVE new c"fexecve";
    MLOCKALL new c"mlockall";
    CND_BROADCAST new c"cnd_broadcast";
    CND_SIGNAL new c"cnd_signal";
    CND_TIMEDWAIT new c"cnd_timedwait";
    CND_WAIT new c"cnd_wait";
    COND_BROADCAST versioned c"pthread_cond_broadcast";
    COND_CLOCKWAIT new c"pthread_cond_clockwait";
    COND_DESTROY versioned c"pthread_cond_destroy";
    COND_SIGNAL versioned c"pthread_cond_signal";
    COND_TIMEDWAIT versioned c"pthread_cond_timedwait";
    COND_WAIT versioned c"pthread_cond_wait";
    MTX_ATTEMPT new c"mtx_trylock";
    MTX_LOCK new c"mtx_lock";
    MTX_TIMEDLOCK new c"mtx_timedlock";
    MTX_TRYLOCK new c"mtx_trylock";
    MTX_UNLOCK new c"mtx_unlock";
    MUTEX_ATTEMPT new c"pthread_mutex_trylock";
    MUTEX_CLOCKLOCK new c"pthread_mutex_clocklock";
    MUTEX_DESTROY new c"pthread_mutex_destroy";
    MUTEX_INIT new c"pthread_mutex_init";
    MUTEX_LOCK new c"pthread_mutex_lock";
    MUTEX_TIMEDLOCK new c"pthread_mutex_timedlock";
    MUTEX_TRYLOCK new c"pthread_mutex_trylock";
    MUTEX_UNLOCK new c"pthread_mutex_unlock";
    POPEN new c"popen";
    POSIX_SPAWN new c"posix_spawn";
    POSIX_SPAWNP new c"posix_spawnp";
    PRCTL new c"prctl";
    RWLOCK_CLOCKRDLOCK new c"pthread_rwlock_clockrdlock";
    RWLOCK_CLOCKWRLOCK new c"pthread_rwlock_clockwrlock";
    RWLOCK_RDLOCK new c"pthread_rwlock_rdlock";
    RWLOCK_TIMEDRDLOCK new c"pthread_rwlock_timedrdlock";
    RWLOCK_TIMEDWRLOCK new c"pthread_rwlock_timedwrlock";
    RWLOCK_TRYRDLOCK new c"pthread_rwlock_tryrdlock";
    RWLOCK_TRYWRLOCK new c"pthread_rwlock_trywrlock";
    RWLOCK_UNLOCK new c"pthread_rwlock_unlock";
    RWLOCK_WRLOCK new c"pthread_rwlock_wrlock";
    SEM_CLOCKWAIT new c"sem_clockwait";
    SEM_POST new c"sem_post";
    SEM_TIMEDWAIT new c"sem_timedwait";
    SEM_TRYWAIT new c"sem_trywait";
    SEM_WAIT new c"sem_wait";
    SETCANCELTYPE new c"pthread_setcanceltype";
    SPIN_LOCK new c"pthread_spin_lock";
    SPIN_TRYLOCK new c"pthread_spin_trylock";
    SPIN_UNLOCK new c"pthread_spin_unlock";
    SYSCALL new c"syscall";
    SYSTEM new c"system";
    TESTCANCEL new c"pthread_testcancel";
    YIELD new c"sched_yield";
}
