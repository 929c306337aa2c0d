//! The scenarios of locks and semaphores.

use crate::script::{Shape, Step};
use Step::{
    Down, Interrupt, Interruptible, Kill, Killable, Preempt, Resume, Timeout, Try, Up, UpIfTaken,
};

/// Every shape, the simplest first.
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "binary",
        about: "three owners in turn",
        units: 1,
        owned: 0,
        tasks: &[&[Down, Up], &[Down, Up], &[Down, Up]],
    },
    Shape {
        name: "again",
        about: "an owner that immediately acquires it again",
        units: 1,
        owned: 0,
        tasks: &[&[Down, Up, Down, Up], &[Down, Up]],
    },
    Shape {
        name: "two-ups",
        about: "two ups before the first waiter runs",
        units: 0,
        owned: 0,
        tasks: &[&[Down], &[Down], &[Up, Up]],
    },
    Shape {
        name: "count-2",
        about: "two owners leave while two tasks wait",
        units: 2,
        owned: 2,
        tasks: &[&[Down], &[Down], &[Up], &[Up]],
    },
    Shape {
        name: "interrupt",
        about: "a signal ends a wait",
        units: 1,
        owned: 0,
        tasks: &[&[Down, Up], &[Interruptible, UpIfTaken], &[Down, Up], &[Interrupt(1)]],
    },
    Shape {
        name: "interrupt-kept",
        about: "a signal ends a wait for an owner that stays",
        units: 1,
        owned: 0,
        tasks: &[&[Down], &[Interruptible, UpIfTaken], &[Interrupt(1)]],
    },
    Shape {
        name: "interrupt-woken",
        about: "a signal meets a waiter that was just woken, with another behind it",
        units: 1,
        owned: 1,
        tasks: &[&[Interruptible, UpIfTaken], &[Down], &[Up], &[Interrupt(0)]],
    },
    Shape {
        name: "kill-kept",
        about: "a fatal signal ends a wait for an owner that stays",
        units: 1,
        owned: 0,
        tasks: &[&[Down], &[Killable, UpIfTaken], &[Kill(1)]],
    },
    Shape {
        name: "timeout-kept",
        about: "a deadline ends a wait for an owner that stays",
        units: 1,
        owned: 0,
        tasks: &[&[Down], &[Timeout, UpIfTaken]],
    },
    Shape {
        name: "kill",
        about: "a fatal signal ends a wait during two ups",
        units: 0,
        owned: 0,
        tasks: &[&[Killable], &[Down], &[Up, Up], &[Kill(0)]],
    },
    Shape {
        name: "timeout",
        about: "a deadline ends a wait",
        units: 1,
        owned: 0,
        tasks: &[&[Down, Up], &[Timeout, UpIfTaken], &[Down, Up]],
    },
    Shape {
        name: "timeouts",
        about: "deadlines of two waiters during two ups",
        units: 0,
        owned: 0,
        tasks: &[&[Timeout, UpIfTaken], &[Timeout], &[Down], &[Up, Up]],
    },
    Shape {
        name: "trylock",
        about: "attempts beside waits",
        units: 1,
        owned: 0,
        tasks: &[&[Down, Up], &[Try, UpIfTaken, Try, UpIfTaken], &[Down, Up]],
    },
    Shape {
        name: "preempted",
        about: "a critical section is preempted and runs again",
        units: 1,
        owned: 0,
        tasks: &[&[Down, Up], &[Down, Up], &[Preempt, Resume]],
    },
    Shape {
        name: "preempted-crowd",
        about: "the same among three owners, and is preempted for good",
        units: 1,
        owned: 0,
        tasks: &[&[Down, Up], &[Down, Up], &[Down, Up], &[Preempt, Resume, Preempt]],
    },
    Shape {
        name: "mixed",
        about: "two units, every way to take one",
        units: 2,
        owned: 0,
        tasks: &[
            &[Down, Up],
            &[Timeout, UpIfTaken],
            &[Try, UpIfTaken],
            &[Interruptible, UpIfTaken],
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn shapes_have_names_and_can_end() {
        let names: BTreeSet<_> = SHAPES.iter().map(|shape| shape.name).collect();
        assert_eq!(names.len(), SHAPES.len());
        for shape in SHAPES {
            assert!(!shape.name.contains([':', '/', ',']));
            // Tasks that do not release the unit that they acquire, and units that are added to the
            // existing ones.
            let lone = shape.tasks.iter().filter(|steps| steps.len() == 1);
            let takes = [Down, Interruptible, Killable, Timeout, Try];
            let kept = lone.filter(|steps| takes.contains(&steps[0])).count();
            let given = shape.tasks.iter().filter(|steps| steps[0] == Up).map(|steps| steps.len());
            let units = (shape.units - shape.owned) as usize + given.sum::<usize>();
            assert!(units >= kept.max(1), "{}", shape.name);
        }
    }
}
