//! The list of locks, and how each of them implements [`Lock`].
//!
//! [`every_lock!`](crate::every_lock) makes names, searches of `convoy check`, tests on every
//! platform and benchmarks from it. A new lock is its module and one line of that list.

use crate::adaptive::{AdaptiveLock, AtMost};
use crate::cna::CnaLock;
use crate::flexguard::FlexGuard;
use crate::lock::{Cancel, Lock, RawLock, TellPart, WaitError, locks_by};
use crate::mutex::{HandoffMutex, Mutex, SpinPolicy};
use crate::platform::{Platform, Sleep};
use crate::queued::QueuedLock;
use crate::quota::{QuotaRwLock, Room};
use crate::reciprocating::ReciprocatingLock;
use crate::rwlock::RwLock;
use crate::semaphore::RawSemaphore;
use crate::spin::{TasLock, TicketLock};
use core::fmt;

/// Calls a macro with the list: `every_lock! { then! { arguments } }` becomes
/// `then! { { arguments } lines }`. A line is the variant of [`LockName`], the name, the family,
/// the type on the platform `P` with the inner lock `L`, its [`Promise`]s, and one sentence; `P`
/// and `L` are types that the macro called defines.
#[macro_export]
macro_rules! every_lock {
    ($($then:tt)::+ { $($arguments:tt)* }) => {
        $($then)::+! { { $($arguments)* }
            TestAndSet = "test-and-set", "spinlock", $crate::TasLock<P>, [],
                "The spinlock of x86 before 2.6.25, in no order.";
            Ticket = "ticket", "spinlock", $crate::TicketLock<P>, [Fifo],
                "The spinlock of x86 from 2.6.25 on, in order.";
            Queued = "queued", "spinlock", $crate::QueuedLock<P>, [],
                "The spinlock of 4.2, whose waiters queue.";
            Reciprocating = "reciprocating", "spinlock", $crate::ReciprocatingLock<P>, [],
                "Of 2025: waiters push themselves on a stack.";
            Cna = "cna", "spinlock", $crate::CnaLock<P>, [],
                "Of 2019: its queue stays on a package for a while.";
            Adaptive = "adaptive", "mutex", $crate::AdaptiveLock<P, $crate::AtMost>, [SpinLimit],
                "The futex mutex of one word: spins, then sleeps.";
            AdaptiveExtended = "adaptive-extended", "mutex",
                $crate::Extended<P, $crate::AdaptiveLock<P, $crate::AtMost>>, [SpinLimit Extended],
                "`adaptive`; on 7.0 owners keep their CPU for 5 us more.";
            Mutex = "mutex", "mutex", $crate::kernel::Mutex<P, $crate::NoSpin, L>, [Signals],
                "The mutex of 2.6.25, whose waiters sleep at once.";
            MutexSpin = "mutex-spin", "mutex", $crate::kernel::Mutex<P, $crate::SpinOnOwner, L>,
                [Signals],
                "The mutex of 3.7: waiters spin while the owner runs.";
            MutexSpinReadFirst = "mutex-spin-read-first", "mutex",
                $crate::kernel::Mutex<P, $crate::SpinReadFirst, L>, [Signals],
                "The same, reading first: first patch of 2013.";
            MutexSpinLowLoad = "mutex-spin-low-load", "mutex",
                $crate::kernel::Mutex<P, $crate::SpinAtLowLoad, L>, [Signals],
                "The same, not at high load: third patch of 2013.";
            MutexSpinOne = "mutex-spin-one", "mutex", $crate::kernel::Mutex<P, $crate::SpinOne, L>,
                [Signals],
                "The same, one spinner at most: second patch of 2013.";
            MutexSpinMcs = "mutex-spin-mcs", "mutex", $crate::kernel::Mutex<P, $crate::SpinMcs, L>,
                [Signals],
                "The mutex of 3.10: spinners queue in an MCS lock.";
            MutexHandoff = "mutex-handoff", "mutex", $crate::kernel::HandoffMutex<P, L>, [Signals],
                "The mutex of 4.10: handed over after a futile wakeup.";
            FutexHandoff = "futex-handoff", "mutex", $crate::FutexHandoff<P>, [Timeouts],
                "Handed to a waiter at each release, by futex.";
            FlexGuard = "flexguard", "mutex", $crate::FlexGuard<P>, [Monitored],
                "Of 2025: spins unless a critical section is preempted.";
            Handoff = "handoff", "semaphore", $crate::kernel::Semaphore<P, $crate::Handoff, L>,
                [Bounded Units Fifo Signals Timeouts],
                "2.6.26-rc1: `up` gives the unit to the first waiter.";
            PublishedFix = "published-fix", "semaphore",
                $crate::kernel::Semaphore<P, $crate::PublishedFix, L>, [Units Signals Timeouts],
                "The patch of May 2008, with its lost wakeup.";
            Opportunistic = "opportunistic", "semaphore",
                $crate::kernel::Semaphore<P, $crate::Opportunistic, L>, [Units Signals Timeouts],
                "The same without it: any task may take the unit.";
            Quota = "quota", "semaphore", $crate::Quota<P, $crate::Within<P, L>>,
                [Bounded Units Signals Timeouts],
                "Ours: any task may take it, for the time of its turn.";
            QuotaExtended = "quota-extended", "semaphore",
                $crate::Extended<P, $crate::Quota<P, $crate::Within<P, L>>>,
                [Bounded Units Signals Timeouts Extended],
                "Ours; on 7.0 owners keep their CPU for 5 us more.";
            Arch = "arch", "semaphore", $crate::ArchSemaphore<P, L>, [Units Signals Timeouts],
                "2.6.25 on x86: a counter with a fast path.";
            Rwlock = "rwlock", "rwlock", $crate::kernel::RwLock<P>, [Shared],
                "The spinning one of 2.6.25: readers starve writers.";
            RwlockQueued = "rwlock-queued", "rwlock", $crate::QueuedRwLock<P>, [Shared],
                "The spinning one of 4.2, whose waiters queue.";
            QuotaRwlock = "quota-rwlock", "rwlock", $crate::QuotaRwLock<P, $crate::Within<P, L>>,
                [Bounded Shared Signals Timeouts],
                "Ours: readers and writers queue at one door.";
            Rwsem = "rwsem", "rwsem", $crate::RwSemaphore<P, L>, [Shared],
                "The sleeping one of 2.6.25: readers enter together.";
            RwsemSpin = "rwsem-spin", "rwsem", $crate::SpinRwSemaphore<P, L>, [Shared],
                "The sleeping one of 3.16: writers spin and steal.";
            RwsemSpinLate = "rwsem-spin-late", "rwsem",
                $crate::SpinRwSemaphore<P, L, $crate::Spin50>, [Shared],
                "5.0: its writers spin on when the owner changes.";
            RwsemHandoff = "rwsem-handoff", "rwsem", $crate::HandoffRwSemaphore<P, L>, [Shared],
                "5.11: readers steal; late waiters are handed it.";
            GlibcRwlock = "glibc-rwlock", "glibc", $crate::glibc::RwLock<P>, [Shared],
                "That of glibc: readers pass waiting writers.";
            GlibcRwlockWriters = "glibc-rwlock-writers", "glibc",
                $crate::glibc::RwLock<P, true>, [Shared],
                "The same, preferring writers that do not recurse.";
            GlibcSemaphore = "glibc-semaphore", "glibc", $crate::glibc::Semaphore<P>,
                [Units Signals Timeouts],
                "`sem_t` of glibc: any task may take a free unit.";
            GlibcSpinlock = "glibc-spinlock", "glibc", $crate::glibc::SpinLock<P>, [],
                "`pthread_spin_lock` of glibc: spins for good.";
        }
    };
}

