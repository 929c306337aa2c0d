//! Data of threads: counts by key, distributions of times, and traces.

pub(crate) mod attach;
pub(crate) mod detail;
pub(crate) mod details;
pub(crate) mod keys;
pub(crate) mod lines;
pub(crate) mod local;
pub(crate) mod thread;
pub(crate) mod trace;
