//! Samples of running programs: the state of each thread, the owners of locks, and the functions
//! that use CPU time.

pub mod attached;
pub(crate) mod cache_lines;
pub(crate) mod counts;
pub(crate) mod cpu_time;
pub(crate) mod fileless;
pub(crate) mod futex_waits;
pub(crate) mod holds;
pub(crate) mod kernel_waits;
pub(crate) mod named_waits;
pub(crate) mod observations;
pub(crate) mod owners;
pub mod processes;
pub mod run_queue;
pub mod sampler;
pub(crate) mod spin_loops;
pub(crate) mod syscall_file;
pub(crate) mod thread_state;
pub(crate) mod window;
