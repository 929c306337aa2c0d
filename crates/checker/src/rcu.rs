//! RCU scenarios as data: the moves of each CPU between its quiescent states.

mod shapes;

use crate::model::{End, Failure, Instance, Model, Plain, Property, Scenario};
use convoy_sync::rcu::{Rcu, Reader, Work};
use convoy_sync::{Atomic, Platform, RawLock, Sleep, TicketLock};
use core::sync::atomic::Ordering::{Acquire, Release};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Word = <Model as Platform>::AtomicU32;

/// Maximum number of objects of a scenario.
const OBJECTS: usize = 8;

/// References that a task holds between two moves.
struct Hands {
    reader: Rc<Reader>,
    looked_at: usize,
}

/// Work of a thread: items queued and items done.
struct Desk {
    flag: Work,
    given: Cell<usize>,
    done: Cell<usize>,
    bell: Word,
}

/// The code of a CPU, as a task.
use Move::{After, Awake, Call, Close, Core, Give, Idle, Late, Leave, Open, Pass, Serve};
pub use shapes::{Move, RCU_SHAPES, RcuShape};

/// RCU and its objects. Readers that do not announce their `SECTIONS` are a violation of its rules.
struct Objects<const SECTIONS: bool> {
    /// The callbacks are the objects to free.
    rcu: Rcu<Model, usize>,
    desk: Desk,
    /// The object that readers access.
    present: Cell<usize>,
    /// Data of each object: readers read it, and the task that frees the object overwrites it.
    memory: Vec<Plain<u32>>,
    /// Number of created objects, and the freed objects.
    made: Cell<usize>,
    freed: RefCell<Vec<usize>>,
    jiffies: Cell<u64>,
    /// Number of moves that each CPU has made.
    made_moves: Vec<Word>,
}

impl<const SECTIONS: bool> Objects<SECTIONS> {
    fn play(&self, moves: &[Move]) {
        let parts = <TicketLock<Model> as RawLock<Model>>::parts;
        self.rcu.locks(|lock, name| Model::name(lock, name, parts));
        let reader = Reader::new(Model::cpu());
        let mut hands = Hands { reader, looked_at: 0 };
        for (&step, number) in moves.iter().zip(1..) {
            Model::call(step.name());
            self.make(step, &mut hands);
            self.made_moves[Model::cpu() as usize].store(number, Release);
        }
    }

    fn make(&self, step: Move, hands: &mut Hands) {
        let cpu = Model::cpu() as usize;
        match step {
            Open => {
                if SECTIONS {
                    hands.reader.enter();
                }
                hands.looked_at = self.present.get();
                self.memory[hands.looked_at].get();
            }
            Close => {
                self.look_at(hands.looked_at);
                if SECTIONS {
                    let _boosted = self.rcu.leave(&hands.reader, self.jiffies.get());
                }
            }
            Call => {
                let old = self.replace();
                let _late = self.rcu.call(old, self.jiffies.get());
            }
            Leave => {
                Model::irq_save();
                self.rcu.note_switch(&hands.reader);
                Model::irq_restore(());
            }
            Pass => self.rcu.note_quiescent_state(),
            Core => self.tick(),
            Late => {
                self.jiffies.set(self.jiffies.get() + 100);
                self.tick();
            }
            Idle => self.rcu.note_tick_stopped(cpu, true),
            Awake => self.rcu.note_tick_stopped(cpu, false),
            After(cpu, moves) => {
                Model::spin_until(&self.made_moves[cpu], |made| made >= moves);
            }
            Give => self.give(),
            Serve(parts) => self.serve(parts),
        }
    }

    /// Replaces the current object with a new one and returns the old one.
    fn replace(&self) -> usize {
        let made = self.made.replace(self.made.get() + 1);
        self.present.replace(made)
    }

    fn give(&self) {
        let desk = &self.desk;
        // The interrupt is one step of the thread's CPU, between any two steps of the thread.
        Model::point();
        desk.given.set(desk.given.get() + 1);
        desk.flag.give();
        desk.bell.fetch_add(1, Release);
        Model::wake(&raw const desk.bell, 1);
    }

    fn serve(&self, parts: usize) {
        let desk = &self.desk;
        while desk.done.get() < parts {
            let rung = desk.bell.load(Acquire);
            Model::point();
            desk.flag.round(|| {
                desk.done.set(desk.done.get() + desk.given.take());
                Model::point();
            });
            if desk.done.get() < parts && !desk.flag.is_given() {
                Model::wait(&desk.bell, rung, Sleep::Uninterruptible, None);
            }
        }
    }

    fn free(&self, object: usize) {
        self.memory[object].set(0);
        self.freed.borrow_mut().push(object);
    }

    fn look_at(&self, object: usize) {
        self.memory[object].get();
        if self.freed.borrow().contains(&object) {
            let text = format!("object {object} is freed while CPU {} reads it", Model::cpu());
            Model::fail(Property::GracePeriod, text);
        }
    }

    fn tick(&self) {
        if self.rcu.pending(self.jiffies.get()) {
            let _late = self.rcu.core(self.jiffies.get());
        }
        while let Some(object) = self.rcu.take_done() {
            self.free(object);
        }
    }

