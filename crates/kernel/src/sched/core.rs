//! `schedule`, the switch itself, fork, exec and exit.

use super::normal::{Dequeue, Enqueue};
use super::task::{State, Tcb};
use super::wait::signal_ends;
use super::{RunQueue, Sched, record};
use crate::preset::Preempt;
use crate::softirq::{context, irq_enter};
use convoy_machine::{Here, Os, Smp, Word};
use convoy_sync::{Platform, RawLock, TaskId};
use std::rc::Rc;

/// Why a task leaves its CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// It calls `schedule` itself.
    Switch,
    /// It has ended.
    Die,
}

impl Sched {
    /// Gives the CPU to the next task. The caller sleeps if its state says so; returns when it runs
    /// again.
    pub fn schedule(&self) {
        let me = self.current();
        assert!(!context().in_interrupt(), "task {} schedules in an interrupt", me.id);
        loop {
            let held = self.bkl.release_in_schedule(&me);
            self.leave(&me, Leave::Switch);
            // Taking it again may sleep, or (as a spinlock) give up because somebody else wants
            // this CPU.
            while held && !self.bkl.reacquire_in_schedule(self, &me) {
                self.leave(&me, Leave::Switch);
            }
            if !self.this().need_resched.get() {
                return;
            }
        }
    }

    fn leave(&self, me: &Rc<Tcb>, how: Leave) {
        record::schedule(true);
        Smp::preempt_disable();
        Smp::irq_save();
        let queue = self.this();
        queue.lock.lock();
        queue.need_resched.set(false);
        if let Some(rcu) = &self.rcu {
            rcu.note_quiescent_state();
        }
        Here::pass(self.costs.schedule);
        let idle = me.id == queue.idle.get();
        if !idle {
            self.settle(me, how);
        }
        if me.rt_priority() > queue.rt.borrow().best() {
            self.pull_rt();
        }
        self.migration_thread();
        if self.loads.running(Here::cpu()) == 0 && !(idle && queue.push_to.get().is_some()) {
            self.idle_balance();
        }
        let next = self.pick();
        if next == me.id {
            self.post_schedule(queue);
            queue.lock.unlock();
            Smp::irq_restore(());
            record::schedule(false);
            return preempt_enable_no_resched();
        }
        // The number of a task that has ended may belong to a new one before `next` arrives.
        let ended = how == Leave::Die;
        queue.prev.set(if ended { queue.idle.get() } else { me.id });
        queue.curr.set(next);
        me.on_cpu.set(false);
        self.tcb(next).on_cpu.set(true);
        self.count(|stats| stats.switches += 1);
        Here::pass(self.switch_price(me, next));
        record::leave(me, how == Leave::Die);
        if how == Leave::Die {
            return Here::retire(next);
        }
        Here::switch_to(next);
        self.arrive();
    }

    /// What the switch from `me` to `next` costs. The idle task and kernel threads have no address
    /// space of their own and use the last one.
    fn switch_price(&self, me: &Tcb, next: TaskId) -> u64 {
        let queue = self.this();
        let costs = &self.costs;
        if next == queue.idle.get() {
            return costs.switch;
        }
        let next = self.tcb(next);
        let spaces = me.space.get() != next.space.get() && me.id != queue.idle.get();
        let space = if spaces { costs.address_space } else { 0 };
        costs.switch + space + (costs.refill as f64 * next.footprint.get()) as u64
    }

    /// Charges the leaving task, and dequeues it if it sleeps or puts it back into the timeline.
    fn settle(&self, me: &Rc<Tcb>, how: Leave) {
        let queue = self.this();
        self.charge(queue, me);
        let interrupted = matches!(me.state.get(), State::Asleep(sleep) if signal_ends(me, sleep));
        if interrupted {
            me.state.set(State::Running);
        }
        let stays = me.preempted.get()
            || (me.state.get() == State::Running && me.migrate_to.get().is_none());
        if how == Leave::Die || !stays {
            let moves = me.migrate_to.get().is_some();
            if !moves {
                self.count(|stats| stats.voluntary += 1);
                let overlap = me.entity.sum_exec.get() - me.entity.last_wakeup.get();
                let average = me.entity.avg_overlap.get() as i64;
                let moved = average + (overlap as i64 - average) / 8;
                me.entity.avg_overlap.set(moved.max(0) as u64);
            }
            let sleeps = how == Leave::Switch && !moves;
            if sleeps {
                self.note_sleep(me);
            }
            self.dequeue(me, if sleeps { Dequeue::Sleeps } else { Dequeue::Leaves });
        } else {
            Self::put_back(queue, me);
        }
    }

