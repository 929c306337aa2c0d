//! The virtual kernel on the virtual SMP: scheduler, processes, VFS, IPC, big kernel lock.

mod base;
mod bkl;
mod block;
mod boot;
mod config;
mod costs;

mod futex;
mod gate;
mod ipc;
pub mod irq;
mod lock_rules;
mod locks;
mod mappings;
mod mm;
mod older;
mod pages;
mod pipe;
mod preset;
mod process;
mod processes;
mod program;
mod rcu;
pub mod sched;
mod signal;
mod socket;
pub mod softirq;
mod syscalls;
mod tty;
mod vfs;
mod waiters;
mod world;
mod zone;

pub use base::{Base, Counts};
pub use bkl::BKL;
pub use convoy_mm::{Moments, Stats as PageStats};
pub use costs::{CostsError, costs_ns};
pub use gate::Gate;

pub use config::{Config, Preempt, SchedCosts};
pub use lock_rules::{
    BklKind, BklTraffic, FaultLock, FutexWake, LockRules, MutexPolicy, PidLock, Rwlock,
    RwsemPolicy, SemaphorePolicy, Spinlock,
};
pub use mappings::{ListLock, MappingRules};
pub use preset::KernelPreset;
pub use process::Process;
pub use rcu::{Placement, Rcu, RcuRules, RcuStats, ThreadPolicy};
pub use signal::rules::SignalRules;
pub use vfs::{
    BufferLocks, CommitLocks, Create, DcacheLocks, DiskRules, FileSystem, InodeLocks,
    JournalOptions, JournalStats, Listing, MountLocks, OpenFileLocks, PageLookup, Seek,
    SleepingLock, StateLocks, SyncLocks, TmpfsBlocks, VfsRules, volume_path,
};
pub use world::{Options, StandardInput, World, WorldError};
pub use zone::{Moves, StackSource, ZonePolicy, ZoneRules, ZoneStats};
