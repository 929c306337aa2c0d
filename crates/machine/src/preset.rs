//! Machine presets: topology and prices, read from `machines/*.toml`.

use std::collections::BTreeMap;

use convoy_catalogue::{Entry, Fault, Json, MACHINES, Shelf, nanoseconds, parsed};
use schemars::JsonSchema;
use serde::Deserialize;

mod check;
mod load;

/// How the CPUs are grouped. Groups are consecutive CPU numbers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Number of CPUs.
    #[schemars(range(min = 1, max = CPUS_MAX))]
    pub cpus: usize,
    /// CPUs that share a last-level cache.
    #[schemars(range(min = 1, max = CPUS_MAX))]
    pub cpus_per_llc: usize,
    /// CPUs in one package.
    #[schemars(range(min = 1, max = CPUS_MAX))]
    pub cpus_per_package: usize,
    /// Hardware threads of one core, each a CPU; 1 where the file says nothing.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 8))]
    pub threads_per_core: usize,
    /// Packages that share one memory node; 1 where the file says nothing.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = PACKAGES_MAX))]
    pub packages_per_node: usize,
}

const fn thread_speed() -> f64 {
    0.62
}
const fn one() -> usize {
    1
}

impl Topology {
    /// CPUs of one memory node.
    pub const fn cpus_per_node(&self) -> usize {
        self.cpus_per_package * self.packages_per_node
    }
}

/// Prices of the hardware, in nanoseconds unless the name says otherwise. The preset files name the
/// sources.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct Prices {
    /// Load or store that hits the CPU's own cache.
    pub hit: f64,
    /// Cost of a locked instruction beyond `hit`.
    pub atomic: f64,
    /// Line transfer between CPUs that share the last-level cache.
    pub llc: f64,
    /// Line transfer between last-level caches of one package.
    pub package: f64,
    /// The same if the line is in the memory of another package, with a lookup in that package's
    /// directory. Without it that costs what `package` does.
    #[serde(default)]
    pub package_away: Option<f64>,
    /// Line transfer between packages.
    pub remote: f64,
    /// Line that no cache holds.
    pub memory: f64,
    /// Time by which reads of one line follow each other in a last-level cache.
    pub read_service: f64,
    /// Time by which copies of one line to other last-level caches follow each other. Without it
    /// the next one begins when the last has arrived, as between packages; on a bus it is the time
    /// for which a copy keeps the bus.
    #[serde(default)]
    pub copy_service: Option<f64>,
    /// Time by which requests of one line that another cache owns, or that want to own it, follow
    /// each other. Without it the next one begins when the line has arrived, as on hardware; with
    /// it a machine is like a simulator in which every miss takes its price, whatever others do.
    #[serde(default)]
    pub owner_service: Option<f64>,
    /// Write to a line of which the CPU and other caches have copies. Without it that costs as much
    /// as a transfer from the farthest copy.
    #[serde(default)]
    pub upgrade: Option<f64>,
    /// Cost of a write beyond the transfer if other last-level caches hold the line.
    #[serde(default)]
    pub invalidate: f64,
    /// Time for which a line stays with a CPU that received it while other last-level caches wait:
    /// until the line's home learns of its arrival, and the next request reaches the CPU.
    #[serde(default)]
    pub kept: f64,
    /// Delay from sending an inter-processor interrupt to its handler.
    pub ipi: f64,
    /// Delay of leaving the idle state when the waker's store ends `mwait`.
    pub idle_exit: f64,
    /// Entry and return of an interrupt.
    pub interrupt: f64,
    /// Direct cost of a context switch (registers, page tables, pipeline).
    pub switch: f64,
    /// Cost of refilling the first-level caches for a task that returns to a CPU.
    pub refill: f64,
    /// Cost of a switch to another address space beyond `switch`.
    #[serde(default)]
    pub address_space: f64,
}

