//! The fair clock, `wait_runtime` of tasks, and when a turn ends, without a machine.

use super::*;

const MS: u64 = 1_000_000;

fn task(id: TaskId, nice: i8) -> Rc<Tcb> {
    let task = Rc::new(Tcb::new(id, 0));
    task.entity.set_nice(nice);
    task
}

/// One CPU with tasks that sleep only when the test says so.
struct Stage {
    queue: Queue,
    tasks: Vec<Rc<Tcb>>,
    current: Rc<Tcb>,
    now: u64,
}

impl Stage {
    /// Tasks of these nice values on a machine of one CPU; the first one runs.
    fn new(nice: &[i8]) -> Self {
        let mut queue = Queue::new(1);
        let tasks: Vec<_> = nice.iter().zip(0..).map(|(&nice, id)| task(id, nice)).collect();
        for task in &tasks {
            queue.enqueue(task, Enqueue::Moved, 0);
        }
        let current = queue.pick(&|id| Rc::clone(&tasks[id as usize])).expect("a task");
        Self { queue, tasks, current, now: 0 }
    }

    fn pick(&mut self) {
        let tasks = &self.tasks;
        self.current = self.queue.pick(&|id| Rc::clone(&tasks[id as usize])).expect("a task");
        self.current.entity.exec_start.set(self.now);
        self.current.entity.picked_at.set(self.current.entity.sum_exec.get());
    }

    fn charge(&mut self, ns: u64) {
        self.now += ns;
        self.queue.charge(&self.current, self.now);
    }

    /// Runs for `ticks` ticks of `ns`; the turns that ended, in nanoseconds.
    fn run(&mut self, ticks: u64, ns: u64) -> Vec<u64> {
        let mut turns = Vec::new();
        for _ in 0..ticks {
            self.charge(ns);
            if self.queue.tick(&self.current) {
                let entity = &self.current.entity;
                turns.push(entity.sum_exec.get() - entity.picked_at.get());
                self.queue.put_back(&self.current);
                self.pick();
            }
        }
        turns
    }

    /// The `wait_runtime` of all, waits that have not ended included, less what sleepers were
    /// given.
    fn sum(&self) -> i64 {
        let waiting = |task: &&Rc<Tcb>| task.entity.key.get().is_some();
        let missed: i64 =
            self.tasks.iter().filter(waiting).map(|task| self.queue.missed(task)).sum();
        let sum: i64 =
            self.tasks.iter().map(|task| task.entity.fair_clock.wait_runtime.get()).sum();
        sum + missed - self.queue.bonus
    }
}

#[test]
fn constants_scale_with_cpus() {
    for (cpus, ms) in [(1, [20, 2, 1]), (4, [60, 6, 3]), (8, [80, 8, 4]), (64, [100, 14, 7])] {
        let queue = Queue::new(cpus);
        let scaled = [queue.latency, queue.min_granularity, queue.wakeup_granularity];
        assert_eq!(scaled.map(|ns| ns / MS), ms, "{cpus} CPUs");
    }
}

#[test]
fn the_granularity_shrinks_with_the_queue() {
    let mut queue = Queue::new(1);
    let granularity = [1, 2, 4, 5, 10, 100].map(|tasks| {
        queue.tasks = tasks;
        queue.granularity() / 10_000
    });
    assert_eq!(granularity, [2000, 500, 375, 320, 200, 200]);
}

/// n tasks come round once in a latency, up to the tick.
#[test]
fn turns_last_a_latency_over_the_tasks() {
    for (tasks, ms) in [(2, 10..=11), (4, 5..=6), (10, 2..=3), (50, 2..=3)] {
        let mut stage = Stage::new(&vec![0; tasks]);
        stage.run(200, MS / 4);
        let turns = stage.run(40_000, MS / 4);
        let mean = turns.iter().sum::<u64>() as f64 / turns.len() as f64 / MS as f64;
        assert!((*ms.start() as f64..=*ms.end() as f64).contains(&mean), "{tasks}: {mean} ms");
    }
}

#[test]
fn hogs_share_within_one_percent() {
    for tasks in [2, 3, 7, 20] {
        let mut stage = Stage::new(&vec![0; tasks]);
        stage.run(5000, 4 * MS);
        let share = stage.now as f64 / tasks as f64;
        for task in &stage.tasks {
            let ratio = task.entity.sum_exec.get() as f64 / share;
            assert!((ratio - 1.0).abs() < 0.01, "{tasks} tasks: {ratio}");
        }
    }
}

