//! The locks of a recorded run: each lock is identified by its address, and its kind by its name.

use crate::stall::Stall;
use convoy_machine::Names;
use convoy_stats::LogHistogram;
use convoy_sync::TaskId;
use std::collections::BTreeMap;

/// Name of unnamed locks.
const UNNAMED: &str = "(unnamed)";
/// Number of entries of the cache in front of the map, a power of two.
const CACHE: usize = 1 << 14;
const NOWHERE: u32 = u32::MAX;

/// Counts of the locks of one name. Times are in picoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) instances: u64,
    pub(crate) acquisitions: u64,
    pub(crate) contended: u64,
    pub(crate) handoffs: u64,
    pub(crate) stolen: u64,
    pub(crate) woken: u64,
    pub(crate) given_up: u64,
    pub(crate) owner_changes: u64,
    pub(crate) transfers: u64,
    pub(crate) owned: u64,
    pub(crate) owner_off: u64,
    /// Time in convoys.
    pub(crate) convoy: u64,
    pub(crate) wanted: u64,
    pub(crate) spin: u64,
    pub(crate) wait_sum: u64,
    pub(crate) waiters_max: u32,
    /// Hold times in nanoseconds.
    pub(crate) hold: LogHistogram,
    pub(crate) wait: LogHistogram,
    pub(crate) handoff: LogHistogram,
}

impl Class {
    fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Discards the counts.
    pub(crate) fn reset(&mut self) {
        *self = Self { instances: self.instances, ..Self::new(core::mem::take(&mut self.name)) };
    }
}

/// State of the owner of a lock. If there are several owners, the state that delays others longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnerState {
    /// The lock has no owner.
    #[default]
    Free,
    Running,
    Queued,
    Asleep,
}

impl OwnerState {
    /// Every state, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Free, Self::Running, Self::Queued, Self::Asleep];
}

/// One lock.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    /// Time with its owner in each state, and the current state with its start.
    pub(crate) by_owner: [u64; 4],
    pub(crate) owner: OwnerState,
    pub(crate) owner_since: u64,
    pub(crate) class: u32,
    pub(crate) waiters: u32,
    /// Owners. `off` of them are on no CPU.
    pub(crate) holders: Vec<TaskId>,
    pub(crate) off: u32,
    pub(crate) last_owner: Option<TaskId>,
    /// Time of the last release with waiters.
    pub(crate) released: Option<u64>,
    pub(crate) wait_sum: u64,
    pub(crate) owned_since: u64,
    pub(crate) off_since: u64,
    pub(crate) wanted_since: u64,
    pub(crate) stall: Option<Box<Stall>>,
}

/// All locks.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) all: Vec<Lock>,
    pub(crate) classes: Vec<Class>,
    named: Names,
    by_address: BTreeMap<usize, u32>,
    by_name: BTreeMap<String, u32>,
    cache: Vec<(usize, u32)>,
}

impl Default for Locks {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            classes: Vec::new(),
            named: Names::default(),
            by_address: BTreeMap::new(),
            by_name: BTreeMap::new(),
            cache: vec![(0, NOWHERE); CACHE],
        }
    }
}

impl Locks {
    /// From now on, the `bytes` bytes from `address` are called `name`.
    pub(crate) fn name(&mut self, address: usize, bytes: usize, name: &'static str) {
        for freed in self.named.add(address, bytes, name) {
            let dead: Vec<usize> = self.by_address.range(freed).map(|(&at, _)| at).collect();
            for at in dead {
                self.by_address.remove(&at);
                self.cache[slot(at)] = (0, NOWHERE);
            }
        }
    }

    /// Returns the lock at `address`.
    pub(crate) fn at(&mut self, address: usize) -> u32 {
        let (cached, lock) = self.cache[slot(address)];
        if cached == address && lock != NOWHERE {
            return lock;
        }
        let lock = match self.by_address.get(&address) {
            Some(&lock) => lock,
            None => self.add(address),
        };
        self.cache[slot(address)] = (address, lock);
        lock
    }

    fn add(&mut self, address: usize) -> u32 {
        let name = self.name_of(address);
        let class = self.class(&name);
        self.classes[class as usize].instances += 1;
        let lock = self.all.len() as u32;
        self.all.push(Lock { class, ..Lock::default() });
        self.by_address.insert(address, lock);
        lock
    }

    /// Returns the name of the lock at `address`. A lock inside a sleeping lock guards its queue.
    fn name_of(&self, address: usize) -> String {
        match self.named.covering(address) {
            Some((start, name)) if start == address => name.to_owned(),
            Some((_, name)) => format!("{name}.wait_lock"),
            None => UNNAMED.to_owned(),
        }
    }

    fn class(&mut self, name: &str) -> u32 {
        if let Some(&class) = self.by_name.get(name) {
            return class;
        }
        let class = self.classes.len() as u32;
        self.classes.push(Class::new(name.to_owned()));
        self.by_name.insert(name.to_owned(), class);
        class
    }

    /// Returns the class of the object that covers `address`, if it was named.
    pub(crate) fn covering(&self, address: usize) -> Option<u32> {
        let (_, name) = self.named.covering(address)?;
        self.by_name.get(name).copied()
    }

    pub(crate) fn class_of(&mut self, lock: u32) -> &mut Class {
        &mut self.classes[self.all[lock as usize].class as usize]
    }
}

fn slot(address: usize) -> usize {
    // Locks are words of four bytes, most of them in a separate cache line.
    (address >> 2 ^ address >> 12) & (CACHE - 1)
}