/// Prices of what only programs do, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct UserPrices {
    /// One `pause` of a spinning loop.
    pub pause: f64,
    /// One reading of the monotonic clock, without a system call.
    pub clock: f64,
}

/// Cost of a task when intermediate tasks have evicted its lines from the nearer caches.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct ColdSwitch {
    /// Numbers of switches of its CPU since the task left it, ascending.
    #[schemars(length(min = 1, max = COLD_MAX))]
    #[schemars(inner(range(min = 1, max = 1_000_000_000)))]
    pub after: Vec<u64>,
    /// Cost of the switch back beyond `price_ns.switch`, interpolated linearly between two numbers,
    /// from zero below the first, and constant after the last.
    #[schemars(length(min = 1, max = COLD_MAX))]
    pub ns: Vec<f64>,
}

impl ColdSwitch {
    /// Nanoseconds after this number of switches.
    pub fn ns_after(&self, after: u64) -> f64 {
        let above = self.after.partition_point(|&known| known <= after);
        let point = |at: usize| (self.after[at] as f64, self.ns[at]);
        let (x0, y0) = above.checked_sub(1).map_or((0.0, 0.0), point);
        if above == self.after.len() {
            return y0;
        }
        let (x1, y1) = point(above);
        y0 + (y1 - y0) * (after as f64 - x0) / (x1 - x0)
    }
}

/// Steps of the scheduler that were measured on a machine, in nanoseconds; they replace
/// `[sched_ns]` of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct SchedSteps {
    /// One pass of `schedule`.
    pub schedule: f64,
    /// One wakeup.
    pub wake: f64,
}

/// Overhead of a hypervisor on a machine that is its guest, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct Guest {
    /// Time for which the sender of an inter-processor interrupt is away.
    pub send: f64,
    /// How long an idle CPU is polled for before the hypervisor takes it from the guest, which can
    /// see that (`vcpu_is_preempted`).
    pub halt_poll: f64,
    /// From how long an idle time on its end takes `halted_exit`.
    pub long_idle: f64,
    /// `price_ns.idle_exit` of a CPU that has idled for that time.
    pub halted_exit: f64,
}

/// Size of a cache in lines of 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Lines it holds.
    #[schemars(range(min = 1, max = LINES_MAX))]
    pub lines: usize,
    /// Lines of one set; as many as `lines` in a fully associative cache.
    #[schemars(range(min = 1, max = LINES_MAX))]
    pub ways: usize,
}

/// A private level behind the first.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct PrivateLevel {
    /// Lines it holds.
    #[schemars(range(min = 1, max = LINES_MAX))]
    pub lines: usize,
    /// Lines of one set.
    #[schemars(range(min = 1, max = LINES_MAX))]
    pub ways: usize,
    /// Cost of a hit here beyond `price_ns.hit`.
    pub ns: f64,
}

/// A level that the CPUs of one last-level cache share.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct SharedLevel {
    /// Lines it holds.
    #[schemars(range(min = 1, max = LINES_MAX))]
    pub lines: usize,
    /// Lines of one set.
    #[schemars(range(min = 1, max = LINES_MAX))]
    pub ways: usize,
    /// Cost of a hit here beyond `price_ns.hit`.
    pub ns: f64,
    /// It holds all that the private caches above it hold. Otherwise it receives the lines that
    /// they evict.
    pub inclusive: bool,
}

/// The caches of a machine; lines are evicted in least recently used order.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// First level of each CPU; a hit costs `price_ns.hit`.
    pub l1: Geometry,
    /// Second level of each CPU; holds all that the first one holds.
    pub l2: PrivateLevel,
    /// Third level of each group of `topology.cpus_per_llc` CPUs.
    pub l3: Option<SharedLevel>,
}

