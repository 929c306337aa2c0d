//! Virtual time, lag and eligibility, without a machine.

use super::*;
use crate::preset::KernelPreset;

const MS: u64 = 1_000_000;

fn queue(cpus: usize) -> Queue {
    let preset = KernelPreset::named("6.18").expect("a shipped preset");
    Queue::new(&preset.sched.eevdf.expect("it is of this class"), 250, cpus)
}

/// Tasks with these nice values on one queue.
fn tasks(nice: &[i8]) -> (Queue, Vec<Rc<Tcb>>) {
    let mut queue = queue(2);
    let tasks: Vec<_> = (0..).zip(nice).map(|(id, &nice)| task(id, nice)).collect();
    for task in &tasks {
        queue.enqueue_new(task, None);
    }
    (queue, tasks)
}

fn task(id: TaskId, nice: i8) -> Rc<Tcb> {
    let task = Rc::new(Tcb::new(id, 0));
    task.entity.set_nice(nice);
    task
}

/// Runs the queue for `ms`, charging every `tick` ms and whenever `charge` says so.
fn run(queue: &mut Queue, tasks: &[Rc<Tcb>], ms: u64, tick: u64) {
    let tcb = |id: TaskId| Rc::clone(&tasks[id as usize]);
    let mut now = 0;
    let mut current: Option<Rc<Tcb>> = None;
    while now < ms {
        let next = current.take().unwrap_or_else(|| {
            let next = queue.pick(&tcb).expect("a task");
            next.entity.exec_start.set(now * MS);
            next
        });
        now += tick;
        if queue.charge(&next, now * MS) {
            queue.put_back(&next);
        } else {
            current = Some(next);
        }
        check(queue, tasks);
    }
    if let Some(task) = current {
        queue.put_back(&task);
    }
}

/// The weighted lags of a queue cancel, and no lag exceeds the maximum of one turn.
fn check(queue: &Queue, tasks: &[Rc<Tcb>]) {
    let on = tasks.iter().filter(|task| task.entity.on_queue.get());
    let mut sum = 0;
    let mut weight = 0;
    for task in on {
        let entity = &task.entity;
        weight += i128::from(entity.weight());
        sum += i128::from(entity.weight()) * i128::from(queue.mean() - entity.vruntime.get());
    }
    // The mean is rounded down by less than 1 ns.
    assert!((-weight..=0).contains(&sum), "lags sum to {sum} of weight {weight}");
}

#[test]
fn slices_by_cpus() {
    let slices = [1, 2, 4, 8, 64].map(|cpus| queue(cpus).slice / 1000);
    assert_eq!(slices, [700, 1400, 2100, 2800, 2800]);
}

#[test]
fn equal_tasks_share_equally_and_stay_within_a_slice_of_each_other() {
    let (mut queue, tasks) = tasks(&[0; 7]);
    run(&mut queue, &tasks, 7 * 400, 4);
    let ran: Vec<_> = tasks.iter().map(|task| task.entity.sum_exec.get() / MS).collect();
    let (least, most) = (ran.iter().min().unwrap(), ran.iter().max().unwrap());
    assert!(most - least <= 8, "{ran:?}");
}

#[test]
fn shares_follow_the_weights() {
    let (mut queue, tasks) = tasks(&[0, 5, -5]);
    run(&mut queue, &tasks, 40_000, 1);
    let all: u64 = tasks.iter().map(|task| task.entity.weight()).sum();
    for task in &tasks {
        let share = task.entity.sum_exec.get() as f64 / 40e9;
        let due = task.entity.weight() as f64 / all as f64;
        assert!((share - due).abs() < 0.002, "{share} for {due}");
    }
}

