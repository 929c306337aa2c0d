//! Runtimes that own code, by the mapped file that contains it or the crate of its symbol.

use crate::names::{Names, named};
use crate::record::origin::Origin;

/// Beginnings of the names of files that belong to a runtime.
const FILES: [(&str, Origin); 6] = [
    ("libjvm.so", Origin::JavaVm),
    ("libgomp.so", Origin::OpenMp),
    ("libomp.so", Origin::OpenMp),
    ("libiomp5.so", Origin::OpenMp),
    ("libpython", Origin::Python),
    ("python", Origin::Python),
];
/// The variable that contains the interpreter lock of `CPython` and no other lock that threads wait
/// for: its other locks are allocated.
const INTERPRETER: &str = "_PyRuntime";

impl Names {
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
