//! `convoy compare` with commands that print known numbers.

use crate::common::{interrupt, wait_until, with_default_signals};
use crate::{code, convoy, directory, ends, json, refused, run, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

pub(crate) const SAME: i32 = 0;
pub(crate) const FINDING: i32 = 1;
pub(crate) const USAGE: i32 = 2;
pub(crate) const ENVIRONMENT: i32 = 3;

/// Metric of the commands here: the number they print.
pub(crate) const NUMBER: [&str; 6] = ["compare", "--metric-regex", r"^\S+", "-w", "0", "--quiet"];

pub(crate) fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [NUMBER.as_slice(), more].concat()
}

pub(crate) fn compared(more: &[&str], expected: i32) -> Value {
    json(&with(&[&["--format", "json"], more].concat()), expected)
}

/// A command that prints pseudo-random numbers about `mean` with a standard deviation of 1 %, the
/// same each time: its state is a file.
pub(crate) fn noisy(directory: &Path, name: &str, seed: u64, mean: f64) -> String {
    let state = directory.join(name);
    std::fs::write(&state, format!("{seed}\n")).expect("written");
    let state = state.display();
    // The sum of twelve uniform numbers less six is close to normal; the generator is Park and
    // Miller's.
    format!(
        "awk '{{x=$1; for(i=0;i<12;i++){{x=(x*16807)%2147483647; s+=x/2147483647}} \
         print {mean}*(1+0.01*(s-6)); print x > \"{state}\"}}' {state}"
    )
}

#[test]
fn a_difference_without_noise_is_found_and_equality_is_said() {
    let slower = compared(&["-r", "8", "echo 10", "echo 11"], FINDING);
    assert_eq!(slower["verdict"], "slower");
    assert_eq!(slower["rows"][0]["p_raw"], 2.0 / 256.0);
    assert!((slower["speedup"].as_f64().expect("a number") - 10.0 / 11.0).abs() < 1e-12);
    let faster = compared(&["-r", "8", "--higher-is-better", "echo 10", "echo 11"], SAME);
    assert_eq!((&faster["verdict"], &faster["runs"]), (&"faster".into(), &8.into()));
    let same = compared(&["-r", "8", "echo 7", "echo 7"], SAME);
    assert_eq!((&same["verdict"], &same["ci95"]), (&"same".into(), &serde_json::json!([1.0, 1.0])));
    // The same commands are still two sides.
    assert_ne!(same["rows"][0]["baseline"]["label"], same["rows"][0]["candidate"]["label"]);
}

#[test]
fn what_cannot_be_claimed_is_not() {
    let one = compared(&["-r", "1", "echo 10", "echo 20"], SAME);
    assert_eq!(one["verdict"], "unsure");
    assert_eq!(one["ci95"], serde_json::json!([0.0, null]));
    assert!(one["notes"].to_string().contains("6 are needed"), "{}", one["notes"]);
    let five = compared(&["-r", "5", "echo 10", "echo 20"], SAME);
    assert_eq!((&five["verdict"], &five["rows"][0]["stars"]), (&"unsure".into(), &0.into()));
    assert!(five["notes"].to_string().contains("smallest p is 0.0625"), "{}", five["notes"]);
    // Zero has no ratio, but the difference is still judged.
    let zero = compared(&["-r", "8", "echo 0", "echo 3"], FINDING);
    assert_eq!((&zero["verdict"], &zero["speedup"]), (&"slower".into(), &Value::Null));
}

#[test]
fn three_percent_are_found_within_the_cap_and_equals_are_not_called_different() {
    let directory = directory("noisy");
    let mut wrong = 0;
    for seed in 1..=12 {
        let a = noisy(&directory, "a", seed, 100.0);
        let b = noisy(&directory, "b", seed + 1000, 100.0);
        let c = noisy(&directory, "c", seed + 2000, 103.0);
        let name = seed.to_string();
        let output = run(&with(&["--format", "json", "--max-runs", "25", "--seed", &name, &a, &b]));
        let equal: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        wrong += u32::from(equal["verdict"] == "slower" || equal["verdict"] == "faster");
        assert!(equal["runs"].as_u64().expect("runs") <= 25, "{equal}");
        let slower = compared(&["--max-runs", "40", "--seed", &name, &a, &c], FINDING);
        assert_eq!(slower["verdict"], "slower");
        assert!(slower["stopped"].as_str().expect("a reason").contains("sure after"), "{slower}");
    }
    assert!(wrong <= 1, "{wrong} of 12 equal pairs were called different");
}

