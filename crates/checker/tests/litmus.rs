//! Litmus tests: small programs, and whether an outcome is possible under each memory model.
//!
//! The verdicts are those of the published tables and of the axioms of RC11: Lahav and others (PLDI
//! 2017) with their appendix, Maranget, Sarkar and Sewell ("A tutorial introduction to the ARM and
//! POWER relaxed memory models", 2012), Sewell and others (x86-TSO, CACM 2010), and Batty and
//! others (POPL 2011). Two verdicts are not those of other models, and are not deviations from
//! RC11: load buffering is forbidden (RC11 demands it; hardware and C11 allow it), and later stores
//! of the same task are in a release sequence (C++20 and Rust removed them).

use convoy_checker::model::{
    Budget, Instance, Memory, Model, Property, Report, Scenario, Word, explore, explore_weak,
};
use convoy_sync::{Atomic, Platform};
use std::cell::RefCell;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Programs. A line has a name, tasks separated by `|`, the outcome, and whether it is possible
/// under `sc`, `tso` and `c11` (`+` or `-`).
///
/// `Wx1` writes 1 to x, `Rx` reads it, `Ax1` adds 1, `Sx1` swaps, `Cx01` replaces 0 by 1, `F` is a
/// fence, and `=1` ends the task unless the last value read was 1. After `:` comes the ordering
/// (`acq`, `rel`, `ar`, `sc`), otherwise it is relaxed. The outcome lists the values that were
/// read, in the order of the tasks, and values at the end, as `x2`.
const TABLE: &str = "
SB                   | Wx1 Ry         | Wy1 Rx           | 0 0     | - + +
SB+ra                | Wx1:rel Ry:acq | Wy1:rel Rx:acq   | 0 0     | - + +
SB+sc                | Wx1:sc Ry:sc   | Wy1:sc Rx:sc     | 0 0     | - - -
SB+fences            | Wx1 F:sc Ry    | Wy1 F:sc Rx      | 0 0     | - - -
SB+one-fence         | Wx1 F:sc Ry    | Wy1 Rx           | 0 0     | - + +
SB+fences-ar         | Wx1 F:ar Ry    | Wy1 F:ar Rx      | 0 0     | - + +
SB+sc-writes         | Wx1:sc Ry      | Wy1:sc Rx        | 0 0     | - - +
SB+sc-reads          | Wx1 Ry:sc      | Wy1 Rx:sc        | 0 0     | - + +
SB+fence-and-sc      | Wx1 F:sc Ry    | Wy1:sc Rx:sc     | 0 0     | - - -
SB+swaps             | Sx1:ar Ry      | Sy1:ar Rx        | 0 0 0 0 | - - +
SB+swaps-sc          | Sx1:sc Ry:sc   | Sy1:sc Rx:sc     | 0 0 0 0 | - - -
SB+rfi               | Wx1:sc Rx Ry:sc | Wy1:sc Ry Rx:sc | 1 0 1 0 | - - -
SB+rmw-third         | Wx1 Az0:ar Ry  | Wy1 Az0:ar Rx    | 0 0 0 0 | - - -
SB+rmw-third-rlx     | Wx1 Az0 Ry     | Wy1 Az0 Rx       | 0 0 0 0 | - - +
3.SB                 | Wx1 Ry         | Wy1 Rz  | Wz1 Rx | 0 0 0   | - + +
3.SB+fences          | Wx1 F:sc Ry    | Wy1 F:sc Rz | Wz1 F:sc Rx | 0 0 0 | - - -
3.SB+sc              | Wx1:sc Ry:sc   | Wy1:sc Rz:sc | Wz1:sc Rx:sc | 0 0 0 | - - -
MP                   | Wx1 Wy1        | Ry Rx            | 1 0     | - - +
MP+ra                | Wx1 Wy1:rel    | Ry:acq Rx        | 1 0     | - - -
MP+rel-rlx           | Wx1 Wy1:rel    | Ry Rx            | 1 0     | - - +
MP+rlx-acq           | Wx1 Wy1        | Ry:acq Rx        | 1 0     | - - +
MP+fences            | Wx1 F:rel Wy1  | Ry F:acq Rx      | 1 0     | - - -
MP+fence-acq         | Wx1 F:rel Wy1  | Ry:acq Rx        | 1 0     | - - -
MP+rel-fence         | Wx1 Wy1:rel    | Ry F:acq Rx      | 1 0     | - - -
MP+fence-rlx         | Wx1 F:rel Wy1  | Ry Rx            | 1 0     | - - +
MP+fences-sc         | Wx1 F:sc Wy1   | Ry F:sc Rx       | 1 0     | - - -
MP+fence-sc-rlx      | Wx1 F:sc Wy1   | Ry Rx            | 1 0     | - - +
MP+late-fence        | Wx1 Wy1 F:rel  | Ry F:acq Rx      | 1 0     | - - +
MP+early-fence       | Wx1 F:rel Wy1  | F:acq Ry Rx      | 1 0     | - - +
MP+sc                | Wx1:sc Wy1:sc  | Ry:sc Rx:sc      | 1 0     | - - -
MP+sc-flag           | Wx1 Wy1:sc     | Ry:sc Rx         | 1 0     | - - -
MP+rmws              | Wx1 Ay1:rel    | Ay1:acq Rx       | 0 1 0   | - - -
MP+rmws-rlx          | Wx1 Ay1        | Ay1 Rx           | 0 1 0   | - - +
MP+cas               | Wx1 Wy1:rel    | Cy12:acq Rx      | 1 0     | - - -
MP+cas-fails         | Wx1 Wy1:rel    | Cy02:acq Rx      | 1 0     | - - +
RS+own-store         | Wx1 Wy1:rel Wy2 | Ry:acq Rx       | 2 0     | - - -
RS+earlier-store     | Wx1 Wy1 Wy2:rel | Ry:acq Rx       | 1 0     | - - +
RS+rmw               | Wx1 Wy1:rel    | Ay1 | Ry:acq Rx  | 1 2 0   | - - -
RS+rmws              | Wx1 Wy1:rel    | Ay1 | Ay1 | Ry:acq Rx | 1 2 3 0 | - - -
RS+other-store       | Wx1 Wy1:rel    | Ry =1 Wy2 | Ry:acq Rx | 1 2 0 | - - +
RS+fence-rmw         | Wx1 F:rel Wy1  | Ay1 | Ry:acq Rx  | 1 2 0   | - - -
LB                   | Rx Wy1         | Ry Wx1           | 1 1     | - - -
LB+ra                | Rx:acq Wy1:rel | Ry:acq Wx1:rel   | 1 1     | - - -
LB+thin-air          | Rx =1 Wy1      | Ry =1 Wx1        | 1 1     | - - -
3.LB                 | Rx Wy1         | Ry Wz1 | Rz Wx1  | 1 1 1   | - - -
IRIW                 | Wx1 | Wy1 | Rx Ry | Ry Rx          | 1 0 1 0 | - - +
IRIW+ra              | Wx1:rel | Wy1:rel | Rx:acq Ry:acq | Ry:acq Rx:acq | 1 0 1 0 | - - +
IRIW+sc              | Wx1:sc | Wy1:sc | Rx:sc Ry:sc | Ry:sc Rx:sc | 1 0 1 0 | - - -
IRIW+fences          | Wx1 | Wy1 | Rx F:sc Ry | Ry F:sc Rx | 1 0 1 0 | - - -
IRIW+one-fence       | Wx1 | Wy1 | Rx F:sc Ry | Ry:acq Rx  | 1 0 1 0 | - - +
IRIW+sc-writes       | Wx1:sc | Wy1:sc | Rx:acq Ry:acq | Ry:acq Rx:acq | 1 0 1 0 | - - +
IRIW+acq-sc          | Wx1:sc | Wy1:sc | Rx:acq Ry:sc | Ry:acq Rx:sc | 1 0 1 0 | - - +
2+2W                 | Wx1 Wy2        | Wy1 Wx2          | x1 y1   | - - +
2+2W+rel             | Wx1:rel Wy2:rel | Wy1:rel Wx2:rel | x1 y1   | - - +
2+2W+sc              | Wx1:sc Wy2:sc  | Wy1:sc Wx2:sc    | x1 y1   | - - -
2+2W+fences          | Wx1 F:sc Wy2   | Wy1 F:sc Wx2     | x1 y1   | - - -
2+2W+one-fence       | Wx1 F:sc Wy2   | Wy1 Wx2          | x1 y1   | - - +
3.2W                 | Wx1 Wy2 | Wy1 Wz2 | Wz1 Wx2        | x1 y1 z1 | - - +
R                    | Wx1 Wy1        | Wy2 Rx           | 0 y2    | - + +
R+ra                 | Wx1 Wy1:rel    | Wy2:rel Rx:acq   | 0 y2    | - + +
R+sc                 | Wx1:sc Wy1:sc  | Wy2:sc Rx:sc     | 0 y2    | - - -
R+fences             | Wx1 F:sc Wy1   | Wy2 F:sc Rx      | 0 y2    | - - -
R+one-fence          | Wx1 Wy1        | Wy2 F:sc Rx      | 0 y2    | - - +
S                    | Wx2 Wy1        | Ry Wx1           | 1 x2    | - - +
S+ra                 | Wx2 Wy1:rel    | Ry:acq Wx1       | 1 x2    | - - -
S+rel-rlx            | Wx2 Wy1:rel    | Ry Wx1           | 1 x2    | - - +
S+fences             | Wx2 F:rel Wy1  | Ry F:acq Wx1     | 1 x2    | - - -
WRC                  | Wx1 | Rx Wy1 | Ry Rx               | 1 1 0   | - - +
WRC+ra               | Wx1:rel | Rx:acq Wy1:rel | Ry:acq Rx:acq | 1 1 0 | - - -
WRC+rlx-ra           | Wx1 | Rx Wy1:rel | Ry:acq Rx       | 1 1 0   | - - -
WRC+rel-rlx          | Wx1 | Rx Wy1:rel | Ry Rx           | 1 1 0   | - - +
RWC                  | Wx1 | Rx Ry | Wy1 Rx               | 1 0 0   | - + +
RWC+fences           | Wx1 | Rx F:sc Ry | Wy1 F:sc Rx     | 1 0 0   | - - -
RWC+sc               | Wx1:sc | Rx:sc Ry:sc | Wy1:sc Rx:sc | 1 0 0   | - - -
W+RWC+ra             | Wx1 Wy1:rel | Ry:acq Rz | Wz1 Rx   | 1 0 0   | - + +
W+RWC+fences         | Wx1 Wy1:rel | Ry:acq F:sc Rz | Wz1 F:sc Rx | 1 0 0 | - - -
ISA2                 | Wx1 Wy1 | Ry Wz1 | Rz Rx           | 1 1 0   | - - +
ISA2+ra              | Wx1 Wy1:rel | Ry:acq Wz1:rel | Rz:acq Rx | 1 1 0 | - - -
ISA2+rlx             | Wx1 Wy1:rel | Ry Wz1:rel | Rz:acq Rx | 1 1 0 | - - +
Z6.3                 | Wx1 Wy1 | Wy2 Wz1 | Rz Rx          | 1 0 y2  | - - +
Z6.3+ra              | Wx1 Wy1:rel | Wy2:rel Wz1:rel | Rz:acq Rx | 1 0 y2 | - - +
Z6.3+fences          | Wx1 F:sc Wy1 | Wy2 F:sc Wz1 | Rz F:sc Rx | 1 0 y2 | - - -
Z6.U                 | Wx1:sc Wy1:rel | Ay1:sc Ry | Wy3:sc Rx:sc | 1 3 0 | - - +
CoRR                 | Wx1 Wx2        | Rx Rx            | 2 1     | - - -
CoRR-two             | Wx1 | Wx2 | Rx Rx | Rx Rx          | 1 2 2 1 | - - -
CoWW                 | Wx1 Wx2        | Ry               | 0 x1    | - - -
CoWR                 | Wx1 Rx         | Wx2              | 2 x1    | - - -
CoWR-init            | Wx1 Rx         | Ry               | 0 0     | - - -
CoRW                 | Rx Wx1         | Wx2              | 2 x2    | - - -
CoRW-own             | Rx Wx1         | Ry               | 1 0     | - - -
Coherence-hb         | Wx1 Wx2 Wy1:rel | Ry:acq Rx       | 1 1     | - - -
RMW-atomic           | Ax1            | Ax1              | 0 0     | - - -
RMW-store            | Ax1            | Wx5              | 0 x1    | - - -
CAS-both             | Cx01           | Cx02             | 0 0     | - - -
RMW-chain            | Ax1 | Ax1 | Ax1                    | 0 1 2   | + + +
";

