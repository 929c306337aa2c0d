//! RCU under load on the virtual machine, after the kernel's own `rcutorture`: readers access an
//! object that writers replace; a removed object passes ten stages, each a grace period later, and
//! is reused. A reader that sees its object leave the second stage was not waited for.
//!
//! `CONVOY_BUDGET` multiplies the simulated memory operations: 10^7, so that 100, which
//! `cargo xtask nightly` sets, gives 10^9.

use convoy_kernel::KernelPreset;
use convoy_kernel::sched::Sched;
use convoy_machine::{Here, Machine, Outcome, Preset, Sim, Smp};
use convoy_sync::{Atomic, Platform};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Simulated memory operations of all cases.
const OPERATIONS: u64 = 10_000_000;
/// Objects, and stages that one passes after it was removed (`RCU_TORTURE_PIPE_LEN`).
const POOL: usize = 100;
const STAGES: usize = 10;
/// A slice of the run, after which its operations are counted, nanoseconds.
const SLICE_NS: u64 = 20_000_000;
const US: u64 = 1_000_000; // picoseconds

type Word = <Smp as Platform>::AtomicU32;

/// What readers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// They forbid preemption.
    Sched,
    /// They may be preempted, and those that hold a grace period up are lent a priority after 1 ms.
    Preempt,
    /// They do neither, and sleep: the test must detect this violation.
    Broken,
}

/// Objects, and the observations of the readers.
struct Torture {
    readers: Readers,
    present: Sim<Word>,
    objects: Vec<Sim<Word>>,
    stages: Vec<Cell<usize>>,
    free: RefCell<Vec<usize>>,
    /// Readers by the stage in which they left their object.
    pipe: RefCell<[u64; STAGES + 1]>,
    /// Objects that have reached each stage.
    circulation: RefCell<[u64; STAGES + 1]>,
    draws: Cell<u64>,
}

impl Torture {
    fn new(readers: Readers) -> Rc<Self> {
        Rc::new(Self {
            readers,
            present: Here::place(Word::new(0)),
            objects: (0..POOL).map(|_| Here::place(Word::new(0))).collect(),
            stages: (0..POOL).map(|_| Cell::new(0)).collect(),
            free: RefCell::new((1..POOL).collect()),
            pipe: RefCell::default(),
            circulation: RefCell::default(),
            draws: Cell::default(),
        })
    }

    /// A number below `limit`.
    fn draw(&self, limit: u64) -> u64 {
        self.draws.set(self.draws.get() + 1);
        Here::draw(self.draws.get() << 2 | self.readers as u64) % limit
    }

    /// One section of a reader.
    fn read(&self, sched: &Sched) {
        let object = self.present.load(Acquire) as usize;
        self.objects[object].load(Acquire);
        match self.draw(200) {
            0 => (0..3000).for_each(|_| Here::compute(US)),
            1..20 => (0..100).for_each(|_| Here::compute(US)),
            _ => Here::compute(self.draw(2 * US)),
        }
        if self.readers == Readers::Broken {
            sched.sleep_until(Here::now_ns() + 5_000_000);
        }
        self.objects[object].load(Acquire);
        self.pipe.borrow_mut()[self.stages[object].get()] += 1;
    }

    fn reader(&self, sched: &Sched) {
        loop {
            match self.readers {
                Readers::Sched | Readers::Preempt => {
                    sched.rcu().read(|| self.read(sched));
                }
                Readers::Broken => self.read(sched),
            }
            if self.draw(50) == 0 {
                sched.sleep_until(Here::now_ns() + self.draw(10_000_000));
            } else {
                Here::user(self.draw(20 * US));
            }
            sched.syscall_return();
        }
    }

    /// Puts a new object in the place of the present one, which it returns.
    fn replace(&self) -> Option<usize> {
        let new = self.free.borrow_mut().pop()?;
        self.stages[new].set(0);
        self.objects[new].store(1, Release);
        let old = self.present.swap(new as u32, Release) as usize;
        self.step(old);
        Some(old)
    }

