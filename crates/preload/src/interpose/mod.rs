//! Functions of libc that this object defines, with the recording around each call.

pub(crate) mod barrier;
pub(crate) mod condvar;
pub(crate) mod deadlines;
pub(crate) mod exec;
pub(crate) mod exports;
pub(crate) mod futex;
pub(crate) mod libc;
pub(crate) mod locked_memory;
pub(crate) mod locks;
pub(crate) mod robust;
pub(crate) mod sandbox;
pub(crate) mod single_thread;
