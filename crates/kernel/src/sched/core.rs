//! `schedule`, the switch itself, fork, exec and exit.

use super::idlers::IdleCause;
use super::kthread::state::Kthread;
use super::normal::{Dequeue, Enqueue};
use super::queue::{RunQueues, preempt_enable_no_resched};
use super::scheduler::Sched;
use super::task::{State, Tcb};
use super::{record, rt_move};
use crate::config::Preempt;
use crate::softirq::{context, irq_enter};
use convoy_machine::{Here, Os, Smp, Word, ps};
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
    /// Switches the CPU to the next task. The caller sleeps if its state says so; returns when it
    /// runs again.
    pub fn schedule(&self) {
        let me = self.rq.current();
        assert!(!context().in_interrupt(), "task {} schedules in an interrupt", me.id);
        loop {
            let held = self.bkl.release_in_schedule(&me);
            self.leave(&me, Leave::Switch);
            // Taking it again may sleep, or (as a spinlock) give up because somebody else wants
            // this CPU.
            let wanted = || Here::need_resched();
            while held && !self.bkl.reacquire_in_schedule(wanted, &me) {
                self.leave(&me, Leave::Switch);
            }
            if !Here::need_resched() {
                return;
            }
        }
    }

    fn leave(&self, me: &Rc<Tcb>, how: Leave) {
        record::schedule(true);
        Smp::preempt_disable();
        Smp::irq_save();
        let queue = self.rq.this();
        queue.lock.lock();
        queue.need_resched.set(false);
        if let Some(rcu) = &self.rcu {
            rcu.note_switch(&me.reader);
        }
        Here::pass(self.rq.costs.schedule);
        let idle = me.id == queue.idle.get();
        if !idle {
            self.settle(me, how);
        }
        if me.rt_priority() > queue.rt.borrow().best() {
            rt_move::pull(&self.rq);
        }
        self.balancer.migration_thread();
        let mut cause = IdleCause::Bound;
        if self.rq.loads.running(Here::cpu()) == 0 && !(idle && queue.push_to.get().is_some()) {
            cause = self.balancer.idle_balance();
        }
        let next = self.pick();
        if next == queue.idle.get() {
            self.rq.loads.idlers.looked(Here::cpu(), cause, Here::now_ps());
        } else if idle {
            self.rq.loads.idlers.runs(Here::cpu(), Here::now_ps());
        }
        if next == me.id {
            rt_move::post_schedule(&self.rq, queue);
            queue.lock.unlock();
            Smp::irq_restore(());
            record::schedule(false);
            return preempt_enable_no_resched();
        }
        // The number of a task that has ended may belong to a new one before `next` arrives.
        let ended = how == Leave::Die;
        self.monitor_switch(me, next);
        Self::drop_extension(queue, me);
        queue.prev.set(if ended { queue.idle.get() } else { me.id });
        queue.curr.set(next);
        me.on_cpu.set(false);
        self.rq.tcb(next).on_cpu.set(true);
        self.rq.count(|stats| stats.switches += 1);
        queue.turns.set(queue.turns.get() + 1);
        me.left.set(Some((Here::cpu(), queue.turns.get())));
        Here::pass(self.switch_price(me, next));
        record::leave(me, how == Leave::Die);
        if how == Leave::Die {
            return Here::retire(next);
        }
        Here::switch_to(next);
        self.arrive();
    }

    /// Returns the cost of the switch from `me` to `next`. The idle task and kernel threads do not
    /// have an address space and use the previous one.
    fn switch_price(&self, me: &Tcb, next: TaskId) -> u64 {
        let queue = self.rq.this();
        let costs = &self.rq.costs;
        if next == queue.idle.get() {
            return costs.switch;
        }
        let next = self.rq.tcb(next);
        let spaces = me.space.get() != next.space.get() && me.id != queue.idle.get();
        let space = if spaces { costs.address_space } else { 0 };
        let refill = (costs.refill as f64 * next.footprint.get()) as u64;
        costs.switch + space + refill + self.cold_price(&next)
    }

    /// Returns the cost of the lines that intermediate tasks have evicted from the nearer caches.
    /// Lines from another CPU's caches are assumed to be at the same distance as there.
    fn cold_price(&self, next: &Tcb) -> u64 {
        let Some((cold, left)) = self.rq.costs.cold.as_ref().zip(next.left.get()) else { return 0 };
        ps(cold.ns_after(self.rq.queues[left.0].turns.get() - left.1))
    }

    /// Charges the leaving task, and dequeues it if it sleeps or puts it back into the timeline.
    fn settle(&self, me: &Rc<Tcb>, how: Leave) {
        let queue = self.rq.this();
        self.rq.charge(queue, me);
        let interrupted = matches!(me.state.get(), State::Asleep(sleep) if me.signal_ends(sleep));
        if interrupted {
            me.state.set(State::Running);
        }
        let stays = me.preempted.get()
            || (me.state.get() == State::Running && me.migrate_to.get().is_none());
        if how == Leave::Die || !stays {
            let moves = me.migrate_to.get().is_some();
            if !moves {
                self.rq.count(|stats| stats.voluntary += 1);
                me.entity.note_overlap();
            }
            let sleeps = how == Leave::Switch && !moves;
            if sleeps {
                self.rq.load_average.note_sleep(me);
            }
            self.rq.dequeue(me, if sleeps { Dequeue::Sleeps } else { Dequeue::Leaves });
        } else {
            RunQueues::put_back(queue, me);
        }
    }

    /// Takes the next task off the queue and starts its slice.
    fn pick(&self) -> TaskId {
        let queue = self.rq.this();
        let Some(next) = self.rq.next_task(queue) else {
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
        let queue = self.rq.this();
        let prev = self.rq.tcb(queue.prev.get());
        // Taken under the lock: without it `prev` may run elsewhere and ask to be moved again.
        let migrates = if prev.id == queue.idle.get() { None } else { prev.migrate_to.take() };
        rt_move::post_schedule(&self.rq, queue);
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
        let from = &self.rq.queues[task.cpu.get()];
        let to = &self.rq.queues[cpu];
        to.lock.lock();
        Here::pass(self.rq.costs.pull);
        self.rq.change_cpu(task, from, cpu);
        self.rq.loads.idlers.queues(IdleCause::Forked);
        self.rq.enqueue(to, task, Enqueue::Moved);
        self.rq.check_preempt(cpu, task);
        to.lock.unlock();
    }

    /// `fork`: chooses a CPU for the child, queues it with its debit, and asks for a reschedule
    /// there. `None` if the machine has no free stack for another task.
    pub fn fork(&self, body: Box<dyn FnOnce()>) -> Option<TaskId> {
        let stays = !self.balancer.balances_fork() || self.rq.current().bound.get();
        let target = if stays { Here::cpu() } else { self.balancer.idlest_cpu(0) };
        self.fork_on(target, body)
    }

    /// Like [`Self::fork`], on a given CPU. For tests of placement; no system call leads here.
    pub fn fork_on(&self, target: usize, body: Box<dyn FnOnce()>) -> Option<TaskId> {
        let id = Here::spawn(body)?;
        record::born(id, target);
        let child = self.rq.adopt(id, target);
        let parent = self.rq.current();
        *child.parent.borrow_mut() = Rc::downgrade(&parent);
        child.entity.set_nice(parent.entity.nice());
        child.bound.set(parent.bound.get());
        Smp::irq_save();
        let queue = &self.rq.queues[target];
        queue.lock.lock();
        Here::pass(self.rq.costs.wake);
        self.rq.charge_current(queue);
        self.rq.note_wakeup(queue);
        child.policy.set(parent.policy.get());
        if child.rt_priority().is_some() {
            self.rq.enqueue(queue, &child, Enqueue::Moved);
        } else {
            let here = target == Here::cpu();
            queue.normal.borrow_mut().enqueue_new(&child, here.then_some(&*parent));
            self.rq.loads.idlers.queues(IdleCause::Forked);
            self.rq.loads.add(target, child.entity.weight());
        }
        self.rq.resched(target);
        queue.lock.unlock();
        Smp::irq_restore(());
        Some(id)
    }

    /// `exec` balancing: moves the caller to a CPU with less load.
    pub fn exec_balance(&self) {
        if self.rq.current().bound.get() {
            return;
        }
        let target = self.balancer.idlest_cpu(1);
        if target != Here::cpu() {
            self.rq.current().migrate_to.set(Some(target));
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
        let me = self.rq.current();
        assert!(me.lock_depth.get() < 0, "task {} exits with the big kernel lock", me.id);
        me.state.set(State::Dead);
        self.leave(&me, Leave::Die);
    }

    /// First steps of a new task.
    pub(crate) fn first_steps(&self, task: TaskId) {
        if task == self.rq.this().idle.get() && self.rq.this().prev.get() == task {
            // An idle task starts its CPU; nobody switched to it.
            return self.program_timer();
        }
        self.arrive();
    }

    /// Involuntary preemption in the kernel (`CONFIG_PREEMPT`): a task that holds the semaphore
    /// form of the big kernel lock keeps it while it waits for a CPU.
    pub(crate) fn preempt_in_kernel(&self) {
        let full = self.config.preempt == Preempt::Full;
        if !full || Here::preempt_depth() > 0 || Here::irqs_disabled() {
            return;
        }
        let me = self.rq.current();
        if me.id == self.rq.this().idle.get() || me.state.get() == State::Dead {
            return;
        }
        while Here::need_resched() {
            let depth = me.lock_depth.replace(-1);
            me.preempted.set(true);
            self.schedule();
            me.preempted.set(false);
            me.lock_depth.set(depth);
        }
    }
}

impl Os for Sched {
    fn idle(&self) {
        loop {
            while !Here::need_resched() {
                self.enter_idle();
                if !Here::need_resched() {
                    self.rq.this().halted_at.set(Here::now_ps());
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
        Kthread::run(self, task);
    }

    fn interrupt(&self, cause: convoy_machine::Interrupt) {
        irq_enter();
        if cause.timer {
            self.timer_interrupt(cause.user);
        }
        self.agendas.run_devices(self);
    }

    fn interrupt_return(&self, user: bool) {
        self.softirqs.irq_exit(self);
        debug_assert!(!user || Here::preempt_depth() == 0, "a system call runs in user mode");
        if user {
            self.return_to_user();
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
        self.sleepers.wake_word(word, count, false);
    }

    fn user_wait(
        &self,
        word: &Word<u32>,
        expected: u32,
        sleep: convoy_sync::Sleep,
        deadline: Option<u64>,
    ) -> convoy_sync::Wake {
        self.end_extension();
        let wake = self.futexes().wait(word, expected, sleep, deadline);
        self.syscall_return();
        wake
    }

    fn user_wake(&self, word: *const Word<u32>, count: usize) {
        self.end_extension();
        self.futexes().wake(word, count);
        self.syscall_return();
    }

    fn user_call(&self) {
        self.end_extension();
        self.futexes().pay_call();
        self.syscall_return();
    }

    fn offers_extension(&self) -> bool {
        self.config.slice_extension_ns > 0
    }

    fn user_slice_yield(&self) {
        self.user_call();
    }

    fn user_yield(&self) {
        self.end_extension();
        self.futexes().pay_yield();
        self.rq.yield_turn();
        self.schedule();
        self.syscall_return();
    }

    fn expects(&self) -> bool {
        !self.agendas.are_empty()
            || self.sleepers.first_deadline().is_some()
            || self.rq.rt_limits.any_throttled()
    }

    fn signal_pending(&self, sleep: convoy_sync::Sleep) -> bool {
        self.rq.current().signal_ends(sleep)
    }

    fn context(&self) -> Option<convoy_machine::Context> {
        Some(context())
    }

    fn on_cpu(&self, task: TaskId) -> bool {
        self.rq
            .tasks
            .borrow()
            .get(task as usize)
            .is_some_and(|tcb| tcb.as_ref().is_some_and(|tcb| tcb.on_cpu.get()))
    }

    fn need_resched(&self) -> bool {
        Here::need_resched()
    }

    fn runnable_here(&self) -> u32 {
        self.rq.loads.running(Here::cpu()) as u32
    }

    fn active_tasks(&self) -> u64 {
        self.rq.load_average.active()
    }

    fn preempt_point(&self) {
        self.preempt_in_kernel();
    }
}
