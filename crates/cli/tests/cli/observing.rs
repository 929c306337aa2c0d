//! Observing a simulated run does not change it: each option that only observes leaves the
//! schedule hash, and with it every number, as it was.

use crate::{code, directory, json, run, stderr, stdout};
use serde_json::Value;

const LOAD: [&str; 10] =
    ["--kernel", "2.6.26-rc1", "--users", "15", "--first", "12", "--seed", "3", "--fs", "journal"];

/// The result of one load point without its samples.
fn point(ran: &Value) -> Value {
    let mut point = ran["points"][0].clone();
    let fields = point.as_object_mut().expect("a point");
    fields.remove("timeline");
    assert!(fields["hash"].is_string());
    point
}

#[test]
fn options_that_observe_leave_the_run_as_it_was() {
    let place = directory("observing");
    let file = |name: &str| place.join(name).to_str().expect("UTF-8").to_owned();
    let store = file("runs.sqlite3");
    let sim = |more: &[&str]| {
        let all = [&["sim", "--quiet", "--store", &store, "--format", "json"], &LOAD[..], more];
        point(&json(&all.concat(), 0))
    };
    let plain = sim(&[]);
    let (whole, dense) = (file("whole.json"), ["--timeline", "0.001"]);
    let more: [&[&str]; 5] = [
        &["--timeline", "5"],
        &["--timeline", "0.37"],
        &dense,
        &["--record", &whole],
        &["--timeline", "0.05", "--record", &whole, "--tag", "seen"],
    ];
    for more in more {
        assert_eq!(sim(more), plain, "{more:?}");
    }
    let (trace, folded, flame) = (file("t.pftrace"), file("t.folded"), file("t.svg"));
    let views: [&[&str]; 4] =
        [&[], &["--trace", &trace], &["--folded", &folded], &["--flame", &flame]];
    // Number 2 was sampled, number 1 was not.
    for stored in ["1", "2"] {
        for view in views {
            let args = ["explain", stored, "--store", &store, "--quiet", "--format", "json"];
            let explained = json(&[&args, view].concat(), 0);
            assert_eq!(explained["hash"], plain["hash"], "{stored} {view:?}");
        }
        let told = run(&["explain", stored, "--store", &store, "--quiet"]);
        assert_eq!(code(&told), Some(0), "{}", stderr(&told));
        assert!(!(stdout(&told) + &stderr(&told)).contains("not what was stored"), "{stored}");
    }
    std::fs::remove_dir_all(place).expect("removed");
}
