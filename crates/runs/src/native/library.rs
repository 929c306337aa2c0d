//! Locks that programs use from a library: Convoy's locks and their alternatives.

use std::time::Duration;

use super::pthread::{ADAPTIVE, NORMAL, Pthread};

use super::cell::{self, CellError, Plan};
use super::hogs::{self, HogResult, Shape};
use crate::lock_loop::{Guarded, LoopResult};

/// The list: variant, name, constructor, and how a critical section is run with it.
macro_rules! libraries {
    ($($lock:ident = $name:literal, $about:literal, $type:ty, $new:expr,
        |$self:ident, $section:ident| $with:expr;)+) => {
        /// A lock from a library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Library {
            $(#[doc = $about] $lock,)+
        }

        impl Library {
            /// All locks.
            pub const ALL: &[Self] = &[$(Self::$lock),+];

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$lock => $name,)+
                }
            }

            /// Returns one sentence about it.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$lock => $about,)+
                }
            }

            /// Runs hogs and victims with this lock.
            pub(super) fn hogs(self, shape: Shape, window: Duration) -> HogResult {
                match self {
                    $(Self::$lock => hogs::run::<$lock>(shape, window),)+
                }
            }

            /// Runs a cell with it.
            pub(super) fn run(self, plan: &Plan) -> Result<LoopResult, CellError> {
                match self {
                    $(Self::$lock => cell::run::<$lock>(plan),)+
                }
            }
        }

        $(struct $lock($type);

        impl Guarded for $lock {
            fn free(_: Option<u32>) -> Self {
                Self($new)
            }

            #[inline]
            fn with<R>(&$self, $section: impl FnOnce() -> R) -> R {
                $with
            }
        })+
    };
}

/// Runs a critical section while a guard is held.
macro_rules! guarded {
    ($guard:expr, $section:ident) => {{
        let _guard = $guard;
        $section()
    }};
}

libraries! {
    Convoy = "convoy", "The mutex of convoy-sync: 8 bytes, turns.",
        convoy_sync::Mutex<()>, convoy_sync::Mutex::new(()),
        |self, section| guarded!(self.0.lock(), section);
    ConvoySemaphore = "convoy-semaphore", "The semaphore of convoy-sync with one permit.",
        convoy_sync::Semaphore, convoy_sync::Semaphore::new(1),
        |self, section| guarded!(self.0.acquire(), section);
    Std = "std", "The mutex of the Rust standard library.",
        std::sync::Mutex<()>, std::sync::Mutex::new(()),
        |self, section| guarded!(self.0.lock(), section);
    ParkingLot = "parking-lot", "The mutex of parking-lot, which hands over now and then.",
        parking_lot::Mutex<()>, parking_lot::Mutex::new(()),
        |self, section| guarded!(self.0.lock(), section);
    Usync = "usync", "The mutex of usync.",
        usync::Mutex<()>, usync::Mutex::new(()),
        |self, section| guarded!(self.0.lock(), section);
    PthreadNormal = "pthread", "The normal mutex of the C library.",
        Pthread<NORMAL>, Pthread::new(),
        |self, section| self.0.with(section);
    PthreadAdaptive = "pthread-adaptive", "The mutex of the C library that spins before it sleeps.",
        Pthread<ADAPTIVE>, Pthread::new(),
        |self, section| self.0.with(section);
    AsyncLockSemaphore = "async-lock-semaphore", "The semaphore of async-lock with one permit.",
        async_lock::Semaphore, async_lock::Semaphore::new(1),
        |self, section| guarded!(self.0.acquire_blocking(), section);
    TokioSemaphore = "tokio-semaphore", "The semaphore of tokio with one permit.",
        tokio::sync::Semaphore, tokio::sync::Semaphore::const_new(1),
        |self, section| guarded!(pollster::block_on(self.0.acquire()), section);
}

impl Library {
    /// Returns the lock of this name; `None` if there is no such lock.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|lock| lock.name() == name)
    }

    /// Returns whether it belongs to this project.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Convoy | Self::ConvoySemaphore)
    }
}
