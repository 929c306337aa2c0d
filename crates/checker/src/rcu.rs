//! RCU scenarios as data: what each CPU does between its quiescent states.

use crate::model::{End, Failure, Instance, Model, Property, Scenario};
use convoy_sync::rcu::{Rcu, Steps};
use convoy_sync::{Atomic, Platform, RawLock, TicketLock};
use core::sync::atomic::Ordering::Release;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Word = <Model as Platform>::AtomicU32;

/// What a CPU does, as a task.
type Body = Box<dyn FnOnce()>;

use Move::{After, Awake, Call, Close, Core, Idle, Late, Open, Pass};

/// One thing that a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A reader's section begins: takes the present object. Ticks may come inside, no quiescent
    /// state does.
    Open,
    /// It ends, and has used the object until here.
    Close,
    /// Puts a new object in the place of the present one, which is to be freed.
    Call,
    /// A context switch: a quiescent state.
    Pass,
    /// A tick: core processing if there is any to do, and what is free by now is freed.
    Core,
    /// The same so late that CPUs which owe a quiescent state are looked at.
    Late,
    /// Stops the tick: quiescent until [`Move::Awake`].
    Idle,
    /// Starts it again.
    Awake,
    /// Waits until that CPU has made so many moves: leads the search to where it is narrow.
    After(usize, u32),
}

/// A small program over RCU. Every task is a CPU.
#[derive(Clone, Copy, Debug)]
pub struct RcuShape {
    /// The name, part of schedule strings.
    pub name: &'static str,
    /// What it looks at, in a few words.
    pub about: &'static str,
    /// Grace periods before the numbers wrap.
    pub before_wrap: u8,
    /// What each CPU does.
    pub tasks: &'static [&'static [Move]],
}

/// Every shape, the simplest first.
pub const RCU_SHAPES: &[RcuShape] = &[
    RcuShape {
        name: "free",
        about: "nobody looks, in every order, while the numbers wrap",
        before_wrap: 1,
        tasks: &[&[Call, Core, Pass, Core, Core], &[Core, Pass, Core, Core]],
    },
    RcuShape {
        name: "early-note",
        about: "a quiescent state was noted before the section and before the grace period",
        before_wrap: 100,
        tasks: &[
            &[After(1, 2), Call, Core, After(1, 5), Pass, Core, Core, Core],
            &[Pass, Open, After(0, 3), Core, Core, After(0, 8), Close],
        ],
    },
    RcuShape {
        name: "joins",
        about: "a section that begins after its CPU has reported",
        before_wrap: 1,
        tasks: &[
            &[Call, Core, After(1, 5), Call, Pass, Core, Core, Core],
            &[After(0, 2), Core, Pass, Core, Open, After(0, 8), Close],
        ],
    },
    RcuShape {
        name: "overtaken",
        about: "a report that the next grace period overtakes",
        before_wrap: 100,
        tasks: &[
            &[
                Call,
                Core,
                After(1, 3),
                Late,
                After(1, 7),
                Pass,
                Call,
                Core,
                Late,
                After(1, 9),
                Pass,
                Core,
                Core,
                Core,
            ],
            &[
                After(0, 2),
                Core,
                Pass,
                After(0, 4),
                Idle,
                Awake,
                Open,
                Core,
                Core,
                After(0, 14),
                Close,
            ],
        ],
    },
    RcuShape {
        name: "three",
        about: "a reader between two that free",
        before_wrap: 2,
        tasks: &[
            &[Call, Core, Pass, Core, Core],
            &[Open, Core, Core, Close, Pass, Core],
            &[Call, Core, Pass, Core, Core],
        ],
    },
];

/// RCU, and the objects beside it.
struct Objects<S: Steps> {
    rcu: Rcu<Model, usize, S>,
    /// The object that readers find.
    present: Cell<usize>,
    /// Objects that were made and those that were freed.
    made: Cell<usize>,
    freed: RefCell<Vec<usize>>,
    jiffies: Cell<u64>,
    /// Moves that each CPU has made.
    made_moves: Vec<Word>,
}

impl<S: Steps> Objects<S> {
    fn play(&self, moves: &[Move]) {
        let parts = <TicketLock<Model> as RawLock<Model>>::parts;
        self.rcu.locks(|lock, name| Model::name(lock, name, parts));
        let mut looked_at = 0;
        for (&step, number) in moves.iter().zip(1..) {
            Model::call(step.name());
            self.make(step, &mut looked_at);
            self.made_moves[Model::cpu() as usize].store(number, Release);
        }
    }

