//! The rule on locks of the kernel.

use convoy_record::{Kind as Primitive, Process};

use super::plain::Plain;
use crate::account::LockAccount;
use crate::finding::{Finding, Source};
use crate::problem::{Problem, Subject};

/// Minimum number of waits.
const FEW: u64 = 20;
/// Minimum part of the time spent waiting for a spinlock. These waits include interrupts and the
/// time that a hypervisor takes from the owner. Servers with another bottleneck had 2 %.
const SPINS: f64 = 0.05;

/// Returns whether the kernel is there to switch threads after an interrupt or a sleep, rather than
/// in a system call.
fn is_of_scheduler(place: &str) -> bool {
    let function = place.split([' ', ',']).next().unwrap_or(place).trim_start_matches('_');
    ["exit_to_user_mode", "schedule", "irqentry_exit", "preempt_schedule"]
        .iter()
        .any(|begin| function.starts_with(begin))
}

/// Returns the finding of waits for a lock of the kernel, if they are relevant. `process` is the
/// one that ran longest.
pub(crate) fn of_lock(account: &LockAccount, process: &Process, busy_s: f64) -> Option<Finding> {
    let lock = &account.lock;
    let (wait_s, site) = (account.waited_s, lock.sites.first()?);
    if lock.count() < FEW || wait_s <= 0.0 || busy_s <= 0.0 {
        return None;
    }
    let share = (wait_s / busy_s).min(1.0);
    if lock.kernel == "spinlock" && share < SPINS {
        return None;
    }
    let plain = Plain {
        pid: process.pid,
        lock: &lock.name,
        share: Some(share),
        cost_s: wait_s,
        source: Source::Counted,
        observations: lock.count(),
    };
    let finding = plain.finding(Problem::KernelLock {
        primitive: lock.kernel.clone(),
        place: site.place.clone(),
        owners: account.owners(),
        is_of_scheduler: is_of_scheduler(&site.place),
    });
    Some(finding.about(
        Subject::Unnamed { primitive: Primitive::Mutex, instances: lock.instances },
        lock.origin,
    ))
}
