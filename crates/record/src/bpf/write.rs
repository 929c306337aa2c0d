//! Code sequences that several programs in the kernel share.
//!
//! In all of them `R6` is the tracepoint's context, `R7` the thread, `R8` a time, `R9` a value of a
//! map. The stack slots are named below.

use convoy_os::bpf::Map;

use super::asm::Reg::{Fp, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use super::asm::{Asm, Call, If, Label, Op, Reg};
use super::btf::Offsets;
use super::tables::{PASSED, Tables, gate, load, thread, times};
use crate::layout::BUCKETS;

/// Key of maps with one value.
pub(super) const ZERO: i16 = -8;
/// A key of 16 bytes.
pub(super) const KEY: i16 = -24;
/// A thread ID, as a key of four bytes.
pub(super) const ID: i16 = -32;
/// Temporary words of a program.
pub(super) const A: i16 = -40;
pub(super) const B: i16 = -48;
pub(super) const C: i16 = -56;
pub(super) const D: i16 = -64;
/// The current time, and the same in weighted time.
pub(super) const NOW: i16 = -72;
pub(super) const WEIGHTED: i16 = -80;
/// When a wait ends.
pub(super) const END: i16 = -88;
/// The window, its weight, and weighted time at its begin.
pub(super) const EPOCH: i16 = -96;
pub(super) const WEIGHT: i16 = -104;
pub(super) const BASE: i16 = -112;
/// The weight of a wait.
pub(super) const WAIT_WEIGHT: i16 = -120;
/// Which events are recorded: a state of the gate.
pub(super) const STATE: i16 = -128;
/// Space for a structure or value ends here.
pub(super) const ROOM: i16 = -128;

/// Returns the offset of a word in a value.
pub(super) const fn w(index: usize) -> i16 {
    (index * 8) as i16
}

/// A program under construction, and its maps and offsets.
pub(super) struct Writer<'a> {
    pub(super) a: Asm,
    pub(super) tables: &'a Tables,
    pub(super) offsets: Offsets,
    /// Label at the end of the program.
    pub(super) out: Label,
}

impl<'a> Writer<'a> {
    pub(super) fn new(tables: &'a Tables, offsets: Offsets) -> Self {
        let mut a = Asm::default();
        let out = a.label();
        a.set(R6, R1).store(Fp, ZERO, 0);
        Self { a, tables, offsets, out }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.a.here(self.out).exit();
        self.a.finish()
    }

    /// `R0` becomes the value of the key in this stack slot, or 0.
    pub(super) fn lookup(&mut self, map: &Map, key: i16) {
        self.a.map(R1, map.descriptor()).at(R2, Fp, key.into()).call(Call::Lookup);
    }

    /// Sets the value of the key to the one that `R3` points to; `R0` is 0 on success.
    pub(super) fn update(&mut self, map: &Map, key: i16) {
        const ANY: i32 = 0;
        self.put(map, key, ANY);
    }

    fn put(&mut self, map: &Map, key: i16, condition: i32) {
        self.a.map(R1, map.descriptor()).at(R2, Fp, key.into());
        self.a.set(R4, condition).call(Call::Update);
    }

    pub(super) fn remove(&mut self, map: &Map, key: i16) {
        self.a.map(R1, map.descriptor()).at(R2, Fp, key.into()).call(Call::Delete);
    }

    /// `R7` becomes the current thread; jumps to `none` if it is not followed.
    pub(super) fn thread(&mut self, none: Label) {
        self.a.call(Call::CurrentThread).store32(Fp, ID, R0);
        self.lookup(&self.tables.threads, ID);
        self.a.jump(If::Equal, R0, 0, none).set(R7, R0);
    }

    /// Stores the ID of the thread whose task is this argument of the typed tracepoint.
    pub(super) fn id_of(&mut self, argument: usize) {
        self.a.load(R1, R6, w(argument)).load32(R1, R1, self.offsets.pid_here);
        self.a.store32(Fp, ID, R1);
    }

    /// Begins a program whose events are frequent: stores whether they are recorded.
    pub(super) fn begin(&mut self) {
        let none = self.out;
        self.a.store(Fp, NOW, 0);
        self.lookup(&self.tables.gate, ZERO);
        self.a.jump(If::Equal, R0, 0, none).load(R1, R0, w(gate::STATE)).store(Fp, STATE, R1);
    }

    /// `R7` becomes the thread at [`ID`]; jumps to `none` if it is not followed, or if its events
    /// are passed by between windows.
    pub(super) fn frequent(&mut self, none: Label) {
        let [look, found] = [(); 2].map(|()| self.a.label());
        self.a.load(R1, Fp, STATE).jump(If::NotEqual, R1, gate::BETWEEN as i32, look);
        self.bit_of_thread(look);
        self.a.load(R2, R0, 0).op(Op::And, R2, R1).jump(If::NotEqual, R2, 0, none).here(look);
        self.lookup(&self.tables.threads, ID);
        self.a.jump(If::NotEqual, R0, 0, found).load(R1, Fp, STATE);
        self.a.jump(If::NotEqual, R1, gate::BETWEEN as i32, none);
        self.passes(none);
        self.a.goto(none).here(found).set(R7, R0);
    }

