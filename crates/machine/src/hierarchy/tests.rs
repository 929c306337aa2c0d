//! The caches against a reference simulator: the same random trace through both, equal to the last
//! picosecond, state and eviction. The reference is slow and plain on purpose: it keeps lists with
//! time stamps and looks everything up by searching them.

use super::Lines;
use crate::line::mix;
use crate::preset::{Preset, ps};
use std::collections::{BTreeMap, BTreeSet};

const LINES: usize = 160;

/// One cache: its lines and the time of their last use.
#[derive(Default)]
struct Cache {
    lines: usize,
    ways: usize,
    held: Vec<(usize, u64)>,
}

impl Cache {
    fn many(count: usize, lines: usize, ways: usize) -> Vec<Self> {
        (0..count).map(|_| Self { lines, ways, held: Vec::new() }).collect()
    }

    fn has(&self, line: usize) -> bool {
        self.held.iter().any(|&(held, _)| held == line)
    }

    fn remove(&mut self, line: usize) {
        self.held.retain(|&(held, _)| held != line);
    }

    /// Uses `line`, bringing it in if need be; what had to go.
    fn put(&mut self, line: usize, time: u64) -> Option<usize> {
        self.remove(line);
        let sets = self.lines / self.ways;
        let same = self.held.iter().filter(|&&(held, _)| held % sets == line % sets);
        let full = same.clone().count() == self.ways;
        let out =
            if full { same.min_by_key(|&&(_, used)| used).map(|&(held, _)| held) } else { None };
        if let Some(out) = out {
            self.remove(out);
        }
        self.held.push((line, time));
        out
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Modified,
    Exclusive,
    Shared,
}

struct Reference {
    preset: Preset,
    time: u64,
    l1: Vec<Cache>,
    l2: Vec<Cache>,
    /// One for each group; holds nothing on a machine without a third level.
    l3: Vec<Cache>,
    inclusive: bool,
    state: BTreeMap<(usize, usize), State>,
    /// Lines that were written since memory got them.
    stale: BTreeSet<usize>,
    home: BTreeMap<usize, usize>,
}

impl Reference {
    fn new(preset: &Preset) -> Self {
        let (caches, cpus) = (preset.cache.as_ref().unwrap(), preset.topology.cpus);
        let groups = cpus.div_ceil(preset.topology.cpus_per_llc);
        let l3 = caches.l3.as_ref().map_or((1, 1), |l3| (l3.lines, l3.ways));
        Self {
            preset: preset.clone(),
            time: 0,
            l1: Cache::many(cpus, caches.l1.lines, caches.l1.ways),
            l2: Cache::many(cpus, caches.l2.lines, caches.l2.ways),
            l3: Cache::many(groups, l3.0, l3.1),
            inclusive: caches.l3.as_ref().is_some_and(|l3| l3.inclusive),
            state: BTreeMap::new(),
            stale: BTreeSet::new(),
            home: BTreeMap::new(),
        }
    }

    fn group(&self, cpu: usize) -> usize {
        cpu / self.preset.topology.cpus_per_llc
    }

    fn hops(&self, a: usize, b: usize) -> usize {
        self.preset.numa.as_ref().unwrap().hops[a][b] as usize
    }

    fn package(&self, cpu: usize) -> usize {
        cpu / self.preset.topology.cpus_per_package
    }

    fn distance(&self, a: usize, b: usize, line: usize) -> f64 {
        let price = &self.preset.price_ns;
        let home = self.home.get(&line).copied().unwrap_or(self.package(a));
        match self.hops(self.package(a), self.package(b)) {
            _ if self.group(a) == self.group(b) => price.llc,
            0 if home == self.package(a) => price.package,
            0 => price.package_away.unwrap_or(price.package),
            1 => price.remote,
            hops => self.preset.numa.as_ref().unwrap().remote_ns[hops - 2],
        }
    }

    /// Returns the price of `line` from memory, on the package of its first access.
    fn memory(&mut self, cpu: usize, line: usize) -> f64 {
        let package = self.package(cpu);
        let home = *self.home.entry(line).or_insert(package);
        match self.hops(package, home) {
            0 => self.preset.price_ns.memory,
            hops => self.preset.numa.as_ref().unwrap().memory_ns[hops - 1],
        }
    }

    /// Prices of all copies outside the caches that `cpu` can look into.
    fn copies(&self, cpu: usize, line: usize) -> Vec<f64> {
        let others = self.state.keys().filter(|&&(other, at)| at == line && other != cpu);
        let others = others.map(|&(other, _)| self.distance(cpu, other, line));
        let mut prices: Vec<f64> = others.collect();
        for (group, cache) in self.l3.iter().enumerate() {
            if cache.has(line) && group != self.group(cpu) {
                let first = group * self.preset.topology.cpus_per_llc;
                prices.push(self.distance(cpu, first, line));
            }
        }
        prices
    }

