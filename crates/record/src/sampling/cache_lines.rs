//! Cache lines of atomic additions, from the registers of samples: a line that only one thread
//! writes does not move between CPUs, however many samples are at the addition.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of samples whose registers are kept for each process: 8 s of two CPUs.
const KEPT: usize = 4000;
/// Size of a cache line in bytes, as a power of two.
const LINE: u32 = 6;

/// An instruction that adds to a word of memory.
pub(crate) struct Addition {
    bytes: Vec<u8>,
    /// Bytes from the sampled place to the next instruction.
    ahead: u64,
}

/// A sample: the place, the thread and its registers.
type Look = (u64, u32, [u64; 16]);

/// The samples of a process, and the lines of its additions.
#[derive(Default)]
pub(crate) struct Lines {
    looks: Vec<Look>,
    /// Number of looks ever.
    number: usize,
    /// Samples of each line, with their threads.
    writers: BTreeMap<u64, (u64, BTreeSet<u32>)>,
    /// Lines of the samples at each addition; `None` if the address is not known.
    additions: BTreeMap<u64, Vec<Option<u64>>>,
}

impl Lines {
    /// Adds a sample. The newest ones are kept.
    pub(crate) fn look(&mut self, place: u64, thread: u32, registers: [u64; 16]) {
        let look = (place, thread, registers);
        match self.looks.get_mut(self.number % KEPT) {
            Some(oldest) => *oldest = look,
            None => self.looks.push(look),
        }
        self.number += 1;
    }

    /// Adds an addition that samples at this place show.
    pub(crate) fn add(&mut self, place: u64, addition: &Addition) {
        if self.additions.contains_key(&place) {
            return;
        }
        let looks = self.looks.iter().filter(|(sampled, ..)| *sampled == place);
        let mut lines = Vec::new();
        for (_, thread, registers) in looks {
            let line = addition.address(place, registers).map(|address| address >> LINE);
            if let Some(line) = line {
                let (count, threads) = self.writers.entry(line).or_default();
                *count += 1;
                threads.insert(*thread);
            }
            lines.push(line);
        }
        self.additions.insert(place, lines);
    }

    /// Returns the part of the samples at an addition whose lines only one thread writes.
    pub(crate) fn apart(&self, place: u64) -> f64 {
        /// Minimum number of samples of a line that show all its threads.
        const SEVERAL: u64 = 5;
        let Some(lines) = self.additions.get(&place) else { return 0.0 };
        let writers = lines.iter().flatten().filter_map(|line| self.writers.get(line));
        let apart = writers.filter(|(count, threads)| *count >= SEVERAL && threads.len() == 1);
        apart.count() as f64 / lines.len().max(1) as f64
    }
}

impl Addition {
    /// The instruction with these bytes ends `ahead` bytes after the sampled place.
    pub(crate) fn new(bytes: &[u8], ahead: u64) -> Self {
        Self { bytes: bytes.to_vec(), ahead }
    }

    /// Returns the address that it writes, with the registers of a sample at this place.
    fn address(&self, place: u64, registers: &[u64; 16]) -> Option<u64> {
        let prefixes = self.bytes.iter().position(|byte| ![0xf0, 0x66].contains(byte))?;
        let mut code = self.bytes.get(prefixes..)?;
        let wide = code.first().copied().filter(|prefix| (0x40..0x50).contains(prefix));
        code = code.get(usize::from(wide.is_some())..)?;
        let high = |bit: u8| (wide.unwrap_or(0) >> bit & 1) << 3;
        // xadd changes a register, which may be part of the address.
        let (is_exchange, code) = match code {
            [0x0f, rest @ ..] => (true, rest.get(1..)?),
            _ => (false, code.get(1..)?),
        };
        let (mode, rest) = code.split_first()?;
        let (base, index, rest) = match (mode & 7, mode >> 6) {
            (4, kind) => {
                let (scaled, rest) = rest.split_first()?;
                let base = (scaled & 7 != 5 || kind != 0).then_some(scaled & 7 | high(0));
                let index = (scaled >> 3 & 7) | high(1);
                (base, (index != 4).then_some((index, scaled >> 6)), rest)
            }
            (5, 0) => (None, None, rest),
            (base, _) => (Some(base | high(0)), None, rest),
        };
        let changed = is_exchange.then_some(mode >> 3 & 7 | high(2));
        if changed.is_some() && (changed == base || changed == index.map(|(number, _)| number)) {
            return None;
        }
        let distance = match (mode >> 6, base) {
            (1, _) => i64::from(rest.first()?.cast_signed()),
            (0, Some(_)) => 0,
            _ => i64::from(i32::from_le_bytes(rest.get(..4)?.try_into().ok()?)),
        };
        let is_relative = mode & 7 == 5 && mode >> 6 == 0;
        let value = |number: u8| registers[usize::from(number)];
        let begin = if is_relative { place + self.ahead } else { base.map_or(0, value) };
        let offset = index.map_or(0, |(number, scale)| value(number) << scale);
        Some(begin.wrapping_add(offset).wrapping_add_signed(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(bytes: &[u8]) -> Option<u64> {
        let registers = std::array::from_fn(|number| 0x1000 * number as u64);
        Addition::new(bytes, 0).address(0x40_0000, &registers)
    }

    #[test]
    fn addresses_follow_from_the_registers() {
        // lock add dword [rdi+8],1; lock xadd [r9],eax; lock inc dword [rip+0x10].
        assert_eq!(address(&[0xf0, 0x83, 0x47, 0x08, 0x01]), Some(0x7008));
        assert_eq!(address(&[0xf0, 0x41, 0x0f, 0xc1, 0x01]), Some(0x9000));
        assert_eq!(address(&[0xf0, 0xff, 0x05, 0x10, 0, 0, 0]), Some(0x40_0010));
        // lock add qword [rax+r8*8-0x80],1; lock inc dword [rcx*4+0x100].
        assert_eq!(address(&[0xf0, 0x4a, 0x83, 0x44, 0xc0, 0x80, 1]), Some(0x8000 * 8 - 0x80));
        assert_eq!(address(&[0xf0, 0xff, 0x04, 0x8d, 0, 1, 0, 0]), Some(0x4100));
        // lock xadd [rax],rax: the address is gone.
        assert_eq!(address(&[0xf0, 0x48, 0x0f, 0xc1, 0x00]), None);
    }

    #[test]
    fn counters_of_threads_are_apart_if_each_has_a_line() {
        fn apart(distance: u64, threads: u32) -> f64 {
            // lock inc qword [rdi].
            let addition = Addition::new(&[0xf0, 0x48, 0xff, 0x07], 0);
            let mut lines = Lines::default();
            for look in 0..40_u32 {
                let thread = look % threads;
                let mut registers = [0; 16];
                registers[7] = 0x1000 + u64::from(thread) * distance;
                lines.look(9, thread, registers);
            }
            lines.add(9, &addition);
            lines.apart(9)
        }
        assert!((apart(64, 4) - 1.0).abs() < 1e-9);
        assert!(apart(8, 4) < 1e-9, "false sharing");
        assert!(apart(0, 4) < 1e-9, "one counter");
        assert!(apart(64, 40) < 1e-9, "one sample says nothing of other threads");
    }
}
