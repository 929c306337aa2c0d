//! Machine presets: topology and prices, read from `machines/*.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How the CPUs are grouped. Groups are consecutive CPU numbers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Number of CPUs, 1 to 1024.
    pub cpus: usize,
    /// CPUs that share a last-level cache.
    pub cpus_per_llc: usize,
    /// CPUs in one package.
    pub cpus_per_package: usize,
}

/// Prices of the hardware, in nanoseconds unless the name says otherwise. The sources stand in the
/// preset files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Load or store that hits the CPU's own cache.
    pub hit: f64,
    /// What a locked instruction costs beyond `hit`.
    pub atomic: f64,
    /// Line transfer between CPUs that share the last-level cache.
    pub llc: f64,
    /// Line transfer between last-level caches of one package.
    pub package: f64,
    /// Line transfer between packages.
    pub remote: f64,
    /// Line that no cache holds.
    pub memory: f64,
    /// Time for which the home of a shared line is busy with one read request.
    pub read_service: f64,
    /// Delay from sending an inter-processor interrupt to its handler.
    pub ipi: f64,
    /// Delay of leaving the idle state when the waker's store ends `mwait`.
    pub idle_exit: f64,
    /// Entry and return of an interrupt.
    pub interrupt: f64,
    /// Direct cost of a context switch (registers, page tables, pipeline).
    pub switch: f64,
    /// What a task that comes back to a CPU pays to refill the first-level caches.
    pub refill: f64,
    /// What a switch to another address space costs beyond `switch`.
    #[serde(default)]
    pub address_space: f64,
}

/// Prices of what only programs do, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserPrices {
    /// One `pause` of a spinning loop.
    pub pause: f64,
    /// One look at the monotonic clock, without a system call.
    pub clock: f64,
}

/// What a hypervisor adds for a machine that is its guest, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Time for which the sender of an inter-processor interrupt is away.
    pub send: f64,
    /// How long the hypervisor polls before it takes the CPU from a guest that idles.
    pub halt_poll: f64,
    /// `price_ns.idle_exit` of a CPU that idled longer than that.
    pub halted_exit: f64,
}

/// Size of a cache in lines of 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Lines it holds.
    pub lines: usize,
    /// Lines of one set; as many as `lines` in a fully associative cache.
    pub ways: usize,
}

/// A private level behind the first.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateLevel {
    /// Lines it holds.
    pub lines: usize,
    /// Lines of one set.
    pub ways: usize,
    /// What a hit here costs beyond `price_ns.hit`.
    pub ns: f64,
}

/// A level that the CPUs of one last-level cache share.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLevel {
    /// Lines it holds.
    pub lines: usize,
    /// Lines of one set.
    pub ways: usize,
    /// What a hit here costs beyond `price_ns.hit`.
    pub ns: f64,
    /// It holds all that the private caches above it hold. Otherwise it gets what they evict.
    pub inclusive: bool,
}

/// The caches of a machine: what they hold is evicted, least recently used first.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// First level of each CPU; a hit costs `price_ns.hit`.
    pub l1: Geometry,
    /// Second level of each CPU; holds all that the first one holds.
    pub l2: PrivateLevel,
    /// Third level of each group of `topology.cpus_per_llc` CPUs.
    pub l3: Option<SharedLevel>,
}

/// Distances between packages. A line lives in the memory of the package whose CPU first fetched
/// it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numa {
    /// Hops from package (row) to package (column); 0 on the diagonal.
    pub hops: Vec<Vec<u8>>,
    /// Line transfer over 2, 3, ... hops; `price_ns.remote` is that over 1.
    pub remote_ns: Vec<f64>,
    /// Line from memory over 1, 2, ... hops; `price_ns.memory` is that of the own package.
    pub memory_ns: Vec<f64>,
}

/// The memory controllers of each package: queues.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryControllers {
    /// Controllers of one package; consecutive lines are interleaved over them.
    pub for_each_package: usize,
    /// Time for which one request for a line keeps its controller busy.
    pub service_ns: f64,
}

/// A disk that serves one request after the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskTime {
    /// Time for one request.
    pub latency_ns: f64,
}

