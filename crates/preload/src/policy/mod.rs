//! Locks and condition variables that replace libc's.

pub(crate) mod chosen;
pub(crate) mod condvar;
pub(crate) mod fair;
pub(crate) mod handoff;
pub(crate) mod install;
pub(crate) mod mutex;
pub(crate) mod platform;
pub(crate) mod spin;
