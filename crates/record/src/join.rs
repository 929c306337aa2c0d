//! Adding up locks that have one name.

use crate::record::{Lock, Site, Waiters, total};

impl Lock {
    /// Adds another one of the same name.
    pub(crate) fn join(&mut self, other: Self) {
        self.instances = total([self.instances, other.instances]);
        self.waiters.add(&other.waiters);
        self.given_by_owner = total([self.given_by_owner, other.given_by_owner]);
        self.given_by_others = total([self.given_by_others, other.given_by_others]);
        self.owners_known_s += other.owners_known_s;
        self.owners_off_s += other.owners_off_s;
        if let Some(held) = &other.held {
            self.held.get_or_insert_default().add(held);
        }
        for site in other.sites {
            let same = |one: &&mut Site| one.place == site.place && one.act == site.act;
            match self.sites.iter_mut().find(same) {
                Some(known) => known.add(&site),
                None => self.sites.push(site),
            }
        }
    }
}

impl Waiters {
    pub(crate) fn add(&mut self, other: &Self) {
        if other.longest_s > self.longest_s {
            (self.longest_s, self.longest_at_s) = (other.longest_s, other.longest_at_s);
        }
        self.seconds += other.seconds;
        self.most = self.most.max(other.most);
    }
}

/// Locks and their sites, those that were waited for longest first.
pub(crate) fn sorted(mut locks: Vec<Lock>) -> Vec<Lock> {
    for lock in &mut locks {
        lock.sites
            .sort_by(|a, b| b.wait.total_s.total_cmp(&a.wait.total_s).then(b.count.cmp(&a.count)));
    }
    locks.sort_by(|a, b| b.wait_s().total_cmp(&a.wait_s()).then(b.count().cmp(&a.count())));
    locks
}
