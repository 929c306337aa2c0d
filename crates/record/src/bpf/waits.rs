//! Waits in futex(2), known from the registers of threads that fall asleep and of threads that wake
//! them, and how long the owner of a word has owned it.

use super::asm::Reg::{Fp, R0, R1, R2, R3, R7, R8, R9};
use super::asm::{Call, If, Label, Op};
use super::tables::{PIECE, gate, load, lost, thread, wait, word};
use super::write::{END, EPOCH, KEY, NOW, ROOM, WAIT_WEIGHT, WEIGHT, Writer, ZERO, w};

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

const FUTEX: i32 = 202;
/// `FUTEX_WAIT`, `_LOCK_PI`, `_WAIT_BITSET`, `_WAIT_REQUEUE_PI`, `_LOCK_PI2`.
const WAITS: [i32; 5] = [0, 6, 9, 11, 13];
/// `FUTEX_WAKE`, `_REQUEUE`, `_CMP_REQUEUE`, `_WAKE_OP`, `_UNLOCK_PI`, `_WAKE_BITSET`,
/// `_CMP_REQUEUE_PI`.
pub(super) const WAKES: [i32; 7] = [1, 3, 4, 5, 7, 10, 12];
/// The operation without its flags.
const OPERATION: i32 = 0x7f;
// How a wait in futex(2) ended: by a wakeup of the word, or by something else with or without a
// time-out.
pub(super) const WAS_WOKEN: i32 = 0;
const WAS_INTERRUPTED: i32 = 1;
const MAY_TIME_OUT: i32 = 2;

const REGISTERS: i16 = ROOM - registers::BYTES;

