//! Where threads spend CPU time, by samples, and whether they spin there: a loop that waits has
//! `pause` or an atomic exchange in it, and samples lie at these instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use convoy_host::samples::{Sample, Samples};

use crate::elf::Elf;
use crate::hotspot::Hot;
use crate::names::Names;
use crate::record::Process;
use crate::waits::{only_reads, operands};

/// Samples a second of CPU time.
const HERTZ: u64 = 250;
/// Different places that are kept.
const MOST: usize = 20_000;
/// Functions that a record keeps.
const KEPT: usize = 30;
/// Bytes around a place in which instructions are sought.
const AROUND: u64 = 24;

/// What was sampled of a process.
#[derive(Default)]
struct Found {
    /// By the place with its callers, and the registers.
    places: BTreeMap<(Vec<u64>, Option<u32>), u64>,
    threads: BTreeSet<u32>,
    /// What it had mapped when it was first seen.
    maps: String,
}

/// The samples of a program while it runs.
pub struct Sampling {
    samples: Option<Samples>,
    found: BTreeMap<u32, Found>,
    /// Why there are none.
    pub refused: Option<String>,
}

impl Sampling {
    /// Of the programs that this thread starts.
    pub fn of_children() -> Self {
        let cpus = convoy_host::clock::usable_cpus();
        match Samples::of_children(&cpus, HERTZ) {
            Ok(samples) => Self { samples: Some(samples), found: BTreeMap::new(), refused: None },
            Err(error) => {
                Self { samples: None, found: BTreeMap::new(), refused: Some(error.to_string()) }
            }
        }
    }

    /// Takes what has come.
    pub fn look(&mut self) {
        let found = &mut self.found;
        if let Some(samples) = &mut self.samples {
            samples.read(|Sample { process, thread, mut chain, registers }| {
                chain.truncate(2);
                let found = found.entry(process).or_default();
                let places = &mut found.places;
                let is_place = !chain.is_empty();
                let key = (chain, registers);
                if is_place && (places.len() < MOST || places.contains_key(&key)) {
                    *places.entry(key).or_default() += 1;
                }
                found.threads.insert(thread);
            });
            for (pid, found) in found.iter_mut().filter(|(_, found)| found.maps.is_empty()) {
                let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
                found.maps = maps.unwrap_or_default();
            }
        }
    }

    /// Adds the samples of processes that have left no file: those that are linked statically.
    pub(crate) fn fill(&mut self, processes: &mut Vec<Process>) {
        /// Samples that make a process worth an entry of its own.
        const SOME: u64 = 10;
        self.look();
        for pid in self.found.keys().copied().collect::<Vec<_>>() {
            let found = &self.found[&pid];
            let (maps, threads) = (found.maps.clone(), found.threads.len() as u64);
            let (hot, samples) = self.take(pid, &Names::new(&maps, Some(pid)));
            let known = processes.iter().position(|one| one.pid == u64::from(pid));
            if known.is_none() && (samples < SOME || maps.is_empty()) {
                continue;
            }
            let at = known.unwrap_or_else(|| {
                let cpu_s = samples as f64 / HERTZ as f64;
                processes.push(Process { pid: pid.into(), cpu_s, ..Process::default() });
                processes.len() - 1
            });
            let process = &mut processes[at];
            process.threads = process.threads.max(threads);
            (process.hot, process.samples) = (hot, samples);
        }
    }

    /// The functions of a process, those with most samples first; and all its samples.
    pub(crate) fn take(&mut self, pid: u32, names: &Names) -> (Vec<Hot>, u64) {
        self.look();
        let mut places = self.found.remove(&pid).unwrap_or_default().places;
        // What recording costs is no work of the program.
        places.retain(|(chain, _), _| !names.is_recorder(chain[0]));
        let total = places.values().sum();
        let mut code = Code::default();
        let mut all: BTreeMap<String, Sum> = BTreeMap::new();
        for ((chain, registers), count) in places {
            let place = names.place(chain[0] + 1, &chain[1..]);
            let function = place.split(" (").next().unwrap_or(&place);
            let function = function.split("+0x").next().unwrap_or(function).to_owned();
            let sum = all.entry(function).or_default();
            if sum.hot.library.is_empty() {
                sum.hot.library = names.library(chain[0]).unwrap_or_default();
            }
            sum.hot.count += count;
            *sum.lines.entry(place).or_default() += count;
            if let Some(caller) = chain.get(1) {
                *sum.callers.entry(*caller).or_default() += count;
            }
            match code.kind(names, chain[0], registers) {
                Kind::Spins => sum.hot.spins += count,
                Kind::Atomic => sum.hot.atomics += count,
                Kind::Other => {}
            }
        }
        let mut all: Vec<Sum> = all.into_values().collect();
        all.sort_by_key(|sum| std::cmp::Reverse(sum.hot.count));
        all.truncate(KEPT);
        (all.into_iter().map(|sum| sum.named(names)).collect(), total)
    }
}

