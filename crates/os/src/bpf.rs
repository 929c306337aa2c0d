//! bpf(2): maps, programs and their tracepoints, for privileged callers. Everything ends with its
//! descriptor, so nothing is left in the kernel whatever way this process ends.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const MAP_NEXT: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
/// What says which events places in files are.
const FILE_EVENTS: &str = "/sys/bus/event_source/devices/uprobe/type";
/// CPUs for which maps have room.
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";
/// `PERF_EVENT_IOC_SET_BPF` and `PERF_EVENT_IOC_ENABLE`.
const SET_PROGRAM: libc::c_ulong = 0x4004_2408;
const ENABLE: libc::c_ulong = 0x2400;
/// The licence that a program must state for the functions that read memory and stacks.
const LICENCE: &CStr = c"Dual MIT/GPL";
/// Bytes of the verifier's log.
const LOG_BYTES: usize = 1 << 20;
/// Length of the longest name, its end included.
const NAME_BYTES: usize = 16;

/// Kinds of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Values by key.
    Hash = 1,
    /// Values by number.
    Array = 2,
    /// The same, one of each CPU.
    PerCpuArray = 6,
    /// Stacks by the number that `bpf_get_stackid` gives.
    Stacks = 7,
}

/// Where programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramKind {
    /// At a place in a file that processes execute.
    Probe = 2,
    /// At a raw tracepoint.
    Tracepoint = 17,
    /// At a raw tracepoint with typed arguments: a program reads their members itself.
    Typed = 26,
}

/// Attach type of typed programs: `BPF_TRACE_RAW_TP`.
const AT_TRACEPOINT: u32 = 23;

/// A map of fixed sizes.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    kind: MapKind,
    key: usize,
    value: usize,
}