/// A machine preset.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Name, as in `--machine`.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Speed of instruction streams relative to the calibration host (2 is twice as fast): scales
    /// user-mode work and the instruction part of kernel paths, not memory prices.
    pub speed: f64,
    /// The same for kernel paths, where it was measured apart; `speed` otherwise.
    pub kernel_speed: Option<f64>,
    /// Steps of kernel paths that were measured on this machine, in nanoseconds, in place of the
    /// entries of `kernels/costs.toml` with these names.
    #[serde(default)]
    pub kernel_ns: BTreeMap<String, f64>,
    /// CPU grouping.
    pub topology: Topology,
    /// Prices.
    pub price_ns: Prices,
    /// Pseudo-random perturbation of miss latencies: each miss costs up to this fraction more
    /// (Alameldeen and Wood, HPCA 2003). 0 switches it off.
    pub perturbation: f64,
    /// How far a CPU may run ahead of the others over lines that it owns exclusively, in
    /// nanoseconds.
    pub skew_ns: f64,
    /// Caches with a geometry; without one a line is lost by invalidation only.
    pub cache: Option<Caches>,
    /// Distances; without them all packages are one hop apart and memory is as far from all.
    pub numa: Option<Numa>,
    /// Queues at the memory; without them memory serves any number of requests at a time.
    pub controllers: Option<MemoryControllers>,
    /// The disk; without one the machine has none.
    pub disk: Option<DiskTime>,
    /// Prices of what programs do; without them `pause` takes eight hits and the clock nothing.
    pub user_ns: Option<UserPrices>,
    /// The hypervisor; without one the machine is hardware.
    pub guest_ns: Option<Guest>,
}

/// The shipped presets: name and text of the file.
const SHIPPED: &[(&str, &str)] = &[
    ("host", include_str!("../../../machines/host.toml")),
    ("quad-2008-shared-llc", include_str!("../../../machines/quad-2008-shared-llc.toml")),
    ("quad-2008-two-dies", include_str!("../../../machines/quad-2008-two-dies.toml")),
    ("server-2x64", include_str!("../../../machines/server-2x64.toml")),
    ("smp8-2007", include_str!("../../../machines/smp8-2007.toml")),
    ("smp16-2007", include_str!("../../../machines/smp16-2007.toml")),
    ("smp32-2007", include_str!("../../../machines/smp32-2007.toml")),
    ("westmere-ex-80-2013", include_str!("../../../machines/westmere-ex-80-2013.toml")),
    ("xeon-24-2011", include_str!("../../../machines/xeon-24-2011.toml")),
    ("xeon-64-2011", include_str!("../../../machines/xeon-64-2011.toml")),
];

/// What is wrong with a preset.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// A preset file cannot be read.
    #[error("cannot read preset {path}: {source}; name a readable file or a shipped preset")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// No preset of that name is shipped.
    #[error("unknown machine {name:?}; known: {known}, or the path of a .toml file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The shipped names.
        known: String,
    },
    /// Not TOML, or a key is missing, unknown or of the wrong type.
    #[error("machine preset {name}: {source}")]
    Syntax {
        /// The preset or file.
        name: String,
        /// Line, column and cause.
        source: toml::de::Error,
    },
    /// A value is out of its range.
    #[error("machine preset {name}: {key} is {value}; it must be {range}")]
    Range {
        /// The preset or file.
        name: String,
        /// The key.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: &'static str,
    },
}

/// Most CPUs a machine may have.
pub const CPUS_MAX: usize = 1024;

impl Preset {
    /// Names of the shipped presets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// A shipped preset.
    pub fn named(name: &str) -> Result<Self, PresetError> {
        let found = SHIPPED.iter().find(|(known, _)| *known == name);
        let (known, text) = found.ok_or_else(|| PresetError::Unknown {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        })?;
        Self::parse(known, text)
    }

