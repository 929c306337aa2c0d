//! Parts of an object file that show its calls of libc functions: sections, symbols, and PLT and
//! GOT slots. Supports 64-bit little-endian ELF; truncated or out-of-range data counts as absent.

use object::LittleEndian as LE;
use object::elf::{FileHeader64, Rela64, SectionHeader64, Sym64};
use object::elf::{R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, STT_FUNC, STT_OBJECT};
use object::elf::{SHF_EXECINSTR, SHT_DYNSYM, SHT_NOBITS, SHT_RELA, SHT_SYMTAB};
use object::pod::Pod;
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use std::collections::BTreeMap;

type Section = SectionHeader64<LE>;

/// A symbol that the file defines.
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_variable: bool,
}

/// An object file.
pub(crate) struct Elf(Vec<u8>);

impl Elf {
    /// Returns `None` if the bytes are not a 64-bit little-endian ELF file.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        Some(Self(bytes)).filter(|elf| elf.header().is_some())
    }

    fn header(&self) -> Option<(&FileHeader64<LE>, &[Section])> {
        let header = FileHeader64::<LE>::parse(&*self.0).ok()?;
        Some((header, header.section_headers(header.endian().ok()?, &*self.0).ok()?))
    }

    fn sections(&self) -> &[Section] {
        self.header().map_or(&[], |(_, sections)| sections)
    }

    /// Returns the entries of all sections of a kind, each with the section that its own is linked
    /// to.
    fn entries<T: Pod>(&self, kind: u32) -> impl Iterator<Item = (&T, &Section)> {
        let sections = self.sections();
        let tables = sections.iter().filter(move |one| one.sh_type(LE) == kind);
        tables.flat_map(move |section| {
            let entries: &[T] = section.data_as_array(LE, &*self.0).unwrap_or_default();
            let link = sections.get(section.sh_link(LE) as usize);
            entries.iter().filter_map(move |entry| Some((entry, link?)))
        })
    }

    fn text(&self, section: &Section, at: u32) -> Option<&str> {
        let strings = section.strings(LE, &*self.0).ok()??;
        std::str::from_utf8(strings.get(at).ok()?).ok()
    }

    /// Returns the name of the file with its debug data, if it has a debug link.
    pub(crate) fn debug_link(&self) -> Option<String> {
        let (header, sections) = self.header()?;
        let names = sections.get(usize::from(header.e_shstrndx.get(LE)))?;
        let is_link = |one: &&Section| self.text(names, one.sh_name(LE)) == Some(".gnu_debuglink");
        let link = sections.iter().find(is_link)?.data(LE, &*self.0).ok()?;
        Some(std::str::from_utf8(link.split(|byte| *byte == 0).next()?).ok()?.to_owned())
    }

    /// Returns the file offset of the byte with this address, if it is in an executable section.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        self.executable().find_map(|one| {
            let distance = address.checked_sub(one.sh_addr(LE))?;
            (distance < one.sh_size(LE)).then(|| one.sh_offset(LE) + distance)
        })
    }

    /// Returns the functions and variables that the file defines.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol<'_>> {
        let kinds = [SHT_SYMTAB, SHT_DYNSYM].into_iter();
        kinds.flat_map(|kind| self.entries::<Sym64<LE>>(kind)).filter_map(|(symbol, names)| {
            let kind = symbol.st_type();
            let is_here = !symbol.is_undefined(LE) && [STT_OBJECT, STT_FUNC].contains(&kind);
            let name = self.text(names, symbol.st_name(LE))?;
            let (address, size) = (symbol.st_value(LE), symbol.st_size(LE));
            is_here.then_some(Symbol { name, address, size, is_variable: kind == STT_OBJECT })
        })
    }

    /// Returns the addresses of slots, with the names of the symbols that the loader stores there.
    pub(crate) fn slots(&self) -> BTreeMap<u64, &str> {
        let slot = |(entry, table): (&Rela64<LE>, &Section)| {
            let kind = entry.r_type(LE, false);
            if ![R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT].contains(&kind) {
                return None;
            }
            let symbols: &[Sym64<LE>] = table.data_as_array(LE, &*self.0).ok()?;
            let names = self.sections().get(table.sh_link(LE) as usize)?;
            let symbol = symbols.get(entry.r_sym(LE, false) as usize)?;
            Some((entry.r_offset.get(LE), self.text(names, symbol.st_name(LE))?))
        };
        self.entries(SHT_RELA).filter_map(slot).collect()
    }

    fn executable(&self) -> impl Iterator<Item = &Section> {
        let is_code = |one: &&Section| one.sh_flags(LE) & u64::from(SHF_EXECINSTR) != 0;
        self.sections().iter().filter(is_code).filter(|one| one.sh_type(LE) != SHT_NOBITS)
    }

    /// Returns the executable sections: address and bytes.
    pub(crate) fn code(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.executable().filter_map(|one| Some((one.sh_addr(LE), one.data(LE, &*self.0).ok()?)))
    }
}