    /// Takes the next task off the queue and starts its slice.
    fn pick(&self) -> TaskId {
        let queue = self.this();
        let Some(next) = self.next_task(queue) else {
            self.start_slice(None);
            return queue.idle.get();
        };
        next.entity.exec_start.set(Here::now_ns());
        next.entity.picked_at.set(next.entity.sum_exec.get());
        let ordinary = next.rt_priority().is_none();
        let slice = if ordinary { queue.normal.borrow().slice(&next) } else { None };
        self.start_slice(slice);
        next.id
    }

    /// The first steps of a task that has just been switched to.
    fn arrive(&self) {
        let queue = self.this();
        let prev = self.tcb(queue.prev.get());
        // Taken under the lock: without it `prev` may run elsewhere and ask to be moved again.
        let migrates = if prev.id == queue.idle.get() { None } else { prev.migrate_to.take() };
        self.post_schedule(queue);
        queue.lock.unlock();
        if let Some(cpu) = migrates {
            self.arrive_migrated(&prev, cpu);
        }
        Smp::irq_restore(());
        preempt_enable_no_resched();
        record::schedule(false);
    }

    /// Queues a task that exec balancing moves, now that it is off its CPU.
    fn arrive_migrated(&self, task: &Rc<Tcb>, cpu: usize) {
        let from = &self.queues[task.cpu.get()];
        let to = &self.queues[cpu];
        to.lock.lock();
        Here::pass(self.costs.pull);
        self.change_cpu(task, from, cpu);
        self.enqueue(to, task, Enqueue::Moved);
        self.check_preempt(cpu, task);
        to.lock.unlock();
    }

    /// `fork`: chooses a CPU for the child, queues it with its debit, and asks for a reschedule
    /// there. `None` when the machine has no room for another task.
    pub fn fork(&self, body: Box<dyn FnOnce()>) -> Option<TaskId> {
        let stays = !self.rules.balance.fork || self.current().bound.get();
        let target = if stays { Here::cpu() } else { self.idlest_cpu() };
        self.fork_on(target, body)
    }

    /// Like [`Self::fork`], on a given CPU. For tests of placement; no system call leads here.
    pub fn fork_on(&self, target: usize, body: Box<dyn FnOnce()>) -> Option<TaskId> {
        let id = Here::spawn(body)?;
        record::born(id, target);
        let child = self.adopt(id, target);
        let parent = self.current();
        *child.parent.borrow_mut() = Rc::downgrade(&parent);
        child.entity.set_nice(parent.entity.nice());
        child.bound.set(parent.bound.get());
        Smp::irq_save();
        let queue = &self.queues[target];
        queue.lock.lock();
        Here::pass(self.costs.wake);
        self.charge_current(queue);
        child.policy.set(parent.policy.get());
        if child.rt_priority().is_some() {
            self.enqueue(queue, &child, Enqueue::Moved);
        } else {
            let here = target == Here::cpu();
            queue.normal.borrow_mut().enqueue_new(&child, here.then_some(&*parent));
            self.loads.add(target, child.entity.weight());
        }
        self.resched(target);
        queue.lock.unlock();
        Smp::irq_restore(());
        Some(id)
    }

    /// `exec` balancing: moves the caller to a CPU with less load.
    pub fn exec_balance(&self) {
        if self.current().bound.get() {
            return;
        }
        let target = self.idlest_cpu();
        if target != Here::cpu() {
            self.current().migrate_to.set(Some(target));
            self.schedule();
        }
    }

    /// Ends the calling task in the middle of its body; its stack is unwound, so no guard may live
    /// on it.
    pub fn exit(&self) -> ! {
        self.die();
        Here::vanish()
    }

    /// Ends the calling task up to the switch; the caller returns from its body.
    pub(crate) fn die(&self) {
        let me = self.current();
        assert!(me.lock_depth.get() < 0, "task {} exits with the big kernel lock", me.id);
        me.state.set(State::Dead);
        self.leave(&me, Leave::Die);
    }

    /// First steps of a new task.
    pub(crate) fn first_steps(&self, task: TaskId) {
        if task == self.this().idle.get() && self.this().prev.get() == task {
            // An idle task starts its CPU; nobody switched to it.
            return self.program_timer();
        }
        self.arrive();
    }

    /// Asks for a reschedule of `cpu`: its flag, and for another CPU what makes it look at the
    /// flag.
    pub(crate) fn resched(&self, cpu: usize) {
        let queue = &self.queues[cpu];
        if queue.need_resched.replace(true) || cpu == Here::cpu() {
            return;
        }
        // An idle CPU waits in mwait on its flag and needs no interrupt; that of a guest has left
        // the guest, and so does whoever sends an interrupt.
        let delay = if queue.is_idle() { self.idle_exit(queue) } else { self.costs.ipi };
        Here::kick(cpu, Here::now_ps() + delay);
        Here::pass(self.costs.send);
    }

