//! The jobs that are user-mode work: a number of units each, and hardly a system call.

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
    add_double = ADD_DOUBLE * 1_500_000;
    add_float = ADD_FLOAT * 1_000_000;
    add_short = ADD_SHORT * 2_000_000;
    array_rtns = LINEAR_SYSTEMS * 1;
    div_double = DIV_DOUBLE * 250_000;
    div_float = DIV_FLOAT * 250_000;
    div_int = DIV_INT * 75_000;
    div_long = DIV_LONG * 75_000;
    div_short = DIV_SHORT * 75_000;
    fun_cal = CALLS_0 * 1000;
    fun_cal1 = CALLS_1 * 1000;
    fun_cal15 = CALLS_15 * 1000;
    fun_cal2 = CALLS_2 * 1000;
    jmp_test = JUMPS * 1000;
    matrix_rtns = MATRIX * 100;
    mem_rtns_1 = ALLOCATOR * 100;
    mem_rtns_2 = BLOCKS * 100;
    mul_double = MUL_DOUBLE * 1_000_000;
    mul_float = MUL_FLOAT * 1_000_000;
    mul_int = MUL_INT * 20_000;
    mul_long = MUL_LONG * 20_000;
    mul_short = MUL_SHORT * 25_000;
    new_raph = NEWTON * 200;
    num_rtns_1 = LIBRARY_NUMBERS * 100;
    series_1 = SERIES * 100;
    sieve = SIEVE * 5;
    sort_rtns_1 = SORT * 2;
    trig_rtns = TRIGONOMETRY * 10_000;
}

/// A compiled re-aim executes half of the twelve additions of a loop: the compiler folds a pair
/// into one instruction with three operands.
fn integer_additions<K: Kernel>(
    k: &mut K,
    env: &JobEnv,
    all: &'static units::Unit,
    folded: &'static units::Unit,
) -> Result<(), JobError> {
    let unit = if env.dialect == Dialect::Reaim { folded } else { all };
    units::run(k, unit, env.loops(5_000_000))
}

pub(super) fn add_int<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    integer_additions(k, env, &units::ADD_INT, &units::ADD_INT_FOLDED)
}

pub(super) fn add_long<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    integer_additions(k, env, &units::ADD_LONG, &units::ADD_LONG_FOLDED)
}

pub(super) fn ram_copy<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let unit = if env.dialect == Dialect::Reaim { &units::COPIES } else { &units::COPIES_OF_1996 };
    units::run(k, unit, 1)
}

/// The date of each round is formatted by `ctime`, which looks at the time zone's file.
pub(super) fn string_rtns<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let zone = env.path("localtime");
    for _ in 0..env.loops(100) {
        units::run(k, &units::STRINGS, 1)?;
        call("stat", k.stat(&zone))?;
    }
    Ok(())
}
