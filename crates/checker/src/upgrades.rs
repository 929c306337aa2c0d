//! Scenarios of operations that only some locks have.

use crate::model::{End, Failure, Instance, Model, Plain, Property, Scenario};
use crate::subject::{Case, Subject, lock};
use crate::visits::{Irq, WRITERS, visits};
use convoy_sync::{QuotaRwLock, TasLock};

/// Scenarios of a spinlock that waits with interrupts enabled.
pub(crate) fn with_interrupts(subject: &Subject) -> Vec<Case> {
    let Subject { name, family, promises, .. } = *subject;
    let irq =
        visits::<Irq<Model, TasLock<Model>>>(format!("{name}/irqsave"), family, WRITERS, promises);
    let mut cases = lock::<TasLock<Model>>(subject);
    cases.push(Case::new("irqsave", "three tasks with interrupts disabled", irq));
    cases
}

/// Scenarios of the lock with upgradable readers.
pub(crate) fn with_upgrades(subject: &Subject) -> Vec<Case> {
    let name = subject.name;
    let waits = upgrade(format!("{name}/upgrade"), Guarded::waits);
    let tries = upgrade(format!("{name}/try-upgrade"), Guarded::tries);
    let mut cases = lock::<QuotaRwLock<Model>>(subject);
    cases.push(Case::new("upgrade", "an upgradable reader, a reader and a writer", waits));
    cases.push(Case::new("try-upgrade", "attempts to upgrade, a reader and a writer", tries));
    cases
}

/// The lock and its data.
#[derive(Default)]
struct Guarded {
    lock: QuotaRwLock<Model>,
    data: Plain<u32>,
}

impl Guarded {
    /// The owner that writes is alone, and the data of an upgradable reader stays until it writes.
    fn waits(&self, task: usize) {
        let Self { lock, data } = self;
        match task {
            0 => {
                lock.upgradable();
                let seen = data.get();
                lock.upgrade();
                assert_eq!(data.get(), seen, "it was changed between");
                data.set(seen + 1);
                lock.downgrade_to_upgradable();
                lock.upgradable_to_read();
                assert_eq!(data.get(), seen + 1, "a writer came between");
                lock.read_unlock();
            }
            1 => {
                lock.read();
                data.get();
                lock.read_unlock();
            }
            _ => {
                lock.write();
                let written = data.get() + 1;
                data.set(written);
                lock.downgrade();
                assert_eq!(data.get(), written, "a writer came between");
                lock.read_unlock();
            }
        }
    }

    fn tries(&self, task: usize) {
        let Self { lock, data } = self;
        match task {
            0 if lock.try_upgradable() => {
                data.get();
                if lock.try_upgrade() {
                    data.set(1);
                    lock.write_unlock();
                } else {
                    lock.upgradable_unlock();
                }
            }
            1 if lock.try_read() => {
                data.get();
                lock.read_unlock();
            }
            2 if lock.try_write() => {
                data.set(2);
                lock.write_unlock();
            }
            _ => {}
        }
    }
}

fn upgrade(name: String, body: fn(&Guarded, usize)) -> Scenario {
    let checks = [Property::Exclusion, Property::Visibility, Property::NoLostWakeup];
    Scenario::new(name, checks, move || {
        Instance::of(
            (Guarded::default(), body),
            3,
            |(guarded, body), task| {
                Model::name(
                    &guarded.lock,
                    "rwlock",
                    <QuotaRwLock<Model> as convoy_sync::Lock>::parts,
                );
                body(guarded, task);
            },
            |(guarded, _), end| is_free(guarded, end),
        )
    })
}

fn is_free(guarded: &Guarded, end: &End) -> Result<(), Failure> {
    if end.asleep.is_empty() && end.spinning.is_empty() && guarded.lock.try_write() {
        return Ok(());
    }
    Err((Property::NoLostWakeup, format!("{:?} sleep, or the lock is not free", end.asleep)))
}
