//! The units of user-mode work: one name, one description, one function that does it.
//!
//! A job requests a number of units ([`run`]); the host executes them, the virtual target charges
//! the calibrated price of a unit. The calibration measures exactly the entries of [`UNITS`].

use crate::api::Kernel;

use crate::jobs::JobError;
use crate::work::{arithmetic, calls, compiled, library, memory, numeric};

/// How a unit is measured.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// The function does this many units and says whether the result was right.
    Body(fn(u64) -> bool),
    /// User-mode time of a program that the jobs execute; the virtual kernel charges it in `exec`.
    Program(ProgramWork),
}

/// The programs with user-mode time as a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramWork {
    /// `/bin/sh` on a script that does nothing.
    Shell,
    /// `ls -l` of the fixture's `bin` directory, output discarded.
    List,
}

/// One kind of user-mode work.
#[derive(Debug)]
pub struct Unit {
    /// Name in the calibration file.
    pub name: &'static str,
    /// Describes one unit.
    pub about: &'static str,
    /// How it is done.
    pub work: Work,
}

/// Does `count` units of `unit` on `k`.
///
/// # Errors
/// [`JobError::Wrong`] if the work ran here and its result was wrong; [`JobError::NotRunnable`] if
/// the unit is a program's time, which only `exec` charges.
pub fn run<K: Kernel>(k: &mut K, unit: &'static Unit, count: u64) -> Result<(), JobError> {
    let Work::Body(body) = unit.work else {
        return Err(JobError::NotRunnable { unit: unit.name });
    };
    let mut right = true;
    k.user(unit.name, count, || right = body(count));
    if right { Ok(()) } else { Err(JobError::Wrong { what: unit.name }) }
}

macro_rules! units {
    ($($constant:ident = $name:literal, $work:expr, $about:literal;)+) => {
        $(
            #[doc = $about]
            pub static $constant: Unit = Unit { name: $name, about: $about, work: $work };
        )+
        /// Every unit, in the order of the documentation.
        pub static UNITS: &[&Unit] = &[$(&$constant),+];
    };
}

