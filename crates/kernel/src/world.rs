//! The virtual kernel of one machine: what all its processes share.

use crate::costs::{Costs, CostsError, spend};
use crate::futex::Futexes;
use crate::ipc::Ipc;
use crate::locks::{Field, Guarded, Line, Mutex, ReadWrite, Spin};
use crate::pages::PAGE;
use crate::preset::{BklTraffic, KernelPreset, LockRules, Paths};
use crate::process::{INIT, Proc, Process};
use crate::program;
use crate::sched::scheduler::Sched;
use crate::tty::Terminal;
use crate::vfs::{FileSystem, LaterLocks, Tree, VfsLocks};
use crate::zone::{ZoneStats, Zones};
use convoy_machine::{Here, Machine, Preset, Sim, ps};
use convoy_sync::RawLock;
use convoy_workload::api::Pid;
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Process numbers wrap at this, as they did by default, or at twice the processes that are allowed
/// (`kernel.pid_max`) when that is more.
const PID_MAX: Pid = 32_768;
/// Process numbers below this are not given out again after the wrap.
const PID_RESERVED: Pid = 300;

/// Time for a process that was waited for to leave its CPU, nanoseconds.
const LAST_SWITCH_NS: u64 = 1_000_000;

/// Pages of the largest block of the page allocator: there is no less memory than one.
const LEAST_PAGES: u32 = 1 << convoy_mm::ORDER_MAX;

/// Longest stretch of kernel work without a place to preempt, picoseconds: about the unmapping of
/// one page table.
const WORK_PART_PS: u64 = 20_000_000;

/// What a kernel is booted with; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory of the machine.
    pub memory: u64,
    /// Size of the file system on `/tmp`.
    pub tmpfs: u64,
    /// Which one it is.
    pub file_system: FileSystem,
    /// Open files of one process (`RLIMIT_NOFILE`).
    pub open_files: usize,
    /// Processes of the user (`RLIMIT_NPROC`); they also need a task of the machine each.
    pub processes: usize,
    /// Whether the processes have a controlling terminal as file 0 to 2.
    pub terminal: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 8 << 30,
            tmpfs: 4 << 30,
            file_system: FileSystem::Tmpfs,
            open_files: 1024,
            processes: 32_000,
            terminal: true,
        }
    }
}

