//! The subjects of `convoy check`, by name.

use crate::busted;
use crate::model::{Model, Schedule};
use crate::subject::{CheckError, Replay, Subject, rcu_subject, zone_subject};
use crate::upgrades::{with_interrupts, with_upgrades};
use convoy_mm::{HoldAll, PublishedReleaseEach, ReleaseContended, ReleaseEach};
use convoy_sync::{LockName, TicketLock};

macro_rules! locks {
    ({} $($variant:ident = $name:literal, $family:literal, $lock:ty, [$($promise:ident)*],
        $about:literal;)+) => {
        vec![$(Subject::shipped::<$lock>(
            $name,
            $family,
            LockName::$variant.promises(),
            $about,
        )),+]
    };
}

/// Returns everything that can be checked: the listed locks, the zone, RCU, and the deliberately
/// broken subjects.
pub fn subjects() -> Vec<Subject> {
    type P = Model;
    type L = TicketLock<Model>;
    let mut all: Vec<Subject> = convoy_sync::every_lock! { locks {} };
    for subject in &mut all {
        *subject = match subject.name {
            "test-and-set" => subject.with(with_interrupts),
            "quota-rwlock" => subject.with(with_upgrades),
            // Without a time slice there is nothing to extend.
            "adaptive-extended" => subject.same_as("adaptive"),
            "quota-extended" => subject.same_as("quota"),
            _ => *subject,
        };
    }
    all.extend([
        zone_subject::<HoldAll>("hold-all", "Holds the zone lock for a whole batch of pages."),
        zone_subject::<ReleaseEach>("release-each", "Releases it after each page."),
        zone_subject::<ReleaseContended>("release-contended", "The same, if a task waits."),
        zone_subject::<PublishedReleaseEach>(
            "published-release-each",
            "The patch of 2007: keeps the lock of a dry zone.",
        ),
    ]);
    all.push(rcu_subject::<true>("rcu", "Tree RCU of 2.6.39: frees after a grace period."));
    all.extend(busted::subjects());
    all
}

/// Returns the subjects that `words` name: a lock, a family, `all` that ship, or `busted`. Each
/// subject appears once, in the order of [`subjects`].
///
/// # Errors
///
/// Returns [`CheckError::Name`] if a word names no subject.
pub fn select<W: AsRef<str>>(words: &[W]) -> Result<Vec<Subject>, CheckError> {
    let all = subjects();
    let unknown = |word: &&W| !all.iter().any(|subject| subject.is(word.as_ref()));
    if let Some(word) = words.iter().find(unknown) {
        return Err(CheckError::Name(word.as_ref().to_owned()));
    }
    let named = |subject: &Subject| words.iter().any(|word| subject.is(word.as_ref()));
    Ok(all.into_iter().filter(named).collect())
}

/// Executes the order of a schedule string once.
///
/// # Errors
///
/// Fails if the string cannot be parsed, names no scenario, or does not fit its scenario.
pub fn replay(schedule: &str) -> Result<Replay, CheckError> {
    let scenario = schedule.parse::<Schedule>()?.scenario;
    let name = scenario.split_once('/').map(|(name, _)| name);
    let subject = subjects().into_iter().find(|subject| name == Some(subject.name));
    subject.ok_or(CheckError::Scenario(scenario))?.replay(schedule)
}