    /// `R0` becomes the word with the bit of the thread at [`ID`], and `R1` the bit.
    fn bit_of_thread(&mut self, none: Label) {
        let a = &mut self.a;
        a.load32(R1, Fp, ID).op(Op::Right, R1, 6).op(Op::And, R1, PASSED as i32 - 1);
        a.store32(Fp, KEY, R1);
        self.lookup(&self.tables.passed, KEY);
        let a = &mut self.a;
        a.jump(If::Equal, R0, 0, none).load32(R2, Fp, ID).op(Op::And, R2, 63).set(R1, 1);
        a.op(Op::Left, R1, R2);
    }

    /// Passes by the events of the thread at [`ID`] between windows.
    pub(super) fn passes(&mut self, none: Label) {
        self.bit_of_thread(none);
        self.a.atomic(Op::Or, R0, 0, R1);
    }

    /// Records all events of the thread at [`ID`].
    pub(super) fn passes_no_more(&mut self, none: Label) {
        self.bit_of_thread(none);
        self.a.set(R2, -1).op(Op::Xor, R1, R2).atomic(Op::And, R0, 0, R1);
    }

    /// Stores the current time, which `R8` becomes, and the window of the thread in `R7`. Jumps to
    /// `closed` if its events are frequent and there is no window; without that label, weighted
    /// time and the end of a wait are those at the end of the last one.
    pub(super) fn times(&mut self, closed: Option<Label>) {
        let [known, done] = [(); 2].map(|()| self.a.label());
        self.a.load(R8, Fp, NOW).jump(If::NotEqual, R8, 0, known);
        self.a.call(Call::Now).set(R8, R0).store(Fp, NOW, R0).here(known).store(Fp, END, R8);
        self.a.load(R1, R7, w(thread::EPOCH)).store(Fp, EPOCH, R1).store(Fp, WEIGHT, 1);
        self.a.store(Fp, WEIGHTED, R8).store(Fp, BASE, R8).load(R1, R7, w(thread::FREQUENT));
        self.a.jump(If::Equal, R1, 0, done);
        self.window(closed);
        self.a.here(done);
    }

    /// As [`Self::times`] for frequent events, at the time in `R8`.
    pub(super) fn window(&mut self, closed: Option<Label>) {
        let none = self.out;
        let [within, begun] = [(); 2].map(|()| self.a.label());
        self.lookup(&self.tables.gate, ZERO);
        self.a.jump(If::Equal, R0, 0, none).load(R1, R0, w(gate::UNTIL)).set(R3, R8);
        match closed {
            Some(closed) => self.a.jump(If::Above, R8, R1, closed),
            None => self.a.jump(If::Above, R1, R8, within).set(R3, R1).store(Fp, END, R1),
        };
        // The window may have begun after the current time was read.
        self.a.here(within).load(R2, R0, w(gate::OPEN)).jump(If::Above, R3, R2, begun);
        self.a.set(R3, R2).here(begun).op(Op::Sub, R3, R2).load(R4, R0, w(gate::WEIGHT));
        self.a.op(Op::Mul, R3, R4).load(R5, R0, w(gate::BASE)).op(Op::Add, R3, R5);
        self.a.store(Fp, WEIGHTED, R3).store(Fp, WEIGHT, R4).store(Fp, BASE, R5);
        self.a.load(R1, R0, w(gate::EPOCH)).store(Fp, EPOCH, R1);
    }

    /// Adds `R2` to the cost of the events of this CPU.
    pub(super) fn spend(&mut self, what: usize) {
        let none = self.a.label();
        self.a.store(Fp, A, R2);
        self.lookup(&self.tables.load, ZERO);
        self.a.jump(If::Equal, R0, 0, none).load(R2, Fp, A);
        self.grow(R0, what, R2);
        self.a.here(none);
    }

    /// Adds the time on a CPU in `R2` to the thread.
    pub(super) fn ran(&mut self) {
        self.grow(R7, thread::CPU, R2);
        self.spend(load::CPU);
    }

    /// Counts a lost entry. Overwrites `R0` to `R5`.
    pub(super) fn lose(&mut self, what: usize) {
        let none = self.a.label();
        self.lookup(&self.tables.lost, ZERO);
        self.a.jump(If::Equal, R0, 0, none).set(R1, 1).add(R0, w(what), R1).here(none);
    }

