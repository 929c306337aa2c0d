//! Locks that a prediction can substitute for the recorded ones.

use convoy_runs::lock_loop::Policy;

/// The policy of glibc's mutex and semaphore.
pub const SLEEP: &str = "sleep";
/// The policy that bounds how often a waiter is passed.
pub const FAIR: &str = "fair";
/// The policy that passes ownership at each contended release.
pub const HANDOFF: &str = "handoff";
/// The policy of a mutex that spins before it sleeps.
pub const SPIN: &str = "spin";

/// A lock policy by the name that `convoy with` uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The name.
    pub name: String,
    pub(crate) policy: Policy,
    /// Attempts before a waiter sleeps; `None` for the policy's default.
    pub(crate) looks: Option<u32>,
    /// Whether only the first lock gets the policy.
    pub(crate) alone: bool,
    /// Change of the program itself.
    pub(crate) change: Option<Change>,
}

/// A change of the program other than a lock replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Broadcasts wake one thread.
    Signal,
    /// Reader/writer locks prefer writers.
    PreferWriters,
}

impl Change {
    /// Every change.
    pub const ALL: [Self; 2] = [Self::Signal, Self::PreferWriters];

    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Signal => SIGNAL,
            Self::PreferWriters => PREFER_WRITERS,
        }
    }
}

/// Broadcasts that wake one thread.
pub const SIGNAL: &str = "signal";
/// Reader/writer locks that prefer writers.
pub const PREFER_WRITERS: &str = "prefer-writers";

/// Returns every name that [`Choice::new`] accepts.
pub fn names() -> Vec<&'static str> {
    let changes = Change::ALL.map(Change::name);
    [SLEEP, SPIN, FAIR].into_iter().chain(Policy::NAMES.iter().copied()).chain(changes).collect()
}

impl Choice {
    /// Returns the choice for one of [`names`].
    pub fn new(name: &str) -> Self {
        if let Some(change) = Change::ALL.into_iter().find(|change| change.name() == name) {
            return Self::changed(change);
        }
        let policy = match name {
            FAIR => Policy::Quota,
            HANDOFF => Policy::FutexHandoff,
            name => Policy::named(name).unwrap_or(Policy::Adaptive),
        };
        let looks = (name == SLEEP).then_some(0);
        Self { name: name.to_owned(), policy, looks, alone: false, change: None }
    }

    /// Returns libc's locks in a changed program.
    fn changed(change: Change) -> Self {
        Self { name: change.name().to_owned(), change: Some(change), ..Self::new(SLEEP) }
    }

    /// Returns the same choice, for the first lock alone if `alone` is true.
    #[must_use]
    pub fn alone(self, alone: bool) -> Self {
        Self { alone, ..self }
    }
}
