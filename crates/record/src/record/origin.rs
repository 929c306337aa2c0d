//! What a lock is part of, as the code that recorded it knows.

use serde::{Deserialize, Serialize};

/// What a lock is part of. It is set by the code that records the lock, from the list of locks, the
/// mapped file or the crate whose code waits; the name of the lock does not decide it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A lock of libc's interface, such as `pthread_mutex_t` or `sem_t`, of the program or of one
    /// of its libraries.
    #[default]
    Libc,
    /// A word on which the program calls futex(2) itself.
    Futex,
    /// A lock of the kernel.
    Kernel,
    /// A lock that protects data inside libc, such as the heap or the time zone.
    LibcInternal,
    /// The lock of a stdio stream of libc.
    LibcStream,
    /// A lock of a library that is not libc: `parking_lot`, Abseil, folly.
    Library,
    /// A lock of Rust's standard library.
    Rust,
    /// A lock or barrier of OpenMP's runtime.
    OpenMp,
    /// A lock of Go's standard library or runtime.
    Go,
    /// The lock of `CPython`'s interpreter, the GIL.
    PythonInterpreter,
    /// Another lock of `CPython`, such as one of `threading`.
    Python,
    /// A monitor of Java: `synchronized`.
    JavaMonitor,
    /// A lock of `java.util.concurrent`.
    JavaLock,
    /// A lock of the Java virtual machine itself.
    JavaVm,
    /// A wait of JavaScript's `Atomics.wait`.
    JavaScript,
    /// Not known: the lock is in a record of an earlier version. [`Record::parse`] replaces it.
    ///
    /// [`Record::parse`]: crate::Record::parse
    Unknown,
}

/// A runtime that lets its tasks wait without a thread, so that a record of threads does not
/// contain these waits. It is set by the code that records a process, from the files that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Goroutines of Go.
    Go,
    /// Goroutines whose waits for locks are recorded, but not those for channels.
    GoChannels,
    /// Tasks of the crate `tokio`.
    Tokio,
    /// Coroutines of Python's `asyncio`.
    Asyncio,
    /// Tasks of .NET, whose monitors wait like its idle threads, too.
    DotNet,
    /// Threads of Ruby, which wait for its interpreter lock, for a `Mutex` and for work in the same
    /// functions.
    Ruby,
}

impl Origin {
    /// Returns the origin of a lock in a record that does not contain one.
    pub(crate) fn unknown() -> Self {
        Self::Unknown
    }

    /// Returns whether the runtime of a language owns the lock, so that the program uses it only
    /// through that language.
    pub fn is_of_runtime(self) -> bool {
        match self {
            Self::Rust
            | Self::OpenMp
            | Self::Go
            | Self::PythonInterpreter
            | Self::Python
            | Self::JavaMonitor
            | Self::JavaLock
            | Self::JavaVm
            | Self::JavaScript => true,
            Self::Libc
            | Self::Futex
            | Self::Kernel
            | Self::LibcInternal
            | Self::LibcStream
            | Self::Library
            | Self::Unknown => false,
        }
    }

    /// Returns whether Java or its virtual machine owns the lock.
    pub fn is_of_java(self) -> bool {
        matches!(self, Self::JavaMonitor | Self::JavaLock | Self::JavaVm)
    }

    /// Returns whether the lock is inside libc.
    pub fn is_inside_libc(self) -> bool {
        matches!(self, Self::LibcInternal | Self::LibcStream)
    }
}
