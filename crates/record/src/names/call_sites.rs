//! Finds, before a program starts, the places in its files that create or acquire mutexes, by the
//! names that an account prints. The object in the program compares addresses only.
//!
//! The calls are found in machine code: calls of libc's functions, and of lock wrappers (see
//! `names`), whose callers are the call sites. A call is recognized by its bytes, so data between
//! functions may be mistaken for a call. It then has a name that is never requested.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::names::elf::Elf;
use crate::names::mapped_file;
use crate::names::{LOCK_OF, Names, demangled};

/// Functions that create or acquire a mutex.
const TAKE: [&str; 8] = [
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "mtx_lock",
    "mtx_trylock",
    "mtx_timedlock",
];
/// Maximum depth of functions that only acquire locks for their callers.
const DEPTH: usize = 4;
/// Files of libc itself: its internal use of mutexes bypasses the symbols.
const LIBC: [&str; 5] = ["libc.so", "ld-linux", "libpthread.so", "libm.so", "linux-vdso"];

/// Environment variable that passes the ranges to the object.
pub const RANGES: &str = "CONVOY_LOCKS";
/// Character that replaces the middle of a name in a narrow table.
const LEFT_OUT: char = '\u{2026}';
/// Maximum number of names in an error.
const NAMED: usize = 4;
/// Maximum number of ranges that fit into the object.
const MOST: usize = 1024;

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// No file contains it.
    #[error(
        "no mutex is made or taken at `{site}` in {files}; name a place as convoy explain prints \
         it, such as `file.c:12`, a function, or a variable"
    )]
    Unknown {
        /// The requested site.
        site: String,
        /// The files that were searched.
        files: String,
    },
    /// The program cannot be searched.
    #[error("cannot look for places in {program}: {reason}; name the program itself, not a script")]
    Program {
        /// The program.
        program: String,
        /// The reason.
        reason: String,
    },
    /// A shortened name matches several names.
    #[error("`{site}` is short for {names}; name one of them")]
    Short {
        /// The shortened name.
        site: String,
        /// The names that it may be short for.
        names: String,
    },
    /// There are more calls than the object has room for.
    #[error("the places cover {count} calls, and at most {MOST} fit; name fewer")]
    Many {
        /// Number of calls.
        count: usize,
    },
}

/// A file of the program, and its calls.
pub(crate) struct Module {
    /// The file name under which the loader knows it.
    name: String,
    path: PathBuf,
    names: Names,
    /// Return addresses of calls with their targets, in ascending order.
    calls: Vec<(u64, Target)>,
    /// Names of the functions that other files can call, by address.
    exports: BTreeMap<u64, Vec<String>>,
    /// Name, begin and end of each variable.
    variables: Vec<(String, u64, u64)>,
}

/// Target of a call: a function of the file, or an external one by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Here(u64),
    Named(String),
}

/// A call that creates or acquires a mutex.
struct Place {
    module: usize,
    /// Its return address.
    site: u64,
    /// Whether it is in a function that only does so for its callers.
    passes_on: bool,
}

/// Places at which a program creates or acquires mutexes.
pub struct Sites {
    modules: Vec<Module>,
    places: Vec<Place>,
}

impl Sites {
    /// Finds the places in a program, which is looked up as a shell would, and in the libraries
    /// that it is linked with.
    ///
    /// # Errors
    /// [`SiteError::Program`] if the program is not found or cannot be read.
    pub fn of(program: &OsStr) -> Result<Self, SiteError> {
        let refused = |reason: String| SiteError::Program {
            program: program.to_string_lossy().into_owned(),
            reason,
        };
        let path = crate::launch::program_path::find(program)
            .ok_or_else(|| refused("there is no such program".into()))?;
        let path = path.canonicalize().map_err(|error| refused(error.to_string()))?;
        let main = Module::read(&path).ok_or_else(|| refused("it is no ELF of x86-64".into()))?;
        let mut modules = vec![main];
        modules.extend(libraries(&path).iter().filter_map(|path| Module::read(path)));
        let places = places(&modules);
        Ok(Self { modules, places })
    }