/// Distances between packages. A line is in the memory of the package of the CPU that first fetched
/// it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct Numa {
    /// Hops from package (row) to package (column); 0 on the diagonal.
    pub hops: Vec<Vec<u8>>,
    /// Line transfer over 2, 3, ... hops; `price_ns.remote` is that over 1.
    pub remote_ns: Vec<f64>,
    /// Line from memory over 1, 2, ... hops; `price_ns.memory` is the price in the own package.
    pub memory_ns: Vec<f64>,
    /// Distance over 1, 2, ... hops that the firmware reports to the kernel, where 10 is the own
    /// node (ACPI's SLIT); 20 over any further hop.
    #[serde(default)]
    pub distance: Vec<u8>,
}

/// The memory controllers of each package: queues.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct MemoryControllers {
    /// Controllers of one package; consecutive lines are interleaved over them.
    #[schemars(range(min = 1, max = 1024))]
    pub for_each_package: usize,
    /// Time for which one request for a line keeps its controller busy.
    pub service_ns: f64,
}

/// A disk that serves one request after the other.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskTime {
    /// Time for one request; 0 is a RAM disk, which takes only CPU time.
    #[schemars(range(min = 0.0, max = 1e12))]
    pub latency_ns: f64,
}

impl Default for DiskTime {
    /// The disk of the machines of 2007 (`machines/smp8-2007.toml`).
    fn default() -> Self {
        Self { latency_ns: 5_500_000.0 }
    }
}

/// A machine preset.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What titles call it.
    #[serde(skip)]
    pub name: String,
    /// Speed of instruction streams relative to the calibration host (2 is twice as fast): scales
    /// user-mode work and the instruction part of kernel paths, not memory prices.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub speed: f64,
    /// Speed of a CPU while the other hardware thread of its core works, relative to alone; 0.60 to
    /// 0.65 each were usual from 2008 on. Not used where a core has one thread.
    #[serde(default = "thread_speed")]
    #[schemars(range(min = 0.1, max = 1.0))]
    pub thread_speed: f64,
    /// Speed of kernel paths where it was measured apart; `speed` otherwise.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub kernel_speed: Option<f64>,
    /// Steps of kernel paths that were measured on this machine, in nanoseconds; they replace the
    /// entries of `kernels/costs.toml` with these names.
    #[serde(default)]
    #[schemars(transform = nanoseconds)]
    pub kernel_ns: BTreeMap<String, f64>,
    /// CPU grouping.
    pub topology: Topology,
    /// Prices.
    pub price_ns: Prices,
    /// Pseudo-random perturbation of miss latencies: each miss costs up to this fraction more
    /// (Alameldeen and Wood, HPCA 2003). 0 switches it off.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub perturbation: f64,
    /// How far a CPU may run ahead of the others over lines that it owns exclusively, in
    /// nanoseconds.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub skew_ns: f64,
    /// A plain store does not wait for its line, and a locked instruction waits for the stores
    /// before it, as on x86. Without it every store waits.
    #[serde(default)]
    pub store_buffer: bool,
    /// A request for a line that another last-level cache has takes half of the transfer to get
    /// there, and the CPUs there use the line until then. Without it the line leaves its owner at
    /// the time of the request.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub requests_travel: bool,
    /// Lines that a CPU fetches at once for reads that do not depend on each other; 1 without it.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub fill_buffers: usize,
    /// Caches with a geometry; without one a line is lost by invalidation only.
    pub cache: Option<Caches>,
    /// Distances; without them all packages are one hop apart and memory is as far from all.
    pub numa: Option<Numa>,
    /// Queues at the memory; without them memory serves any number of requests at a time.
    pub controllers: Option<MemoryControllers>,
    /// The disk; one of 5.5 ms where the file says nothing.
    #[serde(default)]
    pub disk: DiskTime,
    /// Prices of what programs do; without them `pause` takes eight hits and the clock nothing.
    pub user_ns: Option<UserPrices>,
    /// The hypervisor; without one the machine is hardware.
    pub guest_ns: Option<Guest>,
    /// Steps of the scheduler; the kernel preset's if absent.
    pub sched_ns: Option<SchedSteps>,
    /// Switches back to tasks that have been away; without it they cost what all do.
    pub cold_switch: Option<ColdSwitch>,
}

