//! A record or an import through every command that reads one: `explain` with each of its files,
//! `predict`, `fix` and `report`, as the command line runs them.

use crate::output::{assert_own_markup, assert_plain};
use crate::scratch::in_file;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The command lines after `convoy`. `{}` is the input, the other words with a dot are files.
const COMMANDS: [&str; 8] = [
    "explain {} --quiet --all --output text.txt --folded folded.txt --flame flame.svg",
    "explain {} --quiet --format csv --output text.csv --flame flame.html",
    "explain {} --quiet --format json --output text.json",
    "explain {} --quiet --format markdown --output text.md --firefox firefox.json",
    "explain {} --quiet --output screen.txt --trace trace.perfetto",
    "predict {} --quiet --least --rounds 1 --format json --output predict.json",
    "fix {} --quiet --least --rounds 1 --output fix.txt --plot fix.svg",
    "report {} --quiet --least --predict --output report.html",
];

/// Commands of each line that printed a result, since the program started.
static DONE: [AtomicU64; COMMANDS.len()] = [const { AtomicU64::new(0) }; COMMANDS.len()];

/// The commands, each with the number of inputs of which it printed a result.
pub fn done() -> impl Iterator<Item = (&'static str, u64)> {
    COMMANDS.into_iter().zip(DONE.iter().map(|count| count.load(Relaxed)))
}

/// Runs all commands on an input, and checks the files that they write. A refusal of the input is
/// as good as any other answer.
pub(crate) fn run(bytes: &[u8]) {
    const INPUT: &str = "input";
    in_file(INPUT, bytes, |directory| {
        for (line, done) in COMMANDS.iter().zip(&DONE) {
            let words = line.split(' ').map(|word| match word {
                "{}" => directory.join(INPUT).display().to_string(),
                word if word.contains('.') => directory.join(word).display().to_string(),
                word => word.to_owned(),
            });
            match convoy_cli::attempt(std::iter::once("convoy".to_owned()).chain(words)) {
                Ok(_) => drop(done.fetch_add(1, Relaxed)),
                Err(message) => {
                    assert_plain(&message, line);
                    assert!(!message.contains("ended without a result"), "{line}: {message}");
                }
            }
        }
        let files = std::fs::read_dir(directory).expect("ours").map(|file| file.expect("ours"));
        files.map(|file| file.path()).filter(|path| !path.ends_with(INPUT)).for_each(|path| {
            check(&path);
        });
    });
}

/// Checks a file that a command wrote; a trace is binary.
fn check(path: &Path) {
    let kind = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    if kind == "perfetto" {
        return;
    }
    let text = std::fs::read_to_string(path).expect("a text");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    assert_plain(&text, &name);
    match kind.as_str() {
        "json" => drop(serde_json::from_str::<serde_json::Value>(&text).expect("JSON")),
        "html" | "svg" => assert_own_markup(&text, &name),
        _ => {}
    }
}
