//! Carries the variables of the recorder over an exec with an environment that lacks them: `su -`,
//! `env -i`, Perl, Python, servers and their scripts clear it.
//!
//! The new program gets the variables, and a mark that lists them. Its object removes them from the
//! environment before `main`, and keeps them here for later execs. The object is also removed from
//! the environment of programs that it would break: musl's loader and sanitizers end the process.
//!
//! An exec may run in a child of vfork(2), which shares its parent's memory, or in a signal
//! handler: this code does not allocate, and writes only the stack and the file of the recording.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::file::unloaded;
use crate::interpose::libc;
use crate::layout::{FOREIGN, MUSL, NO_OBJECT, NO_ROOM, SANITIZED};
use crate::start::environment::{Environment, entries, value};
use crate::start::program;
use crate::system::calls::{MMAP, PROTECT_READ_WRITE, call};

/// The variable of the loader, the first of [`NAMES`].
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// The carried variables.
const NAMES: [&[u8]; 7] = [
    PRELOAD,
    b"CONVOY_RECORD_DIR=",
    b"CONVOY_RECORD_FILTERS=",
    b"CONVOY_RECORD_CONTENDED=",
    b"CONVOY_MUTEX=",
    b"CONVOY_SEM=",
    b"CONVOY_LOCKS=",
];
/// Index of the directory of the recording in [`NAMES`].
const DIRECTORY: usize = 1;
/// The variable that says which of them the program must not see: a digit for each.
const MARK: &[u8] = b"CONVOY_RECORD_CARRIED=";
const DIGITS: [&[u8]; NAMES.len()] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6"];
/// Common prefix of the file names of all recorders.
const RECORDER: &[u8] = b"libconvoy_record";

/// Maximum number of variables in an environment that is changed; most have about fifty. With the
/// text they take 4 KiB of the stack, as much as a path in libc's own search.
const LIST: usize = 384;
/// Bytes for the list of objects, including those that the program loads itself.
const TEXT: usize = 768;

/// The variables of this process, each a C string. The first one names this object alone.
static KEPT: [AtomicPtr<c_char>; NAMES.len()] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; NAMES.len()];

/// Copies the variables of this process, if it may ask the kernel for memory, and removes the
/// carried ones from its environment.
pub(crate) fn learn(environment: Environment, may_ask: bool) {
    if may_ask && let Some(own) = own_path() {
        keep(environment, own);
    }
    hide(environment);
}

/// Returns the path from which the loader loaded this object.
fn own_path() -> Option<&'static [u8]> {
    unsafe extern "C" {
        fn dladdr(address: *const c_void, found: *mut [*const c_char; 4]) -> c_int;
    }
    let mut found = [core::ptr::null(); 4];
    // SAFETY: an address within this object, and room for the result.
    let is_found = unsafe { dladdr((&raw const KEPT).cast(), &raw mut found) };
    // SAFETY: a name that the loader keeps.
    (is_found != 0 && !found[0].is_null()).then(|| unsafe { CStr::from_ptr(found[0]) }.to_bytes())
}

/// Copies the variables, since programs overwrite their environment.
fn keep(environment: Environment, own: &'static [u8]) {
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let mut values = NAMES.map(|name| value(environment, name));
    if !values[0].is_some_and(|list| objects(list).any(|one| one == own)) {
        return;
    }
    values[0] = Some(own);
    let all = || NAMES.iter().zip(values).enumerate();
    let size =
        all().map(|(_, (name, value))| value.map_or(0, |value| name.len() + value.len() + 1)).sum();
    let how = [0, size, PROTECT_READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0];
    let area = call(MMAP, how);
    if area < 0 {
        return;
    }
    // SAFETY: that many zeros, which stay.
    let area = unsafe { core::slice::from_raw_parts_mut(area as *mut u8, size) };
    let mut at = 0;
    for (index, (name, value)) in all() {
        let Some(value) = value else { continue };
        let start = at;
        for part in [*name, value] {
            area[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        at += 1;
        // Release: pairs with the acquire of `kept`.
        KEPT[index].store(area[start..].as_mut_ptr().cast(), Release);
    }
}

/// Returns a copied variable, if this process has it.
fn kept(index: usize) -> Option<&'static [u8]> {
    let text = KEPT[index].load(Acquire);
    // SAFETY: a C string that never changes.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Returns the path of this object, if the variables are carried.
fn own() -> Option<&'static [u8]> {
    kept(0)?.strip_prefix(PRELOAD)
}

fn objects(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| b": ".contains(byte)).filter(|one| !one.is_empty())
}

