//! The scheduler: tasks, run queues, wakeups, balancing, ticks and idle, as in 2.6.25 and
//! 2.6.26-rc1.
//!
//! Order of a context switch: release the big kernel lock, lock the run queue, dequeue a task that
//! goes to sleep, try to pull when nothing is left, pick, switch, and take the big kernel lock
//! again. Run-queue locks are ticket spinlocks in simulated memory; everything else a queue holds
//! is plain data under that lock.

pub mod entity;
pub mod kthread;

mod balance;
mod cfs;
mod class;
pub(crate) mod core;
mod domains;
mod eevdf;
mod loadavg;
mod loads;
mod newidle;
mod normal;
mod o1;
mod place;
pub(crate) mod record;
mod rt;
mod rt_limit;
mod rt_move;
mod rt_root;
mod rules;
pub(crate) mod task;
mod tick;
mod wait;
mod wait_runtime;
mod wake;

pub use balance::{BalanceRules, Migration};
pub use cfs::{Buddy, CfsRules, MinVruntime, Order, VirtualTime};
pub use domains::{DomainRules, LevelRules};
pub use eevdf::{EevdfRules, Yield};
pub use newidle::Newidle;
pub use normal::Class;
pub use place::{Affine, Placement, WakeRules};
pub use rt_limit::RtLimit;
pub use rt_root::Sharing;
pub use rules::{RtRules, SchedRules};
pub use task::{State, Tcb};
pub use wake::SyncWakeup;

use crate::bkl::{BKL, Bkl};
use crate::futex::Futexes;
use crate::irq::Agendas;
use crate::locks::Spin;
use crate::preset::{Config, KernelPreset, LockRules, Preempt};
use crate::rcu::Rcu;
use crate::softirq::Softirqs;
use ::core::cell::{Cell, OnceCell, RefCell};
use convoy_machine::{Here, Machine, Sim, ps};
use convoy_sync::TaskId;
use domains::Domain;
use entity::WEIGHT;
use kthread::Kthread;
use loads::Loads;
use normal::{Enqueue, Normal};
use std::collections::BTreeMap;
use std::rc::Rc;

/// One CPU's run queue.
pub(crate) struct RunQueue {
    pub(crate) lock: Sim<Spin>,
    pub(crate) rt: RefCell<rt::Queue>,
    pub(crate) normal: RefCell<Box<dyn Normal>>,
    pub(crate) curr: Cell<TaskId>,
    pub(crate) prev: Cell<TaskId>,
    pub(crate) idle: Cell<TaskId>,
    pub(crate) need_resched: Cell<bool>,
    pub(crate) domains: Vec<Domain>,
    /// Tick at which periodic balancing is due.
    pub(crate) next_balance: Cell<u64>,
    pub(crate) idle_at_tick: Cell<bool>,
    /// When it halted last, in picoseconds.
    pub(crate) halted_at: Cell<u64>,
    /// CPU to which the migration thread of this queue shall push a task.
    pub(crate) push_to: Cell<Option<usize>>,
    /// Next tick and end of slice, in picoseconds; `u64::MAX` when stopped.
    pub(crate) tick_at: Cell<u64>,
    pub(crate) slice_at: Cell<u64>,
    pub(crate) in_nohz_recently: Cell<bool>,
    /// When its present idle time began, until a wakeup ends it, and the average of these times,
    /// both nanoseconds.
    pub(crate) idle_since: Cell<Option<u64>>,
    pub(crate) avg_idle: Cell<u64>,
}

/// Counters over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStats {
    /// Switches between different tasks, idle ones included.
    pub switches: u64,
    /// Switches because the task went to sleep.
    pub voluntary: u64,
    /// Wakeups that woke somebody.
    pub wakeups: u64,
    /// Of these, onto another CPU than the task's last.
    pub wakeups_moved: u64,
    /// Tasks pulled by a CPU that ran out of work.
    pub pulled_newidle: u64,
    /// Attempts of such a CPU that found nothing it may move.
    pub newidle_failed: u64,
    /// Attempts that found the domains balanced.
    pub newidle_balanced: u64,
    /// Tasks pulled by periodic balancing.
    pub pulled_periodic: u64,
    /// Tasks pushed by the migration thread.
    pub pushed: u64,
    /// Wakeup preemptions.
    pub preemptions: u64,
    /// Real-time tasks pushed to, and pulled from, another CPU.
    pub rt_pushed: u64,
    /// See `rt_pushed`.
    pub rt_pulled: u64,
}

impl SchedStats {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            switches: self.switches - earlier.switches,
            voluntary: self.voluntary - earlier.voluntary,
            wakeups: self.wakeups - earlier.wakeups,
            wakeups_moved: self.wakeups_moved - earlier.wakeups_moved,
            pulled_newidle: self.pulled_newidle - earlier.pulled_newidle,
            newidle_failed: self.newidle_failed - earlier.newidle_failed,
            newidle_balanced: self.newidle_balanced - earlier.newidle_balanced,
            pulled_periodic: self.pulled_periodic - earlier.pulled_periodic,
            pushed: self.pushed - earlier.pushed,
            preemptions: self.preemptions - earlier.preemptions,
            rt_pushed: self.rt_pushed - earlier.rt_pushed,
            rt_pulled: self.rt_pulled - earlier.rt_pulled,
        }
    }
}

