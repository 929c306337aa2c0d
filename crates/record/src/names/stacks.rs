//! Finds the call in which a thread waits, from the words on its stack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::names::Names;
use crate::names::call_sites::Module;
use crate::names::runtimes::runtime;
use crate::names::wrappers::passes_on;
use crate::record::Kind;
use crate::record::origin::Origin;
use crate::sampling::syscall_file::{Asks, act, is_join};

/// Number of callers that are checked.
const CALLERS: usize = 8;

/// The operation of waiting for the exit of a thread.
pub(crate) const JOIN: &str = "join";

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// Kind of the lock or condition.
    pub(crate) kind: Kind,
    /// What the lock is part of.
    pub(crate) origin: Origin,
    pub(crate) act: &'static str,
    /// Return addresses, innermost first.
    pub(crate) frames: Vec<u64>,
    /// The function of libc that waits for an internal lock; empty if none.
    pub(crate) runtime: String,
}

/// The wait of a called function.
#[derive(Clone)]
enum Target {
    /// A lock or condition of the program.
    Lock(Kind, &'static str),
    /// A word on which the program waits itself.
    Word(Kind, &'static str),
    /// A lock internal to libc, with the function that waits for it.
    Runtime(String),
    /// The exit of a thread.
    Join,
}

impl Target {
    fn of(names: &[String]) -> Option<Self> {
        names.iter().find_map(|name| match act(name) {
            Some((kind, act)) => Some(Self::Lock(kind, act)),
            None if is_join(name) => Some(Self::Join),
            None if is_lock_of_openmp(name) => Some(Self::Word(Kind::Mutex, "lock")),
            None => runtime(name).map(|_| Self::Runtime(plain(name))),
        })
    }

    /// Returns whether the thread waits in this way. Otherwise the word is a leftover on the stack.
    fn fits(&self, asks: Asks) -> bool {
        !matches!(self, Self::Runtime(_)) || asks.may_be_of_libc()
    }

    fn waiting(self, frames: Vec<u64>) -> Waiting {
        let (kind, act, origin) = match self {
            Self::Lock(kind, act) => (kind, act, Origin::Libc),
            Self::Word(kind, act) => (kind, act, Origin::Futex),
            Self::Runtime(name) => {
                let origin = runtime(&name).map_or(Origin::LibcInternal, |known| known.origin);
                return Waiting { kind: Kind::Mutex, origin, act: "lock", frames, runtime: name };
            }
            Self::Join => (Kind::Futex, JOIN, Origin::Libc),
        };
        Waiting { kind, origin, act, frames, runtime: String::new() }
    }
}

/// Returns the public name of a function of libc.
fn plain(name: &str) -> String {
    let name = name.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    match name {
        "Znwm" | "Znam" => "operator new",
        _ if name.starts_with("Zd") => "operator delete",
        _ => name.trim_start_matches("libc_").trim_start_matches("IO_").trim_end_matches("_chk"),
    }
    .to_owned()
}

/// Stacks of the threads of one process.
pub(crate) struct Stacks {
    pub(crate) names: Names,
    modules: BTreeMap<PathBuf, Option<Module>>,
}

impl Stacks {
    /// Creates it for a process with this text of `/proc/self/maps`.
    pub(crate) fn new(pid: u32, maps: &str) -> Self {
        Self { names: Names::new(maps, Some(pid)), modules: BTreeMap::new() }
    }

    /// Returns the wait of a thread with these words on its stack. The frames begin with the call
    /// of a function that waits, or else with the first call found.
    pub(crate) fn scan(&mut self, words: &[u64], asks: Asks) -> Option<Waiting> {
        let mut frames = Vec::new();
        let mut known = None;
        for (at, &word) in words.iter().enumerate() {
            // An indirect call is recognized by the function that contains it, at the top of the
            // stack.
            let name = || self.names.name(word.saturating_sub(1));
            let is_first = at == 0 && name().is_some_and(|name| passes_on(&name));
            let target = self.target(word).or_else(|| is_first.then(Vec::new));
            let Some(target) = target else { continue };
            let found = Target::of(&target).filter(|found| found.fits(asks));
            if let Some(found) = found.filter(|_| known.is_none()) {
                // Words before this one belong to libc, or were left behind by functions that have
                // returned.
                frames.clear();
                known = Some(found);
            }
            frames.push(word);
            if known.is_some() && frames.len() > CALLERS || frames.len() > 4 * CALLERS {
                break;
            }
        }
        if let Some((found, word)) = self.inside(words, asks).filter(|_| known.is_none()) {
            if frames.is_empty() {
                frames.push(word);
            }
            known = Some(found);
        }
        Some(known.or_else(|| self.guess(&frames))?.waiting(frames))
    }

    /// Returns the function of libc that waits for an internal lock and its return address, if that
    /// is the innermost function of libc on the stack. It may have been called indirectly, or its
    /// callers are too far away. If libc's functions for reader/writer locks wait, their caller is
    /// the next function of any file.
    fn inside(&self, words: &[u64], asks: Asks) -> Option<(Target, u64)> {
        /// Number of words that are checked.
        const WORDS: usize = 64;
        let mut is_rwlock = false;
        for (index, word) in words.iter().enumerate().take(WORDS) {
            let code = word.saturating_sub(1);
            let Some((path, _)) = self.names.own(code) else { continue };
            if !is_rwlock && !is_libc(path) {
                continue;
            }
            let Some(name) = self.names.name(code) else { continue };
            let is_runtime = is_libc(path) && runtime(&name).is_some();
            // The system call itself may be in a function without a symbol.
            let is_waiting = name.contains("lll_lock_wait") || index == 0 && !is_runtime;
            if name.contains("pthread_rwlock_") {
                is_rwlock = true;
            } else if !is_waiting {
                let target = Target::Runtime(plain(&name));
                let fits = is_runtime && (is_rwlock || target.fits(asks));
                return fits.then_some((target, *word));
            }
        }
        None
    }

    /// Returns the wait from a stack that the kernel has walked by frame pointers, beginning with
    /// the system call, and from the words on the stack. A program without frame pointers is
    /// recognized by a broken chain. The function that makes the system call does not have a frame,
    /// and its caller is in the first word.
    pub(crate) fn walk(&mut self, chain: &[u64], words: &[u64], asks: Asks) -> Option<Waiting> {
        let is_known = |this: &Self, address: u64| {
            this.names.own(address).is_some_and(|(path, _)| !is_libc(path))
        };
        let mut callers = chain.iter().skip(1).copied().peekable();
        if !callers.peek().is_some_and(|first| is_known(self, *first)) {
            let code = chain.first().copied();
            // Functions with large frames have frame pointers: their callers follow the words.
            let callers = callers.filter(|caller| is_known(self, *caller));
            let words: Vec<u64> =
                code.into_iter().chain(words.iter().copied()).chain(callers).collect();
            return self.scan(&words, asks);
        }
        // An indirect call is recognized by the function that contains it.
        let first = words.first().copied().filter(|word| {
            let name = || self.names.name(word.saturating_sub(1));
            is_known(self, *word) && name().is_some_and(|name| passes_on(&name))
                || self.target(*word).is_some()
        });
        let code = chain.first().copied().filter(|code| is_known(self, *code));
        let inside = code.map(|code| code + 1);
        let frames: Vec<u64> = inside.into_iter().chain(first).chain(callers).collect();
        let is_inside_libc = self.inside(words, asks).is_some();
        let fits = |found: &Target| found.fits(asks) || is_inside_libc;
        let known = frames.iter().position(|frame| {
            let target = self.target(*frame).unwrap_or_default();
            Target::of(&target).is_some_and(|found| fits(&found))
        });
        let from = known.unwrap_or(0);
        let frames: Vec<u64> =
            frames[from..].iter().copied().filter(|frame| is_known(self, *frame)).collect();
        let target = self.target(*frames.first()?).unwrap_or_default();
        let found = Target::of(&target).filter(fits);
        Some(found.or_else(|| self.guess(&frames))?.waiting(frames))
    }

    /// Returns the origin of the lock at `word` for which a thread waits, with its instruction
    /// pointer at `code`. Runtimes that call futex(2) themselves are recognized by that pointer.
    pub(crate) fn origin(&self, waiting: &Waiting, code: u64, word: u64) -> Origin {
        if waiting.origin.is_inside_libc() {
            return waiting.origin;
        }
        let sites = [Some(code), waiting.frames.first().copied()];
        let runtime = sites.into_iter().flatten().find_map(|site| self.names.origin(word, site));
        runtime.unwrap_or(waiting.origin)
    }

    /// Returns the words of a stack that are return addresses of calls, at most [`CALLERS`].
    pub(crate) fn calls(&mut self, words: &[u64]) -> Vec<u64> {
        let calls = words.iter().copied().filter(|word| self.target(*word).is_some());
        calls.take(CALLERS).collect()
    }

    /// Returns whether an address is in the preloaded recorder.
    pub(crate) fn is_ours(&self, address: u64) -> bool {
        self.names.is_recorder(address)
    }

    /// Returns the wait of a program that calls futex(2) directly, by the names of its functions.
    fn guess(&self, frames: &[u64]) -> Option<Target> {
        /// Functions of Go's runtime: a change of goroutines, and its internal lock.
        const BOUNDS: [&str; 2] = ["runtime.mcall", "runtime.lock2"];
        frames.first()?;
        let names = frames.iter().take(CALLERS);
        let names = names.filter_map(|frame| self.names.name(frame.saturating_sub(1)));
        // The frames behind these belong to a goroutine that has left the thread, and to the lock
        // of a goroutine for which it waits in another way.
        let mut inner = names.take_while(|name| !BOUNDS.contains(&name.as_str()));
        let lock = inner.find_map(|name| lock_of(&name).filter(|_| passes_on(&name)));
        let (kind, act) = lock.unwrap_or((Kind::Futex, "wait"));
        Some(Target::Word(kind, act))
    }

    /// Returns the names of the target of the call that returns to this address, if there is one.
    fn target(&mut self, address: u64) -> Option<Vec<String>> {
        let (module, own) = module(&self.names, &mut self.modules, address)?;
        module.called(own)
    }
}

/// Returns whether a function of OpenMP's runtime acquires a lock of the program: one of GCC's or
/// LLVM's for a `critical` construct, or one of the interface for locks.
fn is_lock_of_openmp(name: &str) -> bool {
    ["GOMP_critical_", "GOMP_atomic_start", "__kmpc_critical", "omp_set_lock", "omp_set_nest_lock"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// Returns the lock and the operation of a function that only acquires locks for its callers, by
/// its name. Go's functions for readers end in `R`.
fn lock_of(name: &str) -> Option<(Kind, &'static str)> {
    let name = name.to_ascii_lowercase();
    let rwmutex = name.split_once("rwmutex").map(|(_, rest)| rest.starts_with('r'));
    match rwmutex {
        Some(true) => Some((Kind::Rwlock, "read")),
        Some(false) => Some((Kind::Rwlock, "write")),
        None => ["mutex", "rwlock"]
            .iter()
            .any(|part| name.contains(part))
            .then_some((Kind::Mutex, "lock")),
    }
}

/// Returns the file that contains a return address, unless it is libc, and the address in it.
fn module<'a>(
    names: &Names,
    modules: &'a mut BTreeMap<PathBuf, Option<Module>>,
    address: u64,
) -> Option<(&'a Module, u64)> {
    let (path, own) = names.own(address)?;
    let module = modules.entry(path.clone()).or_insert_with(|| {
        let module = names.readable(address).and_then(|file| Module::read(file));
        module.filter(|_| !is_libc(path))
    });
    Some((module.as_ref()?, own))
}

/// Finds the callers of functions of libc from the words on a stack.
pub(crate) struct Callers<'a> {
    names: &'a Names,
    modules: BTreeMap<PathBuf, Option<Module>>,
}

impl<'a> Callers<'a> {
    pub(crate) fn new(names: &'a Names) -> Self {
        Self { names, modules: BTreeMap::new() }
    }

    /// Returns the return addresses among these words, innermost first, from the first call that
    /// leaves its file on: words before it belong to libc, or are left over from functions that
    /// have returned.
    pub(crate) fn frames(&mut self, words: &[u64]) -> Vec<u64> {
        let mut frames = Vec::new();
        for word in words {
            let Some((module, own)) = module(self.names, &mut self.modules, *word) else {
                continue;
            };
            let is_first = frames.is_empty() && module.leaves(own);
            if is_first || !frames.is_empty() && module.called(own).is_some() {
                frames.push(*word);
            }
        }
        frames
    }
}

fn is_libc(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libc.so", "libc-", "libpthread", "ld-linux"].iter().any(|libc| name.starts_with(libc))
}
