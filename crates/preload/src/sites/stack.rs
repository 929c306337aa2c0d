//! Call stacks, by the unwind tables of the program. Unwinding does not allocate, but takes a
//! microsecond per frame, so it is rare.

use core::ffi::{c_int, c_ulong, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::arch;
use crate::file::map::{self, File, get, set};
use crate::file::pages;
use crate::layout::{self, CONTEXT, FOREIGN_FRAMES, Mapped, NATIVE_FRAMES, STACK_COUNT, place};
use crate::sites::memory_map;

/// Results of a step of a walk.
const GO_ON: c_int = 0;
const END: c_int = 4;

type Each = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// A walk up the stack.
struct Walk<'a> {
    /// Return address at which the walk begins.
    site: usize,
    is_past: bool,
    count: usize,
    frames: &'a mut [u64],
    /// Whether the program itself was met.
    is_out: bool,
    /// Number of frames above the last one of `frames`.
    above: usize,
}

/// Most frames that are walked to find where the program called a library.
const ABOVE: usize = 24;

/// Returns whether an address is in the program and not in a library. The kernel maps them far
/// apart.
fn is_of_program(address: usize) -> bool {
    const REGION: u32 = 36;
    const PROGRAM_HEADERS: c_ulong = 3;
    unsafe extern "C" {
        safe fn getauxval(kind: c_ulong) -> c_ulong;
    }
    address >> REGION == getauxval(PROGRAM_HEADERS) as usize >> REGION
}

fn unwind(each: Each, walk: *mut c_void) {
    unsafe extern "C" {
        fn _Unwind_Backtrace(each: Each, argument: *mut c_void) -> c_int;
    }
    // SAFETY: reads the stack of this thread by its unwind tables; the target of `walk` outlives
    // the call.
    unsafe { _Unwind_Backtrace(each, walk) };
}

/// Returns the return address of a frame of the unwinder.
fn address(context: *mut c_void) -> usize {
    unsafe extern "C" {
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }
    // SAFETY: the unwinder passes the context of a frame.
    unsafe { _Unwind_GetIP(context) }
}

/// Fills `frames` with the return addresses of the callers of the function that contains `site`,
/// the nearest first, and returns their number. `site` is the return address of a function of this
/// object that is being called. If all are in libraries, the last one is where the program called
/// them.
pub(crate) fn callers(site: usize, frames: &mut [u64]) -> usize {
    let is_out = is_of_program(site);
    let mut walk = Walk { site, is_past: false, count: 0, frames, is_out, above: 0 };
    unwind(frame, (&raw mut walk).cast());
    walk.count
}

extern "C" fn frame(context: *mut c_void, walk: *mut c_void) -> c_int {
    let address = address(context);
    // SAFETY: the walk of `callers`, to which there is no other reference.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    if !walk.is_past {
        walk.is_past = address == walk.site;
        return GO_ON;
    }
    let is_of_program = is_of_program(address);
    if let Some(place) = walk.frames.get_mut(walk.count) {
        *place = address as u64;
        walk.count += 1;
        walk.is_out |= is_of_program;
        return GO_ON;
    }
    walk.above += 1;
    if walk.is_out || walk.above > ABOVE {
        return END;
    }
    if let Some(last) = walk.frames.last_mut().filter(|_| is_of_program) {
        *last = address as u64;
        return END;
    }
    GO_ON
}

/// Words above the last known frame that are searched for calls by code without unwind tables.
const SCANNED: usize = 160;
/// Entries of the table of call stacks that are probed, and so the most call stacks of one site.
const PROBES: usize = 128;

/// A return address and its distance from the mark.
type Found = [u64; 2];
type CallStack = layout::CallStack<Mapped>;
type Frame = layout::Frame<Mapped>;

/// The whole call stack of a wait.
struct Whole {
    site: usize,
    mark: usize,
    is_past: bool,
    count: usize,
    frames: [Found; NATIVE_FRAMES],
    /// Return address in code that no table describes, and its distance from the mark.
    foreign: Option<Found>,
}

/// Returns the number of the call stack that leads to `site`, with [`CONTEXT`]; `None` if the table
/// is full. `mark` is in the frame of the function that is being called.
///
/// The unwinder needs microseconds. But a function that calls from one place has a frame of one
/// size, so a stack that was walked once is recognized by the words at the same distances.
pub(crate) fn context(site: usize, mark: *const usize) -> Option<usize> {
    let (file, mark) = (map::file()?, mark as usize);
    if !pages::reserve(file, &file.stacks) {
        return None;
    }
    let first = place(site as u64, 0, STACK_COUNT);
    let probes = || (first..first + PROBES).map(|index| index % STACK_COUNT);
    let mut is_full = true;
    for index in probes() {
        let stack = &file.stacks[index];
        // `is_current` reads the frames after an acquire load of `ready`.
        match get(&stack.site) {
            0 => {
                is_full = false;
                break;
            }
            known if known == site as u64 && is_current(stack, mark, true) => {
                return Some(number(index));
            }
            _ => {}
        }
    }
    if is_full {
        // Call stacks are now distinguished only by their frames with unwind tables.
        let mut alike = probes().filter(|index| get(&file.stacks[*index].site) == site as u64);
        return alike.find(|index| is_current(&file.stacks[*index], mark, false)).map(number);
    }
    let mut whole = Whole {
        site,
        mark,
        is_past: false,
        count: 0,
        frames: [[0; 2]; NATIVE_FRAMES],
        foreign: None,
    };
    unwind(whole_frame, (&raw mut whole).cast());
    let mut foreign = [[0; 2]; FOREIGN_FRAMES];
    let left = whole.foreign.map_or(0, |first| returns(file, first, mark, &mut foreign));
    let (native, foreign) = (&whole.frames[..whole.count], &foreign[..left]);
    for index in probes() {
        let stack = &file.stacks[index];
        // Relaxed: the exchange claims the entry; `is_same` reads its frames after an acquire load
        // of `ready`.
        if get(&stack.site) == site as u64 && is_same(stack, native, foreign) {
            return Some(number(index));
        }
        if stack.site.compare_exchange(0, site as u64, Relaxed, Relaxed).is_ok() {
            write(file, stack, native, foreign);
            return Some(number(index));
        }
    }
    None
}