    /// A shipped preset, or the file of that path when the name ends in `.toml`.
    pub fn load(name: &str) -> Result<Self, PresetError> {
        let path = std::path::Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Self::named(name);
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| PresetError::Unreadable { path: name.to_owned(), source })?;
        Self::parse(name, &text)
    }

    /// Parses `text`; `name` is used in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, PresetError> {
        let preset: Self = toml::from_str(text)
            .map_err(|source| PresetError::Syntax { name: name.to_owned(), source })?;
        preset.validate()?;
        Ok(preset)
    }

    /// The same machine with another number of CPUs; groups keep their size.
    #[must_use]
    pub fn with_cpus(mut self, cpus: usize) -> Self {
        self.topology.cpus = cpus;
        self
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), PresetError> {
        let fail = |key, value: String, range| {
            Err(PresetError::Range { name: self.name.clone(), key, value, range })
        };
        let t = &self.topology;
        if !(1..=CPUS_MAX).contains(&t.cpus) {
            return fail("topology.cpus", t.cpus.to_string(), "1 to 1024");
        }
        if t.cpus_per_llc == 0 {
            return fail("topology.cpus_per_llc", "0".into(), "at least 1");
        }
        if t.cpus_per_package < t.cpus_per_llc || !t.cpus_per_package.is_multiple_of(t.cpus_per_llc)
        {
            let range = "a multiple of topology.cpus_per_llc";
            return fail("topology.cpus_per_package", t.cpus_per_package.to_string(), range);
        }
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return fail("speed", self.speed.to_string(), "above 0");
        }
        let kernel = self.kernel_speed.unwrap_or(1.0);
        if !(kernel.is_finite() && kernel > 0.0) {
            return fail("kernel_speed", kernel.to_string(), "above 0");
        }
        if !(0.0..=1.0).contains(&self.perturbation) {
            return fail("perturbation", self.perturbation.to_string(), "0 to 1");
        }
        if !(0.0..=1e6).contains(&self.skew_ns) {
            return fail("skew_ns", self.skew_ns.to_string(), "0 to 1000000");
        }
        let p = &self.price_ns;
        for (key, value) in [
            ("price_ns.hit", p.hit),
            ("price_ns.atomic", p.atomic),
            ("price_ns.llc", p.llc),
            ("price_ns.package", p.package),
            ("price_ns.remote", p.remote),
            ("price_ns.memory", p.memory),
            ("price_ns.read_service", p.read_service),
            ("price_ns.ipi", p.ipi),
            ("price_ns.idle_exit", p.idle_exit),
            ("price_ns.interrupt", p.interrupt),
            ("price_ns.switch", p.switch),
            ("price_ns.refill", p.refill),
            ("price_ns.address_space", p.address_space),
            ("user_ns.pause", self.user_ns.as_ref().map_or(0.0, |user| user.pause)),
            ("user_ns.clock", self.user_ns.as_ref().map_or(0.0, |user| user.clock)),
            ("guest_ns.send", self.guest_ns.as_ref().map_or(0.0, |guest| guest.send)),
            ("guest_ns.halt_poll", self.guest_ns.as_ref().map_or(0.0, |guest| guest.halt_poll)),
            ("guest_ns.halted_exit", self.guest_ns.as_ref().map_or(0.0, |guest| guest.halted_exit)),
        ] {
            if !(0.0..=1e9).contains(&value) {
                return fail(key, value.to_string(), "0 to 1000000000");
            }
        }
        if let Some(disk) = &self.disk
            && !(0.0..=1e12).contains(&disk.latency_ns)
        {
            return fail("disk.latency_ns", disk.latency_ns.to_string(), "0 to 10^12");
        }
        self.validate_caches()?;
        self.validate_memory()
    }

    fn range(&self, key: &'static str, value: String, range: &'static str) -> PresetError {
        PresetError::Range { name: self.name.clone(), key, value, range }
    }

    fn validate_caches(&self) -> Result<(), PresetError> {
        let Some(caches) = &self.cache else { return Ok(()) };
        let (l1, l2) = (&caches.l1, &caches.l2);
        let mut levels =
            vec![("cache.l1", l1.lines, l1.ways, 0.0), ("cache.l2", l2.lines, l2.ways, l2.ns)];
        if let Some(l3) = &caches.l3 {
            levels.push(("cache.l3", l3.lines, l3.ways, l3.ns));
            let groups = self.topology.cpus.div_ceil(self.topology.cpus_per_llc);
            if groups > 32 {
                let range = "at most 32 groups of topology.cpus_per_llc CPUs";
                return Err(self.range("cache.l3", format!("{groups} caches"), range));
            }
        }
        for (key, lines, ways, ns) in levels {
            if ways == 0 || lines == 0 || !lines.is_multiple_of(ways) || lines > 1 << 24 {
                let range = "at most 2^24 lines in a whole number of sets of at least one way";
                return Err(self.range(key, format!("{lines} lines in {ways} ways"), range));
            }
            if !(0.0..=1e9).contains(&ns) {
                return Err(self.range(key, format!("{ns} ns"), "0 to 1000000000"));
            }
        }
        Ok(())
    }

    fn validate_memory(&self) -> Result<(), PresetError> {
        let packages = self.topology.cpus.div_ceil(self.topology.cpus_per_package);
        if let Some(numa) = &self.numa {
            let hops = &numa.hops;
            let square = hops.iter().all(|row| row.len() == hops.len());
            if hops.len() < packages || !square {
                let value = format!("{} packages", hops.len());
                return Err(self.range("numa.hops", value, "a square matrix of all packages"));
            }
            let most = hops.iter().flatten().copied().max().unwrap_or(0) as usize;
            let zeros = |row: usize| (0..hops.len()).all(|to| (hops[row][to] == 0) == (row == to));
            if !(0..hops.len()).all(zeros) {
                let range = "0 from a package to itself and nowhere else";
                return Err(self.range("numa.hops", format!("{hops:?}"), range));
            }
            if numa.remote_ns.len() + 1 < most || numa.memory_ns.len() < most {
                let range = "prices for every number of hops in numa.hops";
                return Err(self.range("numa.memory_ns", format!("{most} hops"), range));
            }
            for &ns in numa.remote_ns.iter().chain(&numa.memory_ns) {
                if !(0.0..=1e9).contains(&ns) {
                    return Err(self.range("numa", ns.to_string(), "0 to 1000000000"));
                }
            }
        }
        if packages > 255 && (self.numa.is_some() || self.controllers.is_some()) {
            let range = "at most 255 packages with numa or controllers";
            return Err(self.range("topology.cpus", self.topology.cpus.to_string(), range));
        }
        if let Some(controllers) = &self.controllers {
            if controllers.for_each_package == 0 {
                return Err(self.range("controllers.for_each_package", "0".into(), "at least 1"));
            }
            if !(0.0..=1e9).contains(&controllers.service_ns) {
                let value = controllers.service_ns.to_string();
                return Err(self.range("controllers.service_ns", value, "0 to 1000000000"));
            }
        }
        Ok(())
    }
}

