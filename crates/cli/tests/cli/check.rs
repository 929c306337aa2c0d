//! `convoy check`: what it finds, and that what it prints replays it.

use crate::{code, json, run, stderr, stdout};

#[test]
fn the_lost_wakeup_is_found_and_its_replay_command_works_as_printed() {
    let args = ["check", "semaphore", "--variant", "published-fix", "--budget", "500"];
    let found = run(&args);
    assert_eq!(code(&found), Some(1), "{}", stderr(&found));
    let text = stdout(&found);
    assert!(text.contains("sleep beside free units"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let commands: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("replay    "))
        .map(|(_, command)| command.trim())
        .collect();
    assert!(!commands.is_empty(), "{text}");
    for command in commands {
        // As a shell would read it: words, the last one in single quotes.
        let (words, quoted) = command.split_once('\'').expect("a quoted schedule");
        let schedule = quoted.strip_suffix('\'').expect("a closing quote");
        let mut words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words.remove(0), "convoy");
        words.push(schedule);
        let replayed = run(&words);
        assert_eq!(code(&replayed), Some(1), "{}", stderr(&replayed));
        assert!(stdout(&replayed).contains("sleep beside free units"));
    }
}

#[test]
fn rows_have_the_agreed_fields() {
    let args = ["check", "semaphore", "--budget", "200", "--format", "json"];
    let value = json(&args, 1);
    let rows = value["rows"].as_array().expect("rows");
    for variant in ["handoff", "published-fix", "opportunistic", "arch"] {
        let mut own = rows.iter().filter(|row| row["variant"] == variant).peekable();
        assert!(own.peek().is_some(), "{variant}");
        for row in own {
            assert_eq!(row["lock"], "semaphore");
            assert!(row["property"].is_string() && row["explored"].is_u64(), "{row}");
            let violation = row["violation"].as_bool().expect("a truth value");
            assert_eq!(row["schedule"].is_string(), violation, "{row}");
            assert!(!violation || variant == "published-fix", "{row}");
        }
    }
    let finding = rows.iter().find(|row| row["violation"] == true).expect("the lost wakeup");
    let schedule = finding["schedule"].as_str().expect("a schedule");
    let replay = ["check", "semaphore", "--format", "json", "--replay", schedule];
    let replayed = json(&replay, 1);
    assert_eq!(replayed["violation"], true);
    assert_eq!(replayed["property"], "no-lost-wakeup");
    assert_eq!(value, json(&args, 1), "the exploration is the same in every process");
}

#[test]
fn every_broken_variant_is_caught() {
    for variant in [
        "busted-lost-wakeup",
        "busted-lose-unit",
        "busted-noop",
        "busted-load-then-store",
        "busted-unfair-ticket",
        "busted-silent-waiter",
    ] {
        let args = ["check", "semaphore", "--variant", variant, "--budget", "5000"];
        let output = run(&args);
        assert_eq!(code(&output), Some(1), "{variant}: {}{}", stdout(&output), stderr(&output));
    }
}