#[test]
fn equality_is_said_with_the_margin_that_the_runs_show() {
    let directory = directory("margins");
    let ask = |more: &[&str]| {
        let (a, b) = (noisy(&directory, "a", 7, 100.0), noisy(&directory, "b", 2008, 100.0));
        let report = compared(&[&["-r", "8"], more, &[&a, &b]].concat(), SAME);
        let margin = report["rows"][0]["same_within_percent"].clone();
        (report["sentence"].as_str().expect("a sentence").to_owned(), margin)
    };
    let (sentence, margin) = ask(&[]);
    assert!(sentence.starts_with("Same within 2 %: ") && margin == 2.0, "{sentence} {margin}");
    let (sentence, margin) = ask(&["--same-within", "1%"]);
    assert!(sentence.starts_with("Unsure: ") && margin == Value::Null, "{sentence} {margin}");
}

#[test]
fn warm_up_is_left_out_until_it_ends() {
    let directory = directory("warm-up");
    let side = |name: &str| {
        let counter = directory.join(name);
        format!(
            "echo x >> {0}; n=$(wc -l < {0}); [ $n -lt 4 ] && echo $((100 - 10 * n)) || echo 50",
            counter.display()
        )
    };
    let args = ["compare", "--metric-regex", r"(\S+)", "--format", "json", "--quiet", "--no-store"];
    let auto = json(&[&args[..], &[&side("a"), &side("b")]].concat(), SAME);
    // 90, 80, 70, 50, 50: the fifth block is like one before it.
    assert_eq!(auto["warm_up"], serde_json::json!({ "blocks": 5, "auto": true, "stable": true }));
    assert!(auto["title"].as_str().expect("a title").contains("after 5 of warm-up, until stable"));
    assert_eq!(
        (&auto["verdict"], &auto["rows"][0]["baseline"]["mean"]),
        (&"same".into(), &50.0.into())
    );
    let given = json(&[&args[..], &["--warmup", "1", &side("c"), &side("d")]].concat(), SAME);
    assert_eq!(given["warm_up"]["blocks"], 1);
    let rising = format!("echo x >> {0}; wc -l < {0}", directory.join("e").display());
    let never = json(&[&args[..], &["-r", "6", &rising, "echo 1"]].concat(), SAME);
    assert_eq!(never["warm_up"]["stable"], false);
    assert!(never["notes"].to_string().contains("still warming up after 10 blocks"), "{never}");
}

#[test]
fn the_order_is_drawn_from_the_seed_in_blocks() {
    let directory = directory("order");
    let log = directory.join("log");
    let side = |name: &str| format!("echo {name} >> {}; echo 1", log.display());
    let order = |seed: &str| {
        let _none_yet = std::fs::remove_file(&log);
        compared(&["-r", "30", "--seed", seed, &side("a"), &side("b")], SAME);
        std::fs::read_to_string(&log).expect("written").replace('\n', "")
    };
    let first = order("5");
    assert_eq!(first, order("5"));
    assert_ne!(first, order("6"));
    let blocks: Vec<&str> = (0..30).map(|at| &first[2 * at..2 * at + 2]).collect();
    assert!(blocks.iter().all(|block| *block == "ab" || *block == "ba"), "{first}");
    assert!(blocks.contains(&"ab") && blocks.contains(&"ba"), "{first}");
}

