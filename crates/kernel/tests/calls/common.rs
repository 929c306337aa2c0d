//! A small virtual machine with a kernel on it, for the tests of the system calls.

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Here, Machine, Outcome, Preset};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The result of a run.
pub(crate) struct Ran {
    pub(crate) world: Rc<World>,
    pub(crate) machine: Machine,
}

/// The calibration of the tests: the units of the programs and one unit of a microsecond.
pub(crate) fn units() -> BTreeMap<String, f64> {
    [("shell_start", 400_000.0), ("list_program", 500_000.0), ("microsecond", 1000.0)]
        .into_iter()
        .map(|(name, ns)| (name.to_owned(), ns))
        .collect()
}

pub(crate) fn preset(cpus: usize) -> Preset {
    let mut preset =
        Preset::named("quad-2008-shared-llc").expect("the shipped preset").with_cpus(cpus);
    // The shipped speed is fitted to a published run; the tests must not depend on it.
    preset.speed = 1.0;
    preset
}

/// A shipped preset.
pub(crate) fn kernel(name: &str) -> KernelPreset {
    KernelPreset::named(name).expect("a shipped preset")
}

/// Runs `body` as the first process of the kernel called `name` on a machine of two CPUs.
pub(crate) fn run_with(
    name: &str,
    options: Options,
    seed: u64,
    body: impl FnOnce(&mut Process) + 'static,
) -> Ran {
    run_kernel(&kernel(name), options, seed, body)
}

/// [`run_with`] on a preset.
pub(crate) fn run_kernel(
    kernel: &KernelPreset,
    options: Options,
    seed: u64,
    body: impl FnOnce(&mut Process) + 'static,
) -> Ran {
    run_on(&preset(2), kernel, options, seed, body)
}

/// [`run_kernel`] on a machine.
pub(crate) fn run_on(
    preset: &Preset,
    kernel: &KernelPreset,
    options: Options,
    seed: u64,
    body: impl FnOnce(&mut Process) + 'static,
) -> Ran {
    let machine = Machine::new(preset, seed, 200).expect("address space");
    let world = World::new(kernel, preset, &units(), options).expect("a complete calibration");
    world.boot(&machine, |k| {
        body(k);
        assert_eq!(k.world().held_locks(), Vec::<&str>::new());
        assert_eq!(Here::preempt_depth(), 0);
        assert!(!Here::irqs_disabled());
    });
    let outcome = machine.run(600_000_000_000);
    assert_eq!(outcome, Outcome::Stopped, "the first process has not come to its end");
    Ran { world, machine }
}

/// [`run_with`] on 2.6.25 with the default options.
pub(crate) fn run(body: impl FnOnce(&mut Process) + 'static) -> Ran {
    run_with("2.6.25", Options::default(), 1, body)
}
