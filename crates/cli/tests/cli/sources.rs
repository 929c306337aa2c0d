//! The commands of `docs/sources.md`: every experiment has a plan, and what is short runs small.

use crate::{code, directory, stderr};
use convoy_lab::experiment::{Changes, Experiment, Plan};
use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/sources.md");
/// The experiment of `convoy reproduce` without a name.
const DEFAULT: &str = "semaphore-2008";

/// The commands in the second column of the tables.
fn commands() -> BTreeSet<&'static str> {
    let rows =
        PAGE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| the document"));
    rows.filter_map(|row| row.split(" | ").nth(1)?.split('`').nth(1)).collect()
}

/// The words of a command, with quotes, and without the group of the laboratory.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<String>>(),
            _ => vec![format!("\u{0}{part}")],
        })
        .fold(Vec::new(), |mut words, word| {
            // A quoted part continues no word: `--at "users=1 to 2"`.
            words.push(word.trim_start_matches('\u{0}').to_owned());
            words
        })
        .into_iter()
        .filter(|word| word != "lab")
        .collect()
}

fn after<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| word == flag)?;
    words.get(at + 1).map(String::as_str)
}

/// The experiment that `convoy reproduce` runs.
fn name(words: &[String]) -> &str {
    words.get(2).filter(|word| !word.starts_with("--")).map_or(DEFAULT, String::as_str)
}

/// The flags with which a command takes a second; none if it takes minutes in any form.
fn small(words: &[String]) -> Option<Vec<String>> {
    let list = |flags: &[&str]| flags.iter().map(|&flag| flag.to_owned()).collect::<Vec<String>>();
    let mut all = words.to_vec();
    match words[1].as_str() {
        "list" => {}
        "check" => all.extend(list(&["--budget", "100"])),
        "sim" | "explain" => {
            if let Some(at) = all.iter().position(|word| word == "--users") {
                all.drain(at..at + 2);
            }
            all.extend(list(&["--users", "2", "--shrink", "1000"]));
        }
        // Users are divided by the scale.
        "reproduce" if name(words) == DEFAULT => {
            all.retain(|word| word != "--full");
            if let Some(at) = all.iter().position(|word| word == "--scale") {
                all.drain(at..at + 2);
            }
            all.extend(list(&["--scale", "1000", "--seeds", "1"]));
        }
        _ => return None,
    }
    all.extend(list(&["--quiet"]));
    Some(all)
}

#[test]
fn every_experiment_of_the_page_has_a_plan() {
    let mut planned = 0;
    for command in commands() {
        let words = words(command);
        if words.get(1).is_none_or(|verb| verb != "reproduce" && verb != "explain") {
            continue;
        }
        let name = name(&words);
        let loaded = convoy_catalogue::load::<Experiment>(name, &[]);
        let loaded = loaded.unwrap_or_else(|error| panic!("{command}: {error}"));
        let only = after(&words, "--only").map(str::to_owned).into_iter().collect();
        let changes = Changes { only, ..Changes::default() };
        let plan =
            Plan::new(&loaded, &changes).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(plan.jobs().next().is_some(), "{command}: no cell");
        planned += 1;
    }
    assert!(planned > 20, "{planned}");
}

#[test]
fn the_short_commands_of_the_page_run() {
    let place = directory("sources");
    let mut run = BTreeSet::new();
    for words in commands().into_iter().map(words) {
        if words[0] != "convoy" {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&words[0]);
            assert!(script.is_file(), "{words:?}");
            continue;
        }
        let Some(small) = small(&words) else { continue };
        if !run.insert(small.clone()) {
            continue;
        }
        let args: Vec<&str> = small[1..].iter().map(String::as_str).collect();
        let output = crate::convoy(&args).current_dir(&*place).output().expect("starts");
        // A check that finds something ends with 1.
        assert!(matches!(code(&output), Some(0 | 1)), "{small:?}: {}", stderr(&output));
    }
    assert!(run.len() > 12, "{run:?}");
}
