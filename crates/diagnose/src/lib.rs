//! The diagnosis of a recorded program, as facts: which locks limit it, where threads wait, what
//! the owners do meanwhile, what it costs and what helps. Facts have types and units and no
//! sentences; `crates/report` writes those, and no code reads them.
//!
//! Data flow one way: [`Account`] sums the waits of a record, the rules (`rules`) turn locks and
//! processes into [`Finding`]s, and [`Diagnosis`] orders them and decides the [`Verdict`]. A record
//! is diagnosed once per command.

mod account;
mod evidence;
mod finding;
mod gap;
mod owner;
mod quiet;
mod remark;
mod rules;
mod verdict;

pub use account::{Account, Irreplaceable, LockAccount, is_owned};
pub use finding::{
    Call, Confidence, Counter, Cure, Cycle, Finding, Handover, Herd, HogSign, JavaActivity,
    JavaMonitor, Kind, LITTLE, Lost, Mover, Owner, OwnerShares, Owners, Place, Problem,
    ProcessWaits, PythonModule, Source, Subject, Waited, Waiters, Wakers,
};
pub use gap::Gap;
pub use owner::{OwnerState, off_state, owner_parts};
pub use quiet::{Activity, ConditionWaits, JavaWaits, Quiet, Spread};
pub use remark::Remark;
pub use verdict::{Diagnosis, Verdict};
