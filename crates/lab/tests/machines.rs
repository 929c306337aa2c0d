//! Every machine preset carries a small load on a kernel, the same way each time.

use convoy_catalogue::MACHINES;
use convoy_kernel::KernelPreset;
use convoy_lab::virtual_run::VirtualRun;
use convoy_machine::Preset;
use convoy_workload::mix::Mix;

#[test]
fn every_machine_runs_a_small_load_the_same_way_twice() {
    for name in MACHINES.names() {
        let point = || {
            let machine = Preset::named(name).expect("a shipped preset");
            let kernel = KernelPreset::named("2.6.25").expect("a shipped preset");
            let mix = Mix::load("shared").expect("a shipped mix");
            VirtualRun { shrink: 50, ..VirtualRun::new(mix, 3, kernel, machine) }
                .run()
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let (first, second) = (point(), point());
        assert_eq!(first.jobs_failed, 0, "{name}: {:?}", first.first_failure);
        assert_eq!(first.hash, second.hash, "{name}");
    }
}
