//! Locks of programs in Go. Their waits are in the program: the goroutine is parked and its thread
//! runs another one, so the kernel sees no wait for a lock. Probes in two functions of Go's runtime
//! make these waits visible: in the function that queues a goroutine for a word, and in the
//! function that makes a queued goroutine runnable.

use convoy_os::bpf::{Link, Program, ProgramKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::asm::Reg::{Fp, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use super::asm::{Call, If, Op};
use super::btf::Offsets;
use super::programs::code;
use super::tables::{Tables, giver, load, lost, thread, word};
use super::waits::{wait_begins, wait_ended, wait_ends, waits_at};
use super::write::{B, C, D, END, EPOCH, ID, KEY, NOW, ROOM, WEIGHT, Writer, w};
use crate::names::elf::Elf;

/// Function in which goroutines queue: one that finds the word free does not come there.
const QUEUES: &str = "runtime.(*semaRoot).queue";
/// Function in which a goroutine is made runnable, and the function that calls it for one that is
/// queued for a word. Its other callers wake goroutines that wait for a condition.
const READY: &str = "runtime.readyWithTime";
const RELEASES: &str = "runtime.semrelease1";

/// Offsets of the first two arguments and of the running goroutine in the registers of a probe.
const ARGUMENT: i16 = 80;
const SECOND: i16 = 40;
const GOROUTINE: i16 = 8;

/// The programs, and the places that they are attached to.
#[derive(Default)]
pub(super) struct Golang {
    programs: Option<[Program; 2]>,
    /// Programs in Go, and the places in them.
    places: Vec<(File, [u64; 2])>,
    links: Vec<Link>,
    /// Files that were checked; for programs in Go, whether their locks are watched.
    files: BTreeMap<(u64, u64), Option<bool>>,
    pub(super) failed: Option<io::Error>,
}

impl Golang {
    /// Watches the locks of this program, if it is written in Go. Returns whether it could, or
    /// `None` if it is written in another language.
    pub(super) fn look_at(
        &mut self,
        path: &Path,
        tables: &Tables,
        offsets: Offsets,
    ) -> Option<bool> {
        let file = path.metadata().ok()?;
        let file = (file.dev(), file.ino());
        if let Some(known) = self.files.get(&file) {
            return *known;
        }
        let program = File::open(path).ok().filter(crate::launch::refusal::is_go);
        let places = program.as_ref().and_then(|_| places(path));
        let is_watched = program.is_some().then_some(places.is_some());
        self.files.insert(file, is_watched);
        if let (Some(program), Some(places)) = (program, places)
            && let Err(error) = self.watch(program, places, tables, offsets)
        {
            self.failed.get_or_insert(error);
        }
        is_watched
    }

    fn watch(
        &mut self,
        file: File,
        places: [u64; 2],
        tables: &Tables,
        offsets: Offsets,
    ) -> io::Result<()> {
        if self.programs.is_none() {
            let load = |name, write| {
                Program::load(name, ProgramKind::Probe, &code(write, tables, offsets))
            };
            self.programs = Some([load("convoy_go_wait", waits)?, load("convoy_go_ready", ready)?]);
        }
        let attached = self.attach_to(&file, places);
        self.places.push((file, places));
        self.links.extend(attached?);
        Ok(())
    }

    fn attach_to(&self, file: &File, places: [u64; 2]) -> io::Result<Vec<Link>> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let programs = self.programs.iter().flatten().zip(places);
        programs.map(|(program, place)| program.attach_to_file(&path, place)).collect()
    }

    /// Attaches the programs again.
    pub(super) fn attach(&mut self) {
        let links = self.places.iter().filter_map(|(file, at)| self.attach_to(file, *at).ok());
        self.links = links.flatten().collect();
    }

    pub(super) fn detach(&mut self) {
        self.links.clear();
    }

    /// Returns the time of a passage of a probe in nanoseconds, measured in this process, or 0 if
    /// no program is watched.
    pub(super) fn price_ns(&self) -> f64 {
        const PASSAGES: u32 = 16;
        if self.places.is_empty() {
            return 0.0;
        }
        let probe = || {
            let (path, place) = place_of(passage as *const () as u64)?;
            let exit = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
            let program = Program::load("convoy_price", ProgramKind::Probe, &exit).ok()?;
            program.attach_to_file(&path, place).ok()
        };
        let Some(_probe) = probe() else { return PROBE_NS };
        let begin = Instant::now();
        for number in 0..PASSAGES {
            std::hint::black_box(passage(number));
        }
        begin.elapsed().as_nanos() as f64 / f64::from(PASSAGES)
    }
}

/// Time of a passage of a probe in nanoseconds where it cannot be measured: an estimate.
const PROBE_NS: f64 = 3000.0;

/// A function to attach a probe to.
#[inline(never)]
extern "C" fn passage(number: u32) -> u32 {
    std::hint::black_box(number) ^ 1
}

/// Returns the file that contains this address of this process, and the offset in it.
fn place_of(address: u64) -> Option<(PathBuf, u64)> {
    let maps = convoy_os::process::maps(std::process::id()).ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        let [begin, end] = [begin, end].map(|word| u64::from_str_radix(word, 16));
        let (begin, end) = (begin.ok()?, end.ok()?);
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        let path = PathBuf::from(words.nth(2)?);
        (begin..end).contains(&address).then_some((path, address - begin + offset))
    })
}

