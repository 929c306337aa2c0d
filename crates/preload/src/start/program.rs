//! Determines from the file of a program, before it starts, whether it can load the object.
//!
//! This code runs in children of vfork(2) and in signal handlers: it uses no memory but the stack.

use crate::arch::STAT_WORDS;
use crate::arch::number::{FGETXATTR, GETEGID, GETEUID, NEWFSTAT as FSTAT, PREAD};
use crate::layout::program::{ELF_HEADER, Unfit, fitness};
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
/// Bytes of the names in a program that are searched: this takes time at each start.
const MOST: u64 = 4 << 20;

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

impl File {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Option<usize> {
        let (place, room) = (bytes.as_mut_ptr() as usize, bytes.len());
        usize::try_from(call(PREAD, [self.0, place, room, offset as usize, 0, 0])).ok()
    }

    fn takes(&self) -> Option<Result<(), u64>> {
        let mut head = [0; ELF_HEADER];
        self.read(0, &mut head)?;
        if !head.starts_with(b"\x7fELF") {
            // libc starts the shell for a file of another format.
            return Some(Ok(()));
        }
        if self.adds_rights() {
            return Some(Err(RIGHTS));
        }
        let fitness = fitness(&head, MOST, |offset, bytes| self.read(offset, bytes))?;
        Some(fitness.map_err(|unfit| match unfit {
            Unfit::Foreign => FOREIGN,
            Unfit::Static => STATIC,
            Unfit::Musl => MUSL,
            Unfit::Sanitized(_) => SANITIZED,
        }))
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
    use crate::layout::program::{ELF_MACHINE, INTERPRETER};

    /// Bytes of the header of a segment.
    const SEGMENT: usize = 56;

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
    fn header() -> [u8; ELF_HEADER] {
        let mut head = [0; ELF_HEADER];
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
