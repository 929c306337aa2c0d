//! Untrusted files and names: files that are not records are reported as such, and no text controls
//! the terminal.

use crate::{code, convoy, directory, ends, finish, run, stderr, stdout};
use convoy_record::{Lock, Process, Program, Record, Site, Times, VERSION};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// A record of one lock with this name, a JSON text.
pub(crate) fn record_of(name: &str) -> String {
    let name: String = serde_json::from_str(name).expect("a JSON text");
    let wait = Times { count: 9, total_s: 0.5, max_s: 0.1, buckets: vec![(1000.0, 9)] };
    let site = Site {
        place: name.clone(),
        act: "lock".to_owned(),
        count: 10,
        threads: 2,
        contended: 9,
        wait,
        ..Site::default()
    };
    let lock = Lock { name: name.clone(), instances: 1, sites: vec![site], ..Lock::default() };
    let process = Process {
        pid: 1,
        command: vec![name.clone()],
        seconds: 1.0,
        cpu_s: 1.0,
        ended: true,
        threads: 2,
        sees_switches: true,
        phase_s: 0.01,
        locks: vec![lock],
        ..Process::default()
    };
    let program =
        Program { command: vec![name.clone()], wall_s: 1.0, cpus: 2, ..Program::default() };
    let record =
        Record { recorded: VERSION, program, processes: vec![process], unseen: vec![name] };
    serde_json::to_string(&record).expect("a record has string keys")
}

#[test]
fn what_is_no_record_is_called_that_and_nothing_is_waited_for() {
    let place = directory("hostile-files");
    let pipe = place.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for (name, content) in [
        ("empty", &b""[..]),
        ("blank", b" \n\n"),
        ("packed", b"\x1f\x8b\x08\x00 and so on"),
        ("binary", b"\x7fELF\x02\x01\x01\x00"),
    ] {
        let path = place.write(name, content);
        for command in ["explain", "predict", "fix"] {
            let output = ends(&[command, path], 2);
            assert!(stderr(&output).contains("is not a record"), "{command} {name}: {output:?}");
        }
    }
    for path in ["/dev/zero", pipe.to_str().expect("UTF-8")] {
        let output = ends(&["explain", path], 2);
        assert!(stderr(&output).contains("is not a record"), "{output:?}");
    }
    // A pipe that has a record is read.
    let file = place.write("r.json", record_of("\"f\""));
    let script = format!("exec {} explain <(cat {file})", env!("CARGO_BIN_EXE_convoy"));
    finish(Command::new("bash").args(["-c", &script]), 0);
}

#[test]
fn names_of_any_length_and_of_any_characters_are_printed_harmlessly() {
    let place = directory("hostile-names");
    let long = format!("\"{}\"", "x".repeat(200_000));
    let controls = r#""\u001b]0;owned\u0007\u001b[2J\u009b31m\u202eevil""#;
    for (name, word) in [(long.as_str(), "xxx"), (controls, "owned")] {
        let path = place.write("r.json", record_of(name));
        for format in ["table", "json", "csv"] {
            let output = ends(&["explain", path, "--format", format], 0);
            let text = stdout(&output) + &stderr(&output);
            assert!(text.contains(word), "{format}: {text}");
            let is_bad = |c: char| c.is_control() && !"\n\t".contains(c) || c == '\u{202e}';
            assert!(!text.contains(is_bad), "{format}: {text:?}");
        }
    }
    // Arguments of commands come back by the list of runs.
    let store = place.join("runs.sqlite3");
    let argument = "\u{1b}[31mred";
    let mut command = convoy(&["record", "--kernel", "off", "--", "true", argument]);
    assert_eq!(code(&command.env("CONVOY_STORE", &store).output().expect("it starts")), Some(0));
    for words in [&["runs", "list"][..], &["runs", "show", "1"]] {
        let output = finish(convoy(words).env("CONVOY_STORE", &store), 0);
        assert!(!stdout(&output).contains('\u{1b}'), "{output:?}");
    }
    let mode = std::fs::metadata(&store).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others cannot read command lines");
}

