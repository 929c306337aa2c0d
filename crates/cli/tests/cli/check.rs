//! `convoy check`: its findings, and the replay of its schedules.

use crate::{convoy, ends, json, run, stderr, stdout};

#[test]
fn the_lost_wakeup_is_found_and_its_replay_command_works_as_printed() {
    let args = ["check", "published-fix", "--budget", "500"];
    let found = ends(&args, 1);
    let text = stdout(&found);
    assert!(text.contains("sleep although units are free"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    // The order as a table of tasks by time, with lines of the source.
    let table: Vec<&str> = text.lines().skip_while(|line| !line.ends_with("task 2")).collect();
    assert!(table[1..].iter().any(|line| line.contains(".rs:")));
    let drawn = table.iter().take_while(|line| !line.starts_with("  schedule"));
    assert!(drawn.clone().all(|line| line.chars().count() <= 80), "{text}");
    assert!(drawn.count() > 10, "{text}");
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
        let replayed = ends(&words, 1);
        assert!(stdout(&replayed).contains("sleep although units are free"));
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
    for key in ["variant", "property", "violation", "schedule", "explored"] {
        assert_eq!(value[key], finding[key], "the finding leads");
    }
    let schedule = finding["schedule"].as_str().expect("a schedule");
    let replay = ["check", "semaphore", "--format", "json", "--replay", schedule];
    let replayed = json(&replay, 1);
    assert_eq!(replayed["violation"], true);
    assert_eq!(replayed["property"], "no-lost-wakeup");
    assert_eq!(value, json(&args, 1), "the exploration is the same in every process");
}

#[test]
fn every_broken_lock_is_caught_by_name() {
    let all = json(&["check", "--list", "--format", "json"], 0);
    let busted = all.as_array().expect("rows").iter().filter(|row| row["Family"] == "busted");
    let names: Vec<&str> = busted.map(|row| row["Lock"].as_str().expect("a name")).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let output = ends(&["check", name, "--budget", "5000"], 1);
        let text = stdout(&output);
        assert!(text.starts_with(&format!("{name} violates ")), "{text}");
    }
}

#[test]
fn a_lock_or_a_family_is_checked_and_the_first_sentence_is_the_verdict() {
    let output = ends(&["check", "mutex", "rwlock", "--budget", "200"], 0);
    let text = stdout(&output);
    assert!(text.starts_with("No violation in ") && text.contains(" locks: "), "{text}");
    assert!(text.contains("mutex-spin-mcs") && text.contains("signals"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let text = stdout(&run(&["check", "zone", "--budget", "200"]));
    assert!(
        text.starts_with("published-release-each violates no-deadlock; no violation"),
        "{text}"
    );
}

#[test]
fn the_list_fits_and_has_every_family() {
    let narrow = convoy(&["check", "--list"]).env("COLUMNS", "80").output().expect("starts");
    let text = stdout(&narrow);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // A pipe gets all columns.
    let text = stdout(&run(&["check", "--list"]));
    assert!(text.contains("What it is"), "{text}");
    for family in ["spinlock", "mutex", "semaphore", "rwlock", "rwsem", "zone", "rcu", "busted"] {
        assert!(text.contains(&format!("\n{family} ")), "{family}: {text}");
    }
}

#[test]
fn a_replay_in_csv_has_a_line_for_each_step() {
    let schedule = "cv1:published-fix/two-ups:0,1,2,0";
    let args = ["check", "--replay", schedule, "--format", "csv"];
    let output = ends(&args, 1);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "step,text");
    assert!(lines[1].starts_with("1,") && lines[2].starts_with("2,"), "{text}");
    assert!(lines.last().unwrap().contains("violated: no-lost-wakeup"), "{text}");
    let other = ends(&["check", "zone", "--replay", schedule], 2);
    assert!(stderr(&other).contains("published-fix"), "{}", stderr(&other));
}
