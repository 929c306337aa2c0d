//! Idle CPUs stop their tick, and another CPU balances for them.
//!
//! `select_nohz_load_balancer`, `trigger_load_balance`, `nohz_balancer_kick`, `nohz_idle_balance`
//!   of 2.6.25, 3.0 and 3.7, with their defects: which of them a kernel has, its preset says
//!   ([`Stopped`]).

pub(super) mod state;

use super::balance::rules::Stopped;
use super::idlers::IdleCause;
use super::queue::RunQueue;
use super::scheduler::Sched;
use crate::softirq::Vector;
use convoy_machine::Here;

impl Sched {
    /// Decides whether the balancing softirq runs, and which CPU balances for CPUs without ticks.
    pub(super) fn trigger_balance(&self) {
        let queue = self.rq.this();
        let due = self.rq.jiffies() >= queue.next_balance.get();
        if self.config.no_hz {
            match self.nohz.rule {
                Stopped::Owner if self.owner_serves(queue) => return,
                Stopped::FirstTwo if !due => self.first_two_kick(queue),
                Stopped::Owner | Stopped::FirstTwo => {}
                Stopped::Crowded | Stopped::CrowdedOrForgotten => self.crowded_kick(queue),
            }
        }
        if due {
            self.raise_softirq(Vector::Sched);
        }
    }

    /// [`Stopped::Owner`]: whether this CPU leaves its balancing to another one.
    fn owner_serves(&self, queue: &RunQueue) -> bool {
        let cpu = Here::cpu();
        let idle = queue.idle_at_tick.get();
        if queue.in_nohz_recently.get() && !idle {
            queue.in_nohz_recently.set(false);
            self.nohz.stopped.borrow_mut()[cpu] = false;
            self.disown(cpu);
            if self.nohz.owner.get().is_none()
                && let Some(first) = self.nohz.first_stopped()
            {
                self.rq.resched(first);
            }
        }
        let owns = self.nohz.owner.get() == Some(cpu);
        if idle && owns && self.nohz.all_stopped() {
            self.rq.resched(cpu);
            return true;
        }
        idle && !owns && self.nohz.is_stopped(cpu)
    }

    fn first_two_kick(&self, queue: &RunQueue) {
        let cpu = Here::cpu();
        let early = self.rq.jiffies() < self.nohz.next_balance.get();
        if early || queue.idle_at_tick.get() || !self.nohz.picks(cpu, self.rq.loads.running(cpu)) {
            return;
        }
        if let Some(target) = self.nohz.owner.get().or_else(|| self.nohz.first_stopped()) {
            self.kick_balancer(target);
        }
    }

    fn crowded_kick(&self, queue: &RunQueue) {
        let cpu = Here::cpu();
        if queue.idle_at_tick.get() {
            return;
        }
        self.nohz.stopped.borrow_mut()[cpu] = false;
        let early = self.rq.jiffies() < self.nohz.next_balance.get();
        let Some(target) = self.nohz.first_stopped().filter(|_| !early) else { return };
        let mut core = self.wakeups.core_of(cpu);
        let whole = core.len() > 1 && core.all(|cpu| !self.rq.queues[cpu].is_idle());
        if self.rq.loads.running(cpu) < 2 && !whole {
            return;
        }
        self.nohz.next_balance.set(self.nohz.next_balance.get() + 1);
        if self.rq.is_idle_cpu(target) {
            self.kick_balancer(target);
        } else {
            let then = (Here::now_ps() + self.rq.tick_ps, IdleCause::NotServed);
            self.rq.loads.idlers.serves(IdleCause::Misdirected, then, Here::now_ps());
        }
    }

    /// Asks `target` to balance for all idle CPUs, unless it has been asked already.
    fn kick_balancer(&self, target: usize) {
        if core::mem::replace(&mut self.nohz.kicked.borrow_mut()[target], true) {
            if self.nohz.is_lazy() {
                self.note_kick_lost();
            }
            return;
        }
        // Whoever is not looked at by the next tick but one has been forgotten.
        let then = (Here::now_ps() + self.rq.tick_ps, IdleCause::Unexplained);
        self.rq.loads.idlers.serves(IdleCause::Asked, then, Here::now_ps());
        let at = Here::now_ps() + self.rq.costs.ipi;
        self.interrupt_at(target, at, Box::new(Self::kicked));
        Here::pass(self.rq.costs.send);
    }

    fn note_kick_lost(&self) {
        self.rq.loads.idlers.serves_not(IdleCause::KickLost, Here::now_ps());
    }

    /// This CPU looks for all at its own next look.
    fn note_served(&self, cut: bool) {
        let cause = if cut { IdleCause::CutShort } else { IdleCause::NotDue };
        let mut until = self.rq.this().next_balance.get() * self.rq.tick_ps;
        let mut then = IdleCause::NotServed;
        if self.nohz.rule == Stopped::Owner {
            // It ticks, so its look comes with a tick, and takes part of another.
            until = until.max(Here::now_ps()) + 2 * self.rq.tick_ps;
            then = IdleCause::Unexplained;
        }
        self.rq.loads.idlers.serves(cause, (until, then), Here::now_ps());
    }

