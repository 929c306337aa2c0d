//! When `convoy compare` does not say what typical runs show, and what its samples are.

use crate::compare::{FINDING, SAME, compared, noisy, with};
use crate::{code, directory, ends, run, stderr, stdout};
use serde_json::Value;

#[test]
fn a_candidate_that_collapses_is_not_faster_and_its_collapses_are_named() {
    let directory = directory("collapse");
    for seed in 1..=5 {
        let a = noisy(&directory, "a", seed, 100.0);
        let b = noisy(&directory, "b", seed + 1000, 97.0);
        // Each tenth run of the candidate or so takes 1.8 times as long, after a while without one.
        let count = directory.join("count");
        std::fs::write(&count, "").expect("written");
        let bad = format!(
            "echo >> {0}; n=$(wc -l < {0}); v=$({b}); \
             if [ $((n % 10)) = 4 ] && [ $n -gt 9 ]; then awk \"BEGIN{{print 1.8*$v}}\"; \
             else echo $v; fi",
            count.display()
        );
        let seed = seed.to_string();
        let args = ["--format", "json", "--max-runs", "80", "--seed", &seed, &a, &bad];
        let output = run(&with(&args));
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let verdict = found["verdict"].as_str().expect("a verdict");
        assert!(["slower", "unsure"].contains(&verdict), "{found}");
        assert_eq!(code(&output), Some(if verdict == "slower" { FINDING } else { SAME }));
        let collapses = &found["rows"][0]["candidate"]["collapses"];
        assert!(collapses["runs"].as_u64().expect("counted") >= 3, "{found}");
        let factor = collapses["factor"].as_f64().expect("sized");
        assert!((1.7..1.9).contains(&factor), "{factor}");
        assert!(found["notes"].to_string().contains("collapses in"), "{found}");
    }
}

#[test]
fn below_the_noise_floor_there_is_no_verdict() {
    let directory = directory("floor");
    let state = directory.join("a");
    // The baseline goes up and down by 20 %; the candidate is 3 % above it each time.
    let wave = |name: &str, factor: &str| {
        let file = state.with_extension(name);
        format!(
            "echo >> {0}; n=$(wc -l < {0}); awk \"BEGIN{{print {factor}*(100+20*($n%2))}}\"",
            file.display()
        )
    };
    let args = ["-r", "12", &wave("one", "1"), &wave("two", "1.03")];
    let found = compared(&args, SAME);
    assert_eq!(
        (&found["verdict"], &found["rows"][0]["doubt"]),
        (&"unsure".into(), &"noise floor".into())
    );
    assert!(found["notes"].to_string().contains("no verdict"), "{found}");
}

#[test]
fn every_execution_of_a_record_is_a_sample() {
    let directory = directory("executions");
    let record = |name: &str| {
        let path = directory.path(name);
        let args = ["run", "--users", "1", "--shrink", "1000000", "--no-predict", "--quiet"];
        ends(&[&args[..], &["--repeat", "6", "--record", path]].concat(), 0);
        path
    };
    let (one, two) = (record("r1.json"), record("r2.json"));
    let args = ["compare", "--quiet", "--no-store", "--format", "json", one, two];
    let output = run(&args);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["rows"][0]["baseline"]["runs"], 6, "{value}");
    assert_eq!(value["rows"][0]["candidate"]["runs"], 6, "{value}");
}

#[test]
fn records_of_different_loads_are_compared_only_if_that_is_asked_for() {
    let directory = directory("across");
    let record = |name: &str, more: &[&str]| {
        let path = directory.path(name);
        let args =
            ["run", "--users", "1", "--repeat", "6", "--no-predict", "--quiet", "--no-store"];
        ends(&[&args[..], &["--job", "fork_test", "--record", path], more].concat(), 0);
        path
    };
    let one = record("one.json", &["--shrink", "1000000"]);
    let other = record("other.json", &["--shrink", "100", "--dialect", "re-aim"]);
    let output = run(&with(&[one, other]));
    assert_eq!((code(&output), stdout(&output)), (Some(2), String::new()));
    for word in [
        "dialect (one: 1996; other: re-aim) and shrink (one: 1000000; other: 100)",
        "their numbers are not of one thing; measure both alike",
        "(--across dialect,shrink)",
    ] {
        assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
    }
    let partly = ends(&with(&["--across", "dialect", one, other]), 2);
    assert!(!stderr(&partly).contains("dialect ("), "{}", stderr(&partly));
    let output = run(&with(&["--across", "dialect,shrink", "--format", "json", one, other]));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        found["notes"][0],
        "compared across dialect (one: 1996; other: re-aim): it is part \
        of what is measured"
    );
    assert_eq!(found["rows"][0]["candidate"]["runs"], 6);
}

#[test]
fn sides_of_which_one_was_disturbed_are_not_compared() {
    let directory = directory("unequal");
    let record = |name: &str, jobs: f64, others_s: f64| {
        let repeats: Vec<Value> = (0..6)
            .map(|i| serde_json::json!({ "jobs_per_min": jobs + f64::from(i) / 10.0 }))
            .collect();
        let value = serde_json::json!({
            "mix": "shared",
            "points": [{ "users": 2, "jobs_per_min": jobs, "repeats": repeats }],
            "disturbance": { "seconds": 10.0, "others_s": others_s },
        });
        directory.write(name, value.to_string())
    };
    let [one, two] = [record("quiet.json", 100.0, 0.1), record("two.json", 80.0, 0.1)];
    let found = compared(&[one, two], FINDING);
    assert_eq!(found["verdict"], "slower");
    let busy = record("busy.json", 80.0, 8.0);
    let found = compared(&[one, busy], SAME);
    assert_eq!(found["verdict"], "unsure", "{found}");
    assert_eq!(found["rows"][0]["doubt"], "treated unequally");
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("only one side was disturbed (busy: other programs used 0.80 CPUs)"),
        "{notes}"
    );
    // Both alike: the numbers may be compared, and are not to be believed alone.
    let found = compared(&[busy, record("busier.json", 60.0, 9.0)], FINDING);
    assert!(found["notes"].to_string().contains("These results are unreliable"), "{found}");
}

#[test]
fn a_load_beside_the_measured_one_has_the_same_words_everywhere() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let stop = AtomicBool::new(false);
    let directory = directory("beside");
    let record = directory.path("r.json");
    let plot = directory.path("p.svg");
    let (compared, measured) = std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let sides = ["sleep 0.4; echo 1", "sleep 0.4; echo 1"];
        let compared = run(&with(&[&["-r", "2", "--plot", plot], &sides[..]].concat()));
        let args = ["run", "--users", "1", "--shrink", "1000", "--start-delay", "1", "--no-store"];
        let measured = run(&[&args[..], &["--no-predict", "--quiet", "--record", record]].concat());
        stop.store(true, Ordering::Relaxed);
        (stdout(&compared), stdout(&measured))
    });
    for text in [compared, measured] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("These results are unreliable: other programs used"), "{text}");
    }
    let drawn = std::fs::read_to_string(plot).expect("a plot");
    assert!(drawn.contains("These results are"), "{drawn}");
}