/// Why a kernel cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The table of instruction costs is wrong.
    #[error(transparent)]
    Costs(#[from] CostsError),
    /// A unit that the kernel's programs need has no price.
    #[error("the calibration has no unit {unit:?}, which the kernel's programs need")]
    Unit {
        /// The unit.
        unit: &'static str,
    },
    /// The machine has no room for the kernel's tables.
    #[error("the options of the kernel are out of range: {0}")]
    Options(&'static str),
}

/// The global locks, each in a line of its own unless the kernel let it share one. What the locks
/// of files are called depends on the version ([`VfsLocks::global_names`]).
#[repr(C)]
pub(crate) struct Globals {
    /// `dcache_lock`; `rename_lock`.
    pub(crate) dcache: Line<Spin>,
    /// `files_lock`, `tty_files_lock`, and the head of the list it guards.
    pub(crate) files: Line<Guarded<Field<u32>>>,
    pub(crate) vfsmount: Line<Spin>,
    pub(crate) inode: Line<Inodes>,
    pub(crate) tasklist: Line<ReadWrite>,
    pub(crate) pids: Line<Guarded<Field<u32>>>,
    pub(crate) tty_mutex: Line<Mutex>,
}

/// `inode_lock` or `inode_sb_list_lock`, `sb_lock` and the list heads share a line: they are plain
/// variables.
pub(crate) struct Inodes {
    pub(crate) list: Guarded<Field<u32>>,
    pub(crate) superblocks: Spin,
}

impl Globals {
    /// Tells the recorder the names of the locks.
    fn name(&self, vfs: VfsLocks) {
        let [names, inodes, files] = vfs.global_names();
        self.dcache.name(names);
        self.files.name(files);
        self.vfsmount.name("vfsmount_lock");
        self.inode.list.name(inodes);
        self.inode.superblocks.name("sb_lock");
        Here::name(&self.tasklist, "tasklist_lock");
        self.pids.name("pidmap_lock");
        self.tty_mutex.name("tty_mutex");
    }
}

/// The virtual kernel of one machine. Processes hold it by `Rc`.
pub struct World {
    pub(crate) sched: Rc<Sched>,
    pub(crate) costs: Costs,
    pub(crate) globals: Sim<Globals>,
    pub(crate) vfs: VfsLocks,
    /// What other kernels have beside or instead of some of them.
    pub(crate) later: LaterLocks,
    pub(crate) zones: Zones,
    pub(crate) tree: Tree,
    pub(crate) ipc: Ipc,
    pub(crate) terminal: Terminal,
    pub(crate) options: Options,
    pub(crate) paths: Paths,
    pub(crate) locks: LockRules,
    pub(crate) traffic: BklTraffic,
    /// Part of a big-kernel-lock event that previous shells have left over.
    pub(crate) bkl_events_left: Cell<f64>,
    pub(crate) processes: RefCell<BTreeMap<Pid, Rc<Proc>>>,
    last_pid: Cell<Pid>,
    units: BTreeMap<String, f64>,
    speed: f64,
    pub(crate) counts: Counts,
}

/// What the kernel counts; for reports and tests.
#[derive(Debug, Default)]
pub struct Counts {
    /// System calls, those inside programs and of the kernel's own shells included.
    pub calls: Cell<u64>,
    /// Processes created.
    pub forks: Cell<u64>,
    /// Programs executed.
    pub execs: Cell<u64>,
    /// Acquisitions of the big kernel lock by call sites (nested ones count once).
    pub bkl: Cell<u64>,
    /// Page faults.
    pub faults: Cell<u64>,
}

/// Adds one.
pub(crate) fn bump(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl World {
    /// The kernel `kernel` on the machine of this thread, which must be of `preset`. `units` are
    /// the calibrated nanoseconds of each unit of user-mode work at speed 1.
    pub fn new(
        kernel: &KernelPreset,
        preset: &Preset,
        units: &BTreeMap<String, f64>,
        options: Options,
    ) -> Result<Rc<Self>, WorldError> {
        for unit in program::UNITS {
            if !units.contains_key(unit) {
                return Err(WorldError::Unit { unit });
            }
        }
        let pages = u32::try_from(options.memory / PAGE)
            .map_err(|_| WorldError::Options("memory is above 16 TiB"))?;
        if pages < LEAST_PAGES {
            return Err(WorldError::Options("memory is below 4 MiB"));
        }
        let locks = kernel.locks;
        let sched = Sched::new(kernel, preset);
        let costs = Costs::of(preset)?;
        let globals = Globals {
            dcache: Line(locks.spin()),
            files: Line(locks.guarded(Field::new(0))),
            vfsmount: Line(locks.spin()),
            inode: Line(Inodes { list: locks.guarded(Field::new(0)), superblocks: locks.spin() }),
            tasklist: Line(ReadWrite::new()),
            pids: Line(locks.guarded(Field::new(0))),
            tty_mutex: Line(locks.mutex()),
        };
        let world = Rc::new(Self {
            zones: Zones::new(kernel.zone, locks, pages, preset.topology.cpus, &costs),
            costs,
            globals: Here::place(globals),
            vfs: kernel.vfs,
            later: LaterLocks::new(kernel.vfs, locks, preset.topology.cpus),
            tree: Tree::new(&sched, kernel, preset, options.tmpfs / PAGE, options.file_system),
            ipc: Ipc::new(),
            terminal: Terminal::new(),
            options,
            paths: kernel.paths,
            locks,
            traffic: kernel.bkl_traffic.clone(),
            bkl_events_left: Cell::new(0.0),
            processes: RefCell::default(),
            last_pid: Cell::new(INIT),
            units: units.clone(),
            speed: preset.speed,
            counts: Counts::default(),
            sched,
        });
        world.sched.serve_threads(Futexes::new(&world.costs, locks, preset.topology.cpus));
        world.globals.name(kernel.vfs);
        Ok(world)
    }

    /// Installs the scheduler on `machine` and makes `init` the first process. When `init` returns
    /// the machine stops a millisecond later, whatever the others do.
    pub fn boot(self: &Rc<Self>, machine: &Machine, init: impl FnOnce(&mut Process) + 'static) {
        let mut process = Process::first(self);
        let body = move || {
            process.begin();
            process.world.tree.mount(&process.world);
            init(&mut process);
            process.world.tree.unmount(&process.world);
            // The last child may still be on its way off its CPU, and it holds the world.
            process.world.sched.sleep_until(Here::now_ns() + LAST_SWITCH_NS);
            drop(process);
            Here::stop();
        };
        self.sched.boot(machine, Box::new(body));
    }

    /// The scheduler.
    pub fn sched(&self) -> &Rc<Sched> {
        &self.sched
    }

    /// The counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Processes that exist, zombies included.
    pub fn process_count(&self) -> usize {
        self.processes.borrow().len()
    }

    /// Free pages of memory.
    pub fn free_pages(&self) -> u64 {
        u64::from(self.zones.free_pages())
    }

    /// What moved between the lists of the CPUs and each zone of memory; `HighMem` first, if there
    /// is one.
    pub fn page_stats(&self) -> Vec<ZoneStats> {
        self.zones.stats()
    }

    /// The texts of `/proc/buddyinfo`, `/proc/zoneinfo` and `/proc/loadavg`.
    pub fn proc_files(&self) -> [String; 3] {
        [self.zones.buddyinfo(), self.zones.zoneinfo(), self.loadavg()]
    }

    /// Load averages, runnable of all tasks, the last process. Threads of the kernel are not
    /// counted as tasks, those of processes are.
    fn loadavg(&self) -> String {
        let [one, five, fifteen] = self.sched.load_averages();
        let tasks = self.process_count();
        let (running, last) = (self.sched.runnable(), self.last_pid.get());
        format!("{one:.2} {five:.2} {fifteen:.2} {running}/{tasks} {last}\n")
    }

    /// Pages of the tmpfs in use.
    pub fn tmpfs_pages(&self) -> u64 {
        self.tree.tmpfs_pages()
    }

    /// The global locks that are held now, for a process that looks while nobody else is in the
    /// kernel. Not for use after the run: it reads simulated memory.
    pub fn held_locks(&self) -> Vec<&'static str> {
        let globals = &*self.globals;
        let [names, inodes, files] = self.vfs.global_names();
        let locks = [
            (names, globals.dcache.is_locked()),
            (files, globals.files.is_locked()),
            ("vfsmount_lock", globals.vfsmount.is_locked()),
            (inodes, globals.inode.list.is_locked()),
            ("sb_lock", globals.inode.superblocks.is_locked()),
            ("pidmap_lock", globals.pids.is_locked()),
            ("tty_mutex", globals.tty_mutex.is_held()),
            ("zone", self.zones.is_locked()),
        ];
        locks.into_iter().filter(|(_, held)| *held).map(|(name, _)| name).collect()
    }

    /// Picoseconds of `count` units of user-mode work on this machine.
    ///
    /// # Panics
    ///
    /// When the calibration has no such unit; `convoy-lab` checks its units before a run.
    pub(crate) fn unit_ps(&self, unit: &str, count: u64) -> u64 {
        let ns = self.units.get(unit).unwrap_or_else(|| {
            panic!(
                "the calibration has no unit {unit:?}; make it again with: convoy calibrate units"
            )
        });
        ps(ns * count as f64 / self.speed)
    }

    /// A free process number, by the rule of the period: the next one up, wrapping.
    pub(crate) fn next_pid(&self) -> Pid {
        self.globals.pids.hold(|map| {
            map.write(map.peek().wrapping_add(1));
            let table = self.processes.borrow();
            let most = Pid::try_from(2 * self.options.processes).unwrap_or(Pid::MAX);
            let wrap = PID_MAX.max(most);
            let mut pid = self.last_pid.get() + 1;
            while pid >= wrap || table.contains_key(&pid) {
                pid = if pid >= wrap { PID_RESERVED } else { pid + 1 };
            }
            self.last_pid.set(pid);
            pid
        })
    }

    /// Runs `body` under the big kernel lock, if the kernel has one.
    pub(crate) fn big_kernel_lock<R>(&self, body: impl FnOnce() -> R) -> R {
        if !self.sched.bkl.exists() {
            return body();
        }
        bump(&self.counts.bkl);
        self.sched.lock_kernel();
        let result = body();
        self.sched.unlock_kernel();
        result
    }

    /// A long stretch of kernel work outside locks, with the places to preempt that such paths
    /// have.
    pub(crate) fn work(&self, ps: u64) {
        let mut left = ps;
        while left > 0 {
            let part = left.min(WORK_PART_PS);
            spend(part);
            self.sched.cond_resched();
            left -= part;
        }
    }

    /// Runs `body` under `mutex`, which is a place to preempt as every lock that sleeps.
    pub(crate) fn under<R>(&self, mutex: &Mutex, body: impl FnOnce() -> R) -> R {
        self.sched.might_sleep();
        mutex.hold(body)
    }
}