    /// One access; its price beyond a hit in the first level.
    fn access(&mut self, cpu: usize, line: usize, write: bool) -> f64 {
        self.time += 1;
        let caches = self.preset.cache.clone().unwrap();
        let group = self.group(cpu);
        let state = self.state.get(&(cpu, line)).copied();
        let private = if self.l1[cpu].has(line) {
            Some(0.0)
        } else if self.l2[cpu].has(line) {
            self.l2[cpu].put(line, self.time);
            Some(caches.l2.ns)
        } else {
            None
        };
        let copies = self.copies(cpu, line);
        let near = copies.iter().copied().reduce(f64::min);
        let far = copies.iter().copied().reduce(f64::max).filter(|_| write);
        let owned = self
            .state
            .iter()
            .any(|(&(other, at), &held)| at == line && other != cpu && held != State::Shared);
        let source = if let Some(price) = private {
            price
        } else if self.l3[group].has(line) && !owned {
            self.l3[group].put(line, self.time);
            caches.l3.as_ref().unwrap().ns
        } else if let Some(near) = near {
            near
        } else {
            self.memory(cpu, line)
        };
        let asks_others = matches!(state, None | Some(State::Shared));
        let price = if asks_others { far.unwrap_or(0.0).max(source) } else { source };
        let next = if write { self.write(cpu, line) } else { self.read(cpu, line, state) };
        self.state.insert((cpu, line), next);
        if private.is_none() {
            self.fill(cpu, line);
        }
        self.l1[cpu].put(line, self.time);
        price
    }

    fn write(&mut self, cpu: usize, line: usize) -> State {
        for other in 0..self.l1.len() {
            if other != cpu {
                self.drop_private(other, line);
            }
        }
        for group in 0..self.l3.len() {
            if group != self.group(cpu) {
                self.l3[group].remove(line);
            }
        }
        self.stale.insert(line);
        State::Modified
    }

    fn read(&mut self, cpu: usize, line: usize, state: Option<State>) -> State {
        if let Some(state) = state {
            return state;
        }
        let group = self.group(cpu);
        let mut alone = true;
        let mut local = self.l3[group].has(line);
        for other in 0..self.l1.len() {
            if let Some(held) = self.state.get_mut(&(other, line)) {
                *held = State::Shared;
                alone = false;
                local |= self.group(other) == group;
            }
        }
        alone &= (0..self.l3.len()).all(|at| at == group || !self.l3[at].has(line));
        if !local {
            self.write_back(line);
        }
        match alone {
            false => State::Shared,
            true if self.stale.contains(&line) => State::Modified,
            true => State::Exclusive,
        }
    }

    fn write_back(&mut self, line: usize) {
        self.stale.remove(&line);
    }

    fn drop_private(&mut self, cpu: usize, line: usize) {
        self.l1[cpu].remove(line);
        self.l2[cpu].remove(line);
        self.state.remove(&(cpu, line));
    }

    fn fill(&mut self, cpu: usize, line: usize) {
        let group = self.group(cpu);
        if self.inclusive {
            self.fill_shared(group, line);
        }
        if let Some(out) = self.l2[cpu].put(line, self.time) {
            self.drop_private(cpu, out);
            if self.preset.cache.as_ref().unwrap().l3.is_some() {
                self.fill_shared(group, out);
            }
            self.left(out);
        }
    }

    fn fill_shared(&mut self, group: usize, line: usize) {
        let Some(out) = self.l3[group].put(line, self.time) else { return };
        for cpu in 0..self.l1.len() {
            if self.inclusive && self.group(cpu) == group {
                self.drop_private(cpu, out);
            }
        }
        self.left(out);
    }

