//! Functions in which threads spend CPU time, from samples, and whether they spin there: a spin
//! loop contains `pause` or an atomic exchange, and its samples are at these instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use convoy_os::process;
use convoy_os::samples::{Sample, Samples};

use crate::names::Names;
use crate::names::elf::Elf;
use crate::record::Process;
use crate::record::hotspot::Hot;
use crate::sampling::cache_lines::{Addition, Lines};
use crate::sampling::spin_loops::{only_reads, operands};

/// Samples per second of CPU time, on machines of up to 64 CPUs.
const HERTZ: u64 = 250;
/// Maximum number of distinct places that are kept.
const MOST: usize = 20_000;
/// Maximum number of functions in a record.
const KEPT: usize = 30;
/// Number of bytes around a place that are searched for instructions.
const AROUND: u64 = 24;

/// Maximum number of places of a window: their names take long to find.
const LATELY: usize = 200;

/// Counts of samples by the place with its callers, and the registers.
pub(crate) type Places = BTreeMap<(Vec<u64>, Option<u32>), u64>;

/// Samples of a process.
#[derive(Default)]
struct Found {
    places: Places,
    threads: BTreeSet<u32>,
    lines: Lines,
    /// Its memory map when it was first seen.
    maps: String,
}

/// Samples of a program while it runs.
pub struct Sampling {
    samples: Option<Samples>,
    found: BTreeMap<u32, Found>,
    /// Why sampling could not start; `None` if it did.
    pub refused: Option<String>,
}

impl Sampling {
    /// Starts to sample the programs that this thread starts.
    pub fn of_children() -> Self {
        Self::new(Samples::of_children(&convoy_os::clock::usable_cpus(), HERTZ))
    }

    /// Prepares the sampling of running processes, see [`Sampling::add`].
    pub(crate) fn of_running() -> Self {
        Self::new(Samples::of_running(&convoy_os::cpus::online(), HERTZ))
    }

    /// Samples nothing.
    pub(crate) fn none() -> Self {
        Self { samples: None, found: BTreeMap::new(), refused: None }
    }

    /// Returns the samples of each process until now.
    pub(crate) fn moment(&self) -> BTreeMap<u32, Places> {
        self.found.iter().map(|(pid, found)| (*pid, found.places.clone())).collect()
    }

    fn new(samples: std::io::Result<Samples>) -> Self {
        let refused = samples.as_ref().err().map(ToString::to_string);
        Self { samples: samples.ok(), found: BTreeMap::new(), refused }
    }

    /// Starts to sample a running process, and the processes that it starts from now on.
    pub(crate) fn add(&mut self, pid: u32) {
        if let Some(Err(error)) = self.samples.as_mut().map(|samples| samples.add(pid)) {
            self.refused = Some(error.to_string());
        }
    }

    /// Reads the new samples.
    pub fn look(&mut self) {
        let found = &mut self.found;
        if let Some(samples) = &mut self.samples {
            samples.read(|Sample { process, thread, mut chain, registers }| {
                chain.truncate(2);
                let found = found.entry(process).or_default();
                let is_place = !chain.is_empty();
                if let (Some(at), Some(registers)) = (chain.first(), registers) {
                    found.lines.look(*at, thread, registers.values);
                }
                let key = (chain, registers.map(|registers| registers.bits()));
                let places = &mut found.places;
                if is_place && (places.len() < MOST || places.contains_key(&key)) {
                    *places.entry(key).or_default() += 1;
                }
                found.threads.insert(thread);
            });
            for (pid, found) in found.iter_mut().filter(|(_, found)| found.maps.is_empty()) {
                found.maps = process::maps(*pid).unwrap_or_default();
            }
        }
    }

    /// Adds the samples of processes that have left no file, as those that are linked statically.
    pub(crate) fn fill(&mut self, processes: &mut Vec<Process>) {
        /// Minimum number of samples for which a process gets a separate entry.
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
                let hertz = self.samples.as_ref().map_or(HERTZ, Samples::hertz);
                let cpu_s = samples as f64 / hertz as f64;
                processes.push(Process { pid: pid.into(), cpu_s, ..Process::default() });
                processes.len() - 1
            });
            let process = &mut processes[at];
            process.threads = process.threads.max(threads);
            (process.hot, process.samples) = (hot, samples);
        }
    }

    /// Returns the functions of a process, most samples first, and the number of all its samples.
    pub(crate) fn take(&mut self, pid: u32, names: &Names) -> (Vec<Hot>, u64) {
        self.look();
        let found = self.found.remove(&pid).unwrap_or_default();
        hot(found.places, found.lines, names)
    }
}

