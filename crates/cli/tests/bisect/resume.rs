//! A search resumes where it was stopped, at any point, and then has the same result.

#[path = "../common/signals.rs"]
mod common;

use crate::{ENVIRONMENT, FINDING, NOISY, Repo, ends, json, line};
use common::{interrupt, wait_until, with_default_signals};
use rustix::process::Signal;
use serde_json::Value;

/// The measurements in order, in which a killed search must not differ.
fn runs(log: &[Value]) -> Vec<String> {
    let runs = log.iter().filter(|event| event["event"] == "run");
    runs.map(|run| format!("{} {} {}", run["commit"], run["purpose"], run["value"])).collect()
}

fn args<'a>(good: &'a str, bad: &'a str, command: &'a str) -> Vec<&'a str> {
    let args = ["--good", good, "--bad", bad, "--metric-regex", "value: (.*)", "--quiet"];
    let more = ["--build-cost", "3", "--build", "cp level built", "--", command];
    [args.as_slice(), &more].concat()
}

#[test]
fn a_search_that_is_killed_again_and_again_is_the_same_search() {
    let whole = line("whole", 60, 41, ["100", "103"]);
    let output = ends(whole.bisect(&args(whole.id(1), whole.id(60), NOISY)), FINDING);
    assert!(String::from_utf8_lossy(&output.stdout).contains("step 41"));

    let repo = line("killed", 60, 41, ["100", "103"]);
    // Two runs of the killed search never end: there it is killed however fast it is.
    let [count, stuck] = ["count", "stuck"].map(|name| repo.path.join(name));
    let gate = format!(
        "echo >> {0}; case $(wc -l < {0}) in 9|23) touch {1}; sleep 1000;; esac; {NOISY}",
        count.display(),
        stuck.display()
    );
    // The user's checkout is dirty, and stays so.
    std::fs::write(repo.directory().join("level"), "mine").expect("written");
    let (before, mut kills) = (repo.footprint(), 0);
    let mut child = repo.bisect(&args(repo.id(1), repo.id(60), &gate)).spawn().expect("starts");
    loop {
        // A different moment each time: after some more lines, whatever they are.
        let lines = repo.log().len() + 5 + 4 * kills;
        while repo.log().len() < lines
            && !stuck.exists()
            && child.try_wait().expect("a child").is_none()
        {
            std::thread::yield_now();
        }
        if child.try_wait().expect("a child").is_some() {
            break;
        }
        child.kill().expect("killed");
        child.wait().expect("dead");
        let _only_if_stuck = std::fs::remove_file(&stuck);
        kills += 1;
        child = repo.bisect(&["--resume", "--quiet"]).spawn().expect("starts");
    }
    assert!(kills >= 2, "killed {kills} times");
    // Under other load the confirmation takes more pairs: the load of the two may differ.
    let (killed, whole) = (runs(&repo.log()), runs(&whole.log()));
    let short = killed.len().min(whole.len());
    assert_eq!(killed[..short], whole[..short], "killed {kills} times");
    let more = killed[short..].iter().chain(&whole[short..]).next();
    assert!(more.is_none_or(|run| run.contains("confirm")), "killed {kills} times: {more:?}");
    // A finished search says its answer again.
    let plot = repo.path.join("plot.svg");
    let mut again = repo.bisect(&["--resume", "--format", "json", "--plot"]);
    again.arg(&plot);
    let answer = json(again, FINDING);
    assert_eq!(answer["first_bad"], repo.id(41));
    assert!(std::fs::read_to_string(&plot).expect("a plot").contains("step 41"));
    assert_eq!(repo.footprint(), before, "the user's checkout and the work trees");
    assert_eq!(answer["runs"].as_u64(), Some(killed.len() as u64));
}