    /// Checks the final state, in which no task can continue.
    fn verdict(&self, end: &End) -> Result<(), Failure> {
        if !end.asleep.is_empty() {
            let text = format!(
                "the thread sleeps although {} parts of work are pending",
                self.desk.given.get()
            );
            return Err((Property::NoLostWakeup, text));
        }
        if !end.spinning.is_empty() {
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

/// Returns an instance of `tasks`; `verdict` judges its end.
fn set_up<const SECTIONS: bool>(
    tasks: &'static [&'static [Move]],
    before_wrap: u8,
    verdict: fn(&Objects<SECTIONS>, &End) -> Result<(), Failure>,
) -> Instance {
    let first = -(isize::from(before_wrap));
    let objects = Objects::<SECTIONS> {
        rcu: Rcu::new(tasks.len(), first),
        desk: Desk {
            flag: Work::default(),
            given: Cell::default(),
            done: Cell::default(),
            bell: Word::new(0),
        },
        present: Cell::new(0),
        memory: (0..OBJECTS).map(|_| Plain::new(0)).collect(),
        made: Cell::new(1),
        freed: RefCell::default(),
        jiffies: Cell::new(0),
        made_moves: tasks.iter().map(|_| Word::new(0)).collect(),
    };
    let play = move |objects: &Objects<SECTIONS>, task: usize| objects.play(tasks[task]);
    Instance::sharing(objects, tasks.len(), play, verdict)
}

/// Returns the scenario of `shape` on RCU, whose readers announce their `SECTIONS`, under the name
/// `variant`.
pub fn rcu_scenario<const SECTIONS: bool>(variant: &str, shape: &RcuShape) -> Scenario {
    let RcuShape { tasks, before_wrap, .. } = *shape;
    let mut checks = vec![Property::GracePeriod, Property::NoDeadlock, Property::UnitsKept];
    if tasks.iter().any(|moves| moves.contains(&Give)) {
        checks = vec![Property::NoLostWakeup, Property::NoDeadlock];
    }
    let name = format!("{variant}/{}", shape.name);
    Scenario::new(name, checks, move || set_up::<SECTIONS>(tasks, before_wrap, Objects::verdict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Budget, explore};

    /// The first CPU reads, and the second removes the object that the first accesses.
    const FIRST_CPU: &[&[Move]] =
        &[&[Open, After(1, 6), Close], &[After(0, 1), Call, Core, Pass, Core, Core]];

    /// A reader that was preempted ends its critical section and was the last of its kind. The
    /// reader on the second CPU has not finished.
    const NOT_ALL_HAVE_PASSED: &[&[Move]] = &[
        &[Open, After(2, 4), Leave, Close],
        &[Open, After(2, 7), Close],
        &[After(0, 1), After(1, 1), Call, Core, After(0, 4), Core, Core],
    ];

    /// The inner one of two nested critical sections ends, and the reader is preempted in the outer
    /// one.
    const NESTED: &[&[Move]] = &[
        &[Open, Open, Close, After(1, 3), Core, Leave, Core, After(1, 7), Close],
        &[After(0, 2), Call, Core, After(0, 7), Pass, Core, Core],
    ];

    /// A reader is preempted after the grace period stops waiting for its CPU, and accesses an
    /// object that the next grace period frees.
    const FOR_THE_NEXT: &[&[Move]] = &[
        &[
            After(1, 2),
            Core,
            Pass,
            Core,
            Open,
            Leave,
            After(1, 8),
            Core,
            Pass,
            Core,
            After(1, 11),
            Close,
        ],
        &[Call, Core, After(0, 6), Call, Core, Pass, Core, Core, After(0, 10), Pass, Core],
    ];

    #[test]
    fn a_grace_period_waits_for_every_reader() {
        for tasks in [FIRST_CPU, NOT_ALL_HAVE_PASSED, NESTED, FOR_THE_NEXT] {
            let shape = RcuShape { name: "readers", about: "", before_wrap: 1, tasks };
            let report = explore(&rcu_scenario::<true>("test", &shape), Budget::default());
            assert_eq!(report.violation.map(|violation| violation.text), None);
        }
    }

    /// The second CPU ends the grace period and does not wait for one itself. The first frees at
    /// its next tick, and the other moves would end a second grace period if one existed.
    const LAST_ENDS: &[&[Move]] = &[
        &[Call, Core, Pass, Core, After(1, 4), Core, Pass, Core],
        &[After(0, 4), Core, Pass, Core, After(0, 8), Core, Pass, Core],
    ];

    #[test]
    fn who_waits_is_told_of_the_end_and_needs_no_other() {
        let scenario = Scenario::new("told", [], || {
            set_up::<true>(LAST_ENDS, 1, |objects, _| {
                match (objects.freed.borrow().as_slice(), objects.rcu.stats().grace_periods) {
                    ([0], 1) => Ok(()),
                    other => Err((Property::UnitsKept, format!("freed, periods: {other:?}"))),
                }
            })
        });
        let report = explore(&scenario, Budget::default());
        assert_eq!(report.violation.map(|violation| violation.text), None);
    }
}
