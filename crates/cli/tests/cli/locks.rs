//! `convoy locks`: lists, think times, spin limits, on this machine and on a virtual one.

use crate::{code, json, run, stderr, stdout};

/// Loops of a fraction of a second.
const SHORT: [&str; 7] = ["locks", "--warmup-ms", "2", "--window-ms", "4", "--quiet", "--no-store"];
const VIRTUAL: [&str; 2] = ["--kernel", "6.18"];

fn locks<'a>(more: &[&[&'a str]]) -> Vec<&'a str> {
    [&SHORT[..], &more.concat()].concat()
}

#[test]
fn lists_give_a_row_for_each_combination_on_either_target() {
    let lists = ["--lock", "adaptive,ticket", "--threads", "1,3", "--section-ns", "50,500"];
    for place in [&["--rounds", "1"][..], &VIRTUAL] {
        let record = json(&locks(&[&lists, place, &["--format", "json"]]), 0);
        let cells = record["cells"].as_array().expect("cells");
        assert_eq!(cells.len(), 8);
        assert!(cells.iter().all(|cell| cell["acquisitions_per_s"]["median"].as_f64() > Some(0.0)));
    }
}

#[test]
fn a_virtual_machine_has_any_number_of_cpus_and_repeats() {
    let loops = ["--lock", "ticket,adaptive", "--threads", "24", "--think", "exp:3000"];
    let machine = ["--cpus", "24", "--format", "json"];
    let args = locks(&[&loops, &VIRTUAL, &machine]);
    let once = json(&args, 0);
    assert_eq!(once["cpus"], 24);
    assert_eq!(once, json(&args, 0));
    let place = once["place"].as_str().expect("a place");
    assert!(place.starts_with("6.18 on "), "{place}");
    let fixed = locks(&[&loops[..4], &["--think", "fixed:3000"], &VIRTUAL, &machine]);
    assert_ne!(once["runs"], json(&fixed, 0)["runs"], "the draws do something");
    let other = locks(&[&loops, &VIRTUAL, &machine, &["--seed", "2"]]);
    assert_ne!(once["runs"], json(&other, 0)["runs"], "each seed has draws of its own");
}

#[test]
fn a_spin_limit_trades_cpu_time_for_sleep() {
    let cpus_used = |limit: &str| {
        let loops = ["--lock", "adaptive", "--threads", "4", "--section-ns", "5000"];
        let limit = ["--spin-limit", limit, "--format", "json"];
        let record = json(&locks(&[&loops, &VIRTUAL, &limit]), 0);
        record["runs"][0]["cpus_used"].as_f64().expect("a number")
    };
    let (none, many) = (cpus_used("0"), cpus_used("100000"));
    assert!(none + 0.2 < many, "{none} CPUs without spinning, {many} with it");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_cure() {
    let refused = |more: &[&str], words: &[&str]| {
        let output = run(&locks(&[more]));
        assert_eq!(code(&output), Some(2), "{more:?}: {}", stdout(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{more:?}: {}", stderr(&output));
        }
    };
    refused(&["--lock", "tiket"], &["ticket", "handoff"]);
    refused(&["--lock", "ticket", "--spin-limit", "5"], &["spin_limit", "adaptive"]);
    refused(&["--machine", "quad-2008-two-dies"], &["--kernel"]);
    refused(&["--think", "pareto:3"], &["exp:1000"]);
    refused(&["--threads", "0"], &["1 to 16384"]);
    refused(&["--timeline", "1"], &["`convoy sim`"]);
}
