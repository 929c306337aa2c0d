//! Mutexes with an individual policy: those initialised or first acquired at certain call sites, or
//! located in certain variables.
//!
//! `convoy with` finds these places in the files of the program before it starts, and passes ranges
//! of addresses, one per line: what, start, end, and the file. *What* is a policy, or `skip` for a
//! lock wrapper, in which case its caller is the call site. This module adds the addresses at which
//! the files are mapped.
//!
//! A mutex is checked once, when it is initialised or first acquired, and marked with its policy in
//! a word that libc does not use. The mark then selects the functions of the policy. A mutex that
//! libc acquired before stays with libc.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use crate::arch;
use crate::file::map;
use crate::interpose::libc::{self, three, two};
use crate::layout::{FNV, fnv};
use crate::policy::fair::{self, Fair};
use crate::policy::handoff::{self, HandsOver};
use crate::policy::mutex::{self, MUTEX_MARK};
use crate::policy::spin::{Looks, Never};
use crate::sites::stack;

// Values of a mark and of a range.
const LIBC: u32 = 1;
const SLEEP: u32 = 2;
const SPIN: u32 = 3;
const FAIR: u32 = 4;
const HANDOFF: u32 = 5;
const SKIP: u32 = 6;
/// Upper bits of a mark, which distinguish it from other values.
const MARK: u32 = 0x00c0_4a40;
const POLICY_BITS: u32 = 7;

/// Maximum number of frames that are searched for the caller of a lock wrapper.
const FRAMES: usize = 16;

/// A range of addresses in a file.
struct Range {
    what: AtomicUsize,
    /// Hash of the file's name.
    file: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
    /// Load address of the file, plus one; 0 if the file is not mapped.
    base: AtomicU64,
}

static RANGES: [Range; 1024] = [const {
    Range {
        what: AtomicUsize::new(0),
        file: AtomicU64::new(0),
        begin: AtomicU64::new(0),
        end: AtomicU64::new(0),
        base: AtomicU64::new(0),
    }
}; 1024];
static RANGE_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Mapped code when the ranges were last placed.
static CODE: [[AtomicU64; 2]; 256] = [const { [const { AtomicU64::new(0) }; 2] }; 256];
static CODE_COUNT: AtomicUsize = AtomicUsize::new(0);
static CHOOSES: AtomicBool = AtomicBool::new(false);
/// Policy of all other mutexes.
static OTHERS: AtomicUsize = AtomicUsize::new(LIBC as usize);
/// Hash of the name of the program, which the loader does not report.
static PROGRAM: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // It has no destructor, and is part of the thread's initial memory.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

fn policy(name: &[u8]) -> u32 {
    match name {
        b"sleep" => SLEEP,
        b"spin" => SPIN,
        b"fair" => FAIR,
        b"handoff" => HANDOFF,
        b"skip" => SKIP,
        _ => LIBC,
    }
}

/// Returns the hash of the file name.
fn hash(path: &[u8]) -> u64 {
    fnv(FNV, path.rsplit(|byte| *byte == b'/').next().unwrap_or_default())
}

fn hex(text: &[u8]) -> u64 {
    text.iter().fold(0, |value, byte| {
        value << 4 | u64::from((*byte as char).to_digit(16).unwrap_or_default())
    })
}

/// Parses the ranges, and replaces libc's mutex functions with ones that choose the policy of each
/// mutex.
pub(crate) fn install(text: &[u8], others: &[u8]) {
    const AT_FDCWD: usize = -100_isize as usize;
    let mut path = [0_u8; 4096];
    let arguments =
        [AT_FDCWD, c"/proc/self/exe".as_ptr() as usize, (&raw mut path) as usize, path.len(), 0, 0];
    // SAFETY: the kernel reads a path and writes no more than there is room for.
    let length = unsafe { arch::call(arch::number::READLINKAT, arguments) };
    PROGRAM.store(hash(&path[..length.max(0) as usize]), Relaxed);
    let others = policy(others);
    OTHERS.store(others as usize, Relaxed);
    let mut used = [false; 8];
    used[others as usize] = true;
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = line.splitn(4, |byte| *byte == b' ');
        let mut word = || words.next().unwrap_or_default();
        let (what, begin, end, file) = (policy(word()), hex(word()), hex(word()), hash(word()));
        // Relaxed: ranges and policies are stored before the program has threads.
        let count = RANGE_COUNT.load(Relaxed);
        let Some(range) = RANGES.get(count).filter(|_| begin < end) else { continue };
        for (place, value) in [(&range.file, file), (&range.begin, begin), (&range.end, end)] {
            place.store(value, Relaxed);
        }
        range.what.store(what as usize, Relaxed);
        // Relaxed: as above.
        RANGE_COUNT.store(count + 1, Relaxed);
        used[what as usize] = true;
    }
    place_ranges();
    for (policy, prepare) in [(FAIR, fair::prepare as fn()), (HANDOFF, handoff::prepare)] {
        if used[policy as usize] {
            prepare();
        }
    }
    // Relaxed: as above.
    CHOOSES.store(true, Relaxed);
    let timed = [three(timedlock), three(clocklock)];
    mutex::replace([two(lock), two(trylock), two(attempt), two(unlock)], timed);
}

