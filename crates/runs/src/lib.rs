//! Runs one experiment at a time: a load point or a workload on the virtual kernel, a lock loop on
//! either kind of machine, the loop of the zone lock, the replay of a record.
//!
//! All of it is hot, and most of it is generic over the lock, so this crate is optimised as one
//! unit. Code that plans and evaluates runs is in `convoy-lab`.

mod board;
mod bound_locks;
pub mod bulk;
pub mod idle_rules;
pub mod live;
pub mod lock_loop;
pub mod native;
pub mod replay;
mod snapshot;
mod spread;
pub mod steady;
pub mod virtual_end;
pub mod virtual_locks;
pub mod virtual_run;
pub mod virtual_work;
pub mod zone_loop;