/// A property that a lock promises beyond mutual exclusion, no lost wakeup and no deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Each other task passes a waiter at most once after a stated time.
    Bounded,
    /// Readers enter together.
    Shared,
    /// No task passes a waiter.
    Fifo,
    /// Signals end waits.
    Signals,
    /// Deadlines end waits.
    Timeouts,
    /// There may be several units.
    Units,
    /// It spins before it sleeps, with a configurable limit.
    SpinLimit,
    /// Its waiters spin only while no critical section is preempted, on machines with a scheduler
    /// that counts these: see [`Monitor`](crate::Monitor).
    Monitored,
    /// Its owner asks for a longer time slice, on machines with a scheduler that grants it: see
    /// [`Extended`](crate::Extended).
    Extended,
}

impl Promise {
    /// Returns a word for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bounded => "bounded",
            Self::Shared => "shared",
            Self::Fifo => "fifo",
            Self::Signals => "signals",
            Self::Timeouts => "timeouts",
            Self::Units => "units",
            Self::SpinLimit => "spin-limit",
            Self::Monitored => "monitored",
            Self::Extended => "extended",
        }
    }
}

macro_rules! names {
    ({} $($variant:ident = $name:literal, $family:literal, $lock:ty, [$($promise:ident)*],
        $about:literal;)+) => {
        /// A lock of the list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LockName {
            $(#[doc = $about] $variant,)+
        }

        impl LockName {
            /// Every lock, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Their names.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Returns the name on the command line, in experiment files and in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns the kind of lock, as on the command line.
            pub const fn family(self) -> &'static str {
                match self { $(Self::$variant => $family),+ }
            }

            /// Returns its description, one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about),+ }
            }

            /// Returns its promises.
            pub const fn promises(self) -> &'static [Promise] {
                match self { $(Self::$variant => &[$(Promise::$promise),*]),+ }
            }
        }
    };
}
every_lock! { names {} }

