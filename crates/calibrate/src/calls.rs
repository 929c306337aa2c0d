//! Measures what steps of kernel paths cost on this machine: short programs of system calls run
//! here and on the virtual kernel, and the difference goes into the costs of the steps they name.
//!
//! A program is written once against [`Kernel`], as the jobs are, so that both sides make the same
//! calls. The virtual kernel prices the locks and lines of a path itself; the remainder is the
//! price in `kernels/costs.toml`.

use std::cell::{Cell, RefCell};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};
use std::rc::Rc;

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Machine, Preset};
use convoy_workload::api::{Fd, Kernel, Open, Sys};

use convoy_host::Host;
use convoy_runs::virtual_end::{VirtualError, run_to_end};
use convoy_workload::calibration::Calibration;

/// The kernel with the priced paths: the kernel of the experiment `host`, which compares it with a
/// real machine.
pub const KERNEL: &str = "6.18";
/// Runs of a program in one batch: ten to two hundred microseconds, shorter than a tick.
const RUNS: u32 = 50;
/// Batches here: the least counts, as in the rest of the calibration.
const BATCHES: u32 = 400;
/// Batches on the virtual kernel: the first meets cold lines, and a tick may hit one.
const VIRTUAL_BATCHES: u32 = 5;
/// Pages that one run of `append` adds to a file.
const PAGES: usize = 8;
/// Bytes of the file that is read and written.
const FILE: usize = 16 << 10;
const PAGE: usize = 4096;

/// A program, and the steps with costs that follow from it when the previous costs are known.
struct Program {
    /// Its description, for the reader of the preset.
    what: &'static str,
    /// Keys of `kernels/costs.toml`; the difference is shared in proportion.
    keys: &'static [&'static str],
    call: Call,
}

#[derive(Clone, Copy)]
enum Call {
    Seek,
    Read(usize),
    Write(usize),
    Append,
    Open,
    Stat,
    Miss,
    Create,
    Link,
    Directory,
    Pipe,
    Heap,
    Touch,
    Fork,
    Exec,
}

const PROGRAMS: [Program; 16] = [
    Program { what: "lseek", keys: &["seek"], call: Call::Seek },
    Program { what: "lseek, read of a byte", keys: &["read"], call: Call::Read(1) },
    Program { what: "lseek, read of 16 KiB", keys: &["copy_kb"], call: Call::Read(FILE) },
    Program { what: "lseek, write of a byte", keys: &["write"], call: Call::Write(1) },
    Program { what: "open, close", keys: &["open", "close"], call: Call::Open },
    Program { what: "stat", keys: &["stat"], call: Call::Stat },
    Program { what: "stat of a missing name", keys: &["lookup_miss"], call: Call::Miss },
    Program { what: "creat, close, unlink", keys: &["creat", "unlink"], call: Call::Create },
    Program {
        what: "eight writes of a page to an emptied file, creat, close, unlink",
        keys: &["page_alloc", "page_free"],
        call: Call::Append,
    },
    Program { what: "link, unlink", keys: &["link"], call: Call::Link },
    Program { what: "mkdir, rmdir", keys: &["mkdir", "rmdir"], call: Call::Directory },
    Program { what: "pipe, write and read of a byte", keys: &["pipe"], call: Call::Pipe },
    Program { what: "sbrk up and down by a page", keys: &["brk"], call: Call::Heap },
    Program { what: "eight pages of heap, touched", keys: &["fault"], call: Call::Touch },
    Program { what: "fork, exit, wait", keys: &["fork", "exit"], call: Call::Fork },
    Program { what: "fork, exec of a script, wait", keys: &["exec"], call: Call::Exec },
];

struct Files {
    /// A permanent name, a name that is created and removed, and a name that never exists.
    names: [String; 3],
    file: Fd,
    pipe: (Fd, Fd),
    buffer: Vec<u8>,
}

impl Files {
    /// In `directory`.
    fn new(k: &mut impl Kernel, directory: &str) -> Sys<Self> {
        let names = ["old", "new", "none"].map(|name| format!("{directory}/{name}"));
        let file = k.open(&names[0], Open { read: true, ..Open::CREAT })?;
        let buffer = vec![1; FILE];
        k.write(file, &buffer)?;
        Ok(Self { names, file, pipe: k.pipe()?, buffer })
    }

