//! Samples of CPU time: positions of a program's threads, many times a second, by
//! `perf_event_open(2)`. Only user-mode code is sampled.
//!
//! A user with `CAP_PERFMON` gets one clock for each CPU, and the samples of other programs are
//! dropped. Others observe their own processes, which is unprivileged if
//! `kernel.perf_event_paranoid` is at most 2; the events of a thread make each context switch 0.4
//! us longer, and clocks of CPUs 35 ns (`results/record.md`).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU64, fence};

use crate::process::Stat;

/// Bytes of an event's attributes.
const ATTRIBUTES: usize = 112;
/// A clock of the CPU that needs no counter of the hardware.
const SOFTWARE: u32 = 1;
/// The content of a sample: place, thread, callers, and on x86-64 the registers.
const WHAT: u64 = 1 | 1 << 1 | 1 << 5 | if REGISTERS == 0 { 0 } else { 1 << 12 };
/// General registers and flags, by their numbers in the kernel: ax, bx, cx, dx, si, di, bp, sp,
/// flags, r8 to r15.
const REGISTERS: u64 = if cfg!(target_arch = "x86_64") { 0xff | 1 << 9 | 0xff << 16 } else { 0 };
/// The numbers of these registers in instructions, in the same order, without the flags.
const NUMBERS: [usize; 8] = [0, 3, 1, 2, 6, 7, 5, 4];
/// Of the flags, the one for a result of zero.
const ZERO: u64 = 1 << 6;
/// Leaves the kernel out, and counts samples a second.
const FLAGS: u64 = 1 << 5 | 1 << 6 | 1 << 10 | 1 << 21;
/// Begins when the thread executes a program.
const FROM_START: u64 = 1 | 1 << 1 | 1 << 12;
/// Does not begin: the event only owns a ring.
const NEVER: u64 = 1 | 1 << 1;
/// Includes threads and processes that the thread starts later.
const INHERITED: u64 = 1 << 1;
/// Begins when it is opened, and reports new processes.
const FORKS: u64 = 1 << 13;
/// The process of an event that observes all.
const ALL: libc::pid_t = -1;
/// Samples of the whole machine per second at most: 250 for each of 64 CPUs. An estimate: the
/// recorder reads a sample in about a microsecond, 2 % of a CPU for all of them.
const MACHINE_HERTZ: u64 = 16_000;
/// Request to write the samples of an event to the ring of another one.
const SET_OUTPUT: libc::c_ulong = 0x2405;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// Callers of a sample at most.
const FRAMES: u16 = 8;
/// Pages of a ring, after its header page.
const PAGES: usize = 8;
/// Where that has how far the kernel has written and how far has been read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// A record that is a sample.
const SAMPLE: u32 = 9;
/// A record of a new thread or process.
const FORK: u32 = 7;
/// Larger values are marks, not addresses.
const MARKS: u64 = u64::MAX - 4095;

/// One sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The place and its callers by frame pointers, the innermost first.
    pub chain: Vec<u64>,
    /// None: they are not known.
    pub registers: Option<Registers>,
}

/// The registers of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The general registers, by their numbers in the machine's instructions.
    pub values: [u64; 16],
    /// Whether the last result was 0.
    pub is_zero: bool,
}

impl Registers {
    /// Returns a summary. Bit N: the lowest byte of register N is not 0. Bit 16: the last result
    /// was 0.
    pub fn bits(&self) -> u32 {
        let bits =
            self.values.iter().zip(0..).map(|(value, at)| u32::from(*value as u8 != 0) << at);
        bits.fold(u32::from(self.is_zero) << 16, |all, bit| all | bit)
    }
}

/// The samples of one CPU.
#[derive(Debug)]
struct Ring {
    descriptor: OwnedFd,
    cpu: usize,
    base: usize,
    page: usize,
}

/// Sampling of programs, until it is dropped.
#[derive(Debug)]
pub struct Samples {
    rings: Vec<Ring>,
    hertz: u64,
    scope: Scope,
    unread: Vec<Sample>,
}

