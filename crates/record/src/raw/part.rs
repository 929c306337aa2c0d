//! Reads parts of the files that processes write.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::layout::Part;

/// Reads the part at this offset of a file, bytes.
pub(crate) fn read_part<T: Part>(file: &File, offset: usize) -> std::io::Result<Box<T>> {
    let mut part = T::zeroed();
    file.read_exact_at(part.bytes_mut(), offset as u64)?;
    Ok(part)
}
