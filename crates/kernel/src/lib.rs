//! The virtual kernel on the virtual SMP: scheduler, processes, VFS, IPC, big kernel lock.

pub mod api;
mod errno;

pub use api::Kernel;
pub use errno::Errno;
