//! Records how an unmodified program uses its locks: the object that records it, the record, and
//! the account of the record.
//!
//! `crates/preload` runs inside the program and writes [`layout`]. [`raw`] reads that, adds names,
//! and produces a [`Record`], the only data that is kept. [`import`] produces one from the output
//! of other tools.

pub mod account;
pub mod attach;
pub mod bound;
pub mod bpf;
mod causes;
mod cxx;
mod dump;
pub mod dumps;
mod edges;
mod elf;
mod elsewhere;
mod ended;
mod found;
mod futex;
mod futexes;
pub mod headroom;
mod holders;
mod holding;
mod hot;
mod hotspot;
mod identity;
pub mod import;
mod java;
mod join;
mod jvm;
mod keys;
pub mod launch;
mod lock;
mod look;
pub mod looks;
mod names;
mod neighbours;
pub mod outside;
mod parked;
mod parse;
mod perfdata;
mod phases;
pub mod place;
mod python;
pub mod raw;
pub mod ready;
mod record;
mod refusal;
pub mod runtimes;
mod scheduling;
mod seen;
mod shares;
pub mod sites;
mod stacks;
mod states;
mod steps;
mod symbols;
mod syscalls;
mod text;
mod times;
pub mod trace;
mod unrecorded;
mod waits;
mod weight;
mod wrappers;

pub use account::Account;
pub use causes::{Cause, Counted, Doing, Event, PARKED, Pending, Seen};
pub use convoy_layout as layout;
pub use dump::Blocked;
pub use hot::Sampling;
pub use hotspot::Hot;
pub use java::{Java, JavaLink, JavaOwner, JavaWait};
pub use lock::{Kind, Lock, Site, Waiters};
pub use looks::Looks;
pub use names::{CONDITION_OF, LOCK_OF};
pub use parked::{JAVA, UNNAMED};
pub use python::is_python;
pub use record::{Addresses, HANDOFF, Process, Program, Record, VERSION};
pub use refusal::ONLY_SAMPLES;
pub use scheduling::{Held, Scheduling};
pub use times::{Times, total};
pub use unrecorded::{Unloaded, Unrecorded, Why};
pub use weight::{busy_s, runnable, threads};
pub use wrappers::is_passing;

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
