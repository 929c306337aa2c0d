//! Identity of the files that a process had mapped. A path is not enough: it names a different file
//! in another mount namespace, and after an upgrade. The build-id is in the memory of the process;
//! if there is none, device and inode number must match.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, major, minor};

use crate::layout::program::number;

/// ELF type of an object that is linked to fixed addresses.
pub(crate) const FIXED: u16 = 2;
/// Separator between the address of an object in a memory map and its identity.
const MARK: &str = "-id ";

/// The header of an object in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its ELF type.
    pub(crate) kind: u16,
    /// Hexadecimal digits; empty if it has no build-id.
    pub(crate) build_id: String,
}

/// A mapping of a file from its beginning.
pub(crate) struct Mapped<'a> {
    pub(crate) path: &'a Path,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Device and inode number of the file; zeros if unknown.
    pub(crate) file: (u32, u32, u64),
}

impl Identity {
    /// Parses a line that was added to a memory map: address, kind and build-id.
    pub(crate) fn parse(line: &str) -> Option<(u64, Self)> {
        let (start, rest) = line.split_once(MARK)?;
        let mut words = rest.split_ascii_whitespace();
        let kind = words.next()?.parse().ok()?;
        let build_id = words.next().unwrap_or_default().to_owned();
        Some((u64::from_str_radix(start, 16).ok()?, Self { kind, build_id }))
    }

    /// Reads the identity of an object. `read` reads bytes at an offset and returns whether it
    /// succeeded.
    pub(crate) fn read(read: impl Fn(u64, &mut [u8]) -> bool) -> Option<Self> {
        const NOTE: u64 = 4;
        /// More than any program has.
        const MOST: u64 = 128;
        let mut head = [0; 64];
        if !read(0, &mut head) || !head.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let (table, size) = (number(&head, 32, 8), number(&head, 54, 2));
        let mut found = Self { kind: number(&head, 16, 2) as u16, build_id: String::new() };
        for index in 0..number(&head, 56, 2).min(MOST) {
            let mut entry = [0; 56];
            if !read(table.wrapping_add(index * size), &mut entry) {
                break;
            }
            if number(&entry, 0, 4) == NOTE && found.build_id.is_empty() {
                let mut notes = vec![0; number(&entry, 32, 8).min(4096) as usize];
                if read(number(&entry, 8, 8), &mut notes) {
                    found.build_id = build_id(&notes);
                }
            }
        }
        Some(found)
    }

    /// Returns whether this is the file of a mapping. Only a regular file is opened.
    fn is(&self, path: &Path, mapped: &Mapped<'_>) -> bool {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        // Checked before opening, because opening a device can have side effects.
        if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
            return false;
        }
        let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
        let file = File::from(file);
        let Some(found) = file.metadata().ok().filter(std::fs::Metadata::is_file) else {
            return false;
        };
        if self.build_id.is_empty() {
            let dev = found.dev();
            return (major(dev), minor(dev), found.ino()) == mapped.file;
        }
        let own = Self::read(|at, bytes| file.read_exact_at(bytes, at).is_ok());
        own.is_some_and(|own| own.build_id == self.build_id)
    }

    /// Returns a path where the file of a mapping can be opened: its own, or one through the
    /// process `pid`.
    pub(crate) fn find(&self, mapped: &Mapped<'_>, pid: Option<u32>) -> Option<PathBuf> {
        let all = std::iter::once(mapped.path.to_owned()).chain(pid.into_iter().flat_map(|pid| {
            let inside = format!("/proc/{pid}/root{}", mapped.path.display());
            let itself = format!("/proc/{pid}/map_files/{:x}-{:x}", mapped.start, mapped.end);
            [PathBuf::from(inside), PathBuf::from(itself)]
        }));
        all.into_iter().find(|path| self.is(path, mapped))
    }

    /// Returns a file in or below `directory` with this build-id.
    pub(crate) fn find_below(&self, directory: &Path) -> Option<PathBuf> {
        below(directory, 4).into_iter().find(|path| {
            let file = File::open(path).ok();
            let own = file.and_then(|file| Self::read(|at, b| file.read_exact_at(b, at).is_ok()));
            own.is_some_and(|own| !own.build_id.is_empty() && own.build_id == self.build_id)
        })
    }
}