#[test]
fn what_is_written_to_a_path_that_is_no_text_can_be_read() {
    let place = directory("hostile-path");
    let file = place.join(std::ffi::OsString::from_vec(b"r-\xff\xfe.json".to_vec()));
    let mut command = convoy(&["record", "--kernel", "off", "-o"]);
    finish(command.arg(&file).args(["--", "true"]), 0);
    finish(convoy(&["explain"]).arg(&file), 0);
}

#[test]
fn a_cell_of_a_sweep_that_changed_is_not_believed() {
    let place = directory("hostile-cells");
    let dir = place.path("cells");
    let experiment = "title = \"one cell\"\n[inputs]\nmachine = \"quad-2008-two-dies\"\n\
                      shrink = 50\n[[grid]]\nname = \"users\"\ntarget = \"sim\"\n[[grid.axis]]\n\
                      key = \"users\"\nvalues = [10]\n[[grid.axis]]\nkey = \"kernel\"\n\
                      values = [\"2.6.25\"]\n";
    let sheet = place.write("mine.toml", experiment);
    let words = ["sweep", sheet, "--dir", dir, "--quiet"];
    ends(&words, 0);
    let cells = std::fs::read_dir(place.join("cells/cells")).expect("cells").flatten();
    let cell = cells.map(|entry| entry.path()).next().expect("a cell");
    let mut bytes = std::fs::read(&cell).expect("it is there");
    let digit = bytes.iter().rposition(u8::is_ascii_digit).expect("a number");
    let middle = bytes[..digit / 2].iter().rposition(u8::is_ascii_digit).expect("a number");
    bytes[middle] ^= 1;
    std::fs::write(&cell, bytes).expect("written");
    let output = run(&words);
    assert!(stderr(&output).contains("its checksum is another one"), "{output:?}");
    assert_ne!(code(&output), Some(0), "{output:?}");
    // Neither is a cell that has no end, or a writer that never comes.
    std::fs::remove_file(&cell).expect("it goes away");
    assert!(Command::new("mkfifo").arg(&cell).status().expect("mkfifo").success());
    let pipe = run(&words);
    std::fs::remove_file(&cell).expect("it goes away");
    std::os::unix::fs::symlink("/dev/zero", &cell).expect("a link");
    for output in [pipe, run(&words)] {
        assert!(stderr(&output).lines().count() > 0, "{output:?}");
        assert_ne!(code(&output), None, "{output:?}");
    }
}

/// Whether text would control a terminal.
fn controls(text: &str) -> bool {
    text.contains(|c: char| c.is_control() && !"\n\t".contains(c) || c == '\u{202e}')
}

#[test]
fn names_in_imports_are_as_long_and_odd_as_their_files_have_them() {
    let place = directory("hostile-imports");
    let long = "x".repeat(70_000);
    let mut count = 0;
    for entry in std::fs::read_dir("../record/tests/imports").expect("samples").flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named = words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
        let mut names: Vec<&str> = named.filter(|word| word.len() > 6).collect();
        names.sort_unstable();
        names.dedup();
        let path = place.join(entry.file_name());
        for (index, name) in names.iter().enumerate().filter(|(index, _)| index % 4 == 0) {
            let new = if index % 8 == 0 { &*long } else { "\u{1b}[31mred\u{9b}\u{202e}" };
            std::fs::write(&path, text.replace(name, new)).expect("written");
            let output = run(&["explain", path.to_str().expect("UTF-8")]);
            let messages = stderr(&output);
            assert!([Some(0), Some(2)].contains(&code(&output)), "{name}: {messages}");
            assert!(!messages.contains("panicked"), "{name}: {messages}");
            assert!(!controls(&stdout(&output)) && !controls(&messages), "{name}: {output:?}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn names_of_sides_control_no_terminal() {
    let place = directory("hostile-sides");
    let store = place.join("runs.sqlite3");
    let red = "\u{1b}[31mred\u{7}";
    let compare = ["compare", "-r", "4", "-n", red, "-n", "b", "--metric-regex", "1"];
    let commands = ["echo 1 # \u{1b}]0;owned\u{7}", "echo 1"];
    for words in
        [[&compare[..], &commands].concat(), vec!["runs", "list"], vec!["runs", "show", "1"]]
    {
        let output = finish(convoy(&words).env("CONVOY_STORE", &store), 0);
        let text = stdout(&output) + &stderr(&output);
        assert!(!controls(&text.replace('\r', "")), "{words:?}: {text:?}");
    }
}
