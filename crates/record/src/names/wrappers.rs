//! Functions that only acquire locks for their callers, by their names: those that compilers
//! inline, and those of runtimes with locks of their own. `code` finds others by their code. The
//! caller is the place of these calls.

use blazesym::symbolize::CodeInfo;
use std::path::Path;

use crate::names::cxx::without_arguments;

/// Returns whether a function, by its name, belongs to a class of mutexes or the like: it only
/// acquires locks for its callers, and has many callers.
pub(crate) fn passes_on(name: &str) -> bool {
    /// Parts of the names of such classes and libraries.
    const KINDS: [&str; 10] = [
        "mutex",
        "futex",
        "__gthread",
        "unique_lock",
        "lock_guard",
        "scoped_lock",
        "rwlock",
        "condvar",
        "condition_variable",
        "semaphore",
    ];
    /// Parts of names that contain the operation, too.
    const OPERATIONS: [&str; 2] = ["semacquire", "pythread_acquire_lock"];
    /// Operations of such functions.
    const ACTS: [&str; 6] = ["lock", "acquire", "wait", "enter", "init", "contended"];
    /// Functions between a program and its heap, its counters, or the waiting functions of its
    /// library.
    const OTHERS: [&str; 24] = [
        "operator new",
        "operator delete",
        "__gnu_cxx::new_allocator",
        "std::__new_allocator",
        "std::allocator",
        "alloc::",
        "sync/atomic.",
        "core::sync::atomic::",
        "core::core_arch::",
        "core::hint::",
        "std::__atomic_base",
        "std::atomic",
        "std::__atomic_",
        "std::__detail::__",
        "std::__future_base",
        "std::__basic_future",
        "std::future",
        "std::_sp_locker",
        "std::this_thread::",
        "std::thread::functions::",
        "std::thread::yield_now",
        "std::lock",
        "std::try_lock",
        "runtime.(*semaroot).",
    ];
    let whole = without_arguments(name).to_ascii_lowercase();
    let name = without_types(&whole);
    let (class, last) = name.rsplit_once("::").unwrap_or(("", name));
    let last = last.rsplit(").").next().unwrap_or(last).trim_start_matches('~');
    // A constructor is named after its class.
    let is_class = name.len() < whole.len() || class.rsplit("::").next() == Some(last);
    // `mutex_test` locks nothing for its callers.
    let acts = || {
        let rest = KINDS.iter().fold(last.to_owned(), |rest, kind| rest.replace(kind, " "));
        is_class || KINDS.contains(&last) || ACTS.iter().any(|act| rest.contains(act))
    };
    OTHERS.iter().any(|other| name.trim_start_matches('<').starts_with(other))
        || OPERATIONS.iter().any(|operation| name.contains(operation))
        || KINDS.iter().any(|kind| name.contains(kind)) && acts()
}

/// Returns a name without its template arguments, which name other classes.
pub(crate) fn without_types(name: &str) -> &str {
    name.split_once('<').filter(|(class, _)| !class.is_empty()).map_or(name, |it| it.0)
}

/// Returns whether a place, as an account prints it, is in a function that only acquires locks for
/// its callers. The caller of these calls is not known, because no thread waited there.
pub fn is_passing(place: &str) -> bool {
    let function = place.split(" (").next().unwrap_or(place);
    passes_on(function.split("+0x").next().unwrap_or(function))
}

/// Returns whether a function only passes a lock on to pthread or belongs to a lock library.
pub(crate) fn is_wrapper(name: &str) -> bool {
    ["__gthread_", "std::mutex::", "std::unique_lock", "std::lock_guard", "std::scoped_lock"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || is_of_locks(name)
}

/// Returns whether a function belongs to a library of locks that call futex(2), or to the code that
/// Rust runs when a guard is dropped.
pub(crate) fn is_of_locks(name: &str) -> bool {
    const LIBRARIES: [&str; 11] = [
        "std::sys::sync::",
        "std::sys::pal::",
        "std::sync::",
        "std::thread::local::",
        "std::io::stdio::",
        "parking_lot",
        "lock_api::",
        "core::mem::",
        "core::ptr::drop_in_place",
        "folly::",
        "absl::",
    ];
    let name = name.trim_start_matches(['<', '&']);
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// Returns whether code is in a source file of such a library. If the debug data are line tables
/// alone, the name of an inlined function is only its last part, such as `lock`.
pub(crate) fn is_in_locks(code: &CodeInfo<'_>) -> bool {
    const SOURCES: [&str; 6] = [
        "/library/std/src/sync/",
        "/library/std/src/sys/",
        // Code that drops guards, loops and comparisons.
        "/library/core/src/",
        "/parking_lot",
        "/lock_api",
        "/include/c++/",
    ];
    let path = code.dir.as_deref().unwrap_or(Path::new("")).join(&code.file);
    let path = path.to_string_lossy();
    SOURCES.iter().any(|source| path.contains(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_take_locks_for_others_are_told_by_their_names() {
        for name in
            ["rocksdb::port::Mutex::Lock", "internal/sync.(*Mutex).lockSlow", "operator new"]
        {
            assert!(passes_on(name), "{name}");
        }
        for name in [
            "std::unique_lock<std::mutex>::unique_lock",
            "rocksdb::port::RWMutex::RWMutex",
            "lock_guard",
            "internal/poll.(*fdMutex).rwlock",
            "sync.runtime_SemacquireRWMutexR",
            "PyThread_acquire_lock_timed",
            "std::counting_semaphore<2l>::acquire",
        ] {
            assert!(passes_on(name), "{name}");
        }
        for name in ["main.(*Mutexes).Book", "main.(*Ledger).Book", "lock_rename"] {
            assert!(!passes_on(name), "{name}");
        }
        for name in ["mutex_work", "rwlock_reader", "semaphore_pool", "bench::mutex_sleep"] {
            assert!(!passes_on(name), "{name} is named after its subject");
        }
    }
}