/// A loaded program.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// A program at its place, until this is dropped.
#[derive(Debug)]
pub struct Link {
    _descriptor: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct CreateMap {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; NAME_BYTES],
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct LoadProgram {
    kind: u32,
    count: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    device: u32,
    place: u32,
    types: u32,
    function_bytes: u32,
    functions: u64,
    function_count: u32,
    line_bytes: u32,
    lines: u64,
    line_count: u32,
    place_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct OpenTracepoint {
    name: u64,
    program: u32,
    unused: u32,
}

/// `perf_event_attr`, as far as places in files want it.
#[repr(C)]
#[derive(Default)]
struct Event {
    kind: u32,
    bytes: u32,
    config: u64,
    period: u64,
    samples: u64,
    format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    path: u64,
    offset: u64,
    more: [u64; 5],
}

/// Structures that the kernel takes as `union bpf_attr`.
///
/// # Safety
/// Pointers in a value must be valid for the command's accesses during the call.
unsafe trait Attribute {}

// SAFETY: It has no pointer.
unsafe impl Attribute for CreateMap {}
// SAFETY: `Map` makes it alone, from slices of the sizes that its map has.
unsafe impl Attribute for Element {}
// SAFETY: `Program::load` makes it alone, from slices and their lengths.
unsafe impl Attribute for LoadProgram {}
// SAFETY: `Program::attach` makes it alone, from a text that outlives the call.
unsafe impl Attribute for OpenTracepoint {}

fn call<T: Attribute>(command: libc::c_int, attribute: &mut T) -> io::Result<RawFd> {
    // SAFETY: The kernel reads and writes this structure, whose size it is told, and what the
    // structure points to, which is what `Attribute` promises.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attribute), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

/// Tries the call in a child where a filter of system calls may end the process.
///
/// # Errors
/// The filter does.
pub fn check() -> io::Result<()> {
    crate::filter::check(libc::SYS_bpf, "bpf(2)")
}

/// The descriptor that a command has returned.
fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: The kernel has just made it for this process, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn named(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    for (byte, to) in name.bytes().zip(&mut bytes[..NAME_BYTES - 1]) {
        *to = byte;
    }
    bytes
}

impl Map {
    /// Creates a map of `entries` entries with keys and values of the given sizes in bytes.
    ///
    /// # Errors
    /// The errors of the call: not permitted, no memory.
    pub fn new(
        name: &str,
        kind: MapKind,
        key: usize,
        value: usize,
        entries: u32,
    ) -> io::Result<Self> {
        let mut attribute = CreateMap {
            kind: kind as u32,
            key: key as u32,
            value: value as u32,
            entries,
            name: named(name),
            ..CreateMap::default()
        };
        let descriptor = owned(call(MAP_CREATE, &mut attribute)?);
        Ok(Self { descriptor, kind, key, value })
    }

    /// What instructions call it.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    fn element(&self, key: &[u8]) -> Element {
        assert_eq!(key.len(), self.key, "keys of a map have one size");
        assert_ne!(self.kind, MapKind::PerCpuArray, "its values are those of all CPUs");
        Element { map: self.descriptor() as u32, key: key.as_ptr() as u64, ..Element::default() }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The errors of the call, except for a missing key.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value];
        let mut element = Element { value: value.as_mut_ptr() as u64, ..self.element(key) };
        match call(MAP_LOOKUP, &mut element) {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The values of a key of all CPUs, each of a multiple of eight bytes.
    ///
    /// # Errors
    /// The errors of the calls; numbers of CPUs that cannot be read.
    pub fn get_of_cpus(&self, key: &[u8]) -> io::Result<Vec<u8>> {
        assert_eq!(self.kind, MapKind::PerCpuArray, "others have one value");
        assert_eq!(key.len(), self.key, "keys of a map have one size");
        let cpus = std::fs::read_to_string(POSSIBLE_CPUS)?;
        let last = cpus.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok());
        let last: usize = last.ok_or(io::ErrorKind::InvalidData)?;
        let mut values = vec![0; self.value.next_multiple_of(8) * (last + 1)];
        let mut element = Element {
            map: self.descriptor() as u32,
            key: key.as_ptr() as u64,
            value: values.as_mut_ptr() as u64,
            ..Element::default()
        };
        call(MAP_LOOKUP, &mut element)?;
        Ok(values)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The errors of the call, such as a full map.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value, "values of a map have one size");
        let mut element = Element { value: value.as_ptr() as u64, ..self.element(key) };
        call(MAP_UPDATE, &mut element).map(drop)
    }

    /// Removes a key, if it exists.
    pub fn remove(&self, key: &[u8]) {
        let _not_there = call(MAP_DELETE, &mut self.element(key));
    }

    /// All keys. While programs change the map, some may be left out.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0; self.key];
            let to = next.as_mut_ptr() as u64;
            let mut element = match keys.last() {
                Some(last) => Element { value: to, ..self.element(last) },
                None => Element { map: self.descriptor() as u32, value: to, ..Element::default() },
            };
            if call(MAP_NEXT, &mut element).is_err() {
                return keys;
            }
            keys.push(next);
        }
    }
}

impl Program {
    /// Loads one: instructions of eight bytes each. The verifier of the kernel proves that it
    /// terminates and accesses only permitted memory.
    ///
    /// # Errors
    /// The error of the call, with the last lines of the verifier's log if it refuses.
    pub fn load(name: &str, kind: ProgramKind, code: &[u8]) -> io::Result<Self> {
        Self::load_at(name, kind, code, 0)
    }

    /// Loads one for a raw tracepoint whose arguments have types, by the number of the type
    /// `btf_trace_NAME` in the kernel's type data.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_typed(name: &str, code: &[u8], tracepoint: u32) -> io::Result<Self> {
        Self::load_at(name, ProgramKind::Typed, code, tracepoint)
    }

    fn load_at(name: &str, kind: ProgramKind, code: &[u8], place: u32) -> io::Result<Self> {
        let mut log = Vec::new();
        Self::load_once(name, kind, code, place, &mut log).or_else(|refused| {
            if refused.raw_os_error() == Some(libc::EPERM) {
                return Err(refused);
            }
            log.resize(LOG_BYTES, 0);
            Self::load_once(name, kind, code, place, &mut log).map_err(|error| {
                let text = String::from_utf8_lossy(&log);
                let lines: Vec<&str> = text.trim_end_matches('\0').lines().collect();
                let last = lines[lines.len().saturating_sub(4)..].join(" / ");
                io::Error::new(error.kind(), format!("{error}: {last}"))
            })
        })
    }

    /// Loads it, with the verifier's log if there is room for one.
    fn load_once(
        name: &str,
        kind: ProgramKind,
        code: &[u8],
        place: u32,
        log: &mut [u8],
    ) -> io::Result<Self> {
        let mut attribute = LoadProgram {
            kind: kind as u32,
            count: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            licence: LICENCE.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            name: named(name),
            place: if place == 0 { 0 } else { AT_TRACEPOINT },
            place_type: place,
            ..LoadProgram::default()
        };
        call(PROG_LOAD, &mut attribute).map(|descriptor| Self(owned(descriptor)))
    }

    /// Runs it whenever the kernel passes this raw tracepoint. A typed program has one already.
    ///
    /// # Errors
    /// The errors of the call: a tracepoint that this kernel does not have.
    pub fn attach(&self, tracepoint: Option<&CStr>) -> io::Result<Link> {
        let mut attribute = OpenTracepoint {
            name: tracepoint.map_or(0, |name| name.as_ptr() as u64),
            program: self.0.as_raw_fd() as u32,
            unused: 0,
        };
        let descriptor = owned(call(RAW_TRACEPOINT_OPEN, &mut attribute)?);
        Ok(Link { _descriptor: descriptor })
    }
}

