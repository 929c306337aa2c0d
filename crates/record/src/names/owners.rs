//! Runtimes that own code, by the mapped file that contains it or the crate of its symbol.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use memchr::memmem;

use crate::launch::refusal::is_go;
use crate::names::{Names, mapped_file, named};
use crate::record::origin::{Origin, Scheduler};

/// Beginnings of the names of files that belong to a runtime.
const FILES: [(&str, Origin); 6] = [
    ("libjvm.so", Origin::JavaVm),
    ("libgomp.so", Origin::OpenMp),
    ("libomp.so", Origin::OpenMp),
    ("libiomp5.so", Origin::OpenMp),
    ("libpython", Origin::Python),
    ("python", Origin::Python),
];
/// Beginnings of the names of libraries that a program maps once it uses such tasks: the extension
/// of Python's module `asyncio`, the runtime of .NET, and Ruby's interpreter.
const LIBRARIES: [(&str, Scheduler); 3] = [
    ("_asyncio.", Scheduler::Asyncio),
    ("libcoreclr.so", Scheduler::DotNet),
    ("libruby", Scheduler::Ruby),
];
/// The variable that contains the interpreter lock of `CPython` and no other lock that threads wait
/// for: its other locks are allocated.
const INTERPRETER: &str = "_PyRuntime";

/// The function of V8 in which `Atomics.wait` of JavaScript waits.
const ATOMICS_WAIT: &str = "Builtin_AtomicsWait";

impl Names {
    /// Returns the runtimes with tasks that wait without a thread, by the program, which is the
    /// first mapped file, and the files that contain these call sites.
    pub(crate) fn schedulers(&self, sites: impl Iterator<Item = u64>) -> Vec<Scheduler> {
        let program = self.objects.values().next().and_then(|object| object.file.as_ref());
        let files = sites.filter_map(|site| self.readable(site)).chain(program);
        let files: BTreeSet<&PathBuf> = files.collect();
        let schedulers = files.into_iter().filter_map(|file| scheduler(file));
        schedulers.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the origin of locks that the code before this return address acquires, if the code
    /// belongs to the runtime of a language.
    pub(crate) fn runtime(&self, site: u64) -> Option<Origin> {
        if self.python.contains_key(&site) {
            return Some(Origin::Python);
        }
        let code = site.saturating_sub(1);
        let file = named(self.own(code)?.0);
        let known = FILES.iter().find(|(begin, _)| file.starts_with(begin));
        known.map(|(_, origin)| *origin).or_else(|| {
            let symbol = self.find(&self.functions, code, false)?;
            if symbol.name.contains(ATOMICS_WAIT) {
                return Some(Origin::JavaScript);
            }
            is_of_std(&symbol.name).then_some(Origin::Rust)
        })
    }

    /// Returns the origin of the lock at an address that is acquired at `site`, if it belongs to
    /// the runtime of a language.
    pub(crate) fn origin(&self, lock: u64, site: u64) -> Option<Origin> {
        let is_interpreter = || {
            let variable = self.variable(lock).unwrap_or_default();
            variable.split("+0x").next() == Some(INTERPRETER)
        };
        match self.runtime(site)? {
            Origin::Python if is_interpreter() => Some(Origin::PythonInterpreter),
            origin => Some(origin),
        }
    }
}

/// Returns the runtime with tasks that this mapped library of an interpreter belongs to.
pub(crate) fn library_scheduler(path: &str) -> Option<Scheduler> {
    let file = named(Path::new(path));
    let known = LIBRARIES.iter().find(|(begin, _)| file.starts_with(begin));
    known.map(|(_, scheduler)| *scheduler)
}

/// Returns the runtime with tasks that a file contains, also without symbols: Go's linker leaves a
/// note, and the code of `tokio` contains the paths of its sources, for messages of panics.
fn scheduler(path: &Path) -> Option<Scheduler> {
    const TOKIO: &[u8] = b"/src/runtime/scheduler/";
    if File::open(path).is_ok_and(|file| is_go(&file)) {
        return Some(Scheduler::Go);
    }
    let bytes = mapped_file::bytes(path)?;
    let mut paths = memmem::find_iter(&bytes, TOKIO);
    let is_tokio = paths.any(|begin| {
        let directory = bytes[..begin].rsplit(|byte| *byte == b'/').next();
        directory.is_some_and(|name| name.starts_with(b"tokio-1"))
    });
    is_tokio.then_some(Scheduler::Tokio)
}

/// Returns whether a mangled name is one of Rust's standard library.
pub(crate) fn is_of_std(mangled: &str) -> bool {
    let Ok(name) = rustc_demangle::try_demangle(mangled) else { return false };
    let name = format!("{name:#}");
    name.trim_start_matches('<').starts_with("std::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rusts_library_differ_from_a_namespace_of_c_plus_plus() {
        let contended = "_ZN3std3sys4sync5mutex5futex5Mutex14lock_contended17h0123456789abcdefE";
        assert!(is_of_std(contended));
        assert!(!is_of_std("_ZN3std5mutex4lockEv"));
        assert!(!is_of_std("_ZN6Parker4parkEv"));
        assert!(!is_of_std("std::sys::sync::mutex::futex::Mutex::lock"));
    }
}
