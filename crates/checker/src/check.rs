//! `convoy check`: every shape of a lock with one variant, and the replay of one order.

use crate::busted::{
    LoadThenStoreLock, LoseUnit, LostWakeup, NoopLock, SilentWaiter, UnfairTicketLock,
};
use crate::locks::{Raw, exclusion};
use crate::model::{Budget, Model, Scenario, Schedule, ScheduleError, explore};
use crate::script::{Shape, scenario};
use crate::shapes::SHAPES;
use crate::zone::{ZONE_SHAPES, ZoneShape, zone_scenario};
use convoy_mm::{HoldAll, PublishedReleaseEach, ReleaseContended, ReleaseEach};
use convoy_sync::{ArchSemaphore, Handoff, Opportunistic, PublishedFix, Semaphore, SpinningMutex};
use core::fmt;

/// The semaphores that ship.
pub const VARIANTS: &[&str] = &["handoff", "published-fix", "opportunistic", "arch"];

/// What the zone lock of the page allocator may do while many pages move.
pub const ZONE_VARIANTS: &[&str] =
    &["hold-all", "release-each", "release-contended", "published-release-each"];

/// What can be checked, and its variants that ship.
pub const LOCKS: &[(&str, &[&str])] = &[("semaphore", VARIANTS), ("zone", ZONE_VARIANTS)];

/// What is wrong on purpose: semaphores, spinlocks, and a mutex.
pub const BUSTED: &[&str] = &[
    "busted-lost-wakeup",
    "busted-lose-unit",
    "busted-noop",
    "busted-load-then-store",
    "busted-unfair-ticket",
    "busted-silent-waiter",
];

/// Visits of three tasks to a lock, none of them as a reader.
const VISITS: &[&[bool]] = &[&[false, false], &[false], &[false]];

/// What was found about one variant in one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `semaphore` or `zone`, or `spinlock` for the busted ones.
    pub lock: &'static str,
    /// The variant.
    pub variant: String,
    /// The scenario and what must hold in it, in words; if something was violated, what.
    pub property: String,
    /// Whether an order violates it.
    pub violation: bool,
    /// The order that does, as the string that replays it.
    pub schedule: Option<String>,
    /// Executions made.
    pub explored: u64,
    /// Whether these were all there are.
    pub exhaustive: bool,
    /// The largest number of preemptions up to which all orders were executed.
    pub preemptions: Option<u32>,
    /// The violating order, one line for each step, and what was seen at its end.
    pub narrative: Vec<String>,
}

/// Why nothing was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// No such variant.
    Variant(String),
    /// The schedule names no scenario of ours.
    Scenario(String),
    /// The schedule cannot be read or does not fit.
    Schedule(ScheduleError),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variant(name) => {
                let known: Vec<_> =
                    LOCKS.iter().map(|(lock, all)| format!("{lock}: {}", all.join(", "))).collect();
                write!(f, "no variant `{name}`; there are {}", known.join("; "))
            }
            Self::Scenario(name) => {
                write!(f, "no scenario `{name}`; a schedule names one as <variant>/<shape>")
            }
            Self::Schedule(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CheckError {}

impl From<ScheduleError> for CheckError {
    fn from(error: ScheduleError) -> Self {
        Self::Schedule(error)
    }
}

/// What a replayed order did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// One line for each step, then what was seen at the end.
    pub lines: Vec<String>,
    /// The property that the order violates, if it does.
    pub violation: Option<String>,
}

fn semaphore(variant: &str, shape: &Shape) -> Option<Scenario> {
    Some(match variant {
        "handoff" => scenario::<Semaphore<Model, Handoff>>(variant, shape),
        "published-fix" => scenario::<Semaphore<Model, PublishedFix>>(variant, shape),
        "opportunistic" => scenario::<Semaphore<Model, Opportunistic>>(variant, shape),
        "arch" => scenario::<ArchSemaphore<Model>>(variant, shape),
        "busted-lost-wakeup" => scenario::<LostWakeup>(variant, shape),
        "busted-lose-unit" => scenario::<LoseUnit>(variant, shape),
        _ => return None,
    })
}

fn spinlock(variant: &str) -> Option<Scenario> {
    let name = format!("{variant}/spin");
    Some(match variant {
        "busted-noop" => exclusion::<Raw<Model, NoopLock>>(&name, VISITS, false),
        "busted-load-then-store" => {
            exclusion::<Raw<Model, LoadThenStoreLock>>(&name, VISITS, false)
        }
        "busted-unfair-ticket" => exclusion::<Raw<Model, UnfairTicketLock>>(&name, VISITS, true),
        "busted-silent-waiter" => {
            exclusion::<SpinningMutex<Model, SilentWaiter>>(&name, VISITS, false)
        }
        _ => return None,
    })
}