    /// Returns the address ranges of places with their policies, in the format that the object
    /// reads.
    ///
    /// # Errors
    /// [`SiteError::Unknown`], [`SiteError::Short`] or [`SiteError::Many`].
    pub fn ranges(&self, wanted: &[(String, String)]) -> Result<String, SiteError> {
        let mut lines = Vec::new();
        for (site, policy) in wanted {
            let before = lines.len();
            let site = &self.whole(site)?;
            for module in &self.modules {
                let variables = module.variables.iter().filter_map(|one| within(one, site));
                lines.extend(variables.map(|(from, to)| module.line(policy, from, to)));
            }
            for place in self.places.iter().filter(|place| !place.passes_on) {
                let module = &self.modules[place.module];
                if module.names.is_called(place.site, site) {
                    lines.push(module.line(policy, place.site - 1, place.site));
                }
            }
            if lines.len() == before {
                let files = self.modules.iter().map(Module::file);
                let files = files.collect::<Vec<_>>().join(", ");
                return Err(SiteError::Unknown { site: site.clone(), files });
            }
        }
        for place in self.places.iter().filter(|place| place.passes_on) {
            lines.push(self.modules[place.module].line("skip", place.site - 1, place.site));
        }
        match lines.len() {
            0..=MOST => Ok(lines.concat()),
            count => Err(SiteError::Many { count }),
        }
    }

    /// Returns the full name for one from which a narrow table left out the middle.
    fn whole(&self, site: &str) -> Result<String, SiteError> {
        let Some((head, tail)) = site.split_once(LEFT_OUT) else { return Ok(site.to_owned()) };
        // A table may leave out everything after the words `lock of`.
        let head = head.strip_prefix(LOCK_OF.trim_end()).map_or(head, str::trim_start);
        // An offset in a variable is not part of the variable's name.
        let (end, offset) = tail.rfind("+0x").map_or((tail, ""), |at| tail.split_at(at));
        let is_it = |name: &str, end: &str| {
            let rest = name.strip_prefix(head).unwrap_or_default();
            !rest.is_empty() && rest.ends_with(end)
        };
        let variables = self.modules.iter().flat_map(|module| &module.variables);
        let variables = variables.map(|(name, ..)| name).filter(|name| is_it(name, end));
        let variables = variables.map(|name| [name, offset].concat());
        let places = self.places.iter().filter(|place| !place.passes_on);
        let places = places.map(|place| self.modules[place.module].names.place(place.site, &[]));
        let places = places.filter(|name| is_it(name, tail));
        let mut all: BTreeSet<String> = variables.chain(places).collect();
        match (all.pop_first(), all.len()) {
            (Some(name), 0) => Ok(name),
            (None, _) => Ok(site.to_owned()),
            (Some(first), _) => {
                let names: Vec<String> = std::iter::once(first)
                    .chain(all)
                    .take(NAMED)
                    .map(|name| format!("`{name}`"))
                    .collect();
                Err(SiteError::Short { site: site.to_owned(), names: names.join(" and ") })
            }
        }
    }
}

/// Returns begin and end of the variable, or of the address at an offset in it, if `site` names it.
fn within((name, from, to): &(String, u64, u64), site: &str) -> Option<(u64, u64)> {
    match site.split_once("+0x") {
        None => (site == name).then_some((*from, *to)),
        Some((known, offset)) if known == name => {
            let from = from + u64::from_str_radix(offset, 16).ok()?;
            Some((from, from + 1))
        }
        Some(_) => None,
    }
}

impl Module {
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let elf = Elf::new(mapped_file::bytes(path)?)?;
        let real = path.canonicalize().ok()?;
        let mut module = Self {
            name: path.file_name()?.to_string_lossy().into_owned(),
            names: Names::of_file(&real),
            path: real,
            calls: calls(&elf),
            exports: BTreeMap::new(),
            variables: Vec::new(),
        };
        for symbol in elf.symbols() {
            let name = symbol.name.to_owned();
            if symbol.is_variable {
                let (from, to) = (symbol.address, symbol.address + symbol.size);
                // Both as an account prints it and as it is in the file.
                module.variables.push((demangled(&name), from, to));
                module.variables.push((name, from, to));
            } else {
                module.exports.entry(symbol.address).or_default().push(name);
            }
        }
        module.calls.sort();
        module.variables.sort();
        module.variables.dedup();
        Some(module)
    }

    /// Returns the names of the target of the call that returns to this address, if there is one.
    pub(crate) fn called(&self, site: u64) -> Option<Vec<String>> {
        let at = self.calls.partition_point(|(known, _)| *known < site);
        match self.calls.get(at).filter(|(known, _)| *known == site)? {
            (_, Target::Named(name)) => Some(vec![name.clone()]),
            (_, Target::Here(address)) => {
                Some(self.exports.get(address).cloned().unwrap_or_default())
            }
        }
    }

    /// Returns whether the call that returns to this address is one of a function of another file.
    pub(crate) fn leaves(&self, site: u64) -> bool {
        let at = self.calls.partition_point(|(known, _)| *known < site);
        matches!(self.calls.get(at), Some((known, Target::Named(_))) if *known == site)
    }

    fn file(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn line(&self, what: &str, from: u64, to: u64) -> String {
        format!("{what} {from:x} {to:x} {}\n", self.name)
    }
}

