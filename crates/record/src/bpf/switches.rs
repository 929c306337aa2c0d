//! The programs that run when threads lose and get CPUs and when they are woken: how long they ran,
//! slept and waited for a CPU, and in which windows their events are recorded.

use super::asm::Reg::{Fp, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use super::asm::{Call, If, Label, Op};
use super::tables::{gate, load, process, thread};
use super::waits::{WAKES, WAS_WOKEN, falls_asleep, futex, runs_again, wait_ended, wake};
use super::write::{A, B, BASE, C, EPOCH, ID, KEY, NOW, STATE, WEIGHT, WEIGHTED, Writer, ZERO, w};

/// CPU time in nanoseconds between two sleeps of one system call, at most: fsync(2) of ext4 sleeps
/// for its journal and for the device in turn. An estimate: a few requests to the device.
const ONE_CALL_NS: i32 = 100_000;
/// Binary logarithm of the nanoseconds in which the switches of a thread are counted, 34 ms, and
/// the number of switches up to which they are not frequent.
const PERIOD: i32 = 25;
const RARE: i32 = 4;

/// A CPU switches from one thread to another.
pub(super) fn switch(p: &mut Writer<'_>) {
    let out = p.out;
    let [next, known, runnable, counted] = [(); 4].map(|()| p.a.label());
    p.begin();
    p.a.call(Call::CurrentThread).store32(Fp, ID, R0);
    p.frequent(next);
    p.times(Some(next));
    p.a.set(R2, 1);
    p.spend(load::EVENTS);
    has_run(p);
    p.a.load(R2, Fp, WEIGHTED).load(R1, R7, w(thread::ON)).jump(If::Equal, R1, 0, known);
    p.a.op(Op::Sub, R2, R1);
    p.ran();
    p.a.here(known).load(R2, Fp, WEIGHTED).store(R7, w(thread::OFF), R2);
    p.a.store(R7, w(thread::OFF_AT), R8).store(R7, w(thread::ON), 0);
    p.a.store(R7, w(thread::WOKEN), 0).store(R7, w(thread::WAS_RUNNABLE), 0);
    p.a.load(R2, Fp, WEIGHT);
    // It was preempted, or yielded its CPU without falling asleep.
    p.a.load(R1, R6, 0).op(Op::And, R1, 1).jump(If::NotEqual, R1, 0, runnable);
    p.a.load(R1, R6, 24).op(Op::Left, R1, 32).jump(If::Equal, R1, 0, runnable);
    p.grow(R7, thread::SLEEPS_COUNT, R2);
    p.a.call(Call::CurrentTask).set(R3, R0);
    switches(p);
    p.a.store(R7, w(thread::SWITCHES), R1);
    falls_asleep(p, counted);
    p.a.here(runnable).store(R7, w(thread::WAS_RUNNABLE), 1);
    p.grow(R7, thread::PREEMPTIONS, R2);
    p.a.here(counted);
    count_events(p, next);
    p.a.here(next);
    p.id_of(2);
    p.frequent(out);
    p.times(Some(out));
    runs(p);
}

/// Counts that the thread in `R7` lost its CPU. If it does so often, and the budget is exceeded,
/// its events are recorded in windows only from now on.
fn count_events(p: &mut Writer<'_>, next: Label) {
    let [same, known] = [(); 2].map(|()| p.a.label());
    p.a.load(R1, Fp, NOW).op(Op::Right, R1, PERIOD).load(R2, R7, w(thread::PERIOD));
    p.a.jump(If::Equal, R1, R2, same).store(R7, w(thread::PERIOD), R1);
    p.a.store(R7, w(thread::IN_PERIOD), 1).goto(next).here(same);
    p.a.load(R1, R7, w(thread::IN_PERIOD)).op(Op::Add, R1, 1).store(R7, w(thread::IN_PERIOD), R1);
    p.a.jump(If::Above, R1, RARE, known).goto(next).here(known);
    p.a.load(R1, Fp, STATE).jump(If::Equal, R1, gate::ALL as i32, next);
    p.a.load(R1, R7, w(thread::FREQUENT)).jump(If::NotEqual, R1, 0, next);
    p.a.store(R7, w(thread::FREQUENT), 1);
    p.times(None);
    p.a.load(R1, Fp, WEIGHTED).store(R7, w(thread::OFF), R1);
    p.a.load(R1, Fp, EPOCH).store(R7, w(thread::EPOCH), R1);
    p.passes(next);
}

/// The thread in `R7` gets a CPU.
fn runs(p: &mut Writer<'_>) {
    let out = p.out;
    let [ready, slept, apart, woken] = [(); 4].map(|()| p.a.label());
    has_slept(p, 2);
    p.a.load(R8, Fp, WEIGHTED).store(R7, w(thread::ON), R8).load(R1, R7, w(thread::OFF));
    p.a.jump(If::Equal, R1, 0, out).store(R7, w(thread::OFF), 0);
    p.a.load(R3, R7, w(thread::WAS_RUNNABLE)).jump(If::Equal, R3, 0, slept);
    p.a.set(R2, R8).op(Op::Sub, R2, R1);
    p.grow(R7, thread::PREEMPTED, R2);
    p.a.goto(ready).here(slept);
    // One call may sleep several times, and the thread waits for a CPU after each sleep.
    p.a.load(R4, Fp, NOW).set(R2, R4).load(R3, R7, w(thread::OFF_AT)).op(Op::Sub, R2, R3);
    p.a.store(R7, w(thread::SLEPT_END), R4);
    p.a.load(R3, R7, w(thread::CPU)).load(R4, R7, w(thread::SLEPT_CPU));
    p.a.store(R7, w(thread::SLEPT_CPU), R3).op(Op::Sub, R3, R4);
    p.a.jump(If::Above, R3, ONE_CALL_NS, apart).load(R4, R7, w(thread::SLEPT)).op(Op::Add, R2, R4);
    p.a.here(apart).store(R7, w(thread::SLEPT), R2);
    p.a.set(R2, R8).op(Op::Sub, R2, R1);
    p.a.load(R3, R7, w(thread::WOKEN)).jump(If::NotEqual, R3, 0, woken);
    p.grow(R7, thread::BLOCKED, R2);
    p.a.goto(ready).here(woken).op(Op::Sub, R8, R3).op(Op::Sub, R3, R1);
    p.grow(R7, thread::BLOCKED, R3);
    p.grow(R7, thread::RUNNABLE, R8);
    p.a.here(ready);
    runs_again(p);
}

/// The thread in `R7` has a CPU. If its last event was in an earlier window, it has run since this
/// one opened, and its activity between them is unknown.
pub(super) fn has_run(p: &mut Writer<'_>) {
    let is_current = p.a.label();
    p.a.load(R1, Fp, EPOCH).load(R2, R7, w(thread::EPOCH)).jump(If::Equal, R1, R2, is_current);
    wait_ended(p);
    is_rare(p);
    p.a.load(R1, Fp, BASE).store(R7, w(thread::ON), R1).store(R7, w(thread::OFF), 0);
    p.a.store(R7, w(thread::HELD_SINCE), 0).here(is_current);
}

/// The thread in `R7`, whose task is this argument of the tracepoint, has had no CPU until now. If
/// its last event was in an earlier window, it may have slept since then; it has slept at least
/// since this one opened.
fn has_slept(p: &mut Writer<'_>, argument: usize) {
    let [is_current, other] = [(); 2].map(|()| p.a.label());
    p.a.load(R1, Fp, EPOCH).load(R2, R7, w(thread::EPOCH)).jump(If::Equal, R1, R2, is_current);
    p.a.load(R1, R7, w(thread::OFF)).jump(If::Equal, R1, 0, other);
    p.a.load(R3, R6, w(argument));
    switches(p);
    p.a.load(R2, R7, w(thread::SWITCHES)).jump(If::NotEqual, R1, R2, other);
    p.a.load(R1, Fp, EPOCH).store(R7, w(thread::EPOCH), R1).goto(is_current).here(other);
    wait_ended(p);
    is_rare(p);
    p.a.load(R1, Fp, BASE).store(R7, w(thread::OFF), R1).load(R1, Fp, NOW);
    p.a.store(R7, w(thread::OFF_AT), R1).store(R7, w(thread::WAS_RUNNABLE), 0);
    p.a.store(R7, w(thread::WOKEN), 0).store(R7, w(thread::HELD_SINCE), 0).here(is_current);
}

/// `R1` becomes the number of times that the task in `R3` has lost its CPU. `R2` is kept.
fn switches(p: &mut Writer<'_>) {
    let (sleeps, preemptions) = (p.offsets.sleeps, p.offsets.preemptions);
    p.a.load(R1, R3, sleeps).load(R3, R3, preemptions).op(Op::Add, R1, R3);
}

/// Updates the window of the thread in `R7`. If it had no event in a whole window, all of its
/// events are recorded again.
fn is_rare(p: &mut Writer<'_>) {
    let [done, always] = [(); 2].map(|()| p.a.label());
    p.a.load(R1, Fp, EPOCH).load(R2, R7, w(thread::EPOCH)).store(R7, w(thread::EPOCH), R1);
    p.a.op(Op::Sub, R1, R2).jump(If::Above, R1, 1, always).goto(done).here(always);
    p.a.store(R7, w(thread::FREQUENT), 0);
    p.passes_no_more(done);
    p.times(None);
    p.a.here(done);
}

/// A thread is woken, possibly by another process of the program. A wakeup by an interrupt counts
/// as one by the interrupted thread.
pub(super) fn waking(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    let [apart, other, told] = [(); 3].map(|()| p.a.label());
    p.begin();
    p.id_of(0);
    p.frequent(out);
    p.times(Some(out));
    p.a.set(R2, 1);
    p.spend(load::EVENTS);
    has_slept(p, 0);
    p.a.load(R1, R7, w(thread::OFF)).jump(If::Equal, R1, 0, out);
    p.a.load(R1, R7, w(thread::WAS_RUNNABLE)).jump(If::NotEqual, R1, 0, out);
    p.a.load(R1, R7, w(thread::WOKEN)).jump(If::NotEqual, R1, 0, out);
    p.a.load(R8, Fp, WEIGHTED).store(R7, w(thread::WOKEN), R8);
    p.a.load(R1, R7, w(thread::OFF)).op(Op::Sub, R8, R1).load(R9, R7, w(thread::PROCESS));
    p.a.store(Fp, C, 0).load(R1, R7, w(thread::SINCE)).jump(If::Equal, R1, 0, apart);
    futex(p, &WAKES, apart);
    // Otherwise an interrupt woke it in the middle of this call.
    p.a.load(R1, R7, w(thread::WORD)).load(R2, Fp, KEY + 8).jump(If::NotEqual, R1, R2, apart);
    p.a.store(R7, w(thread::ENDED_BY), WAS_WOKEN).store(Fp, C, 1).here(apart);
    p.thread(out);
    owner_is_known(p);
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, A, R1).store32(Fp, B, R9);
    p.a.load(R1, Fp, C).jump(If::Equal, R1, 0, other).store(Fp, C, R8).load(R8, Fp, NOW);
    p.out = told;
    wake(p);
    p.out = out;
    p.a.here(told).load(R8, Fp, C).here(other);
    p.a.load32(R1, Fp, A).load32(R9, Fp, B).jump(If::Equal, R1, R9, out);
    p.lookup(&tables.processes, A);
    p.a.jump(If::Equal, R0, 0, out).load(R1, Fp, WEIGHT).add(R0, w(process::WAKES_OTHERS), R1);
    p.lookup(&tables.processes, B);
    p.a.jump(If::Equal, R0, 0, out).load(R1, Fp, WEIGHT).add(R0, w(process::BY_OTHERS), R1);
    p.a.add(R0, w(process::ASLEEP_BY_OTHERS), R8);
}

/// Forgets what the waking thread in `R7` owns, if it may have released it between windows.
fn owner_is_known(p: &mut Writer<'_>) {
    let (tables, [known, unknown]) = (p.tables, [(); 2].map(|()| p.a.label()));
    p.a.load(R1, R7, w(thread::FREQUENT)).jump(If::Equal, R1, 0, known);
    p.lookup(&tables.gate, ZERO);
    p.a.jump(If::Equal, R0, 0, known).load(R1, R0, w(gate::EPOCH));
    p.a.load(R2, R7, w(thread::EPOCH)).jump(If::NotEqual, R1, R2, unknown);
    p.a.load(R1, R0, w(gate::UNTIL)).load(R2, Fp, NOW).jump(If::Above, R1, R2, known);
    p.a.here(unknown).store(R7, w(thread::HELD_SINCE), 0).here(known);
}
