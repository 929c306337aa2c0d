//! The cells of an experiment that the flags choose.

use super::args::Which;
use crate::fail::Failure;
use convoy_catalogue::{EXPERIMENTS, Set, Sheet};
use convoy_lab::experiment::{Changes, Experiment, Plan, Setting, Size, given};

impl Which {
    fn size(&self) -> Size {
        match (self.quick, self.full) {
            (true, _) => Size::Quick,
            (_, true) => Size::Full,
            _ => Size::Usual,
        }
    }

    /// The changes of the file that the flags request.
    fn changes(&self) -> Changes {
        let mut changes = Changes {
            only: self.only.clone(),
            size: self.size(),
            scale: self.scale,
            seeds: self.seeds,
            seed: self.seed,
            ..Changes::default()
        };
        if let Some(machine) = &self.machine {
            changes.settings.insert("machine".to_owned(), Setting::Text(given(machine)));
        }
        if !self.kernel.is_empty() {
            let kernels = self.kernel.iter().map(|kernel| given(kernel)).collect();
            changes.points.insert("kernel".to_owned(), kernels);
        }
        for set in self.sets.iter().filter(|set| set.kind != EXPERIMENTS.kind) {
            changes.set(set);
        }
        changes
    }

    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let sets: Vec<Set> = self.sets.iter().cloned().collect();
        plan(&self.experiment, &sets, &self.changes())
    }
}

pub(crate) fn plan(name: &str, sets: &[Set], changes: &Changes) -> Result<Plan, Failure> {
    let sheet = Sheet::open(&EXPERIMENTS, name, None).map_err(Failure::usage)?;
    let experiment = sheet.read::<Experiment>(sets).map_err(Failure::usage)?;
    Plan::new(&experiment, changes).map_err(Failure::usage)
}
