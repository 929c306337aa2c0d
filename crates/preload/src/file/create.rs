//! Creates and maps new files.

use crate::arch::number::{FTRUNCATE, MUNMAP};
use crate::file::budget::{LIMITED, NO_ROOM, NO_WAY};
use crate::file::map::{FILE_WORDS, File};
use crate::file::pages;
use crate::file::paths::create;
use crate::layout::PAGE;
use crate::system::calls::{MMAP, PROTECT_READ_WRITE, call, close};

const MAP_SHARED: usize = 1;
const ENOMEM: isize = -12;
const EFBIG: isize = -27;

/// Maps a new file, and closes its descriptor.
pub(crate) fn map(descriptor: isize) -> Result<&'static File, usize> {
    let address = map_words(descriptor, FILE_WORDS)?;
    // SAFETY: a shared mapping of that many zeros, which stays.
    Ok(unsafe { &*(address as *const File) })
}

/// Creates a file, reserves and maps its first page, and returns the address.
pub(crate) fn first_page(turn: usize) -> Option<usize> {
    let descriptor = create(turn);
    let address = if descriptor < 0 { None } else { map_words(descriptor, PAGE).ok() }?;
    let is_there = pages::take_first(address);
    if !is_there {
        call(MUNMAP, [address, PAGE * 8, 0, 0, 0, 0]);
    }
    is_there.then_some(address)
}

fn map_words(descriptor: isize, words: usize) -> Result<usize, usize> {
    let descriptor = descriptor as usize;
    let made = call(FTRUNCATE, [descriptor, FILE_WORDS * 8, 0, 0, 0, 0]);
    let how = [0, words * 8, PROTECT_READ_WRITE, MAP_SHARED, descriptor, 0];
    let address = if made == 0 { call(MMAP, how) } else { made };
    close(descriptor as isize);
    match address {
        1.. => Ok(address as usize),
        _ if made != 0 && made != EFBIG => Err(NO_ROOM),
        EFBIG | ENOMEM => Err(LIMITED),
        _ => Err(NO_WAY),
    }
}
