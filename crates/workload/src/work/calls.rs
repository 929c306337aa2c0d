//! The function-call jobs: calls through pointers, with zero, one, two and fifteen arguments.
//!
//! The pointer is hidden from the compiler before every call, so no call is inlined, merged with
//! another or left out.

use core::hint::black_box;

/// Calls of one unit; AIM9's 1000 loops make 512,000 calls.
pub(crate) const CALLS: u64 = 512;

fn none() -> u64 {
    1
}

fn one(a: u64) -> u64 {
    a
}

fn two(a: u64, b: u64) -> u64 {
    a + b
}

type Fifteen = fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

#[expect(
    clippy::many_single_char_names,
    clippy::too_many_arguments,
    reason = "the arguments are the work"
)]
#[rustfmt::skip]
fn fifteen(
    a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64,
    i: u64, j: u64, k: u64, l: u64, m: u64, n: u64, o: u64,
) -> u64 {
    a + b + c + d + e + f + g + h + i + j + k + l + m + n + o
}

/// `count` × 512 calls without arguments.
pub(crate) fn without_arguments(count: u64) -> bool {
    let sum: u64 = (0..count * CALLS).map(|_| black_box(none as fn() -> u64)()).sum();
    sum == count * CALLS
}

/// `count` × 512 calls with one argument.
pub(crate) fn with_one(count: u64) -> bool {
    let sum: u64 = (0..count * CALLS).map(|n| black_box(one as fn(u64) -> u64)(n & 1)).sum();
    sum == count * CALLS / 2
}

/// `count` × 512 calls with two arguments.
pub(crate) fn with_two(count: u64) -> bool {
    let sum: u64 =
        (0..count * CALLS).map(|n| black_box(two as fn(u64, u64) -> u64)(n & 1, 1)).sum();
    sum == count * CALLS * 3 / 2
}

/// `count` × 512 calls with fifteen arguments.
pub(crate) fn with_fifteen(count: u64) -> bool {
    fn call(n: u64) -> u64 {
        let function = black_box(fifteen as Fifteen);
        function(n & 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    }
    let sum: u64 = (0..count * CALLS).map(call).sum();
    sum == count * CALLS * 29 / 2
}
