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
use crate::softirq::rules::Vector;
use convoy_machine::Here;
use state::NoHz;

impl NoHz<Sched> {
    /// At the tick of this CPU, whose balancing is `due`: may ask another CPU to balance for those
    /// without ticks. Returns whether this CPU does not balance now.
    pub(super) fn tick(&self, due: bool) -> bool {
        let queue = self.rq.this();
        match self.stops.rule {
            Stopped::Owner => return self.owner_serves(queue),
            Stopped::FirstTwo if !due => self.first_two_kick(queue),
            Stopped::FirstTwo => {}
            Stopped::Crowded | Stopped::CrowdedOrForgotten => self.crowded_kick(queue),
            Stopped::OthersFirst => self.busy_kick(queue),
        }
        false
    }

    /// [`Stopped::Owner`]: whether this CPU leaves its balancing to another one.
    fn owner_serves(&self, queue: &RunQueue) -> bool {
        let cpu = Here::cpu();
        let idle = queue.idle_at_tick.get();
        if queue.in_nohz_recently.get() && !idle {
            queue.in_nohz_recently.set(false);
            self.stops.stopped.borrow_mut()[cpu] = false;
            self.disown(cpu);
            if self.stops.owner.get().is_none()
                && let Some(first) = self.stops.first_stopped()
            {
                self.rq.resched(first);
            }
        }
        let owns = self.stops.owner.get() == Some(cpu);
        if idle && owns && self.stops.all_stopped() {
            self.rq.resched(cpu);
            return true;
        }
        idle && !owns && self.stops.is_stopped(cpu)
    }

    fn first_two_kick(&self, queue: &RunQueue) {
        let cpu = Here::cpu();
        let early = self.rq.jiffies() < self.stops.next_balance.get();
        if early || queue.idle_at_tick.get() || !self.stops.picks(cpu, self.rq.loads.running(cpu)) {
            return;
        }
        if let Some(target) = self.stops.owner.get().or_else(|| self.stops.first_stopped()) {
            self.kick_balancer(target);
        }
    }

    fn crowded_kick(&self, queue: &RunQueue) {
        let cpu = Here::cpu();
        if queue.idle_at_tick.get() {
            return;
        }
        self.stops.stopped.borrow_mut()[cpu] = false;
        let early = self.rq.jiffies() < self.stops.next_balance.get();
        let Some(target) = self.stops.first_stopped().filter(|_| !early) else { return };
        let mut core = self.balancer.wakeups.core_of(cpu);
        let whole = core.len() > 1 && core.all(|cpu| !self.rq.queues[cpu].is_idle());
        if self.rq.loads.running(cpu) < 2 && !whole {
            return;
        }
        self.stops.next_balance.set(self.stops.next_balance.get() + 1);
        if self.rq.is_idle_cpu(target) {
            self.kick_balancer(target);
        } else {
            let (now, then) = (Here::now_ps(), IdleCause::NotServed);
            let until = now + self.rq.tick_ps;
            self.rq.loads.idlers.serves(IdleCause::Misdirected, until, then, now);
        }
    }

    /// [`Stopped::OthersFirst`].
    fn busy_kick(&self, queue: &RunQueue) {
        let (cpu, now) = (Here::cpu(), self.rq.jiffies());
        if queue.idle_at_tick.get() {
            return;
        }
        let stops = &self.stops;
        stops.stopped.borrow_mut()[cpu] = false;
        if stops.first_stopped().is_none() || now < stops.next_balance.get() {
            return;
        }
        let busy = |&near: &usize| !stops.is_stopped(near);
        let shares = || self.balancer.wakeups.llc_of(cpu).filter(busy).count() > 1;
        if self.rq.loads.running(cpu) < 2 && !shares() {
            return;
        }
        stops.next_balance.set(now + 1);
        let idle = |&cpu: &usize| stops.is_stopped(cpu) && self.rq.is_idle_cpu(cpu);
        if let Some(target) = (0..self.rq.queues.len()).find(idle) {
            self.kick_balancer(target);
        }
    }

    /// Asks `target` to balance for all idle CPUs, unless it has been asked already.
    fn kick_balancer(&self, target: usize) {
        if core::mem::replace(&mut self.stops.kicked.borrow_mut()[target], true) {
            if self.stops.is_lazy() {
                self.note_kick_lost();
            }
            return;
        }
        // Whoever is not looked at by the next tick but one has been forgotten.
        let (now, then) = (Here::now_ps(), IdleCause::Unexplained);
        self.rq.loads.idlers.serves(IdleCause::Asked, now + self.rq.tick_ps, then, now);
        let at = now + self.rq.costs.ipi;
        let kicked = |sched: &Sched| sched.nohz.iter().for_each(Self::kicked);
        self.agendas.interrupt_at(target, at, Box::new(kicked));
        Here::pass(self.rq.costs.send);
    }

    fn note_kick_lost(&self) {
        self.rq.loads.idlers.serves_not(IdleCause::KickLost, Here::now_ps());
    }

    /// The next look for all is due at the tick that the rule names.
    fn note_served(&self, cut: bool) {
        let cause = if cut { IdleCause::CutShort } else { IdleCause::NotDue };
        let mut until = self.stops.next_balance.get() * self.rq.tick_ps;
        let mut then = IdleCause::NotServed;
        if self.stops.rule == Stopped::Owner {
            until = self.rq.this().next_balance.get() * self.rq.tick_ps;
            // It ticks, so its look comes with a tick, and takes part of another.
            until = until.max(Here::now_ps()) + 2 * self.rq.tick_ps;
            then = IdleCause::Unexplained;
        }
        self.rq.loads.idlers.serves(cause, until, then, Here::now_ps());
    }