#[derive(Clone, Copy)]
enum Act {
    Write(usize, u32),
    Read(usize),
    Add(usize, u32),
    Swap(usize, u32),
    Replace(usize, u32, u32),
    Fence,
    Unless(u32),
}

type Step = (Act, Ordering);

fn digit(letter: u8) -> u32 {
    u32::from(letter - b'0')
}

fn word(letter: u8) -> usize {
    usize::from(letter - b'x')
}

fn step(text: &str) -> Step {
    let (text, order) = text.split_once(':').unwrap_or((text, "rlx"));
    let order = match order {
        "rlx" => Relaxed,
        "acq" => Acquire,
        "rel" => Release,
        "ar" => AcqRel,
        "sc" => SeqCst,
        other => panic!("{other}"),
    };
    let act = match *text.as_bytes() {
        [b'W', at, value] => Act::Write(word(at), digit(value)),
        [b'R', at] => Act::Read(word(at)),
        [b'A', at, value] => Act::Add(word(at), digit(value)),
        [b'S', at, value] => Act::Swap(word(at), digit(value)),
        [b'C', at, old, new] => Act::Replace(word(at), digit(old), digit(new)),
        [b'F'] => Act::Fence,
        [b'=', value] => Act::Unless(digit(value)),
        _ => panic!("{text}"),
    };
    (act, order)
}

