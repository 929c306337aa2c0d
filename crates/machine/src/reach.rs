//! How far away the copies of a line are.
//!
//! Distances are few: the own last-level cache, the rest of the package, packages one hop away, two
//! hops, and so on. The set of CPUs at each distance is known for each CPU, so the cost of a line's
//! copies takes one check per distance, whatever the number of copies.

use crate::numa::Distances;

/// Cost of the copies of a line outside the caches of the requesting CPU.
#[derive(Clone, Copy)]
pub(crate) struct Copies {
    /// Price of the nearest.
    pub(crate) near: u64,
    /// Price of the farthest.
    pub(crate) far: u64,
    /// One is in the group of the CPU.
    pub(crate) inside: bool,
    /// One is in another group.
    pub(crate) outside: bool,
}

/// The distances between CPUs.
pub(crate) struct Reach {
    /// Numbers of distances.
    distances: usize,
    /// Words of 64 CPUs.
    words: usize,
    /// For each CPU by word and distance the others.
    cpus: Box<[u64]>,
    /// For each group and distance the set of the other groups.
    groups: Box<[u32]>,
    /// By the set of distances at which there are copies; then the same for lines in the memory of
    /// a package other than the requesting CPU's, if there is a difference.
    copies: Box<[Option<Copies>]>,
    /// No distance costs less than the first, that inside a group.
    first_least: bool,
}

impl Reach {
    pub(crate) fn new(price: &Distances, cpus: usize, llc: usize) -> Self {
        let (distances, words, groups) =
            (price.prices.len(), cpus.div_ceil(64), cpus.div_ceil(llc));
        let mut reach = Self {
            distances,
            words,
            cpus: vec![0; cpus * words * distances].into(),
            groups: vec![0; groups * distances].into(),
            copies: sets(&price.prices).chain(sets(&price.away)).collect(),
            first_least: price.prices.iter().chain(&price.away).all(|&other| price.llc <= other),
        };
        for from in 0..cpus {
            for to in (0..cpus).filter(|&to| to != from) {
                let row = (from * words + to / 64) * distances;
                reach.cpus[row + price.distance(from, to)] |= 1 << (to % 64);
            }
        }
        // A line counts the third levels that hold it in 32 bits.
        for from in 0..groups {
            for to in (0..groups.min(32)).filter(|&to| to != from) {
                let row = from * distances + price.distance(from * llc, to * llc);
                reach.groups[row] |= 1 << to;
            }
        }
        reach
    }

    /// The distances from `cpu` at which the CPUs `bits` are, which are word `word` of a set.
    #[inline(always)]
    pub(crate) fn of(&self, cpu: usize, word: usize, bits: u64) -> usize {
        let rows = &self.cpus[(cpu * self.words + word) * self.distances..][..self.distances];
        // No branches, as nobody could predict them.
        let rows = rows.iter().enumerate();
        rows.fold(0, |found, (distance, row)| found | usize::from(bits & row != 0) << distance)
    }

    /// Whether one of the CPUs `bits`, which are word `word` of a set, is in the group of `cpu`,
    /// and so is the nearest.
    #[inline(always)]
    pub(crate) fn inside(&self, cpu: usize, word: usize, bits: u64) -> bool {
        self.first_least && self.cpus[(cpu * self.words + word) * self.distances] & bits != 0
    }

    /// Whether no copy is nearer than one in the same group.
    #[inline]
    pub(crate) fn first_least(&self) -> bool {
        self.first_least
    }

    /// The distances from group `group` at which the groups `bits` are.
    #[inline]
    pub(crate) fn of_groups(&self, group: usize, bits: u32) -> usize {
        let rows = &self.groups[group * self.distances..][..self.distances];
        let found = rows.iter().enumerate();
        found.fold(0, |found, (distance, row)| found | usize::from(bits & row != 0) << distance)
    }

    /// What copies at the distances `found` cost; `away` says that the line's memory is in another
    /// package and that this makes a difference.
    #[inline(always)]
    pub(crate) fn copies(&self, found: usize, away: bool) -> Option<&Copies> {
        self.copies[found | usize::from(away) << self.distances].as_ref()
    }
}

/// [`Reach::copies`] of each set of the distances with these prices; none where there are none.
fn sets(prices: &[u64]) -> impl Iterator<Item = Option<Copies>> + '_ {
    let sets = if prices.is_empty() { 0 } else { 1 << prices.len() };
    (0..sets).map(|set| seen(prices, set))
}

/// [`Reach::copies`] from the prices of the distances.
fn seen(prices: &[u64], found: usize) -> Option<Copies> {
    let there = || (0..prices.len()).filter(|distance| found >> distance & 1 == 1);
    let near = there().map(|distance| prices[distance]).min()?;
    let far = there().map(|distance| prices[distance]).max()?;
    Some(Copies { near, far, inside: found & 1 == 1, outside: found > 1 })
}