/// Whether the rings contain samples of all processes.
#[derive(Debug)]
enum Scope {
    /// Samples of the whole machine.
    Machine(Family),
    /// Samples of single threads, with the events of those that ran already.
    Threads(Vec<OwnedFd>),
}

/// A thread or process that was started.
#[derive(Clone, Copy, Debug)]
struct Fork {
    process: u32,
    parent: u32,
    /// The thread of the parent.
    by: u32,
}

/// The sampled processes of a machine.
#[derive(Debug, Default)]
struct Family {
    /// The thread that starts members; members start others.
    starter: Option<u32>,
    members: BTreeSet<u32>,
    /// Other processes, which need no second look.
    strangers: BTreeSet<u32>,
}

impl Family {
    /// Takes over the new processes of one reading of all rings, which are in no order.
    fn grow(&mut self, forks: Vec<Fork>) {
        for fork in &forks {
            // The number of a process that has ended is used again.
            self.members.remove(&fork.process);
            self.strangers.remove(&fork.process);
        }
        let mut left = forks;
        loop {
            let count = left.len();
            left.retain(|fork| {
                let is_child = self.starter == Some(fork.by) || self.members.contains(&fork.parent);
                if is_child {
                    self.members.insert(fork.process);
                }
                !is_child
            });
            if left.len() == count {
                return;
            }
        }
    }

    /// Returns whether a process belongs to it. If its beginning was lost, because a ring was full,
    /// its parents decide.
    fn has(&mut self, process: u32) -> bool {
        if self.members.contains(&process) || self.strangers.contains(&process) {
            return self.members.contains(&process);
        }
        let parent = Stat::of(process).and_then(|stat| u32::try_from(stat.parent).ok());
        let belongs = parent.is_some_and(|parent| parent > 0 && self.has(parent));
        let known = if belongs { &mut self.members } else { &mut self.strangers };
        known.insert(process);
        belongs
    }
}

