//! The sizes of the functions in the object files, computed when this crate is built: the program
//! needs neither the files nor a reader of them.

use std::collections::{BTreeMap, BTreeSet};

use object::read::archive::ArchiveFile;
use object::{
    File, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SectionKind,
};

/// Functions that every lock has.
const FUNCTIONS: [&str; 4] = ["acquire", "try_acquire", "acquire_unless", "release"];
/// Functions that only readers need.
const SHARED: [&str; 2] = ["acquire_shared", "release_shared"];

/// Instructions, initialised variables, and variables that are zero at the start, bytes.
type Size = [u64; 3];

/// The locks of an archive, each with its size without and with the functions of readers.
pub(crate) fn sizes(archive: &[u8]) -> Result<Vec<(String, Size, Size)>, object::Error> {
    let code = Code::read(archive)?;
    let with_readers = [&FUNCTIONS[..], &SHARED].concat();
    let mut sizes = Vec::new();
    for name in code.symbols.keys().filter_map(|symbol| symbol.strip_prefix("acquire:")) {
        let size = code.size(name, &FUNCTIONS)?;
        sizes.push((name.to_owned(), size, code.size(name, &with_readers)?));
    }
    Ok(sizes)
}

/// A section of one of the files: their numbers.
type Place = (usize, usize);

/// All object files, by what their sections refer to.
struct Code<'a> {
    files: Vec<File<'a>>,
    /// Where each global symbol is defined.
    symbols: BTreeMap<String, Place>,
}

impl<'a> Code<'a> {
    fn read(archive: &'a [u8]) -> Result<Self, object::Error> {
        let (mut files, mut symbols) = (Vec::new(), BTreeMap::new());
        for member in ArchiveFile::parse(archive)?.members() {
            let member = member?;
            // The archive also contains metadata of the compiler.
            if !member.name().ends_with(b".o") {
                continue;
            }
            let file = File::parse(member.data(archive)?)?;
            for symbol in file.symbols().filter(ObjectSymbol::is_global) {
                if let Some(section) = symbol.section_index() {
                    symbols.insert(symbol.name()?.to_owned(), (files.len(), section.0));
                }
            }
            files.push(file);
        }
        Ok(Self { files, symbols })
    }

    /// The size of these functions of a lock with all sections that they refer to.
    fn size(&self, lock: &str, functions: &[&str]) -> Result<Size, object::Error> {
        let mut open = Vec::new();
        for function in functions {
            let name = format!("{function}:{lock}");
            let place = self.symbols.get(&name).copied();
            open.push(place.unwrap_or_else(|| panic!("no object file has {name}")));
        }
        let (mut seen, mut size) = (BTreeSet::new(), Size::default());
        while let Some(place) = open.pop() {
            if !seen.insert(place) {
                continue;
            }
            let section = self.files[place.0].section_by_index(SectionIndex(place.1))?;
            // Constants that contain addresses are written only by the linker.
            let constant = section.name()?.starts_with(".data.rel.ro");
            match section.kind() {
                _ if constant => {}
                SectionKind::Text => size[0] += section.size(),
                SectionKind::Data | SectionKind::Tls => size[1] += section.size(),
                SectionKind::UninitializedData | SectionKind::UninitializedTls => {
                    size[2] += section.size();
                }
                _ => {}
            }
            open.extend(self.referred(place)?);
        }
        Ok(size)
    }

    /// Returns the sections to which the section at `place` refers, except sections of other
    /// libraries.
    fn referred(&self, place: Place) -> Result<Vec<Place>, object::Error> {
        let file = &self.files[place.0];
        let mut places = Vec::new();
        for (_, relocation) in file.section_by_index(SectionIndex(place.1))?.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(index)?;
            let local = symbol.section_index().map(|section| (place.0, section.0));
            places.extend(local.or_else(|| self.symbols.get(symbol.name().ok()?).copied()));
        }
        Ok(places)
    }
}
