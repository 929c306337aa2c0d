//! What Linux says about this machine and its processes, and the system calls without a safe
//! wrapper that measuring needs. It knows nothing about loads, locks or records.

pub mod bpf;
pub mod clock;
pub mod cpus;
mod disturbance;
mod filter;
pub mod groups;
pub mod process;
mod relay;
pub mod samples;
mod signals;
mod start;
mod surroundings;
mod usage;

pub use disturbance::Disturbance;
pub use filter::filters;
pub use relay::{Arrived, Relay};
pub use signals::{Interrupts, interrupt, interrupted, pass_interrupts_to};
pub use start::as_started;
pub use surroundings::Surroundings;
pub use usage::{ChildUsage, wait_with_usage};
