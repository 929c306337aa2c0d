//! The jobs that are user-mode work: a number of units each, with almost no system calls.

use crate::api::Kernel;

use super::{JobEnv, JobError, call};
use crate::dialect::Dialect;
use crate::units;

macro_rules! user_jobs {
    ($($name:ident = $unit:ident * $count:literal;)+) => {$(
        pub(super) fn $name<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
            units::run(k, &units::$unit, env.loops($count))
        }
    )+};
}

user_jobs! {
    array_rtns = LINEAR_SYSTEMS * 1;
    fun_cal = CALLS_0 * 1000;
    fun_cal1 = CALLS_1 * 1000;
    fun_cal15 = CALLS_15 * 1000;
    fun_cal2 = CALLS_2 * 1000;
    jmp_test = JUMPS * 1000;
    matrix_rtns = MATRIX * 100;
    mem_rtns_1 = ALLOCATOR * 100;
    mem_rtns_2 = BLOCKS * 100;
    new_raph = NEWTON * 200;
    num_rtns_1 = LIBRARY_NUMBERS * 100;
    series_1 = SERIES * 100;
    sieve = SIEVE * 5;
    sort_rtns_1 = SORT * 2;
    trig_rtns = TRIGONOMETRY * 10_000;
}

/// Twelve dependent operations per loop, or the result of compiling re-aim's twelve.
macro_rules! arithmetic_jobs {
    ($($name:ident = $unit:ident or $compiled:ident, $loops:literal;)+) => {$(
        pub(super) fn $name<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
            let unit = match env.dialect {
                Dialect::Original => &units::$unit,
                Dialect::Reaim => &units::$compiled,
            };
            units::run(k, unit, env.loops($loops))
        }
    )+};
}

arithmetic_jobs! {
    add_double = ADD_DOUBLE or COMPILED_ADD_DOUBLE, 1_500_000;
    add_float = ADD_FLOAT or COMPILED_ADD_FLOAT, 1_000_000;
    add_int = ADD_INT or COMPILED_ADD_INT, 5_000_000;
    add_long = ADD_LONG or COMPILED_ADD_LONG, 5_000_000;
    add_short = ADD_SHORT or COMPILED_ADD_SHORT, 2_000_000;
    div_double = DIV_DOUBLE or COMPILED_DIV_DOUBLE, 250_000;
    div_float = DIV_FLOAT or COMPILED_DIV_FLOAT, 250_000;
    div_int = DIV_INT or COMPILED_DIV_INT, 75_000;
    div_long = DIV_LONG or COMPILED_DIV_LONG, 75_000;
    div_short = DIV_SHORT or COMPILED_DIV_SHORT, 75_000;
    mul_double = MUL_DOUBLE or COMPILED_MUL_DOUBLE, 1_000_000;
    mul_float = MUL_FLOAT or COMPILED_MUL_FLOAT, 1_000_000;
    mul_int = MUL_INT or COMPILED_MUL_INT, 20_000;
    mul_long = MUL_LONG or COMPILED_MUL_LONG, 20_000;
    mul_short = MUL_SHORT or COMPILED_MUL_SHORT, 25_000;
}

pub(super) fn ram_copy<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let unit = if env.dialect == Dialect::Reaim { &units::COPIES } else { &units::COPIES_OF_1996 };
    units::run(k, unit, 1)
}

/// The date of each round is formatted by `ctime`, which checks the time zone file.
pub(super) fn string_rtns<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let zone = env.zone();
    for _ in 0..env.loops(100) {
        units::run(k, &units::STRINGS, 1)?;
        call("stat", k.stat(&zone))?;
    }
    Ok(())
}
