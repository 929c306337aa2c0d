//! Grids and experiments at a size.

use super::{Experiment, Form, Grid, Size};

impl Grid {
    /// What `size` changes.
    pub fn form(&self, size: Size) -> Option<&Form> {
        match size {
            Size::Usual => None,
            Size::Quick => self.quick.as_ref(),
            Size::Full => self.full.as_ref(),
        }
    }

    /// Seeds at a size.
    pub fn seeds_at(&self, size: Size) -> u32 {
        self.form(size).and_then(|form| form.seeds).unwrap_or(self.seeds)
    }

    /// How many jobs each user does at a size, if not all.
    pub fn first_at(&self, size: Size) -> Option<u32> {
        let own = self.first.filter(|_| size != Size::Full);
        self.form(size).and_then(|form| form.first).or(own)
    }

    /// How many jobs of all users together end a run at a size, if not all.
    pub fn jobs_together_at(&self, size: Size) -> Option<u32> {
        let own = self.jobs_together.filter(|_| size != Size::Full);
        self.form(size).and_then(|form| form.jobs_together).or(own)
    }

    /// The divisor of users and start delay at a size.
    pub fn scale_at(&self, size: Size) -> u32 {
        let own = if size == Size::Full { 1 } else { self.scale };
        self.form(size).and_then(|form| form.scale).unwrap_or(own)
    }

    /// Whether it runs otherwise at `size` than usually.
    fn has(&self, size: Size) -> bool {
        let ranged = || self.axis.iter().flat_map(|axis| &axis.range).next().is_some();
        match size {
            Size::Usual => true,
            Size::Quick => self.quick.is_some(),
            Size::Full => {
                let part = self.first.is_some() || self.jobs_together.is_some();
                self.full.is_some() || part || self.scale > 1 || ranged()
            }
        }
    }
}

impl Experiment {
    /// Checks that it has a separate form at `size`; the error suggests an alternative.
    ///
    /// # Errors
    /// The problem and its cure.
    pub fn has(&self, size: Size, only: &[String]) -> Result<(), String> {
        let named = |grid: &&Grid| only.is_empty() || only.contains(&grid.name);
        if self.grid.iter().filter(named).any(|grid| grid.has(size)) {
            return Ok(());
        }
        let flag = size.flag();
        Err(match size {
            Size::Full => format!("it always runs at full size; drop {flag}"),
            Size::Usual | Size::Quick => {
                let others = self.grid.iter().filter(|grid| grid.has(size));
                let others: Vec<String> =
                    others.map(|grid| format!("--only {}", grid.name)).collect();
                let cure = match &others[..] {
                    [] => format!("drop {flag}, or ask for less by --seeds, --scale or --only"),
                    some => format!("it has one for {}", some.join(", ")),
                };
                format!("it has no quick form; {cure}")
            }
        })
    }
}
