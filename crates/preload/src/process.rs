//! The file of this process: made when the process starts or first locks after a fork, and grown
//! page by page, so that a full disk ends the recording and never the program.

use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
};

use crate::layout::*;
use crate::local::*;
use crate::{arch, keys};

/// The words of the file.
pub(crate) type Map = [AtomicU64; FILE_WORDS];
/// Those of one thread.
pub(crate) type Slot = [AtomicU64; SLOT_WORDS];

/// The environment variable that names the directory of the files.
const VARIABLE: &[u8] = b"CONVOY_RECORD_DIR=";
/// The environment variable that is there if only acquisitions that wait are recorded.
const CONTENDED: &[u8] = b"CONVOY_RECORD_CONTENDED=";
/// Ticks until the first window of traces: some 4 ms.
const WINDOW_FIRST: u64 = 1 << 23;
/// Slots for whose first keys room is made at once.
const FEW_TOGETHER: usize = 16;
/// Longest path that is taken, with number and extension.
const PATH: usize = 512;

// What a process is.
const LOADING: u32 = 0;
const FORKED: u32 = 1;
const BEGINNING: u32 = 2;
const RECORDS: u32 = 3;
const OFF: u32 = 4;

static STATE: AtomicU32 = AtomicU32::new(LOADING);
static ONLY_CONTENDED: AtomicBool = AtomicBool::new(false);
static FILE: AtomicPtr<Map> = AtomicPtr::new(core::ptr::null_mut());
static DIRECTORY: [AtomicU8; PATH] = [const { AtomicU8::new(0) }; PATH];
/// Which file of this process number it is.
static TURN: AtomicUsize = AtomicUsize::new(0);
/// From the thread's control block to its `rseq_cs`; the least number: it has none.
static RSEQ: AtomicIsize = AtomicIsize::new(isize::MIN);
/// Ranges of code of which the memory map is known.
static CODE: [[AtomicU64; 2]; 256] = [const { [const { AtomicU64::new(0) }; 2] }; 256];
/// The bit of an end, below a page, that says that the code is of no file.
const NO_FILE: u64 = 1;
static CODE_RANGES: AtomicUsize = AtomicUsize::new(0);

// System calls of x86-64 and what they are given.
const READ_CALL: usize = 0;
const CLOSE: usize = 3;
const MMAP: usize = 9;
const MUNMAP: usize = 11;
pub(crate) const GETPID: usize = 39;
const FTRUNCATE: usize = 77;
const GETPPID: usize = 110;
const GETTID: usize = 186;
pub(crate) const CLOCK_GETTIME: usize = 228;
const TGKILL: usize = 234;
const OPENAT: usize = 257;
const FALLOCATE: usize = 285;
const AT_FDCWD: usize = -100_isize as usize;
const READ_WRITE: usize = 0o2;
const CREATE_NEW: usize = 0o300;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
const PROTECT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const EEXIST: isize = -17;
const ESRCH: isize = -3;
const EFBIG: isize = -27;
const ENOSPC: isize = -28;
const EDQUOT: isize = -122;
const CLOCK_MONOTONIC: usize = 1;
const CLOCK_PROCESS: usize = 2;

// What the loader calls before `main`, and `exit` after it.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = ended;

pub(crate) fn call(number: usize, arguments: [usize; 6]) -> isize {
    // SAFETY: every use below passes descriptors, numbers, and memory that outlives the call.
    unsafe { arch::call(number, arguments) }
}

fn close(descriptor: isize) {
    call(CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]);
}

extern "C" fn loaded(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    crate::real::find_all();
    find_rseq();
    crate::own::install(|name| value(environment, name.to_bytes()));
    if !directory(environment) {
        crate::lead();
        return STATE.store(OFF, Relaxed);
    }
    ONLY_CONTENDED.store(value(environment, CONTENDED).is_some(), Relaxed);
    crate::real::in_children(forked);
    STATE.store(BEGINNING, Relaxed);
    begin();
}

