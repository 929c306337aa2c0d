//! Instructions of BPF programs, assembled here, so that no BPF compiler is needed at build time.
//! Each has eight bytes: operation, registers, offset, constant.

/// A register. A call takes its arguments in `R1` to `R5` and returns its result in `R0`. Calls
/// preserve `R6` to `R9`. `Fp` is the end of the stack of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    Fp,
}

/// Arithmetic operations on 64 bits.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Op {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    Left = 0x60,
    Right = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
}

/// Condition of a jump; comparisons are 64-bit.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum If {
    Equal = 0x10,
    /// Unsigned.
    Above = 0x20,
    NotEqual = 0x50,
    Negative = 0xc0,
}

/// Helper functions of the kernel.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Call {
    Lookup = 1,
    Update = 2,
    Delete = 3,
    Now = 5,
    CurrentThread = 14,
    Stack = 27,
    ReadUser = 112,
    ReadKernel = 113,
    CurrentTask = 158,
    Registers = 175,
}

/// The target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Kind of an operand.
#[derive(Clone, Copy)]
pub(crate) enum By {
    Reg(Reg),
    Is(i32),
}

impl From<Reg> for By {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for By {
    fn from(number: i32) -> Self {
        Self::Is(number)
    }
}

const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const STORE_CONSTANT: u8 = 0x7a;
const WIDE: u8 = 0x18;
const ATOMIC: u8 = 0xdb;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const GOTO: u8 = 0x05;
const ARITHMETIC: u8 = 0x07;
const JUMP: u8 = 0x05;
/// Bit of an operation with a register operand.
const BY_REGISTER: u8 = 0x08;
/// Source of a wide constant that is the descriptor of a map.
const MAP: u8 = 1;
/// Flag of an atomic operation that returns the previous value.
const FETCH: i32 = 1;

/// A program that is being written.
#[derive(Default)]
pub(crate) struct Asm {
    code: Vec<[u8; 8]>,
    /// Positions of the labels.
    labels: Vec<Option<usize>>,
    /// Jumps that need the position of a label.
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    fn put(&mut self, operation: u8, to: Reg, from: u8, offset: i16, constant: i32) -> &mut Self {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = constant.to_le_bytes();
        self.code.push([operation, to as u8 | from << 4, low, high, a, b, c, d]);
        self
    }

    /// `to = to op by`.
    pub(crate) fn op(&mut self, op: Op, to: Reg, by: impl Into<By>) -> &mut Self {
        match by.into() {
            By::Reg(from) => self.put(ARITHMETIC | BY_REGISTER | op as u8, to, from as u8, 0, 0),
            By::Is(number) => self.put(ARITHMETIC | op as u8, to, 0, 0, number),
        }
    }

    /// `to = by`.
    pub(crate) fn set(&mut self, to: Reg, by: impl Into<By>) -> &mut Self {
        self.op(Op::Move, to, by)
    }

    /// `to = base + offset`.
    pub(crate) fn at(&mut self, to: Reg, base: Reg, offset: i32) -> &mut Self {
        self.set(to, base).op(Op::Add, to, offset)
    }

    /// `to = map`.
    pub(crate) fn map(&mut self, to: Reg, descriptor: i32) -> &mut Self {
        self.put(WIDE, to, MAP, 0, descriptor).put(0, Reg::R0, 0, 0, 0)
    }

    /// `to = *(base + offset)`, 64 bits.
    pub(crate) fn load(&mut self, to: Reg, base: Reg, offset: i16) -> &mut Self {
        self.put(LOAD | 0x18, to, base as u8, offset, 0)
    }

    /// Like `load`, with 32 bits.
    pub(crate) fn load32(&mut self, to: Reg, base: Reg, offset: i16) -> &mut Self {
        self.put(LOAD, to, base as u8, offset, 0)
    }

    /// `*(base + offset) = from`, 64 bits.
    pub(crate) fn store(&mut self, base: Reg, offset: i16, from: impl Into<By>) -> &mut Self {
        match from.into() {
            By::Reg(from) => self.put(STORE | 0x18, base, from as u8, offset, 0),
            By::Is(number) => self.put(STORE_CONSTANT, base, 0, offset, number),
        }
    }

    /// Like `store`, with the lower 32 bits of a register.
    pub(crate) fn store32(&mut self, base: Reg, offset: i16, from: Reg) -> &mut Self {
        self.put(STORE, base, from as u8, offset, 0)
    }

    /// `*(base + offset) += from`, atomically.
    pub(crate) fn add(&mut self, base: Reg, offset: i16, from: Reg) -> &mut Self {
        self.put(ATOMIC, base, from as u8, offset, 0)
    }

    /// `*(base + offset) = *(base + offset) op from`, atomically, for an operation on bits.
    pub(crate) fn atomic(&mut self, op: Op, base: Reg, offset: i16, from: Reg) -> &mut Self {
        self.put(ATOMIC, base, from as u8, offset, op as i32)
    }

    /// Like `add`; `from` receives the previous value.
    pub(crate) fn fetch_add(&mut self, base: Reg, offset: i16, from: Reg) -> &mut Self {
        self.put(ATOMIC, base, from as u8, offset, FETCH)
    }

