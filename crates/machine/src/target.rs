//! Real machines, by number of CPUs, for predicting a recorded program: its record has the name of
//! a processor, or only a number of CPUs.
//!
//! CPUs are taken in the order in which a cloud instance or a real server of that size has them:
//! the threads of a core, the cores of a last-level cache, the caches of a package, then the next
//! package.

use convoy_catalogue::CatalogueError;

use crate::preset::{CPUS_MAX, Preset, Topology};

/// A machine of a given size.
#[derive(Clone, Debug)]
pub struct Target {
    /// The machine.
    pub preset: Preset,
    /// Which one it is, on one line.
    pub says: String,
}

/// Machines of one kind, which are sold in many sizes.
struct Series {
    /// The name of a machine in sentences.
    name: &'static str,
    /// The largest machine that has a preset.
    preset: &'static str,
    /// The series of the next larger machines.
    larger: usize,
    /// Parts of the names of its processors, and of related processors without a preset, in lower
    /// case.
    marks: &'static [&'static str],
}

const fn series(
    name: &'static str,
    preset: &'static str,
    larger: usize,
    marks: &'static [&'static str],
) -> Series {
    Series { name, preset, larger, marks }
}

const EPYC_9004: usize = 0;
const EPYC_9754: usize = 1;
const XEON_8375C: usize = 3;
const GRAVITON_4: usize = 6;

/// The first one with a mark that fits is taken, and the first one of all where none does.
const SERIES: [Series; 10] = [
    series("an EPYC 9004", "epyc-9654-2x96", EPYC_9754, &["epyc 9", "epyc 8", "epyc-genoa"]),
    series("an EPYC 9754", "epyc-9754-2x128", EPYC_9754, &["bergamo"]),
    series("an EPYC 7003", "epyc-7r13-2x48", EPYC_9754, &["epyc 7", "epyc-", "threadripper"]),
    series("a Xeon 8375C", "xeon-8375c-2x32", EPYC_9004, &["platinum", "gold", "icelake"]),
    series("a Xeon W9-3475X", "xeon-w9-3475x-36", XEON_8375C, &["xeon(r) w", "core(tm)", "core i"]),
    series("a Xeon E5-2680 v4", "xeon-e5-2680v4-2x14", XEON_8375C, &["e5-", "e7-", "broadwell"]),
    series("a Graviton 4", "graviton4-2x96", EPYC_9754, &["neoverse-v2", "graviton4", "aarch64"]),
    series("a Graviton 3", "graviton3-64", GRAVITON_4, &["neoverse-v1", "graviton"]),
    series("an Altra Q80", "altra-q80-80", GRAVITON_4, &["altra", "neoverse-n1"]),
    series("a Ryzen 7950X", "ryzen-7950x-16", EPYC_9004, &["ryzen"]),
];

/// Families of processors that do not always report their series: cloud instances.
const FAMILIES: [(&str, usize); 3] =
    [("epyc", EPYC_9004), ("intel", XEON_8375C), ("neoverse", GRAVITON_4)];

/// Returns the machine with `cpus` CPUs that is nearest to `model`, the name of a processor as
/// reported by the kernel. An empty or unknown name selects an EPYC 9004, `aarch64` a Graviton 4.
/// Machines larger than any that was measured have further packages. With 1 as `threads_per_core`
/// each CPU has a core of its own; the kernel of a guest may show fewer CPUs for each core than the
/// processor has, or have them.
///
/// # Errors
/// [`CatalogueError`] where a shipped preset cannot be read.
pub fn nearest(cpus: usize, model: &str, threads_per_core: u32) -> Result<Target, CatalogueError> {
    let cpus = cpus.clamp(1, CPUS_MAX);
    let mut at = series_of(&model.to_lowercase());
    let mut preset = Preset::named(SERIES[at].preset)?;
    while preset.topology.cpus < cpus && SERIES[at].larger != at {
        at = SERIES[at].larger;
        preset = Preset::named(SERIES[at].preset)?;
    }
    let beyond = cpus > preset.topology.cpus;
    if threads_per_core == 1 {
        preset.topology.threads_per_core = 1;
    }
    let [llc, package] = preset.groups_with(cpus);
    (preset.topology.cpus_per_llc, preset.topology.cpus_per_package) = (llc, package);
    if beyond {
        // Its packages are all one hop apart.
        preset.numa = None;
    }
    let preset = preset.with_cpus(cpus);
    let says = sentence(SERIES[at].name, &preset.topology, beyond);
    Ok(Target { preset, says })
}

/// The series of the processor `model`, in small letters.
fn series_of(model: &str) -> usize {
    let named = |series: &Series| series.marks.iter().any(|mark| model.contains(mark));
    let family = || FAMILIES.iter().find(|family| model.contains(family.0)).map(|family| family.1);
    SERIES.iter().position(named).or_else(family).unwrap_or(EPYC_9004)
}

