//! What preset files may say.

use super::*;
use crate::lock_rules::{FutexWake, MutexPolicy, Rwlock, RwsemPolicy, Spinlock};
use crate::rcu::Placement as RcuPlacement;
use crate::sched::Placement;
use crate::zone::ZonePolicy;

#[test]
fn every_shipped_preset_is_valid_and_named_as_its_file() {
    for name in KERNELS.names() {
        assert_eq!(KernelPreset::named(name).unwrap().name, name);
    }
}

#[test]
fn the_three_26_presets_differ_only_in_the_lock_policy() {
    let base = KernelPreset::named("2.6.26-rc1").unwrap();
    for name in ["2.6.26-rc1+semaphore-speedup", "2.6.26-rc1+bkl-spinlock"] {
        let other = KernelPreset::named(name).unwrap();
        let same = KernelPreset {
            name: base.name.clone(),
            locks: base.locks,
            bkl: base.bkl,
            ..other.clone()
        };
        assert_eq!(same, base, "{name} differs in more than the lock policy");
        assert!(other.locks.semaphore != base.locks.semaphore || other.bkl != base.bkl);
    }
}

/// Presets of one published table are the baseline but for what their names say.
#[test]
fn the_columns_of_the_zone_lock_tables_differ_in_the_named_policy_only() {
    let each = ZonePolicy::ReleaseEach;
    let contended = ZonePolicy::ReleaseContended;
    let (plain, ticket) = (Spinlock::Plain, Spinlock::Ticket);
    for (name, baseline, spinlock, lock, own_line) in [
        ("2.6.16+zone-opt", "2.6.16", plain, each, false),
        ("2.6.23+zone-opt", "2.6.23", plain, each, false),
        ("2.6.24-rc7", "2.6.24-rc7", plain, ZonePolicy::HoldAll, false),
        ("2.6.24-rc7+ts", "2.6.24-rc7", ticket, ZonePolicy::HoldAll, false),
        ("2.6.24-rc7+ts+opt", "2.6.24-rc7", ticket, contended, false),
        ("2.6.24-rc7+ts+opt+cl", "2.6.24-rc7", ticket, contended, true),
    ] {
        let (base, preset) = (KernelPreset::named(baseline), KernelPreset::named(name));
        let base = base.unwrap();
        assert_eq!((base.locks.spinlock, base.zone.lock), (plain, ZonePolicy::HoldAll));
        let named = KernelPreset {
            name: name.to_owned(),
            locks: LockRules { spinlock, ..base.locks },
            zone: ZoneRules { lock, own_line, ..base.zone },
            ..base
        };
        assert_eq!(preset.unwrap(), named);
    }
}

#[test]
fn the_37_presets_differ_only_in_the_mutex_policy() {
    let base = KernelPreset::named("3.7").unwrap();
    for (name, mutex) in [
        ("3.7.10+patch1", MutexPolicy::SpinLookFirst),
        ("3.7.10+patches1-3", MutexPolicy::SpinAtLowLoad),
        ("3.7.10+one-spinner", MutexPolicy::SpinOne),
        ("3.7.10+mcs", MutexPolicy::SpinInTurn),
    ] {
        let other = KernelPreset::named(name).unwrap();
        let locks = LockRules { mutex, ..base.locks };
        let due = KernelPreset { name: name.to_owned(), locks, ..base.clone() };
        assert_eq!(other, due, "{name} differs in more than the mutex policy");
    }
    assert_eq!(base.locks.mutex, MutexPolicy::Spin);
}

#[test]
fn kernels_from_38_on_differ_from_the_one_before_in_their_locks() {
    let named = |name| KernelPreset::named(name).unwrap();
    let rwlocks = |locks| LockRules {
        rwsem: RwsemPolicy::Spin,
        rwlock: Rwlock::Queued,
        futex: FutexWake::Announced,
        ..locks
    };
    let handed =
        |locks| LockRules { mutex: MutexPolicy::HandOver, futex: FutexWake::Unlocked, ..locks };
    let (old, base, newer) = (named("3.10"), named("3.16"), named("4.10"));
    assert_eq!((old.locks.rwsem, old.locks.rwlock), (RwsemPolicy::Grant, Rwlock::Counter));
    assert_eq!(base.locks, rwlocks(old.locks));
    assert_eq!(newer.locks, handed(base.locks));
    assert_eq!(named("6.18").locks, handed(rwlocks(old.locks)));
    let zone = ZoneRules { line_frames: true, queued: true, long_release: true, ..newer.zone };
    for (name, zone) in [
        ("4.16", zone),
        ("4.18", ZoneRules { picked: true, ..zone }),
        ("4.19", ZoneRules { picked: true, double_batch: true, ..zone }),
    ] {
        assert_eq!(KernelPreset { name: name.to_owned(), zone, ..newer.clone() }, named(name));
    }
    // What else changes is in the locks of files.
    for (old, new) in [(old, &base), (base.clone(), &newer)] {
        let (name, locks, vfs) = (new.name.clone(), new.locks, new.vfs);
        assert_eq!(KernelPreset { name, locks, vfs, ..old }, *new);
    }
}