/// Copies the directory's name: programs overwrite their environment.
fn directory(environment: *const *const c_char) -> bool {
    let Some(value) = value(environment, VARIABLE) else { return false };
    for (place, byte) in DIRECTORY.iter().zip(value) {
        place.store(*byte, Relaxed);
    }
    value.len() < PATH - 32
}

/// What stands behind `name`, which ends with `=`.
fn value(environment: *const *const c_char, name: &[u8]) -> Option<&'static [u8]> {
    (0..).map_while(|index| variable(environment, index)).find_map(|text| text.strip_prefix(name))
}

fn variable(environment: *const *const c_char, index: usize) -> Option<&'static [u8]> {
    // SAFETY: the loader gives the environment, and a null pointer before ends the search.
    let place = unsafe { environment.add(index) };
    // SAFETY: within the environment.
    let text = unsafe { *place };
    // SAFETY: a C string, read at once.
    (!text.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes())
}

/// The child of a fork has one thread and must not write its parent's file.
extern "C" fn forked() {
    arch::set_thread_word(0);
    let file = FILE.swap(core::ptr::null_mut(), AcqRel);
    if !file.is_null() {
        call(MUNMAP, [file as usize, FILE_WORDS * 8, 0, 0, 0, 0]);
        STATE.store(FORKED, Relaxed);
    }
}

extern "C" fn ended() {
    if let Some(file) = file() {
        look(file, arch::ticks());
        file[H_ENDED].store(1, Relaxed);
    }
}

/// Whether acquisitions that need not wait are not even counted.
#[inline(always)]
pub(crate) fn only_contended() -> bool {
    // Relaxed: set before the program has threads.
    ONLY_CONTENDED.load(Relaxed)
}

/// The file, if this process is recorded.
#[inline(always)]
pub(crate) fn file() -> Option<&'static Map> {
    // Acquire: pairs with the release store of `begin`.
    let file = FILE.load(Acquire);
    // SAFETY: a mapping of that size, which only a forked child gives back.
    (!file.is_null()).then(|| unsafe { &*file })
}

/// The path of the file, with a zero at its end.
fn path() -> [u8; PATH] {
    let mut path = [0; PATH];
    let mut length = 0;
    while length < PATH - 32 && DIRECTORY[length].load(Relaxed) != 0 {
        path[length] = DIRECTORY[length].load(Relaxed);
        length += 1;
    }
    let pid = call(GETPID, [0; 6]) as usize;
    for (mark, number) in [(b'/', pid), (b'-', TURN.load(Relaxed))] {
        path[length] = mark;
        length = digits(&mut path, length + 1, number);
    }
    path
}

fn digits(path: &mut [u8; PATH], at: usize, number: usize) -> usize {
    let count = 1 + number.checked_ilog10().unwrap_or(0) as usize;
    let mut rest = number;
    for place in path[at..at + count].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    at + count
}

fn open(path: &[u8], flags: usize) -> isize {
    call(OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags | CLOSE_ON_EXEC, 0o600, 0, 0])
}

fn begin() {
    let made = make();
    if let Some(file) = made {
        FILE.store(core::ptr::from_ref(file).cast_mut(), Release);
    }
    STATE.store(if made.is_some() { RECORDS } else { OFF }, Release);
}

fn make() -> Option<&'static Map> {
    let mut descriptor = EEXIST;
    for turn in 0..1000 {
        TURN.store(turn, Relaxed);
        descriptor = open(&path(), READ_WRITE | CREATE_NEW);
        if descriptor != EEXIST {
            break;
        }
    }
    if descriptor < 0 {
        return None;
    }
    let file = map(descriptor as usize);
    close(descriptor);
    let file = file?;
    for (word, value) in [
        (H_VERSION, VERSION),
        (H_PID, call(GETPID, [0; 6]) as u64),
        (H_PARENT, call(GETPPID, [0; 6]) as u64),
        (H_DETAILS, 1),
        (H_STAMP, arch::stamp()),
        (H_BASE, core::ptr::from_ref(file) as u64),
    ] {
        file[word].store(value, Relaxed);
    }
    read(b"/proc/self/cmdline\0", &file[H_COMMAND..H_COMMAND + COMMAND_WORDS]);
    let begin = arch::ticks();
    look(file, begin);
    file[H_TICKS_BEGIN].store(begin, Relaxed);
    file[H_WINDOW_NEXT].store(begin + WINDOW_FIRST, Relaxed);
    file[H_NS_BEGIN].store(file[H_NS_LAST].load(Relaxed), Relaxed);
    CODE_RANGES.store(0, Relaxed);
    crate::owners::begin();
    file[H_MAGIC].store(MAGIC, Relaxed);
    Some(file)
}

