//! The first page of the file: the process, the state of its recording, its command line, and the
//! programs that it started without the object.

use crate::memory::{Access, Plain, parts};

/// The first page.
#[repr(C)]
pub struct Header<A: Access = Plain> {
    /// [`MAGIC`](crate::MAGIC).
    pub magic: A::Word,
    /// [`VERSION`](crate::VERSION).
    pub version: A::Word,
    /// Process ID.
    pub pid: A::Word,
    /// Process ID of its parent.
    pub parent: A::Word,
    /// Ticks when recording began.
    pub ticks_begin: A::Word,
    /// The monotonic clock then, nanoseconds.
    pub ns_begin: A::Word,
    /// Ticks when the clock was last read.
    pub ticks_last: A::Word,
    /// The monotonic clock then, nanoseconds.
    pub ns_last: A::Word,
    /// Slots in use.
    pub slots: A::Word,
    /// Details in use; the first one is never used.
    pub details: A::Word,
    /// Bytes of the memory map.
    pub map_bytes: A::Word,
    /// Threads that were not recorded because the limit of live threads was reached.
    pub threads_lost: A::Word,
    /// Threads that got a slot.
    pub threads: A::Word,
    /// 1 once the process ended by `exit`.
    pub ended: A::Word,
    /// 1 if context switches of a thread can be detected (`rseq`).
    pub sees_switches: A::Word,
    /// CPU time of the process when the clock was last read, nanoseconds.
    pub cpu_ns: A::Word,
    /// 1 while a thread reads the memory map.
    pub map_busy: A::Word,
    /// Slot at which the search for the slot of an exited thread continues.
    pub cursor: A::Word,
    unused_threads: A::Word,
    /// Mutexes with an individual policy.
    pub chosen: A::Word,
    /// Traces in use.
    pub traces: A::Word,
    /// Number of windows so far. During a window, threads record each of their steps.
    pub window: A::Word,
    /// When the next window opens, ticks.
    pub window_next: A::Word,
    /// Traces of the window.
    pub window_traces: A::Word,
    /// Ticks between two consecutive readings of the counter: every measured time is too long by
    /// this.
    pub stamp: A::Word,
    /// Address of the file in the memory of the process.
    pub base: A::Word,
    /// Waits that were candidates for the sample of waits.
    pub events: A::Word,
    /// Edges that were dropped because the table was full.
    pub edges_lost: A::Word,
    /// Programs that ran without the object and whose names did not fit.
    pub programs_more: A::Word,
    unused: [A::Word; 11],
    /// Number of times that room was needed and none was left.
    pub short: A::Word,
    /// Number of [`Header::threads_lost`] that were lost for lack of room.
    pub threads_unroomed: A::Word,
    /// Acquisitions of threads that were not recorded.
    pub unrecorded: A::Word,
    /// Children that were not recorded: no room, directory out of reach, a limit.
    pub children_lost: [A::Word; 3],
    /// 1 once the process has limited its system calls: from then on, it gets no more room.
    pub sandboxed: A::Word,
    /// Forked processes that acquired a few free locks before they got a file or ended, and these
    /// acquisitions.
    pub brief: [A::Word; 2],
    unused_rest: [A::Word; 15],
    /// Command line of the process, its words ended by zeros.
    pub command: [A::Word; 320],
    /// Programs that ran without the object, open addressing by [`Program::mark`]. Further ones are
    /// only counted.
    pub programs: [Program<A>; 16],
}

/// A program that the process started and that ran without the object.
#[repr(C)]
pub struct Program<A: Access = Plain> {
    /// A hash of the name and the reason; 0: free.
    pub mark: A::Word,
    /// One of the reasons below.
    pub why: A::Word,
    /// Number of starts.
    pub count: A::Word,
    /// The end of its name.
    pub name: [A::Word; 5],
}

parts! { Header Program }

// Reasons why a program ran without the object.
/// It is statically linked.
pub const STATIC: u64 = 1;
/// It is a program for another architecture.
pub const FOREIGN: u64 = 2;
/// It is linked to musl.
pub const MUSL: u64 = 3;
/// It is built with a sanitizer.
pub const SANITIZED: u64 = 4;
/// It has more privileges than the user that starts it.
pub const RIGHTS: u64 = 5;
/// Its file cannot be read.
pub const NO_FILE: u64 = 6;
/// The object cannot be opened by the process that starts it.
pub const NO_OBJECT: u64 = 7;
/// Its environment lacked the recorder's variables and was too long to add them.
pub const NO_ROOM: u64 = 8;
/// It was started within libc, with an environment that lacked them.
pub const BY_LIBC: u64 = 9;