/// Returns the offsets of the two functions in the file of a program in Go, if it has symbols.
fn places(path: &Path) -> Option<[u64; 2]> {
    let elf = Elf::new(std::fs::read(path).ok()?)?;
    let [mut queues, mut ready, mut releases] = [None; 3];
    for symbol in elf.symbols() {
        match symbol.name {
            QUEUES => queues = Some(symbol.address),
            READY => ready = Some(symbol.address),
            RELEASES => releases = Some(symbol.address),
            _ => {}
        }
    }
    let (queues, ready) = (queues?, ready?);
    let release = releases.and_then(|begin| call_of(&elf, begin, ready)).unwrap_or(ready);
    Some([elf.offset(behind_frame(&elf, queues))?, elf.offset(release)?])
}

/// Returns the code of a function from its beginning, up to some bytes.
fn code_from(elf: &Elf, begin: u64, bytes: usize) -> Option<&[u8]> {
    elf.code().find_map(|(address, code)| {
        let from = usize::try_from(begin.checked_sub(address)?).ok()?;
        code.get(from..code.len().min(from + bytes))
    })
}

/// Returns the address of the first call of a function in the one that begins at `begin`: there
/// the argument is in its register.
fn call_of(elf: &Elf, begin: u64, function: u64) -> Option<u64> {
    /// `call` with a distance of 32 bits from the next instruction.
    const CALL: u8 = 0xe8;
    const BYTES: usize = 5;
    /// Maximum length of the function in bytes: it has 455 in Go 1.26.
    const MOST: usize = 2048;
    let code = code_from(elf, begin, MOST)?;
    let calls = code.windows(BYTES).enumerate().filter(|(_, bytes)| bytes[0] == CALL);
    let mut calls = calls.map(|(at, bytes)| {
        let distance = i32::from_le_bytes(bytes[1..].try_into().expect("four bytes"));
        (at as u64, (begin + (at + BYTES) as u64).wrapping_add_signed(distance.into()))
    });
    calls.find(|(_, to)| *to == function).map(|(at, _)| begin + at)
}

/// Returns the address behind the instructions that set the frame pointer at the beginning of a
/// function. Before them a walk along frame pointers misses the caller, which says for what kind of
/// lock the goroutine waits; the arguments are still in their registers.
fn behind_frame(elf: &Elf, begin: u64) -> u64 {
    /// `push %rbp; mov %rsp, %rbp`.
    const FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
    /// Maximum distance in bytes: a check of the size of the stack comes first.
    const CHECK: usize = 32;
    let code = code_from(elf, begin, CHECK);
    let at = code.and_then(|code| code.windows(FRAME.len()).position(|window| window == FRAME));
    at.map_or(begin, |at| begin + (at + FRAME.len()) as u64)
}

/// A goroutine is queued for the word whose address is the second argument.
fn waits(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    p.a.call(Call::Now).set(R8, R0).store(Fp, NOW, R0).store(Fp, END, R0);
    p.window(Some(out));
    p.a.set(R2, 1);
    p.spend(load::PROBES);
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1).store(Fp, B, R1);
    p.a.load(R1, R6, GOROUTINE).store(Fp, KEY + 8, R1);
    // It is recorded as a separate thread.
    p.entry(&tables.goroutines, lost::THREADS, out);
    p.a.set(R7, R9).load(R1, Fp, B).store(R7, w(thread::PROCESS), R1);
    wait_ended(p);
    p.a.load(R1, Fp, EPOCH).store(R7, w(thread::EPOCH), R1);
    p.a.load(R8, Fp, NOW).load(R1, R6, SECOND).store(Fp, KEY + 8, R1);
    waits_at(p);
    wait_begins(p);
}