/// Returns the regular files below a directory, to this depth, which suffices for collections of
/// debug data.
fn below(directory: &Path, depth: usize) -> Vec<PathBuf> {
    let (mut files, mut more) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match std::fs::metadata(entry.path()) {
            Ok(found) if found.is_file() => files.push(entry.path()),
            Ok(found) if found.is_dir() && depth > 0 => more.push(entry.path()),
            _ => {}
        }
    }
    files.sort();
    files.extend(more.iter().flat_map(|directory| below(directory, depth - 1)));
    files
}

/// Returns the memory map of a running process, with an added line for each object in it.
pub(crate) fn with_identities(pid: u32, maps: &str) -> String {
    let mut text = maps.to_owned();
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return text };
    for line in maps.lines().filter(|line| line.contains(" 00000000 ") && line.contains('/')) {
        let Some(start) = line.split('-').next() else { continue };
        let Ok(base) = u64::from_str_radix(start, 16) else { continue };
        let read =
            |at: u64, bytes: &mut [u8]| memory.read_exact_at(bytes, base.wrapping_add(at)).is_ok();
        if let Some(one) = Identity::read(read) {
            let _text_grows = writeln!(text, "{start}{MARK}{} {}", one.kind, one.build_id);
        }
    }
    text
}

/// Returns the build-id in a list of notes; empty if there is none.
fn build_id(notes: &[u8]) -> String {
    const BUILD_ID: u64 = 3;
    let mut rest = notes;
    while rest.len() >= 12 {
        let [name, length] = [0, 4].map(|at| number(rest, at, 4) as usize);
        let (kind, begin) = (number(rest, 8, 4), 12 + name.next_multiple_of(4));
        let Some(end) = begin.checked_add(length) else { break };
        if kind == BUILD_ID && rest.get(12..16) == Some(b"GNU\0") {
            let bytes = rest.get(begin..end).unwrap_or_default();
            return bytes.iter().fold(String::new(), |mut text, byte| {
                let _text_grows = write!(text, "{byte:02x}");
                text
            });
        }
        rest = rest.get(end.next_multiple_of(4)..).unwrap_or_default();
    }
    String::new()
}

/// Reads a whole file of a reasonable size. Returns `None` for a pipe or a device.
pub(crate) fn bytes(path: &Path) -> Option<Vec<u8>> {
    /// Larger than programs with all their debug data.
    const MOST: u64 = 8 << 30;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= MOST)?;
    let mut bytes = Vec::with_capacity(found.len() as usize);
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_build_is_another_file() {
        let own = std::env::current_exe().expect("a program");
        let file = File::open(&own).expect("it is there");
        let found = Identity::read(|at, bytes| file.read_exact_at(bytes, at).is_ok());
        let found = found.expect("an object");
        let path = own.as_path();
        let is_known = |one: &Identity| {
            one.find(&Mapped { path, start: 0, end: 0, file: (0, 0, 0) }, None).is_some()
        };
        if !found.build_id.is_empty() {
            assert!(is_known(&found));
        }
        assert!(!is_known(&Identity { build_id: "00ff".to_owned(), ..found.clone() }));
        assert!(!is_known(&Identity { build_id: String::new(), ..found }), "another number");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a memory map");
        let text = with_identities(std::process::id(), &maps);
        let all: Vec<(u64, Identity)> = text.lines().filter_map(Identity::parse).collect();
        assert!(all.len() >= 2, "the program and libc: {text}");
    }

    #[test]
    fn notes_that_are_cut_off_hold_no_build_id() {
        let mut notes = vec![4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 0xab, 0xcd];
        assert_eq!(build_id(&notes), "abcd");
        notes[4] = 200;
        assert_eq!(build_id(&notes), "");
        assert_eq!(build_id(&[0xff; 40]), "");
    }
}
