//! Names of addresses: functions with file and line, variables, or at least objects and offsets.

pub mod call_sites;
pub(crate) mod code;
pub(crate) mod cxx;
pub(crate) mod debug_files;
pub(crate) mod elf;
pub(crate) mod families;
pub(crate) mod mapped_file;
pub(crate) mod owners;
pub(crate) mod python;
pub mod runtimes;
pub(crate) mod stacks;
pub(crate) mod syscalls;
pub(crate) mod wrappers;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use convoy_os::process::{Mapping, mappings};

use crate::launch::RECORDER;
use crate::names::code::Code;
use crate::names::cxx::without_arguments;
use crate::names::mapped_file::{FIXED, Identity, Mapped};
use crate::names::wrappers::{is_in_locks, is_wrapper, passes_on};

/// Prefix of the name of a lock without a variable. The place follows.
pub const LOCK_OF: &str = "lock of ";
/// The same for something without an owner.
pub const CONDITION_OF: &str = "condition of ";
/// Separator between a place in a function without a name and its nearest caller with a name.
const UNDER: &str = " under ";

/// Returns whether every thread or program begins in this function.
fn is_start(name: &str) -> bool {
    ["start_thread", "clone", "clone3", "_start", "main"].contains(&name)
        || name.starts_with("__libc_start")
}

/// Returns the name of a lock or condition that is not a named variable.
pub(crate) fn named_after(place: &str, is_lock: bool) -> String {
    [if is_lock { LOCK_OF } else { CONDITION_OF }, place].concat()
}

/// Returns the name of a lock at an offset in a variable.
pub(crate) fn with_offset(variable: &str, offset: u64) -> String {
    if offset == 0 { variable.to_owned() } else { format!("{variable}+{offset:#x}") }
}

/// Returns the name of a lock internal to libc, after the function that acquires it.
pub(crate) fn named_inside(function: &str) -> String {
    format!("libc's lock in {function}()")
}

/// An object mapped into the memory of a process.
struct Object {
    path: PathBuf,
    /// File from which it can be read. `None` if the mapped file is gone or has been replaced.
    file: Option<PathBuf>,
    build_id: String,
    /// Difference between addresses in the process and addresses in the file.
    base: u64,
    /// End of its last mapping.
    end: u64,
}

/// Names of the addresses in one process.
pub(crate) struct Names {
    objects: BTreeMap<u64, Object>,
    functions: Symbolizer,
    /// Symbolizer without debug data, since these give a variable the name of its type.
    variables: Symbolizer,
    /// Places in Python code, by call site.
    pub(crate) python: BTreeMap<u64, String>,
    /// Code of files, and whether the functions in them only acquire locks for their callers.
    code: RefCell<BTreeMap<PathBuf, Option<Code>>>,
    taking: RefCell<BTreeMap<u64, bool>>,
}

impl Names {
    /// Creates the names of a process from the text of its `/proc/self/maps` and the lines added to
    /// it. Where the maps were read twice, later lines take precedence. Files are also searched for
    /// through the process `pid`.
    pub(crate) fn new(maps: &str, pid: Option<u32>) -> Self {
        let known: BTreeMap<u64, Identity> = maps.lines().filter_map(Identity::parse).collect();
        let mut objects: BTreeMap<u64, Object> = BTreeMap::new();
        for Mapping { start, end, offset, path, file, .. } in mappings(maps) {
            let Some(path) = path.map(PathBuf::from) else { continue };
            if offset == 0 && objects.get(&start).is_none_or(|known| known.path != path) {
                let identity = known.get(&start).cloned().unwrap_or_default();
                let file = identity.find(&Mapped { path: &path, start, end, file }, pid);
                let is_fixed = if identity.kind == 0 {
                    file.as_deref().is_some_and(is_fixed)
                } else {
                    identity.kind == FIXED
                };
                let base = if is_fixed { 0 } else { start };
                objects
                    .insert(start, Object { path, file, build_id: identity.build_id, base, end });
            } else if let Some((_, object)) = objects.range_mut(..=start).next_back()
                && object.path == path
            {
                object.end = object.end.max(end);
            }
        }
        Self::of(objects)
    }