    fn run(&mut self, k: &mut impl Kernel, call: Call) -> Sys<()> {
        let [old, new, none] = &self.names;
        match call {
            Call::Seek => k.seek(self.file, 0).map(drop),
            Call::Read(bytes) => {
                k.seek(self.file, 0)?;
                k.read(self.file, &mut self.buffer[..bytes]).map(drop)
            }
            Call::Write(bytes) => {
                k.seek(self.file, 0)?;
                k.write(self.file, &self.buffer[..bytes]).map(drop)
            }
            Call::Append => {
                let fd = k.open(new, Open::CREAT)?;
                for _ in 0..PAGES {
                    k.write(fd, &self.buffer[..PAGE])?;
                }
                k.close(fd)?;
                k.unlink(new)
            }
            Call::Open => {
                let fd = k.open(old, Open::READ)?;
                k.close(fd)
            }
            Call::Stat => k.stat(old).map(drop),
            Call::Miss => {
                let _missing = k.stat(none);
                Ok(())
            }
            Call::Create => {
                let fd = k.open(new, Open::CREAT)?;
                k.close(fd)?;
                k.unlink(new)
            }
            Call::Link => {
                k.link(old, new)?;
                k.unlink(new)
            }
            Call::Directory => {
                k.mkdir(new)?;
                k.rmdir(new)
            }
            Call::Pipe => {
                k.write(self.pipe.1, &self.buffer[..1])?;
                k.read(self.pipe.0, &mut self.buffer[..1]).map(drop)
            }
            Call::Heap => {
                k.sbrk(PAGE as isize)?;
                k.sbrk(-(PAGE as isize))
            }
            Call::Touch => {
                k.sbrk((PAGES * PAGE) as isize)?;
                k.touch_heap(PAGES * PAGE, PAGE)?;
                k.sbrk(-((PAGES * PAGE) as isize))
            }
            Call::Fork => {
                k.fork(|_| 0)?;
                k.wait().map(drop)
            }
            Call::Exec => {
                k.fork(|k| k.exec(convoy_workload::api::Program::True, "").0)?;
                k.wait().map(drop)
            }
        }
    }

    fn end(self, k: &mut impl Kernel) -> Sys<()> {
        for fd in [self.file, self.pipe.0, self.pipe.1] {
            k.close(fd)?;
        }
        Ok(())
    }
}

/// Least nanoseconds of one run of each program in `directory`.
fn time<const N: usize>(
    k: &mut impl Kernel,
    directory: &str,
    calls: [Call; N],
    batches: u32,
) -> Sys<[f64; N]> {
    let mut files = Files::new(k, directory)?;
    let mut least = [f64::MAX; N];
    for (call, least) in calls.into_iter().zip(&mut least) {
        let processes = matches!(call, Call::Fork | Call::Exec);
        for _ in 0..if processes { batches.div_ceil(8) } else { batches } {
            let begin = k.now();
            for _ in 0..RUNS {
                files.run(k, call)?;
            }
            *least = least.min((k.now() - begin) as f64 / f64::from(RUNS));
        }
    }
    files.end(k)?;
    Ok(least)
}

