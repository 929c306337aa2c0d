//! Runs before `main`: the object finds libc's functions, installs its locks, and begins to record.

use core::ffi::{c_char, c_int};

use crate::file::{budget, paths, process};
use crate::interpose::{exports, libc, sandbox, single_thread};
use crate::policy::install;
use crate::start::environment::{Environment, is_filtered, value};
use crate::start::{service, variables};

/// Environment variable that is set if only contended acquisitions are recorded.
const CONTENDED: &[u8] = b"CONVOY_RECORD_CONTENDED=";
/// Environment variable of a process that tests whether recording is permitted.
const PROBE: &[u8] = b"CONVOY_RECORD_PROBE=";

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;

extern "C" fn loaded(_: c_int, _: *const *const c_char, environment: Environment) {
    libc::find_all();
    sandbox::find();
    single_thread::find();
    install::install(|name| value(environment, name.to_bytes()));
    let (is_recorded, is_filtered) = (paths::learn(environment), is_filtered(environment));
    let [only_contended, probes] =
        [CONTENDED, PROBE].map(|name| value(environment, name).is_some());
    service::name_this_process(environment);
    // Last: it removes variables from the environment.
    variables::learn(environment, !is_filtered);
    if is_recorded {
        budget::find();
    }
    if !is_recorded || is_filtered || sandbox::counter_is_forbidden() {
        budget::lost(budget::FILTERED);
        exports::lead();
        return process::off();
    }
    process::start(only_contended);
    if probes {
        process::probe();
    }
}
