//! The arithmetic jobs as a compiled re-aim executes them.
//!
//! Its loops have three values that change in turn, so that not all twelve operations depend on
//! each other, and a compiler folds some of them. The remaining operations are taken from the
//! instructions that gcc 12 emits for such loops with re-aim's own flags, `-O -ffloat-store`; `-O2`
//! and `-O3` with that flag emit the same. Seven integer additions of twelve: adding a value twice
//! is one instruction with a scaled operand. Twelve multiplications, eight of them one after the
//! other; twelve divisions, six and six. Floating-point values live in memory (`-ffloat-store`):
//! each operation loads and stores.
//!
//! The compiler of this crate may order them otherwise; measured side by side on one machine the
//! loops here take from 0.98 to 1.16 times the nanoseconds of gcc's.

use core::hint::black_box;

/// Three values in turn for a number of loops; the compiler must not know the values.
macro_rules! turns {
    ($($name:ident, $type:ty, $start:expr, $first:expr, $second:expr,
       |$a:ident, $b:ident, $c:ident| $body:block;)+) => {$(
        pub(crate) fn $name(loops: u64) -> bool {
            let mut $a: $type = black_box($start);
            let mut $b: $type = black_box($first);
            let mut $c: $type = black_box($second);
            for _ in 0..loops {
                $body
            }
            // Each loop ends with the values that it began with.
            let near = |end: $type, start: $type| (end as f64 - start as f64).abs() < 1e-3;
            near(black_box($a), $start) && near(black_box($b), $first) && near($c, $second)
        }
    )+};
}

/// `value = value op operand` where the result is kept in memory.
macro_rules! stored {
    ($($value:ident $operation:tt $operand:ident,)+) => {$(
        $value = black_box($value $operation $operand);
    )+};
}

/// Two operands times two are one instruction.
macro_rules! additions {
    ($a:ident, $b:ident, $c:ident) => {{
        $a = $a.wrapping_add($b);
        $b = $b.wrapping_add($c << 1);
        $c = $c.wrapping_add($a << 1);
        $a = $a.wrapping_add($b << 1);
        $b = $b.wrapping_add($c << 1);
        $c = $c.wrapping_add($a << 1);
        $a = $a.wrapping_add($b);
    }};
}

macro_rules! multiplications {
    ($a:ident, $b:ident, $c:ident) => {{
        $a = $a.wrapping_mul($b);
        $b = $b.wrapping_mul($c).wrapping_mul($c);
        $c = $c.wrapping_mul($b).wrapping_mul($b);
        $a = $a.wrapping_mul($c).wrapping_mul($b);
        $b = $b.wrapping_mul($c).wrapping_mul($c);
        $c = $c.wrapping_mul($b).wrapping_mul($b);
        $a = $a.wrapping_mul($c);
    }};
}

macro_rules! divisions {
    ($a:ident, $b:ident, $c:ident) => {{
        for _ in 0..3 {
            $a = $a / $b / $c;
            $b /= $c;
            $c /= $b;
        }
    }};
}

/// As C divides short values: in the registers of longer ones.
macro_rules! short_divisions {
    ($a:ident, $b:ident, $c:ident) => {{
        for _ in 0..3 {
            $a = (($a / $b) as i16 as i32 / $c) as i16 as i32;
            $b = ($b / $c) as i16 as i32;
            $c = ($c / $b) as i16 as i32;
        }
    }};
}

macro_rules! stored_additions {
    ($a:ident, $b:ident, $c:ident) => {{
        stored!($a + $b, $b + $c, $b + $c, $c + $a, $c + $a, $a + $b,);
        stored!($a + $b, $b + $c, $b + $c, $c + $a, $c + $a, $a + $b,);
    }};
}

macro_rules! stored_multiplications {
    ($a:ident, $b:ident, $c:ident) => {{
        stored!($a * $b, $b * $c, $b * $c, $c * $a, $c * $a, $a * $b,);
        stored!($a * $b, $b * $c, $b * $c, $c * $a, $c * $a, $a * $b,);
    }};
}

macro_rules! stored_divisions {
    ($a:ident, $b:ident, $c:ident) => {{
        stored!($a / $b, $c / $a, $b / $c, $c / $b, $a / $c, $c / $a,);
        stored!($a / $b, $c / $a, $b / $c, $c / $b, $a / $c, $c / $a,);
    }};
}

turns! {
    add_long, i64, 0, 3, -3, |a, b, c| { additions!(a, b, c) };
    add_int, i32, 0, 3, -3, |a, b, c| { additions!(a, b, c) };
    add_short, i16, 0, 3, -3, |a, b, c| { additions!(a, b, c) };
    mul_long, i64, 1234, 1, 1, |a, b, c| { multiplications!(a, b, c) };
    mul_int, i32, 1234, 1, 1, |a, b, c| { multiplications!(a, b, c) };
    mul_short, i16, 1234, 1, 1, |a, b, c| { multiplications!(a, b, c) };
    div_long, i64, 1234, 1, 1, |a, b, c| { divisions!(a, b, c) };
    div_int, i32, 1234, 1, 1, |a, b, c| { divisions!(a, b, c) };
    div_short, i32, 1234, 1, 1, |a, b, c| { short_divisions!(a, b, c) };
    add_double, f64, 0.0, 3.5, -3.5, |a, b, c| { stored_additions!(a, b, c) };
    add_float, f32, 0.0, 3.5, -3.5, |a, b, c| { stored_additions!(a, b, c) };
    mul_double, f64, 1.0, 4.0, 0.25, |a, b, c| { stored_multiplications!(a, b, c) };
    mul_float, f32, 1.0, 4.0, 0.25, |a, b, c| { stored_multiplications!(a, b, c) };
    div_double, f64, 1.0, 4.0, 0.25, |a, b, c| { stored_divisions!(a, b, c) };
    div_float, f32, 1.0, 4.0, 0.25, |a, b, c| { stored_divisions!(a, b, c) };
}