/// A queued goroutine is made runnable: the first word behind the argument is its address.
fn ready(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    let is_current = p.a.label();
    p.thread(out);
    p.a.call(Call::Now).set(R8, R0).store(Fp, NOW, R0).store(Fp, END, R0);
    p.window(Some(out));
    p.a.set(R2, 1);
    p.spend(load::PROBES);
    p.a.load(R1, R7, w(thread::SLEPT)).store(Fp, SLEPT, R1);
    p.a.load(R1, R7, w(thread::SLEPT_END)).store(Fp, C, R1);
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1);
    p.a.at(R1, Fp, i32::from(KEY + 8)).set(R2, 8).load(R3, R6, ARGUMENT).call(Call::ReadUser);
    p.lookup(&tables.goroutines, KEY);
    p.a.jump(If::Equal, R0, 0, out).set(R7, R0);
    p.a.load(R1, Fp, EPOCH).load(R2, R7, w(thread::EPOCH)).jump(If::Equal, R1, R2, is_current);
    // The wait began in an earlier window, or was another one.
    wait_ended(p);
    p.a.goto(out).here(is_current);
    p.stack(true, lost::STACKS);
    p.a.store(Fp, D, R0);
    // Goroutines are counted as threads; their addresses are multiples of 64.
    p.a.load(R1, Fp, KEY + 8).op(Op::Right, R1, 6).store32(Fp, ID, R1);
    wait_ends(p);
    released(p);
}

/// Stack slot: length of the last sleep of the thread that releases a word. The end of it is at
/// `C`.
const SLEPT: i16 = ROOM - 8;
/// Stack slot: since when it has held the word while this goroutine waited.
const SINCE: i16 = ROOM - 16;
/// Stack slot: when the word was released before.
const PREVIOUS: i16 = ROOM - 24;

/// Records the wait of the goroutine in `R7` under the stack at `D`, of the goroutine that released
/// the word. The wait took the time in `R8` and ended at `END`. As in Go's mutex profile, each
/// release is charged with the time since the previous release, multiplied by the waiters.
fn released(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    let [longer, before, less] = [(); 3].map(|()| p.a.label());
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1);
    p.a.load(R1, R7, w(thread::WORD)).store(Fp, KEY + 8, R1);
    p.lookup(&tables.words, KEY);
    p.a.jump(If::Equal, R0, 0, out).load(R1, R0, w(word::RELEASED)).load(R2, Fp, END);
    p.a.store(Fp, PREVIOUS, R1);
    p.a.store(R0, w(word::RELEASED), R2).set(R3, R2).op(Op::Sub, R3, R8);
    p.a.jump(If::Above, R3, R1, longer).set(R3, R1).here(longer).store(Fp, SINCE, R3);
    // This goroutine does not count as a waiter any more.
    p.a.load(R4, R0, w(word::WAITERS)).op(Op::Add, R4, 1).op(Op::And, R4, 0xffff);
    p.a.store(Fp, B, R4).set(R8, R2).op(Op::Sub, R8, R3).op(Op::Mul, R8, R4);
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, KEY, R1);
    p.a.load(R1, Fp, D).store32(Fp, KEY + 4, R1);
    p.entry(&tables.givers, lost::WAITS, out);
    p.time(giver::TIMES, None, WEIGHT);
    // The part of that sleep within this time. One that began before the previous release ended
    // with it: the thread was woken to own the word.
    p.a.load(R1, Fp, SINCE).load(R2, Fp, C).jump(If::Above, R1, R2, out);
    p.a.op(Op::Sub, R2, R1).load(R3, Fp, SLEPT).jump(If::Above, R3, R2, before);
    p.a.set(R2, R3).goto(less).here(before).load(R3, Fp, PREVIOUS).jump(If::Equal, R3, R1, out);
    p.a.here(less).load(R1, Fp, B).op(Op::Mul, R2, R1).load(R1, Fp, WEIGHT);
    p.a.op(Op::Mul, R2, R1).add(R9, w(giver::SLEPT), R2);
}