/// Errors of the measurement of system calls.
#[derive(Debug, thiserror::Error)]
pub enum CallsError {
    /// The directory of the measurement cannot be created.
    #[error("cannot measure system calls in {directory}: {source}")]
    Directory {
        /// Where.
        directory: String,
        /// Why.
        source: std::io::Error,
    },
    /// A call failed on this machine.
    #[error("cannot measure system calls in {directory}: {errno}")]
    Call {
        /// Where.
        directory: String,
        /// Why.
        errno: convoy_workload::Errno,
    },
    /// The virtual side failed.
    #[error(transparent)]
    Virtual(#[from] VirtualError),
    /// The preset so far, or the kernel, is wrong.
    #[error(transparent)]
    Preset(#[from] convoy_catalogue::CatalogueError),
}

pub(crate) struct Cost {
    pub(crate) key: &'static str,
    pub(crate) ns: f64,
    pub(crate) why: String,
}

/// Measures in `directory`, which must be in memory for the figures to be the kernel's, and prices
/// the steps for `preset`, the rest of this machine.
pub(crate) fn measure(preset: &Preset, directory: &Path) -> Result<Vec<Cost>, CallsError> {
    Ok(price(preset, depth(directory), &here(directory, BATCHES)?)?.1)
}

/// Components of the path of `directory`: each costs a step of every walk.
fn depth(directory: &Path) -> usize {
    directory.components().filter(|part| matches!(part, Component::Normal(_))).count()
}

/// The preset, of one CPU, and the costs with which every program, in a directory `depth` below the
/// root, takes as long as `here`.
fn price(
    preset: &Preset,
    depth: usize,
    here: &[f64; PROGRAMS.len()],
) -> Result<(Preset, Vec<Cost>), CallsError> {
    let mut preset = preset.clone().with_cpus(1);
    let mut costs = Vec::new();
    for (program, &measured) in PROGRAMS.iter().zip(here) {
        let old = there_costs(&preset, program.keys)?;
        let simulated = there(&preset, depth, program.call)?;
        let all: f64 = old.iter().sum();
        // Repeated steps of a program are shared too: the difference of two counts is their number.
        let mut doubled = preset.clone();
        for (key, ns) in program.keys.iter().zip(&old) {
            doubled.kernel_ns.insert((*key).to_owned(), ns * 2.0);
        }
        let slope = (there(&doubled, depth, program.call)? - simulated) / all;
        let factor = ((measured - simulated) / slope / all + 1.0).max(0.0);
        for (key, ns) in program.keys.iter().zip(old) {
            let ns = ns * factor;
            preset.kernel_ns.insert((*key).to_owned(), ns);
            let why = format!("Measured: {} {measured:.0}.", program.what);
            costs.push(Cost { key, ns, why });
        }
    }
    Ok((preset, costs))
}

/// Nanoseconds of every program on this machine.
fn here(directory: &Path, batches: u32) -> Result<[f64; PROGRAMS.len()], CallsError> {
    let name = directory.display().to_string();
    let io = |source| CallsError::Directory { directory: name.clone(), source };
    std::fs::create_dir(directory).map_err(io)?;
    let script = directory.join("true");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").map_err(io)?;
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).map_err(io)?;
    let calls = std::array::from_fn(|at| PROGRAMS[at].call);
    let times = time(&mut Host::new(&name), &name, calls, batches);
    std::fs::remove_dir_all(directory).map_err(io)?;
    times.map_err(|errno| CallsError::Call { directory: name.clone(), errno })
}

fn there_costs(preset: &Preset, keys: &[&'static str]) -> Result<Vec<f64>, CallsError> {
    let costs =
        convoy_kernel::costs_ns(preset).map_err(|error| VirtualError::World(error.into()))?;
    Ok(keys.iter().map(|&key| costs[key]).collect())
}

/// Nanoseconds of `call` on `preset`, in a directory `depth` below the root.
fn there(preset: &Preset, depth: usize, call: Call) -> Result<f64, CallsError> {
    let kernel = KernelPreset::named(KERNEL)?;
    let calibration = Calibration::embedded().map_err(VirtualError::from)?;
    let tasks = 64;
    let machine = Machine::new(preset, 1, tasks)
        .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
    let options = Options { processes: tasks, ..Options::default() };
    let world =
        World::new(&kernel, preset, &calibration.ns, options).map_err(VirtualError::from)?;
    let broken = Rc::new(RefCell::new(None));
    let least = Rc::new(Cell::new(f64::NAN));
    let (shared, what) = (Rc::clone(&least), Rc::clone(&broken));
    world.boot(&machine, move |k: &mut Process| {
        let mut directory = "/tmp".to_owned();
        let mut run = || {
            for _ in 1..depth {
                directory += "/below";
                k.mkdir(&directory)?;
            }
            time(k, &directory, [call], VIRTUAL_BATCHES)
        };
        match run() {
            Ok([ns]) => shared.set(ns),
            Err(errno) => *what.borrow_mut() = Some(errno.to_string()),
        }
    });
    run_to_end(&machine, 1, 1, KERNEL, &broken)?;
    Ok(least.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_costs_every_program_takes_what_was_measured() {
        let preset = Preset::named("quad-2008-shared-llc").unwrap().with_cpus(1);
        let before = PROGRAMS.map(|program| there(&preset, 3, program.call).unwrap());
        let wanted = std::array::from_fn(|at| before[at] * (1.1 + 0.1 * at as f64));
        let (priced, costs) = price(&preset, 3, &wanted).unwrap();
        assert!(costs.iter().all(|cost| cost.ns > 0.0 && priced.kernel_ns.contains_key(cost.key)));
        for (program, wanted) in PROGRAMS.iter().zip(wanted) {
            let ns = there(&priced, 3, program.call).unwrap();
            assert!((ns / wanted - 1.0).abs() < 0.01, "{}: {ns} of {wanted}", program.what);
        }
    }

    #[test]
    fn every_program_runs_here_and_leaves_nothing() {
        let directory = std::env::temp_dir().join(format!("convoy-calls-{}", std::process::id()));
        let here = here(&directory, 2).unwrap();
        assert!(here.iter().all(|ns| ns.is_finite() && *ns > 0.0), "{here:?}");
        assert!(!directory.exists() && depth(Path::new("/a/b/c")) == 3);
    }
}