    /// `cpu` no longer balances for the others, if it did.
    fn disown(&self, cpu: usize) {
        let owner = &self.nohz.owner;
        if owner.get() == Some(cpu) {
            owner.set(None);
            if self.nohz.rule == Stopped::Owner {
                self.rq.loads.idlers.serves_not(IdleCause::NotServed, Here::now_ps());
            }
        }
    }

    /// The interrupt of a kick.
    fn kicked(&self) {
        let queue = self.rq.this();
        if self.nohz.is_lazy() {
            if !self.rq.is_idle_cpu(Here::cpu()) || queue.need_resched.get() {
                let sticks = self.nohz.rule == Stopped::Crowded;
                self.nohz.kicked.borrow_mut()[Here::cpu()] = sticks;
                self.note_kick_lost();
                return;
            }
            queue.idle_at_tick.set(true);
        }
        self.raise_softirq(Vector::Sched);
    }

    /// The softirq of the scheduler: periodic balancing, also for CPUs with stopped ticks.
    pub(crate) fn balance_softirq(&self) {
        let queue = self.rq.this();
        let cpu = Here::cpu();
        let idle = queue.idle_at_tick.get();
        self.balancer.rebalance(cpu, idle);
        if !self.config.no_hz {
            return;
        }
        let kicked = self.nohz.kicked.borrow()[cpu];
        match self.nohz.rule {
            Stopped::Owner if idle && self.nohz.owner.get() == Some(cpu) => {
                let cut = self.serve(queue);
                self.note_served(cut);
            }
            Stopped::Owner => {}
            Stopped::FirstTwo if kicked && !idle => self.note_kick_lost(),
            Stopped::FirstTwo | Stopped::Crowded | Stopped::CrowdedOrForgotten => {
                if kicked && idle {
                    let cut = self.serve(queue);
                    self.nohz.next_balance.set(queue.next_balance.get());
                    self.note_served(cut);
                }
                self.nohz.kicked.borrow_mut()[cpu] = false;
            }
        }
    }

    /// Balances for all CPUs with stopped ticks, until this CPU has a task to run. Returns whether
    /// that cut it short.
    fn serve(&self, queue: &RunQueue) -> bool {
        let cpu = Here::cpu();
        let loads = &self.rq.loads;
        for other in 0..self.rq.queues.len() {
            if other == cpu || !self.nohz.is_stopped(other) {
                continue;
            }
            if queue.need_resched.get() {
                return true;
            }
            match self.nohz.rule {
                Stopped::Owner => {}
                Stopped::FirstTwo => loads.tick(cpu, self.rq.jiffies()),
                _ if self.rq.is_idle_cpu(other) => loads.tick(other, self.rq.jiffies()),
                _ => continue,
            }
            self.balancer.rebalance(other, true);
            let next = self.rq.queues[other].next_balance.get();
            self.rq.set_next_balance(cpu, queue.next_balance.get().min(next));
        }
        false
    }

    /// Before an idle CPU halts: stop its tick if nothing needs it.
    pub(crate) fn enter_idle(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        let ticks = !self.config.no_hz || self.keeps_tick(cpu, queue);
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
    fn keeps_tick(&self, cpu: usize, queue: &RunQueue) -> bool {
        if let Some(rcu) = &self.rcu {
            if rcu.needs_tick() {
                return true;
            }
            rcu.note_tick_stopped(cpu, true);
        }
        self.nohz.stopped.borrow_mut()[cpu] = true;
        queue.in_nohz_recently.set(true);
        let owner = &self.nohz.owner;
        match self.nohz.rule {
            Stopped::Crowded | Stopped::CrowdedOrForgotten => false,
            Stopped::FirstTwo => {
                let others = |picker: Option<usize>| picker.filter(|&picker| picker != cpu);
                self.nohz.pickers.set(self.nohz.pickers.get().map(others));
                owner.set(owner.get().or(Some(cpu)));
                false
            }
            Stopped::Owner if self.nohz.all_stopped() => {
                self.disown(cpu);
                false
            }
            Stopped::Owner => {
                if owner.get().is_none() {
                    owner.set(Some(cpu));
                    self.note_served(false);
                }
                owner.get() == Some(cpu)
            }
        }
    }

    /// After idling: restarts the tick at its old phase.
    pub(crate) fn leave_idle(&self) {
        let cpu = Here::cpu();
        let queue = self.rq.this();
        if !self.config.no_hz {
            return;
        }
        if let Some(rcu) = &self.rcu {
            rcu.note_tick_stopped(cpu, false);
        }
        if !self.nohz.is_lazy() && self.nohz.is_stopped(cpu) {
            self.nohz.stopped.borrow_mut()[cpu] = false;
            self.disown(cpu);
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
