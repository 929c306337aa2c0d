//! Locks of programs in Go. They wait in the program: a goroutine is put aside, and its thread runs
//! another one, so the kernel sees no wait for a lock. Two functions of Go's runtime tell, which
//! the kernel can be asked to stop at: the one in which goroutines queue for a word, and the one
//! that makes a goroutine of the queue runnable.

use convoy_host::bpf::{Link, Program, ProgramKind};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::asm::Reg::{Fp, R0, R1, R2, R3, R6, R7, R8, R9};
use super::asm::{Call, If, Op};
use super::btf::Offsets;
use super::programs::{code, wait_begins, wait_ends};
use super::tables::{Tables, lost, thread};
use super::write::{A, B, ID, KEY, Writer, w};
use crate::elf::Elf;

/// Where goroutines queue.
const QUEUES: &str = "runtime.semacquire1";
/// Where one of them is made runnable.
const READY: &str = "runtime.readyWithTime";
/// What only programs in Go have in their first bytes: the type and the owner of a note.
const MARK: &[u8] = b"\x04\0\0\0Go\0\0";
/// Of them.
const HEAD: u64 = 8192;

/// First argument, and the running goroutine, in what the kernel hands over of the registers.
const ARGUMENT: i16 = 80;
const GOROUTINE: i16 = 8;

/// The programs, and where they have been put.
#[derive(Default)]
pub(super) struct Golang {
    programs: Option<[Program; 2]>,
    links: Vec<Link>,
    /// Files that were looked at.
    files: std::collections::BTreeSet<(u64, u64)>,
    /// Why it did not work.
    pub(super) failed: Option<io::Error>,
}

impl Golang {
    /// Watches the locks of this program, if it is one in Go and was not looked at before.
    pub(super) fn look_at(&mut self, path: &Path, tables: &Tables, offsets: Offsets) {
        let Ok(file) = path.metadata() else { return };
        if !self.files.insert((file.dev(), file.ino())) {
            return;
        }
        let Some(places) = places(path) else { return };
        if let Err(error) = self.watch(path, places, tables, offsets) {
            self.failed.get_or_insert(error);
        }
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

    /// Ends it.
    pub(super) fn end(&mut self) {
        self.links.clear();
    }
}

/// Where the two functions are in the file of a program in Go.
fn places(path: &Path) -> Option<[u64; 2]> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    head.windows(MARK.len()).find(|part| *part == MARK)?;
    let elf = Elf::new(std::fs::read(path).ok()?)?;
    let mut found = [None, None];
    for symbol in elf.symbols() {
        match symbol.name {
            QUEUES => found[0] = elf.offset(symbol.address),
            READY => found[1] = elf.offset(symbol.address),
            _ => {}
        }
    }
    Some([found[0]?, found[1]?])
}

/// A goroutine comes to the queue of a word; it passes if the word says so.
fn waits(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    p.a.at(R1, Fp, A.into()).set(R2, 4).load(R3, R6, ARGUMENT).call(Call::ReadUser);
    p.a.jump(If::NotEqual, R0, 0, out).load32(R1, Fp, A).jump(If::NotEqual, R1, 0, out);
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1).store(Fp, B, R1);
    p.a.load(R1, R6, GOROUTINE).store(Fp, KEY + 8, R1);
    // It is booked as a thread of its own.
    p.entry(&tables.goroutines, lost::THREADS, out);
    p.a.set(R7, R9).load(R1, Fp, B).store(R7, w(thread::PROCESS), R1);
    p.a.call(Call::Now).set(R8, R0).load(R1, R6, ARGUMENT).store(Fp, KEY + 8, R1);
    wait_begins(p);
}

/// A goroutine of a queue is made runnable: the first word of what is handed over names it.
fn ready(p: &mut Writer<'_>) {
    let (out, tables) = (p.out, p.tables);
    p.thread(out);
    p.a.load(R1, R7, w(thread::PROCESS)).store(Fp, KEY, R1);
    p.a.at(R1, Fp, i32::from(KEY + 8)).set(R2, 8).load(R3, R6, ARGUMENT).call(Call::ReadUser);
    p.lookup(&tables.goroutines, KEY);
    p.a.jump(If::Equal, R0, 0, out).set(R7, R0);
    // Goroutines are counted as threads; they lie at multiples of 64.
    p.a.load(R1, Fp, KEY + 8).op(Op::Right, R1, 6).store32(Fp, ID, R1).store(Fp, B, 0);
    wait_ends(p);
}
