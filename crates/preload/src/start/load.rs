//! Runs before `main`: the object finds libc's functions, installs its locks, and begins to record.

use core::ffi::{c_char, c_int};

use crate::arch;
use crate::arch::number::TGKILL;
use crate::file::clock::look;
use crate::file::map::file;
use crate::file::{budget, pages, paths, process};
use crate::interpose::{exports, libc, sandbox, single_thread};
use crate::policy::{chosen, install};
use crate::sites::{memory_map, python};
use crate::start::environment::{Environment, is_filtered, value};
use crate::start::{service, variables};
use crate::system::calls::{GETPID, GETTID, call};
use crate::system::rights;
use crate::threads::{attach, details};

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
    install::install(|name| value(environment, name.to_bytes()));
    if !chosen::chooses() {
        single_thread::find();
    }
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
        if is_filtered {
            rights::keep_quiet();
        }
        return process::off();
    }
    attach::find_rseq();
    details::count_cpus();
    process::start(only_contended);
    python::find();
    if probes {
        probe();
    }
}

/// Makes all system calls that recording makes, so that a filter which forbids one of them ends a
/// process that is not needed.
fn probe() {
    attach::attach();
    if let Some(file) = file() {
        pages::reserve_ahead(file);
        attach::reused(file, 1);
        call(TGKILL, [call(GETPID, [0; 6]) as usize, call(GETTID, [0; 6]) as usize, 0, 0, 0, 0]);
        let mut word = [0];
        memory_map::peek((&raw const BEGIN) as usize, &mut word);
        look(file, arch::ticks());
    }
}