    /// `R9` becomes the value of the key at [`KEY`], which is created if necessary; jumps to `none`
    /// if there is no room.
    pub(super) fn entry(&mut self, map: &Map, losses: usize, none: Label) {
        /// `BPF_NOEXIST`.
        const NEW: i32 = 1;
        let found = self.a.label();
        self.lookup(map, KEY);
        self.a.jump(If::NotEqual, R0, 0, found);
        self.lookup(&self.tables.zeros, ZERO);
        self.a.jump(If::Equal, R0, 0, none).set(R3, R0);
        // Another CPU may create it at the same time, and must not lose its count.
        self.put(map, KEY, NEW);
        self.lookup(map, KEY);
        self.a.jump(If::NotEqual, R0, 0, found);
        self.lose(losses);
        self.a.goto(none).here(found).set(R9, R0);
    }

    /// `R0` becomes the 32-bit number of the stack, of the program or the kernel.
    pub(super) fn stack(&mut self, of_program: bool, losses: usize) {
        /// Compare stacks by their checksums.
        const FAST: i32 = 1 << 9;
        const USER: i32 = 1 << 8;
        let (map, flags) = if of_program {
            (&self.tables.stacks, FAST | USER)
        } else {
            (&self.tables.kernel_stacks, FAST)
        };
        let (failed, done) = (self.a.label(), self.a.label());
        self.a.set(R1, R6).map(R2, map.descriptor()).set(R3, flags).call(Call::Stack);
        self.a.jump(If::Negative, R0, 0, failed).goto(done).here(failed);
        self.lose(losses);
        self.a.set(R0, -1).op(Op::Left, R0, 32).op(Op::Right, R0, 32).here(done);
    }

    /// Adds the time in `R8` to the distribution at these words of `R9`, as many times as the stack
    /// slot `weight` says.
    pub(super) fn time(&mut self, at: usize, buckets: Option<usize>, weight: i16) {
        let below = self.a.label();
        self.a.load(R1, Fp, weight).set(R2, R8).op(Op::Mul, R2, R1).add(
            R9,
            w(at + times::TOTAL),
            R2,
        );
        self.a.add(R9, w(at + times::COUNT), R1);
        self.a.load(R1, R9, w(at + times::MOST)).jump(If::Above, R1, R8, below);
        self.a.store(R9, w(at + times::MOST), R8).here(below);
        if let Some(first) = buckets {
            self.bucket(first, weight);
        }
    }

    /// Counts the time in `R8`, in nanoseconds, in its bucket as `layout::bucket` does.
    fn bucket(&mut self, first: usize, weight: i16) {
        let a = &mut self.a;
        a.set(R1, R8).set(R2, 0);
        for shift in [32, 16, 8, 4, 2, 1] {
            let zero = a.label();
            a.set(R3, R1).op(Op::Right, R3, shift).jump(If::Equal, R3, 0, zero);
            a.set(R1, R3).op(Op::Add, R2, shift).here(zero);
        }
        let (some, found) = (a.label(), a.label());
        a.jump(If::Above, R2, 3, some).set(R2, 0).goto(found).here(some);
        a.set(R4, R2).op(Op::Sub, R4, 1).set(R3, R8).op(Op::Right, R3, R4).op(Op::And, R3, 1);
        a.op(Op::Sub, R2, 4).op(Op::Left, R2, 1).op(Op::Add, R2, R3).here(found);
        let inside = a.label();
        a.set(R5, BUCKETS as i32 - 1).jump(If::Above, R5, R2, inside).set(R2, R5).here(inside);
        a.op(Op::And, R2, BUCKETS as i32 - 1).op(Op::Left, R2, 3).set(R3, R9).op(Op::Add, R3, R2);
        a.load(R1, Fp, weight).add(R3, w(first), R1);
    }

    /// Sets the bit of the thread at [`ID`] in four words of `R9`.
    pub(super) fn note_thread(&mut self, at: usize) {
        self.bit();
        self.a.load(R5, R4, w(at)).op(Op::Or, R5, R3).store(R4, w(at), R5);
    }

    /// `R0` becomes nonzero if the bit of the thread at [`ID`] is set in four words of `R9`.
    pub(super) fn has_thread(&mut self, at: usize) {
        self.bit();
        self.a.load(R0, R4, w(at)).op(Op::And, R0, R3);
    }

    /// Puts the bit of the thread into `R3`, and the address of its word, relative to `R9`, into
    /// `R4`.
    fn bit(&mut self) {
        let a = &mut self.a;
        a.load32(R1, Fp, ID).set(R2, R1).op(Op::And, R2, 63).set(R3, 1).op(Op::Left, R3, R2);
        a.op(Op::Right, R1, 6).op(Op::And, R1, 3).op(Op::Left, R1, 3).set(R4, R9);
        a.op(Op::Add, R4, R1);
    }

    /// `R1` becomes the growth of a word of the thread since another word was set to it.
    pub(super) fn since(&mut self, now: usize, then: usize) {
        self.a.load(R1, R7, w(now)).load(R2, R7, w(then)).op(Op::Sub, R1, R2);
    }

    /// Adds `by` to a word at `base` that only this CPU changes.
    pub(super) fn grow(&mut self, base: Reg, index: usize, by: Reg) {
        self.a.load(R5, base, w(index)).op(Op::Add, R5, by).store(base, w(index), R5);
    }
}