struct Litmus {
    name: String,
    tasks: Vec<Vec<Step>>,
    reads: Vec<u32>,
    last: Vec<(usize, u32)>,
    possible: [bool; 3],
}

impl Litmus {
    fn parse(line: &str) -> Self {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, tasks @ .., outcome, possible] = parts.as_slice() else { panic!("{line}") };
        let words = outcome.split_whitespace().map(str::as_bytes);
        let reads = words.clone().filter(|word| word.len() == 1).map(|word| digit(word[0]));
        let last = words.filter(|word| word.len() == 2).map(|text| (word(text[0]), digit(text[1])));
        let possible: Vec<bool> = possible.split_whitespace().map(|sign| sign == "+").collect();
        Self {
            name: (*name).to_owned(),
            tasks: tasks.iter().map(|task| task.split_whitespace().map(step).collect()).collect(),
            reads: reads.collect(),
            last: last.collect(),
            possible: possible.try_into().expect("three models"),
        }
    }

    fn scenario(&self) -> Scenario {
        let bodies: &'static [Vec<Step>] = self.tasks.clone().leak();
        let (reads, last) = (self.reads.clone(), self.last.clone());
        Scenario::new(self.name.clone(), [], move || {
            let words: [Word<u32>; 3] = [0; 3].map(Word::new);
            let values = RefCell::new(vec![Vec::new(); bodies.len()]);
            let (reads, last) = (reads.clone(), last.clone());
            let body = move |shared: &([Word<u32>; 3], RefCell<Vec<Vec<u32>>>), task: usize| {
                let (words, values) = shared;
                for &(act, order) in &bodies[task] {
                    let value = match act {
                        Act::Write(at, value) => {
                            words[at].store(value, order);
                            continue;
                        }
                        Act::Fence => {
                            Model::fence(order);
                            continue;
                        }
                        Act::Unless(value) if values.borrow()[task].last() == Some(&value) => {
                            continue;
                        }
                        Act::Unless(_) => return,
                        Act::Read(at) => words[at].load(order),
                        Act::Add(at, value) => words[at].fetch_add(value, order),
                        Act::Swap(at, value) => words[at].swap(value, order),
                        Act::Replace(at, old, new) => {
                            let failure = if order == SeqCst { SeqCst } else { Relaxed };
                            let held = words[at].compare_exchange(old, new, order, failure);
                            held.unwrap_or_else(|held| held)
                        }
                    };
                    values.borrow_mut()[task].push(value);
                }
            };
            Instance::sharing((words, values), bodies.len(), body, move |(words, values), _| {
                let values = values.borrow().concat();
                let ends = last.iter().all(|&(at, value)| words[at].load(Relaxed) == value);
                if values == reads && ends {
                    return Err((Property::UnitsKept, format!("{values:?}")));
                }
                Ok(())
            })
        })
    }

    fn explore(&self, memory: Memory) -> Report {
        let budget = Budget { executions: 1_000_000, ..Budget::default() };
        match memory {
            Memory::Sc => explore(&self.scenario(), budget),
            weak => explore_weak(&self.scenario(), weak, budget, false),
        }
    }
}

#[test]
fn outcomes_are_possible_as_published() {
    let tests: Vec<_> = TABLE.trim().lines().map(Litmus::parse).collect();
    assert!(tests.len() >= 60);
    let mut wrong = Vec::new();
    for test in &tests {
        for (memory, possible) in Memory::ALL.into_iter().zip(test.possible) {
            let report = test.explore(memory);
            if report.violation.is_some() != possible || !(possible || report.complete) {
                wrong.push(format!("{} under {memory}: {:?}", test.name, report.violation));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), tests.len(), wrong.join("\n"));
}
