//! The shipped data files of the repository, compiled in.

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Data files of one kind.
#[derive(Debug)]
pub struct Shelf {
    /// The name of the kind, in messages and in `--set`.
    pub kind: &'static str,
    /// Their directory in the repository.
    pub directory: &'static str,
    /// The extension of their files.
    pub extension: &'static str,
    pub(crate) shipped: &'static [(&'static str, &'static str)],
}

/// `machines/*.toml`.
pub static MACHINES: Shelf =
    Shelf { kind: "machine", directory: "machines", extension: "toml", shipped: MACHINE_FILES };

/// `kernels/*.toml`.
pub static KERNELS: Shelf =
    Shelf { kind: "kernel", directory: "kernels", extension: "toml", shipped: KERNEL_FILES };

/// `mixes/*.workfile`.
pub static MIXES: Shelf =
    Shelf { kind: "mix", directory: "mixes", extension: "workfile", shipped: MIX_FILES };

/// `experiments/*.toml`.
pub static EXPERIMENTS: Shelf = Shelf {
    kind: "experiment",
    directory: "experiments",
    extension: "toml",
    shipped: EXPERIMENT_FILES,
};

/// `workloads/*.toml`.
pub static WORKLOADS: Shelf =
    Shelf { kind: "workload", directory: "workloads", extension: "toml", shipped: WORKLOAD_FILES };

impl Shelf {
    /// Names of the shipped files, sorted; numbers by value, release candidates before releases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.shipped.iter().map(|(name, _)| *name)
    }

    /// The shipped file of that name: its name and text. A leading `v` of a kernel is ignored.
    pub fn shipped(&self, name: &str) -> Option<(&'static str, &'static str)> {
        let plain = name.strip_prefix('v').filter(|_| self.kind == KERNELS.kind).unwrap_or(name);
        self.shipped.iter().find(|(known, _)| *known == plain || *known == name).copied()
    }

    /// Where the shipped file of that name lies in the repository.
    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}.{}", self.directory, self.extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shelf_is_filled_and_tables_are_no_presets() {
        for shelf in [&MACHINES, &KERNELS, &MIXES, &EXPERIMENTS] {
            assert!(shelf.names().count() > 2, "{}", shelf.kind);
        }
        assert!(KERNELS.shipped("costs").is_none() && MACHINES.shipped("calibration").is_none());
        assert!(KERNELS.shipped("v2.6.25").is_some() && MIXES.shipped("vshared").is_none());
    }

    #[test]
    fn names_are_in_the_order_of_versions() {
        fn are_in_order(shelf: &Shelf, names: &[&str]) -> bool {
            let positions = names.iter().map(|name| shelf.names().position(|other| other == *name));
            positions.clone().all(|position| position.is_some()) && positions.is_sorted()
        }
        let kernels = ["2.6.16", "2.6.24-rc7", "2.6.24-rc7+ts", "2.6.24", "3.0-rc", "3.0", "6.18"];
        assert!(are_in_order(&KERNELS, &kernels));
        assert!(are_in_order(&MACHINES, &["smp8-2007", "smp16-2007"]));
    }
}
