//! Shapes of histories, and commits that cannot be measured.

use crate::repo::Repo;
use crate::{DONE, FINDING, NOISY, USAGE, ends, json, line};

const VALUE: [&str; 2] = ["--metric-regex", "value: (.*)"];

/// A search with the value of [`NOISY`], as JSON.
fn search(repo: &Repo, ends: [usize; 2], more: &[&str], command: &str) -> std::process::Command {
    let [good, bad] = ends.map(|number| repo.id(number).to_owned());
    let args = ["--good", &good, "--bad", &bad, "--format", "json", "--quiet"];
    repo.bisect(&[args.as_slice(), &VALUE, more, &["--", command]].concat())
}

#[test]
fn a_line_with_commits_that_ask_to_be_skipped() {
    let repo = line("skips", 60, 23, ["100", "120"]);
    let command = format!("case $(cat note) in *7*|*0) exit 125;; esac; {NOISY}");
    // The ends are measurable: 1 and 59.
    let answer = json(search(&repo, [1, 59], &[], &command), FINDING);
    assert_eq!(answer["first_bad"], repo.id(23), "{answer}");
    let skipped = answer["skipped"].as_array().expect("a list");
    for skip in skipped {
        let number = repo.number(skip["commit"].as_str().expect("an id"));
        assert!(number.is_multiple_of(10) || number.to_string().contains('7'), "{number}");
        assert_eq!(skip["cause"], "the command ended with 125: skip");
    }
}

#[test]
fn the_record_is_kept_and_shown_again() {
    let repo = line("record", 30, 17, ["100", "120"]);
    let store = repo.state().with_extension("sqlite3");
    let store = store.to_str().expect("UTF-8");
    let kept = ["--store", store, "--tag", "found"];
    let mut printed = json(search(&repo, [1, 30], &kept, NOISY), FINDING);
    let runs = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_convoy"));
        command.arg("runs").args(args).args(["--store", store]);
        String::from_utf8(ends(command, DONE).stdout).expect("UTF-8")
    };
    let list = runs(&["list", "--kind", "bisect"]);
    assert!(list.contains(&repo.id(17)[..12]) && list.contains("found"), "{list}");
    let shown = runs(&["show", "found"]);
    assert!(shown.contains("step 17") && !shown.contains("\"verdict\""), "{shown}");
    assert!(runs(&["show", "found", "--format", "csv"]).starts_with("position,commit,"));
    let exported: serde_json::Value =
        serde_json::from_str(&runs(&["export", "--tag", "found"])).expect("JSON");
    let record = &exported[0]["entry"];
    // The version is of the output, not of the finding.
    let version = printed.as_object_mut().expect("an object").remove("output_version");
    assert!(version.is_some());
    assert_eq!((&record["kind"], &record["body"]), (&"bisect".into(), &printed), "{exported}");
}

#[test]
fn builds_that_fail_beside_the_culprit_leave_a_set() {
    let repo = line("set", 40, 23, ["100", "120"]);
    let build = "case $(cat note) in *21*|*22*) echo no such header >&2; exit 2;; esac";
    let answer = json(search(&repo, [1, 40], &["--build", build], NOISY), FINDING);
    assert_eq!(answer["verdict"], "set", "{answer}");
    assert_eq!(answer["first_bad"], serde_json::Value::Null);
    let set = answer["credible_set"].as_array().expect("a list").iter();
    let mut numbers: Vec<usize> =
        set.map(|of| repo.number(of["commit"]["commit"].as_str().expect("an id"))).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [21, 22, 23]);
    let cause = answer["skipped"][0]["cause"].as_str().expect("a cause");
    assert!(cause.contains("exit code 2") && cause.contains("no such header"), "{cause}");
}

#[test]
fn two_changes_are_both_named_and_one_that_was_fixed_is_called_so() {
    let repo = line("steps", 40, 41, ["100", "100"]);
    for (second, verdict) in [("+ 20", "two-steps"), ("- 12", "fixed-again")] {
        let command = format!(
            "n=$(tr -dc 0-9 < note); \
             echo value: $(( 100 + 20 * (n >= 12) {second} * (n >= 27) + ${{#CONVOY_PAD}} / 1000 ))"
        );
        let answer = json(search(&repo, [1, 40], &["--restart"], &command), FINDING);
        assert_eq!(answer["verdict"], verdict, "{answer}");
        assert_eq!(answer["first_bad"], serde_json::Value::Null);
        let why = answer["why"].as_str().expect("a sentence");
        assert!(why.contains("(step 12)") && why.contains("(step 27)"), "{why}");
    }
}

