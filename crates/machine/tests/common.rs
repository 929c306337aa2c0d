//! The machine of most scenes, and scenes with a task on each CPU.

use convoy_machine::{Fifo, Here, Machine, Outcome, Preset};
use std::cell::Cell;
use std::rc::Rc;

pub(crate) fn quad() -> Preset {
    Preset::named("quad-2008-shared-llc").expect("a shipped preset")
}

/// Runs `body` on every CPU; what each returned, and the machine.
pub(crate) fn on_each_cpu(
    preset: &Preset,
    body: impl Fn() -> u64 + 'static,
) -> (Vec<u64>, Machine) {
    let body = Rc::new(body);
    let results: Rc<Vec<Cell<u64>>> = Rc::new(vec![Cell::new(0); preset.topology.cpus]);
    let bodies = (0..preset.topology.cpus)
        .map(|_| {
            let (body, results) = (Rc::clone(&body), Rc::clone(&results));
            Box::new(move || results[Here::cpu()].set(body())) as Box<dyn FnOnce()>
        })
        .collect();
    let (outcome, machine) = Fifo::run(preset, 1, u64::MAX / 1000, bodies).expect("memory");
    assert_eq!(outcome, Outcome::Stopped);
    (results.iter().map(Cell::get).collect(), machine)
}
