//! Decisions worked out by hand.

use super::*;
use crate::preset::KernelPreset;

fn sums(tasks: u64) -> Sums {
    let load = tasks * WEIGHT;
    Sums { load, tasks, weight: load, power: WEIGHT, capacity: 1, cpus: 1, ..Sums::default() }
}

/// A node of eight CPUs with `tasks`, of which `idle` CPUs have none.
fn node(tasks: u64, idle: u64) -> Sums {
    Sums {
        load: tasks * WEIGHT / 8,
        tasks,
        weight: tasks * WEIGHT,
        power: 8 * WEIGHT,
        capacity: 8,
        room: tasks < 8,
        cpus: 8,
        idle,
        ..Sums::default()
    }
}

fn rules(kernel: &str) -> BalanceRules {
    KernelPreset::named(kernel).expect("a shipped preset").sched.balance
}

fn level(idle: Idle, average: u64) -> Level {
    Level { idle, average, pct: 125, shares_cache: false, spreads: false, node_tasks: 0 }
}

#[test]
fn an_idle_cpu_takes_one_of_two() {
    // Loads (0, 2, 1, 1): average 1024, one task moves.
    let found = load_per_task(&sums(0), &sums(2), &level(Idle::Newly, 1024));
    assert_eq!(found, Ok(1024));
}

#[test]
fn a_queue_whose_average_shows_one_task_is_balanced() {
    // Two fresh tasks, but the index still reads one task's worth of load.
    let there = Sums { load: 1024, ..sums(2) };
    let found = load_per_task(&sums(0), &there, &level(Idle::Newly, 512));
    assert_eq!(found, Err(IdleCause::TooSmall));
}

#[test]
fn equal_groups_are_balanced() {
    let found = load_per_task(&sums(2), &sums(2), &level(Idle::Newly, 2048));
    assert_eq!(found, Err(IdleCause::BelowAverage));
}

#[test]
fn one_task_of_difference_between_nodes_of_eight_suffices() {
    // 7 against 9 of 8 CPUs each, so loads of 896 and 1152 and a mean of 1024: an imbalance of
    // min(128, 128) * 8192 / 1024 = 1024 is one task.
    let level = level(Idle::Tick, 1024);
    let rules = rules("3.0");
    assert_eq!(above_capacity(&node(7, 1), &node(9, 0), &level, &rules), Ok(1024));
    // 7 against 8 with one CPU idle in each: as many idle there, and no more tasks than CPUs.
    let found = above_capacity(&node(7, 1), &node(8, 1), &level, &rules);
    assert_eq!(found, Err(IdleCause::FewerIdle));
}

#[test]
fn a_small_imbalance_moves_a_task_when_the_loads_differ_by_one_of_them() {
    // 8192 of power: a task weighs 128. 1152 - 1024 + 128 = 2 * 128 passes, 1151 does not.
    let there = Sums { load: 1152, ..node(9, 0) };
    assert_eq!(one_task(&node(8, 0), &there, 1024), Ok(1024));
    let there = Sums { load: 1151, ..node(9, 0) };
    assert_eq!(one_task(&node(8, 0), &there, 1024), Err(IdleCause::TooSmall));
    // A local load beyond the sum passes, since the kernel computes without a sign.
    let here = Sums { load: 1300, ..node(8, 0) };
    assert_eq!(one_task(&here, &there, 1024), Ok(1024));
}

#[test]
fn a_newly_idle_cpu_is_forced_to_pull_from_2_6_37_on() {
    // The loads are level since the seven local tasks weigh more; one CPU is empty.
    let level = level(Idle::Newly, 1152);
    let here = Sums { load: 1152, weight: 9 * WEIGHT, ..node(7, 1) };
    let mut rules = rules("3.0");
    assert_eq!(above_capacity(&here, &node(9, 0), &level, &rules), Ok(1024));
    rules.newidle_force = false;
    let found = above_capacity(&here, &node(9, 0), &level, &rules);
    assert_eq!(found, Err(IdleCause::BelowAverage));
}

#[test]
fn with_room_at_home_6_18_counts_tasks() {
    let found = tasks(&node(3, 5), &node(12, 0), &level(Idle::Tick, 1024));
    assert_eq!(found, Ok(5 * WEIGHT));
    let found = tasks(&node(5, 3), &node(7, 1), &level(Idle::Tick, 1024));
    assert_eq!(found, Ok(WEIGHT));
    let found = tasks(&node(6, 2), &node(7, 1), &level(Idle::Tick, 1024));
    assert_eq!(found, Err(IdleCause::FewerIdle));
    // A few may stay on one node.
    let nodes = Level { node_tasks: 1, ..level(Idle::Tick, 1024) };
    assert_eq!(tasks(&node(0, 8), &node(2, 6), &nodes), Err(IdleCause::TooSmall));
    assert_eq!(tasks(&node(0, 8), &node(3, 5), &nodes), Ok(WEIGHT));
    assert_eq!(tasks(&node(1, 7), &node(3, 5), &nodes), Ok(WEIGHT));
}

#[test]
fn what_counts_as_spread_changes_with_the_version() {
    let mut seen = Extremes::NONE;
    seen.see(2048, 2);
    seen.see(0, 0);
    let all = [Spread::OneTask, Spread::TwoMeans, Spread::MeanOnCrowded, Spread::MeanAndTasks];
    assert_eq!(all.map(|rule| seen.spread(rule, 1024)), [true, false, true, true]);
    let mut seen = Extremes::NONE;
    seen.see(2048, 2);
    seen.see(1024, 1);
    assert_eq!(all.map(|rule| seen.spread(rule, 1024)), [false, false, true, false]);
}