/// Copies the registers of the current thread if it is in one of these operations of futex(2);
/// jumps to `none` otherwise. Its word is then at `KEY + 8`.
pub(super) fn futex(p: &mut Writer<'_>, operations: &[i32], none: Label) {
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
pub(super) fn falls_asleep(p: &mut Writer<'_>, next: Label) {
    futex(p, &WAITS, next);
    let endless = p.a.label();
    p.a.set(R2, WAS_INTERRUPTED).load(R1, Fp, REGISTERS + registers::TIMEOUT);
    p.a.jump(If::Equal, R1, 0, endless).set(R2, MAY_TIME_OUT).here(endless);
    p.a.store(R7, w(thread::ENDED_BY), R2);
    // A thread that waits for the word has released it, although that woke no thread.
    let is_other = p.a.label();
    p.a.load(R1, R7, w(thread::HELD)).load(R2, Fp, KEY + 8).jump(If::NotEqual, R1, R2, is_other);
    p.a.store(R7, w(thread::HELD_SINCE), 0).here(is_other);
    let out = std::mem::replace(&mut p.out, next);
    let [other, known] = [(); 2].map(|()| p.a.label());
    // A thread that waits for one word again and again does so from one stack: walking it takes
    // longer than all else here.
    p.a.load(R1, R7, w(thread::WORD)).load(R2, Fp, KEY + 8).jump(If::NotEqual, R1, R2, other);
    p.a.load(R1, R7, w(thread::POINTER)).load(R2, Fp, REGISTERS + registers::STACK);
    p.a.jump(If::Equal, R1, R2, known).here(other);
    p.a.load(R1, Fp, REGISTERS + registers::STACK).store(R7, w(thread::POINTER), R1);
    waits_at(p);
    p.a.here(known).set(R2, 1);
    p.spend(load::WAITS);
    p.a.load(R8, Fp, NOW);
    wait_begins(p);
    piece(p);
    p.out = out;
    p.a.goto(next);
}

/// The thread in `R7`, which slept in futex(2) if it was in a wait, runs again.
pub(super) fn runs_again(p: &mut Writer<'_>) {
    let (out, woken) = (p.out, p.a.label());
    wait_ends(p);
    p.a.load(R1, R7, w(thread::ENDED_BY)).jump(If::Equal, R1, WAS_WOKEN, woken);
    p.a.jump(If::NotEqual, R1, MAY_TIME_OUT, out).load(R1, Fp, WAIT_WEIGHT);
    p.a.add(R9, w(wait::FAILED), R1).goto(out).here(woken);
    p.a.load(R1, Fp, END).store(R7, w(thread::HELD_SINCE), R1);
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
    p.a.load(R1, Fp, WEIGHT).store(R7, w(thread::WEIGHT), R1);
    let (done, others) = (p.a.label(), p.a.label());
    key_of_word(p);
    p.entry(&tables.words, lost::WORDS, done);
    p.note_thread(word::THREADS);
    // Of threads with frequent events not every wait has a known end.
    p.a.load(R1, Fp, WEIGHT).jump(If::NotEqual, R1, 1, done);
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
    p.lookup(&tables.room, ZERO);
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
pub(super) fn wake(p: &mut Writer<'_>) {
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
    p.time(wait::HOLD_OFF, None, WEIGHT);
    p.a.goto(woken).here(on);
    p.time(wait::HOLD_ON, Some(wait::HOLD_BUCKETS), WEIGHT);
    p.a.here(woken);
    key_of_word(p);
    p.lookup(&tables.words, KEY);
    p.a.jump(If::Equal, R0, 0, out).set(R9, R0);
    p.a.load(R1, Fp, REGISTERS + registers::COUNT).op(Op::Left, R1, 32).op(Op::Right, R1, 32);
    p.a.jump(If::Above, R1, 1, told);
    p.has_thread(word::THREADS);
    p.a.jump(If::Equal, R0, 0, told).load(R1, Fp, WEIGHT).add(R9, w(word::OWN), R1).goto(out);
    p.a.here(told).load(R1, Fp, WEIGHT).add(R9, w(word::OTHER), R1);
}

/// Records the wait of the thread until the time at `END`, if it is in one. Afterwards `R9` points
/// to the value of the wait, and its weight is at `WAIT_WEIGHT`.
pub(super) fn wait_ends(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.a.load(R1, R7, w(thread::SINCE)).jump(If::Equal, R1, 0, out);
    // The events of a thread may have become frequent in this wait, after the last window.
    let is_later = p.a.label();
    p.a.load(R8, Fp, END).jump(If::Above, R8, R1, is_later);
    p.a.load(R8, Fp, NOW).store(Fp, END, R8).here(is_later);
    p.a.op(Op::Sub, R8, R1).store(R7, w(thread::SINCE), 0);
    p.a.load(R1, R7, w(thread::WEIGHT)).store(Fp, WAIT_WEIGHT, R1);
    leaves_word(p);
    key_of_wait(p, thread::STACK);
    p.entry(&tables.waits, lost::WAITS, out);
    p.time(wait::TIMES, Some(wait::BUCKETS_AT), WAIT_WEIGHT);
    p.note_thread(wait::THREADS);
    p.since(thread::RUNNABLE, thread::RUNNABLE_THEN);
    p.a.add(R9, w(wait::RUNNABLE), R1);
}

/// The wait of the thread or goroutine in `R7`, whose last event was in an earlier window, ended at
/// an unknown time between the windows; it is known to have lasted until the end of its window.
/// Afterwards `R8` is the current time.
pub(super) fn wait_ended(p: &mut Writer<'_>) {
    let tables = p.tables;
    let done = p.a.label();
    p.a.load(R1, R7, w(thread::SINCE)).jump(If::Equal, R1, 0, done);
    // After a whole window without an event it is not known in which sleep the thread was.
    p.a.load(R1, Fp, EPOCH).load(R2, R7, w(thread::EPOCH)).op(Op::Sub, R1, R2);
    p.a.jump(If::Above, R1, 1, done);
    p.lookup(&tables.gate, ZERO);
    p.a.jump(If::Equal, R0, 0, done).load(R3, R0, w(gate::PREVIOUS));
    p.a.load(R1, R7, w(thread::SINCE)).jump(If::Above, R1, R3, done).store(Fp, END, R3);
    let end = std::mem::replace(&mut p.out, done);
    wait_ends(p);
    p.out = end;
    p.a.here(done).store(R7, w(thread::SINCE), 0).load(R8, Fp, NOW).store(Fp, END, R8);
}

/// The thread stops waiting for its word at the time at `END`. `R8` is kept.
fn leaves_word(p: &mut Writer<'_>) {
    let tables = p.tables;
    p.a.load(R1, R7, w(thread::WORD)).store(Fp, KEY + 8, R1);
    let booked = p.a.label();
    p.a.load(R1, R7, w(thread::WEIGHT)).jump(If::NotEqual, R1, 1, booked);
    key_of_word(p);
    p.lookup(&tables.words, KEY);
    p.a.jump(If::Equal, R0, 0, booked).set(R9, R0);
    p.a.set(R1, -1).fetch_add(R9, w(word::WAITERS), R1).jump(If::NotEqual, R1, 1, booked);
    // It was the last waiter: the period with waiters ends, unless the next one has begun in the
    // same moment.
    p.a.load(R1, Fp, END).load(R2, R9, w(word::SINCE)).jump(If::Above, R2, R1, booked);
    p.a.op(Op::Sub, R1, R2);
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