    /// How long `queue`, which idles, takes to notice that it has work.
    fn idle_exit(&self, queue: &RunQueue) -> u64 {
        if self.is_halted(queue) { self.costs.halted_exit } else { self.costs.idle_exit }
    }

    /// Whether `queue`, which idles, has idled for so long that the hypervisor gave its processor
    /// to others.
    pub(crate) fn is_halted(&self, queue: &RunQueue) -> bool {
        Here::now_ps().saturating_sub(queue.halted_at.get()) > self.costs.halt_poll
    }

    /// Involuntary preemption in the kernel (`CONFIG_PREEMPT`): a task that holds the semaphore
    /// form of the big kernel lock keeps it while it waits for a CPU.
    pub(crate) fn preempt_in_kernel(&self) {
        let full = self.config.preempt == Preempt::Full;
        if !full || Here::preempt_depth() > 0 || Here::irqs_disabled() {
            return;
        }
        let me = self.current();
        if me.id == self.this().idle.get() || me.state.get() == State::Dead {
            return;
        }
        while self.this().need_resched.get() {
            let depth = me.lock_depth.replace(-1);
            me.preempted.set(true);
            self.schedule();
            me.preempted.set(false);
            me.lock_depth.set(depth);
        }
    }
}

/// Ends one `preempt_disable` where the caller looks at the reschedule flag itself.
pub(crate) fn preempt_enable_no_resched() {
    Here::set_preempt_depth(Here::preempt_depth() - 1);
}

impl Os for Sched {
    fn idle(&self) {
        loop {
            while !self.this().need_resched.get() {
                self.enter_idle();
                if !self.this().need_resched.get() {
                    self.this().halted_at.set(Here::now_ps());
                    Here::halt();
                }
            }
            self.leave_idle();
            self.schedule();
        }
    }

    fn task_start(&self, task: TaskId) {
        self.first_steps(task);
    }

    fn task_end(&self, _: TaskId) {
        self.die();
    }

    fn kthread(&self, task: TaskId) {
        self.kthread_main(task);
    }

    fn interrupt(&self, cause: convoy_machine::Interrupt) {
        irq_enter();
        if cause.timer {
            self.timer_interrupt(cause.user);
        }
        self.device_interrupts();
    }

    fn interrupt_return(&self, user: bool) {
        self.irq_exit();
        if user {
            self.syscall_return();
        } else {
            self.preempt_in_kernel();
        }
    }

    fn wait(
        &self,
        word: usize,
        holds: &dyn Fn() -> bool,
        sleep: convoy_sync::Sleep,
        deadline: Option<u64>,
    ) -> convoy_sync::Wake {
        self.wait_on(word, holds, sleep, deadline)
    }

    fn wake(&self, word: usize, count: usize) {
        self.wake_word(word, count, false);
    }

    fn user_wait(
        &self,
        word: &Word<u32>,
        expected: u32,
        sleep: convoy_sync::Sleep,
        deadline: Option<u64>,
    ) -> convoy_sync::Wake {
        self.futex_wait(word, expected, sleep, deadline)
    }

    fn user_wake(&self, word: &Word<u32>, count: usize) {
        self.futex_wake(word, count);
    }

    fn user_yield(&self) {
        self.yield_cpu();
    }

    fn expects(&self) -> bool {
        let pending = self.agendas.iter().any(|agendas| !agendas.are_empty());
        pending || !self.timers.borrow().is_empty() || self.any_rt_throttled()
    }

    fn signal_pending(&self, sleep: convoy_sync::Sleep) -> bool {
        signal_ends(&self.current(), sleep)
    }

    fn context(&self) -> Option<convoy_machine::Context> {
        Some(context())
    }

    fn on_cpu(&self, task: TaskId) -> bool {
        self.tasks
            .borrow()
            .get(task as usize)
            .is_some_and(|tcb| tcb.as_ref().is_some_and(|tcb| tcb.on_cpu.get()))
    }

    fn need_resched(&self) -> bool {
        self.this().need_resched.get()
    }

    fn runnable_here(&self) -> u32 {
        self.loads.running(Here::cpu()) as u32
    }

    fn active_tasks(&self) -> u64 {
        Self::active_tasks(self)
    }

    fn preempt_point(&self) {
        if self.this().need_resched.get() {
            self.preempt_in_kernel();
        }
    }
}
