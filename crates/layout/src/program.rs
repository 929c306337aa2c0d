//! Whether a program can load the object, by its file. The recorder asks it of the first program,
//! and the object of those that a recorded process starts, also in children of vfork(2) and in
//! signal handlers: this code uses no memory but the stack.

/// The number of this machine in the header of an ELF file.
pub const ELF_MACHINE: u8 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Bytes of the header of an ELF file.
pub const ELF_HEADER: usize = 64;

/// Bytes of one read. The stack of a signal handler may have 8 KiB.
const PART: usize = 1024;
/// Bytes of the header of a segment, and the largest number of segments of a program.
const SEGMENT: usize = 56;
const SEGMENTS: u64 = 64;
// Kinds of segments, and of entries of the dynamic segment.
const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
/// The kind of the segment with the path of the loader.
pub const INTERPRETER: u64 = 3;
const STRINGS: u64 = 5;
const STRINGS_SIZE: u64 = 10;

/// Names in a program that is built with a sanitizer: its library, and its first function.
const SANITIZERS: [[&[u8]; 2]; 5] = [
    [b"\0libasan.so", b"\0__asan_init\0"],
    [b"\0libhwasan.so", b"\0__hwasan_init\0"],
    [b"\0libtsan.so", b"\0__tsan_init\0"],
    [b"\0libmsan.so", b"\0__msan_init\0"],
    [b"\0liblsan.so", b"\0__lsan_init\0"],
];
/// No name is longer.
const NAME: usize = 16;

/// Why a program cannot load the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is for another kind of machine.
    Foreign,
    /// It is linked statically.
    Static,
    /// It is linked to musl.
    Musl,
    /// It is built with a sanitizer, by its place in the list: asan, hwasan, tsan, msan, lsan.
    Sanitized(usize),
}

/// Kind, offset, address and size in the file of a segment.
type Segment = [u64; 4];

/// Returns a little-endian number of `length` bytes; 0 if it is not there.
pub fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|one| one == part)
}

/// Returns whether the program with this ELF header can load the object; `None` if its file cannot
/// be read. `read` reads bytes at an offset and returns how many it got. At most `most` bytes of
/// the names in the program are searched.
pub fn fitness(
    head: &[u8; ELF_HEADER],
    most: u64,
    read: impl Fn(u64, &mut [u8]) -> Option<usize>,
) -> Option<Result<(), Unfit>> {
    if head[4] != 2 || head[18] != ELF_MACHINE {
        return Some(Err(Unfit::Foreign));
    }
    let (table, count) = (number(head, 32, 8), number(head, 56, 2).min(SEGMENTS));
    let segment = |index: u64| -> Option<Segment> {
        let mut bytes = [0; SEGMENT];
        read(table.wrapping_add(index * SEGMENT as u64), &mut bytes)?;
        Some([(0, 4), (8, 8), (16, 8), (32, 8)].map(|(at, length)| number(&bytes, at, length)))
    };
    let find = |kind: u64| (0..count).filter_map(segment).find(|one| one[0] == kind);
    let Some([_, offset, ..]) = find(INTERPRETER) else { return Some(Err(Unfit::Static)) };
    let mut loader = [0; 256];
    read(offset, &mut loader)?;
    let end = loader.iter().position(|byte| *byte == 0).unwrap_or(loader.len());
    if contains(&loader[..end], b"ld-musl") {
        return Some(Err(Unfit::Musl));
    }
    let sanitizer = find(DYNAMIC).and_then(|dynamic| {
        let (address, size) = strings(&dynamic, &read)?;
        let [_, offset, start, _] =
            (0..count).filter_map(segment).find(|[kind, _, start, length]| {
                *kind == LOAD && (*start..start.saturating_add(*length)).contains(&address)
            })?;
        sanitizer(offset.wrapping_add(address - start), size.min(most), &read)
    });
    Some(sanitizer.map_or(Ok(()), |index| Err(Unfit::Sanitized(index))))
}

/// Returns the address and the size of the loader's string table.
fn strings(
    [_, offset, _, size]: &Segment,
    read: &impl Fn(u64, &mut [u8]) -> Option<usize>,
) -> Option<(u64, u64)> {
    let (mut address, mut length, mut bytes) = (None, None, [0; PART]);
    for start in (0..(*size).min(1 << 16)).step_by(PART) {
        let got = read(offset.wrapping_add(start), &mut bytes)?;
        for entry in bytes[..got].chunks_exact(16) {
            match number(entry, 0, 8) {
                STRINGS => address = Some(number(entry, 8, 8)),
                STRINGS_SIZE => length = Some(number(entry, 8, 8)),
                _ => {}
            }
        }
    }
    address.zip(length)
}

/// Returns the first sanitizer with a name in the string table.
fn sanitizer(
    offset: u64,
    size: u64,
    read: &impl Fn(u64, &mut [u8]) -> Option<usize>,
) -> Option<usize> {
    let mut bytes = [0; PART];
    let parts = (0..size).step_by(PART - NAME).filter_map(|start| {
        let got = read(offset.wrapping_add(start), &mut bytes).unwrap_or(0);
        // All names contain "san", so parts without it need not be compared.
        let part = &bytes[..got];
        let is_in = |names: &[&[u8]; 2]| names.iter().any(|name| contains(part, name));
        if contains(part, b"san") { SANITIZERS.iter().position(is_in) } else { None }
    });
    parts.min()
}