#[test]
fn ends_that_do_not_differ_or_differ_the_other_way() {
    let repo = line("same", 30, 31, ["100", "120"]);
    let answer = json(search(&repo, [1, 30], &["--min-effect", "5"], NOISY), DONE);
    assert_eq!(answer["verdict"], "no-regression", "{answer}");
    assert_eq!(answer["first_bad"], serde_json::Value::Null);
    assert!(answer["runs"].as_u64() < Some(400), "{answer}");

    let repo = line("better", 30, 17, ["100", "80"]);
    let answer = json(search(&repo, [1, 30], &["--lower-is-better"], NOISY), DONE);
    assert_eq!(answer["verdict"], "improvement", "{answer}");
    let other = ["--restart", "--higher-is-better"];
    let answer = json(search(&repo, [1, 30], &other, NOISY), FINDING);
    assert_eq!(answer["first_bad"], repo.id(17), "{answer}");
}

/// A culprit on one of three branches that an octopus joins, and another octopus without one.
fn octopus() -> (Repo, usize) {
    let mut repo = Repo::new("octopus");
    let mut last = repo.commit(&[], "begin", &[("level", "100"), ("note", "0")]);
    let mut culprit = 0;
    let mut level = "100";
    for round in 0..4 {
        let mut tips = Vec::new();
        for branch in 0..3 {
            let mut tip = last;
            for step in 0..4 {
                let note = format!("{round} {branch} {step}");
                let file = format!("notes/{branch}");
                let mut files = vec![(file.as_str(), note.as_str())];
                let bad = (round, branch, step) == (2, 1, 2);
                if bad {
                    files.push(("level", "130"));
                }
                tip = repo.commit(&[tip], &format!("step {note}"), &files);
                if bad {
                    culprit = tip;
                }
            }
            tips.push(tip);
        }
        if round == 2 {
            level = "130";
        }
        last = repo.commit(&tips, &format!("octopus {round}"), &[("level", level)]);
    }
    (repo.make(), culprit)
}

#[test]
fn a_culprit_on_a_side_branch_of_an_octopus() {
    let (repo, culprit) = octopus();
    let last = repo.number(repo.git(&["rev-parse", "main"]).trim());
    let answer = json(search(&repo, [1, last], &[], NOISY), FINDING);
    assert_eq!(answer["first_bad"], repo.id(culprit), "{answer}");
    // Along first parents the octopus itself brought it.
    let first = ["--first-parent", "--restart"];
    let answer = json(search(&repo, [1, last], &first, NOISY), FINDING);
    let merge = repo.number(answer["first_bad"].as_str().expect("an id"));
    let subject = repo.git(&["show", "--no-patch", "--format=%s", repo.id(merge)]);
    assert_eq!(subject.trim(), "octopus 2");
}

#[test]
fn a_good_end_beside_the_history_is_replaced_by_the_merge_base() {
    let mut repo = Repo::new("beside");
    let base = repo.commit(&[], "base", &[("level", "100")]);
    let release = repo.commit(&[base], "release", &[("note", "r")]);
    let mut last = base;
    for step in 0..10 {
        let level = if step < 6 { "100" } else { "120" };
        let note = format!("{step}");
        last = repo.commit(&[last], &format!("step {step}"), &[("level", level), ("note", &note)]);
    }
    let repo = repo.make();
    let answer = json(search(&repo, [release, last], &[], NOISY), FINDING);
    assert_eq!(answer["good"]["commit"], repo.id(base));
    assert_eq!(answer["first_bad"], repo.id(last - 3), "{answer}");
    let notes = answer["notes"].to_string();
    assert!(notes.contains("merge base"), "{notes}");
}

#[test]
fn paths_narrow_the_suspects() {
    let repo = line("paths", 50, 31, ["100", "120"]);
    let answer = json(search(&repo, [1, 50], &["--path", "level"], NOISY), FINDING);
    assert_eq!(answer["first_bad"], repo.id(31), "{answer}");
    let weighted = ["--path", "level", "--path-weight", "20", "--restart"];
    let answer = json(search(&repo, [1, 50], &weighted, NOISY), FINDING);
    assert_eq!(answer["first_bad"], repo.id(31), "{answer}");
}

#[test]
fn a_command_that_fails_sometimes_is_repeated() {
    let repo = line("flaky", 40, 12, ["100", "120"]);
    // About one run in four fails, and another one the next time.
    let flaky = format!("[ ${{#CONVOY_PAD}} -gt 1000 ] || exit 3; {NOISY}");
    let answer = json(search(&repo, [1, 40], &["--retries", "6"], &flaky), FINDING);
    assert_eq!(answer["first_bad"], repo.id(12), "{answer}");
    assert!(answer["failed_runs"].as_u64() > Some(0), "{answer}");
    assert_eq!(answer["skipped"].as_array().map(Vec::len), Some(0), "{answer}");
}

