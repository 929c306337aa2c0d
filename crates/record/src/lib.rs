//! Records how an unmodified program uses its locks: the object that records it, and the record.
//! `crates/diagnose` judges it.
//!
//! `crates/preload` runs inside the program and writes [`layout`]. [`raw`] reads that, adds names,
//! and produces a [`Record`], the only data that is kept. [`import`] produces one from the output
//! of other tools.

pub mod bpf;
pub mod import;
mod java;
pub mod launch;
mod names;
pub mod raw;
mod record;
mod sampling;

pub use convoy_layout as layout;
pub use java::dump::{Blocked, NOTIFICATION};
pub use java::vm_waits::{JvmWait, java_wait};
pub use java::{Java, JavaLink, JavaOwner, JavaWait, dumps};
pub use launch::{directory as place, page_budget as bound};
pub use names::python::is_python;
pub use names::wrappers::is_passing;
pub use names::{CONDITION_OF, LOCK_OF, call_sites as sites, runtimes};
pub use raw::runtime_locks::{JAVA, UNNAMED};
pub use record::busy_time::{busy_s, runnable, threads};
pub use record::causes::{Cause, Counted, Doing, Event, Inversion, PARKED, Pending, Seen};
pub use record::element::Element;
pub use record::hotspot::Hot;
pub use record::lock::{Kind, Lock, Site, Stack, Waiters};
pub use record::origin::{Origin, Scheduler};
pub use record::scheduling::{Held, Scheduling};
pub use record::thread::Thread;
pub use record::times::{Times, total};
pub use record::unrecorded::{Unloaded, Unrecorded, Why};
pub use record::{Addresses, HANDOFF, Process, Program, Record, VERSION, trace};
pub use sampling::cpu_time::Sampling;
pub use sampling::fileless::SystemLock;
pub use sampling::kernel_waits::{KernelObject, KernelWait};
pub use sampling::sampler::Looks;
pub use sampling::window::{Lately, Moments, Past, Window};
pub use sampling::{
    attached as attach, processes as outside, run_queue as ready, sampler as looks,
};

/// The object that is loaded before a program; empty if it was not built.
pub const OBJECT: &[u8] = include_bytes!(env!("CONVOY_OBJECT"));

/// Environment variable with the directory in which each process creates a file.
pub const DIRECTORY: &str = "CONVOY_RECORD_DIR";
/// Environment variable that makes the object record only contended acquisitions.
pub const CONTENDED: &str = "CONVOY_RECORD_CONTENDED";

/// Reasons why a program cannot be recorded, or a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file or directory cannot be read.
    #[error("cannot read {path}: {source}; name a file that convoy record wrote")]
    Read {
        /// The file or directory.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The object that is loaded before the program cannot be stored.
    #[error("cannot write {path}: {source}; set XDG_CACHE_HOME to a directory of yours")]
    Write {
        /// The file or directory.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The files of the processes cannot be stored.
    #[error("cannot record in {path}: {source}; name a directory with room: --buffer DIR")]
    Place {
        /// The directory that was tried last.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Convoy was built for another architecture.
    #[error("programs can be recorded on x86-64 under Linux only; use perf lock here")]
    Machine,
    /// The file does not contain a record.
    #[error("{path}: {reason}; name a file that convoy record wrote")]
    NoRecord {
        /// The file.
        path: std::path::PathBuf,
        /// The problem, with its line.
        reason: String,
    },
    /// The record has another version.
    #[error("the record has version {found}, this convoy reads {VERSION}; use a newer one")]
    Version {
        /// Version of the record.
        found: u64,
    },
}
