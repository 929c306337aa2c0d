//! The programs that run in the kernel; those at waits for kernel locks, and when threads start and
//! exit.

use std::ffi::CStr;

use super::asm::Reg::{Fp, R0, R1, R2, R3, R6, R7, R8, R9};
use super::asm::{Call, If, Op};
use super::btf::Offsets;
use super::switches::{has_run, switch, waking};
use super::tables::{Tables, lock, lost, process, thread, waiting};
use super::waits::wait_ends;
use super::write::{A, B, C, D, ID, KEY, NOW, ROOM, WEIGHTED, Writer, w};

/// A program: its name, its tracepoint, and the function that writes it.
pub(super) type Program = (&'static str, Point, fn(&mut Writer<'_>));

#[derive(Clone, Copy, Debug)]
pub(super) enum Point {
    Raw(&'static CStr),
    /// One with typed arguments, and the number of its type.
    Typed(fn(&Offsets) -> u32),
}

/// All programs. None is at the tracepoints of system calls, which would make every call of every
/// process slower: waits in futex(2) are known from the registers of threads that fall asleep and
/// of threads that wake others.
pub(super) const PROGRAMS: [Program; 7] = [
    ("convoy_fork", Point::Raw(c"sched_process_fork"), fork),
    ("convoy_exec", Point::Raw(c"sched_process_exec"), exec),
    ("convoy_exit", Point::Raw(c"sched_process_exit"), exit),
    ("convoy_switch", Point::Typed(|offsets| offsets.switch), switch),
    ("convoy_waking", Point::Typed(|offsets| offsets.waking), waking),
    ("convoy_begin", Point::Raw(c"contention_begin"), lock_begins),
    ("convoy_end", Point::Raw(c"contention_end"), lock_ends),
];

/// Returns the bytes of a program.
pub(super) fn code(write: fn(&mut Writer<'_>), tables: &Tables, offsets: Offsets) -> Vec<u8> {
    let mut writer = Writer::new(tables, offsets);
    write(&mut writer);
    writer.finish()
}

// Flags of the lock tracepoints.
pub(super) const SPIN: i32 = 1;
pub(super) const READ: i32 = 2;
pub(super) const WRITE: i32 = 4;
pub(super) const REAL_TIME: i32 = 8;
pub(super) const PER_CPU: i32 = 16;
pub(super) const MUTEX: i32 = 32;

/// Maximum length of a short wait for a kernel lock, in nanoseconds: reading a stack takes longer.
const SHORT: i32 = 1000;
/// Number of short waits represented by a recorded one.
const SAMPLED: i32 = 16;
/// Length of a wait for a kernel lock, in nanoseconds, from which on each is recorded.
const LONG: i32 = 1_000_000;
/// Of the CPU time of a thread, stacks in the kernel may take a part of a 256th, after a first
/// quarter of a millisecond. Otherwise a recorded wait represents up to 256.
const STACKS_SHARE: i32 = 8;
const STACKS_FIRST_NS: i32 = 250_000;
const LEFT_OUT_MOST: i32 = 255;

/// A thread begins to wait for a kernel lock.
fn lock_begins(p: &mut Writer<'_>) {
    fn read(p: &mut Writer<'_>, bytes: i32) {
        p.a.at(R1, Fp, A.into()).set(R2, bytes).call(Call::ReadKernel);
    }
    let out = p.out;
    p.thread(out);
    let [chosen, fresh, rwsem, known, done] = [(); 5].map(|()| p.a.label());
    p.a.load(R8, R6, 8).op(Op::And, R8, 0xff).at(R9, R7, w(thread::SLEEPS).into());
    p.a.set(R1, R8).op(Op::And, R1, SPIN | MUTEX).jump(If::NotEqual, R1, SPIN, chosen);
    p.a.op(Op::Add, R9, i32::from(w(thread::SPINS - thread::SLEEPS))).here(chosen);
    p.a.load(R1, R9, w(waiting::SINCE)).jump(If::Equal, R1, 0, fresh);
    // A mutex reports the start again after it has spun for long enough.
    p.a.load(R2, R9, w(waiting::LOCK)).load(R3, R6, 0).jump(If::Equal, R2, R3, out);
    p.lose(lost::NESTED);
    p.a.here(fresh).load(R1, R6, 0).store(R9, w(waiting::LOCK), R1);
    p.a.store(R9, w(waiting::FLAGS), R8);
    p.a.load(R1, R7, w(thread::RUNNABLE)).store(R9, w(waiting::RUNNABLE_THEN), R1);
    p.a.store(R9, w(waiting::OWNER), 0);
    p.a.set(R1, R8).op(Op::And, R1, MUTEX).jump(If::Equal, R1, 0, rwsem);
    p.a.load(R3, R6, 0).op(Op::Add, R3, p.offsets.mutex_owner);
    read(p, 8);
    p.a.goto(known).here(rwsem);
    p.a.set(R1, R8).op(Op::And, R1, SPIN | PER_CPU | REAL_TIME).jump(If::NotEqual, R1, 0, done);
    p.a.set(R1, R8).op(Op::And, R1, READ | WRITE).jump(If::Equal, R1, 0, done);
    p.a.load(R3, R6, 0).op(Op::Add, R3, p.offsets.rwsem_owner);
    read(p, 8);
    // The lowest bit is set if readers own it; only the last of them is known.
    p.a.load(R1, Fp, A).op(Op::And, R1, 1).jump(If::NotEqual, R1, 0, done).here(known);
    p.a.load(R3, Fp, A).op(Op::And, R3, -8).jump(If::Equal, R3, 0, done);
    p.a.op(Op::Add, R3, p.offsets.on_cpu);
    read(p, 4);
    let runs = p.a.label();
    p.a.load32(R1, Fp, A).set(R2, 1).jump(If::NotEqual, R1, 0, runs).set(R2, 2).here(runs);
    p.a.store(R9, w(waiting::OWNER), R2).here(done);
    p.a.call(Call::Now).store(R9, w(waiting::SINCE), R0);
}

/// The wait for a kernel lock ends.
fn lock_ends(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    let [next, found, long, whole, first, kept] = [(); 6].map(|()| p.a.label());
    p.a.load(R1, R6, 0).at(R9, R7, w(thread::SLEEPS).into());
    p.a.load(R2, R9, w(waiting::SINCE)).jump(If::Equal, R2, 0, next);
    p.a.load(R3, R9, w(waiting::LOCK)).jump(If::Equal, R3, R1, found).here(next);
    p.a.op(Op::Add, R9, i32::from(w(thread::SPINS - thread::SLEEPS)));
    p.a.load(R2, R9, w(waiting::SINCE)).jump(If::Equal, R2, 0, out);
    p.a.load(R3, R9, w(waiting::LOCK)).jump(If::NotEqual, R3, R1, out).here(found);
    p.a.call(Call::Now).set(R8, R0).load(R1, R9, w(waiting::SINCE)).op(Op::Sub, R8, R1);
    p.a.store(R9, w(waiting::SINCE), 0);
    // Reading a stack takes longer than most waits, so only a random sample of the short waits is
    // recorded.
    p.a.store(Fp, D, 1).jump(If::Above, R8, SHORT, long).op(Op::Right, R0, 2);
    p.a.op(Op::And, R0, SAMPLED - 1)
        .jump(If::NotEqual, R0, 0, out)
        .store(Fp, D, SAMPLED)
        .here(long);
    p.a.jump(If::Above, R8, LONG, whole).call(Call::Now).op(Op::Right, R0, 6);
    p.a.load(R1, R7, w(thread::LEFT_OUT)).op(Op::And, R0, R1).jump(If::NotEqual, R0, 0, out);
    p.a.op(Op::Add, R1, 1).load(R2, Fp, D).op(Op::Mul, R2, R1).store(Fp, D, R2).here(whole);
    for (from, to) in [(waiting::LOCK, A), (waiting::OWNER, B), (waiting::RUNNABLE_THEN, C)] {
        p.a.load(R1, R9, w(from)).store(Fp, to, R1);
    }
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, KEY, R1);
    p.a.load(R1, R9, w(waiting::FLAGS)).store32(Fp, KEY + 4, R1);
    priced_stack(p);
    p.entry(&tables.locks, lost::LOCKS, out);
    p.time(lock::TIMES, Some(lock::BUCKETS_AT), D);
    p.note_thread(lock::THREADS);
    p.a.load(R1, Fp, D).op(Op::Mul, R8, R1);
    p.a.load(R1, R7, w(thread::RUNNABLE)).load(R2, Fp, C).op(Op::Sub, R1, R2);
    p.a.add(R9, w(lock::RUNNABLE), R1);
    p.a.load(R1, Fp, A).load(R2, R9, w(lock::ADDRESS)).jump(If::Equal, R2, 0, first);
    p.a.jump(If::Equal, R2, R1, kept).store(R9, w(lock::MANY), 1).goto(kept).here(first);
    p.a.store(R9, w(lock::ADDRESS), R1).here(kept);
    p.a.load(R2, Fp, B).jump(If::Equal, R2, 0, out).add(R9, w(lock::OWNED), R8);
    p.a.jump(If::NotEqual, R2, 2, out).add(R9, w(lock::OFF), R8);
}

/// Stores the stack in the kernel at `KEY + 8`, and adapts the number of waits that the next one
/// represents to the time that stacks have taken.
fn priced_stack(p: &mut Writer<'_>) {
    const BEGIN: i16 = ROOM - 8;
    let [dear, store] = [(); 2].map(|()| p.a.label());
    p.a.call(Call::Now).store(Fp, BEGIN, R0);
    p.stack(false, lost::STACKS);
    p.a.store(Fp, KEY + 8, R0).call(Call::Now).load(R1, Fp, BEGIN).op(Op::Sub, R0, R1);
    p.grow(R7, thread::STACKS_TOOK, R0);
    p.a.load(R1, R7, w(thread::STACKS_TOOK)).load(R2, R7, w(thread::CPU));
    p.a.op(Op::Right, R2, STACKS_SHARE).op(Op::Add, R2, STACKS_FIRST_NS);
    p.a.load(R3, R7, w(thread::LEFT_OUT)).jump(If::Above, R1, R2, dear);
    p.a.op(Op::Right, R3, 1).goto(store).here(dear).op(Op::Left, R3, 1).op(Op::Add, R3, 1);
    p.a.op(Op::And, R3, LEFT_OUT_MOST).here(store).store(R7, w(thread::LEFT_OUT), R3);
}

/// A thread creates a thread or a process.
fn fork(p: &mut Writer<'_>) {
    const VALUE: i16 = ROOM - w(thread::WORDS);
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    for (offset, to) in [(p.offsets.pid, ID), (p.offsets.tgid, A)] {
        p.a.load(R3, R6, 8).op(Op::Add, R3, offset);
        p.a.at(R1, Fp, to.into()).set(R2, 4).call(Call::ReadKernel);
    }
    p.a.call(Call::Now).set(R8, R0).load32(R9, Fp, A);
    for index in 0..thread::WORDS {
        p.a.store(Fp, VALUE + w(index), 0);
    }
    let (kept, new) = (p.a.label(), p.a.label());
    p.a.store(Fp, VALUE + w(thread::PROCESS), R9).at(R3, Fp, VALUE.into());
    p.update(&tables.threads, ID);
    p.a.jump(If::Equal, R0, 0, kept);
    p.lose(lost::THREADS);
    p.a.here(kept);
    p.passes_no_more(out);
    p.a.load(R1, R7, w(thread::PROCESS)).jump(If::NotEqual, R1, R9, new);
    p.lookup(&tables.processes, A);
    p.a.jump(If::Equal, R0, 0, out).set(R1, 1).add(R0, w(process::THREADS), R1);
    p.a.add(R0, w(process::ALIVE), R1).goto(out).here(new);
    p.a.store(Fp, VALUE + w(process::PARENT), R1).store(Fp, VALUE + w(process::BEGIN), R8);
    p.a.store(Fp, VALUE + w(process::THREADS), 1).store(Fp, VALUE + w(process::ALIVE), 1);
    p.a.at(R3, Fp, VALUE.into());
    p.update(&tables.processes, A);
    p.a.jump(If::Equal, R0, 0, out);
    p.lose(lost::PROCESSES);
}

/// A process executes another program. The thread that does so takes the ID of its process.
fn exec(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.a.call(Call::CurrentThread).store32(Fp, A, R0).load(R1, R6, 8).store32(Fp, ID, R1);
    p.lookup(&tables.threads, ID);
    p.a.jump(If::Equal, R0, 0, out).set(R7, R0);
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, B, R1);
    p.lookup(&tables.processes, B);
    let none = p.a.label();
    p.a.jump(If::Equal, R0, 0, none).set(R1, 1).add(R0, w(process::PROGRAMS), R1).here(none);
    p.a.load32(R1, Fp, A).load32(R2, Fp, ID).jump(If::Equal, R1, R2, out).set(R3, R7);
    p.update(&tables.threads, A);
    p.remove(&tables.threads, ID);
    p.a.load32(R1, Fp, A).store32(Fp, ID, R1);
    p.passes_no_more(out);
}