/// Returns the functions with most samples between two moments, most samples first, and the number
/// of all these samples.
pub(crate) fn lately(now: &Places, then: Option<&Places>, names: &Names) -> (Vec<Hot>, u64) {
    let grown = now.iter().map(|(place, count)| {
        let before = then.and_then(|then| then.get(place)).copied().unwrap_or(0);
        (place, count.saturating_sub(before))
    });
    let mut grown: Vec<_> = grown.filter(|(_, count)| *count > 0).collect();
    grown.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    grown.truncate(LATELY);
    let places = grown.into_iter().map(|(place, count)| (place.clone(), count)).collect();
    hot(places, Lines::default(), names)
}

/// Returns the functions of these places, most samples first, and the number of all samples.
fn hot(mut places: Places, mut lines: Lines, names: &Names) -> (Vec<Hot>, u64) {
    // The overhead of recording is not work of the program.
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
            Kind::Atomic(addition) => {
                sum.hot.atomics += count;
                *sum.additions.entry(chain[0]).or_default() += count;
                lines.add(chain[0], &addition);
            }
            Kind::Other => {}
        }
    }
    let mut all: Vec<Sum> = all.into_values().collect();
    all.sort_by_key(|sum| std::cmp::Reverse(sum.hot.count));
    all.truncate(KEPT);
    (all.into_iter().map(|sum| sum.named(names, &lines)).collect(), total)
}

/// Samples of one function.
#[derive(Default)]
struct Sum {
    hot: Hot,
    lines: BTreeMap<String, u64>,
    callers: BTreeMap<u64, u64>,
    /// Samples at atomic additions, by their places.
    additions: BTreeMap<u64, u64>,
}

impl Sum {
    fn named(mut self, names: &Names, lines: &Lines) -> Hot {
        let apart = self.additions.iter().map(|(at, count)| lines.apart(*at) * *count as f64);
        self.hot.apart = apart.sum::<f64>() as u64;
        let most = self.lines.into_iter().max_by_key(|(_, count)| *count);
        self.hot.place = most.map_or_else(String::new, |(place, _)| place);
        let caller = self.callers.into_iter().max_by_key(|(_, count)| *count);
        self.hot.caller = caller.and_then(|(at, _)| names.name(at)).unwrap_or_default();
        self.hot
    }
}

/// Kind of the instruction at a place.
enum Kind {
    Spins,
    Atomic(Addition),
    Other,
}

/// Code of files, by path.
#[derive(Default)]
struct Code(BTreeMap<PathBuf, Option<Elf>>);

impl Code {
    fn kind(&mut self, names: &Names, address: u64, registers: Option<u32>) -> Kind {
        let Some((_, own)) = names.own(address) else { return Kind::Other };
        let Some(path) = names.readable(address) else { return Kind::Other };
        let read = |path: &Path| Elf::new(crate::names::mapped_file::bytes(path)?);
        let elf = self.0.entry(path.clone()).or_insert_with(|| read(path));
        let Some(elf) = elf else { return Kind::Other };
        let code = elf.code().find_map(|(begin, bytes)| {
            let offset = usize::try_from(own.checked_sub(begin)?).ok()?;
            (offset < bytes.len()).then_some((offset, bytes))
        });
        let Some((at, bytes)) = code else { return Kind::Other };
        let from = at.saturating_sub(AROUND as usize);
        let to = (at + AROUND as usize).min(bytes.len());
        kind(&bytes[from..at], &bytes[at..to], registers)
    }
}

/// Returns the kind of the instruction that ends before a place or begins there.
fn kind(before: &[u8], after: &[u8], registers: Option<u32>) -> Kind {
    const PAUSE: [u8; 2] = [0xf3, 0x90];
    let is_pause = before.ends_with(&PAUSE) || after.starts_with(&PAUSE);
    if is_pause || only_reads(before, after) {
        return Kind::Spins;
    }
    // The sample of a slow instruction is at the next instruction.
    let ends = |length: &usize| Atomic::read(&before[before.len() - length..], *length);
    let ending = (2..=before.len().min(12)).rev();
    match ending
        .map(|length| (ends(&length), length))
        .find_map(|(one, length)| Some((one?, length)))
    {
        Some((Atomic::Adds, length)) => {
            Kind::Atomic(Addition::new(&before[before.len() - length..], 0))
        }
        Some((one, _)) if one.is_in_vain(after, registers) => Kind::Spins,
        Some(_) => Kind::Other,
        None => {
            let adds = |length: &usize| matches!(Atomic::read(after, *length), Some(Atomic::Adds));
            (2..=after.len().min(12)).find(adds).map_or(Kind::Other, |length| {
                Kind::Atomic(Addition::new(&after[..length], length as u64))
            })
        }
    }
}