/// The fields of a `dl_iterate_phdr` entry that are read here.
#[repr(C)]
struct Object {
    base: u64,
    name: *const c_char,
    parts: *const Part,
    count: u16,
}

/// A program header of ELF.
#[repr(C)]
struct Part {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    size: u64,
    align: u64,
}

/// Finds the addresses at which the files of the ranges are mapped.
fn place_ranges() {
    unsafe extern "C" {
        fn dl_iterate_phdr(
            each: extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
    }
    let mut code = 0_usize;
    // SAFETY: the function may be called at any time; the argument outlives the call.
    unsafe { dl_iterate_phdr(place_object, (&raw mut code).cast()) };
    // Release: pairs with the acquire of `find_site`, which then reads that many entries of `CODE`.
    CODE_COUNT.store(code.min(CODE.len()), Release);
}

extern "C" fn place_object(object: *const Object, _: usize, code: *mut c_void) -> c_int {
    const LOAD: u32 = 1;
    const EXECUTABLE: u32 = 1;
    // SAFETY: the loader passes an object that is valid during this call.
    let object = unsafe { &*object };
    // SAFETY: its name is a C string.
    let name = unsafe { CStr::from_ptr(object.name) }.to_bytes();
    let file = if name.is_empty() { PROGRAM.load(Relaxed) } else { hash(name) };
    for range in &RANGES[..RANGE_COUNT.load(Relaxed)] {
        if range.file.load(Relaxed) == file {
            range.base.store(object.base + 1, Relaxed);
        }
    }
    // SAFETY: the object has that many headers, and they stay.
    let parts = unsafe { core::slice::from_raw_parts(object.parts, object.count.into()) };
    // SAFETY: the counter of the caller, to which there is no other reference.
    let count = unsafe { &mut *code.cast::<usize>() };
    for part in parts.iter().filter(|part| part.kind == LOAD && part.flags & EXECUTABLE != 0) {
        if let Some(place) = CODE.get(*count) {
            let begin = object.base + part.address;
            place[0].store(begin, Relaxed);
            place[1].store(begin + part.size, Relaxed);
            *count += 1;
        }
    }
    0
}

/// Returns the policy of an address by the ranges.
fn find(address: u64) -> Option<u32> {
    let ranges = &RANGES[..RANGE_COUNT.load(Relaxed)];
    let found = ranges.iter().find(|range| {
        // Relaxed: set before the program has threads, except for the base, which `find_site` reads
        // after its acquire of `CODE_COUNT`.
        let base = range.base.load(Relaxed);
        base != 0 && {
            let own = address.wrapping_sub(base - 1);
            (range.begin.load(Relaxed)..range.end.load(Relaxed)).contains(&own)
        }
    });
    // Relaxed: as above.
    found.map(|range| range.what.load(Relaxed) as u32)
}

/// Returns the policy that a call which returns to `site` assigns to a mutex.
fn find_site(site: usize) -> Option<u32> {
    let known = &CODE[..CODE_COUNT.load(Acquire)];
    let within = |range: &[AtomicU64; 2]| {
        (range[0].load(Relaxed)..range[1].load(Relaxed)).contains(&(site as u64))
    };
    if !known.iter().any(within) {
        // An object was loaded since the last look.
        place_ranges();
    }
    match find(site as u64 - 1) {
        Some(SKIP) => find_caller(site),
        found => found,
    }
}

/// Returns the policy for the nearest caller that is not a lock wrapper.
fn find_caller(site: usize) -> Option<u32> {
    let mut frames = [0; FRAMES];
    let count = stack::callers(site, &mut frames);
    let found = frames[..count].iter().map(|frame| find(frame.wrapping_sub(1)));
    found.take_while(Option::is_some).flatten().find(|&what| what != SKIP)
}

/// Returns whether mutexes have different policies.
pub(crate) fn chooses() -> bool {
    // Relaxed: set before the program has threads.
    CHOOSES.load(Relaxed)
}

/// Ensures that a mutex has its policy before a call that returns to `site` acquires it.
#[inline(always)]
pub(crate) fn meet(mutex: usize, site: usize) {
    if chooses() {
        policy_of(mutex, site);
    }
}

/// Called after a mutex was initialised by a call that returns to `site`.
pub(crate) fn made(mutex: usize, site: usize) {
    if chooses() && mutex::is_replaced(mutex) && !LOOKS.replace(true) {
        // A policy that depends on the variable is found at the first acquisition.
        if let Some(policy) = find_site(site) {
            mark(mutex, mutex::words(mutex)[MUTEX_MARK].load(Relaxed), policy);
        }
        LOOKS.set(false);
    }
}

/// Returns the policy of a mutex that a call which returns to `site` uses.
#[inline(always)]
fn policy_of(mutex: usize, site: usize) -> u32 {
    let mark = mutex::words(mutex)[MUTEX_MARK].load(Relaxed);
    if mark & !POLICY_BITS == MARK { mark & POLICY_BITS } else { decide(mutex, site, mark) }
}

#[cold]
#[inline(never)]
fn decide(mutex: usize, site: usize, before: u32) -> u32 {
    if !mutex::is_replaced(mutex) {
        return LIBC;
    }
    if LOOKS.replace(true) {
        // The unwinder itself acquires a mutex.
        return mark(mutex, before, LIBC);
    }
    let is_libcs = mutex::words(mutex)[0].load(Relaxed) != 0;
    let chosen = || find(mutex as u64).or_else(|| find_site(site));
    let policy = match () {
        () if is_libcs => LIBC,
        () => chosen().filter(|&what| what != SKIP).unwrap_or(0),
    };
    LOOKS.set(false);
    mark(mutex, before, policy)
}

/// Marks a mutex, unless another thread has done so, and returns its policy. 0 stands for the
/// policy of all mutexes that are not chosen.
fn mark(mutex: usize, before: u32, chosen: u32) -> u32 {
    let policy = if chosen == 0 { OTHERS.load(Relaxed) as u32 } else { chosen };
    let word = &mutex::words(mutex)[MUTEX_MARK];
    // Relaxed: the mark publishes no other data.
    match word.compare_exchange(before, MARK | policy, Relaxed, Relaxed) {
        Ok(_) => {
            if let Some(file) = map::file().filter(|_| ![0, LIBC].contains(&chosen)) {
                file.header.chosen.fetch_add(1, Relaxed);
            }
            policy
        }
        Err(other) => other & POLICY_BITS,
    }
}

extern "C" fn lock(mutex: usize, site: usize) -> c_int {
    match policy_of(mutex, site) {
        SLEEP => mutex::word_lock::<Never>(mutex),
        SPIN => mutex::word_lock::<Looks>(mutex),
        FAIR => mutex::lock::<Fair>(mutex),
        HANDOFF => mutex::lock::<HandsOver>(mutex),
        _ => libc::MUTEX_LOCK.libc([mutex, 0, 0, 0]),
    }
}

extern "C" fn trylock(mutex: usize, site: usize) -> c_int {
    match policy_of(mutex, site) {
        FAIR => mutex::trylock::<Fair>(mutex),
        HANDOFF => mutex::trylock::<HandsOver>(mutex),
        _ => libc::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0]),
    }
}

