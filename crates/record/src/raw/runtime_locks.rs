//! Waits on per-thread conditions. Runtimes build their locks this way: a thread sleeps on its own
//! condition for every kind of wait, so only the call stack shows what it waits for.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the names of the layout are its own vocabulary")
)]

use std::collections::BTreeMap;
use std::io::{Read as _, read_to_string};
use std::path::Path;
use std::time::{Duration, SystemTime};

use convoy_os::clock::monotonic_ns;

use crate::launch::directory::open_file;
use crate::layout::*;
use crate::names::wrappers::{passes_on, without_types};
use crate::names::{LOCK_OF, Names};
use crate::record::origin::Origin;
use crate::record::{Kind, Lock, Site};

/// Place of a wait in code that was compiled while the program ran, if the code is not named.
pub const UNNAMED: &str = "code without names";
/// Description of Java's monitors.
pub const JAVA: &str = "Java's monitors, `synchronized`";
/// Description of the locks in Java's class library.
const JAVA_LOCKS: &str = "Java's locks, java.util.concurrent";

/// A call stack.
pub(crate) struct Context {
    /// Call site of the libc function.
    pub(crate) site: u64,
    callers: Vec<u64>,
    /// Return addresses in code without unwind tables: the caller of `callers`, and candidates for
    /// its callers.
    foreign: Vec<u64>,
}

/// The lock that a thread waits for.
struct Purpose {
    /// The function that waits, which names the lock. If empty, the lock is named after its place.
    function: String,
    origin: Origin,
    /// Description of the lock.
    runtime: String,
    place: String,
}

impl Context {
    /// Returns the call stack of an entry of the file, if it is complete.
    pub(crate) fn read(stack: &CallStack) -> Option<Self> {
        fn addresses(frames: &[Frame], count: u64) -> Vec<u64> {
            frames.iter().take(count as usize).map(|frame| frame.address).collect()
        }
        (stack.site != 0 && stack.ready == 1).then(|| Self {
            site: stack.site,
            callers: addresses(&stack.native, stack.count),
            foreign: addresses(&stack.foreign, stack.foreign_count),
        })
    }

    /// Returns the call sites, innermost first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.site).chain(self.callers.iter().copied())
    }

    /// Returns the innermost place in a function that does more than wait or acquire locks for its
    /// callers, and the callers of that place.
    pub(crate) fn outside(&self, names: &Names) -> (u64, [u64; CALLERS]) {
        let frames: Vec<u64> = self.frames().collect();
        let at = frames.iter().position(|frame| !only_waits(&name(names, *frame))).unwrap_or(0);
        let mut callers = [0; CALLERS];
        for (place, frame) in callers.iter_mut().zip(&frames[at + 1..]) {
            *place = *frame;
        }
        (frames[at], callers)
    }

    /// Returns the lock that the thread waits for, or `None` if it waits for something else.
    fn purpose(&self, names: &Names, jit: &Jit) -> Option<Purpose> {
        let frames: Vec<(u64, String)> =
            self.frames().map(|frame| (frame, name(names, frame))).collect();
        let of_java = |frame: &u64| names.runtime(*frame) == Some(Origin::JavaVm);
        for (_, name) in frames.iter().filter(|(frame, _)| of_java(frame)) {
            let function = match name.as_str() {
                "ObjectMonitor::wait" => return None,
                _ if name.starts_with("ObjectMonitor::") => "ObjectMonitor::enter",
                "Unsafe_Park" if self.is_lock_of_java(jit) => "Unsafe_Park",
                "Unsafe_Park" => return None,
                _ => continue,
            };
            let (origin, runtime) = match function {
                "Unsafe_Park" => (Origin::JavaLock, JAVA_LOCKS),
                _ => (Origin::JavaMonitor, JAVA),
            };
            return Some(Purpose {
                function: function.to_owned(),
                origin,
                runtime: runtime.to_owned(),
                place: self.method(jit).unwrap_or_else(|| UNNAMED.to_owned()),
            });
        }
        let inner = frames.iter().take_while(|(_, name)| only_waits(name));
        let inner: Vec<String> = inner.map(|(_, name)| name.to_ascii_lowercase()).collect();
        let has = |what: &str| inner.iter().any(|name| name.contains(what));
        let is_lock = (has("mutex") || has("rwlock")) && !has("cond");
        let (site, callers) = self.outside(names);
        let taken = frames.get(inner.len().checked_sub(1)?).map(|(_, name)| name.clone());
        is_lock.then(|| Purpose {
            function: String::new(),
            origin: names.runtime(site).unwrap_or(Origin::Library),
            runtime: taken.unwrap_or_default(),
            place: names.under(names.place(site, &callers), site, &callers),
        })
    }

    /// Returns whether the Java classes among the callers are locks.
    fn is_lock_of_java(&self, jit: &Jit) -> bool {
        let has = |parts: &[&str]| {
            let mut names = self.foreign.iter().filter_map(|code| jit.name(*code));
            names.any(|name| parts.iter().any(|part| name.contains(part)))
        };
        !has(&["await", "Condition"])
            && has(&["AbstractQueuedSynchronizer.acquire", "ReentrantLock", "StampedLock"])
    }

    /// Returns the innermost Java method that does not belong to Java's own classes, or else the
    /// innermost method.
    fn method(&self, jit: &Jit) -> Option<String> {
        let named = self.foreign.iter().filter_map(|code| jit.name(*code));
        let methods: Vec<String> = named.filter_map(method).collect();
        let is_own = |name: &&String| {
            ["java.util.concurrent.", "jdk.internal."].iter().any(|own| name.starts_with(own))
        };
        methods.iter().find(|name| !is_own(name)).or(methods.first()).cloned()
    }
}

