//! Experiments, their plan and their cells, and the pool and the sweeps that run them. The runs
//! themselves are in `convoy-runs`, which is part of this crate's interface.

pub mod comparable;
pub mod experiment;
pub mod figures;
pub mod inputs;
pub mod job;
pub mod pool;
pub mod record;
pub mod sweep;

pub use convoy_runs::{
    bulk, idle_rules, live, lock_loop, native, replay, virtual_end, virtual_locks, virtual_run,
    virtual_work, zone_loop,
};