    fn make(&self, step: Move, looked_at: &mut usize) {
        match step {
            Open => *looked_at = self.present.get(),
            Close => self.look_at(*looked_at),
            Call => {
                let old = self.present.replace(self.made.get());
                self.made.set(self.made.get() + 1);
                self.rcu.call(old);
            }
            Pass => self.rcu.note_quiescent_state(),
            Core => self.tick(),
            Late => {
                self.jiffies.set(self.jiffies.get() + 100);
                self.tick();
            }
            Idle => self.rcu.note_tick_stopped(Model::cpu() as usize, true),
            Awake => self.rcu.note_tick_stopped(Model::cpu() as usize, false),
            After(cpu, moves) => {
                Model::spin_until(&self.made_moves[cpu], |made| made >= moves);
            }
        }
    }

    fn look_at(&self, object: usize) {
        if self.freed.borrow().contains(&object) {
            let text = format!("object {object} is freed while CPU {} looks at it", Model::cpu());
            Model::fail(Property::GracePeriod, text);
        }
    }

    fn tick(&self) {
        if self.rcu.pending(self.jiffies.get()) {
            let _late = self.rcu.core(self.jiffies.get());
        }
        while let Some(object) = self.rcu.take_done() {
            self.freed.borrow_mut().push(object);
        }
    }

    /// Nobody runs any more: what must hold now.
    fn verdict(&self, end: &End) -> Result<(), Failure> {
        if !end.spinning.is_empty() || !end.asleep.is_empty() {
            let text = format!("CPUs {:?} spin forever on a lock of RCU", end.spinning);
            return Err((Property::NoDeadlock, text));
        }
        let mut freed = self.freed.borrow().clone();
        freed.sort_unstable();
        if freed.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err((Property::UnitsKept, format!("freed twice: {freed:?}")));
        }
        Ok(())
    }
}

impl Move {
    fn name(self) -> &'static str {
        match self {
            Open => "section begins",
            Close => "section ends",
            Call => "call",
            Pass => "note_quiescent_state",
            Core => "core",
            Late => "force",
            Idle => "stop tick",
            Awake => "start tick",
            After(..) => "wait for the other",
        }
    }
}

/// The objects of `tasks`, and the tasks.
fn set_up<S: Steps>(
    tasks: &'static [&'static [Move]],
    before_wrap: u8,
) -> (Rc<Objects<S>>, Vec<Body>) {
    let first = -(isize::from(before_wrap));
    let objects = Rc::new(Objects::<S> {
        rcu: Rcu::new(tasks.len(), first),
        present: Cell::new(0),
        made: Cell::new(1),
        freed: RefCell::default(),
        jiffies: Cell::new(0),
        made_moves: tasks.iter().map(|_| Word::new(0)).collect(),
    });
    let body = |moves: &'static [Move]| -> Body {
        let objects = Rc::clone(&objects);
        Box::new(move || objects.play(moves))
    };
    let bodies = tasks.iter().map(|moves| body(moves)).collect();
    (objects, bodies)
}

/// `shape` played on RCU with the steps of `S`, under the name `variant`.
pub fn rcu_scenario<S: Steps>(variant: &str, shape: &RcuShape) -> Scenario {
    let RcuShape { tasks, before_wrap, .. } = *shape;
    let build = move || {
        let (objects, tasks) = set_up::<S>(tasks, before_wrap);
        Instance { tasks, verdict: Box::new(move |end| objects.verdict(end)) }
    };
    let checks = vec![Property::GracePeriod, Property::NoDeadlock, Property::UnitsKept];
    Scenario { name: format!("{variant}/{}", shape.name), checks, build: Box::new(build) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Budget, explore};
    use convoy_sync::rcu::Sound;

    /// The second CPU ends the grace period and waits for none itself; the first one frees at its
    /// next tick, and the rest would end a second grace period if there were one.
    const LAST_ENDS: &[&[Move]] = &[
        &[Call, Core, Pass, Core, After(1, 4), Core, Pass, Core],
        &[After(0, 4), Core, Pass, Core, After(0, 8), Core, Pass, Core],
    ];

    #[test]
    fn who_waits_is_told_of_the_end_and_needs_no_other() {
        let build = || {
            let (objects, tasks) = set_up::<Sound>(LAST_ENDS, 1);
            let verdict = move |_: &End| match (
                objects.freed.borrow().as_slice(),
                objects.rcu.stats().grace_periods,
            ) {
                ([0], 1) => Ok(()),
                other => Err((Property::UnitsKept, format!("freed, periods: {other:?}"))),
            };
            Instance { tasks, verdict: Box::new(verdict) }
        };
        let scenario =
            Scenario { name: "told".to_owned(), checks: Vec::new(), build: Box::new(build) };
        let report = explore(&scenario, Budget::default());
        assert_eq!(report.violation.map(|violation| violation.text), None);
    }
}