struct NoHz {
    /// CPUs whose tick is stopped.
    stopped: RefCell<Vec<bool>>,
    /// The idle CPU that ticks and balances for all of them.
    owner: Cell<Option<usize>>,
}

/// Path costs in picoseconds.
struct Costs {
    schedule: u64,
    wake: u64,
    tick: u64,
    balance_cpu: u64,
    pull: u64,
    switch: u64,
    refill: u64,
    ipi: u64,
    idle_exit: u64,
    address_space: u64,
    send: u64,
    halt_poll: u64,
    halted_exit: u64,
}

/// The scheduler of one machine; its [`convoy_machine::Os`].
pub struct Sched {
    pub(crate) queues: Vec<RunQueue>,
    loads: Loads,
    load_average: loadavg::LoadAverage,
    pub(crate) rules: SchedRules,
    rt_root: OnceCell<rt_root::Root>,
    rt_limits: OnceCell<rt_limit::Limits>,
    /// CPUs of one last-level cache, and how many of them a wakeup may look at, for each cache.
    llc: usize,
    idle_scan: Vec<Cell<usize>>,
    pub(crate) config: Config,
    tick_ps: u64,
    costs: Costs,
    tasks: RefCell<Vec<Option<Rc<Tcb>>>>,
    sleepers: RefCell<BTreeMap<(usize, u64), TaskId>>,
    timers: RefCell<BTreeMap<(u64, u64), TaskId>>,
    sequence: Cell<u64>,
    nohz: NoHz,
    stats: Cell<SchedStats>,
    pub(crate) locks: LockRules,
    pub(crate) bkl: Bkl,
    pub(crate) softirqs: Softirqs,
    pub(crate) rcu: Option<Rcu>,
    /// By CPU.
    pub(crate) agendas: Vec<Agendas>,
    kthreads: RefCell<BTreeMap<TaskId, Rc<Kthread>>>,
    futexes: OnceCell<Futexes>,
}

impl Sched {
    /// The scheduler of `kernel` for the machine of `preset`, which must be the machine of this
    /// thread.
    pub fn new(kernel: &KernelPreset, preset: &convoy_machine::Preset) -> Rc<Self> {
        Spin::build_with(kernel.locks.spinlock);
        let cpus = preset.topology.cpus;
        let llc = preset.topology.cpus_per_llc.min(cpus);
        let p = &preset.price_ns;
        let guest = preset.guest_ns.as_ref();
        let grouped = kernel.config.group_sched && kernel.sched.balance.group_shares;
        let sched = Self {
            queues: (0..cpus).map(|cpu| RunQueue::new(kernel, preset, cpu)).collect(),
            load_average: loadavg::LoadAverage::default(),
            loads: Loads::new(cpus, grouped),
            rules: kernel.sched.clone(),
            rt_root: OnceCell::new(),
            rt_limits: OnceCell::new(),
            llc,
            idle_scan: vec![Cell::new(llc); cpus.div_ceil(llc)],
            config: kernel.config.clone(),
            tick_ps: 1_000_000_000_000 / u64::from(kernel.config.hz),
            costs: Costs {
                schedule: ps(kernel.sched_ns.schedule),
                wake: ps(kernel.sched_ns.wake),
                tick: ps(kernel.sched_ns.tick),
                balance_cpu: ps(kernel.sched_ns.balance_cpu),
                pull: ps(kernel.sched_ns.pull),
                switch: ps(p.switch),
                refill: ps(p.refill),
                ipi: ps(p.ipi),
                idle_exit: ps(p.idle_exit),
                address_space: ps(p.address_space),
                send: guest.map_or(0, |guest| ps(guest.send)),
                halt_poll: guest.map_or(u64::MAX, |guest| ps(guest.halt_poll)),
                halted_exit: guest.map_or(0, |guest| ps(guest.halted_exit)),
            },
            tasks: RefCell::default(),
            sleepers: RefCell::default(),
            timers: RefCell::default(),
            sequence: Cell::new(0),
            nohz: NoHz { stopped: RefCell::new(vec![false; cpus]), owner: Cell::new(None) },
            stats: Cell::default(),
            locks: kernel.locks,
            bkl: Bkl::new(kernel),
            softirqs: Softirqs::new(&kernel.softirq, cpus),
            rcu: kernel.rcu.as_ref().map(|rules| Rcu::new(rules, kernel.locks, cpus)),
            agendas: (0..cpus).map(|_| Agendas::default()).collect(),
            kthreads: RefCell::default(),
            futexes: OnceCell::new(),
        };
        if let Some(lock) = sched.bkl.lock_object() {
            Here::watch(lock, BKL);
        }
        sched.queues.iter().for_each(|queue| queue.lock.name("rq->lock"));
        Rc::new(sched)
    }

