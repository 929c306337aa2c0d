//! Locks of programs in Go. Their waits are in the program: the goroutine is parked and its thread
//! runs another one, so the kernel sees no wait for a lock. Probes in two functions of Go's runtime
//! make these waits visible: in the function that queues a goroutine for a word, and in the
//! function that makes a queued goroutine runnable.

use convoy_os::bpf::{Link, Program, ProgramKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::asm::Reg::{Fp, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use super::asm::{Call, If, Op};
use super::btf::Offsets;
use super::programs::{code, wait_begins, wait_ends, waits_at};
use super::tables::{Tables, giver, lost, thread, word};
use super::write::{A, B, C, D, ID, KEY, ROOM, Writer, w};
use crate::names::elf::Elf;

/// Function in which goroutines queue: one that finds the word free does not come there.
const QUEUES: &str = "runtime.(*semaRoot).queue";
/// Function in which a queued goroutine is made runnable.
const READY: &str = "runtime.readyWithTime";

/// Offsets of the first two arguments and of the running goroutine in the registers of a probe.
const ARGUMENT: i16 = 80;
const SECOND: i16 = 40;
const GOROUTINE: i16 = 8;

/// The programs, and the places that they are attached to.
#[derive(Default)]
pub(super) struct Golang {
    programs: Option<[Program; 2]>,
    links: Vec<Link>,
    /// Files that were checked; for programs in Go, whether their locks are watched.
    files: BTreeMap<(u64, u64), Option<bool>>,
    /// The first error.
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
        let is_go = File::open(path).is_ok_and(|file| crate::launch::refusal::is_go(&file));
        let places = if is_go { places(path) } else { None };
        let is_watched = is_go.then_some(places.is_some());
        self.files.insert(file, is_watched);
        if let Some(places) = places
            && let Err(error) = self.watch(path, places, tables, offsets)
        {
            self.failed.get_or_insert(error);
        }
        is_watched
    }

    fn watch(
        &mut self,
        path: &Path,
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
        for (program, place) in self.programs.iter().flatten().zip(places) {
            self.links.push(program.attach_to_file(path, place)?);
        }
        Ok(())
    }

    /// Detaches the programs.
    pub(super) fn end(&mut self) {
        self.links.clear();
    }
}

/// Returns the offsets of the two functions in the file of a program in Go, if it has symbols.
fn places(path: &Path) -> Option<[u64; 2]> {
    let elf = Elf::new(std::fs::read(path).ok()?)?;
    let mut found = [None, None];
    for symbol in elf.symbols() {
        match symbol.name {
            QUEUES => found[0] = elf.offset(behind_frame(&elf, symbol.address)),
            READY => found[1] = elf.offset(symbol.address),
            _ => {}
        }
    }
    Some([found[0]?, found[1]?])
}

/// Returns the address behind the instructions that set the frame pointer at the beginning of a
/// function. Before them a walk along frame pointers misses the caller, which says for what kind of
/// lock the goroutine waits; the arguments are still in their registers.
fn behind_frame(elf: &Elf, begin: u64) -> u64 {
    /// `push %rbp; mov %rsp, %rbp`.
    const FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
    /// Maximum distance in bytes: a check of the size of the stack comes first.
    const CHECK: usize = 32;
    let code = elf.code().find_map(|(address, code)| {
        let from = usize::try_from(begin.checked_sub(address)?).ok()?;
        code.get(from..code.len().min(from + CHECK))
    });
    let at = code.and_then(|code| code.windows(FRAME.len()).position(|window| window == FRAME));
    at.map_or(begin, |at| begin + (at + FRAME.len()) as u64)
}

/// A goroutine is queued for the word whose address is the second argument.
fn waits(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1).store(Fp, B, R1);
    p.a.load(R1, R6, GOROUTINE).store(Fp, KEY + 8, R1);
    // It is recorded as a separate thread.
    p.entry(&tables.goroutines, lost::THREADS, out);
    p.a.set(R7, R9).load(R1, Fp, B).store(R7, w(thread::PROCESS), R1);
    p.a.call(Call::Now).set(R8, R0).load(R1, R6, SECOND).store(Fp, KEY + 8, R1);
    waits_at(p);
    wait_begins(p);
}

/// A queued goroutine is made runnable: the first word behind the argument is its address.
fn ready(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    p.a.load(R1, R7, w(thread::SLEPT)).store(Fp, SLEPT, R1);
    p.a.load(R1, R7, w(thread::SLEPT_END)).store(Fp, C, R1);
    p.stack(true, lost::STACKS);
    p.a.store(Fp, D, R0);
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1);
    p.a.at(R1, Fp, i32::from(KEY + 8)).set(R2, 8).load(R3, R6, ARGUMENT).call(Call::ReadUser);
    p.lookup(&tables.goroutines, KEY);
    p.a.jump(If::Equal, R0, 0, out).set(R7, R0);
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
/// the word. The wait took the time in `R8` and ended at `A`. As in Go's mutex profile, each
/// release is charged with the time since the previous release, multiplied by the waiters.
fn released(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    let [longer, before, less] = [(); 3].map(|()| p.a.label());
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1);
    p.a.load(R1, R7, w(thread::WORD)).store(Fp, KEY + 8, R1);
    p.lookup(&tables.words, KEY);
    p.a.jump(If::Equal, R0, 0, out).load(R1, R0, w(word::RELEASED)).load(R2, Fp, A);
    p.a.store(Fp, PREVIOUS, R1);
    p.a.store(R0, w(word::RELEASED), R2).set(R3, R2).op(Op::Sub, R3, R8);
    p.a.jump(If::Above, R3, R1, longer).set(R3, R1).here(longer).store(Fp, SINCE, R3);
    // This goroutine does not count as a waiter any more.
    p.a.load(R4, R0, w(word::WAITERS)).op(Op::Add, R4, 1).op(Op::And, R4, 0xffff);
    p.a.store(Fp, B, R4).set(R8, R2).op(Op::Sub, R8, R3).op(Op::Mul, R8, R4);
    p.a.load(R1, R7, w(thread::PROCESS)).store32(Fp, KEY, R1);
    p.a.load(R1, Fp, D).store32(Fp, KEY + 4, R1);
    p.entry(&tables.givers, lost::WAITS, out);
    p.time(giver::TIMES, None, false);
    // The part of that sleep within this time. One that began before the previous release ended
    // with it: the thread was woken to own the word.
    p.a.load(R1, Fp, SINCE).load(R2, Fp, C).jump(If::Above, R1, R2, out);
    p.a.op(Op::Sub, R2, R1).load(R3, Fp, SLEPT).jump(If::Above, R3, R2, before);
    p.a.set(R2, R3).goto(less).here(before).load(R3, Fp, PREVIOUS).jump(If::Equal, R3, R1, out);
    p.a.here(less).load(R1, Fp, B).op(Op::Mul, R2, R1).add(R9, w(giver::SLEPT), R2);
}
