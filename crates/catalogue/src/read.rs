//! Reading a file that a user names: regular files of a bounded size only, and never blocking.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Largest data file that is read.
pub const BYTES_MAX: u64 = 16 << 20;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("{0}")]
    System(#[from] io::Error),
    /// A directory, a pipe, a device.
    #[error("this is {0}; name a regular file")]
    Special(&'static str),
    /// Too large.
    #[error("the file is larger than {} MiB", most >> 20)]
    Large {
        /// Largest size, bytes.
        most: u64,
    },
    /// Not text.
    #[error("line {line} is not valid UTF-8; save the file as UTF-8")]
    Encoding {
        /// The line, from 1.
        line: usize,
    },
}

/// The bytes of the regular file at `path`, at most [`BYTES_MAX`].
///
/// # Errors
/// [`ReadError`].
pub fn bytes(path: &Path) -> Result<Vec<u8>, ReadError> {
    bytes_up_to(path, BYTES_MAX)
}

/// The bytes of the regular file at `path`, at most `most`.
///
/// # Errors
/// [`ReadError`]. The kind of file is checked before it is opened: opening a pipe waits for a
/// writer.
pub fn bytes_up_to(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    regular(&path.metadata()?)?;
    let file = File::open(path)?;
    regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(ReadError::Large { most }) } else { Ok(bytes) }
}

/// The text of the regular file at `path`.
///
/// # Errors
/// As [`bytes`], and [`ReadError::Encoding`].
pub fn text(path: &Path) -> Result<String, ReadError> {
    String::from_utf8(bytes(path)?).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        ReadError::Encoding { line: valid.split(|byte| *byte == b'\n').count() }
    })
}

fn regular(metadata: &std::fs::Metadata) -> Result<(), ReadError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(ReadError::Special(if kind.is_dir() { "a directory" } else { special(kind) }))
}

#[cfg(unix)]
fn special(kind: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    match () {
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

#[cfg(not(unix))]
fn special(_kind: std::fs::FileType) -> &'static str {
    "a device"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_directories_are_refused() {
        for (path, kind) in [("/dev/zero", "a device"), ("/", "a directory")] {
            let error = bytes(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_a_writer() {
        let path = std::env::temp_dir().join(format!("convoy-pipe-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let error = bytes(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("a pipe"), "{error}");
    }

    #[test]
    fn a_line_that_is_no_text_is_named() {
        let path = std::env::temp_dir().join(format!("convoy-utf8-{}", std::process::id()));
        std::fs::write(&path, b"a = 1\nb = \"\xff\"\n").unwrap();
        let error = text(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("line 2"), "{error}");
    }
}