/// Most CPUs a machine may have.
pub const CPUS_MAX: usize = 1024;
/// Most lines of a cache.
const LINES_MAX: usize = 1 << 24;
/// Most caches of the third level.
const SHARED_MAX: usize = 32;
/// Most packages of a machine with distances or memory controllers.
const PACKAGES_MAX: usize = 255;
/// Points of `cold_switch`.
const COLD_MAX: usize = 16;
/// Of the lists of prices by hops: machines of four hops exist.
const HOPS_MAX: usize = 8;

impl Entry for Preset {
    const SHELF: &'static Shelf = &MACHINES;

    #[inline(never)]
    fn parse(tree: Json) -> Result<Self, Fault> {
        parsed(tree)
    }

    fn check(&self) -> Result<(), Fault> {
        let Topology { cpus_per_llc, cpus_per_package, threads_per_core, .. } = self.topology;
        if !cpus_per_llc.is_multiple_of(threads_per_core) {
            let problem = format!("{threads_per_core} threads do not divide topology.cpus_per_llc");
            return Err(Fault::new("topology.threads_per_core", problem));
        }
        if !cpus_per_package.is_multiple_of(cpus_per_llc) {
            let accepted = "a multiple of topology.cpus_per_llc";
            return Err(Fault::range(
                "topology.cpus_per_package",
                cpus_per_package as f64,
                accepted,
            ));
        }
        self.check_switch()?;
        self.check_caches()?;
        self.check_memory()
    }

    fn set_name(&mut self, label: String) {
        self.name = label;
    }
}

impl Preset {
    /// The same machine with another number of CPUs; groups keep their size.
    #[must_use]
    pub fn with_cpus(mut self, cpus: usize) -> Self {
        self.topology.cpus = cpus;
        self
    }

    /// How many CPUs share a last level, and a package, on this machine with `cpus` CPUs: as many
    /// as now, or more if it would else have too many caches.
    pub fn groups_with(&self, cpus: usize) -> [usize; 2] {
        let Topology { cpus_per_llc, cpus_per_package, .. } = self.topology;
        let is_shared = self.cache.as_ref().is_some_and(|caches| caches.l3.is_some());
        let groups = if is_shared { cpus.div_ceil(cpus_per_llc) } else { 1 };
        let llc = cpus_per_llc * groups.div_ceil(SHARED_MAX).max(1);
        [llc, cpus_per_package.div_ceil(llc) * llc]
    }

    /// The machine as its caches see it: each core is a CPU.
    pub(crate) fn by_cores(&self) -> Self {
        let mut cores = self.clone();
        let topology = &mut cores.topology;
        let threads = core::mem::replace(&mut topology.threads_per_core, 1);
        topology.cpus = topology.cpus.div_ceil(threads);
        topology.cpus_per_llc = topology.cpus_per_llc.div_ceil(threads);
        topology.cpus_per_package = topology.cpus_per_package.div_ceil(threads);
        cores
    }

    /// Returns the distance between memory nodes that the firmware reports to the kernel; 10 from a
    /// node to itself (ACPI's SLIT).
    pub fn node_distance(&self, from: usize, to: usize) -> u8 {
        const OWN: u8 = 10;
        const OTHER: u8 = 20;
        if from == to {
            return OWN;
        }
        let Some(numa) = &self.numa else { return OTHER };
        let package = |node| node * self.topology.packages_per_node;
        let hops = numa.hops[package(from)][package(to)] as usize;
        numa.distance.get(hops.wrapping_sub(1)).copied().unwrap_or(OTHER)
    }
}

/// Picoseconds of `ns` nanoseconds.
pub const fn ps(ns: f64) -> u64 {
    (ns * 1000.0) as u64
}

#[cfg(test)]
mod tests;