fn sentence(name: &str, topology: &Topology, beyond: bool) -> String {
    let Topology { cpus, cpus_per_llc, cpus_per_package, threads_per_core, .. } = *topology;
    let cores = match threads_per_core {
        1 => String::new(),
        threads => format!("{threads} CPUs to a core, "),
    };
    let caches = match cpus.div_ceil(cpus_per_llc) {
        1 => "one cache".to_owned(),
        _ => format!("{cpus_per_llc} CPUs to a cache"),
    };
    let packages = match cpus.div_ceil(cpus_per_package) {
        1 => "one package".to_owned(),
        packages => format!("{packages} packages"),
    };
    let plural = if cpus == 1 { "CPU" } else { "CPUs" };
    let size = if beyond { "; no machine of this size is known" } else { "" };
    format!("{cpus} {plural} of {name}: {cores}{caches}, {packages}{size}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(cpus: usize, model: &str) -> String {
        nearest(cpus, model, 0).unwrap().says
    }

    #[test]
    fn caches_and_packages_fill_as_a_server_of_that_size_has_them() {
        for (cpus, expected) in [
            (1, "1 CPU of an EPYC 9004: one cache, one package"),
            (8, "8 CPUs of an EPYC 9004: one cache, one package"),
            (16, "16 CPUs of an EPYC 9004: 8 CPUs to a cache, one package"),
            (64, "64 CPUs of an EPYC 9004: 8 CPUs to a cache, one package"),
            (128, "128 CPUs of an EPYC 9004: 8 CPUs to a cache, 2 packages"),
            (256, "256 CPUs of an EPYC 9754: 2 CPUs to a core, 16 CPUs to a cache, one package"),
        ] {
            assert_eq!(says(cpus, ""), expected);
            let preset = nearest(cpus, "", 0).unwrap().preset;
            assert_eq!(preset.topology.cpus, cpus);
            assert!(preset.guest_ns.is_none(), "no price of a hypervisor");
        }
    }

    #[test]
    fn cpus_of_a_guest_have_cores_of_their_own_if_its_kernel_says_so() {
        let says = |threads| nearest(2, "Intel(R) Xeon(R) Processor", threads).unwrap().says;
        assert_eq!(says(1), "2 CPUs of a Xeon 8375C: one cache, one package");
        assert_eq!(says(2), "2 CPUs of a Xeon 8375C: 2 CPUs to a core, one cache, one package");
        assert_eq!(says(0), says(2));
    }

    #[test]
    fn the_processor_of_a_record_names_the_series() {
        for (model, expected) in [
            ("AMD EPYC 9R14", "epyc-9654-2x96"),
            ("AMD EPYC", "epyc-9654-2x96"),
            ("AMD EPYC 7R13 Processor", "epyc-7r13-2x48"),
            ("AMD EPYC-Milan Processor", "epyc-7r13-2x48"),
            ("AMD Ryzen 9 7950X 16-Core Processor", "ryzen-7950x-16"),
            ("AMD Ryzen Threadripper 3990X 64-Core Processor", "epyc-7r13-2x48"),
            ("Intel(R) Xeon(R) Processor @ 2.30GHz", "xeon-8375c-2x32"),
            ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "xeon-8375c-2x32"),
            ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "xeon-e5-2680v4-2x14"),
            ("13th Gen Intel(R) Core(TM) i7-13700KF", "xeon-w9-3475x-36"),
            ("Neoverse-V1", "graviton3-64"),
            ("aarch64", "graviton4-2x96"),
            ("unknown", "epyc-9654-2x96"),
        ] {
            assert_eq!(nearest(8, model, 0).unwrap().preset.name, expected, "{model}");
        }
    }

    #[test]
    fn a_size_that_a_series_does_not_have_is_one_of_the_next_larger_machines() {
        let target = nearest(128, "Intel(R) Core(TM) i9", 0).unwrap();
        assert_eq!(target.preset.name, "xeon-8375c-2x32");
        assert_eq!(nearest(192, "Ryzen", 0).unwrap().preset.name, "epyc-9654-2x96");
    }

    #[test]
    fn every_size_of_every_series_is_a_valid_machine() {
        for series in &SERIES {
            for cpus in [1, 2, 3, 8, 17, 32, 64, 96, 128, 200, 512, 640, CPUS_MAX] {
                let preset = nearest(cpus, series.preset, 0).unwrap().preset;
                convoy_catalogue::Entry::check(&preset)
                    .unwrap_or_else(|fault| panic!("{} with {cpus}: {fault:?}", series.name));
            }
        }
    }
}
