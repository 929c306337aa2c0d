//! Names of addresses: functions with file and line, variables, or at least objects and offsets.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Sym, Symbolizer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An object in the memory of a process.
struct Object {
    path: PathBuf,
    /// What is added to its own addresses.
    base: u64,
    /// End of its last part.
    end: u64,
}

/// The names in one process.
pub(crate) struct Names {
    objects: BTreeMap<u64, Object>,
    functions: Symbolizer,
    /// Debug data give the type of a variable for its name.
    variables: Symbolizer,
}

impl Names {
    /// Of a process with this text of `/proc/self/maps`; where it was read twice, later lines hold.
    pub(crate) fn new(maps: &str) -> Self {
        let mut objects: BTreeMap<u64, Object> = BTreeMap::new();
        let lines = maps.lines().filter_map(mapping);
        for (start, end, offset, path) in lines {
            if offset == 0 && objects.get(&start).is_none_or(|known| known.path != path) {
                let base = if is_fixed(&path) { 0 } else { start };
                objects.insert(start, Object { path, base, end });
            } else if let Some((_, object)) = objects.range_mut(..=start).next_back()
                && object.path == path
            {
                object.end = object.end.max(end);
            }
        }
        Self { objects, functions: Symbolizer::new(), variables: Symbolizer::new() }
    }

    /// The object that an address belongs to; its variables of value zero follow its last part.
    fn object(&self, address: u64) -> Option<&Object> {
        /// Room that such variables may take.
        const ZEROS: u64 = 64 << 20;
        let (_, object) = self.objects.range(..=address).next_back()?;
        (address < object.end + ZEROS).then_some(object)
    }

    /// What `symbolizer` knows of an address.
    fn find<'a>(&self, symbolizer: &'a Symbolizer, address: u64, lines: bool) -> Option<Sym<'a>> {
        let object = self.object(address)?;
        let mut elf = Elf::new(&object.path);
        elf.debug_syms = lines;
        let own = Input::VirtOffset(address - object.base);
        symbolizer.symbolize_single(&Source::Elf(elf), own).ok()?.into_sym()
    }

    /// Name, file and line, offset from the function, of an address.
    fn function(&self, address: u64) -> Option<(String, Option<String>, usize)> {
        let symbol = self.find(&self.functions, address, true)?;
        let (mut name, mut code) = (symbol.name.to_string(), symbol.code_info.clone());
        // The innermost inlined function that is not the wrapper of a library.
        for inlined in &symbol.inlined {
            if !is_wrapper(&inlined.name) {
                name = inlined.name.to_string();
                code = inlined.code_info.clone().map(Box::new).or(code);
            }
        }
        let line = code.map(|code| {
            let file = Path::new(&code.file).file_name().unwrap_or(&code.file);
            let file = file.to_string_lossy();
            code.line.map_or_else(|| file.to_string(), |line| format!("{file}:{line}"))
        });
        Some((name, line, symbol.offset))
    }

    /// The place that a call returns to.
    pub(crate) fn place(&self, site: u64) -> String {
        match self.function(site.saturating_sub(1)) {
            Some((name, Some(line), _)) => format!("{name} ({line})"),
            Some((name, None, offset)) => format!("{name}+{:#x} ({})", offset + 1, self.file(site)),
            None => self.offset(site),
        }
    }

    /// The variable at an address, if it has a name.
    pub(crate) fn variable(&self, address: u64) -> Option<String> {
        let symbol = self.find(&self.variables, address, false)?;
        let (name, offset) = (symbol.name.to_string(), symbol.offset);
        Some(if offset == 0 { name } else { format!("{name}+{offset:#x}") })
    }

    fn file(&self, address: u64) -> String {
        let name = self.object(address).and_then(|object| object.path.file_name());
        name.map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    fn offset(&self, address: u64) -> String {
        match self.object(address).filter(|object| address < object.end) {
            Some(object) => format!("{}+{:#x}", self.file(address), address - object.base),
            None => format!("{address:#x}"),
        }
    }
}

/// Functions that only pass a lock on to pthread.
fn is_wrapper(name: &str) -> bool {
    ["__gthread_", "std::mutex::", "std::unique_lock", "std::lock_guard", "std::scoped_lock"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Start, end, offset in the file, and the file of a line of a memory map.
fn mapping(line: &str) -> Option<(u64, u64, u64, PathBuf)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let offset = hex(words.nth(1)?)?;
    let path = line.find('/').map(|at| PathBuf::from(&line[at..]))?;
    Some((hex(start)?, hex(end)?, offset, path))
}

/// Whether a file is a program that is linked to fixed addresses.
fn is_fixed(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 18];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    // ELF: the type stands at byte 16; 2 is an executable that cannot move.
    read.is_ok() && head[..4] == *b"\x7fELF" && head[16] == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_memory_map_are_read_and_places_without_symbols_have_offsets() {
        let maps = "1000-2000 r--p 00000000 fd:00 12  /no/such/lib.so\n\
                    2000-5000 r-xp 00001000 fd:00 12  /no/such/lib.so\n\
                    7000-8000 rw-p 00000000 00:00 0\n[no line]\n";
        let names = Names::new(maps);
        assert_eq!(names.place(0x2345), "lib.so+0x1345");
        assert_eq!(names.place(0x900), "0x900");
        assert_eq!(names.variable(0x2345), None);
    }
}