impl Program {
    /// Runs it whenever any process executes the instruction at this offset of a file.
    ///
    /// # Errors
    /// The errors of the calls; a kernel without such events.
    pub fn attach_to_file(&self, path: &Path, offset: u64) -> io::Result<Link> {
        let kind = std::fs::read_to_string(FILE_EVENTS)?;
        let kind = kind.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let event = Event {
            kind,
            bytes: size_of::<Event>() as u32,
            path: path.as_ptr() as u64,
            offset,
            ..Event::default()
        };
        // On one CPU by name; such a program runs on all of them.
        let (everybody, cpu, alone, close) = (-1, 0, -1, 8_u64);
        // SAFETY: The kernel reads this structure, whose size is in it, and the path, which is
        // terminated and outlives the call.
        let result = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const event, everybody, cpu, alone, close)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let descriptor = owned(result as RawFd);
        for (request, argument) in [(SET_PROGRAM, self.0.as_raw_fd()), (ENABLE, 0)] {
            // SAFETY: Both take a number, and change nothing of this process.
            if unsafe { libc::ioctl(descriptor.as_raw_fd(), request, argument) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Link { _descriptor: descriptor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this process may; a test that needs it says so where it cannot.
    #[expect(clippy::print_stderr, reason = "what is left out must be seen")]
    fn map(kind: MapKind) -> Option<Map> {
        match Map::new("a_test", kind, 4, 8, 4) {
            Ok(map) => Some(map),
            Err(error) => {
                eprintln!("SKIPPED, bpf(2) is not permitted here: {error}");
                None
            }
        }
    }

    #[test]
    fn a_map_keeps_what_it_is_given_and_is_full_at_its_size() {
        let Some(map) = map(MapKind::Hash) else { return };
        for key in 0_u32..4 {
            map.set(&key.to_le_bytes(), &u64::from(key).to_le_bytes()).expect("it has room");
        }
        assert!(map.set(&9_u32.to_le_bytes(), &[0; 8]).is_err(), "it is full");
        let mut keys = map.keys();
        keys.sort();
        assert_eq!(keys, (0_u32..4).map(|key| key.to_le_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(
            map.get(&3_u32.to_le_bytes()).expect("it answers"),
            Some(vec![3, 0, 0, 0, 0, 0, 0, 0])
        );
        map.remove(&3_u32.to_le_bytes());
        assert_eq!(map.get(&3_u32.to_le_bytes()).expect("it answers"), None);
    }

    #[test]
    fn the_verifier_refuses_with_a_reason_and_takes_a_program_that_ends() {
        if map(MapKind::Array).is_none() {
            return;
        }
        // `exit` with nothing in the register of the result, then after `r0 = 0`.
        let end = [0x95, 0, 0, 0, 0, 0, 0, 0];
        let refused = Program::load("refused", ProgramKind::Tracepoint, &end)
            .expect_err("it returns nothing");
        assert!(refused.to_string().contains("R0"), "{refused}");
        let code = [[0xb7, 0, 0, 0, 0, 0, 0, 0], end].concat();
        let program = Program::load("ends", ProgramKind::Tracepoint, &code).expect("it ends");
        assert!(program.attach(Some(c"no_such_tracepoint")).is_err());
        program.attach(Some(c"sched_switch")).expect("every kernel has it");
    }
}
