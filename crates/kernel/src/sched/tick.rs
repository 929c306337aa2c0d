//! Ticks, slices and timers of the hardware; an idle CPU stops its tick.

use super::nohz::state::NoHz;
use super::queue::RunQueues;
use super::scheduler::Sched;
use crate::softirq::rules::Vector;
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
        let extended = queue.extended_until.get().unwrap_or(u64::MAX);
        Here::set_timer(queue.tick_at.get().min(queue.slice_at.get()).min(extended));
    }

    /// Starts the slice of the task just picked; without one the CPU has at most one task.
    pub(crate) fn start_slice(&self, slice_ns: Option<u64>) {
        if !self.config.hrtick {
            return;
        }
        let expiry = slice_ns
            .map_or(u64::MAX, |slice| Here::now_ps() + slice.max(SLICE_TIMER_MIN_NS) * 1000);
        self.rq.this().slice_at.set(expiry);
        self.program_timer();
    }

    pub(crate) fn timer_interrupt(&self, user: bool) {
        let queue = self.rq.this();
        let now = Here::now_ps();
        if queue.slice_at.get() <= now {
            queue.slice_at.set(u64::MAX);
            queue.need_resched.set(true);
        }
        if queue.extended_until.get().is_some_and(|until| until <= now) {
            queue.extended_until.set(Some(u64::MAX));
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
        self.sleepers.run_deadlines();
        end_rt_period(&self.rq);
        self.rq.load_average.tick(self.rq.jiffies(), self.config.hz, self.rq.loads.all());
        self.softirqs.raise(Vector::Timer);
        if let Some(rcu) = &self.rcu {
            rcu.tick(user);
        }
        queue.lock.lock();
        self.rq.loads.tick(Here::cpu(), self.rq.jiffies());
        if !queue.is_idle() {
            self.rq.charge_current(queue);
            check_slice(&self.rq);
        }
        if self.rq.rt_limits.tick(Here::cpu()) && queue.rt.borrow().best().is_some() {
            queue.need_resched.set(true);
        }
        let (cpu, ordinary) = (Here::cpu(), self.rq.loads.weight(Here::cpu()) > 0);
        if self.rq.fair_servers.tick(cpu, ordinary, Here::now_ns()) {
            queue.need_resched.set(true);
        }
        queue.lock.unlock();
        queue.idle_at_tick.set(queue.is_idle());
        let due = self.rq.jiffies() >= queue.next_balance.get();
        let served = self.nohz.as_ref().is_some_and(|nohz| nohz.tick(due));
        if due && !served {
            self.softirqs.raise(Vector::Sched);
        }
    }

    /// The softirq of the scheduler: periodic balancing, also for CPUs with stopped ticks.
    pub(super) fn balance_softirq(&self) {
        let idle = self.rq.this().idle_at_tick.get();
        if self.nohz.as_ref().is_some_and(|nohz| nohz.balance_first(idle)) {
            return;
        }
        self.balancer.rebalance(Here::cpu(), idle);
        if let Some(nohz) = &self.nohz {
            nohz.balance(idle);
        }
    }

    /// Earliest deadline that `cpu` has to tick for, in nanoseconds.
    fn next_timer(&self, cpu: usize) -> Option<u64> {
        let sleep = self.sleepers.first_deadline();
        let timer = self.agendas.first_timer(cpu);
        [sleep, timer, self.rq.rt_limits.period_end(cpu)].into_iter().flatten().min()
    }

    /// Before an idle CPU halts: stop its tick if nothing needs it.
    pub(crate) fn enter_idle(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        let ticks = self.nohz.as_ref().is_none_or(|nohz| self.keeps_tick(nohz, cpu));
        self.rq.loads.idlers.ticks(cpu, ticks, Here::now_ps());
        if ticks {
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

    /// Returns whether `cpu`, about to idle, keeps its tick.
    fn keeps_tick(&self, nohz: &NoHz<Self>, cpu: usize) -> bool {
        if let Some(rcu) = &self.rcu {
            if rcu.needs_tick() {
                return true;
            }
            rcu.note_tick_stopped(cpu, true);
        }
        nohz.keeps_tick(cpu)
    }

    /// After idling: restarts the tick at its old phase.
    pub(crate) fn leave_idle(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        let Some(nohz) = &self.nohz else { return };
        if let Some(rcu) = &self.rcu {
            rcu.note_tick_stopped(cpu, false);
        }
        nohz.restart(cpu);
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

/// The period of real-time tasks may be over for all CPUs. Without such work the timer stops.
fn end_rt_period(rq: &RunQueues) {
    let limits = &rq.rt_limits;
    let Some(periods) = limits.periods_over() else { return };
    let mut busy = false;
    for (cpu, queue) in rq.queues.iter().enumerate() {
        queue.lock.lock();
        let (freed, ran) = limits.refill(cpu, periods);
        let queued = queue.rt.borrow().best().is_some();
        busy |= queued || ran;
        if freed && queued {
            rq.resched(cpu);
        }
        queue.lock.unlock();
    }
    if !busy {
        limits.stop_timer();
    }
}

/// Requests a reschedule if the slice of the running task, just charged, is over. Where a timer
/// ends the slice, the tick does not check it.
fn check_slice(rq: &RunQueues) {
    let queue = rq.this();
    if queue.slice_at.get() != u64::MAX {
        return;
    }
    let current = rq.tcb(queue.curr.get());
    if RunQueues::turn_is_over(queue, &current) {
        queue.need_resched.set(true);
    }
}
