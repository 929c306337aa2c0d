//! Recognizes loops in machine code that only wait: they read a word and compare it until another
//! thread has changed it, without a `pause` instruction that would identify them.

/// Returns whether the location between these bytes is in a loop that only reads memory, compares,
/// and jumps back.
pub(crate) fn only_reads(before: &[u8], after: &[u8]) -> bool {
    let bytes = [before, after].concat();
    let at = before.len();
    (at.saturating_sub(1)..bytes.len().saturating_sub(1)).any(|jump| {
        // jcc with an 8-bit displacement, back to before the location.
        let [0x70..=0x7f, distance] = bytes[jump..jump + 2] else { return false };
        let begin = jump as i64 + 2 + i64::from(distance.cast_signed());
        let Ok(begin) = usize::try_from(begin) else { return false };
        // Any two bytes may look like a jump, also one into its own bytes: that has no body.
        let Some(body) = bytes.get(begin..jump) else { return false };
        begin <= at && at <= jump + 2 && is_wait(body)
    })
}

/// Returns whether these instructions only read memory, compare, and count iterations. A loop whose
/// counter is part of an address is a search.
fn is_wait(mut body: &[u8]) -> bool {
    let (mut reads, mut counters, mut addresses) = (false, 0_u16, 0_u16);
    while !body.is_empty() {
        let Some((length, found)) = instruction(body) else { return false };
        let Some(rest) = body.get(length..) else { return false };
        match found {
            Does::Reads(registers) => (reads, addresses) = (true, addresses | registers),
            Does::Counts(register) => counters |= 1 << register,
            Does::Compares => {}
        }
        body = rest;
    }
    reads && counters & addresses == 0
}

/// Effect of an instruction in a waiting loop.
enum Does {
    /// It reads memory at an address made of these registers, one bit each.
    Reads(u16),
    /// It adds to this register, or subtracts from it.
    Counts(u8),
    /// It compares, or leaves the loop.
    Compares,
}

/// Returns the length and effect of an instruction; `None` if a waiting loop cannot contain it.
fn instruction(bytes: &[u8]) -> Option<(usize, Does)> {
    let prefix = usize::from(bytes.first().is_some_and(|byte| (0x40..0x50).contains(byte)));
    let wide = if prefix == 1 { bytes[0] } else { 0 };
    // Length of the opcode, and of an immediate operand after the other operands.
    let (operation, number) = match *bytes.get(prefix..)? {
        // pause, and a forward jcc, which leaves the loop
        [0xf3, 0x90, ..] | [0x70..=0x7f, 0..=0x7f, ..] if prefix == 0 => {
            return Some((2, Does::Compares));
        }
        // add and sub of an immediate, inc and dec, of registers
        [0x83, mode @ (0xc0..=0xc7 | 0xe8..=0xef), ..] => {
            return Some((prefix + 3, Does::Counts(mode & 7 | (wide & 1) << 3)));
        }
        [0xff, mode @ 0xc0..=0xcf, ..] => {
            return Some((prefix + 2, Does::Counts(mode & 7 | (wide & 1) << 3)));
        }
        // mov from memory, cmp, test
        [0x8a | 0x8b | 0x38..=0x3b | 0x84 | 0x85, _, ..] => (1, 0),
        // movzx
        [0x0f, 0xb6 | 0xb7, _, ..] => (2, 0),
        // cmp with an immediate
        [0x80 | 0x83, mode, ..] if mode >> 3 & 7 == 7 => (1, 1),
        [0x81, mode, ..] if mode >> 3 & 7 == 7 => (1, 4),
        // test with an immediate
        [0xf6, mode, ..] if mode & 0x38 == 0 => (1, 1),
        [0x3c | 0xa8, ..] => return Some((prefix + 2, Does::Compares)),
        _ => return None,
    };
    let place = &bytes[prefix + operation..];
    let in_memory = operands(place);
    let does = if in_memory.is_some() { Does::Reads(address(place, wide)) } else { Does::Compares };
    Some((prefix + operation + in_memory.unwrap_or(1) + number, does))
}

/// Returns the registers of an address, one bit each, or 0 if it is relative to the instruction
/// pointer.
fn address(place: &[u8], wide: u8) -> u16 {
    let (mode, index) = (place[0], place.get(1).copied().unwrap_or(0));
    let bit = |number: u8, high: u8| 1_u16 << (number & 7 | (wide >> high & 1) << 3);
    match (mode & 7, mode >> 6) {
        (4, _) => bit(index, 0) | bit(index >> 3, 1),
        (5, 0) => 0,
        (base, _) => bit(base, 0),
    }
}

/// Returns the number of bytes that encode the operands of an instruction, if one of them is in
/// memory.
pub(crate) fn operands(bytes: &[u8]) -> Option<usize> {
    let (mode, index) = (*bytes.first()?, bytes.get(1).copied().unwrap_or(0));
    let has_index = mode & 7 == 4;
    let distance = match mode >> 6 {
        0 if mode & 7 == 5 || has_index && index & 7 == 5 => 4,
        0 => 0,
        1 => 1,
        2 => 4,
        _ => return None,
    };
    Some(1 + usize::from(has_index) + distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_that_only_look_are_told_from_those_that_work() {
        // mov eax,[rip+n]; test eax,eax; jne to the mov: samples lie after the mov.
        let wait = [0x8b, 0x05, 1, 2, 3, 4, 0x85, 0xc0, 0x75, 0xf6];
        for at in [0, 6, 8] {
            assert!(only_reads(&wait[..at], &wait[at..]), "{at}");
        }
        // cmp byte [rdi+8],0; je back.
        assert!(only_reads(&[], &[0x80, 0x7f, 0x08, 0x00, 0x74, 0xfa]));
        // sub eax,1; je out; mov rdx,[rbp]; test rdx,rdx; je back: a million reads, then sleep.
        let counted = [0x83, 0xe8, 1, 0x74, 9, 0x48, 0x8b, 0x55, 0, 0x48, 0x85, 0xd2, 0x74, 0xf2];
        for at in [0, 5, 9] {
            assert!(only_reads(&counted[..at], &counted[at..]), "{at}");
        }
        // add r8,1; cmp byte [r8],0; jne back, and the same with [rax]: the latter waits.
        let search = |base: u8| [0x49, 0x83, 0xc0, 1, base, 0x80, 0x38, 0, 0x75, 0xf6];
        assert!(!only_reads(&[], &search(0x41)));
        assert!(only_reads(&[], &search(0x40)));
        // inc rax; cmp byte [rax],0; jne back: the length of a string.
        assert!(!only_reads(&[], &[0x48, 0xff, 0xc0, 0x80, 0x38, 0x00, 0x75, 0xf8]));
        // dec eax; jne back: no memory is read.
        assert!(!only_reads(&[], &[0x85, 0xc0, 0x75, 0xfc]));
        // A forward jump, or a jump to after the location.
        assert!(!only_reads(&[], &[0x8b, 0x07, 0x85, 0xc0, 0x75, 0x02]));
        assert!(!only_reads(&[0x90, 0x90], &[0x8b, 0x07, 0x75, 0xfe]));
        // mov rdi,[rbx+0x70]; call [rax]: the offset and the opcode look like a jump by -1.
        assert!(!only_reads(&[0x48, 0x8b, 0x7b, 0x70], &[0xff, 0x10]));
    }
}
