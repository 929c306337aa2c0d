//! Samples of CPU time: positions of a program's threads, many times a second, by
//! `perf_event_open(2)` on the user's own processes, which is unprivileged if
//! `kernel.perf_event_paranoid` is at most 2. Only user-mode code is sampled.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU64, fence};

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
const NUMBERS: [u32; 8] = [0, 3, 1, 2, 6, 7, 5, 4];
/// Of the flags, the one for a result of zero.
const ZERO: u64 = 1 << 6;
/// Includes new threads and processes, leaves the kernel out, and counts samples a second.
const FLAGS: u64 = 1 << 1 | 1 << 5 | 1 << 6 | 1 << 10 | 1 << 21;
/// Begins when the thread executes a program.
const FROM_START: u64 = 1 | 1 << 12;
/// Does not begin: the event only owns a ring.
const NEVER: u64 = 1;
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
    /// Bit N: the lowest byte of register N of the machine's instructions is not 0. Bit 16: the
    /// last result was 0. None: the registers are not known.
    pub registers: Option<u32>,
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
    /// The events of running threads.
    events: Vec<OwnedFd>,
    hertz: u64,
}

impl Samples {
    /// Starts sampling the programs that this thread starts, `hertz` times per second of CPU time.
    ///
    /// # Errors
    /// The kernel does not permit it.
    pub fn of_children(cpus: &[usize], hertz: u64) -> io::Result<Self> {
        Self::new(cpus, hertz, FROM_START)
    }

    /// Prepares the sampling of running threads, `hertz` times per second of CPU time.
    ///
    /// # Errors
    /// The kernel does not permit it.
    pub fn of_running(cpus: &[usize], hertz: u64) -> io::Result<Self> {
        Self::new(cpus, hertz, NEVER)
    }

    fn new(cpus: &[usize], hertz: u64, begin: u64) -> io::Result<Self> {
        crate::filter::check(libc::SYS_perf_event_open, "it")?;
        let rings = cpus.iter().map(|cpu| Ring::new(*cpu, hertz, begin));
        Ok(Self { rings: rings.collect::<io::Result<_>>()?, events: Vec::new(), hertz })
    }

    /// Starts sampling a running thread, and the threads and processes that it starts from now on.
    /// It opens a descriptor for each CPU, and keeps half of those that this process may open free.
    ///
    /// # Errors
    /// The thread has ended, may not be traced by this user, or too many descriptors are open.
    pub fn add(&mut self, thread: u32) -> io::Result<()> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let most = limit.current.map_or(usize::MAX, |limit| limit as usize / 2);
        if self.events.len() + self.rings.len() > most {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        for ring in &self.rings {
            let event = open(thread as libc::pid_t, ring.cpu, self.hertz, 0)?;
            let output = ring.descriptor.as_raw_fd();
            // SAFETY: takes two descriptors of events.
            if unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, output) } != 0 {
                return Err(io::Error::last_os_error());
            }
            self.events.push(event);
        }
        Ok(())
    }

    /// Passes all samples since the last call to `each`.
    pub fn read(&mut self, mut each: impl FnMut(Sample)) {
        for ring in &self.rings {
            ring.read(&mut each);
        }
    }
}

/// Opens an event of a thread on a CPU; 0 is the calling thread.
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
    fn new(cpu: usize, hertz: u64, begin: u64) -> io::Result<Self> {
        let descriptor = open(0, cpu, hertz, begin)?;
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

    fn read(&self, each: &mut impl FnMut(Sample)) {
        // Acquire: pairs with the kernel's release of what it has written before.
        let (head, mut tail) = (self.word(HEAD).load(Acquire), self.word(TAIL).load(Acquire));
        while tail < head {
            let begin = self.bytes(tail, 8);
            let kind = u32::from_le_bytes(begin[..4].try_into().expect("four bytes"));
            let size = u64::from(u16::from_le_bytes(begin[6..].try_into().expect("two bytes")));
            if size < 8 {
                break;
            }
            if kind == SAMPLE {
                each(sample(&self.bytes(tail + 8, size as usize - 8)));
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
fn registers(words: &[u64]) -> Option<u32> {
    let (machine, values) = words.split_first()?;
    if *machine == 0 || values.len() != REGISTERS.count_ones() as usize {
        return None;
    }
    let (low, rest) = values.split_at(NUMBERS.len());
    let (flags, high) = rest.split_first()?;
    let bit = |value: &u64, number: u32| u32::from(*value as u8 != 0) << number;
    let low = NUMBERS.iter().zip(low).map(|(number, value)| bit(value, *number));
    let high = high.iter().zip(8..).map(|(value, number)| bit(value, number));
    let zero = u32::from(flags & ZERO != 0) << 16;
    Some(low.chain(high).fold(zero, |all, bit| all | bit))
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
    #[cfg(target_arch = "x86_64")]
    fn registers_are_known_by_their_numbers_in_instructions() {
        let mut words = [0; 18];
        // The kind of machine, bx, flags, r8.
        (words[0], words[2], words[9], words[10]) = (2, 0x101, 0x246, 1);
        assert_eq!(registers(&words), Some(1 << 3 | 1 << 8 | 1 << 16));
        words[2] = 0x100;
        assert_eq!(registers(&words), Some(1 << 8 | 1 << 16), "the lowest byte counts");
        assert_eq!(registers(&[0]), None);
    }

    #[test]
    fn programs_are_sampled_where_that_is_permitted() {
        let cpus = crate::clock::usable_cpus();
        let Ok(mut samples) = Samples::of_children(&cpus, 999) else { return };
        let loops = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", loops]).status();
        assert!(status.is_ok_and(|status| status.success()));
        let mut places = 0;
        samples.read(|sample| {
            places += usize::from(!sample.chain.is_empty());
            assert_eq!(sample.registers.is_some(), REGISTERS != 0, "{sample:?}");
        });
        assert!(places > 10, "{places}");
    }
    #[test]
    fn a_running_process_is_sampled_with_the_processes_that_it_starts() {
        let cpus = crate::clock::usable_cpus();
        let Ok(mut samples) = Samples::of_running(&cpus, 999) else { return };
        let loops = "read line; sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; exit 0";
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", loops]).stdin(std::process::Stdio::piped());
        let mut shell = shell.spawn().expect("it starts");
        samples.add(shell.id()).expect("it waits for its input");
        drop(shell.stdin.take());
        assert!(shell.wait().is_ok_and(|status| status.success()));
        let mut others = 0;
        samples.read(|sample| others += usize::from(sample.process != shell.id()));
        assert!(others > 10, "{others} samples of its child");
        samples.add(shell.id()).expect_err("it has ended");
    }
}