    /// `R0 = call(R1, …)`.
    pub(crate) fn call(&mut self, call: Call) -> &mut Self {
        self.put(CALL, Reg::R0, 0, 0, call as i32)
    }

    /// Returns a label that is placed later.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    pub(crate) fn here(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.len());
        self
    }

    /// `if reg … by goto label`.
    pub(crate) fn jump(
        &mut self,
        when: If,
        reg: Reg,
        by: impl Into<By>,
        label: Label,
    ) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        match by.into() {
            By::Reg(from) => self.put(JUMP | BY_REGISTER | when as u8, reg, from as u8, 0, 0),
            By::Is(number) => self.put(JUMP | when as u8, reg, 0, 0, number),
        }
    }

    /// `goto label`.
    pub(crate) fn goto(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.put(GOTO, Reg::R0, 0, 0, 0)
    }

    /// Ends the program with the result 0.
    pub(crate) fn exit(&mut self) -> &mut Self {
        self.set(Reg::R0, 0).put(EXIT, Reg::R0, 0, 0, 0)
    }

    /// Returns the bytes of the program.
    ///
    /// # Panics
    /// Panics if a label was not placed, or if a jump is too long.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("a label is placed");
            let distance = i16::try_from(to as i64 - from as i64 - 1).expect("programs are short");
            self.code[from][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::Reg::{Fp, R0, R1, R2, R6, R7, R8};
    use super::*;

    type Case = (&'static str, fn(&mut Asm), &'static str);

    /// Instructions in the syntax of LLVM's assembler, and their bytes: for fourteen of these forms
    /// from `llvm-mc`, for the others written by hand.
    const CASES: [Case; 21] = [
        ("r6 = r1", |a| _ = a.set(R6, R1), "bf16000000000000"),
        ("r0 = 7", |a| _ = a.set(R0, 7), "b700000007000000"),
        ("r2 = r10; r2 += -4", |a| _ = a.at(R2, Fp, -4), "bfa200000000000007020000fcffffff"),
        ("r1 &= r2", |a| _ = a.op(Op::And, R1, R2), "5f21000000000000"),
        ("r8 *= r1", |a| _ = a.op(Op::Mul, R8, R1), "2f18000000000000"),
        ("r1 >>= 32", |a| _ = a.op(Op::Right, R1, 32), "7701000020000000"),
        ("r1 <<= r2", |a| _ = a.op(Op::Left, R1, R2), "6f21000000000000"),
        ("r1 = *(u64 *)(r6 + 8)", |a| _ = a.load(R1, R6, 8), "7961080000000000"),
        ("r1 = *(u32 *)(r10 - 8)", |a| _ = a.load32(R1, Fp, -8), "61a1f8ff00000000"),
        ("*(u64 *)(r7 + 16) = r1", |a| _ = a.store(R7, 16, R1), "7b17100000000000"),
        ("*(u64 *)(r7 + 16) = 1", |a| _ = a.store(R7, 16, 1), "7a07100001000000"),
        ("*(u32 *)(r10 - 4) = r0", |a| _ = a.store32(Fp, -4, R0), "630afcff00000000"),
        ("lock *(u64 *)(r7 + 8) += r1", |a| _ = a.add(R7, 8, R1), "db17080000000000"),
        ("lock *(u64 *)(r7 + 8) |= r1", |a| _ = a.atomic(Op::Or, R7, 8, R1), "db17080040000000"),
        ("r1 = atomic_fetch_add(r7 + 8, r1)", |a| _ = a.fetch_add(R7, 8, R1), "db17080001000000"),
        ("r1 = map 5 ll", |a| _ = a.map(R1, 5), "18110000050000000000000000000000"),
        ("call 14", |a| _ = a.call(Call::CurrentThread), "850000000e000000"),
        ("r0 = 0; exit", |a| _ = a.exit(), "b7000000000000009500000000000000"),
        ("if r0 s< 0 goto +0", |a| jump(a, If::Negative, 0), "c500000000000000"),
        ("if r0 > r1 goto +0", |a| jump(a, If::Above, R1), "2d10000000000000"),
        ("if r0 != 3 goto +0", |a| jump(a, If::NotEqual, 3), "5500000003000000"),
    ];

    fn jump(a: &mut Asm, when: If, by: impl Into<By>) {
        let next = a.label();
        a.jump(when, R0, by, next).here(next);
    }

    fn hex(asm: Asm) -> String {
        let bytes = asm.finish();
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
    }

    #[test]
    fn instructions_have_the_bytes_that_other_assemblers_give_them() {
        for (text, write, bytes) in CASES {
            let mut asm = Asm::default();
            write(&mut asm);
            assert_eq!(hex(asm), bytes, "{text}");
        }
    }

    #[test]
    fn jumps_go_forward_and_back() {
        let mut asm = Asm::default();
        let (begin, end) = (asm.label(), asm.label());
        asm.here(begin).jump(If::Equal, R0, 0, end).set(R0, 1).here(end).goto(begin);
        assert_eq!(hex(asm), ["1500010000000000", "b700000001000000", "0500fdff00000000"].concat());
    }
}