#[test]
fn a_command_that_fails_is_named_or_counted() {
    let directory = directory("fails");
    let counter = directory.join("counter");
    // Every third run fails.
    let sometimes = format!(
        "echo x >> {0}; \
         if [ $(($(wc -l < {0}) % 3)) = 0 ]; then echo broken >&2; exit 9; fi; echo 5",
        counter.display()
    );
    let output = ends(&with(&["-r", "9", "echo 5", &sometimes]), ENVIRONMENT);
    let text = stderr(&output);
    for word in ["in run 3", "exit code 9", "broken", "--ignore-failure", "2 finished runs"] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    assert!(stdout(&output).contains("PARTIAL"), "{}", stdout(&output));
    std::fs::remove_file(&counter).expect("removed");
    let counted = compared(&["-r", "9", "-i", "echo 5", &sometimes], SAME);
    assert_eq!((&counted["runs"], &counted["failures"][0]["failed"]), (&6.into(), &3.into()));
    assert_eq!(counted["failures"][0]["tried"], 9);
    refused(&with(&["-r", "3", "-i", "echo 5", "exit 4"]), ENVIRONMENT, &["3 of 3", "exit code 4"]);
    refused(
        &with(&["-r", "3", "echo 1", "no-such-command"]),
        USAGE,
        &["no-such-command", "not found"],
    );
    refused(&with(&["-r", "3", "-N", "echo 1", "no-such-command"]), USAGE, &["no-such-command"]);
    refused(&with(&["-r", "3", "echo 1", "echo NaN"]), ENVIRONMENT, &["NaN", "no finite number"]);
    refused(&with(&["-r", "3", "echo 1", "true"]), ENVIRONMENT, &["printed nothing"]);
    // The other side must stay below the limit, on a busy machine too.
    let slow = with(&["-r", "3", "--timeout", "3", "echo 1", "sleep 1000"]);
    refused(&slow, ENVIRONMENT, &["sleep 1000", "limit"]);
}

#[test]
fn flags_out_of_range_are_usage() {
    refused(&with(&["echo 1"]), USAGE, &["baseline and a candidate"]);
    refused(&with(&["--pin", "x", "echo 1", "echo 1"]), USAGE, &["--pin x: ", "0,2-3"]);
    refused(&with(&["--pin", "1000", "echo 1", "echo 1"]), ENVIRONMENT, &["CPUs that exist"]);
    refused(&with(&["--same-within", "0", "echo 1", "echo 1"]), USAGE, &["such as 1%"]);
    refused(&with(&["--alpha", "0.7", "echo 1", "echo 1"]), USAGE, &["0.5"]);
    refused(&with(&["--ranges", "5-1", "echo 1", "echo 1"]), USAGE, &["10-100"]);
    refused(&with(&["echo 1", " "]), USAGE, &["empty operand"]);
    refused(&with(&["echo 1", "gone.json"]), USAGE, &["gone.json", "No such file"]);
    refused(&with(&["echo 1", "@never-tagged-so"]), USAGE, &["never-tagged-so"]);
    let aa = with(&["--aa", "Cargo.toml", "echo 1"]);
    refused(&aa, USAGE, &["Cargo.toml", "known are"]);
}

#[test]
fn files_of_other_tools_are_compared() {
    fn go(ns: u32, unit: &str) -> String {
        let line = |i: u32| {
            format!("BenchmarkA-2 10 {} ns/op {} {unit}\nBenchmarkB-2 10 7 ns/op\n", ns + i, 5 + i)
        };
        (0..6).map(line).collect::<String>()
    }
    let directory = directory("compare-files");
    let file = |name: &str, text: &str| directory.write(name, text);
    let times = |from: f64| {
        (0..8).map(|i| (from + 0.001 * f64::from(i)).to_string()).collect::<Vec<_>>().join(",")
    };
    let result = |name, from| format!("{{\"command\": \"{name}\", \"times\": [{}]}}", times(from));
    let both = format!("{{\"results\": [{}, {}]}}", result("old", 1.0), result("new", 1.1));
    let both = file("both.json", &both);
    let report = compared(&[both], FINDING);
    assert_eq!(
        (&report["rows"][0]["test"], &report["verdict"]),
        (&"rank-sum".into(), &"slower".into())
    );
    refused(&with(&[both, both]), USAGE, &["2 sides", "old, new", "alone"]);

    let (old, new) = (file("old.txt", &go(1000, "B/op")), file("new.txt", &go(900, "B/op")));
    let report = compared(&[old, new], SAME);
    assert_eq!(
        (&report["verdict"], report["rows"].as_array().map(Vec::len)),
        (&"faster".into(), Some(3))
    );
    let p = |key: &str| report["rows"][0][key].as_f64().expect("a number");
    assert!(p("p") > p("p_raw"), "corrected for three rows");

    let one = file("one.json", &format!("{{\"results\": [{}]}}", result("old", 1.0)));
    refused(&with(&[one, old]), USAGE, &["in common", "ns/op", "wall time"]);
    // A file and a command: the command is run, but the values are not paired.
    let args = ["compare", "-r", "4", "-w", "0", "--quiet", "--format", "json", one, "sleep 0.001"];
    let output = run(&args);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // Of a file nothing is known; if other programs use this machine now, the sides are unequal.
    let unequal = report.to_string().contains("only one side was disturbed");
    let verdict = if unequal { "unsure" } else { "faster" };
    assert_eq!(
        (&report["rows"][0]["test"], &report["verdict"]),
        (&"rank-sum".into(), &verdict.into())
    );
}

