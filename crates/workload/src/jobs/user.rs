//! The jobs without system calls: a number of units each.

use crate::api::Kernel;

use super::{JobEnv, JobError};
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
    add_int = ADD_INT * 5_000_000;
    add_long = ADD_LONG * 5_000_000;
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
    ram_copy = COPIES * 1;
    series_1 = SERIES * 100;
    sieve = SIEVE * 5;
    sort_rtns_1 = SORT * 2;
    string_rtns = STRINGS * 100;
    trig_rtns = TRIGONOMETRY * 10_000;
}
