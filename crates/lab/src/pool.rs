//! Cells side by side: a simulation on each thread, results in the order of the plan. A cell that
//! measures this machine runs alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use convoy_workload::draw::{Lcg, shuffle};

use crate::job::{Job, JobError};

/// Interval at which the caller is asked whether to continue.
pub const LOOK: Duration = Duration::from_millis(100);

/// Events that a pool reports to its caller.
#[derive(Debug)]
pub enum News<'a, T> {
    /// A cell has an outcome, or the reason why it has none.
    Done(usize, &'a Result<T, JobError>),
    /// Nothing new; the caller may want to stop.
    Nothing,
}

/// The caller's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Continue.
    Continue,
    /// Start no other cell and return.
    Stop,
}

/// Results of the cells, in their order; `None` for a cell that was not run or not finished.
pub type Results<T> = Vec<Option<Result<T, JobError>>>;

/// The callback that receives events and decides whether to continue.
pub type Watch<'a, T> = dyn FnMut(News<T>) -> Answer + 'a;

/// Runs the cells of `jobs` with the numbers in `wanted` by `execute`, `threads` simulations at a
/// time.
pub fn run<T: Send + 'static>(
    jobs: &[Job],
    wanted: &[usize],
    threads: usize,
    execute: impl Fn(&Job) -> Result<T, JobError> + Send + Sync + 'static,
    watch: &mut Watch<T>,
) -> Results<T> {
    let mut results = Vec::new();
    results.resize_with(jobs.len(), || None);
    let (alone, beside): (Vec<usize>, Vec<usize>) =
        wanted.iter().partition(|&&index| jobs[index].measures());
    for index in drawn(jobs, alone) {
        if watch(News::Nothing) == Answer::Stop {
            return results;
        }
        let result = execute(&jobs[index]);
        let answer = watch(News::Done(index, &result));
        results[index] = Some(result);
        if answer == Answer::Stop {
            return results;
        }
    }
    let cells: Vec<_> = beside.iter().map(|&index| (index, jobs[index].clone())).collect();
    for (index, result) in simulate(cells, threads, execute, watch).into_iter().enumerate() {
        if result.is_some() {
            results[index] = result;
        }
    }
    results
}

/// Measurements in rounds, one for each seed, each round in an order drawn with its seed: what
/// drifts on the machine then meets all points alike.
fn drawn(jobs: &[Job], alone: Vec<usize>) -> Vec<usize> {
    let mut rounds = std::collections::BTreeMap::<u64, Vec<usize>>::new();
    for index in alone {
        rounds.entry(jobs[index].seed()).or_default().push(index);
    }
    let mut order = Vec::new();
    for (seed, mut round) in rounds {
        shuffle(&mut Lcg::for_user(seed, 0), &mut round);
        order.extend(round);
    }
    order
}

/// Runs `cells`, each with its number, `threads` at a time.
pub fn simulate<C: Send + Sync + 'static, T: Send + 'static>(
    cells: Vec<(usize, C)>,
    threads: usize,
    execute: impl Fn(&C) -> Result<T, JobError> + Send + Sync + 'static,
    watch: &mut Watch<T>,
) -> Results<T> {
    let mut results = Vec::new();
    results.resize_with(cells.iter().map(|(index, _)| index + 1).max().unwrap_or(0), || None);
    let (cells, execute) = (Arc::new(cells), Arc::new(execute));
    let next = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..threads.clamp(1, cells.len().max(1)) {
        let (cells, next, sender) = (Arc::clone(&cells), Arc::clone(&next), sender.clone());
        let execute = Arc::clone(&execute);
        // Detached: after an interrupt the process ends without waiting for the running cells.
        std::thread::spawn(move || {
            loop {
                // Relaxed: the counter only hands out numbers.
                let Some((index, job)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    return;
                };
                if sender.send((*index, execute(job))).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    loop {
        let answer = match receiver.recv_timeout(LOOK) {
            Ok((index, result)) => {
                let answer = watch(News::Done(index, &result));
                results[index] = Some(result);
                answer
            }
            Err(mpsc::RecvTimeoutError::Timeout) => watch(News::Nothing),
            Err(mpsc::RecvTimeoutError::Disconnected) => return results,
        };
        if answer == Answer::Stop {
            // No thread takes another number.
            next.store(cells.len(), Ordering::Relaxed);
            return results;
        }
    }
}