#[test]
fn a_niced_hog_gets_its_weight() {
    for nice in [-5, 5, 10] {
        let mut stage = Stage::new(&[0, nice]);
        stage.run(100_000, MS);
        let ran = |task: usize| stage.tasks[task].entity.sum_exec.get() as f64;
        let weight = stage.tasks[1].entity.weight() as f64 / WEIGHT as f64;
        let ratio = ran(1) / ran(0) / weight;
        assert!((ratio - 1.0).abs() < 0.02, "nice {nice}: {ratio} of its share");
    }
}

/// One task's gain is another's loss, whichever task runs.
#[test]
fn all_wait_runtime_sums_to_nothing() {
    let mut stage = Stage::new(&[0, 0, 5, -3, 10]);
    for step in 0..2000 {
        stage.run(1 + step % 3, MS);
        // One ns for each rounding.
        let roundings = 5 * stage.now / MS;
        assert!(stage.sum().unsigned_abs() <= roundings, "{} after {step} steps", stage.sum());
    }
}

/// Puts the running task to sleep for `ns` of the others' time, wakes it and returns it.
fn nap(stage: &mut Stage, ns: u64) -> Rc<Tcb> {
    let sleeper = Rc::clone(&stage.current);
    stage.queue.dequeue(&sleeper, Dequeue::Sleeps);
    stage.pick();
    stage.run(ns / MS, MS);
    stage.queue.enqueue(&sleeper, Enqueue::Woken, stage.now);
    sleeper
}

#[test]
fn a_sleeper_is_credited_up_to_a_latency() {
    for (slept, credit) in [(4 * MS, 2 * MS), (20 * MS, 10 * MS), (10_000 * MS, 20 * MS)] {
        let mut stage = Stage::new(&[0, 0, 0]);
        let sleeper = nap(&mut stage, slept);
        // Two others ran meanwhile, so the clock made half the time.
        assert_eq!(sleeper.entity.fair_clock.wait_runtime.get(), credit as i64);
        assert_eq!(stage.queue.bonus, credit as i64);
        assert_eq!(stage.sum(), 0);
        assert!(stage.queue.preempts(&sleeper, &stage.current) || slept < 10 * MS);
    }
}

#[test]
fn those_that_run_pay_for_the_credit_but_for_a_granularity() {
    let mut stage = Stage::new(&[0, 0, 0]);
    nap(&mut stage, 20 * MS);
    stage.run(300, MS);
    assert!(stage.queue.bonus <= 2 * MS as i64, "{} ns are left", stage.queue.bonus);
    assert!(stage.sum().abs() < 1000, "{}", stage.sum());
}

#[test]
fn no_credit_while_more_than_a_latency_is_not_paid() {
    let mut stage = Stage::new(&[0, 0]);
    // The other one pays a part of it back during the nap.
    stage.queue.bonus = stage.queue.limit() + 2 * MS as i64;
    let sleeper = nap(&mut stage, MS);
    assert_eq!(sleeper.entity.fair_clock.wait_runtime.get(), 0);
}

#[test]
fn a_child_runs_first_and_starts_with_a_debit() {
    let mut stage = Stage::new(&[0, 0]);
    let parent = Rc::clone(&stage.current);
    let child = task(2, 0);
    stage.queue.enqueue_new(&child, Some(&parent));
    assert_eq!(child.entity.fair_clock.wait_runtime.get(), -(5 * MS as i64 / 2));
    stage.tasks.push(child);
    assert!(stage.queue.preempts(&stage.tasks[2], &parent));
    stage.queue.put_back(&parent);
    stage.pick();
    assert_eq!(stage.current.id, 2);
    // At its first tick the debit counts.
    stage.charge(MS);
    stage.queue.tick(&stage.current);
    assert!(stage.current.entity.fair_clock.key.get().0 > parent.entity.fair_clock.key.get().0);
}

#[test]
fn a_wakeup_compares_with_the_key_of_the_last_tick() {
    let mut stage = Stage::new(&[0, 0]);
    stage.run(1, 4 * MS);
    let (current, other) = (Rc::clone(&stage.current), task(2, 0));
    let before = stage.current.entity.fair_clock.key.get().0;
    stage.charge(MS);
    assert_eq!(current.entity.fair_clock.key.get().0, before);
    stage.queue.enqueue(&other, Enqueue::Moved, stage.now);
    stage.queue.place_at(&other, before - MS as i64);
    assert!(!stage.queue.preempts(&other, &current), "a lead of the granularity is not enough");
    stage.queue.place_at(&other, before - MS as i64 - 1);
    assert!(stage.queue.preempts(&other, &current));
}
