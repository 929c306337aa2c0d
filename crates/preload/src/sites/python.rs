//! Places in Python code. All of Python's locks are acquired in one function of the interpreter, so
//! the call site of such a lock is the line of Python that acquires it: the innermost frame of the
//! thread that does not belong to a module of locks. A thread reads only its own frames, which do
//! not change while it is in a function of C, with or without the interpreter's lock.

use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::arch;
use crate::file::map::{self, File, get};
use crate::file::pages;
use crate::interpose::libc;
use crate::layout::{self, Mapped, PLACE_BYTES, PLACE_COUNT, PYTHON, mixed};
use crate::sites::memory_map;

/// Offsets in the structures of a version of `CPython`, in bytes.
struct Layout {
    /// Upper 16 bits of `Py_Version`.
    version: u64,
    /// Pointers from the state of a thread to its innermost frame.
    top: &'static [usize],
    /// In a frame: its code, its caller, and the kind of its owner.
    code: usize,
    previous: usize,
    owner: usize,
    /// In a code object: its instructions.
    instructions: usize,
    /// Size of the header of a string of ASCII characters, and of another one.
    ascii: usize,
    other: usize,
}

/// `Include/internal/pycore_frame.h`, `Include/cpython/{pystate,code,unicodeobject}.h`.
const LAYOUTS: [Layout; 3] = [
    Layout {
        version: 0x030b,
        top: &[56, 8],
        code: 32,
        previous: 48,
        owner: 69,
        instructions: 184,
        ascii: 48,
        other: 72,
    },
    Layout {
        version: 0x030c,
        top: &[56, 0],
        code: 0,
        previous: 8,
        owner: 70,
        instructions: 192,
        ascii: 40,
        other: 56,
    },
    Layout {
        version: 0x030d,
        top: &[72],
        code: 0,
        previous: 8,
        owner: 70,
        instructions: 200,
        ascii: 40,
        other: 56,
    },
];

// The same in all these versions. In a frame: the instruction that it executes.
const INSTRUCTION: usize = 56;
/// A frame of this owner belongs to the interpreter itself.
const OF_INTERPRETER: u8 = 3;
/// In an object: its type.
const TYPE: usize = 8;
// In a code object.
const FILE: usize = 112;
const FUNCTION: usize = 128;
// In a string.
const LENGTH: usize = 16;
const STATE: usize = 32;
const COMPACT: usize = 1 << 5;
const ASCII: usize = 1 << 6;
const WIDTH_SHIFT: u32 = 2;

/// Maximum number of frames in functions that only acquire locks.
const FRAMES: usize = 8;
/// Entries of the table of places that are probed.
const PROBES: usize = 16;

/// The interpreter's code, and its layout. The length is 0 if the program is not Python, or if the
/// layout of its version is not known.
static BEGIN: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);
static VERSION: AtomicUsize = AtomicUsize::new(0);
/// `PyGILState_GetThisThreadState`, `PyCode_Addr2Line` and `PyCode_Type`.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static LINE_OF: AtomicUsize = AtomicUsize::new(0);
static CODE_TYPE: AtomicUsize = AtomicUsize::new(0);
/// Hashes of code objects; the lowest bit is set if they only acquire locks for their callers.
static PASSING: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// Finds the interpreter in this process.
pub(crate) fn find() {
    let Some(version) = libc::exported::<u64>(c"Py_Version") else { return };
    let layout = LAYOUTS.iter().position(|one| one.version == version >> 16);
    let all = [
        c"PyThread_acquire_lock_timed",
        c"PyGILState_GetThisThreadState",
        c"PyCode_Addr2Line",
        c"PyCode_Type",
    ];
    let (Some(layout), [Some(lock), Some(current), Some(line), Some(kind)]) =
        (layout, all.map(|name| libc::place::<u8>(name).map(|found| found.as_ptr() as usize)))
    else {
        return;
    };
    let Some([begin, end]) = memory_map::around(lock) else { return };
    let words = [&VERSION, &CURRENT, &LINE_OF, &CODE_TYPE, &BEGIN, &SIZE];
    for (word, value) in words.into_iter().zip([layout, current, line, kind, begin, end - begin]) {
        // Relaxed: done before the program has threads.
        word.store(value, Relaxed);
    }
}

