//! Machines by their name, and with another number of CPUs than their preset.

use convoy_catalogue::{CatalogueError, Entry as _, Loaded, Set};

use super::Preset;

impl Preset {
    /// A shipped machine.
    ///
    /// # Errors
    /// [`CatalogueError::Unknown`].
    pub fn named(name: &str) -> Result<Self, CatalogueError> {
        convoy_catalogue::load(name, &[]).map(|loaded| loaded.value)
    }

    /// Loads the machine `name`, a preset or a path, with `sets` and another number of CPUs. CPUs
    /// share caches as [`Preset::groups_with`] says. The label stays the preset's: titles add the
    /// number of CPUs.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub fn load_with_cpus(
        name: &str,
        sets: &[Set],
        cpus: usize,
    ) -> Result<Loaded<Self>, CatalogueError> {
        let machine = convoy_catalogue::load::<Self>(name, sets)?;
        let label = machine.label();
        let [llc, package] = machine.value.groups_with(cpus);
        let mut sets = sets.to_vec();
        sets.push(Set::cpus(cpus));
        if llc > machine.value.topology.cpus_per_llc {
            let group = |key, count: usize| {
                Set::machine(&["topology", key], count.to_string(), format!("{cpus} CPUs"))
            };
            sets.extend([group("cpus_per_llc", llc), group("cpus_per_package", package)]);
        }
        let mut machine = convoy_catalogue::load::<Self>(name, &sets)?;
        machine.value.set_name(label);
        Ok(machine)
    }
}