/// Samples of one function.
#[derive(Default)]
struct Sum {
    hot: Hot,
    lines: BTreeMap<String, u64>,
    callers: BTreeMap<u64, u64>,
}

impl Sum {
    fn named(mut self, names: &Names) -> Hot {
        let most = self.lines.into_iter().max_by_key(|(_, count)| *count);
        self.hot.place = most.map_or_else(String::new, |(place, _)| place);
        let caller = self.callers.into_iter().max_by_key(|(_, count)| *count);
        self.hot.caller = caller.and_then(|(at, _)| names.name(at)).unwrap_or_default();
        self.hot
    }
}

/// What is at a place.
enum Kind {
    Spins,
    Atomic,
    Other,
}

/// The code of files.
#[derive(Default)]
struct Code(BTreeMap<PathBuf, Option<Elf>>);

impl Code {
    fn kind(&mut self, names: &Names, address: u64, registers: Option<u32>) -> Kind {
        let Some((_, own)) = names.own(address) else { return Kind::Other };
        let Some(path) = names.readable(address) else { return Kind::Other };
        let read = |path: &Path| Elf::new(crate::identity::bytes(path)?);
        let elf = self.0.entry(path.clone()).or_insert_with(|| read(path));
        let Some(elf) = elf else { return Kind::Other };
        let code =
            elf.code().find(|(begin, bytes)| (*begin..*begin + bytes.len() as u64).contains(&own));
        let Some((begin, bytes)) = code else { return Kind::Other };
        let at = (own - begin) as usize;
        let from = at.saturating_sub(AROUND as usize);
        let to = (at + AROUND as usize).min(bytes.len());
        kind(&bytes[from..at], &bytes[at..to], registers)
    }
}

/// What the instruction is that ends before a place, or begins there.
fn kind(before: &[u8], after: &[u8], registers: Option<u32>) -> Kind {
    const PAUSE: [u8; 2] = [0xf3, 0x90];
    let is_pause = before.ends_with(&PAUSE) || after.starts_with(&PAUSE);
    if is_pause || only_reads(before, after) {
        return Kind::Spins;
    }
    // The sample lies after an instruction that took long.
    let ends = |length: &usize| Atomic::read(&before[before.len() - length..], *length);
    match (2..=before.len().min(12)).rev().find_map(|length| ends(&length)) {
        Some(Atomic::Adds) => Kind::Atomic,
        Some(one) if one.is_in_vain(after, registers) => Kind::Spins,
        Some(_) => Kind::Other,
        None => {
            let adds = |length| matches!(Atomic::read(after, length), Some(Atomic::Adds));
            if (2..=12).any(adds) { Kind::Atomic } else { Kind::Other }
        }
    }
}

/// An atomic instruction with an operand in memory.
enum Atomic {
    /// An addition and the like.
    Adds,
    /// An exchange with this register.
    Exchanges(u32),
    /// A compare and exchange.
    Compares,
}

impl Atomic {
    /// The one that these bytes begin with, if it is that long.
    fn read(bytes: &[u8], length: usize) -> Option<Self> {
        const LOCK: u8 = 0xf0;
        let is_locked = bytes.first() == Some(&LOCK);
        let mut at = usize::from(is_locked);
        at += usize::from(bytes.get(at) == Some(&0x66));
        let wide = bytes.get(at).copied().filter(|prefix| (0x40..0x50).contains(prefix));
        at += usize::from(wide.is_some());
        let (found, operation, number) = match *bytes.get(at..)? {
            // xchg is atomic with memory, with a prefix or without.
            [0x86 | 0x87, mode, ..] => {
                let high = u32::from(wide.unwrap_or(0) >> 2 & 1) << 3;
                (Self::Exchanges(u32::from(mode >> 3 & 7) | high), 1, 0)
            }
            [0x0f, 0xb0 | 0xb1, ..] if is_locked => (Self::Compares, 2, 0),
            [0x0f, 0xc0 | 0xc1, ..] if is_locked => (Self::Adds, 2, 0),
            [0x80 | 0x83, ..] if is_locked => (Self::Adds, 1, 1),
            [0x81, ..] if is_locked => (Self::Adds, 1, 4),
            [0x00 | 0x01 | 0x08 | 0x09 | 0x20 | 0x21 | 0x28 | 0x29 | 0xfe | 0xff, ..]
                if is_locked =>
            {
                (Self::Adds, 1, 0)
            }
            _ => return None,
        };
        let operands = operands(bytes.get(at + operation..)?)?;
        (at + operation + operands + number == length).then_some(found)
    }