/// Returns the place in Python of a call of the interpreter, or else the call site.
#[inline(always)]
pub(crate) fn place(site: usize) -> usize {
    if site.wrapping_sub(BEGIN.load(Relaxed)) < SIZE.load(Relaxed) {
        return innermost().unwrap_or(site);
    }
    site
}

/// Returns the number of the innermost place that does not only acquire locks for its callers.
#[inline(never)]
fn innermost() -> Option<usize> {
    let (file, layout) = (map::file()?, &LAYOUTS[VERSION.load(Relaxed)]);
    let state = this_thread();
    let mut frame =
        layout.top.iter().fold(state, |at, offset| if at == 0 { 0 } else { read(at + offset) });
    let mut first = None;
    for _ in 0..FRAMES {
        if frame == 0 {
            break;
        }
        if read((frame + layout.owner) & !7).to_le_bytes()[layout.owner % 8] != OF_INTERPRETER {
            let (code, instruction) = (read(frame + layout.code), read(frame + INSTRUCTION));
            if !passes_on(layout, code) {
                return number(file, layout, code, instruction);
            }
            first = first.or(Some((code, instruction)));
        }
        frame = read(frame + layout.previous);
    }
    let (code, instruction) = first?;
    number(file, layout, code, instruction)
}

/// Returns the state of this thread in the interpreter; 0: none.
fn this_thread() -> usize {
    // SAFETY: the address of the interpreter's function.
    let current =
        unsafe { core::mem::transmute::<usize, extern "C" fn() -> usize>(CURRENT.load(Relaxed)) };
    current()
}

/// Reads an aligned word of the interpreter.
fn read(address: usize) -> usize {
    // SAFETY: in the state of this thread, in a frame on its stack or in an object that the frame
    // keeps alive; the layout is that of the version, and `is_code` has checked the type.
    unsafe { arch::word(address as u64) }.load(Relaxed) as usize
}

fn is_code(object: usize) -> bool {
    read(object + TYPE) == CODE_TYPE.load(Relaxed)
}

/// Hash of a code object. The memory of a code object may be used for another one.
fn hash(code: usize) -> u64 {
    mixed(code as u64, read(code + FUNCTION) as u64)
}

/// Returns whether a function only acquires locks for its callers.
fn passes_on(layout: &Layout, code: usize) -> bool {
    if !is_code(code) {
        return true;
    }
    let hash = hash(code);
    let known = &PASSING[(hash >> 56) as usize];
    // Relaxed, as the store below: a word contains the hash that it is valid for.
    let word = known.load(Relaxed);
    if (word ^ hash) >> 1 == 0 {
        return word & 1 != 0;
    }
    let passes = is_passing(layout, code);
    // Relaxed: pairs with the load above.
    known.store(hash & !1 | u64::from(passes), Relaxed);
    passes
}

#[cold]
fn is_passing(layout: &Layout, code: usize) -> bool {
    const FUNCTIONS: [&[u8]; 3] = [b"acquire", b"__enter__", b"lock"];
    const MODULES: [&[u8]; 2] = [b"/threading.py", b"/queue.py"];
    let mut text = Buffer::new();
    text.push_function(layout, code);
    let function = text.bytes().rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    if FUNCTIONS.contains(&function) {
        return true;
    }
    let mut text = Buffer::new();
    text.push_path(layout, code);
    MODULES.iter().any(|module| text.bytes().ends_with(module) && text.is_of_library())
}

/// Returns the number of a place, with [`PYTHON`]. The place gets one the first time.
fn number(file: &'static File, python: &Layout, code: usize, instruction: usize) -> Option<usize> {
    let hash = is_code(code).then(|| mixed(hash(code), instruction as u64) | 1)?;
    let first = layout::place(hash, 0, PLACE_COUNT);
    for index in (first..first + PROBES).map(|index| index % PLACE_COUNT) {
        let place = &file.places[index];
        if !pages::has(file, place) {
            return None;
        }
        // The number of a place depends on its hash alone; its text is published by `write`.
        let mut known = get(&place.hash);
        if known == 0 {
            // Relaxed: the thread whose exchange succeeds is the only one that writes the text.
            match place.hash.compare_exchange(0, hash, Relaxed, Relaxed) {
                Ok(_) => {
                    write(place, python, code, instruction);
                    known = hash;
                }
                Err(other) => known = other,
            }
        }
        if known == hash {
            return Some(PYTHON as usize | index);
        }
    }
    None
}

