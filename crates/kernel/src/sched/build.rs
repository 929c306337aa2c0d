//! The run queues of a kernel on a machine.

use super::balance::rules::StoppedTicks;
use super::domains::{self, Power};
use super::fair_server::FairServers;
use super::loadavg::LoadAverage;
use super::loads::Loads;
use super::normal::{Class, Normal};
use super::queue::{Costs, MIGRATION_COST_NS, Resched, RunQueue, RunQueues};
use super::rt_limit::{Limits, RtLimit};
use super::wake::SyncWakeup;
use super::{cfs, eevdf, o1, rt, wait_runtime};
use crate::preset::KernelPreset;
use convoy_machine::{Here, Preset, ps};
use core::cell::{Cell, OnceCell, RefCell};

/// The run queues of `kernel` on the machine of `preset`.
pub(super) fn run_queues(kernel: &KernelPreset, preset: &Preset) -> RunQueues {
    let (cpus, hz) = (preset.topology.cpus, kernel.config.hz);
    let queues: Vec<_> = (0..cpus).map(|cpu| run_queue(kernel, preset, cpu)).collect();
    for queue in &queues {
        queue.lock.name("rq->lock");
    }
    RunQueues {
        queues,
        load_average: LoadAverage::default(),
        loads: loads(kernel, preset),
        rt: kernel.sched.rt.clone(),
        rt_root: OnceCell::new(),
        rt_limits: Limits::new(kernel.sched.rt.limit, kernel.locks, cpus),
        fair_servers: FairServers::new(match kernel.sched.rt.limit {
            RtLimit::Server => cpus,
            _ => 0,
        }),
        costs: costs(kernel, preset),
        counts_there: kernel.sched.wake.sync == SyncWakeup::Affine,
        hz,
        tick_ps: 1_000_000_000_000 / u64::from(hz),
        tasks: RefCell::default(),
        stats: Cell::default(),
    }
}

fn loads(kernel: &KernelPreset, preset: &Preset) -> Loads {
    let grouped = kernel.config.group_sched && kernel.sched.balance.group_shares;
    let domains = &kernel.sched.domains;
    let threads = match domains.smt {
        Some(_) if domains.power != Power::Threads => preset.topology.threads_per_core,
        _ => 1,
    };
    let decays = kernel.sched.balance.stopped_ticks == StoppedTicks::Decay;
    let loads = Loads::new(preset.topology.cpus, grouped, threads, decays);
    loads.idlers.tick_ps.set(1_000_000_000_000 / u64::from(kernel.config.hz));
    loads
}

fn costs(kernel: &KernelPreset, preset: &Preset) -> Costs {
    let (p, guest) = (&preset.price_ns, preset.guest_ns.as_ref());
    let steps = preset.sched_ns;
    Costs {
        schedule: ps(steps.map_or(kernel.sched_ns.schedule, |steps| steps.schedule)),
        wake: ps(steps.map_or(kernel.sched_ns.wake, |steps| steps.wake)),
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
        long_idle: guest.map_or(u64::MAX, |guest| ps(guest.long_idle)),
        halted_exit: guest.map_or(0, |guest| ps(guest.halted_exit)),
        cold: preset.cold_switch.clone(),
    }
}

fn run_queue(kernel: &KernelPreset, preset: &Preset, cpu: usize) -> RunQueue {
    RunQueue {
        lock: Here::place(kernel.locks.spin()),
        rt: RefCell::new(rt::Queue::default()),
        normal: RefCell::new(normal_queue(kernel, preset.topology.cpus)),
        curr: Cell::new(0),
        prev: Cell::new(0),
        idle: Cell::new(0),
        need_resched: Resched { cpu },
        domains: domains::build(preset, &kernel.sched.domains, cpu),
        next_balance: Cell::new(1),
        // Until nohz takes over at the end of the boot an idle CPU ticks: it has been seen idle.
        idle_at_tick: Cell::new(true),
        clock_ns: Cell::new(0),
        turns: Cell::new(0),
        halted_at: Cell::new(0),
        push_to: Cell::new(None),
        tick_at: Cell::new(u64::MAX),
        slice_at: Cell::new(u64::MAX),
        extended_until: Cell::new(None),
        in_nohz_recently: Cell::new(false),
        idle_since: Cell::new(None),
        avg_idle: Cell::new(2 * MIGRATION_COST_NS),
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
