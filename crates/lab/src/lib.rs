//! Experiments, their plan and their cells; measuring and comparing commands; searching for the
//! commit that changed a measured value. The runs themselves are in `convoy-runs`, which is part of
//! this crate's interface.

pub mod bisect;
pub mod compare;
pub mod experiment;
pub mod figures;
pub mod inputs;
pub mod job;
pub mod measure;
pub mod pool;
pub mod record;
pub mod sweep;

pub use convoy_runs::{
    bulk, idle_rules, lock_loop, native, replay, virtual_end, virtual_locks, virtual_run,
    virtual_work, zone_loop,
};