/// An atomic instruction with a memory operand.
enum Atomic {
    /// An addition or a similar operation.
    Adds,
    /// An exchange with this register.
    Exchanges(u32),
    /// A compare and exchange.
    Compares,
}

impl Atomic {
    /// Decodes the instruction at the start of these bytes, if it is atomic and of this length.
    fn read(bytes: &[u8], length: usize) -> Option<Self> {
        const LOCK: u8 = 0xf0;
        let is_locked = bytes.first() == Some(&LOCK);
        let mut at = usize::from(is_locked);
        at += usize::from(bytes.get(at) == Some(&0x66));
        let wide = bytes.get(at).copied().filter(|prefix| (0x40..0x50).contains(prefix));
        at += usize::from(wide.is_some());
        let (found, operation, number) = match *bytes.get(at..)? {
            // xchg with memory is atomic, with or without a prefix.
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

    /// Returns whether another thread had acquired the word, from the registers after the
    /// instruction. An exchange whose result is not tested is a store.
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

/// Returns whether an instruction compares a register, given by the lower bits of its number.
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
        fn spins(before: &[u8], after: &[u8], registers: Option<u32>) -> bool {
            matches!(kind(before, after, registers), Kind::Spins)
        }
        assert!(spins(&[0x90, 0xf3, 0x90], &[0x8b], None));
        // xchg [rip+n],eax; test eax,eax: another thread had set it, or this one has.
        let exchange = [0x87, 0x05, 1, 2, 3, 4];
        assert!(spins(&exchange, &[0x85, 0xc0], Some(1)));
        assert!(!spins(&exchange, &[0x85, 0xc0], Some(0)));
        assert!(!spins(&exchange, &[0x85, 0xc0], None));
        // A store: the old value is not read.
        assert!(!spins(&exchange, &[0xc3], Some(1)));
        // Another register is tested, or this one is decremented.
        assert!(!spins(&exchange, &[0x85, 0xdb], Some(1)));
        assert!(!spins(&exchange, &[0x83, 0xe8, 0x01], Some(1)));
        // xchg [rdi],r9d; test r9d,r9d.
        assert!(spins(&[0x44, 0x87, 0x0f], &[0x45, 0x85, 0xc9], Some(1 << 9)));
        // lock cmpxchg [rdi],ecx: failed or succeeded.
        let compare = [0xf0, 0x0f, 0xb1, 0x0f];
        assert!(spins(&compare, &[0x75, 0xf0], Some(0)));
        assert!(!spins(&compare, &[0x75, 0xf0], Some(1 << 16)));
        // Any code exchanges registers.
        assert!(!spins(&[0x87, 0xd8], &[0x85, 0xc0], Some(1)));
        assert!(!spins(&[0x48, 0x0f, 0xaf, 0xc1], &[0x48, 0x01, 0xd0], Some(1)));
        let adds =
            |before: &[u8], after: &[u8]| matches!(kind(before, after, None), Kind::Atomic(_));
        assert!(adds(&[0xf0, 0x0f, 0xc1, 0x07], &[0x85, 0xc0]));
        assert!(adds(&[], &[0xf0, 0x83, 0x47, 0x08, 0x01]));
    }

    #[test]
    fn any_bytes_are_decoded() {
        /// Bytes that the decoder looks for: prefixes, opcodes, jumps and displacements.
        const MARKS: [u8; 16] = [
            0x00, 0x0f, 0x38, 0x44, 0x66, 0x70, 0x7f, 0x80, 0x83, 0x85, 0x87, 0x8b, 0xb1, 0xf0,
            0xfe, 0xff,
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as usize
        };
        for round in 0..300_000 {
            let length = random() % (2 * AROUND as usize + 1);
            let bytes: Vec<u8> = (0..length)
                .map(|_| if round % 2 == 0 { random() as u8 } else { MARKS[random() % 16] })
                .collect();
            let (before, after) = bytes.split_at(random() % (length + 1));
            let registers = (round % 3 > 0).then(|| random() as u32);
            kind(before, after, registers);
        }
    }
}