fn number(index: usize) -> usize {
    CONTEXT as usize | index
}

/// Returns the frames with unwind tables, and those without, of a call stack.
fn parts(stack: &CallStack) -> Option<(&[Frame], &[Frame])> {
    // Acquire: pairs with the release store of `write`.
    let is_ready = stack.ready.load(Acquire) == 1;
    let native = (get(&stack.count) as usize).min(NATIVE_FRAMES);
    let foreign = (get(&stack.foreign_count) as usize).min(FOREIGN_FRAMES);
    is_ready.then(|| (&stack.native[..native], &stack.foreign[..foreign]))
}

/// Returns whether the current stack is the known one, with or without the nearest callers that
/// have no unwind tables.
fn is_current(stack: &CallStack, mark: usize, with_foreign: bool) -> bool {
    /// The function that calls and its caller; further words may be left from earlier calls.
    const NEAREST: usize = 2;
    let Some((native, foreign)) = parts(stack) else { return false };
    let foreign = &foreign[..foreign.len().min(if with_foreign { NEAREST } else { 0 })];
    native.iter().chain(foreign).all(|frame| {
        let address = mark + get(&frame.position) as usize;
        // SAFETY: on this stack: the frame below belongs to the same function at the same place, so
        // its callers are above it; above code without tables there are at least the frames in
        // which the thread began.
        get(&frame.address) == unsafe { *(address as *const u64) }
    })
}

fn is_same(stack: &CallStack, native: &[Found], foreign: &[Found]) -> bool {
    // `parts` has loaded `ready` with acquire.
    fn same(known: &[Frame], found: &[Found]) -> bool {
        known.iter().map(|frame| get(&frame.address)).eq(found.iter().map(|frame| frame[0]))
    }
    parts(stack).is_some_and(|known| same(known.0, native) && same(known.1, foreign))
}

fn write(file: &'static File, stack: &CallStack, native: &[Found], foreign: &[Found]) {
    // Everything is published by the release store of `ready`.
    for (frames, found) in [(&stack.native[..], native), (&stack.foreign[..], foreign)] {
        for (frame, [address, position]) in frames.iter().zip(found) {
            memory_map::is_compiled(file, *address);
            set(&frame.address, *address);
            set(&frame.position, *position);
        }
    }
    set(&stack.count, native.len() as u64);
    set(&stack.foreign_count, foreign.len() as u64);
    // Release: a reader that sees this sees the frames.
    stack.ready.store(1, Release);
}

/// Fills `found` with the code in which the unwinder ended, if it belongs to no file, and its
/// possible callers: words that point behind a call in such code. Returns their number.
fn returns(file: &File, first: Found, mark: usize, found: &mut [Found; FOREIGN_FRAMES]) -> usize {
    let [code, distance] = first;
    if !memory_map::is_compiled(file, code) {
        return 0;
    }
    found[0] = first;
    let mut count = 1;
    let mut words = [0_u64; SCANNED];
    let above = mark as u64 + distance + 8;
    let length = memory_map::peek(above as usize, &mut words);
    for (word, address) in words[..length].iter().zip((above..).step_by(8)) {
        if memory_map::compiled(*word) && is_after_call(*word) {
            found[count] = [*word, address - mark as u64];
            count += 1;
            if count == FOREIGN_FRAMES {
                break;
            }
        }
    }
    count
}

/// Returns whether the instruction before an address in readable code is a call.
fn is_after_call(address: u64) -> bool {
    // Read by the kernel: code that a program compiles may be gone since its map was read.
    let mut word = [0];
    memory_map::peek(address as usize - 8, &mut word) != 0
        && arch::ends_in_call(word[0].to_le_bytes())
}

extern "C" fn whole_frame(context: *mut c_void, whole: *mut c_void) -> c_int {
    unsafe extern "C" {
        fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    }
    let address = address(context);
    // SAFETY: the walk of `context`, to which there is no other reference.
    let whole = unsafe { &mut *whole.cast::<Whole>() };
    if !whole.is_past {
        whole.is_past = address == whole.site;
        return GO_ON;
    }
    if address == 0 {
        whole.foreign = None;
        return END;
    }
    // SAFETY: the unwinder passes the context of a frame.
    let end = unsafe { _Unwind_GetCFA(context) };
    // The return address of the called function is the last word of its frame.
    let found = [address as u64, end.wrapping_sub(8 + whole.mark) as u64];
    if let Some(before) = whole.foreign.replace(found) {
        let Some(place) = whole.frames.get_mut(whole.count) else {
            whole.foreign = None;
            return END;
        };
        *place = before;
        whole.count += 1;
    }
    GO_ON
}