/// Removes the carried variables from the environment. The list and its texts are where the kernel
/// has put them, and only the loader has read them.
fn hide(environment: Environment) {
    let Some(mark) = value(environment, MARK) else { return };
    let list = environment.cast_mut();
    let mut left = 0;
    for (index, text) in entries(environment).enumerate() {
        let name = NAMES.iter().position(|name| text.starts_with(name));
        let is_hidden = text.starts_with(MARK)
            || name.is_some_and(|index| mark.contains(&(b'0' + index as u8)));
        let others =
            if name == Some(0) { text.iter().position(|byte| *byte == b':') } else { None };
        if is_hidden && others.is_none() {
            continue;
        }
        // SAFETY: the entry that was just read.
        let place = unsafe { list.add(index) };
        // SAFETY: as above.
        let entry = unsafe { *place };
        if let Some(end) = others.filter(|_| is_hidden) {
            let text_place = entry.cast_mut().cast::<u8>();
            // SAFETY: the first object of the text.
            let first = unsafe { text_place.add(PRELOAD.len()) };
            // SAFETY: the second one.
            let second = unsafe { text_place.add(end + 1) };
            // SAFETY: the rest of the text with the zero at its end, which nothing else reads now.
            unsafe { core::ptr::copy(second, first, text.len() - end) };
        }
        // SAFETY: not beyond the entry that was read.
        let place = unsafe { list.add(left) };
        // SAFETY: the list is writable, and this part of it has been read.
        unsafe { place.write(entry) };
        left += 1;
    }
    // SAFETY: the mark is one entry, so there is one less.
    let place = unsafe { list.add(left) };
    // SAFETY: as above.
    unsafe { place.write(core::ptr::null()) };
}

/// Which variables of the recorder an environment contains.
#[derive(PartialEq, Eq)]
enum Has {
    All,
    NotAll,
    /// Variables of another recording, which stay as they are.
    Others,
}

fn has(list: Environment, own: &[u8]) -> Has {
    let directory = value(list, NAMES[DIRECTORY]);
    let known = kept(DIRECTORY).and_then(|text| text.strip_prefix(NAMES[DIRECTORY]));
    let loaded = value(list, PRELOAD).unwrap_or_default();
    let is_own = objects(loaded).any(|one| one == own);
    let is_recorder = |one: &[u8]| one.windows(RECORDER.len()).any(|part| part == RECORDER);
    if directory.is_some() && directory != known || !is_own && objects(loaded).any(is_recorder) {
        Has::Others
    } else if is_own && directory == known {
        Has::All
    } else {
        Has::NotAll
    }
}

/// Returns whether programs that libc starts internally, with the environment of this process,
/// would run without the object.
pub(crate) fn is_lost(list: Environment) -> bool {
    own().is_some_and(|own| has(list, own) == Has::NotAll)
}

