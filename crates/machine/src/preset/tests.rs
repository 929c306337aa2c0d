//! The shipped presets, and invalid ones.

use super::*;

fn error(text: &str) -> String {
    convoy_catalogue::parse::<Preset>("x.toml", text).unwrap_err().to_string()
}

#[test]
fn a_cold_switch_grows_between_its_points_and_stays_after_the_last() {
    let cold = ColdSwitch { after: vec![2, 10, 100], ns: vec![0.0, 80.0, 260.0] };
    let at = [0, 1, 2, 6, 10, 55, 100, 100_000].map(|after| cold.ns_after(after) as u32);
    assert_eq!(at, [0, 0, 0, 40, 80, 170, 260, 260]);
}

#[test]
fn the_points_of_cold_switches_ascend_and_have_prices() {
    let quad = include_str!("../../../../machines/quad-2008-two-dies.toml");
    let with = |table: &str| error(&format!("{quad}\n[cold_switch]\n{table}"));
    let text = with("after = [2, 2]\nns = [0.0, 1.0]");
    assert!(text.contains("cold_switch.after: expected numbers of switches"), "{text}");
    let text = with("after = [2, 16]\nns = [0.0]");
    assert!(text.contains("cold_switch.ns: 1 prices for 2 numbers of after"), "{text}");
}

#[test]
fn every_shipped_preset_is_valid_and_named_as_its_file() {
    for name in MACHINES.names() {
        assert_eq!(Preset::named(name).unwrap().name, name);
    }
}

#[test]
fn nodes_have_the_distances_that_the_firmware_tells() {
    let preset = Preset::named("westmere-ex-80-2013").unwrap();
    let from_first: Vec<u8> = (0..8).map(|node| preset.node_distance(0, node)).collect();
    assert_eq!(from_first, [10, 14, 23, 23, 27, 27, 27, 27]);
    let flat = Preset { numa: None, ..preset };
    assert_eq!((flat.node_distance(3, 3), flat.node_distance(3, 4)), (10, 20));
}

#[test]
fn every_number_has_a_range() {
    let keys = convoy_catalogue::keys::<Preset>();
    assert_eq!(keys.iter().find(|key| key.unbounded), None);
}

#[test]
fn impossible_caches_and_distances_are_refused() {
    let (_, text) = MACHINES.shipped("westmere-ex-80-2013").unwrap();
    for (from, to, key) in [
        ("lines = 512\nways = 8", "lines = 512\nways = 7", "cache.l1"),
        ("[0, 1, 2, 2, 3, 3, 3, 3]", "[0, 0, 2, 2, 3, 3, 3, 3]", "numa.hops"),
        ("remote_ns = [188.0, 220.0]", "remote_ns = [188.0]", "numa.remote_ns"),
        ("remote_ns = [188.0, 220.0]", "remote_ns = [9,9,9,9,9,9,9,9,9]", "numa.remote_ns"),
        ("cpus = 80", "cpus = 90", "numa.hops"),
        ("cpus = 80", "cpus = 80\nthreads_per_core = 3", "topology.threads_per_core"),
        ("for_each_package = 2", "for_each_package = 0", "controllers.for_each_package"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = error(&text.replacen(from, to, 1));
        assert!(error.contains(key), "{key}: {error}");
    }
}

#[test]
fn a_small_machine_grows_to_any_number_of_processors() {
    let host = Preset::named("host").expect("shipped");
    assert_eq!((host.groups_with(2), host.groups_with(64)), ([2, 2], [2, 2]));
    assert_eq!((host.groups_with(128), host.groups_with(1024)), ([4, 4], [32, 32]));
    let plain = Preset { cache: None, ..host };
    assert_eq!(plain.groups_with(128), [2, 2], "nothing is shared");
}
