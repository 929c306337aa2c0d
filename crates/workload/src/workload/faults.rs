//! Page faults on all CPUs: processes that write to every page of a region, unmap it and begin
//! again, as `page_fault1` of will-it-scale does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{finish, start};
use crate::api::Kernel;
use crate::jobs::{JobError, call};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Amounts of such a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// Processes for each CPU.
    #[schemars(range(min = 1, max = 16))]
    pub per_cpu: u32,
    /// KiB of the region of each process.
    #[schemars(range(min = 4, max = 1_048_576))]
    pub region_kib: u32,
    /// Times that a process fills and unmaps its region, after a first time with a part of it: the
    /// processes have different parts, and are then at different places of their loops.
    #[schemars(range(min = 1, max = 1000))]
    pub rounds: u32,
}

impl Faults {
    pub(super) fn processes(&self, cpus: u32) -> u32 {
        self.per_cpu * cpus
    }

    /// Pages of the region that `process` of `all` fills first, and then.
    fn regions(&self, process: u32, all: u32) -> [usize; 2] {
        let pages = (self.region_kib as usize * 1024).div_ceil(PAGE);
        [pages * (process as usize + 1) / all as usize, pages]
    }

    /// Pages that all processes together write to.
    pub(super) fn pages(&self, cpus: u32) -> u64 {
        let all = self.processes(cpus);
        let of = |process| {
            let [first, then] = self.regions(process, all);
            first as u64 + u64::from(self.rounds) * then as u64
        };
        (0..all).map(of).sum()
    }

    pub(super) fn run<K: Kernel>(&self, k: &mut K, cpus: u32) -> Result<(), JobError> {
        let all = self.processes(cpus);
        for process in 0..all {
            let ([first, then], rounds) = (self.regions(process, all), self.rounds);
            start(k, move |k| {
                fill(k, first)?;
                (0..rounds).try_for_each(|_| fill(k, then))
            })?;
        }
        (0..all).try_for_each(|_| finish(k))
    }
}

/// Maps `pages` pages, writes to each and unmaps them.
fn fill<K: Kernel>(k: &mut K, pages: usize) -> Result<(), JobError> {
    let bytes = pages * PAGE;
    call("sbrk", k.sbrk(bytes as isize))?;
    call("touch", k.touch_heap(bytes, PAGE))?;
    call("sbrk", k.sbrk(-(bytes as isize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_are_counted() {
        let faults = Faults { per_cpu: 2, region_kib: 40, rounds: 3 };
        // Ten pages thrice by each of four processes, and 2, 5, 7 and 10 at first.
        assert_eq!(faults.pages(2), 4 * 30 + 24);
    }
}
