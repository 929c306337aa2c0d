//! The account of a run that a virtual machine recorded.
//!
//! [`Analysis`] receives the records of a machine and keeps the account of a run in one pass and in
//! bounded memory.

mod analysis;
mod chain;
mod cpu;
mod detail;
mod detail_lanes;
mod firefox;
mod flame;
mod label;
mod lanes;
mod lanes_trace;
mod locks;
mod owners;
mod perfetto;
mod pprof;
mod proto;
mod stall;
mod summary;
mod task;
mod timeline;

pub use analysis::{Analysis, Idle};
pub use cpu::{State, Times};
pub use detail::{Detail, Window};
pub use firefox::Named;
pub use flame::folded;
pub use label::Label;
pub use lanes::{Act, Handover, Lane, Lanes, LongWait, Span, Tag};
pub use pprof::pprof;
pub use proto::Trace;
pub use summary::{
    Cause, ChainSummary, Convoy, HopSummary, LockSummary, Share, Spread, StallSummary, Summary,
};
pub use timeline::OverTime;