/// Returns the libraries that the loader lists for a program. No code of the program is executed.
fn libraries(program: &Path) -> Vec<PathBuf> {
    fn is_libc(path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        LIBC.iter().any(|libc| name.starts_with(libc))
    }
    let mut command = Command::new("/lib64/ld-linux-x86-64.so.2");
    command.arg("--list").arg(program).env_remove("LD_PRELOAD");
    let Ok(output) = command.stdin(std::process::Stdio::null()).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.lines().filter_map(|line| {
        let (_, path) = line.split_once(" => ")?;
        Some(PathBuf::from(path.split(" (0x").next()?.trim()))
    });
    paths.filter(|path| path.is_absolute() && !is_libc(path)).collect()
}

/// Finds every call by its bytes. A jump through a slot is a stub: a call of the stub counts as a
/// call of the function in the slot.
fn calls(elf: &Elf) -> Vec<(u64, Target)> {
    const CALL: u8 = 0xe8;
    const BY_SLOT: u8 = 0xff;
    const CALL_SLOT: u8 = 0x15;
    const JUMP_SLOT: u8 = 0x25;
    /// `endbr64`, with which a stub may begin.
    const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let slots = elf.slots();
    let (mut direct, mut all, mut stubs) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (address, code) in elf.code() {
        for (at, window) in code.windows(6).enumerate() {
            let distance = |from: usize| {
                let bytes = window[from..from + 4].try_into().expect("four bytes");
                i64::from(i32::from_le_bytes(bytes))
            };
            let here = address + at as u64;
            match window {
                [CALL, ..] => {
                    let next = here + 5;
                    direct.push((next, next.wrapping_add_signed(distance(1))));
                }
                [BY_SLOT, CALL_SLOT, ..] => {
                    let slot = (here + 6).wrapping_add_signed(distance(2));
                    let name = slots.get(&slot);
                    all.extend(name.map(|name| (here + 6, Target::Named((*name).to_owned()))));
                }
                [BY_SLOT, JUMP_SLOT, ..] => {
                    let slot = (here + 6).wrapping_add_signed(distance(2));
                    let Some(name) = slots.get(&slot) else { continue };
                    // A prefix, `endbr64`, or both may precede the jump.
                    for back in [0, 1, 4, 5] {
                        let is_start = match back {
                            0 => true,
                            1 => at >= 1 && code[at - 1] == 0xf2,
                            _ => at >= back && code[at - back..].starts_with(&LANDING),
                        };
                        if is_start {
                            stubs.insert(here - back as u64, *name);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let target = |address: u64| match stubs.get(&address) {
        Some(name) => Target::Named((*name).to_owned()),
        None => Target::Here(address),
    };
    all.extend(direct.into_iter().map(|(site, address)| (site, target(address))));
    all
}

/// Returns all calls of functions that create or acquire mutexes, for themselves or for their
/// callers.
fn places(modules: &[Module]) -> Vec<Place> {
    let mut found = Vec::new();
    let mut named: BTreeSet<String> = TAKE.iter().map(|name| (*name).to_owned()).collect();
    let mut here: BTreeSet<(usize, u64)> = BTreeSet::new();
    let mut seen: BTreeSet<(usize, u64)> = BTreeSet::new();
    for _ in 0..DEPTH {
        let (names, addresses) = (std::mem::take(&mut named), std::mem::take(&mut here));
        for (index, module) in modules.iter().enumerate() {
            for (site, target) in &module.calls {
                let is_meant = match target {
                    Target::Named(name) => names.contains(name),
                    Target::Here(address) => addresses.contains(&(index, *address)),
                };
                if !is_meant || !seen.insert((index, *site)) {
                    continue;
                }
                let passing = module.names.passing(*site);
                if let Some(start) = passing {
                    here.insert((index, start));
                    named.extend(module.exports.get(&start).into_iter().flatten().cloned());
                }
                found.push(Place { module: index, site: *site, passes_on: passing.is_some() });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_meant_whole_or_at_an_offset() {
        let journals = ("journals".to_owned(), 0x4000, 0x4078);
        assert_eq!(within(&journals, "journals"), Some((0x4000, 0x4078)));
        assert_eq!(within(&journals, "journals+0x28"), Some((0x4028, 0x4029)));
        assert_eq!(within(&journals, "journal"), None);
    }
}