    fn of(objects: BTreeMap<u64, Object>) -> Self {
        Self {
            objects,
            functions: plain(),
            variables: plain(),
            python: BTreeMap::new(),
            code: RefCell::default(),
            taking: RefCell::default(),
        }
    }

    /// Creates the names of a file that is not mapped, by the addresses in the file.
    pub(crate) fn of_file(path: &Path) -> Self {
        let object = Object {
            path: path.to_owned(),
            file: Some(path.to_owned()),
            build_id: String::new(),
            base: 0,
            end: u64::MAX >> 1,
        };
        Self::of(BTreeMap::from([(0, object)]))
    }

    /// Returns the names and build IDs of objects with files that are gone or have been replaced.
    pub(crate) fn gone(&self) -> Vec<(String, String)> {
        let gone = self.objects.values();
        let gone = gone.filter(|one| one.file.is_none() && !one.build_id.is_empty());
        let mut all: Vec<(String, String)> =
            gone.map(|one| (named(&one.path), one.build_id.clone())).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Returns the file from which the contents of an address can be read.
    pub(crate) fn readable(&self, address: u64) -> Option<&PathBuf> {
        self.object(address)?.file.as_ref()
    }

    /// Returns the file name of the library that contains an address, or `None` if no library does.
    pub(crate) fn library(&self, address: u64) -> Option<String> {
        self.own(address).map(|(path, _)| named(path)).filter(|name| name.contains(".so"))
    }

    /// Returns the start of the function around a call if that function only acquires locks for its
    /// callers.
    pub(crate) fn passing(&self, site: u64) -> Option<u64> {
        let begin = self.begin(site)?;
        self.only_takes(site).then_some(begin)
    }

    /// Returns whether the function around a call only acquires locks for its callers.
    fn only_takes(&self, site: u64) -> bool {
        let Some((name, ..)) = self.function(site.saturating_sub(1)) else { return false };
        if passes_on(&name) {
            return true;
        }
        let Some((begin, _)) = self.bounds(site.saturating_sub(1)) else { return false };
        if let Some(known) = self.taking.borrow().get(&begin) {
            return *known;
        }
        let takes = self.only_takes_by_code(begin).unwrap_or(false);
        self.taking.borrow_mut().insert(begin, takes);
        takes
    }

    fn only_takes_by_code(&self, begin: u64) -> Option<bool> {
        let path = self.readable(begin)?;
        let mut files = self.code.borrow_mut();
        let code = files.entry(path.clone());
        let code = code.or_insert_with(|| Code::new(mapped_file::bytes(path)?)).as_ref()?;
        let base = self.object(begin)?.base;
        let (start, size) = self.bounds(begin)?;
        let bounds = |address: u64| {
            let (start, size) =
                self.bounds(address + base).filter(|(start, _)| *start == address + base)?;
            Some((start - base, size))
        };
        Some(code.only_takes(start - base, size, &bounds))
    }

    /// Returns start and size of the function at an address. Functions inlined into it are ignored.
    fn bounds(&self, address: u64) -> Option<(u64, u64)> {
        let symbol = self.find(&self.functions, address, false)?;
        Some((address.checked_sub(symbol.offset as u64)?, symbol.size? as u64))
    }

    /// Returns whether the place that a call returns to has this name: the full name that an
    /// account prints, its function, or its file and line. The names of inlined functions count as
    /// well.
    pub(crate) fn is_called(&self, site: u64, name: &str) -> bool {
        let name = name.strip_prefix(LOCK_OF).unwrap_or(name);
        let name = name.split(UNDER).next().unwrap_or(name);
        if self.place_of(site) == name {
            return true;
        }
        let Some(symbol) = self.find(&self.functions, site.saturating_sub(1), true) else {
            return false;
        };
        let inlined = symbol.inlined.iter();
        let inlined = inlined.map(|one| (demangled(&one.name), one.code_info.as_ref()));
        let outer = (demangled(&symbol.name), symbol.code_info.as_deref());
        let own = self.name(site.saturating_sub(1));
        let mut all = std::iter::once(outer).chain(inlined);
        all.any(|(function, code)| {
            let plain = without_arguments(&function);
            let line = code.map(line);
            let is_line = line.as_deref() == Some(name);
            let both = || line.as_ref().is_some_and(|line| name == format!("{plain} ({line})"));
            function == name || plain == name || own.as_deref() == Some(name) || is_line || both()
        })
    }

    /// Returns the file that an address belongs to, and the address in that file.
    pub(crate) fn own(&self, address: u64) -> Option<(&PathBuf, u64)> {
        let object = self.object(address).filter(|object| address < object.end)?;
        Some((&object.path, address - object.base))
    }

    /// Returns the start of the function that is called before this return address, if it is called
    /// directly and has a name.
    pub(crate) fn target(&self, site: u64) -> Option<u64> {
        const CALL: u8 = 0xe8;
        let (_, own) = self.own(site)?;
        let elf = crate::names::elf::Elf::new(mapped_file::bytes(self.readable(site)?)?)?;
        let (begin, bytes) = elf
            .code()
            .find(|(begin, bytes)| (*begin + 5..=*begin + bytes.len() as u64).contains(&own))?;
        let at = (own - begin) as usize;
        let offset = bytes[at - 5..at].strip_prefix(&[CALL])?.try_into().ok()?;
        let target = site.wrapping_add_signed(i32::from_le_bytes(offset).into());
        self.name(target).map(|_| target)
    }

    pub(crate) fn is_recorder(&self, address: u64) -> bool {
        let file = self.own(address).and_then(|(path, _)| path.file_name());
        file.is_some_and(|name| name.to_string_lossy().contains(RECORDER))
    }

    /// Returns the name of the function around an address.
    pub(crate) fn name(&self, address: u64) -> Option<String> {
        self.function(address).map(|(name, ..)| name)
    }

    /// Returns the start of the function around a call. Functions inlined into it are ignored.
    pub(crate) fn begin(&self, site: u64) -> Option<u64> {
        let symbol = self.find(&self.functions, site.saturating_sub(1), false)?;
        (site - 1).checked_sub(symbol.offset as u64)
    }

    /// Returns the object that an address belongs to. Its zero-initialized variables follow its
    /// last mapping.
    fn object(&self, address: u64) -> Option<&Object> {
        /// Maximum size of these variables in bytes.
        const ZEROS: u64 = 64 << 20;
        let (_, object) = self.objects.range(..=address).next_back()?;
        (address < object.end + ZEROS).then_some(object)
    }

    fn find<'a>(&self, symbolizer: &'a Symbolizer, address: u64, lines: bool) -> Option<Sym<'a>> {
        let object = self.object(address)?;
        let mut elf = Elf::new(object.file.as_ref()?);
        elf.debug_syms = lines;
        let own = Input::VirtOffset(address - object.base);
        symbolizer.symbolize_single(&Source::Elf(elf), own).ok()?.into_sym()
    }

    /// Returns the name of the function around an address, the file and line of the address, and
    /// its offset in the function.
    fn function(&self, address: u64) -> Option<(String, Option<String>, usize)> {
        let symbol = self.find(&self.functions, address, true)?;
        let (mut name, mut code) = (demangled(&symbol.name), symbol.code_info.clone());
        // Line tables alone contain only the last part of a name. The symbol table contains the
        // full name.
        let full = self.find(&self.functions, address, false).map(|other| demangled(&other.name));
        let full = full.unwrap_or_default();
        name = cxx::whole(&name, &full).unwrap_or(name);
        // Prefer the innermost inlined function that is not a wrapper of a library.
        for inlined in &symbol.inlined {
            let inner = demangled(&inlined.name);
            let is_library = inlined.code_info.as_ref().is_some_and(is_in_locks);
            if !is_library && !is_wrapper(&inner) && !passes_on(&inner) {
                name = cxx::closure(&inner, &full).unwrap_or(inner);
                code = inlined.code_info.clone().map(Box::new).or(code);
            }
        }
        if name.contains("operator()") {
            name = cxx::closure("operator()", &name).unwrap_or(name);
        }
        let name = without_arguments(cxx::without_result(&name)).to_owned();
        Some((name, code.as_deref().map(line), symbol.offset))
    }

    /// Returns the name of the place that a call returns to. If its function only acquires locks
    /// for its callers, returns the name of the nearest caller that does not. If that is in a
    /// library, the place is where the program called the library, or else the outermost function
    /// of that library with a name.
    pub(crate) fn place(&self, site: u64, callers: &[u64]) -> String {
        let known = callers.iter().take_while(|caller| **caller > 1);
        let frames: Vec<u64> = std::iter::once(&site).chain(known).copied().collect();
        let first =
            frames.iter().position(|frame| !self.only_takes(*frame) && !self.starts(*frame));
        let frames = &frames[first.unwrap_or(0)..];
        let inner = frames[0];
        if !self.is_foreign(inner) || self.runtime(inner).is_some() {
            return self.place_of(inner);
        }
        let is_of_program = |frame: &&u64| {
            !self.is_foreign(**frame) && self.runtime(**frame).is_none() && !self.starts(**frame)
        };
        let file = self.own(inner).map(|(path, _)| path);
        let same =
            frames.iter().take_while(|frame| self.own(**frame).map(|(path, _)| path) == file);
        let public = same.filter(|frame| self.name(frame.saturating_sub(1)).is_some()).last();
        self.place_of(*frames.iter().find(is_of_program).or(public).unwrap_or(&inner))
    }

    /// Returns the functions that called a place, outermost first, without those inside of it and
    /// without the starts of threads.
    pub(crate) fn outer(&self, place: &str, callers: &[u64]) -> Vec<String> {
        let known = callers.iter().take_while(|caller| **caller > 1);
        let functions = known.filter_map(|caller| self.name(caller.saturating_sub(1)));
        let mut functions: Vec<String> =
            functions.filter(|name| name == "main" || !is_start(name)).collect();
        let own = place.split(" (").next().unwrap_or(place);
        let inner = functions.iter().position(|name| name == own).map_or(0, |at| at + 1);
        functions.drain(..inner);
        functions.reverse();
        functions
    }

    /// Returns whether a call is in a library without line numbers, or in no known file.
    fn is_foreign(&self, site: u64) -> bool {
        let Some(library) = self.library(site) else { return self.own(site).is_none() };
        // Debug data of libc are often installed.
        let is_libc = ["libc.so", "ld-linux"].iter().any(|libc| library.starts_with(libc));
        let function = self.function(site.saturating_sub(1));
        is_libc || function.is_none_or(|(_, line, _)| line.is_none())
    }

    /// Returns whether a call is in the function that every thread or program begins in.
    fn starts(&self, site: u64) -> bool {
        self.name(site.saturating_sub(1)).is_some_and(|name| is_start(&name) && name != "main")
    }

    /// Adds the nearest named caller to the name of a place in a function without a name.
    pub(crate) fn under(&self, place: String, site: u64, callers: &[u64]) -> String {
        if place != self.offset(site) {
            return place;
        }
        let known = callers.iter().take_while(|caller| **caller > 1);
        let mut named = known.filter_map(|caller| self.name(caller.saturating_sub(1)));
        let caller = named.find(|name| !passes_on(name) && !is_start(name));
        caller.map_or_else(|| place.clone(), |name| format!("{place}{UNDER}{name}"))
    }

    /// Returns the files that contain places in functions without names and that have a debug link,
    /// each with that link.
    pub(crate) fn debug_links(&self, sites: impl Iterator<Item = u64>) -> Vec<(String, String)> {
        let unnamed = sites.filter(|site| self.function(site.saturating_sub(1)).is_none());
        let files: BTreeMap<&PathBuf, u64> =
            unnamed.filter_map(|site| Some((self.readable(site)?, site))).collect();
        let link = |(path, site): (&PathBuf, u64)| {
            let link = crate::names::elf::Elf::new(mapped_file::bytes(path)?)?.debug_link()?;
            Some((self.file(site), link))
        };
        files.into_iter().filter_map(link).collect()
    }

    fn place_of(&self, site: u64) -> String {
        if let Some(place) = self.python.get(&site) {
            return place.clone();
        }
        match self.function(site.saturating_sub(1)) {
            Some((name, Some(line), _)) => format!("{name} ({line})"),
            Some((name, None, offset)) => format!("{name}+{:#x} ({})", offset + 1, self.file(site)),
            None => self.offset(site),
        }
    }

    /// Returns the name of the variable at an address, if it has one.
    pub(crate) fn variable(&self, address: u64) -> Option<String> {
        // Addresses in a file that is gone can be named later.
        if self.object(address).is_some_and(|one| one.file.is_none() && !one.build_id.is_empty()) {
            return Some(self.offset(address)).filter(|name| !name.starts_with("0x"));
        }
        self.symbol(address).map(|(name, offset)| with_offset(&name, offset))
    }

    /// Returns the variable that contains an address, and the offset of the address in it.
    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        let symbol = self.find(&self.variables, address, false)?;
        // The heap of a program at a fixed address follows marks of the linker, such as `_end`.
        let contains = symbol.size.is_some_and(|size| symbol.offset < size);
        contains.then(|| (demangled(&symbol.name), symbol.offset as u64))
    }

    fn file(&self, address: u64) -> String {
        self.object(address).map_or_else(|| "?".to_owned(), |object| named(&object.path))
    }

    fn offset(&self, address: u64) -> String {
        match self.object(address).filter(|object| address < object.end) {
            Some(object) => format!("{}+{:#x}", self.file(address), address - object.base),
            None => format!("{address:#x}"),
        }
    }
}

