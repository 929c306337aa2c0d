//! The cache of names: which locks references to names, lists of names and a name's inode take.

use super::dentry::{Dentry, Inode};
use super::locks::VfsLocks;
use super::rules::DcacheLocks;
use crate::locks::Spin;
use convoy_machine::Smp;
use convoy_sync::{Access, Platform, RawLock};

/// Tries to change a lockref before its lock is taken.
const LOCKREF_TRIES: usize = 100;

/// Changes the count next to its unlocked lock by `try_once`, which returns `None` if another CPU
/// was faster. Returns `None` if this fails, or if the lock is held.
fn unlocked<R>(lock: &Spin, try_once: impl Fn() -> Option<R>) -> Option<R> {
    let step = |_| if lock.is_locked() { Some(None) } else { try_once().map(Some) };
    (0..LOCKREF_TRIES).find_map(step).flatten()
}

impl Inode {
    /// Runs `body` under `i_lock`, where the kernel has it.
    pub(super) fn i_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        match &self.lock {
            Some(lock) => lock.hold(body),
            None => body(),
        }
    }
}

impl Dentry {
    /// Charges the reads of a name that a lookup compares.
    pub(super) fn look(&self) {
        match &self.lookup {
            Some(apart) => apart.read(),
            None => self.hot.name.read(),
        };
    }

    /// Runs `body` under `d_lock`, with a new sequence count for walks.
    pub(super) fn d_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        self.hot.lock.hold(|| {
            if let Some(apart) = &self.lookup {
                apart.update(|sequence| sequence.wrapping_add(1));
            }
            body()
        })
    }
}

impl VfsLocks {
    /// Whether walks only read, under RCU.
    pub(super) fn rcu_walk(&self) -> bool {
        self.rules.dcache.rcu_walk()
    }

    /// Takes another reference to a referenced name.
    pub(super) fn dget(&self, dentry: &Dentry) {
        if self.rcu_walk() {
            self.dget_found(dentry);
        } else {
            dentry.hot.count.get();
        }
    }

    /// Takes a reference to a name that was just found.
    pub(super) fn dget_found(&self, dentry: &Dentry) {
        let (lock, count) = (&dentry.hot.lock, &dentry.hot.count);
        let counted = self.rules.dcache == DcacheLocks::Lockref
            && unlocked(lock, || count.try_get().then_some(())).is_some();
        if !counted {
            lock.hold(|| count.get());
        }
    }

    /// Drops a reference to a name; returns whether it was the last.
    pub(super) fn dput(&self, dentry: &Dentry) -> bool {
        let (lock, count) = (&dentry.hot.lock, &dentry.hot.count);
        match self.rules.dcache {
            DcacheLocks::Lockref => {
                unlocked(lock, || count.try_put()).unwrap_or_else(|| lock.hold(|| count.put()))
            }
            DcacheLocks::RcuWalk => lock.hold(|| count.put()),
            DcacheLocks::DcacheLock => {
                !count.put_unless_last()
                    && self.hot.names.hold(|| {
                        let last = count.put();
                        lock.hold(|| ());
                        last
                    })
            }
        }
    }

    /// `dentry_kill`: takes a name that is gone off its directory's list.
    pub(super) fn unlist_name(&self, dentry: &Dentry) {
        if !self.rcu_walk() {
            // Done, under `dcache_lock`.
            return;
        }
        dentry.inode.i_lock(|| {
            if let Some(directory) = dentry.parent.borrow().upgrade() {
                directory.hot.lock.hold(|| dentry.hot.lock.hold(|| directory.hot.name.write(0)));
            }
        });
    }

    /// Runs `body`, which reads or changes the list of the names in `directory`.
    pub(crate) fn names_of<R>(&self, directory: &Dentry, body: impl FnOnce() -> R) -> R {
        if self.rcu_walk() { directory.hot.lock.hold(body) } else { self.hot.names.hold(body) }
    }

    /// How often a new name is put on a list that is locked: `d_alloc` and the two parts of
    /// `d_add`, of which later only the first one meets others.
    pub(super) fn listings_of_a_name(&self) -> usize {
        if self.rcu_walk() { 1 } else { 3 }
    }

    /// Returns the lock of a name without a directory, which is otherwise uncontended.
    pub(crate) fn anonymous_name(&self) {
        if !self.rcu_walk() {
            self.hot.names.hold(|| ());
        }
    }

    /// Runs `body`, which ties `dentry` to its inode.
    pub(super) fn tie<R>(&self, dentry: &Dentry, body: impl FnOnce() -> R) -> R {
        if self.rcu_walk() {
            dentry.inode.i_lock(|| dentry.d_lock(body))
        } else {
            self.hot.names.hold(body)
        }
    }

    /// Runs `body`, which unties `dentry` from its inode, after it was hidden from look-ups.
    pub(super) fn untie<R>(&self, dentry: &Dentry, body: impl FnOnce() -> R) -> R {
        let hide = || dentry.hot.name.write(0);
        if self.rcu_walk() {
            dentry.inode.i_lock(|| {
                dentry.d_lock(|| {
                    hide();
                    body()
                })
            })
        } else {
            self.hot.names.hold(|| {
                dentry.hot.lock.hold(hide);
                body()
            })
        }
    }

    /// Runs `body`, which follows the parents of `dentry`.
    pub(super) fn path_of<R>(&self, dentry: &Dentry, body: impl FnOnce() -> R) -> R {
        let names = &self.hot.names;
        match self.rules.dcache {
            DcacheLocks::DcacheLock => names.hold(|| self.mounts(body)),
            DcacheLocks::RcuWalk => names.hold(|| self.mounts(|| dentry.hot.lock.hold(body))),
            DcacheLocks::Lockref => {
                Smp::touch(&names.0, Access::Read);
                body()
            }
        }
    }

    /// Passes an entry of the open directory `dentry`; disk file systems of later kernels keep
    /// entries elsewhere than in the cache of names.
    pub(super) fn pass_entry(&self, dentry: &Dentry) {
        if !self.rcu_walk() || dentry.inode.sb.memory {
            self.names_of(dentry, || ());
        }
    }
}
