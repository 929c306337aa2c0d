//! Ticks, slices, timers of the hardware, and the stopping of ticks on idle CPUs.

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
        self.rq.loads.tick(Here::cpu());
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

    /// Decides whether the balancing softirq runs, and who balances for CPUs without ticks.
    fn trigger_balance(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        if self.config.no_hz {
            let idle = queue.idle_at_tick.get();
            if queue.in_nohz_recently.get() && !idle {
                queue.in_nohz_recently.set(false);
                self.nohz.stopped.borrow_mut()[cpu] = false;
                if self.nohz.owner.get() == Some(cpu) {
                    self.nohz.owner.set(None);
                }
                if self.nohz.owner.get().is_none() {
                    let first = self.nohz.stopped.borrow().iter().position(|&stopped| stopped);
                    if let Some(first) = first {
                        self.rq.resched(first);
                    }
                }
            }
            let owner = self.nohz.owner.get();
            if idle && owner == Some(cpu) && self.all_stopped() {
                return self.rq.resched(cpu);
            }
            if idle && owner != Some(cpu) && self.nohz.stopped.borrow()[cpu] {
                return;
            }
        }
        if self.rq.jiffies() >= queue.next_balance.get() {
            self.raise_softirq(Vector::Sched);
        }
    }

    fn all_stopped(&self) -> bool {
        self.nohz.stopped.borrow().iter().all(|&stopped| stopped)
    }

    /// The softirq of the scheduler: periodic balancing, also for CPUs whose tick is stopped.
    pub(crate) fn balance_softirq(&self) {
        let queue = self.rq.this();
        let cpu = Here::cpu();
        let idle = queue.idle_at_tick.get();
        self.balancer.rebalance(cpu, idle);
        if self.config.no_hz && idle && self.nohz.owner.get() == Some(cpu) {
            for other in 0..self.rq.queues.len() {
                let stopped = other != cpu && self.nohz.stopped.borrow()[other];
                if !stopped {
                    continue;
                }
                if queue.need_resched.get() {
                    break;
                }
                self.balancer.rebalance(other, true);
                let next = self.rq.queues[other].next_balance.get();
                queue.next_balance.set(queue.next_balance.get().min(next));
            }
        }
    }

    /// Before an idle CPU halts: stop its tick if nothing needs it.
    pub(crate) fn enter_idle(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        if !self.config.no_hz {
            return;
        }
        if let Some(rcu) = &self.rcu {
            if rcu.needs_tick() {
                return;
            }
            rcu.note_tick_stopped(cpu, true);
        }
        self.nohz.stopped.borrow_mut()[cpu] = true;
        queue.in_nohz_recently.set(true);
        let owner = self.nohz.owner.get();
        let keep = if self.all_stopped() {
            if owner == Some(cpu) {
                self.nohz.owner.set(None);
            }
            false
        } else if owner.is_none() {
            self.nohz.owner.set(Some(cpu));
            true
        } else {
            owner == Some(cpu)
        };
        if keep {
            return;
        }
        // The CPU that stops last, or any, still serves the timers: it wakes at the tick after the
        // first deadline.
        let at = self.next_timer(cpu).map_or(u64::MAX, |ns| {
            let due = ns.saturating_mul(1000).max(Here::now_ps());
            let phase = queue.tick_at.get() % self.rq.tick_ps;
            let base = due - due % self.rq.tick_ps + phase;
            if base < due { base + self.rq.tick_ps } else { base }
        });
        queue.tick_at.set(at);
        self.program_timer();
    }

    /// After idling: the tick goes on at its old phase.
    pub(crate) fn leave_idle(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        if !self.config.no_hz {
            return;
        }
        if let Some(rcu) = &self.rcu {
            rcu.note_tick_stopped(cpu, false);
        }
        if self.nohz.stopped.borrow()[cpu] {
            self.nohz.stopped.borrow_mut()[cpu] = false;
            if self.nohz.owner.get() == Some(cpu) {
                self.nohz.owner.set(None);
            }
        }
        let now = Here::now_ps();
        let mut next = now - now % self.rq.tick_ps + self.tick_offset(cpu);
        while next <= now {
            next += self.rq.tick_ps;
        }
        if queue.tick_at.get() > next || queue.tick_at.get() <= now {
            queue.tick_at.set(next);
        }
        self.program_timer();
    }
}