/// Returns a symbolizer that does not demangle names.
fn plain() -> Symbolizer {
    Symbolizer::builder().enable_demangling(false).build()
}

/// Demangles the names that C++ and Rust compilers generate. Other names stay as they are, because
/// almost any short name is also a mangled type.
pub(crate) fn demangled(name: &str) -> String {
    let own = match name.get(..2) {
        Some("_R") => rustc_demangle::try_demangle(name).map(|name| format!("{name:#}")).ok(),
        Some("_Z") => match rustc_demangle::try_demangle(name) {
            Ok(name) => Some(format!("{name:#}")),
            Err(_) => cpp_demangle::Symbol::new(name).ok().and_then(|name| name.demangle().ok()),
        },
        _ => None,
    };
    own.unwrap_or_else(|| name.to_owned())
}

/// Returns the file name and line.
fn line(code: &CodeInfo<'_>) -> String {
    let file = Path::new(&code.file).file_name().unwrap_or(&code.file).to_string_lossy();
    code.line.map_or_else(|| file.to_string(), |line| format!("{file}:{line}"))
}

/// Returns the name of a file without its directory and without the kernel's suffix for deleted
/// files.
fn named(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

/// Returns whether a file is a program linked to fixed addresses.
fn is_fixed(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 18];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    // ELF: byte 16 is the type. 2 is an executable that cannot be relocated.
    read.is_ok() && head[..4] == *b"\x7fELF" && head[16] == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_no_part_of_a_name() {
        for (name, expected) in [
            (
                "rocksdb::Cache::Find(rocksdb::Slice const&, unsigned int) const",
                "rocksdb::Cache::Find",
            ),
            ("f(void (*)(int))", "f"),
            ("(anonymous namespace)::f", "(anonymous namespace)::f"),
            ("A::operator()", "A::operator()"),
            ("main::{lambda#2}", "main::{lambda#2}"),
            ("std::function<void (int)>::call(int)", "std::function<void (int)>::call"),
            ("<(A, B) as C>::d", "<(A, B) as C>::d"),
            ("main", "main"),
            ("internal/sync.(*Mutex).Lock", "internal/sync.(*Mutex).Lock"),
        ] {
            assert_eq!(without_arguments(name), expected);
        }
    }

    #[test]
    fn names_of_c_stay_as_they_are() {
        for name in ["m", "w", "Pc", "i", "St"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_ZN3Wal6appendEPKci"), "Wal::append(char const*, int)");
    }

    #[test]
    fn lines_of_a_memory_map_are_read_and_places_without_symbols_have_offsets() {
        let maps = "1000-2000 r--p 00000000 fd:00 12  /no/such/lib.so\n\
                    2000-5000 r-xp 00001000 fd:00 12  /no/such/lib.so\n\
                    7000-8000 rw-p 00000000 00:00 0\n[no line]\n";
        let names = Names::new(maps, None);
        assert_eq!(names.place(0x2345, &[]), "lib.so+0x1345");
        assert_eq!(names.place(0x900, &[]), "0x900");
        assert_eq!(names.variable(0x2345), None);
    }
}
