//! The account of a hand-written trace: two CPUs, and one lock that is handed off to a sleeping
//! task.

use convoy_explain::{Analysis, Cause, Summary};
use convoy_machine::{Event, Leave, Mode, Record, Recorder};
use convoy_sync::LockEvent::{self, Acquired, Contended, Handoff, Released};

/// Picoseconds of a microsecond.
const US: u64 = 1_000_000;
const LOCK: usize = 4096;
/// Tasks: 0 and 1 idle, 2 the first, then A, B and C.
const A: u32 = 3;
const B: u32 = 4;
const C: u32 = 5;

struct Story(Analysis);

impl Story {
    /// `event` at `us` on `cpu`, where `task` runs.
    fn tell(&mut self, us: u64, cpu: usize, task: u32, event: Event) {
        self.0.record(&Record { at: us * US, cpu, task, event });
    }

    fn lock(&mut self, us: u64, cpu: usize, task: u32, event: LockEvent, about: u32) {
        self.tell(us, cpu, task, Event::Lock { event, lock: LOCK, task: about });
    }

    fn switch(&mut self, us: u64, cpu: usize, prev: u32, next: u32, why: Leave) {
        self.tell(us, cpu, prev, Event::Leave(why));
        self.tell(us, cpu, prev, Event::Switch { prev, next });
    }
}

/// A works on CPU 0, acquires the lock at 10, and hands it off at 30 to B, which sleeps and is then
/// queued on CPU 0 behind A. CPU 1 idles from 20 on. B runs from 80 on and releases the lock at 90.
fn story() -> Summary {
    let mut story = Story(Analysis::new(2));
    for cpu in 0..2 {
        story.tell(0, 0, 0, Event::Born { task: cpu, cpu: None });
    }
    story.tell(0, 0, 0, Event::Name { lock: LOCK, bytes: 32, name: "the lock" });
    for (task, cpu) in [(A, 0), (B, 1), (C, 1)] {
        story.tell(0, 0, 0, Event::Born { task, cpu: Some(cpu) });
    }
    story.switch(0, 0, 0, A, Leave::Runnable);
    story.switch(0, 1, 1, B, Leave::Runnable);
    for (cpu, task, number) in [(0, A, 1), (1, B, 2)] {
        story.tell(0, cpu, task, Event::Label { pid: 100 + number, kind: "user", number });
    }
    story.tell(0, 0, A, Event::Measure(true));
    story.tell(0, 0, A, Event::Mode(Mode::User));
    story.lock(10, 0, A, Acquired, A);
    story.lock(12, 1, B, Contended, B);
    story.switch(15, 1, B, C, Leave::Asleep);
    story.lock(16, 1, C, Contended, C);
    story.switch(20, 1, C, 1, Leave::Asleep);
    story.tell(20, 1, 1, Event::Mode(Mode::Idle));
    story.tell(30, 0, A, Event::Mode(Mode::System));
    story.lock(30, 0, A, Released, A);
    story.lock(30, 0, A, Handoff, B);
    story.tell(30, 0, A, Event::Wake { task: B, cpu: 0 });
    story.switch(80, 0, A, B, Leave::Runnable);
    story.lock(80, 0, B, Acquired, B);
    story.lock(90, 0, B, Released, B);
    story.lock(90, 0, B, Handoff, C);
    story.tell(90, 0, B, Event::Wake { task: C, cpu: 1 });
    story.tell(90, 1, 1, Event::Mode(Mode::System));
    story.switch(90, 1, 1, C, Leave::Runnable);
    story.lock(100, 1, C, Released, C);
    story.tell(100, 1, C, Event::Measure(false));
    story.0.summary()
}

fn us(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e3
}

#[test]
fn cpu_time_and_idle_causes_add_up() {
    let summary = story();
    let of = |name: &str| {
        us(summary.states.iter().find(|share| share.name == name).expect("a state").seconds)
    };
    assert_eq!((of("user"), of("system"), of("idle")), (30.0, 100.0, 70.0));
    let idle: Vec<f64> = summary.idle.iter().map(|share| us(share.seconds)).collect();
    // Until 30 the sleepers wait for a lock with a running owner. After that, its owner is queued
    // on CPU 0.
    assert_eq!(idle, [50.0, 10.0, 10.0, 0.0], "until 90 A waits for its CPU");
}

#[test]
fn the_phases_of_a_lock_do_not_overlap() {
    let summary = story();
    let lock = &summary.locks[0];
    assert_eq!((lock.name.as_str(), lock.acquisitions, lock.contended), ("the lock", 3, 2));
    assert_eq!((lock.handoffs, lock.owner_changes, lock.waiters_max), (2, 3, 2));
    // B waits from 12 to 30, C from 16 to 90; A holds for 20, B and C for 10 from their first step.
    assert_eq!((us(lock.wait_s), lock.wait.max_us), (92.0, Some(74.0)));
    assert_eq!((lock.hold.count, lock.hold.max_us), (3, Some(20.0)));
    assert_eq!(lock.handoff.max_us, Some(50.0));
    assert_eq!((us(lock.owned_s), us(lock.owner_not_running_s)), (90.0, 50.0));
}

#[test]
fn the_convoy_is_told_and_the_chain_is_as_long_as_the_run() {
    let summary = story();
    assert_eq!((summary.stalls.convoys, us(summary.stalls.convoy_s)), (1, 50.0));
    let convoy = summary.longest.expect("a convoy");
    assert_eq!((convoy.owner.as_str(), convoy.cause), ("user 2", Cause::GivenWhileAsleep));
    assert_eq!((convoy.giver.as_deref(), convoy.waiters), (Some("user 1"), 1));
    assert_eq!((convoy.queued, convoy.ran_on), (Some((0.0, 0)), 0));
    assert_eq!(convoy.instead, [("user 1".to_owned(), "", 0.05)]);
    assert_eq!(convoy.idle_ms, [0.0, 0.05]);
    let parts: Vec<f64> = summary.chain.shares.iter().map(|share| us(share.seconds)).collect();
    // A until 30, B queued until 80 and working until 90, C until 100.
    assert_eq!(parts, [30.0, 20.0, 0.0, 50.0, 0.0, 0.0]);
    assert_eq!((summary.chain.hops, summary.chain.lock_hops), (2, 2));
}