#[test]
fn a_sleeper_that_is_behind_preempts_and_one_that_is_ahead_does_not() {
    let (mut queue, tasks) = tasks(&[0; 3]);
    let tcb = |id: TaskId| Rc::clone(&tasks[id as usize]);
    let first = queue.pick(&tcb).unwrap();
    first.entity.exec_start.set(0);
    // It runs 4 ms and is charged, so the two others are behind.
    assert!(queue.charge(&first, 4 * MS));
    queue.put_back(&first);
    let second = queue.pick(&tcb).unwrap();
    assert_ne!(second.id, first.id);
    second.entity.exec_start.set(4 * MS);
    assert!(!queue.charge(&second, 4 * MS + 100_000));
    // It leaves at once: eligible, so nothing stays behind.
    assert!(queue.dequeue(&second, Dequeue::Sleeps));
    let third = queue.pick(&tcb).unwrap();
    third.entity.exec_start.set(4 * MS);
    assert!(queue.charge(&third, 8 * MS));
    queue.enqueue(&second, Enqueue::Woken, 0);
    assert!(queue.preempts(&second, &third.clone()));
    check(&queue, &tasks);
}

#[test]
fn a_sleeper_that_is_ahead_stays_queued_until_its_turn() {
    let (mut queue, tasks) = tasks(&[0; 2]);
    let tcb = |id: TaskId| Rc::clone(&tasks[id as usize]);
    let first = queue.pick(&tcb).unwrap();
    first.entity.exec_start.set(0);
    queue.charge(&first, 3 * MS);
    assert!(!queue.dequeue(&first, Dequeue::Sleeps), "it is ahead");
    assert!(first.entity.on_queue.get() && first.entity.eevdf.delayed());
    assert!(!queue.candidates(9).contains(&first.id), "and never moves");
    let second = queue.pick(&tcb).unwrap();
    assert_ne!(second.id, first.id);
    second.entity.exec_start.set(3 * MS);
    queue.charge(&second, 10 * MS);
    queue.put_back(&second);
    // Now the sleeper would be next: it leaves at last, and without a gain.
    assert_eq!(queue.pick(&tcb).unwrap().id, second.id);
    assert!(!first.entity.on_queue.get() && !first.entity.eevdf.delayed());
    assert_eq!(first.entity.eevdf.lag.get(), 0);
}

#[test]
fn a_woken_sleeper_that_was_delayed_goes_on_where_it_is() {
    let (mut queue, tasks) = tasks(&[0; 2]);
    let tcb = |id: TaskId| Rc::clone(&tasks[id as usize]);
    let first = queue.pick(&tcb).unwrap();
    first.entity.exec_start.set(0);
    queue.charge(&first, 3 * MS);
    let stood = first.entity.vruntime.get();
    assert!(!queue.dequeue(&first, Dequeue::Sleeps));
    queue.requeue(&first);
    assert_eq!(first.entity.vruntime.get(), stood);
    assert!(!first.entity.eevdf.delayed() && queue.candidates(9).contains(&first.id));
    check(&queue, &tasks);
}

#[test]
fn a_migrating_task_keeps_its_lag_and_what_is_left_of_its_deadline() {
    let (mut from, tasks) = tasks(&[0; 3]);
    let entity = &tasks[1].entity;
    from.charge(&tasks[0], 0);
    let left = entity.eevdf.deadline.get() - entity.vruntime.get();
    let lag = from.mean() - entity.vruntime.get();
    from.dequeue(&tasks[1], Dequeue::Leaves);
    let mut to = queue(2);
    to.rest = 77 * MS as i64;
    to.enqueue_new(&task(9, 0), None);
    to.enqueue(&tasks[1], Enqueue::Moved, 0);
    assert_eq!(entity.eevdf.deadline.get() - entity.vruntime.get(), left);
    assert!((to.mean() - entity.vruntime.get() - lag).abs() <= 1);
}

/// A task that is queued half of the time weighs half, wherever it goes.
#[test]
fn a_sleeper_takes_its_average_along_and_leaves_it_until_the_next_event() {
    let (mut here, mut there) = (queue(2), queue(2));
    let task = task(0, 0);
    for ms in 0..2000 {
        here.update_clock(ms * MS);
        if ms % 2 == 0 {
            here.enqueue(&task, Enqueue::Woken, 0);
        } else {
            assert!(here.dequeue(&task, Dequeue::Leaves));
        }
    }
    let load = here.load_average();
    assert!((490..535).contains(&load), "{load}");
    here.detach(&task, true);
    there.attach(&task);
    assert_eq!(here.load_average(), load);
    assert!(there.load_average().abs_diff(load) <= 1, "{}", there.load_average());
    here.update_clock(2000 * MS);
    assert!(here.load_average() <= 1, "{}", here.load_average());
}
