//! Checks of the tables of a machine that depend on each other.

use super::{ColdSwitch, HOPS_MAX, Numa, PACKAGES_MAX, Preset, SHARED_MAX};
use convoy_catalogue::Fault;

impl Preset {
    pub(super) fn check_switch(&self) -> Result<(), Fault> {
        let Some(ColdSwitch { after, ns }) = &self.cold_switch else { return Ok(()) };
        if after.is_empty() || !after.is_sorted_by(|a, b| a < b) || after[0] == 0 {
            let problem = "expected numbers of switches, each greater than the one before";
            return Err(Fault::new("cold_switch.after", problem));
        }
        if ns.len() != after.len() {
            let problem = format!("{} prices for {} numbers of after", ns.len(), after.len());
            return Err(Fault::new("cold_switch.ns", problem));
        }
        Ok(())
    }

    pub(super) fn check_caches(&self) -> Result<(), Fault> {
        let Some(caches) = &self.cache else { return Ok(()) };
        let (l1, l2) = (&caches.l1, &caches.l2);
        let mut levels = vec![("cache.l1", l1.lines, l1.ways), ("cache.l2", l2.lines, l2.ways)];
        if let Some(l3) = &caches.l3 {
            levels.push(("cache.l3", l3.lines, l3.ways));
            let groups = self.topology.cpus.div_ceil(self.topology.cpus_per_llc);
            if groups > SHARED_MAX {
                let problem = format!(
                    "{groups} caches; at most {SHARED_MAX} groups of topology.cpus_per_llc CPUs \
                     may have one"
                );
                return Err(Fault::new("cache.l3", problem));
            }
        }
        for (key, lines, ways) in levels {
            if !lines.is_multiple_of(ways) {
                let problem = format!("{lines} lines are no whole number of sets of {ways} ways");
                return Err(Fault::new(key, problem));
            }
        }
        Ok(())
    }

    pub(super) fn check_memory(&self) -> Result<(), Fault> {
        let packages = self.topology.cpus.div_ceil(self.topology.cpus_per_package);
        if packages > PACKAGES_MAX && (self.numa.is_some() || self.controllers.is_some()) {
            let problem = format!(
                "{packages} packages; a machine with numa or controllers has at most {PACKAGES_MAX}"
            );
            return Err(Fault::new("topology.cpus", problem));
        }
        let Some(Numa { hops, remote_ns, memory_ns, .. }) = &self.numa else { return Ok(()) };
        if hops.len() < packages || hops.iter().any(|row| row.len() != hops.len()) {
            let problem = format!("expected {packages} rows of as many columns");
            return Err(Fault::new("numa.hops", problem));
        }
        let zeros = |row: usize| (0..hops.len()).all(|to| (hops[row][to] == 0) == (row == to));
        if let Some(row) = (0..hops.len()).find(|row| !zeros(*row)) {
            let problem = "expected 0 from a package to itself and nowhere else";
            return Err(Fault::new(format!("numa.hops[{row}]"), problem));
        }
        let most = hops.iter().flatten().copied().max().unwrap_or(0) as usize;
        for (key, prices, due) in [
            ("numa.remote_ns", remote_ns, most.saturating_sub(1)),
            ("numa.memory_ns", memory_ns, most),
        ] {
            if prices.len() < due {
                let problem = format!("expected {due} prices for the {most} hops of numa.hops");
                return Err(Fault::new(key, problem));
            }
        }
        if remote_ns.len() > HOPS_MAX {
            let problem = format!("{} prices; expected at most {HOPS_MAX}", remote_ns.len());
            return Err(Fault::new("numa.remote_ns", problem));
        }
        Ok(())
    }
}
