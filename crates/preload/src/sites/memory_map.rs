//! Addresses that are code, and their files: copies the memory map of the process to the file of
//! the recording, so that addresses can be symbolized later.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::arch::number::PROCESS_VM_READV as READ_MEMORY;
use crate::file::map::{File, get, set};
use crate::file::pages;
use crate::layout::PAGE;
use crate::system::calls::{self, GETPID, READ_CALL, call};

/// Ranges of code that the copied memory map covers.
static CODE: [[AtomicU64; 2]; 256] = [const { [const { AtomicU64::new(0) }; 2] }; 256];
/// Low bit of the end of a range: the code belongs to no file.
const NO_FILE: u64 = 1;
static CODE_RANGES: AtomicUsize = AtomicUsize::new(0);

/// Begins a new file, and returns the number of known ranges.
pub(crate) fn forget() -> usize {
    CODE_RANGES.swap(0, Relaxed)
}

/// Copies the memory map of the parent where this process cannot read its own: it has another root,
/// without `/proc`.
pub(crate) fn inherit(file: &File, parent: &File, ranges: usize) {
    let bytes = (get(&parent.header.map_bytes) as usize).min(size_of_val(&parent.map));
    let copy = &file.map[..bytes.div_ceil(8)];
    if get(&file.header.map_bytes) > 0 || bytes == 0 || !pages::reserve(file, copy) {
        return;
    }
    // Other threads access the new file only after `process::begin` has published it, and the
    // parent's file is read as it happens to be.
    for (word, parent_word) in copy.iter().zip(&parent.map) {
        set(word, get(parent_word));
    }
    set(&file.header.map_bytes, bytes as u64);
    // Release: pairs with the acquire loads of `compiled` and `learn`.
    CODE_RANGES.store(ranges, Release);
}

/// Reads memory whose extent is unknown, and returns the number of words read.
pub(crate) fn peek(address: usize, words: &mut [u64]) -> usize {
    let length = size_of_val(words);
    let (own, other) = ([words.as_mut_ptr() as usize, length], [address, length]);
    let (own, other) = (own.as_ptr() as usize, other.as_ptr() as usize);
    let pid = call(GETPID, [0; 6]) as usize;
    call(READ_MEMORY, [pid, own, 1, other, 1, 0]).max(0) as usize / 8
}

/// Copies the memory map unless it covers the address. Returns whether the address is in code
/// without a file, with eight bytes before it.
pub(crate) fn is_compiled(file: &File, address: u64) -> bool {
    learn(file, address);
    compiled(address)
}

/// Returns the same for the ranges that are already known.
pub(crate) fn compiled(address: u64) -> bool {
    let known = CODE_RANGES.load(Acquire).min(CODE.len());
    CODE[..known].iter().any(|[from, to]| {
        let (from, to) = (from.load(Relaxed), to.load(Relaxed));
        to & NO_FILE != 0 && (from + 8..to & !NO_FILE).contains(&address)
    })
}

/// Returns the range of code around an address.
pub(crate) fn around(address: usize) -> Option<[usize; 2]> {
    let known = CODE_RANGES.load(Acquire).min(CODE.len());
    let mut ranges = CODE[..known].iter().map(|range| [0, 1].map(|at| range[at].load(Relaxed)));
    let found = ranges.find(|[from, to]| (*from..*to).contains(&(address as u64)))?;
    Some(found.map(|bound| bound as usize))
}

/// Copies the memory map unless it covers `site`.
pub(crate) fn learn(file: &File, site: u64) {
    let known = CODE_RANGES.load(Acquire).min(CODE.len());
    let within =
        |range: &[AtomicU64; 2]| (range[0].load(Relaxed)..range[1].load(Relaxed)).contains(&site);
    if !CODE[..known].iter().any(within) {
        learn_all(file);
    }
}

/// Reads the current memory map.
pub(crate) fn learn_all(file: &File) {
    if file.header.map_busy.swap(1, AcqRel) == 1 {
        return;
    }
    let begin = get(&file.header.map_bytes) as usize;
    // The reader also rounds up to the next word; a line feed precedes each copy.
    let words = &file.map[begin.div_ceil(8).min(file.map.len())..];
    let length = read_map(file, words);
    if length > 0 {
        ranges(words, length);
        let length = identities(file, words, length);
        set(&file.header.map_bytes, (begin.next_multiple_of(8) + length) as u64);
    }
    // Release: pairs with the acquire of the swap above, by the thread that reads the next map.
    file.header.map_busy.store(0, Release);
}

/// Reads the memory map to these words, as far as there is room, and returns the number of bytes.
fn read_map(file: &File, words: &[AtomicU64]) -> usize {
    let descriptor = calls::open(b"/proc/self/maps\0", 0);
    // Index of the first word, counted from the beginning of a page.
    let first = file.map.len() - words.len();
    let mut length = 0;
    while descriptor >= 0 && length < size_of_val(words) {
        // The next page, or the rest of this one.
        let next = length / 8;
        let end = ((first + next + 1).next_multiple_of(PAGE) - first).min(words.len());
        if !pages::reserve(file, &words[next..end]) {
            break;
        }
        let place = words.as_ptr() as usize + length;
        let room = end * 8 - length;
        let got = call(READ_CALL, [descriptor as usize, place, room, 0, 0, 0]);
        if got <= 0 {
            break;
        }
        length += got as usize;
    }
    if descriptor >= 0 {
        calls::close(descriptor);
    }
    length
}