fn row(lock: &'static str, variant: &str, about: &str, scenario: &Scenario, budget: Budget) -> Row {
    let report = explore(scenario, budget);
    let mut row = Row {
        lock,
        variant: variant.to_owned(),
        property: about.to_owned(),
        violation: false,
        schedule: None,
        explored: report.explored,
        exhaustive: report.complete,
        preemptions: report.preemptions,
        narrative: Vec::new(),
    };
    if let Some(violation) = report.violation {
        row.property = format!("{about}: {}", violation.property.name());
        row.violation = true;
        row.schedule = Some(violation.schedule.to_string());
        row.narrative = violation.narrative;
        row.narrative.push(violation.text);
    }
    row
}

fn zone(variant: &str, shape: &ZoneShape) -> Option<Scenario> {
    Some(match variant {
        "hold-all" => zone_scenario(variant, HoldAll, shape),
        "release-each" => zone_scenario(variant, ReleaseEach, shape),
        "release-contended" => zone_scenario(variant, ReleaseContended, shape),
        "published-release-each" => zone_scenario(variant, PublishedReleaseEach, shape),
        _ => return None,
    })
}

/// Explores every shape of `lock` (one of [`LOCKS`]) with `variant`, each within `budget`.
///
/// # Errors
///
/// [`CheckError::Variant`].
pub fn check_lock(lock: &str, variant: &str, budget: Budget) -> Result<Vec<Row>, CheckError> {
    if lock == "zone" { check_zone(variant, budget) } else { check_semaphore(variant, budget) }
}

/// Explores every zone shape with `variant`, each within `budget`.
///
/// # Errors
///
/// [`CheckError::Variant`].
pub fn check_zone(variant: &str, budget: Budget) -> Result<Vec<Row>, CheckError> {
    let rows = ZONE_SHAPES.iter().map(|shape| {
        let scenario = zone(variant, shape);
        let scenario = scenario.ok_or_else(|| CheckError::Variant(variant.to_owned()))?;
        let about = format!("{}: {}", shape.name, shape.about);
        Ok(row("zone", variant, &about, &scenario, budget))
    });
    rows.collect()
}

/// Explores every shape with `variant`, each within `budget`. Busted variants are accepted, too.
///
/// # Errors
///
/// [`CheckError::Variant`].
pub fn check_semaphore(variant: &str, budget: Budget) -> Result<Vec<Row>, CheckError> {
    check(variant, SHAPES, budget)
}

/// As [`check_semaphore`], with some shapes only. A spinlock has one scenario, whatever the shapes.
///
/// # Errors
///
/// [`CheckError::Variant`].
pub fn check(variant: &str, shapes: &[Shape], budget: Budget) -> Result<Vec<Row>, CheckError> {
    if let Some(scenario) = spinlock(variant) {
        let about = "three tasks take turns";
        return Ok(vec![row("spinlock", variant, about, &scenario, budget)]);
    }
    let rows = shapes.iter().map(|shape| {
        let scenario = semaphore(variant, shape);
        let scenario = scenario.ok_or_else(|| CheckError::Variant(variant.to_owned()))?;
        let about = format!("{}: {}", shape.name, shape.about);
        Ok(row("semaphore", variant, &about, &scenario, budget))
    });
    rows.collect()
}

/// Executes the order of a schedule string once; one line for each step, and at the end what was
/// violated, if anything was.
///
/// # Errors
///
/// When the string cannot be read, names no scenario, or does not fit it.
pub fn replay(schedule: &str) -> Result<Replay, CheckError> {
    let schedule: Schedule = schedule.parse()?;
    let unknown = || CheckError::Scenario(schedule.scenario.clone());
    let (variant, shape) = schedule.scenario.split_once('/').ok_or_else(unknown)?;
    let of_semaphore = SHAPES.iter().find(|known| known.name == shape);
    let of_zone = ZONE_SHAPES.iter().find(|known| known.name == shape);
    let scenario = of_semaphore
        .and_then(|shape| semaphore(variant, shape))
        .or_else(|| zone(variant, of_zone?))
        .or_else(|| spinlock(variant).filter(|scenario| scenario.name == schedule.scenario));
    let (lines, failure) = crate::model::replay(&scenario.ok_or_else(unknown)?, &schedule)?;
    Ok(Replay { lines, violation: failure.map(|property| property.name().to_owned()) })
}