units! {
    ADD_DOUBLE = "add_double_loop", Work::Body(arithmetic::add_double),
        "12 dependent f64 additions of 3.14159 and its opposite in turn.";
    ADD_FLOAT = "add_float_loop", Work::Body(arithmetic::add_float),
        "12 dependent f32 additions of 3.5 and its opposite in turn.";
    ADD_LONG = "add_long_loop", Work::Body(arithmetic::add_long),
        "12 dependent checked i64 additions of 3 and -3 in turn.";
    ADD_INT = "add_int_loop", Work::Body(arithmetic::add_int),
        "12 dependent checked i32 additions of 3 and -3 in turn.";
    ADD_SHORT = "add_short_loop", Work::Body(arithmetic::add_short),
        "12 dependent checked i16 additions of 3 and -3 in turn.";
    MUL_DOUBLE = "mul_double_loop", Work::Body(arithmetic::mul_double),
        "12 dependent f64 multiplications by pi and 1/pi in turn.";
    MUL_FLOAT = "mul_float_loop", Work::Body(arithmetic::mul_float),
        "12 dependent f32 multiplications by 4 and 0.25 in turn.";
    MUL_LONG = "mul_long_loop", Work::Body(arithmetic::mul_long),
        "12 dependent checked i64 multiplications by 1.";
    MUL_INT = "mul_int_loop", Work::Body(arithmetic::mul_int),
        "12 dependent checked i32 multiplications by 1.";
    MUL_SHORT = "mul_short_loop", Work::Body(arithmetic::mul_short),
        "12 dependent checked i16 multiplications by 1.";
    DIV_DOUBLE = "div_double_loop", Work::Body(arithmetic::div_double),
        "12 dependent f64 divisions by 4 and 0.25 in turn.";
    DIV_FLOAT = "div_float_loop", Work::Body(arithmetic::div_float),
        "12 dependent f32 divisions by 4 and 0.25 in turn.";
    DIV_LONG = "div_long_loop", Work::Body(arithmetic::div_long),
        "12 dependent i64 divisions of 1234 by 1.";
    DIV_INT = "div_int_loop", Work::Body(arithmetic::div_int),
        "12 dependent i32 divisions of 1234 by 1.";
    DIV_SHORT = "div_short_loop", Work::Body(arithmetic::div_short),
        "12 dependent i16 divisions of 1234 by 1.";
    COMPILED_ADD_DOUBLE = "compiled_add_double_loop", Work::Body(compiled::add_double),
        "12 f64 additions of three values in turn, each kept in memory.";
    COMPILED_ADD_FLOAT = "compiled_add_float_loop", Work::Body(compiled::add_float),
        "12 f32 additions of three values in turn, each kept in memory.";
    COMPILED_ADD_LONG = "compiled_add_long_loop", Work::Body(compiled::add_long),
        "7 i64 additions, five of a doubled operand, that are left of 12.";
    COMPILED_ADD_INT = "compiled_add_int_loop", Work::Body(compiled::add_int),
        "7 i32 additions, five of a doubled operand, that are left of 12.";
    COMPILED_ADD_SHORT = "compiled_add_short_loop", Work::Body(compiled::add_short),
        "7 i16 additions, five of a doubled operand, that are left of 12.";
    COMPILED_MUL_DOUBLE = "compiled_mul_double_loop", Work::Body(compiled::mul_double),
        "12 f64 multiplications of three values in turn, each kept in memory.";
    COMPILED_MUL_FLOAT = "compiled_mul_float_loop", Work::Body(compiled::mul_float),
        "12 f32 multiplications of three values in turn, each kept in memory.";
    COMPILED_MUL_LONG = "compiled_mul_long_loop", Work::Body(compiled::mul_long),
        "12 i64 multiplications of three values in turn.";
    COMPILED_MUL_INT = "compiled_mul_int_loop", Work::Body(compiled::mul_int),
        "12 i32 multiplications of three values in turn.";
    COMPILED_MUL_SHORT = "compiled_mul_short_loop", Work::Body(compiled::mul_short),
        "12 i16 multiplications of three values in turn.";
    COMPILED_DIV_DOUBLE = "compiled_div_double_loop", Work::Body(compiled::div_double),
        "12 f64 divisions of three values in turn, each kept in memory.";
    COMPILED_DIV_FLOAT = "compiled_div_float_loop", Work::Body(compiled::div_float),
        "12 f32 divisions of three values in turn, each kept in memory.";
    COMPILED_DIV_LONG = "compiled_div_long_loop", Work::Body(compiled::div_long),
        "12 i64 divisions of three values in turn.";
    COMPILED_DIV_INT = "compiled_div_int_loop", Work::Body(compiled::div_int),
        "12 i32 divisions of three values in turn.";
    COMPILED_DIV_SHORT = "compiled_div_short_loop", Work::Body(compiled::div_short),
        "12 i16 divisions of three values in turn.";
    SIEVE = "sieve_pass", Work::Body(numeric::sieve),
        "One sieve of Eratosthenes over 1,000,000 one-byte flags.";
    LINEAR_SYSTEMS = "linear_systems", Work::Body(numeric::linear_systems),
        "20 linear systems of order 5, 10, ... 100 solved by Gauss-Jordan, residuals checked.";
    MATRIX = "matrix_product", Work::Body(numeric::matrix_products),
        "One 4-vector times a 4x4 matrix.";
    NEWTON = "newton_solution", Work::Body(numeric::newton),
        "One root of 1000 sin x cos x by Newton's method to 1e-12.";
    LIBRARY_NUMBERS = "number_functions", Work::Body(numeric::library_numbers),
        "Twelve calls of the mathematical library and one random number.";
    TRIGONOMETRY = "trigonometric_functions", Work::Body(numeric::trigonometry),
        "Ten trigonometric and hyperbolic functions.";
    SERIES = "sine_series", Work::Body(numeric::sine_series),
        "One Taylor sum of the sine until it stops changing.";
    STRINGS = "string_functions", Work::Body(library::strings),
        "Formatting, parsing, classification of 1 KB, concatenation to 1 KB, date, comparison.";
    SORT = "sort_pass", Work::Body(library::sorts),
        "10,000 integers sorted ascending, descending, ascending; 2,000 binary searches.";
    ALLOCATOR = "allocator_round", Work::Body(memory::allocator_rounds),
        "300 allocations of 1 B to 8 KB, touched, freed in reverse.";
    BLOCKS = "block_operations", Work::Body(memory::block_operations),
        "Two fills, search, compare, copy and move of one block of 1 B to 8 KB.";
    COPIES = "copy_pass", Work::Body(memory::copies),
        "100 copies of 1 B to 64 KB at alignments 0 to 7.";
    COPIES_OF_1996 = "copy_pass_1996", Work::Body(memory::copies_of_1996),
        "The first 64 of these copies.";
    JUMPS = "non_local_jump", Work::Body(memory::jumps),
        "Save 8 words, recurse 10 frames deep, leave them all, restore.";
    CALLS_0 = "calls_without_arguments", Work::Body(calls::without_arguments),
        "512 calls through a pointer without arguments.";
    CALLS_1 = "calls_with_1_argument", Work::Body(calls::with_one),
        "512 calls through a pointer with one argument.";
    CALLS_2 = "calls_with_2_arguments", Work::Body(calls::with_two),
        "512 calls through a pointer with two arguments.";
    CALLS_15 = "calls_with_15_arguments", Work::Body(calls::with_fifteen),
        "512 calls through a pointer with fifteen arguments.";
    DIRECTORY_ENTRY = "directory_entry", Work::Body(library::directory_entries),
        "One entry taken from the library's directory buffer.";
    NAME_LIST = "name_list", Work::Body(library::name_lists),
        "A list of 100 names in 10.7 KB parsed and shuffled five times.";
    RANDOM_OFFSET = "random_offset", Work::Body(library::random_offsets),
        "One random block offset of 30 bits.";
    SHELL = "shell_start", Work::Program(ProgramWork::Shell),
        "User-mode time of /bin/sh on a script that does nothing, loading included.";
    LIST = "list_program", Work::Program(ProgramWork::List),
        "User-mode time of `ls -l` of 100 names to /dev/null, loading included.";
}

/// The unit called `name`.
pub fn find(name: &str) -> Option<&'static Unit> {
    UNITS.iter().copied().find(|unit| unit.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_described() {
        let mut names: Vec<&str> = UNITS.iter().map(|unit| unit.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), UNITS.len());
        for unit in UNITS {
            assert!(unit.about.ends_with('.'), "{} needs a sentence", unit.name);
            assert_eq!(find(unit.name).map(|found| found.name), Some(unit.name));
        }
        assert!(find("no_such_unit").is_none());
    }

    #[test]
    fn every_unit_checks_its_result() {
        for unit in UNITS {
            let Work::Body(body) = unit.work else { continue };
            let count = match unit.name {
                "sieve_pass" | "linear_systems" | "sort_pass" => 1,
                name if name.ends_with("_loop") => 20_000,
                _ => 200,
            };
            assert!(body(1) && body(count), "{}", unit.name);
        }
    }
}