    /// Gives it what threads in user mode need.
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
            let tcb = self.adopt(idle, cpu);
            tcb.on_cpu.set(true);
            let queue = &self.queues[cpu];
            queue.curr.set(idle);
            queue.prev.set(idle);
            queue.idle.set(idle);
            queue.tick_at.set(self.tick_ps + self.tick_offset(cpu));
            machine.boot(cpu, idle, 0);
        }
        self.start_rcu();
        let first = Here::spawn(init).expect("room for the first task");
        record::born(first, 0);
        let tcb = self.adopt(first, 0);
        self.queues[0].normal.borrow_mut().enqueue(&tcb, Enqueue::Moved, 0);
        self.loads.add(0, WEIGHT);
        self.queues[0].need_resched.set(true);
    }

    /// Records a new machine task.
    fn adopt(&self, id: TaskId, cpu: usize) -> Rc<Tcb> {
        let tcb = Rc::new(Tcb::new(id, cpu));
        let mut tasks = self.tasks.borrow_mut();
        if tasks.len() <= id as usize {
            tasks.resize(id as usize + 1, None);
        }
        tasks[id as usize] = Some(Rc::clone(&tcb));
        tcb
    }

    /// The record of `id`.
    pub fn tcb(&self, id: TaskId) -> Rc<Tcb> {
        self.tasks.borrow()[id as usize].clone().expect("a task of this scheduler")
    }

    /// The record of the calling task.
    pub fn current(&self) -> Rc<Tcb> {
        self.tcb(Here::task())
    }

    pub(crate) fn this(&self) -> &RunQueue {
        &self.queues[Here::cpu()]
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.set(self.sequence.get() + 1);
        self.sequence.get()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut SchedStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Tasks that are queued or running now.
    pub fn runnable(&self) -> u64 {
        self.loads.all()
    }

    /// Counters so far.
    pub fn stats(&self) -> SchedStats {
        self.stats.get()
    }

    /// Run time of `task` so far, in picoseconds, up to its last charge.
    pub fn cpu_time_ps(&self, task: TaskId) -> u64 {
        self.tcb(task).entity.sum_exec.get() * 1000
    }

    /// Takes the big kernel lock; nests.
    pub fn lock_kernel(&self) {
        self.bkl.lock(&self.current());
    }

    /// Keeps the calling task, and all that it makes from now on, to the CPU it is on
    /// (`sched_setaffinity`).
    pub fn stay_here(&self) {
        self.current().bound.set(true);
    }

    /// Ends one [`Self::lock_kernel`].
    pub fn unlock_kernel(&self) {
        self.bkl.unlock(&self.current());
    }

    /// A place where long kernel paths offer to give up the CPU.
    pub fn cond_resched(&self) {
        while self.this().need_resched.get() && Here::preempt_depth() == 0 {
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
    pub fn syscall_return(&self) {
        while self.this().need_resched.get() {
            self.schedule();
        }
    }
}

impl RunQueue {
    fn new(kernel: &KernelPreset, preset: &convoy_machine::Preset, cpu: usize) -> Self {
        Self {
            lock: Here::place(kernel.locks.spin()),
            rt: RefCell::new(rt::Queue::new(kernel.config.hz)),
            normal: RefCell::new(normal_queue(kernel, preset.topology.cpus)),
            curr: Cell::new(0),
            prev: Cell::new(0),
            idle: Cell::new(0),
            need_resched: Cell::new(false),
            domains: domains::build(&preset.topology, &kernel.sched.domains, cpu),
            next_balance: Cell::new(1),
            idle_at_tick: Cell::new(false),
            halted_at: Cell::new(0),
            push_to: Cell::new(None),
            tick_at: Cell::new(u64::MAX),
            slice_at: Cell::new(u64::MAX),
            in_nohz_recently: Cell::new(false),
            idle_since: Cell::new(None),
            avg_idle: Cell::new(2 * balance::MIGRATION_COST_NS),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.curr.get() == self.idle.get()
    }
}

/// The ordinary tasks of one CPU of `cpus`, in the class that `kernel` names.
fn normal_queue(kernel: &KernelPreset, cpus: usize) -> Box<dyn Normal> {
    let (rules, hz) = (&kernel.sched, kernel.config.hz);
    let checked = "a preset has the table of its class";
    match rules.class {
        Class::O1 => Box::new(o1::Queue::new(hz, cpus)),
        Class::WaitRuntime => Box::new(wait_runtime::Queue::new(cpus)),
        Class::Cfs => Box::new(cfs::Queue::new(rules.cfs.as_ref().expect(checked), cpus)),
        Class::Eevdf => Box::new(eevdf::Queue::new(rules.eevdf.as_ref().expect(checked), hz, cpus)),
    }
}
