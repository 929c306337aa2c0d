//! `convoy lab locks`: lists, think times, spin limits, on this machine and on a virtual one.

use crate::{json, run, stdout};

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
        let report = json(&locks(&[&lists, place, &["--format", "json"]]), 0);
        let rows = report["grids"]["locks"].as_array().expect("rows");
        assert_eq!(rows.len(), 8);
        assert!(rows.iter().all(|row| row["acquisitions_per_s"].as_f64() > Some(0.0)));
        assert_eq!(rows[0]["ratio"], 1.0, "the first lock is the baseline: {}", rows[0]);
        let verdict = report["verdict"].as_str().expect("a verdict");
        assert!(verdict.starts_with("locks: ") && verdict.contains("adaptive"), "{verdict}");
    }
}

#[test]
fn a_virtual_machine_has_any_number_of_cpus_and_repeats() {
    let loops = ["--lock", "ticket,adaptive", "--threads", "24", "--think", "exp:3000"];
    let machine = ["--cpus", "24", "--format", "json"];
    let args = locks(&[&loops, &VIRTUAL, &machine]);
    let once = json(&args, 0);
    assert_eq!(once, json(&args, 0));
    let text = stdout(&run(&locks(&[&loops, &VIRTUAL, &machine[..2]])));
    let place = text.lines().find(|line| line.starts_with("kernel 6.18, quad-2008-two-dies"));
    assert!(place.is_some_and(|place| place.contains("24 CPUs")), "{text}");
    let fixed = locks(&[&loops[..4], &["--think", "fixed:3000"], &VIRTUAL, &machine]);
    assert_ne!(once["grids"], json(&fixed, 0)["grids"], "the draws do something");
    let other = locks(&[&loops, &VIRTUAL, &machine, &["--seed", "2"]]);
    assert_ne!(once["grids"], json(&other, 0)["grids"], "each seed has different draws");
}

#[test]
fn every_round_is_in_the_json() {
    let args = locks(&[&["--lock", "ticket,mutex", "--rounds", "3", "--format", "json"]]);
    let report = json(&args, 0);
    let samples = &report["grids"]["locks"][1]["samples"];
    assert_eq!(samples["acquisitions_per_s"].as_array().map(Vec::len), Some(3), "{report}");
    assert_eq!(samples["wait_max_us"].as_array().map(Vec::len), Some(3), "{report}");
}

#[test]
fn a_spin_limit_trades_cpu_time_for_sleep() {
    fn cpus_used(limit: &str) -> f64 {
        let loops = ["--lock", "adaptive", "--threads", "2", "--section-ns", "5000"];
        let limit = ["--spin-limit", limit, "--format", "json"];
        let report = json(&locks(&[&loops, &VIRTUAL, &limit]), 0);
        report["grids"]["locks"][0]["cpus_used"].as_f64().expect("a number")
    }
    let (none, many) = (cpus_used("0"), cpus_used("100000"));
    assert!(none + 0.2 < many, "{none} CPUs without spinning, {many} with it");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_cure() {
    let refused = |more: &[&str], words: &[&str]| crate::refused(&locks(&[more]), 2, words);
    refused(&["--lock", "tiket"], &["ticket", "handoff"]);
    refused(&["--lock", "std", "--kernel", "6.18"], &["`std`", "this machine only"]);
    refused(&["--lock", "ticket", "--spin-limit", "5"], &["--spin-limit", "adaptive"]);
    refused(&["--machine", "quad-2008-two-dies"], &["--kernel"]);
    refused(&["--think", "pareto:3"], &["exp:1000"]);
    refused(&["--threads", "0"], &["grid locks", "threads", "1 to 16384"]);
    refused(&["--timeline", "1"], &["`convoy lab sim`"]);
}

#[test]
fn locks_of_libraries_stand_side_by_side() {
    let plot = std::env::temp_dir().join(format!("convoy-bench-{}.svg", std::process::id()));
    let loops = ["bench", "locks", "--threads", "1,3", "--section-ns", "50,500", "--cpus", "1"];
    let short = ["--rounds", "2", "--warmup-ms", "1", "--window-ms", "4", "--exp-sections"];
    let rest = ["--quiet", "--no-store", "--format", "json", "--plot"];
    let path = plot.to_str().expect("text");
    let report = json(&[&loops[..], &short, &rest, &[path]].concat(), 0);
    let rows = report["grids"]["locks"].as_array().expect("rows");
    let locks: Vec<&str> = rows.iter().filter_map(|row| row["lock"].as_str()).collect();
    assert_eq!(locks.len(), 4 * 4);
    assert_eq!(locks[..2], ["convoy", "std"]);
    let number = |row: &serde_json::Value, key: &str| row[key].as_f64().expect("a number");
    assert!(rows.iter().all(|row| number(row, "acquisitions_per_s") > 0.0));
    assert!(rows.iter().any(|row| number(row, "of_fastest") <= 1.0));
    assert!(rows[0]["samples"]["alone_ns"].as_array().is_some_and(|rounds| rounds.len() == 2));
    let verdict = report["verdict"].as_str().expect("a verdict");
    // Which of the two depends on other programs.
    let sentences = [
        "times the sections of the fastest other lock",
        "only the CPU time of a section can be compared",
    ];
    assert!(sentences.iter().any(|sentence| verdict.contains(sentence)), "{verdict}");
    assert!(std::fs::read_to_string(&plot).expect("a plot").starts_with("<svg"));
    let drawn = std::fs::read_to_string(plot.with_extension("csv")).expect("its values");
    assert!(drawn.contains("500") && drawn.contains("parking-lot"), "{drawn}");
    for file in [plot.clone(), plot.with_extension("csv")] {
        std::fs::remove_file(file).expect("it was written");
    }
}
