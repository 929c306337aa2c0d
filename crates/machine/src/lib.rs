//! The virtual SMP: coroutines, clock, CPUs, cache lines.
//!
//! [`Machine`] is built from a [`Preset`], gets an operating system ([`Os`]) and runs tasks. Code
//! on it uses [`Here`] (time, interrupts, task switches) and locks over the platform [`Smp`].

mod caches;
mod disk;
mod engine;
mod entry;
mod fifo;
mod hierarchy;
mod line;
mod machine;
mod memory;
mod names;
mod numa;
mod os;
mod preset;
mod reach;
mod row;
mod rules;
mod serve;
mod smp;
mod target;
mod trace;
mod tree;
mod turns;
mod user;
mod watch;
mod word;

pub use engine::{CpuTimes, Mode, Outcome, Slice};
pub use fifo::Fifo;
pub use line::mix;
pub use machine::{Here, Machine};
pub use memory::{LINE, Sim};
pub use names::Names;
pub use os::{Context, Interrupt, Os};
pub use preset::{
    CPUS_MAX, Caches, ColdSwitch, DiskTime, Geometry, Guest, MemoryControllers, Numa, Preset,
    Prices, PrivateLevel, SchedSteps, SharedLevel, Topology, UserPrices, ps,
};
pub use smp::Smp;
pub use target::{Target, nearest};
pub use trace::{Event, Leave, Record, Recorder};

pub use user::User;
pub use watch::Watch;
pub use word::Word;
