//! The surroundings of a process when it starts: its environment, its limits, and the filters on
//! its system calls.

use core::ffi::c_char;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::number::PRLIMIT64 as LIMITS;
use crate::file::map::File;
use crate::layout::SPACE_SHARE;
use crate::system::calls::{call, read};

/// The environment as the loader passes it.
pub(crate) type Environment = *const *const c_char;

/// Environment variable with the number of filters that are known not to affect the recorder.
const FILTERS: &[u8] = b"CONVOY_RECORD_FILTERS=";
const LIMIT_OF_FILES: usize = 1;
const LIMIT_OF_SPACE: usize = 9;

/// Returns the value of the variable `name`, which ends with `=`.
pub(crate) fn value(environment: Environment, name: &[u8]) -> Option<&'static [u8]> {
    entries(environment).find_map(|text| text.strip_prefix(name))
}

/// Returns the variables, each with its name and its value, before the terminating zero.
pub(crate) fn entries(environment: Environment) -> impl Iterator<Item = &'static [u8]> {
    (0..).map_while(move |index| variable(environment, index))
}

fn variable(environment: Environment, index: usize) -> Option<&'static [u8]> {
    // SAFETY: the loader passes the environment, and a null pointer before this entry ends the
    // search.
    let place = unsafe { environment.add(index) };
    // SAFETY: within the environment.
    let text = unsafe { *place };
    // SAFETY: a C string, which is read immediately.
    (!text.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes())
}

/// Returns whether filters were added to the system calls of this process after the recording
/// began. Their effect on calls that the program does not make itself is unknown.
pub(crate) fn is_filtered(environment: Environment) -> bool {
    const NAME: &[u8] = b"Seccomp_filters:\t";
    let known = value(environment, FILTERS);
    let words = [const { AtomicU64::new(0) }; 384];
    let length = read(b"/proc/self/status\0", &words);
    let byte = |at: usize| words[at / 8].load(Relaxed).to_le_bytes()[at % 8];
    let is_name = |at: &usize| NAME.iter().enumerate().all(|(index, one)| byte(at + index) == *one);
    let Some(at) = (0..length.saturating_sub(NAME.len() + 8)).find(is_name) else { return false };
    let digits = (at + NAME.len()..length).map(byte).take_while(u8::is_ascii_digit);
    let number = |sum: u64, digit: u8| sum.saturating_mul(10) + u64::from(digit - b'0');
    let known = known.unwrap_or_default().iter().copied().fold(0, number);
    digits.fold(0, number) > known
}

/// Returns whether the limits of the process forbid the file of the recorder: a process that
/// exceeds the file size limit is killed, and address space that the recorder maps is not available
/// to the program.
pub(crate) fn is_limited() -> bool {
    let size = size_of::<File>() as u64;
    limit(LIMIT_OF_FILES) < size || limit(LIMIT_OF_SPACE) / SPACE_SHARE < size
}

/// Returns a limit of the process, or the largest number if there is none.
fn limit(resource: usize) -> u64 {
    let mut limits = [u64::MAX; 2];
    call(LIMITS, [0, resource, 0, (&raw mut limits) as usize, 0, 0]);
    limits[0]
}
