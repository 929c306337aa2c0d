//! Kernel events of a program: waits in futex(2) by any caller, waits for kernel locks, and how
//! threads lose and get CPUs. Needs the permission to load BPF programs.
//!
//! Seven small programs at tracepoints count in maps of fixed sizes; no data is sent for single
//! events. They follow the threads in a list, to which a thread is added when one in the list
//! creates it. Where events are so frequent that they would slow the program, those of threads with
//! many events are recorded in windows of time (`gate`). All of it is released with the
//! descriptors of this process, however the process ends.

mod asm;
mod btf;
mod counts;
mod finish;
mod gate;
mod golang;
mod locks;
mod programs;
mod switches;
mod symbols;
mod tables;
mod waits;
mod write;

use convoy_os::bpf::{Link, Program, ProgramKind};
use convoy_os::clock::monotonic_ns;
use convoy_os::groups;
use convoy_os::process as process_files;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::names::stacks::Stacks;
use crate::record::causes::PARKED;
use crate::sampling::syscall_file::Call;
use btf::Offsets;
use counts::Counts;
use gate::{Gate, Load, Turn};
use golang::Golang;
use programs::{PROGRAMS, Point, code};
use symbols::Symbols;
use tables::{PASSED, Tables, bytes, half, process, thread, words};

/// Minimum time between two checks of new processes.
const LEAST: Duration = Duration::from_millis(10);
/// Maximum time between two of these checks.
const MOST: Duration = Duration::from_millis(50);
/// Maximum share of the time that these checks take, within these limits.
const SHARE: f64 = 0.02;
/// The same three limits for observations without an end.
const GENTLE_LEAST: Duration = Duration::from_millis(250);
const GENTLE_MOST: Duration = Duration::from_secs(1);
const GENTLE_SHARE: f64 = 0.001;
/// Time for which the memory map of a process counts as known: as long as it has been running its
/// program when the map was read, within these limits. Programs map their libraries at the start.
const FRESH: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Bytes of the maps, and later of the kernel's symbol names: a recording of a small program under
/// a limit (`memory.limit_in_bytes`) needs 84 to 95 MB, and 26 MB without kernel events.
const MEMORY: u64 = 96 << 20;

/// Reasons why kernel events cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// This user lacks the permission.
    #[error(
        "bpf(2) is not permitted ({0}); run as root or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
    )]
    Refused(io::Error),
    /// The kernel is too old, or was built without the required options.
    #[error(
        "this kernel does not offer what is needed ({0}): Linux 5.19 or later with BPF, its type \
         data in /sys/kernel/btf/vmlinux, and x86-64"
    )]
    Missing(String),
    /// The memory limit of the control group is too low: the kernel would kill a process of the
    /// group.
    #[error(
        "the control group permits {0} MB more memory, and kernel events need {needed} MB; raise \
         its limit (memory.max), or record from outside of it with --pid or --cgroup",
        needed = MEMORY >> 20
    )]
    Memory(u64),
    /// Thread IDs here differ from those in the kernel's events.
    #[error(
        "threads have other numbers for the kernel than here: this is a container with a PID \
         namespace of its own; record from outside of it with --pid"
    )]
    Numbers,
}

/// Data about a process, as observed from outside.
#[derive(Default)]
struct Seen {
    maps: String,
    command: Vec<String>,
    /// Number of programs that it had executed at that time.
    programs: u64,
    /// When it was first seen with that program, and when its memory map was read.
    read: Option<[Instant; 2]>,
    /// Whether the waits of its goroutines are recorded. `None` if it is not written in Go.
    is_watched: Option<bool>,
    /// System calls in which its threads were seen asleep. Only for programs in Go: their threads
    /// do not show which goroutine sleeps.
    calls: BTreeMap<i64, u64>,
}

impl Seen {
    /// Samples the system calls in which its threads sleep, but not calls of idle threads.
    fn look(&mut self, pid: u32) {
        /// `nanosleep`, `pause`, `futex`, `clock_nanosleep`, and the family of `epoll_wait`.
        const IDLE: [i64; 7] = [35, 34, 202, 230, 232, 281, 441];
        for thread in process_files::threads(pid).into_iter().take(THREADS) {
            if let Some(Call::Asleep { number, .. }) = Call::of(pid, thread)
                && !IDLE.contains(&number)
            {
                *self.calls.entry(number).or_default() += 1;
            }
        }
    }

    /// Returns the system call in which its threads sleep, if it is nearly always the same. If they
    /// sleep in none, goroutines sleep without a thread.
    fn sleeps_in(&self) -> String {
        /// Minimum share of the observations.
        const MOST: f64 = 0.8;
        if self.calls.is_empty() {
            return PARKED.to_owned();
        }
        let all: u64 = self.calls.values().sum();
        let first = self.calls.iter().max_by_key(|(_, count)| **count);
        let first = first.filter(|(_, count)| **count as f64 >= MOST * all as f64);
        first.map_or_else(|| A_CALL.to_owned(), |(number, _)| crate::names::syscalls::name(*number))
    }
}