fn exit(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    p.a.store(Fp, NOW, 0);
    p.times(None);
    has_run(p);
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, C, R1);
    p.lookup(&tables.processes, C);
    let [gone, known, waits] = [(); 3].map(|()| p.a.label());
    p.a.jump(If::Equal, R0, 0, waits).set(R9, R0).load(R2, Fp, WEIGHTED);
    p.a.load(R1, R7, w(thread::ON)).jump(If::Equal, R1, 0, known).op(Op::Sub, R2, R1);
    p.ran();
    p.a.here(known);
    for (from, to) in SUMS {
        p.a.load(R1, R7, w(from)).add(R9, w(to), R1);
    }
    p.a.set(R1, -1).fetch_add(R9, w(process::ALIVE), R1).jump(If::NotEqual, R1, 1, waits);
    p.a.store(R9, w(process::END), R8).here(waits);
    // A wait that has not ended when the process ends is recorded, too.
    p.a.load(R1, R7, w(thread::SINCE)).jump(If::Equal, R1, 0, gone);
    let end = std::mem::replace(&mut p.out, gone);
    wait_ends(p);
    p.out = end;
    p.a.here(gone);
    p.remove(&tables.threads, ID);
}

/// Words of a thread, and the words of its process that they are added to when it exits.
pub(super) const SUMS: [(usize, usize); 6] = [
    (thread::PREEMPTED, process::PREEMPTED),
    (thread::BLOCKED, process::BLOCKED),
    (thread::RUNNABLE, process::RUNNABLE),
    (thread::CPU, process::CPU),
    (thread::PREEMPTIONS, process::PREEMPTIONS),
    (thread::SLEEPS_COUNT, process::SLEEPS),
];
