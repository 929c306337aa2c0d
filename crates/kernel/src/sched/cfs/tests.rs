//! The generations side by side.

use super::*;
use crate::preset::KernelPreset;

fn rules(kernel: &str, cpus: usize) -> CfsRules {
    let preset = KernelPreset::named(kernel).expect("a shipped preset");
    preset.sched.cfs.expect("a kernel of this class").scaled(cpus)
}

fn queue(kernel: &str) -> Queue {
    Queue { rules: rules(kernel, 4), ..Queue::new(&rules(kernel, 1), 1) }
}

#[test]
fn constants_scale_with_cpus() {
    let of = |kernel, cpus| {
        let rules = rules(kernel, cpus);
        [rules.latency_ns, rules.min_granularity_ns, rules.wakeup_granularity_ns]
            .map(|ns| ns / 1000)
    };
    assert_eq!(of("2.6.25", 4), [60_000, 12_000, 15_000]);
    assert_eq!(of("2.6.26-rc1", 4)[2], 30_000);
    assert_eq!(of("2.6.26-rc1", 1024)[0], 200_000);
    assert_eq!(of("2.6.24", 8), [80_000, 16_000, 40_000]);
    assert_eq!(of("3.0", 80), [24_000, 3_000, 4_000]);
}

#[test]
fn slices_of_the_period() {
    for (kernel, tasks, ms) in [
        ("2.6.25", [1, 2, 3, 4, 5, 6, 500], [60, 30, 20, 15, 12, 12, 12]),
        ("3.0", [1, 2, 3, 4, 6, 8, 500], [18, 9, 6, 4, 3, 2, 2]),
    ] {
        let task = Entity::default();
        let slices = tasks.map(|tasks| {
            let mut queue = queue(kernel);
            for id in 0..tasks {
                queue.account(id, &Entity::default());
            }
            queue.slice_of(&task) / 1_000_000
        });
        assert_eq!(slices, ms);
    }
}

#[test]
fn a_nicer_task_has_a_smaller_slice_and_faster_virtual_time() {
    let mut queue = queue("3.0");
    let (plain, nice) = (Entity::default(), Entity::default());
    nice.set_nice(5);
    queue.account(1, &plain);
    queue.account(2, &nice);
    let ratio = queue.slice_of(&plain) as f64 / queue.slice_of(&nice) as f64;
    assert!((ratio - 1024.0 / 335.0).abs() < 0.01, "{ratio}");
    for entity in [&plain, &nice] {
        queue.run(entity, 1_000_000);
    }
    assert_eq!((plain.vruntime.get(), nice.vruntime.get()), (1_000_000, 3_056_716));
}

#[test]
fn a_long_sleeper_preempts_unless_in_rc1() {
    for (kernel, expected) in
        [("2.6.24", true), ("2.6.25", true), ("2.6.26-rc1", false), ("3.0", true)]
    {
        let mut queue = queue(kernel);
        let (running, woken) = (Entity::default(), Entity::default());
        // A second queued task lets min_vruntime pass the sleeper's old place.
        let other = Entity::default();
        running.vruntime.set(1_000_000_000);
        other.vruntime.set(1_000_000_000);
        queue.account(1, &running);
        queue.account(2, &other);
        queue.insert(2, &other);
        queue.follow(&running);
        queue.account(3, &woken);
        queue.place_woken(&woken);
        queue.insert(3, &woken);
        assert_eq!(queue.lags(&woken, &running), expected);
    }
}

#[test]
fn buddy_is_honoured_on_a_long_queue_in_rc1_only() {
    for (kernel, expected) in [("2.6.25", 0), ("2.6.26-rc1", 499)] {
        let mut queue = queue(kernel);
        let entities: Vec<_> = (0..500).map(|_| Entity::default()).collect();
        for (id, entity) in entities.iter().enumerate() {
            entity.vruntime.set(id as i64 * 20_000);
            queue.account(id as TaskId, entity);
            queue.insert(id as TaskId, entity);
        }
        queue.next = Some(499);
        let picked = queue.choose(|id| entities[id as usize].vruntime.get());
        assert_eq!(picked, Some(expected));
    }
}

#[test]
fn the_balancer_of_rc1_never_sees_the_last_entry() {
    let entities: Vec<_> = (0..3).map(|_| Entity::default()).collect();
    let fill = |kernel| {
        let mut queue = queue(kernel);
        for (id, entity) in entities.iter().enumerate() {
            queue.account(id as TaskId, entity);
            queue.insert(id as TaskId, entity);
        }
        queue
    };
    assert_eq!(fill("2.6.25").candidates(33), [0, 1, 2]);
    assert_eq!(fill("3.0").candidates(33), [2, 1, 0]);
    let mut queue = fill("2.6.26-rc1");
    assert_eq!(queue.candidates(33), [2, 1]);
    for id in [2, 1] {
        queue.remove(id, &entities[id as usize]);
        queue.discount(id, &entities[id as usize]);
    }
    assert!(queue.candidates(33).is_empty());
}

#[test]
fn a_task_that_has_left_is_not_preferred() {
    for stays in [true, false] {
        let mut queue = queue("3.7");
        let tasks: Vec<_> = (0..9).map(|id| Tcb::new(id, 0)).collect();
        for (id, task) in tasks.iter().enumerate() {
            task.entity.vruntime.set(if id == 0 { 100_000_000 } else { 0 });
            queue.account(id as TaskId, &task.entity);
        }
        if !stays {
            queue.discount(0, &tasks[0].entity);
        }
        assert!(queue.preempts(&tasks[8], &tasks[0]));
        assert_eq!(queue.last, stays.then_some(0));
    }
}

#[test]
fn a_wakeup_that_does_not_preempt_makes_no_buddy_from_2_6_32_on() {
    for (kernel, hot) in [("2.6.25", true), ("2.6.32", false), ("3.0", false)] {
        let mut queue = queue(kernel);
        let (current, woken) = (Tcb::new(1, 0), Tcb::new(2, 0));
        queue.enqueue(&current, Enqueue::Moved, 0);
        queue.take(&current);
        queue.enqueue(&woken, Enqueue::Moved, 0);
        assert!(!queue.preempts(&woken, &current));
        assert_eq!(queue.is_hot_buddy(2), hot, "{kernel}");
        current.entity.vruntime.set(1_000_000_000);
        assert!(queue.preempts(&woken, &current));
        assert!(queue.is_hot_buddy(2), "{kernel}");
    }
}