/// Placeholder for an unknown system call.
const A_CALL: &str = "a system call";
/// Maximum number of threads of a program in Go that are sampled each time.
const THREADS: usize = 64;

pub(crate) struct Moment(Counts);

/// The programs in the kernel, which run until this is dropped.
pub struct Watching {
    tables: Tables,
    links: Vec<Link>,
    gate: Gate,
    offsets: Offsets,
    golang: Golang,
    seen: BTreeMap<u32, Seen>,
    begin_ns: u64,
    last: Option<Instant>,
    took: Duration,
    /// Limits of the time between two checks, and the share of the time that these take.
    pace: (Duration, Duration, f64),
    /// The kernel's symbols, once they are needed.
    symbols: Option<Symbols>,
    /// Names of each process, with the memory map that they are from.
    stacks: BTreeMap<u32, (String, Stacks)>,
}

impl Watching {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// Returns a [`BpfError`] if the user lacks the permission, the kernel or the memory limit does
    /// not suffice, or thread IDs differ from the kernel's.
    pub fn new() -> Result<Self, BpfError> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => BpfError::Refused(error),
            _ => BpfError::Missing(error.to_string()),
        };
        if cfg!(not(target_arch = "x86_64")) {
            return Err(BpfError::Missing("another kind of machine".to_owned()));
        }
        let left = groups::left(&groups::MEMORY);
        if let Some((bytes, _)) = left.filter(|(bytes, _)| *bytes < MEMORY) {
            return Err(BpfError::Memory(bytes >> 20));
        }
        convoy_os::bpf::check().map_err(|error| BpfError::Missing(error.to_string()))?;
        let tables = Tables::new().map_err(refused)?;
        let types = std::fs::read(btf::FILE);
        let types = types.map_err(|error| BpfError::Missing(format!("{}: {error}", btf::FILE)))?;
        let offsets = Offsets::read(&types)
            .ok_or_else(|| BpfError::Missing("its types are laid out otherwise".to_owned()))?;
        let begin_ns = monotonic_ns();
        let gate = Gate::new(begin_ns);
        tables.gate.set(&0_u32.to_le_bytes(), &gate.value()).map_err(refused)?;
        let mut links = Vec::new();
        for (name, point, write) in PROGRAMS {
            let code = code(write, &tables, offsets);
            let (program, tracepoint) = match point {
                Point::Raw(point) => {
                    (Program::load(name, ProgramKind::Tracepoint, &code), Some(point))
                }
                Point::Typed(number) => (Program::load_typed(name, &code, number(&offsets)), None),
            };
            let program = program.map_err(refused)?;
            links.push(program.attach(tracepoint).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => BpfError::Refused(error),
                _ => BpfError::Missing(format!("{name}: {error}")),
            })?);
        }
        let seen = BTreeMap::new();
        let (last, took) = (None, Duration::ZERO);
        let watching = Self {
            tables,
            links,
            gate,
            offsets,
            golang: Golang::default(),
            seen,
            begin_ns,
            last,
            took,
            pace: (LEAST, MOST, SHARE),
            symbols: None,
            stacks: BTreeMap::new(),
        };
        watching.check()?;
        Ok(watching)
    }

    /// Checks that the kernel uses the same thread IDs: this thread sleeps, and the programs must
    /// notice it.
    fn check(&self) -> Result<(), BpfError> {
        let Some((process, thread)) = me() else { return Err(BpfError::Numbers) };
        self.follow_thread(process, thread);
        let is_seen = (0..10).any(|_| {
            std::thread::sleep(Duration::from_micros(100));
            let found = self.tables.threads.get(&thread.to_le_bytes()).ok().flatten();
            found.is_some_and(|value| words(&value)[thread::ON] != 0)
        });
        self.tables.threads.remove(&thread.to_le_bytes());
        self.tables.processes.remove(&process.to_le_bytes());
        if is_seen { Ok(()) } else { Err(BpfError::Numbers) }
    }

    fn follow_thread(&self, process: u32, thread: u32) {
        let mut value = vec![0; thread::WORDS];
        value[thread::PROCESS] = u64::from(process);
        let _full = self.tables.threads.set(&thread.to_le_bytes(), &bytes(&value));
        let key = (thread >> 6 & (PASSED - 1)).to_le_bytes();
        if let Ok(Some(passed)) = self.tables.passed.get(&key) {
            let passed = words(&passed)[0] & !(1 << (thread & 63));
            let _it_has_room = self.tables.passed.set(&key, &bytes(&[passed]));
        }
    }

    /// Follows the threads and processes that this thread creates during the call, and their
    /// descendants.
    pub fn with<T>(&self, start: impl FnOnce() -> T) -> T {
        let Some((process, thread)) = me() else { return start() };
        self.follow_thread(process, thread);
        let started = start();
        self.tables.threads.remove(&thread.to_le_bytes());
        started
    }

    /// Follows a running process and its descendants, unless it is followed already.
    pub fn follow(&self, pid: u32) {
        if self.tables.processes.get(&pid.to_le_bytes()).is_ok_and(|found| found.is_some()) {
            return;
        }
        // Twice, because a thread may start after the list was read and before its creator is
        // followed.
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..2 {
            for id in process_files::threads(pid) {
                if all.insert(id) {
                    self.follow_thread(pid, id);
                }
            }
        }
        let mut value = vec![0; process::WORDS];
        value[process::BEGIN] = self.begin_ns;
        value[process::THREADS] = all.len() as u64;
        value[process::ALIVE] = all.len() as u64;
        let _full = self.tables.processes.set(&pid.to_le_bytes(), &bytes(&value));
    }

    /// Returns the part of the time in which threads with many switches were recorded, or `None` if
    /// their events cost so little that all are.
    pub fn recorded_share(&self) -> Option<f64> {
        self.gate.share(monotonic_ns())
    }

    /// Records all events, whatever they cost.
    pub fn unlimited(&mut self) {
        self.gate.is_limited = false;
    }

    /// Checks processes less often, for observations without an end.
    pub(crate) fn gently(&mut self) {
        self.pace = (GENTLE_LEAST, GENTLE_MOST, GENTLE_SHARE);
    }

    /// Updates the data about all processes and their memory maps, and keeps the budget. To be
    /// called often; returns the maximum time until the next call.
    pub fn look(&mut self) -> Duration {
        let next = self.turn();
        let (shortest, longest, share) = self.pace;
        let least = self.took.mul_f64(1.0 / share).clamp(shortest, longest);
        if self.last.is_some_and(|last| last.elapsed() < least) {
            return next;
        }
        let begin = Instant::now();
        for key in self.tables.processes.keys() {
            self.look_at(half(&key, 0));
        }
        (self.took, self.last) = (begin.elapsed(), Some(Instant::now()));
        next
    }

    /// Begins and ends windows, as the budget demands. Returns the time until the next decision.
    fn turn(&mut self) -> Duration {
        let now = monotonic_ns();
        match self.gate.turn(now, || Load::read(&self.tables)) {
            Turn::Wait(time) => return time,
            Turn::Close => {
                self.set_gate();
                self.golang.detach();
            }
            Turn::Open => {
                self.golang.attach();
                self.gate.open(monotonic_ns(), Load::read(&self.tables));
                self.set_gate();
            }
        }
        Duration::ZERO
    }

    fn set_gate(&self) {
        let _it_has_room = self.tables.gate.set(&0_u32.to_le_bytes(), &self.gate.value());
    }

    fn look_at(&mut self, pid: u32) {
        let value = self.tables.processes.get(&pid.to_le_bytes()).ok().flatten();
        let Some(value) = value.map(|value| words(&value)) else { return };
        let seen = self.seen.entry(pid).or_default();
        let is_same = seen.programs == value[process::PROGRAMS];
        let read = seen.read.filter(|_| is_same);
        let is_fresh = read
            .is_some_and(|[first, last]| last.elapsed() < (last - first).clamp(FRESH[0], FRESH[1]));
        if seen.is_watched == Some(true) && value[process::END] == 0 {
            seen.look(pid);
        }
        if value[process::END] != 0 || is_fresh {
            return;
        }
        let maps = process_files::maps(pid).unwrap_or_default();
        if maps.is_empty() {
            return;
        }
        let maps = crate::names::mapped_file::with_identities(pid, &maps);
        // Its file in `/proc` is used: the path may name another file in this mount namespace.
        let program = std::path::PathBuf::from(format!("/proc/{pid}/exe"));
        let is_watched = self.golang.look_at(&program, &self.tables, self.offsets);
        if is_watched == Some(true) && self.gate.probe_ns == 0.0 {
            self.gate.probe_ns = self.golang.price_ns();
        }
        *seen = Seen {
            maps,
            command: process_files::command(pid),
            programs: value[process::PROGRAMS],
            read: Some([read.map_or_else(Instant::now, |[first, _]| first), Instant::now()]),
            is_watched,
            calls: std::mem::take(&mut seen.calls),
        };
    }
}

/// Returns the IDs of this process and this thread.
fn me() -> Option<(u32, u32)> {
    let path = std::fs::read_link("/proc/thread-self").ok()?;
    let mut words = path.to_str()?.split('/');
    Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?))
}