#[test]
fn a_time_limit_makes_a_hang_a_slow_run() {
    let repo = line("hang", 30, 19, ["0", "1000"]);
    let [good, bad] = [repo.id(1), repo.id(30)];
    // Far beyond the time of a good commit on a busy machine.
    let args = ["--good", good, "--bad", bad, "--timeout", "3", "--confirm", "0"];
    let more = ["--format", "json", "--quiet", "--", "sleep $(cat level)"];
    let answer = json(repo.bisect(&[args.as_slice(), &more].concat()), FINDING);
    assert_eq!(answer["first_bad"], repo.id(19), "{answer}");
    assert!(answer["notes"].to_string().contains("longer than --timeout"), "{answer}");
}

#[test]
fn a_simulated_experiment_works_as_a_command() {
    let mut repo = Repo::new("simulated");
    let mut last = 0;
    for step in 0..24 {
        let kernel = if step < 15 { "2.6.25" } else { "2.6.26-rc1" };
        let parents: Vec<usize> = (last > 0).then_some(last).into_iter().collect();
        let note = format!("{step}");
        last = repo.commit(&parents, &format!("step {step}"), &[("kernel", kernel), ("n", &note)]);
    }
    let repo = repo.make();
    let convoy = env!("CARGO_BIN_EXE_convoy");
    let command = format!(
        "{convoy} sim --kernel $(cat kernel) --users 100 --shrink 50 --seed ${{#CONVOY_PAD}} \
         --quiet --format json"
    );
    let [good, bad] = [repo.id(1), repo.id(24)];
    let args = ["--good", good, "--bad", bad, "--metric-json", "points.0.jobs_per_min"];
    let more = ["--unit", "jobs/min", "--higher-is-better", "--format", "json", "--quiet"];
    let answer = json(repo.bisect(&[args.as_slice(), &more, &["--", &command]].concat()), FINDING);
    assert_eq!(answer["first_bad"], repo.id(16), "{answer}");
    assert!(answer["effect_percent"]["mean"].as_f64() < Some(-3.0), "{answer}");
}

#[test]
fn the_table_and_the_dry_run_are_for_people() {
    let repo = line("table", 20, 9, ["100", "120"]);
    let [good, bad] = [repo.id(1), repo.id(20)];
    let args = [&["--good", good, "--bad", bad][..], &VALUE, &["--", NOISY]].concat();
    let output = ends(repo.bisect(&args), FINDING);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" (step 9) is the first bad commit, with 99."), "{text}");
    assert!(text.contains("step 9\n") && text.contains("confirmed against its parent"), "{text}");
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(progress.contains(": 19; the ends") && progress.contains("leads with"), "{progress}");
    let dry = ["--good", good, "--bad", bad, "--dry-run", "--format", "json", "--restart"];
    let dry = json(repo.bisect(&dry), DONE);
    assert_eq!(dry["commits"], 19);
    assert!(dry["expected"][0]["runs"].as_f64() < dry["expected"][3]["runs"].as_f64(), "{dry}");
}

#[test]
fn subjects_of_commits_control_no_terminal() {
    let mut repo = Repo::new("subjects");
    let mut last = None;
    for number in 1..=6 {
        let (level, note) = (if number < 4 { "100" } else { "120" }, format!("{number}"));
        let subject = format!("step {number} \u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m");
        let files = [("level", level), ("note", &*note)];
        last = Some(repo.commit(last.as_slice(), &subject, &files));
    }
    let repo = repo.make();
    let args = ["--good", repo.id(1), "--bad", repo.id(6)];
    let output = ends(repo.bisect(&[&args[..], &VALUE, &["--", NOISY]].concat()), FINDING);
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(text);
        assert!(!text.contains(|c: char| c.is_control() && !"\n\t\r".contains(c)), "{text:?}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("step 4"), "{output:?}");
}

#[test]
fn a_search_of_git_has_its_ends_marked() {
    let repo = line("marked", 40, 23, ["100", "120"]);
    let run = ["--quiet", "--format", "json"];
    let run = [&run[..], &VALUE, &["run", "sh", "-c", NOISY]].concat();
    let refused = ends(repo.bisect(&run), USAGE);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("git bisect start"), "{text}");
    // A second good commit, nearer to the bad one, and the user's own words for both.
    let words = ["--term-new", "slow", "--term-old", "fast"];
    repo.git(&[&["bisect", "start"], &words[..], &[repo.id(40), repo.id(2)]].concat());
    repo.git(&["bisect", "fast", repo.id(11)]);
    let before = repo.footprint();
    let answer = json(repo.bisect(&run), FINDING);
    assert_eq!(answer["first_bad"], repo.id(23), "{answer}");
    assert_eq!(answer["good"]["commit"], repo.id(11), "{answer}");
    assert_eq!(repo.footprint(), before);
}
