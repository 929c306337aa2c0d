//! State of the stopped ticks.

use crate::irq::Agendas;
use crate::sched::balance::Balancer;
use crate::sched::balance::rules::Stopped;
use crate::sched::queue::RunQueues;
use crate::softirq::state::Softirqs;
use core::cell::{Cell, RefCell};
use std::rc::Rc;

/// The stopped ticks of a machine, and the balancing for CPUs without a tick.
pub(in crate::sched) struct NoHz<S> {
    pub(super) rq: Rc<RunQueues>,
    pub(super) balancer: Rc<Balancer>,
    pub(super) softirqs: Rc<Softirqs<S>>,
    pub(super) agendas: Rc<Agendas<S>>,
    pub(super) stops: Stops,
}

impl<S> NoHz<S> {
    /// All CPUs tick.
    pub(in crate::sched) fn new(
        rule: Stopped,
        balancer: Rc<Balancer>,
        softirqs: Rc<Softirqs<S>>,
        agendas: Rc<Agendas<S>>,
    ) -> Self {
        let rq = Rc::clone(&balancer.rq);
        let stops = Stops::new(rule, rq.queues.len());
        Self { rq, balancer, softirqs, agendas, stops }
    }
}

/// Which ticks are stopped, and which CPU balances for them.
pub(super) struct Stops {
    pub(super) rule: Stopped,
    /// CPUs with stopped ticks; with `Crowded` the CPUs that have not been busy at a tick since.
    pub(super) stopped: RefCell<Vec<bool>>,
    /// The idle CPU that balances for all of them.
    pub(super) owner: Cell<Option<usize>>,
    /// Tick at which the next kick is due.
    pub(super) next_balance: Cell<u64>,
    /// The CPUs that may kick.
    pub(super) pickers: Cell<[Option<usize>; 2]>,
    /// CPUs that have been kicked and have not done the work yet.
    pub(super) kicked: RefCell<Vec<bool>>,
}

impl Stops {
    /// All of `cpus` CPUs tick.
    fn new(rule: Stopped, cpus: usize) -> Self {
        Self {
            rule,
            stopped: RefCell::new(vec![false; cpus]),
            owner: Cell::new(None),
            next_balance: Cell::new(0),
            pickers: Cell::new([None; 2]),
            kicked: RefCell::new(vec![false; cpus]),
        }
    }

    /// A CPU counts as stopped until it ticks busy.
    pub(super) fn is_lazy(&self) -> bool {
        !matches!(self.rule, Stopped::Owner | Stopped::FirstTwo)
    }

    pub(super) fn all_stopped(&self) -> bool {
        self.stopped.borrow().iter().all(|&stopped| stopped)
    }

    pub(super) fn first_stopped(&self) -> Option<usize> {
        self.stopped.borrow().iter().position(|&stopped| stopped)
    }

    pub(super) fn is_stopped(&self, cpu: usize) -> bool {
        self.stopped.borrow()[cpu]
    }

    /// Whether `cpu`, which runs `running` tasks, may kick as one of the first two.
    pub(super) fn picks(&self, cpu: usize, running: u64) -> bool {
        let [first, second] = self.pickers.get();
        let mine = |picker: Option<usize>| picker.is_none_or(|picker| picker == cpu);
        if mine(first) {
            self.pickers.set([Some(cpu), second.filter(|&second| second != cpu)]);
            return running > 1;
        }
        if mine(second) {
            self.pickers.set([first, Some(cpu)]);
            return running > 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_busy_cpus_to_ask_may_kick_and_no_other() {
        let stops = Stops::new(Stopped::FirstTwo, 4);
        assert!(!stops.picks(0, 1), "the first needs two tasks");
        assert!(stops.picks(1, 1), "the second needs one");
        assert!(stops.picks(0, 2));
        assert!(!stops.picks(2, 9), "a third does not kick however long its queue");
    }
}
