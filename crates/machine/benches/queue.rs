//! Which queue says what happens next: the tournament tree that the engine uses, a binary heap, and
//! a timing wheel with a heap behind it, under the engine's own pattern.
//!
//! Each CPU has one event. A step takes the earliest event, reads the time of the next one, which
//! limits how far the CPU may run, and schedules the CPU's next event: 60 % after 1 to 20 ns (an
//! operation on a line in turn), 30 % after 100 to 500 ns (a transfer, a short section), 9 % after
//! 1 to 50 us (work of a task), 1 % after 1 to 4 ms (a tick). The heap and the wheel lack an
//! operation that the engine also needs: moving the event of an interrupted CPU.

use convoy_machine::Tree;
use divan::counter::ItemsCount;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const CPUS: [usize; 4] = [4, 64, 256, 1024];
const STEPS: usize = 200_000;

/// Picoseconds until the next event of the CPU that acts.
fn delays() -> Vec<u64> {
    let mut state = 1_u64;
    let mut draw = |range: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % range
    };
    (0..STEPS)
        .map(|_| match draw(100) {
            0..60 => 1_000 + draw(19_000),
            60..90 => 100_000 + draw(400_000),
            90..99 => 1_000_000 + draw(49_000_000),
            _ => 1_000_000_000 + draw(3_000_000_000),
        })
        .collect()
}

/// Operations of a structure; each run returns the sum of all horizons, which must be equal.
trait Queue {
    fn new(cpus: usize) -> Self;
    /// Returns the earliest event, without removing it, and the time of the next.
    fn next(&mut self) -> (u64, usize, u64);
    /// The CPU that `next` gave has its event at `at` now.
    fn set(&mut self, cpu: usize, at: u64);
}

fn hold<Q: Queue>(cpus: usize, delays: &[u64]) -> u64 {
    let mut queue = Q::new(cpus);
    let mut sum = 0_u64;
    for delay in delays {
        let (at, cpu, horizon) = queue.next();
        sum = sum.wrapping_mul(31).wrapping_add(horizon);
        queue.set(cpu, at + delay);
    }
    sum
}

impl Queue for Tree {
    fn new(cpus: usize) -> Self {
        let tree = Tree::new(cpus);
        (0..cpus).for_each(|cpu| tree.set(cpu, 0));
        tree
    }

    fn next(&mut self) -> (u64, usize, u64) {
        let first = self.first();
        (first.at(), first.cpu(), self.first_other(first.cpu()).at())
    }

    fn set(&mut self, cpu: usize, at: u64) {
        Tree::set(self, cpu, at);
    }
}

/// Time and CPU, packed so that one comparison orders them.
type Heap = BinaryHeap<Reverse<u128>>;

fn pack(at: u64, cpu: usize) -> Reverse<u128> {
    Reverse(u128::from(at) << 64 | cpu as u128)
}

impl Queue for Heap {
    fn new(cpus: usize) -> Self {
        (0..cpus).map(|cpu| pack(0, cpu)).collect()
    }

    fn next(&mut self) -> (u64, usize, u64) {
        let Reverse(first) = self.pop().expect("an event for each CPU");
        let horizon = self.peek().map_or(u64::MAX, |next| (next.0 >> 64) as u64);
        ((first >> 64) as u64, first as u32 as usize, horizon)
    }

    fn set(&mut self, cpu: usize, at: u64) {
        self.push(pack(at, cpu));
    }
}

/// Slots of `1 << SHIFT` picoseconds, about a transfer; what lies beyond the wheel is in a heap.
struct Wheel {
    slots: Vec<VecDeque<u128>>,
    /// Slots that hold something, a bit each.
    used: Vec<u64>,
    /// Number of the slot that time has reached.
    now: u64,
    beyond: Heap,
}

const SHIFT: u32 = 12;
const SLOTS: u64 = 4096;

impl Wheel {
    fn insert(&mut self, event: u128) {
        let slot = (event >> 64) as u64 >> SHIFT;
        if slot >= self.now + SLOTS {
            return self.beyond.push(Reverse(event));
        }
        let index = (slot % SLOTS) as usize;
        let events = &mut self.slots[index];
        let place = events.iter().rposition(|&other| other <= event).map_or(0, |at| at + 1);
        events.insert(place, event);
        self.used[index / 64] |= 1 << (index % 64);
    }

    /// The first slot in use, from the present one.
    fn first(&self) -> Option<usize> {
        let start = (self.now % SLOTS) as usize;
        let words = self.used.len();
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            let mut bits = self.used[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == words {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
        }
        None
    }

    /// Moves the events that the wheel reaches now out of the heap.
    fn pull(&mut self) {
        while let Some(&Reverse(event)) = self.beyond.peek() {
            if (event >> 64) as u64 >> SHIFT >= self.now + SLOTS {
                break;
            }
            self.beyond.pop();
            self.insert(event);
        }
    }
}

impl Queue for Wheel {
    fn new(cpus: usize) -> Self {
        let slots = (0..SLOTS).map(|_| VecDeque::new()).collect();
        let used = vec![0; SLOTS as usize / 64];
        let mut wheel = Self { slots, used, now: 0, beyond: Heap::default() };
        (0..cpus).for_each(|cpu| wheel.insert(cpu as u128));
        wheel
    }

    fn next(&mut self) -> (u64, usize, u64) {
        let index = self.first().unwrap_or_else(|| {
            let &Reverse(event) = self.beyond.peek().expect("an event for each CPU");
            self.now = (event >> 64) as u64 >> SHIFT;
            self.pull();
            self.first().expect("just pulled")
        });
        let event = self.slots[index].pop_front().expect("a slot in use");
        if self.slots[index].is_empty() {
            self.used[index / 64] &= !(1 << (index % 64));
        }
        self.now = (event >> 64) as u64 >> SHIFT;
        self.pull();
        let near = self.first().map(|index| self.slots[index][0]);
        let next = near.or_else(|| self.beyond.peek().map(|event| event.0));
        let horizon = next.map_or(u64::MAX, |next| (next >> 64) as u64);
        ((event >> 64) as u64, event as u32 as usize, horizon)
    }

    fn set(&mut self, cpu: usize, at: u64) {
        self.insert(pack(at, cpu).0);
    }
}

fn bench<Q: Queue>(bencher: divan::Bencher, cpus: usize) {
    let delays = delays();
    let expected = hold::<Heap>(cpus, &delays);
    assert_eq!(hold::<Q>(cpus, &delays), expected, "two queues disagree");
    bencher.counter(ItemsCount::new(STEPS)).bench_local(|| hold::<Q>(cpus, &delays));
}

#[divan::bench(args = CPUS, sample_count = 25)]
fn tournament_tree(bencher: divan::Bencher, cpus: usize) {
    bench::<Tree>(bencher, cpus);
}

#[divan::bench(args = CPUS, sample_count = 25)]
fn binary_heap(bencher: divan::Bencher, cpus: usize) {
    bench::<Heap>(bencher, cpus);
}

#[divan::bench(args = CPUS, sample_count = 25)]
fn wheel_and_heap(bencher: divan::Bencher, cpus: usize) {
    bench::<Wheel>(bencher, cpus);
}

fn main() {
    divan::main();
}
