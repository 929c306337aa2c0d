//! Runs before `main`: the object finds libc's functions, installs its locks, and begins to record.

use core::ffi::{c_char, c_int};

use crate::around::{Environment, is_filtered, value};
use crate::{alone, budget, carry, guard, install, paths, process, real, unit};

/// Environment variable that is set if only contended acquisitions are recorded.
const CONTENDED: &[u8] = b"CONVOY_RECORD_CONTENDED=";
/// Environment variable of a process that tests whether recording is permitted.
const PROBE: &[u8] = b"CONVOY_RECORD_PROBE=";

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;

extern "C" fn loaded(_: c_int, _: *const *const c_char, environment: Environment) {
    real::find_all();
    guard::find();
    alone::find();
    install::install(|name| value(environment, name.to_bytes()));
    let (is_recorded, is_filtered) = (paths::learn(environment), is_filtered(environment));
    let [only_contended, probes] =
        [CONTENDED, PROBE].map(|name| value(environment, name).is_some());
    unit::name_this_process(environment);
    // Last: it removes variables from the environment.
    carry::learn(environment, !is_filtered);
    if is_recorded {
        budget::find();
    }
    if !is_recorded || is_filtered || guard::counter_is_forbidden() {
        budget::lost(budget::FILTERED);
        crate::lead();
        return process::off();
    }
    process::start(only_contended);
    if probes {
        process::probe();
    }
}
