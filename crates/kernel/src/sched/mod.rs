//! The scheduler. From the ground up: tasks (`task`) and their classes, the run queues and what
//! changes with them (`queue`), moving tasks between queues (`rt_move`, `wake`, `balance`),
//! and on top (`scheduler`) switching, sleeping, ticks and kernel threads. What differs between
//! kernels is named by `rules`.
//!
//! [`Sched`] switches tasks and puts the parts together: each part owns one kind of state and has
//! the functions that change it, such as [`RunQueues`], sleepers, kernel threads, software
//! interrupts, the stopped ticks and RCU. A part has the parts below it; the scheduler is its
//! parameter (`work`), so the dependencies between the files have one direction.
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
mod extension;
mod fair_server;
mod idlers;
mod idlest;
mod loadavg;
mod loads;
mod monitor;
mod newidle;
mod nohz;
mod normal;
mod o1;
mod policy;
pub(crate) mod queue;
pub(crate) mod record;
mod rt;
mod rt_limit;
mod rt_move;
mod rt_root;
pub(crate) mod rules;
pub(crate) mod scheduler;
mod shares;
mod sleepers;
mod stats;
pub(crate) mod task;
mod tick;
mod tracked;
mod wait;
mod wait_runtime;
mod wake;
pub mod work;

pub use balance::rules::{
    BalanceRules, GroupOrder, HotBuddies, HotClock, Idlest, Imbalance, Migration, Newidle, Push,
    Siblings, Spread, Stopped, StoppedTicks,
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
pub use scheduler::Sched;
pub use sleepers::Sleepers;
pub use stats::SchedStats;
pub use task::{State, Tcb};
pub use wake::{Affine, IdleTest, Placement, SyncWakeup, WakeRules};