fn map(descriptor: usize) -> Option<&'static Map> {
    let size = FILE_WORDS * 8;
    if call(FTRUNCATE, [descriptor, size, 0, 0, 0, 0]) != 0 || !take(descriptor, 0, SLOTS) {
        return None;
    }
    let address = call(MMAP, [0, size, PROTECT_READ_WRITE, MAP_SHARED, descriptor, 0]);
    // SAFETY: a shared mapping of that many zeros, which stays.
    (address > 0).then(|| unsafe { &*(address as *const Map) })
}

/// Makes room on the disk, so that no later store to the mapping can fail.
fn take(descriptor: usize, word: usize, words: usize) -> bool {
    let result = call(FALLOCATE, [descriptor, 0, word * 8, words * 8, 0, 0]);
    // A file system without such calls is taken at its word.
    ![ENOSPC, EDQUOT, EFBIG].contains(&result)
}

/// The same later, when the program may have closed every descriptor.
pub(crate) fn reserve(word: usize, words: usize) -> bool {
    let descriptor = open(&path(), READ_WRITE);
    if descriptor < 0 {
        return false;
    }
    let taken = take(descriptor as usize, word, words);
    close(descriptor);
    taken
}

/// Reads the beginning of a file into words; how many bytes.
fn read(path: &[u8], words: &[AtomicU64]) -> usize {
    let descriptor = open(path, 0);
    let mut length = 0;
    while descriptor >= 0 && length < words.len() * 8 {
        let place = words.as_ptr() as usize + length;
        let room = words.len() * 8 - length;
        let got = call(READ_CALL, [descriptor as usize, place, room, 0, 0, 0]);
        if got <= 0 {
            break;
        }
        length += got as usize;
    }
    if descriptor >= 0 {
        close(descriptor);
    }
    length
}

/// Notes what the clocks say, so that ticks have a length even if the process is killed.
#[cold]
pub(crate) fn look(file: &Map, ticks: u64) {
    for (clock, word) in [(CLOCK_PROCESS, H_CPU_NS), (CLOCK_MONOTONIC, H_NS_LAST)] {
        let mut time = [0_u64; 2];
        call(CLOCK_GETTIME, [clock, (&raw mut time) as usize, 0, 0, 0, 0]);
        file[word].store(time[0] * 1_000_000_000 + time[1], Relaxed);
    }
    file[H_TICKS_LAST].store(ticks, Relaxed);
}

/// The same if the last look was some time ago: the more threads there are, the longer it takes.
#[inline]
pub(crate) fn look_sometimes(file: &Map, ticks: u64) {
    /// Some 26 ms, with so many threads that there have been; and about a second.
    const LOOK: u64 = 1 << 26;
    const FEW: u64 = 64;
    const LONGEST: u64 = 1 << 31;
    let threads = file[H_THREADS].load(Relaxed);
    let apart = (LOOK + LOOK / FEW * threads).min(LONGEST);
    if ticks.wrapping_sub(file[H_TICKS_LAST].load(Relaxed)) > apart {
        look(file, ticks);
    }
}

