//! The diagnosis of a recorded program, as facts: which locks limit it, where threads wait, what
//! the owners do meanwhile, what it costs and what helps. Facts have types and units and no
//! sentences; `crates/report` writes those, and no code reads them.
//!
//! Data flow one way: [`Account`] sums the waits of a record, the rules (`rules`) turn locks and
//! processes into [`Finding`]s, and [`Diagnosis`] orders them and decides the [`Verdict`]. A record
//! is diagnosed once per command.

mod account;
mod cpus;
mod evidence;
mod finding;
mod gap;
mod interval;
mod owner;
mod problem;
mod quiet;
mod remark;
mod rules;
mod verdict;
mod workers;

pub use account::{Account, Irreplaceable, LockAccount, is_owned};
pub use cpus::CpusInUse;
pub use evidence::{hot_element, waited_share};
pub use finding::{Confidence, Cure, Finding, Kind, LITTLE, OwnerShares, Source, Waiters};
pub use gap::{Gap, JavaWaits};
pub use owner::{OwnerState, owner_parts};
pub use problem::{
    Call, Counter, Cycle, Herd, HogSign, Inversion, JavaActivity, JavaMonitor, Lost, Mover, Owner,
    Owners, Place, Problem, ProcessWaits, PythonModule, Subject, Waited, Wakers,
};
pub use quiet::{Activity, ConditionWaits, EndedBy, PipeWaits, Quiet, Spread};
pub use remark::{Handover, Remark};
pub use rules::kernel::{KernelSleep, kernel_sleeps};
pub use verdict::{Diagnosis, Verdict};
pub use workers::{BusyPool, Clients, FewWakers};