    /// Advances `object` by a stage; returns whether it has further stages.
    fn step(&self, object: usize) -> bool {
        let stage = self.stages[object].get() + 1;
        self.stages[object].set(stage);
        self.circulation.borrow_mut()[stage] += 1;
        if stage == STAGES {
            self.free.borrow_mut().push(object);
        }
        stage < STAGES
    }

    fn call(self: &Rc<Self>, sched: &Sched, object: usize) {
        let me = Rc::clone(self);
        let callback = Box::new(move |sched: &Sched| {
            if me.step(object) {
                me.call(sched, object);
            }
        });
        sched.rcu().call(callback);
    }

    fn writer(self: &Rc<Self>, sched: &Sched) {
        loop {
            let kind = self.draw(40);
            if let Some(object) = self.replace() {
                self.call(sched, object);
            }
            if kind == 0 {
                (0..11_000).for_each(|_| sched.rcu().call(Box::new(|_| ())));
            }
            sched.sleep_until(Here::now_ns() + self.draw(2_000_000));
        }
    }

    /// Returns the number of readers whose object reached the second stage: a grace period was too
    /// short.
    fn errors(&self) -> u64 {
        self.pipe.borrow()[2..].iter().sum()
    }
}

/// Runs operations on `kernel`; returns the observations, and the operations.
fn torture(kernel: &str, cpus: usize, readers: Readers, least: u64) -> (Rc<Torture>, u64) {
    let mut rules = KernelPreset::named(kernel).expect("a shipped preset");
    if let Some(boost_ms) = rules.rcu.as_mut().and_then(|rcu| rcu.boost_ms.as_mut()) {
        *boost_ms = 1;
    }
    let preset = Preset::named("quad-2008-shared-llc").expect("shipped").with_cpus(cpus);
    let machine = Machine::new(&preset, 1, 400).expect("address space");
    let sched = Sched::new(&rules, &preset);
    let torture = Torture::new(readers);
    let (inner, shared) = (Rc::clone(&sched), Rc::clone(&torture));
    let init = move || {
        for task in 0..cpus + 3 {
            let (sched, torture) = (Rc::clone(&inner), Rc::clone(&shared));
            let body = move || {
                if task < 3 { torture.writer(&sched) } else { torture.reader(&sched) }
            };
            inner.fork_on(task % cpus, Box::new(body)).expect("room");
        }
        inner.sleep_until(u64::MAX / 2000);
    };
    sched.boot(&machine, Box::new(init));
    let mut until = SLICE_NS;
    while machine.operations() < least {
        assert_eq!(machine.run(until), Outcome::TimeLimit, "{kernel} stands still");
        until += SLICE_NS;
    }
    (torture, machine.operations())
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts are the result of the nightly run")]
fn readers_are_waited_for() {
    let factor = std::env::var("CONVOY_BUDGET").ok().and_then(|text| text.parse::<u64>().ok());
    let least = OPERATIONS * factor.unwrap_or(1) / 4;
    let mut operations = 0;
    for (kernel, cpus, readers) in [
        ("2.6.39", 4, Readers::Sched),
        ("3.0-rc", 20, Readers::Sched),
        ("3.0-rc+softirq", 2, Readers::Sched),
        ("3.0+boost", 18, Readers::Preempt),
    ] {
        let (torture, count) = torture(kernel, cpus, readers, least);
        operations += count;
        let (pipe, circulation) = (torture.pipe.borrow(), torture.circulation.borrow());
        let seen = format!("{kernel}: pipe {pipe:?}, circulation {circulation:?}");
        eprintln!("{seen}");
        assert_eq!(torture.errors(), 0, "{seen}");
        assert!(circulation[STAGES] > 10 && pipe[1] > 0, "{seen}");
        assert!(circulation[1] - circulation[STAGES] <= POOL as u64, "{seen}");
    }
    eprintln!("rcu-torture: {operations} simulated operations: SUCCESS");
}

#[test]
fn readers_that_break_the_rule_are_seen() {
    let (torture, _) = torture("2.6.39", 4, Readers::Broken, 300_000);
    assert!(torture.errors() > 0, "{:?}", torture.pipe.borrow());
}
