//! Locks of async tasks: every order of a few steps, how far tasks go past a queue, waits that are
//! dropped, and a runtime.

use convoy_sync::future::{Acquire, Mutex, Permit, Semaphore};
use convoy_watchdog as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Remembers that a task was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A task: it waits for a permit, or has one, or neither.
#[derive(Default)]
struct Task<'a> {
    flag: Arc<Flag>,
    wait: Option<Acquire<'a>>,
    permit: Option<Permit<'a>>,
}

impl<'a> Task<'a> {
    fn is_woken(&self) -> bool {
        self.flag.0.load(Relaxed)
    }

    /// Begins to wait, or continues. Returns whether it has a permit then.
    fn poll(&mut self, semaphore: &'a Semaphore) -> bool {
        self.flag.0.store(false, Relaxed);
        let wait = self.wait.get_or_insert_with(|| semaphore.acquire());
        let waker = Waker::from(Arc::clone(&self.flag));
        if let Poll::Ready(permit) = pin!(wait).poll(&mut Context::from_waker(&waker)) {
            (self.wait, self.permit) = (None, Some(permit));
        }
        self.permit.is_some()
    }

    /// Does a step: 0 polls, also without a reason, 1 drops the wait or releases the permit.
    fn step(&mut self, semaphore: &'a Semaphore, step: usize) {
        match step {
            0 if self.permit.is_none() => drop(self.poll(semaphore)),
            _ => (self.wait, self.permit) = (None, None),
        }
    }
}

/// How many go past a queue in a row.
const PASSES: usize = 16;

const TASKS: usize = 3;

/// Steps of a task and of which: 6 of them.
fn run(permits: u32, passed: usize, steps: &[usize]) {
    let semaphore = Semaphore::new(permits);
    {
        let mut tasks: [Task; TASKS] = Default::default();
        let mut others: Vec<Permit> =
            (0..permits).filter_map(|_| semaphore.try_acquire()).collect();
        if passed > 0 {
            assert!(!tasks[0].poll(&semaphore));
            for _ in 0..passed {
                others.pop();
                let mut passer = Task::default();
                assert!(passer.poll(&semaphore), "it may go past the queue");
                others.extend(passer.permit);
            }
        }
        drop(others);
        for (at, step) in steps.iter().enumerate() {
            tasks[step / 2].step(&semaphore, step % 2);
            let held = tasks.iter().filter(|task| task.permit.is_some()).count() as u32;
            let free = semaphore.available();
            let waiting = || tasks.iter().filter(|task| task.wait.is_some());
            let so_far = &steps[..=at];
            assert!(held + free <= permits, "{so_far:?}: {held} held, {free} free");
            assert_eq!(semaphore.waiters(), waiting().count(), "{so_far:?}");
            if held < permits && waiting().next().is_some() {
                assert!(waiting().any(Task::is_woken), "{so_far:?}: nobody comes for a permit");
            }
        }
    }
    assert_eq!((semaphore.available(), semaphore.waiters()), (permits, 0), "{steps:?}");
}

#[test]
fn no_order_of_steps_loses_a_permit_or_a_wake_up() {
    let length: u32 = if cfg!(miri) { 2 } else { 6 };
    for (permits, passed) in [(1, 0), (2, 0), (1, PASSES - 1), (1, PASSES), (2, PASSES)] {
        for code in 0..(2 * TASKS).pow(length) {
            let step = |at| code / (2 * TASKS).pow(at) % (2 * TASKS);
            run(permits, passed, &(0..length).map(step).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_bounded_number_goes_past_the_queue() {
    let semaphore = Semaphore::new(1);
    let (mut greedy, mut first) = (Task::default(), Task::default());
    assert!(greedy.poll(&semaphore) && !first.poll(&semaphore));
    let mut passes = 0;
    loop {
        greedy.permit = None;
        if !greedy.poll(&semaphore) {
            break;
        }
        passes += 1;
    }
    assert_eq!(passes, PASSES);
    assert!(first.is_woken() && first.poll(&semaphore), "the permit is its own");
    first.permit = None;
    assert!(greedy.is_woken() && greedy.poll(&semaphore));
}

#[test]
fn a_second_free_permit_is_left_to_the_first_as_well() {
    let semaphore = Semaphore::new(2);
    let (mut one, mut other, mut first) = (Task::default(), Task::default(), Task::default());
    assert!(one.poll(&semaphore) && other.poll(&semaphore) && !first.poll(&semaphore));
    other.permit = None;
    for _ in 0..PASSES {
        one.permit = None;
        assert!(one.poll(&semaphore));
    }
    assert!(first.is_woken() && semaphore.available() == 0, "it is the first's own");
    assert!(!other.poll(&semaphore), "enough have gone past");
    assert!(first.poll(&semaphore));
}

#[test]
fn a_permit_that_was_given_to_a_dropped_wait_goes_to_the_next() {
    let semaphore = Semaphore::new(1);
    let mut tasks: [Task; 3] = Default::default();
    for task in &mut tasks {
        task.poll(&semaphore);
    }
    for _ in 0..PASSES {
        tasks[0].permit = None;
        assert!(tasks[0].poll(&semaphore));
    }
    tasks[0].permit = None;
    assert!(tasks[1].is_woken() && semaphore.available() == 0, "it was given to the first");
    tasks[1].wait = None;
    assert!(tasks[2].is_woken() && tasks[2].poll(&semaphore));
}

#[test]
fn tasks_of_a_runtime_exclude_each_other_though_some_give_up() {
    const TASKS: u64 = if cfg!(miri) { 3 } else { 20 };
    const ROUNDS: u64 = if cfg!(miri) { 5 } else { 500 };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().expect("a runtime");
    let total = Arc::new(Mutex::new(0));
    let task = |index: u64| {
        let total = Arc::clone(&total);
        async move {
            let mut done = 0;
            for round in 0..ROUNDS {
                let patience = Duration::from_micros(index * round % 50);
                let guard = match (index + round) % 4 {
                    0 => tokio::time::timeout(patience, total.lock()).await.ok(),
                    _ => Some(total.lock().await),
                };
                if let Some(mut guard) = guard {
                    let before = *guard;
                    tokio::task::yield_now().await;
                    *guard = before + 1;
                    done += 1;
                }
            }
            done
        }
    };
    let tasks: Vec<_> = (0..TASKS).map(|index| runtime.spawn(task(index))).collect();
    let done: u64 = tasks.into_iter().map(|task| runtime.block_on(task).expect("no panic")).sum();
    assert_eq!(*runtime.block_on(total.lock()), done);
    assert!(done >= TASKS * ROUNDS / 4 * 3);
}

#[test]
fn permits_can_be_kept_and_added() {
    let semaphore = Semaphore::new(0);
    let mut task = Task::default();
    assert!(!task.poll(&semaphore) && semaphore.try_acquire().is_none());
    semaphore.add(2);
    assert!(task.is_woken() && task.poll(&semaphore));
    task.permit.take().expect("it has one").keep();
    assert_eq!((semaphore.available(), format!("{semaphore:?}").contains('1')), (1, true));
}