/// A slot for this thread: one whose thread has ended, or a new one.
#[cold]
#[inline(never)]
pub(crate) fn attach() -> Option<&'static Slot> {
    // Acquire: pairs with the release store of `begin`.
    match STATE.load(Acquire) {
        RECORDS => {}
        FORKED if STATE.compare_exchange(FORKED, BEGINNING, AcqRel, Relaxed).is_ok() => begin(),
        LOADING | BEGINNING | FORKED => return None,
        _ => {
            arch::set_thread_word(1);
            return None;
        }
    }
    let file = file()?;
    file[H_THREADS].fetch_add(1, Relaxed);
    look_sometimes(file, arch::ticks());
    let Some(slot) = reused(file, 4).or_else(|| fresh(file)).or_else(|| reused(file, SLOT_COUNT))
    else {
        file[H_THREADS_LOST].fetch_add(1, Relaxed);
        arch::set_thread_word(1);
        return None;
    };
    let generation = slot[S_GENERATION].load(Relaxed) + 1;
    let generation = generation & ((1 << Told::GENERATION_BITS) - 1);
    slot[S_GENERATION].store(generation, Relaxed);
    for word in [S_TRACE, S_POKED, S_WAITS] {
        slot[word].store(0, Relaxed);
    }
    let rseq = match RSEQ.load(Relaxed) {
        isize::MIN => 0,
        offset => arch::thread_pointer().wrapping_add_signed(offset) as u64,
    };
    let (own, number) = (arch::own(), number(file, slot));
    let due = if number < PRIVATE { &slot[S_COUNTDOWN] } else { &own[O_COUNTDOWN] };
    // The first word is set last.
    own[1..].iter().for_each(|word| word.store(0, Relaxed));
    for (word, value) in [
        (O_THREAD, slot[S_THREAD].load(Relaxed)),
        (O_GENERATION, generation),
        (O_RSEQ, rseq),
        (O_SLOT, number as u64),
        (O_LINES, keys::lines(file, slot, number) as u64),
        (O_DUE, core::ptr::from_ref(due) as u64),
        (O_COUNTDOWN, slot[S_COUNTDOWN].load(Relaxed).max(1)),
    ] {
        own[word].store(value, Relaxed);
    }
    if rseq != 0 {
        // From now on a switch shows, see `Thread::switches`.
        // SAFETY: the `rseq_cs` word of this thread.
        unsafe { arch::word(rseq) }.store(arch::section(), Relaxed);
    }
    file[H_SEES_SWITCHES].store(u64::from(rseq != 0), Relaxed);
    crate::owners::attached(own[O_THREAD].load(Relaxed), number);
    arch::set_thread_word(core::ptr::from_ref(slot) as usize);
    Some(slot)
}

/// Sees where libc has registered the structure that the kernel tells a thread through.
fn find_rseq() {
    let offset = crate::real::exported::<isize>(c"__rseq_offset");
    let size = crate::real::exported::<u32>(c"__rseq_size").unwrap_or(0);
    if let Some(offset) = offset.filter(|_| size > 0) {
        // `rseq_cs` stands eight bytes into the structure.
        RSEQ.store(offset + 8, Relaxed);
    }
}

/// The number of a slot.
fn number(file: &Map, slot: &Slot) -> usize {
    let start = core::ptr::from_ref(slot) as usize - core::ptr::from_ref(file) as usize;
    (start / 8 - SLOTS) / SLOT_WORDS
}

