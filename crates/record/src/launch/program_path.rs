//! The file of a program, looked up as a shell does.

use std::ffi::OsStr;
use std::path::PathBuf;

/// Returns the file that the shell would execute.
pub fn find(program: &OsStr) -> Option<PathBuf> {
    if program.to_string_lossy().contains('/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}
