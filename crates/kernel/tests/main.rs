//! Scenes of the virtual kernel: scheduler, locks, RCU, system calls.

mod calls;
mod mutex;
mod rcu_torture;
mod realtime;
mod scheduler;
mod softirq;
mod spread;
mod stage;
