//! Programs that a process started and that run without the object, in the header of its file: the
//! first ones with names, the others only counted.

use super::{H_COMMAND, PAGE};

/// The programs, open addressing by [`P_MARK`].
pub const PROGRAMS: usize = PAGE - PROGRAM_COUNT * PROGRAM_WORDS;
/// Number of them.
pub const PROGRAM_COUNT: usize = 16;
/// Words of each.
pub const PROGRAM_WORDS: usize = 8;
/// A hash of the name and the reason; 0: free.
pub const P_MARK: usize = 0;
/// One of the reasons below.
pub const P_WHY: usize = 1;
/// Number of starts.
pub const P_COUNT: usize = 2;
/// The end of its name.
pub const P_NAME: usize = 3;
/// Bytes of the name.
pub const P_NAME_BYTES: usize = (PROGRAM_WORDS - P_NAME) * 8;

// Reasons.
/// It is statically linked.
pub const STATIC: u64 = 1;
/// It is a program for another architecture.
pub const FOREIGN: u64 = 2;
/// It is linked to musl.
pub const MUSL: u64 = 3;
/// It is built with a sanitizer.
pub const SANITIZED: u64 = 4;
/// It has more privileges than the user that starts it.
pub const RIGHTS: u64 = 5;
/// Its file cannot be read.
pub const NO_FILE: u64 = 6;
/// The object cannot be opened by the process that starts it.
pub const NO_OBJECT: u64 = 7;
/// Its environment lacked the recorder's variables and was too long to add them.
pub const NO_ROOM: u64 = 8;
/// It was started within libc, with an environment that lacked them.
pub const BY_LIBC: u64 = 9;

/// Initial hash for [`fnv`].
pub const FNV: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the FNV-1a hash of `bytes` (Fowler, Noll and Vo), continued from `hash`.
#[must_use]
pub fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Words of the command line.
pub const COMMAND_WORDS: usize = PROGRAMS - H_COMMAND;

/// The file may take the limit of the address space (`ulimit -v`) divided by this number, so that
/// the program does not run out of address space.
pub const SPACE_SHARE: u64 = 16;

/// Variables of a service manager that contain the ID of the process that they are for.
pub const UNIT_VARIABLES: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// Padding after the recorder's process ID in these variables, so that the program's ID has room.
pub const UNIT_PAD: &[u8] = b"          ";
