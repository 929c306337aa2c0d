//! Determines from the file of a program, before it starts, whether it can load the object. Compare
//! `crates/record/src/launch/refusal.rs`, which does the same for the first program.
//!
//! This code runs in children of vfork(2) and in signal handlers: it uses no memory but the stack.

use crate::arch::number::{FGETXATTR, GETEGID, GETEUID, NEWFSTAT as FSTAT, PREAD};
use crate::arch::{ELF_MACHINE, STAT_WORDS};
use crate::layout::{FOREIGN, MUSL, NO_FILE, RIGHTS, SANITIZED, STATIC};
use crate::system::calls::{OPENAT, call, close};

pub(crate) const AT_FDCWD: usize = -100_isize as usize;
/// Flags: no controlling terminal, no wait for a pipe, close on exec.
const HOW: usize = 0o2_004_400;
const EACCES: isize = -13;

/// Maximum depth of scripts that are interpreters of each other, as in the kernel.
const SCRIPTS: usize = 5;
/// Maximum length of the first line of a script, bytes, as in the kernel.
const LINE: usize = 256;
/// Bytes of one read. The stack of a signal handler may have 8 KiB.
const PART: usize = 1024;

// Constants of 64-bit ELF files.
const SEGMENT: usize = 56;
const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
const STRINGS: u64 = 5;
const STRINGS_SIZE: u64 = 10;

/// Names in a program that is built with a sanitizer, which must be loaded first.
const SANITIZERS: [&[u8]; 10] = [
    b"\0libasan.so",
    b"\0__asan_init\0",
    b"\0libhwasan.so",
    b"\0__hwasan_init\0",
    b"\0libtsan.so",
    b"\0__tsan_init\0",
    b"\0libmsan.so",
    b"\0__msan_init\0",
    b"\0liblsan.so",
    b"\0__lsan_init\0",
];
/// No name is longer.
const NAME: usize = 16;

/// Returns whether a program can load the object, and the reason if it cannot. `None` if the file
/// does not exist, or if system calls are forbidden.
pub(crate) fn look(directory: usize, path: usize) -> Option<Result<(), u64>> {
    let mut line = [0; LINE];
    let (mut directory, mut path) = (directory, path);
    for _ in 0..SCRIPTS {
        let descriptor = call(OPENAT, [directory, path, HOW, 0, 0, 0]);
        let file = match descriptor {
            0.. => File(descriptor as usize),
            // The file may be executable but not readable.
            EACCES => return Some(Err(NO_FILE)),
            _ => return None,
        };
        let is_script = file.read(0, &mut line).is_some_and(|length| {
            line[length.min(LINE - 1)] = 0;
            line.starts_with(b"#!")
        });
        if !is_script {
            return file.takes();
        }
        let blank = |byte: &u8| b" \t".contains(byte);
        let start = 2 + line[2..].iter().take_while(|byte| blank(byte)).count();
        let length =
            line[start..].iter().position(|byte| blank(byte) || [b'\n', 0].contains(byte))?;
        line[start + length] = 0;
        (directory, path) = (AT_FDCWD, line[start..].as_ptr() as usize);
    }
    None
}

pub(crate) fn look_again(descriptor: usize) -> Option<Result<(), u64>> {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let digits = 1 + descriptor.checked_ilog10().unwrap_or(0) as usize;
    let (mut rest, start) = (descriptor, b"/proc/self/fd/".len());
    for place in path.get_mut(start..start + digits)?.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    look(AT_FDCWD, path.as_ptr() as usize)
}

/// Returns the same for a path relative to a directory. An empty path denotes the descriptor
/// itself.
pub(crate) fn look_from(directory: usize, path: usize) -> Option<Result<(), u64>> {
    // SAFETY: a C string, by the contract of the function.
    let is_empty = unsafe { *(path as *const u8) } == 0;
    if is_empty { look_again(directory) } else { look(directory, path) }
}

/// Returns whether this process can open a file, such as the object, for reading.
pub(crate) fn can_open(path: usize) -> bool {
    let descriptor = call(OPENAT, [AT_FDCWD, path, HOW, 0, 0, 0]);
    if descriptor >= 0 {
        close(descriptor);
    }
    descriptor >= 0
}

/// A descriptor that is closed when dropped.
struct File(usize);

impl Drop for File {
    fn drop(&mut self) {
        close(self.0 as isize);
    }
}

/// Type, offset, address and size in the file of a segment.
type Segment = [u64; 4];

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|one| one == part)
}

impl File {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Option<usize> {
        let (place, room) = (bytes.as_mut_ptr() as usize, bytes.len());
        usize::try_from(call(PREAD, [self.0, place, room, offset as usize, 0, 0])).ok()
    }

    fn takes(&self) -> Option<Result<(), u64>> {
        /// Programs have fewer segments.
        const SEGMENTS: u64 = 64;
        let mut head = [0; 64];
        self.read(0, &mut head)?;
        if !head.starts_with(b"\x7fELF") {
            // libc starts the shell for a file of another format.
            return Some(Ok(()));
        }
        if self.adds_rights() {
            return Some(Err(RIGHTS));
        }
        if head[4] != 2 || head[18] != ELF_MACHINE {
            return Some(Err(FOREIGN));
        }
        let (table, count) = (number(&head, 32, 8), number(&head, 56, 2).min(SEGMENTS));
        let segment = |index: u64| -> Option<Segment> {
            let mut bytes = [0; SEGMENT];
            self.read(table.wrapping_add(index * SEGMENT as u64), &mut bytes)?;
            Some([(0, 4), (8, 8), (16, 8), (32, 8)].map(|(at, length)| number(&bytes, at, length)))
        };
        let find = |kind: u64| (0..count).filter_map(segment).find(|one| one[0] == kind);
        let Some([_, offset, ..]) = find(INTERPRETER) else { return Some(Err(STATIC)) };
        let mut loader = [0; LINE];
        self.read(offset, &mut loader)?;
        let end = loader.iter().position(|byte| *byte == 0).unwrap_or(LINE);
        if contains(&loader[..end], b"ld-musl") {
            return Some(Err(MUSL));
        }
        let strings = find(DYNAMIC).and_then(|dynamic| {
            let (address, size) = self.strings(&dynamic)?;
            let [_, offset, start, _] =
                (0..count).filter_map(segment).find(|[kind, _, start, length]| {
                    *kind == LOAD && (*start..start.saturating_add(*length)).contains(&address)
                })?;
            Some((offset.wrapping_add(address - start), size))
        });
        Some(match strings {
            Some((offset, size)) if self.has_sanitizer(offset, size) => Err(SANITIZED),
            _ => Ok(()),
        })
    }

