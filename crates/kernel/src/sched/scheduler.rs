//! The scheduler of one machine and its parts.

use super::balance::Balancer;
use super::build;
use super::entity::WEIGHT;
use super::kthread::state::Kthreads;
use super::nohz::state::NoHz;
use super::normal::Enqueue;
use super::queue::RunQueues;
use super::record;
use super::sleepers::Sleepers;
use super::wake::Wakeups;
use crate::bkl::{BKL, Bkl};
use crate::config::{Config, Preempt};
use crate::futex::Futexes;
use crate::irq::Agendas;
use crate::lock_rules::LockRules;
use crate::preset::KernelPreset;
use crate::rcu::state::Rcu;
use crate::softirq::rules::Vector;
use crate::softirq::state::Softirqs;
use convoy_machine::{Here, Machine};
use core::cell::OnceCell;
use std::rc::Rc;

/// The scheduler of one machine; its [`convoy_machine::Os`].
pub struct Sched {
    /// Run queues and tasks.
    pub rq: Rc<RunQueues>,
    pub(crate) balancer: Rc<Balancer>,
    pub(crate) config: Config,
    /// Sleeping tasks.
    pub sleepers: Sleepers,
    /// Device interrupts and timers.
    pub agendas: Rc<Agendas<Self>>,
    /// Kernel threads.
    pub kthreads: Rc<Kthreads<Self>>,
    /// Software interrupts.
    pub softirqs: Rc<Softirqs<Self>>,
    /// RCU, if the kernel has it.
    pub rcu: Option<Rcu<Self>>,
    /// The stopped ticks, unless idle CPUs tick.
    pub(super) nohz: Option<NoHz<Self>>,
    pub(crate) locks: LockRules,
    pub(crate) bkl: Bkl,
    futexes: OnceCell<Futexes>,
}

impl Sched {
    /// The scheduler of `kernel` for the machine of `preset`, which must be the machine of this
    /// thread.
    pub fn new(kernel: &KernelPreset, preset: &convoy_machine::Preset) -> Rc<Self> {
        let cpus = preset.topology.cpus;
        let rules = &kernel.sched;
        let rq = Rc::new(build::run_queues(kernel, preset));
        let llc = preset.topology.cpus_per_llc.min(cpus);
        let threads = preset.topology.threads_per_core.min(llc);
        let wakeups = Rc::new(Wakeups::new(Rc::clone(&rq), rules.wake.clone(), llc, threads));
        let balancer = Rc::new(Balancer::new(Rc::clone(&rq), rules, Rc::clone(&wakeups)));
        let agendas = Rc::new(Agendas::new(cpus));
        let kthreads = Rc::new(Kthreads::new(Rc::clone(&rq), Rc::clone(&wakeups)));
        let softirqs =
            Rc::new(Softirqs::new(&kernel.softirq, Rc::clone(&rq), Rc::clone(&kthreads)));
        let sched = Self {
            bkl: Bkl::new(kernel.bkl, kernel.locks, kernel.config.preempt),
            sleepers: Sleepers::new(Rc::clone(&rq), wakeups),
            nohz: kernel.config.no_hz.then(|| {
                NoHz::new(
                    rules.balance.stopped,
                    Rc::clone(&balancer),
                    Rc::clone(&softirqs),
                    Rc::clone(&agendas),
                )
            }),
            rcu: kernel.rcu.as_ref().map(|rules| {
                Rcu::new(
                    rules,
                    Rc::clone(&rq),
                    Rc::clone(&kthreads),
                    Rc::clone(&softirqs),
                    Rc::clone(&agendas),
                )
            }),
            rq,
            balancer,
            config: kernel.config.clone(),
            agendas,
            kthreads,
            softirqs,
            locks: kernel.locks,
            futexes: OnceCell::new(),
        };
        let timers = |sched: &Self| sched.agendas.run_timers(sched);
        sched.softirqs.open(Vector::Timer, Rc::new(timers));
        sched.softirqs.open(Vector::Sched, Rc::new(Self::balance_softirq));
        if let Some(lock) = sched.bkl.lock_object() {
            Here::watch(lock, BKL);
        }
        Rc::new(sched)
    }

    /// RCU of a kernel that has it.
    ///
    /// # Panics
    ///
    /// If the kernel does not have it.
    pub fn rcu(&self) -> &Rcu<Self> {
        self.rcu.as_ref().expect("a kernel with RCU")
    }

    /// Sets the state of futexes, for threads in user mode.
    pub(crate) fn serve_threads(&self, futexes: Futexes) {
        assert!(self.futexes.set(futexes).is_ok(), "a machine has one kernel");
    }

    pub(crate) fn futexes(&self) -> &Futexes {
        self.futexes.get().expect("the kernel that runs threads has futexes")
    }

    /// Installs itself on `machine`, starts the idle tasks and, on CPU 0, `init`.
    pub fn boot(self: &Rc<Self>, machine: &Machine, init: Box<dyn FnOnce()>) {
        machine.install(self.clone());
        for cpu in 0..machine.cpus() {
            let idle = Here::spawn_idle().expect("room for idle tasks");
            record::idle(idle, cpu);
            let tcb = self.rq.adopt(idle, cpu);
            tcb.on_cpu.set(true);
            let queue = &self.rq.queues[cpu];
            queue.curr.set(idle);
            queue.prev.set(idle);
            queue.idle.set(idle);
            queue.tick_at.set(self.rq.tick_ps + self.tick_offset(cpu));
            machine.boot(cpu, idle, 0);
        }
        if let Some(rcu) = &self.rcu {
            rcu.start();
        }
        let first = Here::spawn(init).expect("room for the first task");
        record::born(first, 0);
        let tcb = self.rq.adopt(first, 0);
        self.rq.queues[0].normal.borrow_mut().enqueue(&tcb, Enqueue::Moved, 0);
        self.rq.loads.add(0, WEIGHT);
        self.rq.queues[0].need_resched.set(true);
    }

    /// Takes the big kernel lock; nests.
    pub fn lock_kernel(&self) {
        self.bkl.lock(&self.rq.current());
    }

    /// Keeps the calling task, and all that it makes from now on, to the CPU it is on
    /// (`sched_setaffinity`).
    pub fn stay_here(&self) {
        self.rq.current().bound.set(true);
    }

    /// Ends one [`Self::lock_kernel`].
    pub fn unlock_kernel(&self) {
        self.bkl.unlock(&self.rq.current());
    }

    /// A point at which long kernel paths may yield the CPU.
    pub fn cond_resched(&self) {
        while Here::need_resched() && Here::preempt_depth() == 0 {
            self.schedule();
        }
    }

    /// A place where the kernel may sleep; a preemption point of voluntary preemption.
    pub fn might_sleep(&self) {
        if self.config.preempt == Preempt::Voluntary {
            self.cond_resched();
        }
    }

    /// On return to user mode.
    #[inline]
    pub fn syscall_return(&self) {
        while Here::need_resched() {
            self.schedule();
        }
    }
}
