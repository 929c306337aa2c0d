//! The virtual kernel on the virtual SMP: scheduler, processes, VFS, IPC, big kernel lock.

pub mod api;
mod bkl;
mod errno;
mod preset;
pub mod sched;

pub use api::Kernel;
pub use errno::Errno;
pub use preset::{
    Ablation, BklKind, BklTraffic, Config, KernelPreset, KernelPresetError, Paths, Preempt,
    SchedCosts, Scheduler, SemaphorePolicy,
};
