//! The virtual kernel of one machine: what all its processes share.

use crate::base::{Base, Counts};
use crate::costs::{Costs, CostsError, PROGRAM_UNITS};
use crate::futex::Futexes;
use crate::ipc::Ipc;
use crate::lock_rules::BklTraffic;
use crate::mappings::Maps;
use crate::pages::PAGE;
use crate::preset::KernelPreset;
use crate::processes::{Processes, ProcessesHot, Terminal};
use crate::sched::scheduler::Sched;
use crate::vfs::{FileSystem, JournalStats, Tree, VfsHot, VfsLocks};
use crate::zone::{ZoneStats, Zones};
use convoy_machine::{Preset, ps};
use core::cell::Cell;
use core::ops::Deref;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Pages of the largest block of the page allocator, the minimum size of memory.
const LEAST_PAGES: u32 = 1 << convoy_mm::ORDER_MAX;

/// Boot parameters of a kernel; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory of the machine.
    pub memory: u64,
    /// Size of the file system on `/tmp`.
    pub tmpfs: u64,
    /// Which one it is.
    pub file_system: FileSystem,
    /// Number of such file systems, at least 1, each on a separate disk: on `/tmp`, `/t1`, `/t2`
    /// and so on.
    pub volumes: usize,
    /// Open files of one process (`RLIMIT_NOFILE`).
    pub open_files: usize,
    /// Processes of the user (`RLIMIT_NPROC`); they also need a task of the machine each.
    pub processes: usize,
    /// Whether the processes have a controlling terminal as file 0 to 2.
    pub terminal: bool,
    /// What file 0 is if there is a terminal.
    pub input: StandardInput,
}

/// File 0 of the users. AIM7's `multitask` reads all its answers from it (`get_misc_information`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StandardInput {
    /// They are typed.
    #[default]
    Terminal,
    /// A script has them.
    Pipe,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 8 << 30,
            tmpfs: 4 << 30,
            file_system: FileSystem::Tmpfs,
            volumes: 1,
            open_files: 1024,
            processes: 32_000,
            terminal: true,
            input: StandardInput::Terminal,
        }
    }
}

impl Options {
    /// Whether file 0 of the processes is a terminal.
    pub(crate) fn terminal_input(&self) -> bool {
        self.terminal && self.input == StandardInput::Terminal
    }
}

/// Why a kernel cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The table of instruction costs is wrong.
    #[error(transparent)]
    Costs(#[from] CostsError),
    /// A unit that the kernel's programs need is not priced.
    #[error("the calibration has no unit {unit:?}, which the kernel's programs need")]
    Unit {
        /// The unit.
        unit: &'static str,
    },
    /// The machine's memory is too small for the kernel's tables.
    #[error("the options of the kernel are out of range: {0}")]
    Options(&'static str),
}

/// The virtual kernel of one machine. Processes hold it by `Rc`.
pub struct World {
    base: Rc<Base>,
    pub(crate) vfs: VfsLocks,
    pub(crate) tree: Tree,
    pub(crate) ipc: Ipc,
    pub(crate) terminal: Terminal,
    pub(crate) options: Options,
    pub(crate) traffic: BklTraffic,
    /// Part of a big-kernel-lock event that previous shells have left over.
    pub(crate) bkl_events_left: Cell<f64>,
    pub(crate) processes: Processes,
    pub(crate) maps: Option<Rc<Maps>>,
    units: BTreeMap<String, f64>,
    speed: f64,
}

impl Deref for World {
    type Target = Base;
    fn deref(&self) -> &Base {
        &self.base
    }
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
        for unit in PROGRAM_UNITS {
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
        let cpus = preset.topology.cpus;
        let zones = Zones::new(kernel.zone, locks, pages, preset, &costs);
        let vfs_hot = VfsHot::place(locks, kernel.vfs);
        let processes = Processes::new(
            ProcessesHot::place(locks),
            options.processes,
            locks.pids,
            kernel.signals,
        );
        let world = Rc::new(Self {
            vfs: VfsLocks::new(kernel.vfs, locks, vfs_hot, cpus),
            tree: Tree::new(
                &sched,
                kernel.vfs,
                locks,
                preset,
                options.tmpfs / PAGE,
                options.file_system,
                options.volumes,
            ),
            ipc: Ipc::new(locks),
            terminal: Terminal::new(),
            options,
            traffic: kernel.bkl_traffic.clone(),
            bkl_events_left: Cell::new(0.0),
            processes,
            maps: kernel.mappings.map(|rules| Maps::new(rules, locks)),
            units: units.clone(),
            speed: preset.speed,
            base: Rc::new(Base { sched, costs, zones, locks, counts: Counts::default() }),
        });
        world.sched.serve_threads(Futexes::new(&world.costs, locks, preset));
        Ok(world)
    }

    /// What paths that need no more may keep.
    pub(crate) fn base(&self) -> &Rc<Base> {
        &self.base
    }

    /// Processes that exist, zombies included.
    pub fn process_count(&self) -> usize {
        self.processes.count()
    }

    /// Free pages of memory.
    pub fn free_pages(&self) -> u64 {
        u64::from(self.zones.free_pages())
    }

    /// Returns the transfers between the lists of the CPUs and the zones of memory, summed over
    /// nodes by name; `HighMem` first, if there is one.
    pub fn page_stats(&self) -> Vec<ZoneStats> {
        self.zones.stats()
    }

    /// Returns the summed counters of the journals of the work file systems, if they have any.
    #[must_use]
    pub fn journal_stats(&self) -> Option<JournalStats> {
        self.tree.journals().map(|journal| journal.stats()).reduce(JournalStats::plus)
    }

    /// Pages of the tmpfs in use.
    pub fn tmpfs_pages(&self) -> u64 {
        self.tree.tmpfs_pages()
    }

    /// Returns the global locks that are held now, for a check while no other process is in the
    /// kernel. Not for use after the run: it reads simulated memory.
    pub fn held_locks(&self) -> Vec<&'static str> {
        let zone = [("zone", self.zones.is_locked())];
        let locks = self.vfs.held().into_iter().chain(self.processes.held()).chain(zone);
        locks.filter(|(_, held)| *held).map(|(name, _)| name).collect()
    }

    /// Picoseconds of `count` units of user-mode work on this machine.
    ///
    /// # Panics
    ///
    /// If the calibration does not have the unit; `convoy-lab` checks its units before a run.
    pub(crate) fn unit_ps(&self, unit: &str, count: u64) -> u64 {
        let ns = self.units.get(unit).unwrap_or_else(|| {
            panic!(
                "the calibration has no unit {unit:?}; make it again with: convoy calibrate units"
            )
        });
        ps(ns * count as f64 / self.speed)
    }
}
