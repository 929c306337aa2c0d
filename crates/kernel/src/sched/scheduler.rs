//! The scheduler of one machine and its parts.

use super::balance::Balancer;
use super::build;
use super::domains::Domain;
use super::entity::WEIGHT;
use super::idlers::IdleTimes;
use super::kthread::state::Kthreads;
use super::nohz::state::NoHz;
use super::normal::Enqueue;
use super::queue::RunQueues;
use super::record;
use super::rt_root::Root;
use super::stats::SchedStats;
use super::task::Tcb;
use super::wake::Wakeups;
use crate::bkl::{BKL, Bkl};
use crate::config::{Config, Preempt};
use crate::futex::Futexes;
use crate::irq::state::Agendas;
use crate::lock_rules::LockRules;
use crate::preset::KernelPreset;
use crate::rcu::state::Rcu;
use crate::softirq::rules::Vector;
use crate::softirq::state::Softirqs;
use convoy_machine::{Here, Machine};
use convoy_sync::TaskId;
use core::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Deferred work: on a device's interrupt, when a timer expires, as a kernel thread, or after a
/// grace period.
pub type Work = Box<dyn FnOnce(&Sched)>;

/// Handler of a software interrupt, run on the CPU that raised it.
pub type Handler = Rc<dyn Fn(&Sched)>;

/// The scheduler of one machine; its [`convoy_machine::Os`].
pub struct Sched {
    /// Run queues and tasks.
    pub rq: Rc<RunQueues>,
    pub(crate) wakeups: Rc<Wakeups>,
    pub(crate) balancer: Balancer,
    pub(crate) config: Config,
    pub(super) sleepers: RefCell<BTreeMap<(usize, u64), TaskId>>,
    pub(super) timers: RefCell<BTreeMap<(u64, u64), TaskId>>,
    pub(super) sequence: Cell<u64>,
    pub(super) nohz: NoHz,
    pub(crate) locks: LockRules,
    pub(crate) bkl: Bkl,
    pub(crate) softirqs: Softirqs<Handler>,
    pub(crate) rcu: Option<Rcu<Work>>,
    /// By CPU.
    pub(crate) agendas: Vec<Agendas<Work>>,
    pub(super) kthreads: RefCell<Kthreads<Work>>,
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
        let sched = Self {
            balancer: Balancer::new(Rc::clone(&rq), rules, Rc::clone(&wakeups)),
            rq,
            wakeups,
            config: kernel.config.clone(),
            sleepers: RefCell::default(),
            timers: RefCell::default(),
            sequence: Cell::new(0),
            nohz: NoHz::new(rules.balance.stopped, cpus),
            locks: kernel.locks,
            bkl: Bkl::new(kernel.bkl, kernel.locks, kernel.config.preempt),
            softirqs: Softirqs::new(&kernel.softirq, cpus),
            rcu: kernel.rcu.as_ref().map(|rules| Rcu::new(rules, cpus, kernel.config.hz)),
            agendas: (0..cpus).map(|_| Agendas::default()).collect(),
            kthreads: RefCell::default(),
            futexes: OnceCell::new(),
        };
        sched.softirqs.open(Vector::Timer, Rc::new(Self::timer_softirq));
        sched.softirqs.open(Vector::Sched, Rc::new(Self::balance_softirq));
        if let Some(lock) = sched.bkl.lock_object() {
            Here::watch(lock, BKL);
        }
        Rc::new(sched)
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
        self.start_rcu();
        let first = Here::spawn(init).expect("room for the first task");
        record::born(first, 0);
        let tcb = self.rq.adopt(first, 0);
        self.rq.queues[0].normal.borrow_mut().enqueue(&tcb, Enqueue::Moved, 0);
        self.rq.loads.add(0, WEIGHT);
        self.rq.queues[0].need_resched.set(true);
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.set(self.sequence.get() + 1);
        self.sequence.get()
    }

    /// Tasks that are queued or running now.
    pub fn runnable(&self) -> u64 {
        self.rq.loads.all()
    }

    /// The load averages over 1, 5 and 15 minutes.
    pub fn load_averages(&self) -> [f64; 3] {
        self.rq.load_average.averages()
    }

    /// Takes the next count of active tasks `ns` nanoseconds from now, and then every five seconds.
    pub fn count_load_after(&self, ns: u64) {
        let ticks = ns * u64::from(self.config.hz) / 1_000_000_000;
        self.rq.load_average.count_at(self.rq.jiffies() + ticks);
    }

    /// What each CPU may run real-time tasks for in a period, in nanoseconds; nothing before the
    /// first of them, or without a limit.
    pub fn rt_runtimes(&self) -> Vec<u64> {
        self.rq.rt_limits.runtimes()
    }

    /// Acquisitions of the locks of the CPU priority vectors (with atomic counts: updates) so far.
    pub fn rt_vector_updates(&self) -> u64 {
        self.rq.rt_root.get().map_or(0, Root::updates)
    }

    /// For each CPU priority vector its count, and how many CPUs it holds.
    pub fn rt_vectors(&self) -> Vec<(u32, u32)> {
        self.rq.rt_root.get().map_or_else(Vec::new, Root::census)
    }

    /// The record of `id`.
    pub fn tcb(&self, id: TaskId) -> Rc<Tcb> {
        self.rq.tcb(id)
    }

    /// Counters so far.
    pub fn stats(&self) -> SchedStats {
        self.rq.stats.get()
    }

    /// How long CPUs have idled while a task waited on another one, by cause.
    pub fn idle_times(&self) -> IdleTimes {
        self.rq.loads.idlers.times(Here::now_ps())
    }

    /// CPU time that tasks which waited could have had on CPUs that idled, picoseconds.
    pub fn idle_usable_ps(&self) -> u64 {
        self.rq.loads.idlers.usable(Here::now_ps())
    }

    /// Returns the time, in nanoseconds, in which each level of the load balancer searches at least
    /// once for an idle CPU.
    pub fn balance_turn_ns(&self) -> u64 {
        let longest = |domain: &Domain| domain.rules.max_interval_ms;
        let longest = self.rq.queues[0].domains.iter().map(longest).max().unwrap_or(0);
        longest * 1_000_000 + self.rq.tick_ps / 1000
    }

    /// Run time of `task` so far, in picoseconds, up to its last charge.
    pub fn cpu_time_ps(&self, task: TaskId) -> u64 {
        self.rq.tcb(task).entity.sum_exec.get() * 1000
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
