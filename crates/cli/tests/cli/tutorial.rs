//! docs/tutorial.md and docs/first-hour.md are what their commands print.

use crate::directory;
use std::path::Path;
use std::process::Command;

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");
const HOUR: &str = include_str!("../../../../docs/first-hour.md");
const PROGRAM: &str = "../../examples/slow-program/orders.c";
const SERVICES: &str = "../../examples/first-hour";

/// The commands of a page, each with its output on the page.
fn commands(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::<(&str, Vec<&str>)>::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().expect("a block ends").lines() {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command, Vec::new())),
                (None, Some((_, printed))) => printed.push(line),
                (None, None) => panic!("`{line}` is before the first command"),
            }
        }
    }
    found
}

/// Whether `text` has the words of `line` one after the other. Any number matches any other, since
/// they differ from run to run, and `…` matches the text that the page leaves out.
fn says(text: &str, line: &str) -> bool {
    let number = |word: &str| word.contains(|letter: char| letter.is_ascii_digit());
    let same = |(one, other): (&&str, &&str)| one == other || number(one) && number(other);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut from = 0;
    line.split('…').all(|part| {
        let part: Vec<&str> = part.split_whitespace().collect();
        let rest = &words[from..];
        let found = (0..=rest.len().saturating_sub(part.len()))
            .find(|&at| rest.len() >= part.len() && rest[at..].iter().zip(&part).all(same));
        from += found.unwrap_or(0) + part.len();
        found.is_some()
    })
}

#[test]
fn a_line_is_found_whatever_its_numbers() {
    let text = "it takes 3 ms:\n  a convoy. Sure to pay: nothing at all";
    assert!(says(text, "takes 41.5 ms: a convoy."));
    assert!(says(text, "it takes … ms: … nothing at all"));
    assert!(!says(text, "it takes some ms:"));
    assert!(!says(text, "nothing … it takes"));
    assert!(!says(text, "nothing at all ever"));
}

/// Runs the commands of a page, or of a section, in `place`, and checks their output.
fn follow(place: &Path, page: &str) {
    let convoy = Path::new(env!("CARGO_BIN_EXE_convoy")).parent().expect("it lies in a directory");
    let path = std::env::var("PATH").expect("a PATH");
    for (command, lines) in commands(page) {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(place).env("CONVOY_STORE", place.join("runs"));
        shell.env("PATH", format!("{}:{path}", convoy.display()));
        let output = shell.output().expect("a shell");
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        let text = text.concat();
        assert!(output.status.success(), "`{command}`: {text}");
        // On a machine that is busy with something else `fix` may not be sure of anything.
        let refuses = text.contains("No prediction") && text.contains("Other programs had");
        let unsure =
            command.starts_with("convoy fix") && (text.starts_with("No advice") || refuses);
        for line in lines.into_iter().filter(|_| !unsure) {
            assert!(says(&text, line), "`{command}` does not print\n{line}\nbut\n{text}");
        }
    }
}

#[test]
fn the_tutorial_prints_what_it_says() {
    let place = directory("tutorial");
    std::fs::copy(PROGRAM, place.join("orders.c")).expect("the program of the tutorial");
    assert!(commands(TUTORIAL).len() >= 8);
    follow(&place, TUTORIAL);
}

#[test]
fn the_first_hour_prints_what_it_says() {
    let place = directory("first-hour");
    for file in std::fs::read_dir(SERVICES).expect("the programs of the page") {
        let file = file.expect("an entry").path();
        std::fs::copy(&file, place.join(file.file_name().expect("a name"))).expect("copied");
    }
    // A task needs the compiler of its language; the first section installs a release.
    let has = |tool: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let tasks: Vec<&str> = HOUR.split("\n## ").skip(2).collect();
    assert_eq!(tasks.len(), 6);
    for task in tasks {
        let tools = ["g++", "rustc", "javac"]
            .into_iter()
            .filter(|tool| task.contains(&format!("$ {tool} ")));
        if tools.into_iter().all(has) {
            follow(&place, task);
        }
    }
}