#[cold]
fn write(place: &layout::Place<Mapped>, python: &Layout, code: usize, instruction: usize) {
    let mut text = Buffer::new();
    text.push_function(python, code);
    text.push_all(b" (");
    text.push_file(python, code);
    text.push_all(b":");
    text.push_number(line_of(code, instruction.wrapping_sub(code + python.instructions)));
    text.push_all(b")");
    for (word, bytes) in place.text.iter().zip(text.bytes.as_chunks::<8>().0) {
        // Relaxed: published by the store of the length.
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    // Release: a reader that sees this sees the text.
    place.bytes.store(text.length as u64, Release);
}

fn line_of(code: usize, offset: usize) -> u32 {
    type Function = extern "C" fn(usize, c_int) -> c_int;
    // SAFETY: the address of the interpreter's function, which only reads the code object.
    let line = unsafe { core::mem::transmute::<usize, Function>(LINE_OF.load(Relaxed)) };
    u32::try_from(line(code, offset as c_int)).unwrap_or(0)
}

/// A string of the interpreter.
struct Text {
    begin: usize,
    /// Bytes of a character: 1, 2 or 4.
    width: usize,
    length: usize,
}

impl Text {
    fn of(layout: &Layout, object: usize) -> Option<Self> {
        let state = read(object + STATE);
        let width = state >> WIDTH_SHIFT & 7;
        let header = if state & ASCII != 0 { layout.ascii } else { layout.other };
        (state & COMPACT != 0 && [1, 2, 4].contains(&width)).then(|| Self {
            begin: object + header,
            width,
            length: read(object + LENGTH),
        })
    }

    fn character(&self, index: usize) -> char {
        let at = self.begin + index * self.width;
        let shifted = read(at & !7) >> (at % 8 * 8);
        let bits = shifted as u64 & (u64::MAX >> (64 - 8 * self.width));
        char::from_u32(bits as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

/// The text of a place.
struct Buffer {
    bytes: [u8; PLACE_BYTES],
    length: usize,
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: [0; PLACE_BYTES], length: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push_all(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes[self.length..].get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }

    fn push(&mut self, character: char) {
        self.push_all(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn push_number(&mut self, number: u32) {
        if number >= 10 {
            self.push_number(number / 10);
        }
        self.push_all(&[b'0' + (number % 10) as u8]);
    }

    /// Adds the name of a function, with its class but without the functions around it.
    fn push_function(&mut self, layout: &Layout, code: usize) {
        /// The rest of the text is for the file.
        const MOST: usize = PLACE_BYTES / 2;
        let Some(text) = Text::of(layout, read(code + FUNCTION)) else { return };
        for at in 0..text.length {
            if self.length < MOST {
                self.push(text.character(at));
            }
            if self.bytes().ends_with(b"<locals>.") {
                self.length = 0;
            }
        }
    }

    /// Adds the end of the path of a file.
    fn push_path(&mut self, layout: &Layout, code: usize) {
        const MOST: usize = PLACE_BYTES / 4;
        let Some(text) = Text::of(layout, read(code + FILE)) else { return };
        (text.length.saturating_sub(MOST)..text.length)
            .for_each(|at| self.push(text.character(at)));
    }

    /// Returns whether it is the path of a file of Python's library.
    fn is_of_library(&self) -> bool {
        self.bytes().windows(8).any(|bytes| bytes == b"/python3")
    }

    /// Adds the name of a file, with the directory of a package.
    fn push_file(&mut self, layout: &Layout, code: usize) {
        let mut path = Self::new();
        path.push_path(layout, code);
        let mut names = path.bytes().rsplit(|byte| *byte == b'/');
        let name = names.next().unwrap_or_default();
        if let Some(package) = names.next().filter(|_| name.starts_with(b"__")) {
            self.push_all(package);
            self.push_all(b"/");
        }
        self.push_all(name);
    }
}