    /// `cpu` no longer balances for the others, if it did.
    fn disown(&self, cpu: usize) {
        let owner = &self.stops.owner;
        if owner.get() == Some(cpu) {
            owner.set(None);
            if self.stops.rule == Stopped::Owner {
                self.rq.loads.idlers.serves_not(IdleCause::NotServed, Here::now_ps());
            }
        }
    }

    /// The interrupt of a kick.
    fn kicked(&self) {
        let queue = self.rq.this();
        if self.stops.is_lazy() {
            if !self.rq.is_idle_cpu(Here::cpu()) || queue.need_resched.get() {
                let sticks = self.stops.rule == Stopped::Crowded;
                self.stops.kicked.borrow_mut()[Here::cpu()] = sticks;
                self.note_kick_lost();
                return;
            }
            queue.idle_at_tick.set(true);
        }
        self.softirqs.raise(Vector::Sched);
    }

    /// In the softirq of the scheduler, before this CPU balances for itself: if it was kicked and
    /// its tick or the kick found it `idle`, balances for all CPUs without ticks, itself included,
    /// and returns true.
    pub(super) fn balance_first(&self, idle: bool) -> bool {
        let kicked = self.stops.rule == Stopped::OthersFirst
            && core::mem::take(&mut self.stops.kicked.borrow_mut()[Here::cpu()]);
        if kicked && idle {
            let cut = self.serve_in_turn();
            self.note_served(cut);
        } else if kicked {
            self.note_kick_lost();
        }
        kicked && idle
    }

    /// [`Stopped::OthersFirst`]: balances for all CPUs with stopped ticks whose turn it is, until
    /// this CPU has a task to run. Returns whether that cut it short.
    fn serve_in_turn(&self) -> bool {
        let cpu = Here::cpu();
        let mut next = u64::MAX;
        for other in (cpu + 1..self.rq.queues.len()).chain(0..=cpu) {
            if !self.stops.is_stopped(other) || !self.rq.is_idle_cpu(other) {
                continue;
            }
            if self.rq.this().need_resched.get() && !self.rq.is_idle_cpu(cpu) {
                return true;
            }
            let queue = &self.rq.queues[other];
            self.rq.loads.tick(other, self.rq.jiffies());
            if self.rq.jiffies() >= queue.next_balance.get() {
                self.balancer.rebalance(other, true);
            }
            next = next.min(queue.next_balance.get());
        }
        if next < u64::MAX {
            self.stops.next_balance.set(next);
        }
        false
    }

    /// In the softirq of the scheduler, after this CPU, which its tick found `idle`, has balanced
    /// for itself: balances for the CPUs without ticks.
    pub(super) fn balance(&self, idle: bool) {
        let queue = self.rq.this();
        let cpu = Here::cpu();
        let kicked = self.stops.kicked.borrow()[cpu];
        match self.stops.rule {
            Stopped::Owner if idle && self.stops.owner.get() == Some(cpu) => {
                let cut = self.serve(queue);
                self.note_served(cut);
            }
            Stopped::Owner | Stopped::OthersFirst => {}
            Stopped::FirstTwo if kicked && !idle => self.note_kick_lost(),
            Stopped::FirstTwo | Stopped::Crowded | Stopped::CrowdedOrForgotten => {
                if kicked && idle {
                    let cut = self.serve(queue);
                    self.stops.next_balance.set(queue.next_balance.get());
                    self.note_served(cut);
                }
                self.stops.kicked.borrow_mut()[cpu] = false;
            }
        }
    }

    /// Balances for all CPUs with stopped ticks, until this CPU has a task to run. Returns whether
    /// that cut it short.
    fn serve(&self, queue: &RunQueue) -> bool {
        let cpu = Here::cpu();
        let loads = &self.rq.loads;
        for other in 0..self.rq.queues.len() {
            if other == cpu || !self.stops.is_stopped(other) {
                continue;
            }
            if queue.need_resched.get() {
                return true;
            }
            match self.stops.rule {
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

    /// Returns whether `cpu`, about to idle, keeps its tick.
    pub(super) fn keeps_tick(&self, cpu: usize) -> bool {
        self.stops.stopped.borrow_mut()[cpu] = true;
        self.rq.queues[cpu].in_nohz_recently.set(true);
        let owner = &self.stops.owner;
        match self.stops.rule {
            Stopped::Crowded | Stopped::CrowdedOrForgotten | Stopped::OthersFirst => false,
            Stopped::FirstTwo => {
                let others = |picker: Option<usize>| picker.filter(|&picker| picker != cpu);
                self.stops.pickers.set(self.stops.pickers.get().map(others));
                owner.set(owner.get().or(Some(cpu)));
                false
            }
            Stopped::Owner if self.stops.all_stopped() => {
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

    /// `cpu`, which has idled, ticks again.
    pub(super) fn restart(&self, cpu: usize) {
        if !self.stops.is_lazy() && self.stops.is_stopped(cpu) {
            self.stops.stopped.borrow_mut()[cpu] = false;
            self.disown(cpu);
        }
    }
}