#[test]
fn the_kernels_of_2011_differ_only_in_where_rcu_runs() {
    let base = KernelPreset::named("2.6.39").unwrap();
    for (name, placement) in
        [("3.0-rc", RcuPlacement::Thread), ("3.0-rc+softirq", RcuPlacement::CallbacksInThread)]
    {
        let other = KernelPreset::named(name).unwrap();
        let mut due = KernelPreset { name: name.to_owned(), ..base.clone() };
        due.rcu.as_mut().unwrap().placement = placement;
        if placement == RcuPlacement::Thread {
            // The vector did not exist between the two commits.
            due.softirq.vectors.pop();
        }
        assert_eq!(other, due, "{name} differs in more than where RCU runs");
    }
    // The final 3.0 uses threads for boosting only, which needs preemptible readers.
    let last = KernelPreset::named("3.0").unwrap();
    let same = KernelPreset { name: base.name.clone(), ..last.clone() };
    assert_eq!(same, base, "3.0 differs in more than its name");
    assert_eq!(base.rcu.unwrap().placement, RcuPlacement::Softirq);
}

#[test]
fn the_preemptible_kernels_differ_from_30_in_preemption_and_rcu() {
    let base = KernelPreset::named("3.0").unwrap();
    for (name, boost_ms, placement) in [
        ("3.0+preempt", None, RcuPlacement::Softirq),
        ("3.0+boost", Some(500), RcuPlacement::CallbacksInThread),
    ] {
        let mut due = KernelPreset { name: name.to_owned(), ..base.clone() };
        due.config.preempt = crate::config::Preempt::Full;
        let rcu = due.rcu.as_mut().unwrap();
        (rcu.preemptible, rcu.boost_ms, rcu.placement) = (true, boost_ms, placement);
        assert_eq!(KernelPreset::named(name).unwrap(), due, "{name}");
    }
}

#[test]
fn readers_are_boosted_only_where_they_may_be_preempted() {
    let (_, text) = KERNELS.shipped("2.6.39").unwrap();
    for (from, to, expected) in [
        ("preempt = \"voluntary\"", "preempt = \"voluntary\"", "boost_ms"),
        ("[rcu]", "[rcu]\npreemptible = true", "config.preempt"),
    ] {
        let text = text.replacen(from, to, 1).replacen("[rcu]", "[rcu]\nboost_ms = 500", 1);
        let error = convoy_catalogue::parse::<KernelPreset>("own", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn every_number_has_a_range() {
    let keys = convoy_catalogue::keys::<KernelPreset>();
    assert_eq!(keys.iter().find(|key| key.unbounded), None);
}

/// A variant is one key: no code asks which version this is.
#[test]
fn a_rule_of_another_kernel_is_one_key() {
    let text = "based_on = \"3.0\"\n[sched.wake]\nplacement = \"two-cpus\"\n";
    let loaded = convoy_catalogue::parse::<KernelPreset>("mine.toml", text).unwrap();
    let mut due = KernelPreset::named("3.0").unwrap();
    due.name.clone_from(&loaded.name);
    due.sched.wake.placement = Placement::TwoCpus;
    assert_eq!(loaded.value, due);
}

#[test]
fn a_class_without_its_table_is_refused() {
    let text = "based_on = \"3.0\"\n[sched]\nclass = \"eevdf\"\n";
    let error = convoy_catalogue::parse::<KernelPreset>("mine.toml", text).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("mine.toml") && error.contains("[sched.eevdf]"), "{error}");
}

#[test]
fn balancing_by_load_tracking_without_a_class_that_tracks_is_refused() {
    let text = "based_on = \"3.7\"\n[sched.balance]\nimbalance = \"tracked\"\n";
    let error = convoy_catalogue::parse::<KernelPreset>("mine.toml", text).unwrap_err();
    assert!(error.to_string().contains("sched.balance.imbalance"), "{error}");
}