#[test]
fn runs_of_this_program_are_sides_with_a_row_for_each_load_point() {
    let side = |kernel: &str| format!("convoy sim --kernel {kernel} --users 2,5 --shrink 50");
    let sides = [side("2.6.25"), side("2.6.26-rc1")];
    let args = ["compare", "--quiet", "--format", "json", "-w", "0", "-r", "2"];
    let output = ends(&[args.as_slice(), &[&sides[0], &sides[1]]].concat(), SAME);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let users: Vec<u64> = rows.iter().filter_map(|row| row["users"].as_u64()).collect();
    assert_eq!((users, &rows[0]["unit"]), (vec![2, 5], &"jobs/min".into()));
    assert_eq!(rows[0]["higher_is_better"], true);
    // Other seeds in other blocks, the same in both sides of one.
    let sd = rows[1]["baseline"]["sd"].as_f64().expect("two values");
    assert!(sd > 0.0, "each block has a different seed: {report}");
}

#[test]
fn a_number_in_the_json_of_two_simulations_is_compared() {
    fn side(kernel: &str) -> String {
        let convoy = env!("CARGO_BIN_EXE_convoy");
        format!("{convoy} sim --kernel {kernel} --users 2 --shrink 50 --no-store --format json")
    }
    let sides = [side("2.6.25"), side("2.6.26-rc1")];
    let metric = ["--metric-json", "points.0.jobs_per_min", "--higher-is-better"];
    let args = ["compare", "--quiet", "--no-store", "--format", "json", "-w", "0", "-r", "2"];
    let output = run(&[args.as_slice(), &metric, &[&sides[0], &sides[1]]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &report["rows"][0];
    assert_eq!(row["higher_is_better"], true, "{report}");
    for (side, command) in ["baseline", "candidate"].iter().zip(&sides) {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let alone: Value = serde_json::from_slice(&run(&words).stdout).expect("JSON");
        let expected = &alone["points"][0]["jobs_per_min"];
        assert!(expected.is_f64() && row[side]["mean"] == *expected, "{side}: {report}");
    }
}

#[test]
fn mixed_units_are_refused() {
    let directory = directory("units");
    let store = directory.path("runs.sqlite3");
    for unit in ["ms", "s"] {
        let tag = format!("in-{unit}");
        let args = with(&["-r", "1", "--store", store, "--tag", &tag, "--unit", unit, "-n", "x"]);
        ends(&[args, vec!["echo 1", "echo 1"]].concat(), 0);
    }
    let args = with(&["--store", store, "@in-ms#x", "@in-s#x"]);
    refused(&args, USAGE, &["\"ms\"", "\"s\"", "one unit"]);
    refused(&with(&["--store", store, "@in-ms", "@in-s#x"]), USAGE, &["say which one", "#x"]);
}

#[test]
fn the_table_of_a_mailing_list_has_its_form() {
    let directory = directory("ranges");
    let write = |side: &str, name: &str, factor: f64| {
        let line = |users: u32| format!("{users},{}\n", f64::from(users) * 60.0 * factor);
        let points = [10, 50, 100, 200, 1000, 1100, 2000].map(line).concat();
        let path = directory.join(side);
        std::fs::create_dir_all(&path).expect("made");
        std::fs::write(path.join(name), format!("Forks,JPM\n{points}")).expect("written");
    };
    for (name, factor) in [("fserver.csv", 1.254), ("shared.csv", 0.988), ("short.csv", 1.0)] {
        write("before", name, 1.0);
        write("after", name, factor);
    }
    let path = |side: &str| directory.path(side);
    let output = run(&with(&["--layout", "ranges", path("before"), path("after")]));
    let expected = "\
+----------+---------------+----------------+-----------------+
| Workload | mean % change | mean % change  |  mean % change  |
|          | 10-100 users  | 200-1000 users | 1100-2000 users |
+----------+---------------+----------------+-----------------+
| fserver  |    +25.4%     |     +25.4%     |     +25.4%      |
| shared   |     -1.2%     |     -1.2%      |      -1.2%      |
| short    |     0.0%      |      0.0%      |      0.0%       |
+----------+---------------+----------------+-----------------+
";
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let directory = directory("interrupted-compare");
    let counter = directory.join("counter");
    let command = format!("echo x >> {}; sleep 0.01; echo 3", counter.display());
    let command = convoy(&with(&["-r", "100000", &command, "echo 3"]));
    let mut child = with_default_signals(&command).spawn().expect("starts");
    let lines = || std::fs::read_to_string(&counter).unwrap_or_default().lines().count();
    wait_until(&mut child, |_| lines() >= 5);
    let output = interrupt(child, Signal::INT);
    assert_eq!(code(&output), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(stdout(&output).contains("PARTIAL"), "{}", stdout(&output));
}

#[test]
#[ignore = "minutes of measuring by the clock of this machine; `cargo xtask nightly` runs it"]
fn a_hundred_pairs_of_equals_and_one_three_percent_slower() {
    let spin = |count: u32| format!("awk 'BEGIN {{ for (i = 0; i < {count}; i++) s += i }}'");
    let verdict = |seed: u32, candidate: &str| {
        let seed = seed.to_string();
        let args = ["compare", "--quiet", "--no-store", "--format", "json", "--seed", &seed];
        let sides = ["-N", "--metric", "cpu", "--max-runs", "60", &spin(300_000), candidate];
        let output = run(&[args.as_slice(), &sides].concat());
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(report["runs"].as_u64().expect("runs") <= 60, "{report}");
        report
    };
    let wrong = (1..=100).filter(|&seed| {
        let report = verdict(seed, &spin(300_000));
        report["verdict"] != "same" && report["verdict"] != "unsure"
    });
    let wrong = wrong.count();
    assert!(wrong <= 5, "{wrong} of 100 equal pairs were called different");
    let found = (1..=10).filter(|&seed| verdict(seed, &spin(309_000))["verdict"] == "slower");
    let found = found.count();
    assert!(found >= 8, "only {found} of 10 slower candidates were found");
}

/// The small form of `cargo xtask power`: with the default time, next to one busy program.
#[test]
fn planted_slowdowns_are_found_next_to_a_busy_program() {
    let work = |percent: u32| {
        let rounds = 2000 * percent;
        format!("awk 'BEGIN {{ for (i = 0; i < {rounds}; i++) s += i }}'")
    };
    let mut busy = std::process::Command::new("sh");
    let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().expect("a shell");
    let stated = "find a difference of";
    let verdicts: Vec<String> = [300, 300, 300, 100, 100, 100]
        .map(|percent| {
            let sides = [work(100), work(percent)];
            let args = ["compare", "--no-store", "--format", "json", &sides[0], &sides[1]];
            let output = run(&args);
            assert!(stderr(&output).contains(stated), "{}", stderr(&output));
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            report["verdict"].as_str().expect("a verdict").to_owned()
        })
        .to_vec();
    busy.kill().expect("it runs");
    busy.wait().expect("it ends");
    assert_eq!(verdicts[..3], ["slower"; 3]);
    let different =
        verdicts[3..].iter().filter(|verdict| ["slower", "faster"].contains(&verdict.as_str()));
    assert!(different.count() <= 1, "{verdicts:?}");
}
