//! Ticks, slices and timers of the hardware.

use super::queue::RunQueues;
use super::scheduler::Sched;
use crate::softirq::Vector;
use convoy_machine::Here;
use convoy_sync::RawLock;

/// A slice timer is never set shorter than this after a pick, in nanoseconds (`hrtick_start_fair`).
const SLICE_TIMER_MIN_NS: u64 = 10_000;

impl Sched {
    /// Phase of the tick of `cpu`: from 2.6.23 to 2.6.35 the CPUs' ticks are spread over half a
    /// period, before and after they fall together.
    pub(crate) fn tick_offset(&self, cpu: usize) -> u64 {
        let step = self.rq.tick_ps / 2 / self.rq.queues.len() as u64;
        if self.config.skew_tick { step * cpu as u64 } else { 0 }
    }

    /// Programs this CPU's timer for the next thing it has to do.
    pub(crate) fn program_timer(&self) {
        let queue = self.rq.this();
        Here::set_timer(queue.tick_at.get().min(queue.slice_at.get()));
    }

    /// Starts the slice of the task just picked; without one the CPU has at most one task.
    pub(crate) fn start_slice(&self, slice_ns: Option<u64>) {
        if !self.config.hrtick {
            return;
        }
        let at = slice_ns
            .map_or(u64::MAX, |slice| Here::now_ps() + slice.max(SLICE_TIMER_MIN_NS) * 1000);
        self.rq.this().slice_at.set(at);
        self.program_timer();
    }

    pub(crate) fn timer_interrupt(&self, user: bool) {
        let queue = self.rq.this();
        let now = Here::now_ps();
        if queue.slice_at.get() <= now {
            queue.slice_at.set(u64::MAX);
            queue.need_resched.set(true);
        }
        if queue.tick_at.get() <= now {
            let mut next = queue.tick_at.get();
            while next <= now {
                next += self.rq.tick_ps;
            }
            queue.tick_at.set(next);
            self.tick(user);
        }
        self.program_timer();
    }

    /// The periodic tick: timers, load averages, RCU, slice of the running task, balancing.
    fn tick(&self, user: bool) {
        let queue = self.rq.this();
        Here::pass(self.rq.costs.tick);
        self.run_timers();
        self.run_rt_period();
        self.rq.load_average.tick(self.rq.jiffies(), self.config.hz, self.rq.loads.all());
        self.raise_softirq(Vector::Timer);
        self.tick_rcu(user);
        queue.lock.lock();
        self.rq.loads.tick(Here::cpu(), self.rq.jiffies());
        if !queue.is_idle() {
            self.rq.charge_current(queue);
            self.check_slice();
        }
        if self.rq.rt_limits.tick(Here::cpu()) && queue.rt.borrow().best().is_some() {
            queue.need_resched.set(true);
        }
        queue.lock.unlock();
        queue.idle_at_tick.set(queue.is_idle());
        self.trigger_balance();
    }

    /// The period of real-time tasks may be over for all CPUs. Without such work the timer stops.
    fn run_rt_period(&self) {
        let limits = &self.rq.rt_limits;
        let Some(periods) = limits.periods_over() else { return };
        let mut busy = false;
        for (cpu, queue) in self.rq.queues.iter().enumerate() {
            queue.lock.lock();
            let (freed, ran) = limits.refill(cpu, periods);
            let queued = queue.rt.borrow().best().is_some();
            busy |= queued || ran;
            if freed && queued {
                self.rq.resched(cpu);
            }
            queue.lock.unlock();
        }
        if !busy {
            limits.stop_timer();
        }
    }

    /// Whether the slice of the running task, just charged, is over. Where a timer ends it, the
    /// tick does not look.
    fn check_slice(&self) {
        let queue = self.rq.this();
        if queue.slice_at.get() != u64::MAX {
            return;
        }
        let current = self.rq.tcb(queue.curr.get());
        if RunQueues::turn_is_over(queue, &current) {
            queue.need_resched.set(true);
        }
    }
}
