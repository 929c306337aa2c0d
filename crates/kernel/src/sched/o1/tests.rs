//! Slices, bonus and the two arrays, without a machine.

use super::*;

const MS: u64 = 1_000_000;

fn queue() -> Queue {
    Queue::new(250, 8)
}

fn task(id: TaskId) -> Rc<Tcb> {
    Rc::new(Tcb::new(id, 0))
}

/// Picks, and lets the caller see which.
fn pick(queue: &mut Queue, tasks: &[Rc<Tcb>]) -> Rc<Tcb> {
    let next = queue.pick(&|id| Rc::clone(&tasks[id as usize])).expect("a task");
    next.entity.picked_at.set(next.entity.sum_exec.get());
    next
}

#[test]
fn slices_by_nice_value() {
    let ms = [-20, -1, 0, 5, 10, 19].map(|nice| {
        let task = task(0);
        task.entity.set_nice(nice);
        queue().slice_of(&task) * 4
    });
    // At 250 Hz a slice is a whole number of 4 ms.
    assert_eq!(ms, [800, 420, 100, 72, 48, 4]);
}

#[test]
fn a_slice_lasts_25_ticks_and_then_the_task_expires() {
    let mut queue = queue();
    let tasks = [task(0), task(1)];
    for task in &tasks {
        queue.enqueue(task, Enqueue::Moved, 0);
    }
    let mut now = 0;
    let mut order = Vec::new();
    for _ in 0..4 {
        let current = pick(&mut queue, &tasks);
        current.entity.exec_start.set(now);
        let mut ticks = 0;
        loop {
            now += 4 * MS;
            ticks += 1;
            queue.charge(&current, now);
            if queue.tick(&current) {
                break;
            }
        }
        order.push((current.id, ticks));
        assert!(current.entity.o1.expired.get());
        queue.put_back(&current);
        let all = queue.active.len() + queue.expired.len();
        assert_eq!((all, queue.tasks), (2, 2), "no task is lost between the arrays");
    }
    assert_eq!(order, [(0, 25), (1, 25), (0, 25), (1, 25)]);
}

#[test]
fn sleep_earns_a_bonus_and_running_costs_it() {
    let mut queue = queue();
    let tasks = [task(0)];
    let task = &tasks[0];
    queue.enqueue(task, Enqueue::Moved, 0);
    assert_eq!(task.entity.o1.prio.get(), 125, "a task that never slept");
    pick(&mut queue, &tasks);
    queue.dequeue(task, Dequeue::Sleeps);
    // 50 ms of sleep count tenfold while the bonus is 0.
    queue.enqueue(task, Enqueue::Woken, 50 * MS);
    assert_eq!((bonus(&task.entity.o1), task.entity.o1.prio.get()), (5, 120));
    pick(&mut queue, &tasks);
    queue.dequeue(task, Dequeue::Sleeps);
    // A sleep of more than 0.8 s is worth 0.9 s at once.
    queue.enqueue(task, Enqueue::Woken, 2000 * MS);
    assert_eq!((bonus(&task.entity.o1), task.entity.o1.prio.get()), (9, 116));
    assert!(interactive(task));
    pick(&mut queue, &tasks);
    task.entity.exec_start.set(2000 * MS);
    // Run time is divided by the bonus.
    queue.charge(task, 2450 * MS);
    queue.put_back(task);
    assert_eq!(task.entity.o1.sleep_avg.get(), 850 * MS);
}

#[test]
fn an_interactive_task_stays_active_and_preempts() {
    let mut queue = queue();
    let tasks = [task(0), task(1)];
    queue.enqueue(&tasks[0], Enqueue::Moved, 0);
    let hog = pick(&mut queue, &tasks);
    let sleeper = &tasks[1];
    queue.enqueue(sleeper, Enqueue::Woken, 900 * MS);
    assert!(queue.preempts(sleeper, &hog));
    queue.put_back(&hog);
    assert_eq!(pick(&mut queue, &tasks).id, 1);
    sleeper.entity.o1.left.set(1);
    assert!(queue.tick(sleeper), "its slice is over");
    assert!(!sleeper.entity.o1.expired.get());
    // Until the expired tasks have waited for a second for each task of the queue.
    queue.expired_at = Some(0);
    sleeper.entity.exec_start.set(2100 * MS);
    sleeper.entity.o1.left.set(1);
    assert!(queue.tick(sleeper) && sleeper.entity.o1.expired.get());
}

#[test]
fn a_child_runs_first_on_half_the_slice_and_gives_the_rest_back() {
    let mut queue = queue();
    let tasks = [task(0), task(1)];
    queue.enqueue(&tasks[0], Enqueue::Moved, 0);
    let parent = pick(&mut queue, &tasks);
    let child = &tasks[1];
    *child.parent.borrow_mut() = Rc::downgrade(&parent);
    queue.enqueue_new(child, Some(&parent));
    assert_eq!((parent.entity.o1.left.get(), child.entity.o1.left.get()), (12, 13));
    queue.put_back(&parent);
    assert_eq!(pick(&mut queue, &tasks).id, 1);
    child.state.set(State::Dead);
    queue.dequeue(child, Dequeue::Leaves);
    assert_eq!(parent.entity.o1.left.get(), 25);
}

#[test]
fn children_of_children_all_have_their_turn() {
    let mut queue = queue();
    let tasks: Vec<_> = (0..4).map(task).collect();
    queue.enqueue(&tasks[0], Enqueue::Moved, 0);
    let mut parent = pick(&mut queue, &tasks);
    for child in &tasks[1..] {
        queue.enqueue_new(child, Some(&parent));
        queue.put_back(&parent);
        parent = pick(&mut queue, &tasks);
        assert_eq!(parent.id, child.id);
    }
    queue.put_back(&parent);
    let order: Vec<_> = (0..4).map(|_| pick(&mut queue, &tasks).id).collect();
    assert_eq!(order.len(), 4);
    assert!((0..4).all(|id| order.contains(&id)), "{order:?}");
}
