//! Simulations side by side: each on one thread, results in the order of the cells.

use crate::args::Common;
use crate::fail::Failure;
use crate::output;
use convoy_host::Interrupts;
use convoy_lab::host_experiment::HostCell;
use convoy_lab::virtual_end::VirtualError;
use convoy_lab::virtual_run::{VirtualPoint, VirtualRun};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Environment variable with the number of simulations at a time, where no flag says it.
const THREADS: &str = "CONVOY_THREADS";
/// How often the main thread looks for an interrupt.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A simulation, on the thread that calls.
pub(crate) trait Simulation: Send + Sync + 'static {
    /// What comes out.
    type Point: Clone + Send;
    /// Runs it.
    fn run(&self) -> Result<Self::Point, VirtualError>;
}

impl Simulation for VirtualRun {
    type Point = VirtualPoint;
    fn run(&self) -> Result<VirtualPoint, VirtualError> {
        self.run()
    }
}

impl Simulation for HostCell {
    type Point = f64;
    fn run(&self) -> Result<f64, VirtualError> {
        self.run()
    }
}

/// What a pool of simulations gave.
pub(crate) struct Done<P = VirtualPoint> {
    /// One for each cell, in their order; `None` where an interrupt came first.
    pub(crate) points: Vec<Option<P>>,
    /// Whether an interrupt came.
    pub(crate) interrupted: bool,
}

/// Runs `work` on a thread of its own, so that an interrupt ends the command at once.
pub(crate) fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, VirtualError> + Send + 'static,
) -> Result<T, Failure> {
    let interrupts = Interrupts::catch();
    let (sender, receiver) = mpsc::channel();
    // Detached, as below. That nobody waits for the result any more is no failure.
    std::thread::spawn(move || sender.send(work()).is_ok());
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(result) => return result.map_err(Failure::environment),
            Err(mpsc::RecvTimeoutError::Timeout) if interrupts.pending() => {
                return Err(Failure::interrupted(0));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let text = "a simulation ended without a result; see above";
                return Err(Failure::environment(text));
            }
        }
    }
}

/// Runs `cells`, `threads` at a time. An interrupt keeps what is finished.
pub(crate) fn run<S: Simulation>(
    common: &Common,
    what: &str,
    cells: Vec<S>,
    threads: Option<u16>,
) -> Result<Done<S::Point>, Failure> {
    let interrupts = Interrupts::catch();
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let available = match std::env::var(THREADS) {
        Ok(text) => text.parse().ok().filter(|&threads| threads > 0).ok_or_else(|| {
            Failure::usage(format!("{THREADS}={text} is no count of threads; unset it or give one"))
        })?,
        Err(_) => available,
    };
    let threads = threads.map_or(available, usize::from).min(cells.len().max(1));
    let bar = output::progress(common, cells.len() as u64);
    bar.set_message(what.to_owned());
    let cells = Arc::new(cells);
    let next = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..threads {
        let (cells, next, sender) = (Arc::clone(&cells), Arc::clone(&next), sender.clone());
        // Detached: after an interrupt the process ends without waiting for the running cells.
        std::thread::spawn(move || {
            loop {
                // Relaxed: the counter only hands out numbers.
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(cell) = cells.get(index) else { return };
                if sender.send((index, cell.run())).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut points = vec![None; cells.len()];
    let mut interrupted = false;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok((index, result)) => {
                points[index] = Some(result.map_err(Failure::environment)?);
                bar.inc(1);
            }
            Err(mpsc::RecvTimeoutError::Timeout) if interrupts.pending() => {
                interrupted = true;
                break;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    bar.finish_and_clear();
    if !interrupted && points.iter().any(Option::is_none) {
        return Err(Failure::environment("a simulation ended without a result; see above"));
    }
    Ok(Done { points, interrupted })
}
