//! Names of files in the directory of the recording, by which they are created.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicUsize};

use crate::start::environment::{Environment, value};
use crate::system::calls::{GETPID, READ_WRITE, call, open};

/// The environment variable that names the directory of the files.
const VARIABLE: &[u8] = b"CONVOY_RECORD_DIR=";
const CREATE_NEW: usize = 0o300;
/// Maximum length of a path, with process ID and number.
pub(crate) const PATH: usize = 512;
/// Room for the name of a file.
const NAME: usize = 32;

/// A path with zeros at its end.
pub(crate) type Path = [u8; PATH];

/// Number of the file among the files of this process ID.
pub(crate) static TURN: AtomicUsize = AtomicUsize::new(0);
static DIRECTORY: [AtomicU8; PATH] = [const { AtomicU8::new(0) }; PATH];

/// Copies the name of the directory, since programs overwrite their environment. Returns whether
/// there is one.
pub(crate) fn learn(environment: Environment) -> bool {
    let Some(value) = value(environment, VARIABLE) else { return false };
    for (place, byte) in DIRECTORY.iter().zip(value) {
        place.store(*byte, Relaxed);
    }
    value.len() < PATH - NAME
}

/// Returns the path of a file of this process.
pub(crate) fn own(turn: usize) -> Path {
    let (mut path, mut length) = directory();
    let pid = call(GETPID, [0; 6]) as usize;
    for (mark, number) in [(b'/', pid), (b'-', turn)] {
        path[length] = mark;
        length = digits(&mut path, length + 1, number);
    }
    path
}

/// Creates a file of this process, and returns its descriptor.
pub(crate) fn create(turn: usize) -> isize {
    open(&own(turn), READ_WRITE | CREATE_NEW)
}

/// Opens the file again, for a kernel that reserves pages only by descriptor.
pub(crate) fn open_again() -> isize {
    open(&own(TURN.load(Relaxed)), READ_WRITE)
}

/// Returns the path of a file of all processes; its name is shorter than 32 bytes.
pub(crate) fn shared(name: &[u8]) -> Path {
    let (mut path, length) = directory();
    path[length] = b'/';
    path[length + 1..][..name.len()].copy_from_slice(name);
    path
}

/// Returns the directory, and the length of its name.
fn directory() -> (Path, usize) {
    let (mut path, mut length) = ([0; PATH], 0);
    while length < PATH - NAME && DIRECTORY[length].load(Relaxed) != 0 {
        path[length] = DIRECTORY[length].load(Relaxed);
        length += 1;
    }
    (path, length)
}

fn digits(path: &mut Path, at: usize, number: usize) -> usize {
    let count = 1 + number.checked_ilog10().unwrap_or(0) as usize;
    let mut rest = number;
    for place in path[at..at + count].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    at + count
}
