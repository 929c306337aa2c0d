//! The scheduler of a kernel on four CPUs, for scenes of a few tasks.

use convoy_kernel::KernelPreset;
use convoy_kernel::sched::Sched;
use convoy_machine::{Here, Machine, Outcome, Preset};
use std::rc::Rc;

/// Picoseconds.
pub(crate) const MS: u64 = 1_000_000_000;

pub(crate) fn quad() -> Preset {
    Preset::named("quad-2008-shared-llc").expect("the shipped preset")
}

pub(crate) fn kernel(name: &str) -> KernelPreset {
    KernelPreset::named(name).expect("a shipped preset")
}

/// Runs `scene` as the first task, on CPU 0. Returns the scheduler, and the hash of the schedule.
pub(crate) fn stage(
    kernel: &KernelPreset,
    scene: impl FnOnce(Rc<Sched>) + 'static,
) -> (Rc<Sched>, u64) {
    let machine = Machine::new(&quad(), 1, 600).expect("address space");
    let sched = Sched::new(kernel, &quad());
    let inner = Rc::clone(&sched);
    let first = move || {
        scene(inner);
        Here::stop();
    };
    sched.boot(&machine, Box::new(first));
    assert_eq!(machine.run(100_000_000_000), Outcome::Stopped);
    (sched, machine.hash())
}
