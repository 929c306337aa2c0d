//! Deliberately broken locks are caught, and the printed schedules replay.

use convoy_checker::model::Schedule;
use convoy_checker::{Budget, CheckError, Property, replay, select, subjects};
use std::collections::BTreeSet;

/// The same budget for locks that must be caught and locks that must pass.
const BUDGET: Budget = Budget { executions: 5000, few_preemptions: 0, steps: 3000, seed: 1 };

#[test]
fn every_busted_lock_is_caught_and_every_property_is_violated_by_one() {
    let mut violated = BTreeSet::new();
    for subject in select(&["busted"]).unwrap() {
        let rows = subject.check(BUDGET);
        let caught = rows.iter().find(|row| row.violated.is_some());
        let row = caught.unwrap_or_else(|| panic!("{} passed", subject.name));
        let schedule = row.schedule.as_deref().expect("a violation has a schedule");
        assert_eq!(schedule.parse::<Schedule>().unwrap().to_string(), schedule);
        let told = replay(schedule).unwrap();
        let (seen, narrative) = row.narrative.split_last().unwrap();
        assert_eq!((told.subject.name, told.narrative.as_slice()), (subject.name, narrative));
        assert_eq!(told.violation, row.violated.map(|property| (property, seen.clone())));
        violated.extend(rows.iter().filter_map(|row| row.violated));
    }
    for property in [
        Property::Exclusion,
        Property::NoLostWakeup,
        Property::UnitsKept,
        Property::Fifo,
        Property::NoStarvation,
        Property::Signals,
        Property::Timeouts,
        Property::GracePeriod,
    ] {
        assert!(violated.contains(&property), "{}", property.name());
    }
}

#[test]
fn every_family_has_a_lock_that_is_broken() {
    let families = |busted| {
        let all = subjects();
        let all = all.iter().filter(|subject| subject.busted == busted);
        all.map(|subject| subject.family).collect::<BTreeSet<_>>()
    };
    assert_eq!(families(true), families(false));
}

#[test]
fn the_published_patch_loses_a_wakeup() {
    let [subject] = select(&["published-fix"]).unwrap().try_into().ok().expect("one");
    let rows = subject.check(BUDGET);
    let row = rows.iter().find(|row| row.scenario == "two-ups").unwrap();
    assert_eq!(row.violated, Some(Property::NoLostWakeup));
    assert_eq!(row.schedule.as_deref(), Some("cv1:published-fix/two-ups:0,1,2,0"));
    let last = row.narrative.last().unwrap();
    assert_eq!(last, "tasks [1] sleep although units are free: 1");
    // With one unit it is correct: the bug needs two units free at the same time.
    let fine = |name: &str| rows.iter().any(|row| row.scenario == name && row.violated.is_none());
    assert!(fine("binary") && fine("again") && fine("trylock"));
}

#[test]
fn the_published_patch_of_the_zone_keeps_its_lock() {
    let schedule = "cv1:published-release-each/dry:";
    let told = replay(schedule).unwrap();
    assert_eq!(told.violation.map(|(property, _)| property), Some(Property::NoDeadlock));
}

#[test]
fn a_check_gives_the_same_answer_twice() {
    for subject in select(&["published-fix", "opportunistic", "busted-lose-unit"]).unwrap() {
        let budget = Budget { executions: 500, ..BUDGET };
        assert_eq!(subject.check(budget), subject.check(budget));
    }
}

#[test]
fn what_does_not_exist_is_said_so() {
    let unknown = select(&["mutex", "fair"]).err().expect("an error");
    assert_eq!(unknown, CheckError::Name("fair".to_owned()));
    assert!(unknown.to_string().contains("convoy lab check --list"), "{unknown}");
    for wrong in
        ["", "cv1:handoff:0", "cv1:handoff/none:0", "cv1:fair/binary:0", "cv1:handoff/binary:9"]
    {
        assert!(replay(wrong).is_err(), "{wrong}");
    }
}
