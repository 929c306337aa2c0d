//! The start of a kernel: its first process, and the end of it.

use crate::process::Process;
use crate::world::World;
use convoy_machine::{Here, Machine};
use std::rc::Rc;

/// Time for a process that was waited for to leave its CPU, nanoseconds.
const LAST_SWITCH_NS: u64 = 1_000_000;

impl World {
    /// Installs the scheduler on `machine` and makes `init` the first process. When `init` returns
    /// the machine stops a millisecond later, whatever the others do.
    pub fn boot(self: &Rc<Self>, machine: &Machine, init: impl FnOnce(&mut Process) + 'static) {
        self.boot_boxed(machine, Box::new(init));
    }

    fn boot_boxed(self: &Rc<Self>, machine: &Machine, init: Box<dyn FnOnce(&mut Process)>) {
        let mut process = Process::first(self);
        let body = move || {
            process.begin();
            process.world.tree.mount(process.world.base());
            init(&mut process);
            process.world.tree.unmount(&process.world);
            // The last child may still be on its way off its CPU, and it holds the world.
            process.world.sched.sleep_until(Here::now_ns() + LAST_SWITCH_NS);
            drop(process);
            Here::stop();
        };
        self.sched.boot(machine, Box::new(body));
    }
}
