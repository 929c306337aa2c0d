//! The programs that run in the kernel: at waits in futex(2), at waits for kernel locks, and when
//! threads start, exit and switch.

use std::ffi::CStr;

use super::asm::Reg::{Fp, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use super::asm::{Call, If, Label, Op};
use super::btf::Offsets;
use super::tables::{PIECE, Tables, lock, lost, process, thread, wait, waiting, word};
use super::write::{A, B, C, D, ID, KEY, ROOM, Writer, w};

/// A program: its name, its tracepoint, and the function that writes it.
pub(super) type Program = (&'static str, &'static CStr, fn(&mut Writer<'_>));

/// All programs. None is at the tracepoints of system calls, which would make every call of every
/// process slower: waits in futex(2) are known from the registers of threads that fall asleep and
/// of threads that wake others.
pub(super) const PROGRAMS: [Program; 7] = [
    ("convoy_fork", c"sched_process_fork", fork),
    ("convoy_exec", c"sched_process_exec", exec),
    ("convoy_exit", c"sched_process_exit", exit),
    ("convoy_switch", c"sched_switch", switch),
    ("convoy_waking", c"sched_waking", waking),
    ("convoy_begin", c"contention_begin", lock_begins),
    ("convoy_end", c"contention_end", lock_ends),
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

/// Offsets of arguments and pointers in the kernel's copy of a thread's registers.
mod registers {
    pub(super) const BYTES: i16 = 168;
    pub(super) const WORD: i16 = 112;
    pub(super) const CALL: i16 = 120;
    pub(super) const TIMEOUT: i16 = 56;
    pub(super) const OPERATION: i16 = 104;
    pub(super) const COUNT: i16 = 96;
    pub(super) const CODE: i16 = 128;
    pub(super) const STACK: i16 = 152;
}

/// CPU time in nanoseconds between two sleeps of one system call, at most: fsync(2) of ext4 sleeps
/// for its journal and for the device in turn. An estimate: a few requests to the device.
const ONE_CALL_NS: i32 = 100_000;
const FUTEX: i32 = 202;
/// `FUTEX_WAIT`, `_LOCK_PI`, `_WAIT_BITSET`, `_WAIT_REQUEUE_PI`, `_LOCK_PI2`.
const WAITS: [i32; 5] = [0, 6, 9, 11, 13];
/// `FUTEX_WAKE`, `_REQUEUE`, `_CMP_REQUEUE`, `_WAKE_OP`, `_UNLOCK_PI`, `_WAKE_BITSET`,
/// `_CMP_REQUEUE_PI`.
const WAKES: [i32; 7] = [1, 3, 4, 5, 7, 10, 12];
/// The operation without its flags.
const OPERATION: i32 = 0x7f;
// How a wait in futex(2) ended: by a wakeup of the word, or by something else with or without a
// time-out.
const WAS_WOKEN: i32 = 0;
const WAS_INTERRUPTED: i32 = 1;
const MAY_TIME_OUT: i32 = 2;

/// Maximum length of a short wait for a kernel lock, in nanoseconds: reading a stack takes longer.
const SHORT: i32 = 1000;
/// Number of short waits represented by a recorded one.
const SAMPLED: i32 = 16;
/// Length of a wait for a kernel lock, in nanoseconds, from which on each is recorded.
const LONG: i32 = 1_000_000;
/// Of the CPU time of a thread, stacks in the kernel may take a part of a 64th, after a first half
/// of a millisecond. Otherwise a recorded wait represents up to 256.
const STACKS_SHARE: i32 = 6;
const STACKS_FIRST_NS: i32 = 500_000;
const LEFT_OUT_MOST: i32 = 255;

const REGISTERS: i16 = ROOM - registers::BYTES;

/// Copies the registers of the current thread if it is in one of these operations of futex(2);
/// jumps to `none` otherwise. Its word is then at `KEY + 8`.
fn futex(p: &mut Writer<'_>, operations: &[i32], none: Label) {
    p.a.call(Call::CurrentTask).set(R1, R0).call(Call::Registers).load(R1, R0, registers::CALL);
    p.a.jump(If::NotEqual, R1, FUTEX, none).set(R3, R0);
    p.a.at(R1, Fp, REGISTERS.into()).set(R2, i32::from(registers::BYTES)).call(Call::ReadKernel);
    p.a.load(R1, Fp, REGISTERS + registers::OPERATION).op(Op::And, R1, OPERATION);
    let matches = p.a.label();
    for operation in operations {
        p.a.jump(If::Equal, R1, *operation, matches);
    }
    p.a.goto(none).here(matches);
    p.a.load(R1, Fp, REGISTERS + registers::WORD).store(Fp, KEY + 8, R1);
}

/// The thread in `R7` falls asleep at the time in `R8`, perhaps in futex(2). Jumps to `next`.
fn falls_asleep(p: &mut Writer<'_>, next: Label) {
    futex(p, &WAITS, next);
    let endless = p.a.label();
    p.a.set(R2, WAS_INTERRUPTED).load(R1, Fp, REGISTERS + registers::TIMEOUT);
    p.a.jump(If::Equal, R1, 0, endless).set(R2, MAY_TIME_OUT).here(endless);
    p.a.store(R7, w(thread::ENDED_BY), R2);
    let out = std::mem::replace(&mut p.out, next);
    let [other, known] = [(); 2].map(|()| p.a.label());
    // A thread that waits for one word again and again does so from one stack: walking it takes
    // longer than all else here.
    p.a.load(R1, R7, w(thread::WORD)).load(R2, Fp, KEY + 8).jump(If::NotEqual, R1, R2, other);
    p.a.load(R1, R7, w(thread::POINTER)).load(R2, Fp, REGISTERS + registers::STACK);
    p.a.jump(If::Equal, R1, R2, known).here(other);
    p.a.load(R1, Fp, REGISTERS + registers::STACK).store(R7, w(thread::POINTER), R1);
    waits_at(p);
    p.a.here(known);
    wait_begins(p);
    piece(p);
    p.out = out;
    p.a.goto(next);
}

/// The thread in `R7`, which slept in futex(2) if it was in a wait, runs again.
fn runs_again(p: &mut Writer<'_>) {
    let (out, woken) = (p.out, p.a.label());
    wait_ends(p);
    p.a.load(R1, R7, w(thread::ENDED_BY)).jump(If::Equal, R1, WAS_WOKEN, woken);
    p.a.jump(If::NotEqual, R1, MAY_TIME_OUT, out).set(R1, 1);
    p.a.add(R9, w(wait::FAILED), R1).goto(out).here(woken);
    p.a.load(R1, Fp, A).store(R7, w(thread::HELD_SINCE), R1);
    for (from, to) in [
        (thread::WORD, thread::HELD),
        (thread::STACK, thread::HELD_STACK),
        (thread::PREEMPTED, thread::HELD_PREEMPTED),
        (thread::BLOCKED, thread::HELD_BLOCKED),
        (thread::RUNNABLE, thread::HELD_RUNNABLE),
    ] {
        p.a.load(R1, R7, w(from)).store(R7, w(to), R1);
    }
}

/// Notes the stack of a wait that begins.
pub(super) fn waits_at(p: &mut Writer<'_>) {
    p.stack(true, lost::STACKS);
    p.a.store(R7, w(thread::STACK), R0);
}

/// Records that the thread, which may be a goroutine, waits for the word at `KEY + 8` since `R8`.
pub(super) fn wait_begins(p: &mut Writer<'_>) {
    let tables = p.tables;
    p.a.load(R1, Fp, KEY + 8).store(R7, w(thread::WORD), R1).store(R7, w(thread::SINCE), R8);
    p.a.load(R1, R7, w(thread::RUNNABLE)).store(R7, w(thread::RUNNABLE_THEN), R1);
    let (done, others) = (p.a.label(), p.a.label());
    key_of_word(p);
    p.entry(&tables.words, lost::WORDS, done);
    p.note_thread(word::THREADS);
    p.a.set(R1, 1).fetch_add(R9, w(word::WAITERS), R1).jump(If::NotEqual, R1, 0, others);
    p.a.store(R9, w(word::SINCE), R8).here(others).op(Op::Add, R1, 1);
    p.a.load(R2, R9, w(word::MOST)).jump(If::Above, R2, R1, done);
    p.a.store(R9, w(word::MOST), R1).here(done);
}

/// Stores the code address and the arguments of the call, and a copy of the stack, once for each
/// place.
fn piece(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    key_of_wait(p, thread::STACK);
    p.lookup(&tables.waits, KEY);
    p.a.jump(If::NotEqual, R0, 0, out);
    p.entry(&tables.waits, lost::WAITS, out);
    p.lookup(&tables.room, super::write::ZERO);
    p.a.jump(If::Equal, R0, 0, out).set(R9, R0);
    p.a.load(R1, Fp, REGISTERS + registers::CODE).store(R9, 0, R1);
    p.a.load(R3, Fp, REGISTERS + registers::STACK).store(R9, 8, R3);
    let whole = p.a.label();
    p.a.at(R1, R9, 16).set(R2, PIECE as i32).call(Call::ReadUser).jump(If::Equal, R0, 0, whole);
    // The stack of a new thread may be shorter.
    p.a.at(R1, R9, 16).set(R2, 256).load(R3, R9, 8).call(Call::ReadUser).here(whole);
    p.a.load(R1, Fp, REGISTERS + registers::OPERATION).op(Op::Left, R1, 32);
    p.a.load(R2, Fp, REGISTERS + registers::COUNT).op(Op::Left, R2, 32).op(Op::Right, R2, 32);
    p.a.op(Op::Or, R1, R2).store(R9, 8, R1);
    p.a.set(R3, R9);
    p.update(&tables.pieces, KEY);
}

/// A wakeup. If the thread's last wait was for this word, it has owned the word until now. The
/// owner of a lock may have acquired it without a wait, but it has waited for the word at some
/// time, and it wakes one thread. A thread that only signals others has never waited for the word.
fn wake(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    let [told, woken, on] = [(); 3].map(|()| p.a.label());
    p.a.load(R2, R7, w(thread::HELD_SINCE)).jump(If::Equal, R2, 0, woken);
    p.a.load(R3, R7, w(thread::HELD)).load(R1, Fp, KEY + 8).jump(If::NotEqual, R3, R1, woken);
    p.a.op(Op::Sub, R8, R2).store(R7, w(thread::HELD_SINCE), 0);
    key_of_wait(p, thread::HELD_STACK);
    p.lookup(&tables.waits, KEY);
    p.a.jump(If::Equal, R0, 0, woken).set(R9, R0).set(R3, 0);
    for (now, then, to) in [
        (thread::PREEMPTED, thread::HELD_PREEMPTED, wait::PREEMPTED),
        (thread::BLOCKED, thread::HELD_BLOCKED, wait::BLOCKED),
        (thread::RUNNABLE, thread::HELD_RUNNABLE, wait::HELD_RUNNABLE),
    ] {
        p.since(now, then);
        p.a.op(Op::Add, R3, R1).add(R9, w(to), R1);
    }
    p.a.jump(If::Equal, R3, 0, on);
    p.time(wait::HOLD_OFF, None, false);
    p.a.goto(woken).here(on);
    p.time(wait::HOLD_ON, Some(wait::HOLD_BUCKETS), false);
    p.a.here(woken);
    key_of_word(p);
    p.lookup(&tables.words, KEY);
    p.a.jump(If::Equal, R0, 0, out).set(R9, R0);
    p.a.load(R1, Fp, REGISTERS + registers::COUNT).op(Op::Left, R1, 32).op(Op::Right, R1, 32);
    p.a.jump(If::Above, R1, 1, told);
    p.has_thread(word::THREADS);
    p.a.jump(If::Equal, R0, 0, told).set(R1, 1).add(R9, w(word::OWN), R1).goto(out);
    p.a.here(told).set(R1, 1).add(R9, w(word::OTHER), R1);
}

/// Records the wait of the thread, if it is in one. Afterwards the current time is at `A`, and `R9`
/// points to the value of the wait.
pub(super) fn wait_ends(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.a.load(R1, R7, w(thread::SINCE)).jump(If::Equal, R1, 0, out);
    p.a.call(Call::Now).store(Fp, A, R0).set(R8, R0);
    p.a.load(R1, R7, w(thread::SINCE)).op(Op::Sub, R8, R1).store(R7, w(thread::SINCE), 0);
    leaves_word(p);
    key_of_wait(p, thread::STACK);
    p.entry(&tables.waits, lost::WAITS, out);
    p.time(wait::TIMES, Some(wait::BUCKETS_AT), false);
    p.note_thread(wait::THREADS);
    p.since(thread::RUNNABLE, thread::RUNNABLE_THEN);
    p.a.add(R9, w(wait::RUNNABLE), R1);
}

/// The thread stops waiting for its word. The current time is at `A`; `R8` is kept.
fn leaves_word(p: &mut Writer<'_>) {
    let tables = p.tables;
    p.a.load(R1, R7, w(thread::WORD)).store(Fp, KEY + 8, R1);
    let booked = p.a.label();
    key_of_word(p);
    p.lookup(&tables.words, KEY);
    p.a.jump(If::Equal, R0, 0, booked).set(R9, R0);
    p.a.set(R1, -1).fetch_add(R9, w(word::WAITERS), R1).jump(If::NotEqual, R1, 1, booked);
    // It was the last waiter: the period with waiters ends.
    p.a.load(R1, Fp, A).load(R2, R9, w(word::SINCE)).op(Op::Sub, R1, R2);
    p.grow(R9, word::TOTAL, R1);
    p.a.load(R3, R9, w(word::LONGEST)).jump(If::Above, R3, R1, booked);
    p.a.store(R9, w(word::LONGEST), R1).store(R9, w(word::LONGEST_AT), R2).here(booked);
}

/// Completes the key of the word with its address at `KEY + 8`.
fn key_of_word(p: &mut Writer<'_>) {
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1);
}

/// Stores the key of the waits for that word from a stack.
fn key_of_wait(p: &mut Writer<'_>, stack: usize) {
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, KEY, R1);
    p.a.load(R1, R7, w(stack)).store32(Fp, KEY + 4, R1);
}

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
    p.time(lock::TIMES, Some(lock::BUCKETS_AT), true);
    p.note_thread(lock::THREADS);
    p.weight(true);
    p.a.op(Op::Mul, R8, R1);
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

/// A CPU switches from one thread to another.
fn switch(p: &mut Writer<'_>) {
    let out = p.out;
    let [next, known, runnable, woken] = [(); 4].map(|()| p.a.label());
    p.a.call(Call::Now).set(R8, R0);
    p.thread(next);
    p.a.load(R1, R7, w(thread::ON)).jump(If::Equal, R1, 0, known);
    p.a.set(R2, R8).op(Op::Sub, R2, R1);
    p.grow(R7, thread::CPU, R2);
    p.a.here(known).store(R7, w(thread::OFF), R8).store(R7, w(thread::ON), 0);
    p.a.store(R7, w(thread::WOKEN), 0).store(R7, w(thread::WAS_RUNNABLE), 0).set(R2, 1);
    // It was preempted, or yielded its CPU without falling asleep.
    p.a.load(R1, R6, 0).op(Op::And, R1, 1).jump(If::NotEqual, R1, 0, runnable);
    p.a.load(R1, R6, 24).op(Op::Left, R1, 32).jump(If::Equal, R1, 0, runnable);
    p.grow(R7, thread::SLEEPS_COUNT, R2);
    falls_asleep(p, next);
    p.a.here(runnable).store(R7, w(thread::WAS_RUNNABLE), R2);
    p.grow(R7, thread::PREEMPTIONS, R2);
    p.a.here(next);
    p.thread_of(2);
    let runs = p.a.label();
    p.a.store(R7, w(thread::ON), R8).load(R1, R7, w(thread::OFF)).jump(If::Equal, R1, 0, out);
    p.a.store(R7, w(thread::OFF), 0).set(R2, R8).op(Op::Sub, R2, R1);
    let slept = p.a.label();
    p.a.load(R3, R7, w(thread::WAS_RUNNABLE)).jump(If::Equal, R3, 0, slept);
    p.grow(R7, thread::PREEMPTED, R2);
    p.a.goto(runs).here(slept);
    // One call may sleep several times, and the thread waits for a CPU after each sleep.
    let apart = p.a.label();
    p.a.load(R3, R7, w(thread::CPU)).load(R4, R7, w(thread::SLEPT_CPU));
    p.a.store(R7, w(thread::SLEPT_CPU), R3).op(Op::Sub, R3, R4);
    p.a.jump(If::Above, R3, ONE_CALL_NS, apart).load(R4, R7, w(thread::SLEPT)).op(Op::Add, R2, R4);
    p.a.here(apart).store(R7, w(thread::SLEPT), R2).store(R7, w(thread::SLEPT_END), R8);
    p.a.set(R2, R8).op(Op::Sub, R2, R1);
    p.a.load(R3, R7, w(thread::WOKEN)).jump(If::NotEqual, R3, 0, woken);
    p.grow(R7, thread::BLOCKED, R2);
    p.a.goto(runs).here(woken).op(Op::Sub, R8, R3).op(Op::Sub, R3, R1);
    p.grow(R7, thread::BLOCKED, R3);
    p.grow(R7, thread::RUNNABLE, R8);
    p.a.here(runs);
    runs_again(p);
}

/// A thread is woken, possibly by another process of the program. A wakeup by an interrupt counts
/// as one by the interrupted thread.
fn waking(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    let [apart, other, told] = [(); 3].map(|()| p.a.label());
    p.thread_of(0);
    p.a.load(R1, R7, w(thread::OFF)).jump(If::Equal, R1, 0, out);
    p.a.load(R1, R7, w(thread::WAS_RUNNABLE)).jump(If::NotEqual, R1, 0, out);
    p.a.load(R1, R7, w(thread::WOKEN)).jump(If::NotEqual, R1, 0, out);
    p.a.call(Call::Now).store(R7, w(thread::WOKEN), R0).set(R8, R0);
    p.a.load(R1, R7, w(thread::OFF)).op(Op::Sub, R8, R1).load(R9, R7, w(thread::PROCESS));
    p.a.store(Fp, C, 0).load(R1, R7, w(thread::SINCE)).jump(If::Equal, R1, 0, apart);
    futex(p, &WAKES, apart);
    // Otherwise an interrupt woke it in the middle of this call.
    p.a.load(R1, R7, w(thread::WORD)).load(R2, Fp, KEY + 8).jump(If::NotEqual, R1, R2, apart);
    p.a.store(R7, w(thread::ENDED_BY), WAS_WOKEN).store(Fp, C, 1).here(apart);
    p.thread(out);
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, A, R1).store32(Fp, B, R9);
    p.a.load(R1, Fp, C).jump(If::Equal, R1, 0, other).store(Fp, C, R8).call(Call::Now).set(R8, R0);
    p.out = told;
    wake(p);
    p.out = out;
    p.a.here(told).load(R8, Fp, C).here(other);
    p.a.load32(R1, Fp, A).load32(R9, Fp, B).jump(If::Equal, R1, R9, out);
    p.lookup(&tables.processes, A);
    p.a.jump(If::Equal, R0, 0, out).set(R1, 1).add(R0, w(process::WAKES_OTHERS), R1);
    p.lookup(&tables.processes, B);
    p.a.jump(If::Equal, R0, 0, out).set(R1, 1).add(R0, w(process::BY_OTHERS), R1);
    p.a.add(R0, w(process::ASLEEP_BY_OTHERS), R8);
}

/// A thread creates a thread or a process.
fn fork(p: &mut Writer<'_>) {
    /// Where the value is assembled.
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
    p.a.here(kept).load(R1, R7, w(thread::PROCESS)).jump(If::NotEqual, R1, R9, new);
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
}

/// A thread exits.
fn exit(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, C, R1);
    p.lookup(&tables.processes, C);
    let [gone, known, waits] = [(); 3].map(|()| p.a.label());
    p.a.jump(If::Equal, R0, 0, waits).set(R9, R0).call(Call::Now).set(R8, R0);
    p.a.load(R1, R7, w(thread::ON)).jump(If::Equal, R1, 0, known).set(R2, R8);
    p.a.op(Op::Sub, R2, R1);
    p.grow(R7, thread::CPU, R2);
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
