//! What is run and how: experiments, their plan and their jobs; commands under measurement, their
//! comparison, and the search for the commit that changed what they measure. The runs themselves
//! are those of `convoy-runs`, which is part of this crate's interface.

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
