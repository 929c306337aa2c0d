//! Detects, from their files, programs into which the object cannot or must not be preloaded.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{self as sys, Mode, OFlags};
use rustix::process::{getegid, geteuid};

use crate::launch::program_path::find;

/// Short and full names of the sanitizers, which must be loaded first.
const SANITIZERS: [(&str, &str); 5] = [
    ("asan", "AddressSanitizer"),
    ("hwasan", "HWAddressSanitizer"),
    ("tsan", "ThreadSanitizer"),
    ("msan", "MemorySanitizer"),
    ("lsan", "LeakSanitizer"),
];
const FROM_OUTSIDE: &str =
    "record it from outside with --pid, or as root: the kernel sees its locks";

/// Machine number of this architecture in the header of an ELF file.
const MACHINE: u8 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// Why the object cannot be loaded into a program, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The program and its property.
    pub problem: String,
    /// What to do instead.
    pub cure: String,
}

impl Refusal {
    fn new(problem: String, cure: &str) -> Self {
        Self { problem, cure: cure.to_owned() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}; {}", self.problem, self.cure)
    }
}

/// Returns whether this is a Go program, by the note that Go's linker places near the start of the
/// file.
pub(crate) fn is_go(file: &std::fs::File) -> bool {
    /// Type and owner of the note, which only Go programs have in their first bytes.
    const MARK: &[u8] = b"\x04\0\0\0Go\0\0";
    let mut head = vec![0; 8192];
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    contains(&head[..read], MARK)
}

/// Returns the reason why the loader cannot, or must not, preload an object into this program, if
/// there is one.
pub fn refusal(program: &OsStr) -> Option<Refusal> {
    let path = find(program)?;
    let name = path.display();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(sys::open(&path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    if let Some(rights) = rights(&path, &found) {
        let problem =
            format!("{name} has {rights}, so the loader takes in nothing that its user chooses");
        return Some(Refusal::new(problem, FROM_OUTSIDE));
    }
    let mut head = Vec::new();
    (&file).take(64).read_to_end(&mut head).ok()?;
    if !head.starts_with(b"\x7fELF") || head.len() < 64 {
        return None;
    }
    if head[4] != 2 || head[18] != MACHINE {
        let machine = std::env::consts::ARCH;
        let problem = format!("{name} is a program for another kind of machine than {machine}");
        return Some(Refusal::new(problem, FROM_OUTSIDE));
    }
    // The loader itself, which is started with a program.
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-linux")) {
        return None;
    }
    let elf = Headers { file, head };
    let Some(interpreter) = elf.segment(INTERPRETER) else {
        let cure = if is_go(&elf.file) {
            "record it as root, with --pid or without, or give convoy explain Go's mutex profile \
             (runtime.SetMutexProfileFraction, /debug/pprof/mutex)"
        } else {
            "link it dynamically, or record it as root: the kernel sees its locks"
        };
        let problem =
            format!("{name} is linked statically, so libc's functions in it cannot be reached");
        return Some(Refusal::new(problem, cure));
    };
    if contains(&interpreter, b"ld-musl") {
        let problem = format!("{name} is linked to musl, and the recorder to glibc");
        return Some(Refusal::new(problem, FROM_OUTSIDE));
    }
    let strings = elf.strings().unwrap_or_default();
    let has = |name: &str| {
        let library = format!("\0lib{name}.so");
        let function = format!("\0__{name}_init\0");
        contains(&strings, library.as_bytes()) || contains(&strings, function.as_bytes())
    };
    let (_, checker) = SANITIZERS.iter().find(|(name, _)| has(name))?;
    let problem = format!(
        "{name} is built with {checker}, which must be loaded first and reports every access"
    );
    Some(Refusal::new(problem, "record a build without it, or this one from outside with --pid"))
}

/// Returns the rights that a file gives to every user that starts it.
fn rights(path: &Path, found: &std::fs::Metadata) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let (mode, mut value) = (found.mode(), [0_u8; 64]);
    if mode & SET_USER != 0 && found.uid() != geteuid().as_raw() {
        return Some("the rights of its owner (set-user-ID)");
    }
    if mode & SET_GROUP == SET_GROUP && found.gid() != getegid().as_raw() {
        return Some("the rights of its group (set-group-ID)");
    }
    let capable = sys::getxattr(path, "security.capability", &mut value[..]).is_ok();
    (capable && !geteuid().is_root()).then_some("file capabilities")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|one| one == part)
}

// Kinds of segments, and of entries of the dynamic segment.
const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
const STRINGS: u64 = 5;
const STRINGS_SIZE: u64 = 10;

/// Headers of a 64-bit ELF file.
struct Headers {
    file: std::fs::File,
    head: Vec<u8>,
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Headers {
    fn bytes(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        /// Limit in bytes, larger than any of these tables.
        const MOST: u64 = 64 << 20;
        let mut bytes = vec![0; length.min(MOST) as usize];
        let read = self.file.read_at(&mut bytes, offset).ok()?;
        bytes.truncate(read);
        Some(bytes)
    }

    /// Returns kind, offset, address and size in the file of each segment.
    fn segments(&self) -> Vec<[u64; 4]> {
        let (table, size) = (number(&self.head, 32, 8), number(&self.head, 54, 2));
        let count = number(&self.head, 56, 2);
        let all = self.bytes(table, size * count).unwrap_or_default();
        let of = |entry: &[u8]| {
            [(0, 4), (8, 8), (16, 8), (32, 8)].map(|(at, length)| number(entry, at, length))
        };
        all.chunks_exact((size as usize).max(56)).map(of).collect()
    }

    /// Returns the contents of the first segment of a kind.
    fn segment(&self, kind: u64) -> Option<Vec<u8>> {
        let [_, offset, _, size] = self.segments().into_iter().find(|[one, ..]| *one == kind)?;
        self.bytes(offset, size)
    }

    /// Returns the string table for the loader, with the names of libraries and functions.
    fn strings(&self) -> Option<Vec<u8>> {
        let dynamic = self.segment(DYNAMIC)?;
        let entries = || dynamic.chunks_exact(16).map(|one| [0, 8].map(|at| number(one, at, 8)));
        let value = |kind: u64| entries().find(|[one, _]| *one == kind).map(|[_, value]| value);
        let (address, size) = (value(STRINGS)?, value(STRINGS_SIZE)?);
        let [_, offset, start, _] =
            self.segments().into_iter().find(|[kind, _, start, length]| {
                *kind == LOAD && (*start..start.saturating_add(*length)).contains(&address)
            })?;
        self.bytes(offset + (address - start), size)
    }
}