/// Picoseconds of `ns` nanoseconds.
pub const fn ps(ns: f64) -> u64 {
    (ns * 1000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_preset_is_valid_and_named_as_its_file() {
        for name in Preset::names() {
            assert_eq!(Preset::named(name).unwrap().name, name);
        }
    }

    #[test]
    fn a_bad_value_names_the_key_and_the_range() {
        let text = include_str!("../../../machines/quad-2008-shared-llc.toml");
        let error = Preset::parse("x", &text.replace("cpus = 4", "cpus = 5000")).unwrap_err();
        assert!(error.to_string().contains("topology.cpus is 5000; it must be 1 to 1024"));
        let error = Preset::parse("x", &text.replace("hit =", "hitt =")).unwrap_err();
        assert!(error.to_string().contains("hitt"), "{error}");
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Preset::named("nothing").unwrap_err().to_string();
        assert!(Preset::names().all(|name| error.contains(name)), "{error}");
    }

    #[test]
    fn impossible_caches_and_distances_are_refused() {
        let text = include_str!("../../../machines/westmere-ex-80-2013.toml");
        for (from, to, key) in [
            ("lines = 512\nways = 8", "lines = 512\nways = 7", "cache.l1"),
            ("[0, 1, 2, 2, 3, 3, 3, 3]", "[0, 0, 2, 2, 3, 3, 3, 3]", "numa.hops"),
            ("remote_ns = [188.0, 220.0]", "remote_ns = [188.0]", "numa.memory_ns"),
            ("cpus = 80", "cpus = 90", "numa.hops"),
            ("for_each_package = 2", "for_each_package = 0", "controllers.for_each_package"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Preset::parse("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