/// Starts a program with the right environment: `run` calls libc with it, and returns only if the
/// start fails or another process has been started. `look` inspects the program file, which is
/// called `path`, and returns whether it can load the object.
pub(crate) fn pass(
    look: impl FnOnce() -> Option<Result<(), u64>>,
    path: usize,
    environment: usize,
    run: impl Fn(usize) -> c_int,
) -> c_int {
    static EMPTY: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());
    let Some(own) = own() else { return run(environment) };
    // The kernel takes a null pointer for an empty list.
    let list = match environment {
        0 => (&raw const EMPTY).cast(),
        environment => environment as Environment,
    };
    let has = has(list, own);
    let Some(found) = (if has == Has::Others { None } else { look() }) else {
        return run(environment);
    };
    // Acquire: pairs with the release store of `learn`.
    let is_there = || program::can_open(KEPT[0].load(Acquire) as usize + PRELOAD.len());
    let found = found.and_then(|()| if is_there() { Ok(()) } else { Err(NO_OBJECT) });
    let is_harmful = |why| [FOREIGN, MUSL, NO_OBJECT, SANITIZED].contains(&why);
    match (has, found) {
        (Has::NotAll, Ok(())) => match changed(list, own, true, &run) {
            Some(result) if !is_too_long(result) => result,
            _ => unloaded::unless(NO_ROOM, path, || run(environment)),
        },
        (Has::All, Err(why)) if is_harmful(why) => unloaded::unless(why, path, || {
            changed(list, own, false, &run).unwrap_or_else(|| run(environment))
        }),
        (_, Err(why)) => unloaded::unless(why, path, || run(environment)),
        (_, Ok(())) => run(environment),
    }
}

/// Returns whether a program did not start because its environment has become too long.
fn is_too_long(result: c_int) -> bool {
    const E2BIG: c_int = 7;
    result == E2BIG || result == -1 && libc::errno() == E2BIG
}

/// An environment that is built on the stack.
struct Made {
    list: [usize; LIST],
    length: usize,
    text: [u8; TEXT],
    used: usize,
}

impl Made {
    /// Adds a variable, unless the list is full; the last place is for the null pointer.
    fn add(&mut self, variable: usize) -> Option<()> {
        let is_free = self.length < LIST - 1;
        let place = self.list.get_mut(self.length).filter(|_| is_free)?;
        *place = variable;
        self.length += 1;
        Some(())
    }

    /// Adds a variable that consists of parts.
    fn write<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> Option<()> {
        let start = self.used;
        for part in parts {
            let end = self.used + part.len();
            self.text.get_mut(self.used..end)?.copy_from_slice(part);
            self.used = end;
        }
        // The terminating zero is already there.
        self.used += 1;
        self.add(self.text.get(start..self.used)?.as_ptr() as usize)
    }
}

/// Calls `run` with the carried variables added to the environment, or with this object removed
/// from it. Returns `None` if the new environment has too little room.
#[inline(never)]
fn changed(
    list: Environment,
    own: &[u8],
    adds: bool,
    run: &impl Fn(usize) -> c_int,
) -> Option<c_int> {
    let mut made = Made { list: [0; LIST], length: 0, text: [0; TEXT], used: 0 };
    let (mut there, mut carried) = ([false; NAMES.len()], [false; NAMES.len()]);
    for text in entries(list).filter(|text| !text.starts_with(MARK)) {
        let index = NAMES.iter().position(|name| text.starts_with(name));
        if let Some(index) = index {
            there[index] = true;
        }
        let loaded = if index == Some(0) { &text[PRELOAD.len()..] } else { &[] };
        let is_own = objects(loaded).any(|one| one == own);
        match (index, adds) {
            (Some(0), true) if !is_own => {
                carried[0] = true;
                made.write([PRELOAD, own, b":", loaded].into_iter())?;
            }
            (Some(0), false) if is_own => {
                let mut others = objects(loaded).filter(|one| *one != own);
                if let Some(first) = others.next() {
                    let rest = others.flat_map(|one| [b":".as_slice(), one]);
                    made.write([PRELOAD, first].into_iter().chain(rest))?;
                }
            }
            _ => made.add(text.as_ptr() as usize)?,
        }
    }
    if adds {
        for index in (0..NAMES.len()).filter(|index| !there[*index]) {
            if let Some(text) = kept(index) {
                carried[index] = true;
                made.add(text.as_ptr() as usize)?;
            }
        }
        let digits = DIGITS.iter().zip(carried).filter(|(_, is_carried)| *is_carried);
        let digits = digits.map(|(digit, _)| *digit);
        made.write(core::iter::once(MARK).chain(digits))?;
    }
    Some(run(made.list.as_ptr() as usize))
}
