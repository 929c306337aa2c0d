//! The arithmetic jobs: twelve dependent operations per loop, none of which may be folded away.
//!
//! The two operands are hidden from the compiler once, before the loop, so it cannot know that they
//! undo each other. Floating-point chains are then pinned by the language: addition is not
//! associative. Integer chains are pinned by the overflow check of every single operation (an
//! intermediate overflow would be visible, so the operations may be neither fused nor reordered;
//! the peers' twelve additions became five `lea` and one `add`) and by hiding the value once a loop
//! (else the compiler carries a shortened chain from loop to loop). A check is a branch that is
//! never taken, hiding is one store and one load; neither is counted. The arithmetic operations of
//! a loop are twelve.

use core::convert::identity;
use core::hint::black_box;

/// Dependent operations per loop of every arithmetic unit.
#[cfg(test)]
const OPERATIONS_PER_LOOP: u64 = 12;

/// The increment of `add_double`.
#[expect(clippy::approx_constant, reason = "AIM7 adds these six digits, not pi")]
const PI_OF_1996: f64 = 3.141_59;

#[cold]
#[inline(never)]
fn overflow() -> ! {
    panic!("an arithmetic job left the range of its type");
}

/// Applies `$step(value, operand)` twelve times per loop with the two operands in turn.
macro_rules! chain {
    ($loops:expr, $start:expr, $first:expr, $second:expr, $keep:path, $step:expr) => {{
        let step = $step;
        let first = black_box($first);
        let second = black_box($second);
        let mut value = black_box($start);
        for _ in 0..$loops {
            value = $keep(value);
            value = step(value, first);
            value = step(value, second);
            value = step(value, first);
            value = step(value, second);
            value = step(value, first);
            value = step(value, second);
            value = step(value, first);
            value = step(value, second);
            value = step(value, first);
            value = step(value, second);
            value = step(value, first);
            value = step(value, second);
        }
        black_box(value)
    }};
}

macro_rules! integer_jobs {
    ($(
        $name:ident, $type:ty, $operation:ident, $start:literal, $first:literal, $second:literal;
    )+) => {$(
        pub(crate) fn $name(loops: u64) -> bool {
            let step = |value: $type, operand: $type| match value.$operation(operand) {
                Some(result) => result,
                None => overflow(),
            };
            chain!(loops, $start, $first, $second, black_box, step) == $start
        }
    )+};
}

integer_jobs! {
    add_long, i64, checked_add, 0, 3, -3;
    add_int, i32, checked_add, 0, 3, -3;
    add_short, i16, checked_add, 0, 3, -3;
    mul_long, i64, checked_mul, 1234, 1, 1;
    mul_int, i32, checked_mul, 1234, 1, 1;
    mul_short, i16, checked_mul, 1234, 1, 1;
    div_long, i64, checked_div, 1234, 1, 1;
    div_int, i32, checked_div, 1234, 1, 1;
    div_short, i16, checked_div, 1234, 1, 1;
}

/// Whether a floating-point chain ended where it started, but for the rounding of its last digits.
fn returned(end: f64, start: f64, tolerance: f64) -> bool {
    (end - start).abs() <= tolerance
}

pub(crate) fn add_double(loops: u64) -> bool {
    let end = chain!(loops, 0.0_f64, PI_OF_1996, -PI_OF_1996, identity, |a: f64, b: f64| a + b);
    returned(end, 0.0, 1e-9)
}

pub(crate) fn add_float(loops: u64) -> bool {
    let end = chain!(loops, 0.0_f32, 3.5, -3.5, identity, |a: f32, b: f32| a + b);
    returned(f64::from(end), 0.0, 1e-6)
}

pub(crate) fn mul_double(loops: u64) -> bool {
    let pi = core::f64::consts::PI;
    // The product of the rounded pi and 1/pi may differ from one in the last place; six times a
    // loop, a million loops long, that is at most 1e-9.
    let end = chain!(loops, 1.0_f64, pi, 1.0 / pi, identity, |a: f64, b: f64| a * b);
    returned(end, 1.0, 1e-8)
}

pub(crate) fn mul_float(loops: u64) -> bool {
    let end = chain!(loops, 1.0_f32, 4.0, 0.25, identity, |a: f32, b: f32| a * b);
    returned(f64::from(end), 1.0, 1e-6)
}

pub(crate) fn div_double(loops: u64) -> bool {
    let end = chain!(loops, 1234.0_f64, 4.0, 0.25, identity, |a: f64, b: f64| a / b);
    returned(end, 1234.0, 1e-9)
}

pub(crate) fn div_float(loops: u64) -> bool {
    let end = chain!(loops, 1234.0_f32, 4.0, 0.25, identity, |a: f32, b: f32| a / b);
    returned(f64::from(end), 1234.0, 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_does_not_return_is_reported() {
        let end = chain!(3_u64, 0_i32, 3, -2, identity, |a: i32, b: i32| a + b);
        assert_eq!(u64::try_from(end), Ok(OPERATIONS_PER_LOOP / 2 * 3));
    }
}
