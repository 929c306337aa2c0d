//! Locks that a prediction can put in place of the recorded ones.

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
    /// Attempts before a waiter sleeps, if not the policy's own number.
    pub(crate) looks: Option<u32>,
    /// Whether only the first lock gets the policy.
    pub(crate) alone: bool,
}

/// Every name that [`Choice::new`] accepts.
pub fn names() -> Vec<&'static str> {
    [SLEEP, SPIN, FAIR].into_iter().chain(Policy::NAMES.iter().copied()).collect()
}

impl Choice {
    /// Returns the policy of one of [`names`].
    pub fn new(name: &str) -> Self {
        let policy = match name {
            FAIR => Policy::Quota,
            HANDOFF => Policy::FutexHandoff,
            name => Policy::named(name).unwrap_or(Policy::Adaptive),
        };
        Self { name: name.to_owned(), policy, looks: (name == SLEEP).then_some(0), alone: false }
    }

    /// Returns the same policy for the first lock alone.
    #[must_use]
    pub fn alone(self, alone: bool) -> Self {
        Self { alone, ..self }
    }
}
