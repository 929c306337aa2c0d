//! Starting a program with the object before it.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::{OBJECT, RecordError};

/// The environment variable with which the loader takes objects before a program.
const PRELOAD: &str = "LD_PRELOAD";

/// Writes the object where the loader finds it, once for each version of it.
///
/// # Errors
/// [`RecordError::Machine`] where there is none; a directory that cannot be written.
pub fn object() -> Result<PathBuf, RecordError> {
    if OBJECT.is_empty() {
        return Err(RecordError::Machine);
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let usable = |directory: &PathBuf| std::fs::create_dir_all(directory).is_ok();
    let directory =
        cache.map(|cache| cache.join("convoy")).filter(usable).unwrap_or_else(std::env::temp_dir);
    object_in(&directory)
}

fn object_in(directory: &Path) -> Result<PathBuf, RecordError> {
    static WRITES: AtomicU32 = AtomicU32::new(0);
    let path = directory.join(format!("libconvoy_record-{:016x}.so", checksum(OBJECT)));
    if std::fs::read(&path).is_ok_and(|there| there == OBJECT) {
        return Ok(path);
    }
    // Another convoy, or another thread of this one, may write it at the same time: each has a file
    // of its own, and whole files replace each other.
    let number = WRITES.fetch_add(1, Relaxed);
    let part = path.with_extension(format!("{}-{number}.part", std::process::id()));
    let written = std::fs::write(&part, OBJECT).and_then(|()| std::fs::rename(&part, &path));
    written.map_err(|source| RecordError::Write { path: path.clone(), source })?;
    Ok(path)
}

/// FNV-1a: tells versions of the object apart.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `words` as a command that loads `object` before everything it starts.
pub fn command(words: &[OsString], object: &Path) -> Command {
    let mut command = Command::new(words.first().map_or(OsStr::new(""), OsString::as_os_str));
    command.args(words.get(1..).unwrap_or_default());
    let mut list = object.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    command.env(PRELOAD, list);
    command
}

/// Why the loader will not put anything before this program, if it will not.
pub fn refusal(program: &OsStr) -> Option<String> {
    let path = find(program)?;
    let name = path.display();
    let mut bytes = Vec::new();
    std::fs::File::open(&path).ok()?.take(4096).read_to_end(&mut bytes).ok()?;
    if bytes.starts_with(b"\x7fELF") && bytes.len() >= 64 && !is_dynamic(&bytes) {
        return Some(format!(
            "{name} is linked statically, so libc's functions in it cannot be reached; link it \
             dynamically, record it as root (the kernel sees its locks), or for Go take a mutex \
             profile (/debug/pprof/mutex), which convoy explain reads"
        ));
    }
    None
}

/// The file that the shell would start.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    if program.to_string_lossy().contains('/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Whether a program asks for the loader: it has a segment of type 3 (ELF of 64 bits).
fn is_dynamic(bytes: &[u8]) -> bool {
    let number = |at: usize, length: usize| {
        let bytes = bytes.get(at..at + length).unwrap_or_default();
        bytes.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|index| number(table.saturating_add(index * size), 4) == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_write_the_object_at_once_leave_all_of_it() {
        let name = format!("convoy-object-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let path = object_in(&directory).expect("it can be written");
                    assert!(std::fs::read(path).is_ok_and(|bytes| bytes == OBJECT), "cut off");
                });
            }
        });
        assert_eq!(std::fs::read_dir(&directory).expect("it is there").count(), 1);
        std::fs::remove_dir_all(directory).expect("it goes away");
    }
}
