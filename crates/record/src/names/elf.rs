//! Parts of an object file that show its calls of libc functions: sections, symbols, and PLT and
//! GOT slots. Supports 64-bit little-endian ELF; truncated or out-of-range data counts as absent.

use std::collections::BTreeMap;

// Section types, flags and relocation types of x86-64.
const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 4;
const DYNAMIC_SYMBOLS: u32 = 11;
const EXECUTABLE: u64 = 4;
const NO_BITS: u32 = 8;
const GLOB_DAT: u64 = 6;
const JUMP_SLOT: u64 = 7;

#[derive(Clone, Copy)]
struct Section {
    name: usize,
    kind: u32,
    flags: u64,
    address: u64,
    offset: usize,
    size: usize,
    link: usize,
}

/// A symbol that the file defines.
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_variable: bool,
}

/// An object file.
pub(crate) struct Elf {
    bytes: Vec<u8>,
    sections: Vec<Section>,
}

impl Elf {
    /// Parses an object file. Returns `None` if the bytes are not a 64-bit little-endian ELF file.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        // 64 bits, little endian.
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let mut elf = Self { bytes, sections: Vec::new() };
        let (table, size) = (elf.number(40, 8)? as usize, elf.number(58, 2)? as usize);
        for index in 0..elf.number(60, 2)? as usize {
            let at = table.checked_add(index * size)?;
            elf.sections.push(Section {
                name: elf.number(at, 4)? as usize,
                kind: elf.number(at + 4, 4)? as u32,
                flags: elf.number(at + 8, 8)?,
                address: elf.number(at + 16, 8)?,
                offset: elf.number(at + 24, 8)? as usize,
                size: elf.number(at + 32, 8)? as usize,
                link: elf.number(at + 40, 4)? as usize,
            });
        }
        Some(elf)
    }

    fn number(&self, at: usize, length: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Returns the offsets of all entries in sections of a kind, each with the section that its own
    /// is linked to.
    fn entries(&self, kind: u32, size: usize) -> impl Iterator<Item = (usize, Section)> {
        let sections = self.sections.iter().filter(move |one| one.kind == kind);
        sections.flat_map(move |section| {
            let link = self.sections.get(section.link).copied();
            let count = section.size / size;
            let offset = section.offset;
            (0..count).filter_map(move |index| Some((offset.checked_add(index * size)?, link?)))
        })
    }

    fn text(&self, section: Section, at: usize) -> Option<&str> {
        let bytes = self.bytes.get(section.offset.checked_add(at)?..)?;
        std::str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()
    }

    /// Returns the name of the file with its debug data, if it has a debug link.
    pub(crate) fn debug_link(&self) -> Option<String> {
        let names = *self.sections.get(self.number(62, 2)? as usize)?;
        let is_link = |one: &&Section| self.text(names, one.name) == Some(".gnu_debuglink");
        Some(self.text(*self.sections.iter().find(is_link)?, 0)?.to_owned())
    }

    /// Returns the file offset of the byte with this address, if it is in an executable section.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        let mut sections = self.sections.iter().filter(|one| {
            one.kind != NO_BITS && one.flags & EXECUTABLE != 0 && address >= one.address
        });
        let section = sections.find(|one| address - one.address < one.size as u64)?;
        Some(section.offset as u64 + (address - section.address))
    }

    /// Returns the functions and variables that the file defines.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol<'_>> {
        const SIZE: usize = 24;
        let all = [SYMBOLS, DYNAMIC_SYMBOLS].into_iter().flat_map(|kind| self.entries(kind, SIZE));
        all.filter_map(|(at, names)| {
            let kind = self.number(at + 4, 1)? & 0xf;
            let is_here = self.number(at + 6, 2)? != 0 && (1..=2).contains(&kind);
            let name = self.text(names, self.number(at, 4)? as usize)?;
            let (address, size) = (self.number(at + 8, 8)?, self.number(at + 16, 8)?);
            is_here.then_some(Symbol { name, address, size, is_variable: kind == 1 })
        })
    }

    /// Returns the addresses of slots, with the names of the symbols that the loader stores there.
    pub(crate) fn slots(&self) -> BTreeMap<u64, &str> {
        const SIZE: usize = 24;
        const SYMBOL_SIZE: usize = 24;
        let slot = |(at, symbols): (usize, Section)| {
            let info = self.number(at + 8, 8)?;
            if ![GLOB_DAT, JUMP_SLOT].contains(&(info & 0xffff_ffff)) {
                return None;
            }
            let symbol = symbols.offset.checked_add((info >> 32) as usize * SYMBOL_SIZE)?;
            let names = *self.sections.get(symbols.link)?;
            let name = self.text(names, self.number(symbol, 4)? as usize)?;
            Some((self.number(at, 8)?, name))
        };
        self.entries(RELOCATIONS, SIZE).filter_map(slot).collect()
    }

    /// Returns the executable sections: address and bytes.
    pub(crate) fn code(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let code = self.sections.iter();
        let code = code.filter(|one| one.flags & EXECUTABLE != 0 && one.kind != NO_BITS);
        code.filter_map(|one| {
            Some((one.address, self.bytes.get(one.offset..one.offset.checked_add(one.size)?)?))
        })
    }
}