/// Returns the name of the function around a call, or an empty string.
pub(crate) fn name(names: &Names, site: u64) -> String {
    names.name(site.saturating_sub(1)).unwrap_or_default()
}

/// Returns whether a function, judging by its name, only waits or acquires locks for its callers.
pub(crate) fn only_waits(name: &str) -> bool {
    let low = without_types(name).to_ascii_lowercase();
    passes_on(name) || ["park", "waiter", "perthreadsem"].iter().any(|part| low.contains(part))
}

/// Returns `Ledger.book` for `void Ledger.book(int)`, the form that the JVM writes, and `None` for
/// other code.
fn method(name: &str) -> Option<String> {
    let (before, _) = name.split_once('(')?;
    let name = before.rsplit(' ').next()?;
    (name.contains('.') && !name.is_empty()).then(|| name.to_owned())
}

/// Names of code that a process compiled while it ran, from the map that it wrote for perf(1).
#[derive(Default)]
pub(crate) struct Jit(BTreeMap<u64, (u64, String)>);

/// Maximum size of a code map in bytes.
const LARGEST: u64 = 1 << 28;

impl Jit {
    /// Reads the code map of a process that began at this time of the monotonic clock. A map that
    /// an earlier process with the same ID left behind is ignored.
    pub(crate) fn read(pid: u64, begin_ns: u64) -> Self {
        let path = format!("/tmp/perf-{pid}.map");
        let path = Path::new(&path);
        let age = Duration::from_nanos(monotonic_ns().saturating_sub(begin_ns));
        let begin = SystemTime::now().checked_sub(age);
        let written = path.metadata().and_then(|file| file.modified()).ok();
        if written.is_none() || written < begin {
            return Self::default();
        }
        // The directory is world-writable, so another user may have placed a pipe or a link there.
        let text = open_file(path).map(|file| read_to_string(file.take(LARGEST)));
        Self::parse(&text.and_then(Result::ok).unwrap_or_default())
    }

    /// Parses lines such as `7f00 20 name`.
    fn parse(text: &str) -> Self {
        let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (start, size) = (hex(words.next()?)?, hex(words.next()?)?);
            Some((start, (start.saturating_add(size), words.next()?.trim().to_owned())))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn name(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.0.range(..address).next_back()?;
        (address <= *end).then_some(name.as_str())
    }
}

/// Waits by the number of their call stack and the address of the condition.
pub(crate) type Waits = BTreeMap<(u64, u64), Site>;

/// Removes the waits for locks from `waits`. Returns these locks, and their names by the address of
/// the conditions on which threads waited for them.
pub(crate) fn locks(
    waits: &mut Waits,
    contexts: &BTreeMap<u64, Context>,
    names: &Names,
    jit: &Jit,
) -> (Vec<Lock>, BTreeMap<u64, String>) {
    let mut found: BTreeMap<(String, String), Lock> = BTreeMap::new();
    let (mut used, mut threads) = (BTreeMap::new(), BTreeMap::new());
    let purposes: BTreeMap<u64, Option<Purpose>> =
        contexts.iter().map(|(number, one)| (*number, one.purpose(names, jit))).collect();
    waits.retain(|(number, address), site| {
        // A wait in futex(2) does not have such a number.
        let Some(Some(purpose)) = purposes.get(number) else { return true };
        let Purpose { function, origin, runtime, place } = purpose;
        let name = match function.as_str() {
            "" => [LOCK_OF, place].concat(),
            function => function.to_owned(),
        };
        used.insert(*address, name.clone());
        let lock = found.entry((name.clone(), runtime.clone())).or_insert_with(|| Lock {
            name,
            kind: Kind::Mutex,
            origin: *origin,
            instances: 1,
            runtime: runtime.clone(),
            ..Lock::default()
        });
        let act = "lock".to_owned();
        let mut own = Site { place: place.clone(), act, ..site.clone() };
        (own.count, own.contended) = (site.wait.count, site.wait.count);
        // Each thread sleeps on its own address, with several stacks.
        let threads: &mut BTreeMap<u64, u64> =
            threads.entry((lock.name.clone(), runtime.clone(), place.clone())).or_default();
        *threads.entry(*number).or_default() += own.threads;
        let most = threads.values().copied().max().unwrap_or(0);
        match lock.sites.iter_mut().find(|one| one.place == *place) {
            Some(known) => {
                known.add(&own);
                known.threads = most;
            }
            None => lock.sites.push(own),
        }
        false
    });
    (crate::record::merge::sorted(found.into_values().collect()), used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_code_is_named_by_what_the_runtime_wrote() {
        let jit = Jit::parse(
            "0x7f00 0x20 Interpreter\n7f40 10 void Ledger.book(int, long)\nno line\n7f60 0x8",
        );
        assert_eq!(jit.name(0x7f10), Some("Interpreter"));
        assert_eq!(jit.name(0x7f45).and_then(method).as_deref(), Some("Ledger.book"));
        assert_eq!(jit.name(0x7f30), None);
        assert_eq!(method("StubRoutines (1)"), None);
    }

    #[test]
    fn functions_that_wait_for_others_are_told_by_their_names() {
        for name in [
            "os::PlatformEvent::park",
            "absl::synchronization_internal::PthreadWaiter::Wait",
            "absl::Mutex::LockSlow",
        ] {
            assert!(only_waits(name), "{name}");
        }
        assert!(!only_waits("ObjectMonitor::EnterI") && !only_waits("Cache::find"));
    }
}