/// Notes the ranges of readable code in a memory map: lines such as `55e0-55f0 r-xp ...`.
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
        // Relaxed: published by the release store below. A thread that reads the ranges while they
        // are replaced may misjudge an address, and `learn` then reads the map again, or not yet.
        if is_code {
            CODE[count][0].store(range[0], Relaxed);
            CODE[count][1].store(range[1] | flag, Relaxed);
            count += 1;
        }
        at += 1;
    }
    // Release: pairs with the acquire loads of `compiled` and `learn`.
    CODE_RANGES.store(count, Release);
}

/// Adds a line for each object that is mapped from a file: its address, its ELF class and its
/// build-id, if it has one. Returns the new length of the text.
fn identities(file: &File, words: &[AtomicU64], length: usize) -> usize {
    let mut text = Text { file, words, length };
    let (mut at, begin) = (0, b" 00000000 ");
    while at < length {
        let line = at;
        while at < length && text.byte(at) != b'\n' {
            at += 1;
        }
        let is_begin = (line..at.saturating_sub(begin.len()))
            .any(|from| begin.iter().enumerate().all(|(i, one)| text.byte(from + i) == *one));
        let has_file = (line..at).any(|from| text.byte(from) == b'/');
        if is_begin && has_file {
            let digits = (line..at).map(|from| text.byte(from)).take_while(|byte| *byte != b'-');
            let digit = |byte: u8| u64::from((byte as char).to_digit(16).unwrap_or(0));
            let start = digits.fold(0, |sum, byte| sum << 4 | digit(byte));
            identity(&mut text, start);
        }
        at += 1;
    }
    text.length
}

/// A text that grows in the file, as far as there is room.
struct Text<'a> {
    file: &'a File,
    words: &'a [AtomicU64],
    length: usize,
}

impl Text<'_> {
    fn byte(&self, at: usize) -> u8 {
        // Relaxed: only the thread that has set `map_busy` accesses these words.
        self.words[at / 8].load(Relaxed).to_le_bytes()[at % 8]
    }

    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let Some(word) = self.words.get(self.length / 8) else { return };
            if !pages::reserve(self.file, word) {
                return;
            }
            let shift = self.length % 8 * 8;
            // As in `byte`.
            set(word, get(word) & !(0xff << shift) | u64::from(*byte) << shift);
            self.length += 1;
        }
    }

    fn put_hex(&mut self, bytes: impl Iterator<Item = u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in bytes {
            self.put(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// Adds the line of the object whose header is at `start`.
fn identity(text: &mut Text<'_>, start: u64) {
    /// Words of the header, the type of a note segment, and the type of a build-id note.
    const HEAD: usize = 8;
    const NOTE: u64 = 4;
    const BUILD_ID: u64 = 3;
    let mut head = [0_u64; HEAD];
    if peek(start as usize, &mut head) < HEAD || head[0] as u32 != u32::from_le_bytes(*b"\x7fELF") {
        return;
    }
    text.put_hex(start.to_be_bytes().into_iter());
    text.put(b"-id ");
    text.put(&[b'0' + (head[2] & 0xf) as u8, b' ']);
    // The table of segments, and its number of entries of 56 bytes.
    let (table, count) = (start + head[4], head[7] & 0xffff);
    for index in 0..count.min(64) {
        let mut entry = [0_u64; 7];
        peek((table + index * 56) as usize, &mut entry);
        let mut notes = [0_u64; 32];
        if entry[0] & 0xffff_ffff != NOTE {
            continue;
        }
        let length = (entry[4] as usize / 4).min(2 * peek((start + entry[1]) as usize, &mut notes));
        let word = |at: usize| notes[at / 2] >> (at % 2 * 32) & 0xffff_ffff;
        let mut at = 0;
        while at + 4 < length {
            let (name, size) = (word(at) as usize, word(at + 1) as usize);
            let begin = at + 3 + name.div_ceil(4);
            let end = begin + size.div_ceil(4);
            if name > 64 || size > 64 || end > length {
                break;
            }
            if word(at + 2) == BUILD_ID && word(at + 3) == u64::from(u32::from_le_bytes(*b"GNU\0"))
            {
                text.put_hex((0..size).map(|i| (word(begin + i / 4) >> (i % 4 * 8)) as u8));
                return text.put(b"\n");
            }
            at = end;
        }
    }
    text.put(b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_file_is_found_in_the_memory_map() {
        let text = b"1000-2000 r-xp 00000000 00:00 0 \n\
            2000-3000 rw-p 00000000 00:00 0 \n\
            3000-4000 r-xp 00000000 08:01 7    /usr/lib/libc.so.6\n\
            5000-6000 r-xp 00000000 00:00 0    [vdso]\n\
            ffff7000-ffff8000 rwxp 00000000 00:00 0 \n";
        let mut words: Vec<_> = text
            .chunks(8)
            .map(|part| {
                let mut bytes = [0; 8];
                bytes[..part.len()].copy_from_slice(part);
                AtomicU64::new(u64::from_le_bytes(bytes))
            })
            .collect();
        words.push(AtomicU64::new(0));
        ranges(&words, text.len());
        // A call instruction of eight bytes must fit before the address.
        let there = [0x1008, 0x1fff, 0xffff_7008];
        let elsewhere = [0xfff, 0x1007, 0x2000, 0x2800, 0x3800, 0x5800, 0xffff_8000];
        assert!(there.into_iter().all(compiled));
        assert!(!elsewhere.into_iter().any(compiled));
        assert_eq!(forget(), 4);
        assert!(!compiled(0x1008));
    }
}
