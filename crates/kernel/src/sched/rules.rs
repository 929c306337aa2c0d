//! The rules of the scheduler that a kernel preset names, by table. Each is defined next to the
//! code that implements it.

use super::balance::rules::{BalanceRules, Imbalance};
use super::cfs::CfsRules;
use super::domains::DomainRules;
use super::eevdf::EevdfRules;
use super::normal::Class;
use super::rt::RtRules;
use super::wake::WakeRules;
use convoy_catalogue::Fault;
use schemars::JsonSchema;
use serde::Deserialize;

/// Rules of the scheduler, `[sched]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedRules {
    /// How the ordinary tasks of one CPU share it.
    pub class: Class,
    /// Rules of the class `cfs`, which must be there when it is chosen and are not read otherwise.
    #[serde(default)]
    pub cfs: Option<CfsRules>,
    /// Rules of the class `eevdf`, which must be there when it is chosen and are not read
    /// otherwise.
    #[serde(default)]
    pub eevdf: Option<EevdfRules>,
    /// Wakeups.
    pub wake: WakeRules,
    /// Load balancing.
    pub balance: BalanceRules,
    /// Numbers of the balancing domains.
    pub domains: DomainRules,
    /// Real-time tasks.
    pub rt: RtRules,
}

impl SchedRules {
    /// The chosen class has its table.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let missing = match self.class {
            Class::Cfs if self.cfs.is_none() => "[sched.cfs]",
            Class::Eevdf if self.eevdf.is_none() => "[sched.eevdf]",
            class if class != Class::Eevdf && self.balance.imbalance == Imbalance::Tracked => {
                let problem = "needs `sched.class = \"eevdf\"`: no other class tracks loads";
                return Err(Fault::new("sched.balance.imbalance", problem));
            }
            _ => return Ok(()),
        };
        Err(Fault::new("sched.class", format!("this class needs the table {missing}")))
    }
}
