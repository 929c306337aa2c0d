//! The scheduler. From the ground up: tasks (`task`) and their classes, the run queues and what
//! changes with them (`queue`), moving tasks between queues (`rt_move`, `wake`, `balance`),
//! and on top (`scheduler`) switching, sleeping, ticks and kernel threads. What differs between
//! kernels is named by `rules`.
//!
//! [`Sched`] also contains the state of kernel threads, software interrupts, timers and RCU. The
//! `state` of each does not depend on the scheduler, and the type of its work is a parameter; so
//! the dependencies between the files have one direction.
//!
//! Order of a context switch: release the big kernel lock, lock the run queue, dequeue a task that
//! goes to sleep, try to pull when nothing is left, pick, switch, and take the big kernel lock
//! again. Run-queue locks are ticket spinlocks in simulated memory; everything else a queue holds
//! is plain data under that lock.

pub mod entity;
pub mod kthread;

mod average;
mod balance;
mod build;
mod busiest;
mod cfs;
mod core;
mod domains;
mod eevdf;
mod idlers;
mod idlest;
mod loadavg;
mod loads;
mod newidle;
mod nohz;
mod normal;
mod o1;
pub(crate) mod queue;
pub(crate) mod record;
mod rt;
mod rt_limit;
mod rt_move;
mod rt_root;
pub(crate) mod rules;
pub(crate) mod scheduler;
mod stats;
pub(crate) mod task;
mod tick;
mod wait;
mod wait_runtime;
mod wake;

pub use balance::rules::{
    BalanceRules, GroupOrder, HotBuddies, HotClock, Imbalance, Migration, Newidle, Push, Siblings,
    Spread, Stopped, StoppedTicks,
};
pub use cfs::{Buddy, CfsRules, MinVruntime, Order, VirtualTime};
pub use domains::{DomainRules, LevelRules, NodeLevels, Power};
pub use eevdf::{EevdfRules, Yield};
pub use idlers::{IDLE_CAUSES, IdleCause, IdleTimes};
pub use normal::Class;
pub use queue::RunQueues;
pub use rt::RtRules;
pub use rt_limit::RtLimit;
pub use rt_root::Sharing;
pub use rules::SchedRules;
pub use scheduler::{Handler, Sched, Work};
pub use stats::SchedStats;
pub use task::{State, Tcb};
pub use wake::{Affine, IdleTest, Placement, SyncWakeup, WakeRules};