pub(crate) fn slot(file: &'static Map, index: usize) -> &'static Slot {
    let words = &file[SLOTS + index * SLOT_WORDS..][..SLOT_WORDS];
    words.try_into().expect("as long as a slot")
}

/// A slot of which the thread has ended, among the next `count`.
fn reused(file: &'static Map, count: usize) -> Option<&'static Slot> {
    let used = (file[H_SLOTS].load(Relaxed) as usize).min(SLOT_COUNT);
    let (pid, own) = (file[H_PID].load(Relaxed) as usize, call(GETTID, [0; 6]) as u64);
    (0..count.min(used)).find_map(|_| {
        let slot = slot(file, file[H_CURSOR].fetch_add(1, Relaxed) as usize % used);
        let thread = slot[S_THREAD].load(Relaxed);
        let ended = thread == own
            || thread != 0 && call(TGKILL, [pid, thread as usize, 0, 0, 0, 0]) == ESRCH;
        let take = || slot[S_THREAD].compare_exchange(thread, own, Relaxed, Relaxed).is_ok();
        (ended && take()).then_some(slot)
    })
}

fn fresh(file: &'static Map) -> Option<&'static Slot> {
    let index = file[H_SLOTS].fetch_add(1, Relaxed) as usize;
    // Room for the first keys is made for some slots at once, and for a table when it is needed.
    let few = || reserve(FEW + index * FEW_WORDS, FEW_WORDS * FEW_TOGETHER);
    if index >= SLOT_COUNT
        || !reserve(SLOTS + index * SLOT_WORDS, S_LINES)
        || index.is_multiple_of(FEW_TOGETHER) && !few()
    {
        return None;
    }
    let slot = slot(file, index);
    let own = call(GETTID, [0; 6]) as u64;
    for (word, value) in [
        (S_COUNTDOWN, 1 + own % SAMPLED),
        (S_RANDOM, own.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        (S_PHASE_SHIFT, PHASE_SHIFT),
        (S_LOCK_PHASE_SHIFT, PHASE_SHIFT),
        (S_THREAD, own),
    ] {
        slot[word].store(value, Relaxed);
    }
    Some(slot)
}

/// Sees to it that the memory map has an address, and tells whether that is in code without a file,
/// with eight bytes before it.
pub(crate) fn is_compiled(file: &Map, address: u64) -> bool {
    learn(file, address);
    compiled(address)
}

/// The same as far as it is known.
pub(crate) fn compiled(address: u64) -> bool {
    let known = CODE_RANGES.load(Acquire).min(CODE.len());
    CODE[..known].iter().any(|[from, to]| {
        let (from, to) = (from.load(Relaxed), to.load(Relaxed));
        to & NO_FILE != 0 && (from + 8..to & !NO_FILE).contains(&address)
    })
}

/// Sees to it that the memory map says where `site` is.
pub(crate) fn learn(file: &Map, site: u64) {
    let known = CODE_RANGES.load(Acquire).min(CODE.len());
    let within =
        |range: &[AtomicU64; 2]| (range[0].load(Relaxed)..range[1].load(Relaxed)).contains(&site);
    if CODE[..known].iter().any(within) || file[H_MAP_BUSY].swap(1, AcqRel) == 1 {
        return;
    }
    let begin = file[H_MAP_BYTES].load(Relaxed) as usize;
    let words = &file[MAP + begin.div_ceil(8)..MAP + MAP_WORDS];
    // Whoever reads goes to the next word, too: a line feed stands before each copy.
    let length = read(b"/proc/self/maps\0", words);
    file[H_MAP_BYTES].store((begin.next_multiple_of(8) + length) as u64, Relaxed);
    ranges(words, length);
    file[H_MAP_BUSY].store(0, Release);
}

/// Notes the ranges of code that can be read in a memory map: lines such as `55e0-55f0 r-xp ...`.
fn ranges(words: &[AtomicU64], length: usize) {
    let byte = |at: usize| words[at / 8].load(Relaxed).to_le_bytes()[at % 8];
    let (mut at, mut count) = (0, 0);
    while at < length && count < CODE.len() {
        let mut range = [0_u64; 2];
        for bound in &mut range {
            while let Some(digit) = (byte(at) as char).to_digit(16) {
                *bound = *bound << 4 | u64::from(digit);
                at += 1;
            }
            at += 1;
        }
        let is_code = at + 2 < length && byte(at) == b'r' && byte(at + 2) == b'x';
        let mut flag = NO_FILE;
        while at < length && byte(at) != b'\n' {
            if [b'/', b'['].contains(&byte(at)) {
                flag = 0;
            }
            at += 1;
        }
        if is_code {
            CODE[count][0].store(range[0], Relaxed);
            CODE[count][1].store(range[1] | flag, Relaxed);
            count += 1;
        }
        at += 1;
    }
    CODE_RANGES.store(count, Release);
}