impl LockName {
    /// Returns the lock of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|lock| lock.name() == name)
    }

    /// Returns whether it makes this promise.
    pub fn promises_to(self, promise: Promise) -> bool {
        self.promises().contains(&promise)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Evaluates an expression with a type of the list: `with_lock!(name, Platform, Inner, Lock =>
/// expression)`, where `name` is a [`LockName`], `Inner` the lock inside of sleeping locks, and
/// `Lock` the name of the type in the expression.
#[macro_export]
macro_rules! with_lock {
    ({ $name:expr, $platform:ty, $inner:ty, $lock:ident, $body:expr } $($variant:ident =
        $text:literal, $family:literal, $type:ty, [$($promise:ident)*], $about:literal;)+) => {{
        type P = $platform;
        type L = $inner;
        match $name {
            $($crate::LockName::$variant => {
                type $lock = $type;
                $body
            })+
        }
    }};
    ($name:expr, $platform:ty, $inner:ty, $lock:ident => $body:expr) => {
        $crate::every_lock! { $crate::with_lock { $name, $platform, $inner, $lock, $body } }
    };
}

macro_rules! spinlocks {
    ($($lock:ty $({ $($more:tt)* })?),+) => {
        locks_by! { $([P: Platform] $lock, lock try_lock unlock {
            fn parts(tell: &mut TellPart<'_>) {
                <Self as RawLock<P>>::parts(tell);
            }
            $($($more)*)?
        })+ }
    };
}
spinlocks!(
    TasLock<P>,
    TicketLock<P>,
    QueuedLock<P>,
    ReciprocatingLock<P>,
    CnaLock<P>,
    FlexGuard<P>,
    AdaptiveLock < P,
    AtMost > {
        fn spin_limit(self, looks: u32) -> Self {
            Self::with_limit(AtMost(looks))
        }
        fn acquire_again(&self) {
            self.lock_again();
        }
    }
);

/// Implements [`Lock`] for mutexes that sleep: `[generics] type;`.
macro_rules! sleeping {
    ($([$($generics:tt)*] $lock:ty;)+) => {
        locks_by! { $([$($generics)*] $lock, lock try_lock unlock {
            fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
                match cancel {
                    Cancel::Signal => self.lock_interruptible(),
                    Cancel::Kill => self.lock_killable(),
                    Cancel::After(_) => {
                        self.lock();
                        Ok(())
                    }
                }
            }
        })+ }
    };
}
sleeping! {
    [P: Platform, S: SpinPolicy, L: RawLock<P> + Default] Mutex<P, S, L>;
    [P: Platform, L: RawLock<P> + Default, const SPINS: bool] HandoffMutex<P, L, SPINS>;
}

impl<S: RawSemaphore> Lock for S {
    fn with_units(units: u32) -> Self {
        Self::with_count(units)
    }
    #[inline]
    fn acquire(&self) {
        self.down();
    }
    fn try_acquire(&self) -> bool {
        self.down_trylock()
    }
    fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
        match cancel {
            Cancel::Signal => self.down_interruptible(),
            Cancel::Kill => self.down_killable(),
            Cancel::After(timeout) => self.down_timeout(timeout),
        }
    }
    #[inline]
    fn release(&self) {
        self.up();
    }
    fn waiters(&self) -> usize {
        RawSemaphore::waiters(self)
    }
    fn parts(tell: &mut TellPart<'_>) {
        <Self as RawSemaphore>::parts(tell);
    }
}

locks_by! {
    [P: Platform] RwLock<P>, write try_write write_unlock / read read_unlock {}
    [P: Platform, R: Room<P>] QuotaRwLock<P, R>,
        write try_write write_unlock / read read_unlock {
            fn acquire_unless(&self, cancel: Cancel) -> Result<(), WaitError> {
                match cancel {
                    Cancel::Signal => self.write_unless(Sleep::Interruptible, None),
                    Cancel::Kill => self.write_unless(Sleep::Killable, None),
                    Cancel::After(timeout) => {
                        let deadline = P::now().saturating_add(timeout);
                        self.write_unless(Sleep::Uninterruptible, Some(deadline))
                    }
                }
            }
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Native, Platform};

    /// In nanoseconds. Long enough to elapse only if the lock waits.
    const TIMEOUT: u64 = 3_000_000;

    /// Checks the properties of a lock that a single thread can observe.
    fn alone<T: Lock>(name: LockName) {
        let lock = T::unlocked();
        for free in [true, false] {
            assert_eq!(lock.try_acquire(), free, "{name}");
        }
        lock.release();
        lock.acquire_shared();
        lock.release_shared();
        assert_eq!(lock.acquire_unless(Cancel::Signal), Ok(()), "{name}");
        if name.promises_to(Promise::Timeouts) {
            let (deadline, limit) = (Native::now() + TIMEOUT, Cancel::After(TIMEOUT));
            assert_eq!(lock.acquire_unless(limit), Err(WaitError::TimedOut), "{name}");
            assert!(Native::now() >= deadline, "{name} does not wait");
        }
        lock.release();
        assert_eq!(lock.waiters(), 0, "{name}");
    }

    #[test]
    fn every_lock_is_taken_once_and_has_a_name_of_its_own() {
        for &name in LockName::ALL {
            assert_eq!(LockName::named(name.name()), Some(name));
            crate::with_lock!(name, Native, AdaptiveLock<Native>, T => alone::<T>(name));
        }
    }
}