    /// Returns whether another thread had acquired the word, by the registers after the
    /// instruction. An exchange without a test of its result is a store.
    fn is_in_vain(&self, after: &[u8], registers: Option<u32>) -> bool {
        let Some(registers) = registers else { return false };
        match self {
            Self::Adds => false,
            Self::Exchanges(register) => {
                is_tested(after, register & 7) && registers >> register & 1 == 1
            }
            Self::Compares => registers >> 16 & 1 == 0,
        }
    }
}

/// Whether an instruction compares a register, by the lower bits of its number, with something.
fn is_tested(bytes: &[u8], register: u32) -> bool {
    let bytes = match bytes {
        [prefix, rest @ ..] if (0x40..0x50).contains(prefix) => rest,
        _ => bytes,
    };
    let direct = |mode: u8| mode >> 6 == 3;
    let first = |mode: u8| u32::from(mode >> 3 & 7) == register;
    let second = |mode: u8| u32::from(mode & 7) == register;
    match *bytes {
        // test and cmp of registers
        [0x84 | 0x85 | 0x38..=0x3b, mode, ..] => direct(mode) && (first(mode) || second(mode)),
        // cmp with a number
        [0x80 | 0x83, mode, ..] => mode >> 3 == 0b11_111 && second(mode),
        [0x3c | 0x3d | 0xa8 | 0xa9, ..] => register == 0,
        // movzx
        [0x0f, 0xb6, mode, ..] => direct(mode) && second(mode),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_that_wait_are_told_by_their_instructions() {
        let spins = |before: &[u8], after: &[u8], registers| {
            matches!(kind(before, after, registers), Kind::Spins)
        };
        assert!(spins(&[0x90, 0xf3, 0x90], &[0x8b], None));
        // xchg [rip+n],eax; test eax,eax: another thread had set it, or this one has.
        let exchange = [0x87, 0x05, 1, 2, 3, 4];
        assert!(spins(&exchange, &[0x85, 0xc0], Some(1)));
        assert!(!spins(&exchange, &[0x85, 0xc0], Some(0)));
        assert!(!spins(&exchange, &[0x85, 0xc0], None));
        // A store: nothing looks at what was there.
        assert!(!spins(&exchange, &[0xc3], Some(1)));
        // Another register is looked at, or counted down.
        assert!(!spins(&exchange, &[0x85, 0xdb], Some(1)));
        assert!(!spins(&exchange, &[0x83, 0xe8, 0x01], Some(1)));
        // xchg [rdi],r9d; test r9d,r9d.
        assert!(spins(&[0x44, 0x87, 0x0f], &[0x45, 0x85, 0xc9], Some(1 << 9)));
        // lock cmpxchg [rdi],ecx: it failed, or not.
        let compare = [0xf0, 0x0f, 0xb1, 0x0f];
        assert!(spins(&compare, &[0x75, 0xf0], Some(0)));
        assert!(!spins(&compare, &[0x75, 0xf0], Some(1 << 16)));
        // Registers are exchanged in any code.
        assert!(!spins(&[0x87, 0xd8], &[0x85, 0xc0], Some(1)));
        assert!(!spins(&[0x48, 0x0f, 0xaf, 0xc1], &[0x48, 0x01, 0xd0], Some(1)));
        let adds = |before: &[u8], after: &[u8]| matches!(kind(before, after, None), Kind::Atomic);
        assert!(adds(&[0xf0, 0x0f, 0xc1, 0x07], &[0x85, 0xc0]));
        assert!(adds(&[], &[0xf0, 0x83, 0x47, 0x08, 0x01]));
    }
}