    /// A copy has gone; was it the last one?
    fn left(&mut self, line: usize) {
        let cached = self.l2.iter().chain(&self.l3).any(|cache| cache.has(line));
        if !cached {
            self.write_back(line);
        }
    }
}

/// State of `line` in the caches of `cpu` as the directory has it.
fn state(lines: &Lines, cpu: usize, line: usize) -> Option<State> {
    let entry = lines.entry(line);
    if entry.owner.get() as usize == cpu + 1 {
        return Some(if entry.dirty.get() { State::Modified } else { State::Exclusive });
    }
    lines.readable(entry, cpu).then_some(State::Shared)
}

fn compare_contents(lines: &Lines, reference: &Reference, at: usize) {
    let mut h = lines.hierarchy();
    for line in 0..LINES {
        for cpu in 0..reference.l1.len() {
            let affirmed = state(lines, cpu, line).is_some();
            let (l1, l2) = (h.l1.lists(cpu, line), h.l2.lists(cpu, line));
            let ours = (affirmed && l1, affirmed && l2);
            let theirs = (reference.l1[cpu].has(line), reference.l2[cpu].has(line));
            assert_eq!(ours, theirs, "step {at}: line {line}, CPU {cpu}");
            let theirs = reference.state.get(&(cpu, line)).copied();
            assert_eq!(state(lines, cpu, line), theirs, "step {at}: line {line}, CPU {cpu}");
        }
        let entry = lines.entry(line);
        for group in 0..reference.l3.len() {
            let theirs = reference.l3[group].has(line);
            let affirmed = entry.l3.get() >> group & 1 == 1;
            assert_eq!(affirmed, theirs, "step {at}: line {line}");
            let listed = h.l3.as_mut().is_some_and(|l3| l3.lists(group, line));
            assert!(listed || !affirmed, "step {at}: line {line}");
        }
        let stale = reference.stale.contains(&line);
        assert_eq!(entry.dirty.get(), stale, "step {at}: line {line} is dirty");
    }
}

/// `steps` random accesses of `preset` through both simulators.
fn run(preset: &Preset, seed: u64, steps: usize) {
    let cpus = preset.topology.cpus;
    let lines = Lines::new(preset, seed, LINES, 0).expect("address space");
    let mut reference = Reference::new(preset);
    let (mut now, mut quick) = (0, 0);
    for at in 0..steps {
        let draw = mix(seed << 32 ^ at as u64);
        // Half of the accesses go to a few lines; a CPU makes eight of them in a row.
        let cpu = (mix(seed ^ (at as u64 / 8)) >> 7) as usize % cpus;
        let span = if draw & 1 == 0 { LINES } else { LINES / 40 };
        let (line, write) = ((draw >> 8) as usize % span, (draw >> 40).is_multiple_of(4));
        now += 1_000_000_000;
        // The engine does not ask at all when the line is quick.
        let done = if lines.entry(line).quick() as usize == cpu + 1 {
            quick += 1;
            now
        } else if write {
            lines.write(lines.entry(line), cpu, now)
        } else {
            lines.read(lines.entry(line), cpu, now, false)
        };
        let expected = ps(reference.access(cpu, line, write));
        assert_eq!(done - now, expected, "step {at}: CPU {cpu}, line {line}, write {write}");
        if at % 64 == 0 {
            compare_contents(&lines, &reference, at);
        }
    }
    assert!(quick > 0, "the short cut was never taken");
}

fn machine(topology: &str, caches: &str) -> Preset {
    let text = format!(
        "speed = 1.0\nperturbation = 0.0\nskew_ns = 0.0\n\
         [topology]\n{topology}\n\
         [price_ns]\nhit = 1.0\natomic = 1.0\nllc = 70.0\npackage = 110.0\nremote = 200.0\n\
         memory = 500.0\nread_service = 5.0\nipi = 1.0\nidle_exit = 1.0\ninterrupt = 1.0\n\
         switch = 1.0\nrefill = 1.0\n\
         [numa]\nhops = [[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]]\n\
         remote_ns = [310.0]\nmemory_ns = [620.0, 740.0]\n{caches}"
    );
    convoy_catalogue::parse::<Preset>("x", &text).expect("a preset").value
}

const TOPOLOGIES: [&str; 3] = [
    "cpus = 4\ncpus_per_llc = 1\ncpus_per_package = 1",
    "cpus = 8\ncpus_per_llc = 2\ncpus_per_package = 4",
    "cpus = 70\ncpus_per_llc = 10\ncpus_per_package = 20",
];

const PRIVATE: [&str; 3] = [
    "[cache.l1]\nlines = 8\nways = 2\n[cache.l2]\nlines = 32\nways = 4\nns = 16.0\n",
    "[cache.l1]\nlines = 4\nways = 4\n[cache.l2]\nlines = 24\nways = 8\nns = 16.0\n",
    "[cache.l1]\nlines = 16\nways = 1\n[cache.l2]\nlines = 16\nways = 1\nns = 16.0\n",
];

const SHARED: [&str; 3] = [
    "",
    "[cache.l3]\nlines = 48\nways = 6\nns = 40.0\ninclusive = true\n",
    "[cache.l3]\nlines = 33\nways = 11\nns = 40.0\ninclusive = false\n",
];

#[test]
fn every_geometry_equals_the_reference_on_random_traces() {
    // The nightly run sets a budget.
    let budget = std::env::var("CONVOY_BUDGET").ok().and_then(|text| text.parse().ok());
    let seeds: u64 = budget.unwrap_or(3);
    for topology in TOPOLOGIES {
        for private in PRIVATE {
            for shared in SHARED {
                let mut preset = machine(topology, &format!("{private}{shared}"));
                for seed in 1..=seeds {
                    // On every other machine it matters whose memory a line is in.
                    preset.price_ns.package_away = (seed % 2 == 0).then_some(230.0);
                    run(&preset, seed, 3000);
                }
            }
        }
    }
}

#[test]
fn a_controller_serves_one_request_at_a_time() {
    let queue = "[controllers]\nfor_each_package = 1\nservice_ns = 30.0\n";
    let preset = machine(TOPOLOGIES[0], &format!("{}{queue}", PRIVATE[0]));
    let lines = Lines::new(&preset, 1, LINES, 0).expect("address space");
    let waits: Vec<u64> =
        (0..3).map(|line| lines.read(lines.entry(line), 0, 1000, false) - 1000).collect();
    assert_eq!(waits, [500_000, 530_000, 560_000]);
    // Another package has another controller.
    assert_eq!(lines.read(lines.entry(5), 1, 1000, false) - 1000, 500_000);
}
