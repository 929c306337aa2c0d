//! RCU of threads under the checker: no object in use is freed, and no updater sleeps forever.

use convoy_checker::model::{End, Instance, Model, Scenario, explore};
use convoy_checker::{Budget, Property};
use convoy_sync::rcu::user::{Fences, Patience, Periods, Reader};
use std::cell::{Cell, RefCell};

/// The checker executes all operations in one order, so no fence is needed.
struct Unneeded;

impl Fences for Unneeded {
    fn light() {}
    fn heavy() {}
    fn full() {}
}

#[derive(Default)]
struct Objects {
    periods: Periods<Model, Unneeded>,
    readers: [Reader<Model>; 2],
    present: Cell<u32>,
    freed: RefCell<Vec<u32>>,
}

impl Objects {
    /// A critical section checks the object that it found, once more at its end.
    fn look(&self, section: impl FnOnce()) {
        Model::point();
        let object = self.present.get();
        section();
        Model::point();
        if self.freed.borrow().contains(&object) {
            let text = format!("object {object} is freed while a critical section reads it");
            Model::fail(Property::GracePeriod, text);
        }
    }

    fn read(&self, number: usize) {
        let reader = &self.readers[number];
        for _ in 0..2 {
            reader.enter(&self.periods);
            self.look(|| ());
            reader.leave::<Unneeded>();
        }
    }

    fn read_quiescent(&self, number: usize) {
        let reader = &self.readers[number];
        reader.arrive(&self.periods);
        self.look(|| ());
        reader.pass(&self.periods);
        self.look(|| ());
        reader.leave::<Unneeded>();
    }

    fn update(&self) {
        for _ in 0..2 {
            Model::point();
            let old = self.present.replace(self.present.get() + 1);
            let ticket = self.periods.ticket();
            let patience = Patience { spin_ns: 0, stall_ns: None };
            let readers = || (self.readers.iter().collect(), true);
            self.periods.run(readers, patience, |_| unreachable!("no reader is late here"));
            assert!(self.periods.poll(ticket), "a whole grace period was waited for");
            Model::point();
            self.freed.borrow_mut().push(old);
        }
    }

    fn verdict(&self, end: &End) -> Result<(), (Property, String)> {
        if end.asleep.is_empty() && self.freed.borrow().len() == 2 {
            return Ok(());
        }
        Err((Property::NoLostWakeup, format!("{:?} sleep for good", end.asleep)))
    }
}

/// A reader function and the number of the reader.
type Read = fn(&Objects, usize);

/// Explores an updater together with two readers that run `read`.
fn explored(name: &str, read: Read) {
    let checks = [Property::GracePeriod, Property::NoLostWakeup];
    let scenario = Scenario::new(name, checks, move || {
        let task = move |objects: &Objects, task: usize| match task.checked_sub(1) {
            None => objects.update(),
            Some(reader) => read(objects, reader),
        };
        Instance::sharing(Objects::default(), 3, task, Objects::verdict)
    });
    let report = explore(&scenario, Budget::default());
    let violation = report.violation.map(|it| (it.text, it.narrative));
    assert_eq!(violation, None);
    assert!(report.explored > 1000);
}

#[test]
fn readers_that_enter_and_leave() {
    explored("sections", Objects::read);
}

#[test]
fn readers_that_are_quiescent_now_and_then() {
    explored("quiescent", Objects::read_quiescent);
}

/// A ticket that is drawn during a grace period waits for the next one.
#[test]
fn a_ticket_of_the_middle_is_not_over_at_the_end() {
    let periods = Periods::<Model, Unneeded>::default();
    let mut middle = None;
    let patience = Patience { spin_ns: 0, stall_ns: None };
    periods.run(
        || {
            middle = Some(periods.ticket());
            (Vec::<&Reader<Model>>::new(), false)
        },
        patience,
        |_| (),
    );
    assert!(!periods.poll(middle.expect("the list was asked for")));
}