    /// Returns the address and the size of the loader's string table.
    fn strings(&self, [_, offset, _, size]: &Segment) -> Option<(u64, u64)> {
        const ENTRY: usize = 16;
        let (mut address, mut length, mut bytes) = (None, None, [0; PART]);
        for start in (0..(*size).min(1 << 16)).step_by(PART) {
            let got = self.read(offset.wrapping_add(start), &mut bytes)?;
            for entry in bytes[..got].chunks_exact(ENTRY) {
                match number(entry, 0, 8) {
                    STRINGS => address = Some(number(entry, 8, 8)),
                    STRINGS_SIZE => length = Some(number(entry, 8, 8)),
                    _ => {}
                }
            }
        }
        address.zip(length)
    }

    /// Returns whether the name of a sanitizer is in the string table. Of a very large table only
    /// the beginning is read: this takes time at each start.
    fn has_sanitizer(&self, offset: u64, size: u64) -> bool {
        const MOST: u64 = 4 << 20;
        let mut bytes = [0; PART];
        let mut parts = (0..size.min(MOST)).step_by(PART - NAME);
        parts.any(|start| {
            let got = self.read(offset.wrapping_add(start), &mut bytes).unwrap_or(0);
            // All names contain "san", so parts without it need not be compared.
            let part = &bytes[..got];
            contains(part, b"san") && SANITIZERS.iter().any(|name| contains(part, name))
        })
    }

    /// Returns whether the program gets rights that the process which starts it lacks: the loader
    /// then ignores the objects that its user chooses.
    fn adds_rights(&self) -> bool {
        const SET_USER: u32 = 0o4000;
        const SET_GROUP: u32 = 0o2010;
        let mut stat = [0_u32; 36];
        let found = call(FSTAT, [self.0, stat.as_mut_ptr() as usize, 0, 0, 0, 0]);
        let own = |number: i64| call(number, [0; 6]) as u32;
        let [mode, user, group] = STAT_WORDS.map(|word| stat[word]);
        if found != 0 || mode & SET_USER != 0 && user != own(GETEUID) {
            return true;
        }
        if mode & SET_GROUP == SET_GROUP && group != own(GETEGID) {
            return true;
        }
        let (name, mut value) = (c"security.capability".as_ptr() as usize, [0_u64; 8]);
        let place = value.as_mut_ptr() as usize;
        let capable = call(FGETXATTR, [self.0, name, place, size_of_val(&value), 0, 0]) > 0;
        capable && own(GETEUID) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::{Path, PathBuf};

    use super::*;

    fn looked(path: &Path) -> Option<Result<(), u64>> {
        look(AT_FDCWD, CString::new(path.as_os_str().as_bytes()).unwrap().as_ptr() as usize)
    }

    /// Writes a file for the test called `test`, and returns its path.
    fn file(test: &str, bytes: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("convoy-{test}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn judged(test: &str, bytes: &[u8]) -> Option<Result<(), u64>> {
        let path = file(test, bytes);
        let found = looked(&path);
        std::fs::remove_file(path).unwrap();
        found
    }

    /// The header of an ELF file of this machine without segments.
    fn header() -> [u8; 64] {
        let mut head = [0; 64];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[18] = ELF_MACHINE;
        head
    }

    #[test]
    fn a_dynamic_program_can_load_the_object_and_so_can_a_script_of_it() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(looked(&own), Some(Ok(())));
        let script = format!("#! {} an argument\n", own.display());
        assert_eq!(judged("script", script.as_bytes()), Some(Ok(())));
        assert_eq!(judged("text", b"echo a script for the shell\n"), Some(Ok(())));
    }

    #[test]
    fn programs_that_cannot_load_it_are_refused_with_the_reason() {
        assert_eq!(judged("static", &header()), Some(Err(STATIC)));
        let mut head = header();
        head[18] ^= 1;
        assert_eq!(judged("machine", &head), Some(Err(FOREIGN)));
        let mut head = header();
        head[4] = 1;
        assert_eq!(judged("bits", &head), Some(Err(FOREIGN)));
        // One segment, right after the header, with the loader's name after it.
        let mut bytes = [&header()[..], &[0; SEGMENT], b"/lib/ld-musl-x86_64.so.1\0"].concat();
        (bytes[32], bytes[56], bytes[64]) = (64, 1, INTERPRETER as u8);
        bytes[72] = (64 + SEGMENT) as u8;
        assert_eq!(judged("musl", &bytes), Some(Err(MUSL)));
    }

    #[test]
    fn missing_files_and_scripts_of_themselves_are_not_judged() {
        assert_eq!(looked(Path::new("/no/such/program")), None);
        let path = file("circle", b"");
        std::fs::write(&path, format!("#!{}\n", path.display())).unwrap();
        assert_eq!(looked(&path), None);
        std::fs::remove_file(path).unwrap();
    }
}