/// A search that was killed after some runs. Its log says that each of them took 1000 s while other
/// programs used `others` CPUs, so later runs have no weight.
fn killed_beside(test: &str, others: f64) -> Repo {
    let repo = line(test, 60, 41, ["100", "106"]);
    let mut child = repo.bisect(&args(repo.id(1), repo.id(60), NOISY)).spawn().expect("starts");
    wait_until(&mut child, |_| runs(&repo.log()).len() >= 5);
    child.kill().expect("killed");
    child.wait().expect("dead");
    let mut left = 4;
    let mut lines = Vec::new();
    for mut event in repo.log() {
        if event["event"] == "run" {
            event["disturbance"] = serde_json::json!({"seconds": 1e3, "others_s": 1e3 * others});
            left -= 1;
        }
        lines.push(format!("{event}\n"));
        if left == 0 {
            break;
        }
    }
    std::fs::write(repo.state().join("log.jsonl"), lines.concat()).expect("written");
    repo
}

/// Before, foreign load turned a name into a suspect and bought nothing, and was forgotten by a
/// kill.
#[test]
fn foreign_load_buys_pairs_and_is_not_forgotten() {
    let resumed = |repo: &Repo| ends(repo.bisect(&["--resume", "--quiet"]), FINDING);
    let [quiet, whole, repo] = [("quiet", 0.0), ("beside", 0.9), ("again", 0.9)]
        .map(|(name, cpus)| killed_beside(name, cpus));
    resumed(&quiet);
    resumed(&whole);
    let mut kills = 0;
    loop {
        let mut child = repo.bisect(&["--resume", "--quiet"]).spawn().expect("starts");
        let lines = repo.log().len() + 7 + 5 * kills;
        while repo.log().len() < lines && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        if child.try_wait().expect("a child").is_some() {
            break;
        }
        child.kill().expect("killed");
        child.wait().expect("dead");
        kills += 1;
    }
    assert_eq!(runs(&repo.log()), runs(&whole.log()), "killed {kills} times");
    let confirmed =
        |repo: &Repo| runs(&repo.log()).iter().filter(|run| run.contains("confirm")).count();
    assert_eq!((confirmed(&quiet), confirmed(&whole)), (12, 24));
}

#[test]
fn an_interrupt_leaves_the_log_and_nothing_else() {
    let repo = line("interrupt", 20, 9, ["100", "120"]);
    let before = repo.footprint();
    let [good, bad] = [repo.id(1), repo.id(20)];
    let args = ["--good", good, "--bad", bad, "--quiet", "--", "sleep 1000"];
    let mut child = with_default_signals(&repo.bisect(&args)).spawn().expect("starts");
    let marker = repo.state().join("running");
    wait_until(&mut child, |_| {
        std::fs::read_to_string(&marker).is_ok_and(|text| text.ends_with('\n'))
    });
    let running = std::fs::read_to_string(&marker).expect("a marker");
    let output = interrupt(child, Signal::INT);
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("interrupted") && text.contains("--resume"), "{text}");
    let sleeper = running.split(' ').next().expect("an id");
    assert!(!std::path::Path::new(&format!("/proc/{sleeper}")).exists(), "the command is dead");
    assert_eq!(repo.footprint(), before);
    assert!(repo.state().join("log.jsonl").exists());
}

#[test]
fn a_full_disk_loses_no_finished_run() {
    let repo = line("full", 20, 9, ["100", "120"]);
    // A limit on the size of files acts as a full disk: the log stops in the middle of a line.
    let command = repo.bisect(&args(repo.id(1), repo.id(20), NOISY));
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
        .collect();
    let mut limited = std::process::Command::new("/bin/sh");
    // Blocks of 512 bytes; the signal is ignored, so that writing fails instead.
    limited.args(["-c", &format!("trap '' XFSZ; ulimit -f 6; exec {}", words.join(" "))]);
    let output = ends(limited, ENVIRONMENT);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("log.jsonl") && text.contains("--resume"), "{text}");
    let before = runs(&repo.log());
    assert!(!before.is_empty(), "some runs had finished");
    let answer = json(repo.bisect(&["--resume", "--format", "json"]), FINDING);
    assert_eq!(answer["first_bad"], repo.id(9));
    assert_eq!(runs(&repo.log())[..before.len()], before);
}