impl Samples {
    /// Starts sampling the programs that this thread starts, `hertz` times per second of CPU time.
    ///
    /// # Errors
    /// The kernel does not permit it.
    pub fn of_children(cpus: &[usize], hertz: u64) -> io::Result<Self> {
        let starter = Some(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let family = Family { starter, ..Family::default() };
        Self::of_machine(cpus, hertz, family).or_else(|_| Self::of_threads(cpus, hertz, FROM_START))
    }

    /// Prepares the sampling of running processes, `hertz` times per second of CPU time.
    ///
    /// # Errors
    /// The kernel does not permit it.
    pub fn of_running(cpus: &[usize], hertz: u64) -> io::Result<Self> {
        Self::of_machine(cpus, hertz, Family::default())
            .or_else(|_| Self::of_threads(cpus, hertz, NEVER))
    }

    fn of_machine(cpus: &[usize], hertz: u64, family: Family) -> io::Result<Self> {
        crate::filter::check(libc::SYS_perf_event_open, "it")?;
        let hertz = hertz.min(MACHINE_HERTZ / cpus.len().max(1) as u64).max(1);
        let rings = cpus.iter().map(|cpu| Ring::new(*cpu, ALL, hertz, FORKS));
        let rings = rings.collect::<io::Result<_>>()?;
        Ok(Self { rings, hertz, scope: Scope::Machine(family), unread: Vec::new() })
    }

    fn of_threads(cpus: &[usize], hertz: u64, begin: u64) -> io::Result<Self> {
        crate::filter::check(libc::SYS_perf_event_open, "it")?;
        let rings = cpus.iter().map(|cpu| Ring::new(*cpu, 0, hertz, begin));
        let rings = rings.collect::<io::Result<_>>()?;
        Ok(Self { rings, hertz, scope: Scope::Threads(Vec::new()), unread: Vec::new() })
    }

    /// Returns the number of samples per second of CPU time.
    pub fn hertz(&self) -> u64 {
        self.hertz
    }

    /// Starts sampling a running process, and the processes that it starts from now on. Unless the
    /// whole machine is observed, it opens a descriptor for each thread and CPU, and keeps half of
    /// those that this process may open free.
    ///
    /// # Errors
    /// The process may not be traced by this user, or too many descriptors are open.
    pub fn add(&mut self, process: u32) -> io::Result<()> {
        // Its own beginning may be unread, and would take it for another process of its number.
        self.collect();
        let events = match &mut self.scope {
            Scope::Machine(family) => {
                family.members.insert(process);
                return Ok(());
            }
            Scope::Threads(events) => events,
        };
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let most = limit.current.map_or(usize::MAX, |limit| limit as usize / 2);
        for thread in crate::process::threads(process) {
            if events.len() + self.rings.len() > most {
                return Err(io::Error::from_raw_os_error(libc::EMFILE));
            }
            match add_thread(events, &self.rings, thread, self.hertz) {
                // It has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Passes all samples since the last call to `each`.
    pub fn read(&mut self, each: impl FnMut(Sample)) {
        self.collect();
        self.unread.drain(..).for_each(each);
    }

    /// Reads all rings.
    fn collect(&mut self) {
        let (mut forks, mut samples) = (Vec::new(), Vec::new());
        for ring in &self.rings {
            ring.read(&mut forks, &mut samples);
        }
        if let Scope::Machine(family) = &mut self.scope {
            family.grow(forks);
            samples.retain(|sample| family.has(sample.process));
        }
        self.unread.append(&mut samples);
    }
}

/// Starts sampling a running thread on all CPUs.
fn add_thread(
    events: &mut Vec<OwnedFd>,
    rings: &[Ring],
    thread: u32,
    hertz: u64,
) -> io::Result<()> {
    for ring in rings {
        let event = open(thread as libc::pid_t, ring.cpu, hertz, INHERITED)?;
        let output = ring.descriptor.as_raw_fd();
        // SAFETY: takes two descriptors of events.
        if unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, output) } != 0 {
            return Err(io::Error::last_os_error());
        }
        events.push(event);
    }
    Ok(())
}

/// Opens an event of a thread on a CPU; 0 is the calling thread, and [`ALL`] all threads.
fn open(thread: libc::pid_t, cpu: usize, hertz: u64, begin: u64) -> io::Result<OwnedFd> {
    let mut words = [0_u8; ATTRIBUTES];
    let fields: [(usize, &[u8]); 7] = [
        (0, &SOFTWARE.to_le_bytes()),
        (4, &(ATTRIBUTES as u32).to_le_bytes()),
        (16, &hertz.to_le_bytes()),
        (24, &WHAT.to_le_bytes()),
        (40, &(FLAGS | begin).to_le_bytes()),
        (80, &REGISTERS.to_le_bytes()),
        (108, &FRAMES.to_le_bytes()),
    ];
    for (at, bytes) in fields {
        words[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let attributes = &raw const words;
    // SAFETY: the kernel reads as many bytes as the attributes say that they have.
    let opened = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attributes, thread, cpu, -1, CLOSE_ON_EXEC)
    };
    let descriptor = RawFd::try_from(opened).ok().filter(|opened| *opened >= 0);
    let descriptor = descriptor.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

impl Ring {
    fn new(cpu: usize, thread: libc::pid_t, hertz: u64, begin: u64) -> io::Result<Self> {
        let descriptor = open(thread, cpu, hertz, begin)?;
        // SAFETY: takes a number and gives one.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of the ring, wherever there is room.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                (1 + PAGES) * page,
                protection,
                libc::MAP_SHARED,
                descriptor.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { descriptor, cpu, base: base as usize, page })
    }

    /// A word of the page that describes the ring.
    fn word(&self, at: usize) -> &AtomicU64 {
        let word = (self.base + at) as *mut u64;
        // SAFETY: within the mapping, aligned, and there until the ring is dropped.
        unsafe { AtomicU64::from_ptr(word) }
    }

    fn read(&self, forks: &mut Vec<Fork>, samples: &mut Vec<Sample>) {
        // Acquire: pairs with the kernel's release of what it has written before.
        let (head, mut tail) = (self.word(HEAD).load(Acquire), self.word(TAIL).load(Acquire));
        while tail < head {
            let begin = self.bytes(tail, 8);
            let kind = u32::from_le_bytes(begin[..4].try_into().expect("four bytes"));
            let size = u64::from(u16::from_le_bytes(begin[6..].try_into().expect("two bytes")));
            if size < 8 {
                break;
            }
            let content = self.bytes(tail + 8, size as usize - 8);
            match kind {
                SAMPLE => samples.push(sample(&content)),
                FORK => forks.extend(fork(&content)),
                _ => {}
            }
            tail += size;
        }
        fence(Release);
        // Release: what was read may be written over from now on.
        self.word(TAIL).store(head, Release);
    }

    /// Bytes of the ring, which goes around.
    fn bytes(&self, from: u64, count: usize) -> Vec<u8> {
        let size = PAGES * self.page;
        let data = self.base + self.page;
        let bytes = (0..count).map(|at| {
            let place = (data + (from as usize + at) % size) as *const u8;
            // SAFETY: within the mapping; the kernel does not write what was not read yet.
            unsafe { place.read_volatile() }
        });
        bytes.collect()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's, and nothing refers to it any more.
        unsafe { libc::munmap(self.base as *mut libc::c_void, (1 + PAGES) * self.page) };
    }
}

/// A new process from its bytes: its number, its parent's, the thread's, and the parent's thread's.
/// None for a new thread.
fn fork(bytes: &[u8]) -> Option<Fork> {
    let mut words = bytes.chunks_exact(4).map(|word| word.try_into().map(u32::from_le_bytes));
    let [process, parent, _, by] = std::array::from_fn(|_| words.next().and_then(Result::ok));
    let fork = Fork { process: process?, parent: parent?, by: by? };
    (fork.process != fork.parent).then_some(fork)
}

/// A sample from its bytes: place, process and thread, number of callers, callers.
fn sample(bytes: &[u8]) -> Sample {
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let [place, task, count, ref chain @ ..] = words[..] else { return Sample::default() };
    let registers = chain.get(count as usize..).and_then(registers);
    let chain = chain.iter().copied().take(count as usize).filter(|frame| *frame < MARKS);
    let mut chain: Vec<u64> = chain.collect();
    if chain.first() != Some(&place) {
        chain.insert(0, place);
    }
    Sample { process: task as u32, thread: (task >> 32) as u32, chain, registers }
}

/// The registers of a sample from its last words: the kind of machine, then their values.
fn registers(words: &[u64]) -> Option<Registers> {
    let (machine, values) = words.split_first()?;
    if *machine == 0 || values.len() != REGISTERS.count_ones() as usize {
        return None;
    }
    let (low, rest) = values.split_at(NUMBERS.len());
    let (flags, high) = rest.split_first()?;
    let mut registers = Registers { is_zero: flags & ZERO != 0, ..Registers::default() };
    NUMBERS.iter().zip(low).for_each(|(number, value)| registers.values[*number] = *value);
    registers.values[NUMBERS.len()..].copy_from_slice(high);
    Some(registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_place_first_and_no_marks() {
        let words = [0x10_u64, 7 | 8 << 32, 3, u64::MAX - 511, 0x10, 0x20];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let chain = vec![0x10, 0x20];
        let expected = Sample { process: 7, thread: 8, chain, registers: None };
        assert_eq!(sample(&bytes), expected);
        assert_eq!(sample(&bytes[..8]), Sample::default());
    }

    #[test]
    fn children_belong_to_a_family_and_strangers_do_not() {
        fn fork(process: u32, parent: u32, by: u32) -> Fork {
            Fork { process, parent, by }
        }
        let mut family = Family { starter: Some(3), ..Family::default() };
        // Numbers that no process has. The child of a child, a child, and another thread's.
        let number = 1 << 30;
        family.grow(vec![
            fork(number + 2, number + 1, 9),
            fork(number + 1, 2, 3),
            fork(number + 3, 2, 4),
        ]);
        let belong = [1, 2, 3, 4].map(|child| family.has(number + child));
        assert_eq!(belong, [true, true, false, false]);
        family.grow(vec![fork(number + 1, 1, 1), fork(number + 4, number + 2, 9)]);
        assert!(!family.has(number + 1), "the number was used again");
        assert!(family.has(number + 4));
        // The beginning of this child is not known, but its parent is.
        family.members.insert(std::process::id());
        let mut child = std::process::Command::new("cat");
        let child = child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = child.spawn().expect("it starts");
        assert!(family.has(child.id()));
        drop(child.stdin.take());
        assert!(child.wait().is_ok());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn registers_are_known_by_their_numbers_in_instructions() {
        let mut words = [0; 18];
        // The kind of machine, bx, flags, r8.
        (words[0], words[2], words[9], words[10]) = (2, 0x101, 0x246, 1);
        let all = registers(&words).expect("the machine is known");
        assert_eq!((all.values[3], all.values[8], all.is_zero), (0x101, 1, true));
        assert_eq!(all.bits(), 1 << 3 | 1 << 8 | 1 << 16);
        words[2] = 0x100;
        let bits = registers(&words).map(|all| all.bits());
        assert_eq!(bits, Some(1 << 8 | 1 << 16), "the lowest byte counts");
        assert_eq!(registers(&[0]), None);
    }

    /// Returns the numbers of the processes of all samples until the shell ends.
    fn until_end(samples: &mut Samples, shell: &mut std::process::Child) -> Vec<u32> {
        let mut processes = Vec::new();
        let mut ended = false;
        while !ended {
            ended = shell.try_wait().expect("it was started").is_some();
            samples.read(|sample| {
                assert!(!sample.chain.is_empty());
                assert_eq!(sample.registers.is_some(), REGISTERS != 0, "{sample:?}");
                processes.push(sample.process);
            });
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        processes
    }

    type Start = fn(&[usize], u64) -> io::Result<Samples>;

    const LOOPS: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

    #[test]
    fn programs_are_sampled_where_that_is_permitted() {
        let cpus = crate::clock::usable_cpus();
        let starts: [Start; 2] =
            [Samples::of_children, |cpus, hertz| Samples::of_threads(cpus, hertz, FROM_START)];
        for start in starts {
            let Ok(mut samples) = start(&cpus, 999) else { continue };
            let shell = std::process::Command::new("sh").args(["-c", LOOPS]).spawn();
            let mut shell = shell.expect("it starts");
            let processes = until_end(&mut samples, &mut shell);
            assert!(processes.len() > 10, "{processes:?}");
            assert!(processes.iter().all(|process| *process == shell.id()), "{processes:?}");
        }
    }

    #[test]
    fn a_running_process_is_sampled_with_the_processes_that_it_starts() {
        let cpus = crate::clock::usable_cpus();
        let loops = format!("read line; sh -c '{LOOPS}'; exit 0");
        let starts: [Start; 2] =
            [Samples::of_running, |cpus, hertz| Samples::of_threads(cpus, hertz, NEVER)];
        for start in starts {
            let Ok(mut samples) = start(&cpus, 999) else { continue };
            let mut shell = std::process::Command::new("sh");
            let shell = shell.args(["-c", &loops]).stdin(std::process::Stdio::piped());
            let mut shell = shell.spawn().expect("it starts");
            samples.add(shell.id()).expect("it waits for its input");
            drop(shell.stdin.take());
            let processes = until_end(&mut samples, &mut shell);
            let others = processes.iter().filter(|process| **process != shell.id()).count();
            assert!(others > 10, "{processes:?}");
            samples.add(shell.id()).expect("a process that has ended has no threads");
        }
    }
}