extern "C" fn attempt(mutex: usize, site: usize) -> c_int {
    match policy_of(mutex, site) {
        FAIR => mutex::attempt::<Fair>(mutex),
        HANDOFF => mutex::attempt::<HandsOver>(mutex),
        _ => libc::MUTEX_TRYLOCK.libc([mutex, 0, 0, 0]),
    }
}

extern "C" fn timedlock(mutex: usize, time: usize, site: usize) -> c_int {
    match policy_of(mutex, site) {
        FAIR => mutex::timedlock::<Fair>(mutex, time),
        HANDOFF => mutex::timedlock::<HandsOver>(mutex, time),
        _ => libc::MUTEX_TIMEDLOCK.libc([mutex, time, 0, 0]),
    }
}

extern "C" fn clocklock(mutex: usize, clock: usize, time: usize) -> c_int {
    match policy_of(mutex, 0) {
        FAIR => mutex::clocklock::<Fair>(mutex, clock, time),
        HANDOFF => mutex::clocklock::<HandsOver>(mutex, clock, time),
        _ => libc::MUTEX_CLOCKLOCK.libc([mutex, clock, time, 0]),
    }
}

extern "C" fn unlock(mutex: usize, _site: usize) -> c_int {
    // Relaxed: the thread read this mark when it acquired the mutex, and the mark has not changed
    // since.
    let mark = mutex::words(mutex)[MUTEX_MARK].load(Relaxed);
    match mark & POLICY_BITS {
        _ if mark & !POLICY_BITS != MARK => libc::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]),
        SLEEP | SPIN => mutex::word_unlock(mutex),
        FAIR => mutex::unlock::<Fair>(mutex),
        HANDOFF => mutex::unlock::<HandsOver>(mutex),
        _ => libc::MUTEX_UNLOCK.libc([mutex, 0, 0, 0]),
    }
}
